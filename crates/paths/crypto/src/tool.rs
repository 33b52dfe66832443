//! `openssl speed` as the driver of a load: what it can do, and what it says.

use plumb_devices::DeviceKind;
use plumb_model::Statistic;
use plumb_path::tool::{self, DrivenLoad, NotInstalled, Says};
use plumb_path::{Load, PathError, SettingsFault};

use crate::measure::openssl_speed::{OPENSSL, OpensslSpeed};
use crate::metrics::METRICS;
use crate::settings::{CryptoSettings, Driver, LoadSettings};

/// Five times as long is what a slot may take at most.
const SIGNATURES_NS_MAX: u64 = 10_000_000_000;
/// More than this many processes or jobs is a slip of the hand.
const AT_A_TIME_MAX: u32 = 4096;

/// Whether this host has the tool.
///
/// # Errors
/// When it is not installed.
pub(crate) fn feasible() -> Result<(), NotInstalled> {
    OPENSSL.find().map(drop)
}

/// A load that `openssl speed` drives; `None` for Plumbline's own.
///
/// # Errors
/// When no such program exists.
pub(crate) fn driven_load(load: &LoadSettings) -> Result<Option<Box<dyn Load>>, PathError> {
    if load.driver == Driver::Native {
        return Ok(None);
    }
    Ok(Some(Box::new(DrivenLoad::new(OpensslSpeed {
        algorithm: load.algorithm,
        block: load.block,
        threads: load.threads,
        async_jobs: load.async_jobs,
        engine: load.engine.clone(),
        provider: load.provider.clone(),
        options: load.options.clone(),
    })?)))
}

/// Refuses what the driver cannot do.
///
/// # Errors
/// The first such setting, with its key.
pub(crate) fn check(settings: &CryptoSettings) -> Result<(), SettingsFault> {
    let load = &settings.load;
    let is_native = load.driver == Driver::Native;
    let of_openssl = [
        ("load.options", !load.options.is_empty()),
        ("load.threads", load.threads != 1),
        ("load.async_jobs", load.async_jobs.is_some()),
        ("load.engine", load.engine.is_some()),
        ("load.provider", load.provider.is_some()),
    ];
    if let Some((key, _)) = of_openssl.into_iter().find(|(_, is_set)| *is_set && is_native) {
        return Err(SettingsFault::new(
            key,
            "this is for `driver: openssl`; the native driver uses a device on one thread",
        ));
    }
    if is_native {
        return Ok(());
    }
    if settings.system.device != DeviceKind::SoftwareOpenssl {
        let why = "openssl speed uses no device of plumb; name an engine or a provider with `load.engine` or `load.provider`";
        return Err(SettingsFault::new("system.device", why));
    }
    for (key, count) in [("load.threads", Some(load.threads)), ("load.async_jobs", load.async_jobs)] {
        if count.is_some_and(|count| !(1..=AT_A_TIME_MAX).contains(&count)) {
            return Err(SettingsFault::new(key, format!("must be a number from 1 to {AT_A_TIME_MAX}")));
        }
    }
    if load.duration.0 < 1_000_000_000 {
        return Err(SettingsFault::new(
            "load.duration",
            "openssl speed runs for whole seconds; give it at least 1 s",
        ));
    }
    let together_ns = load.duration.0.saturating_add(load.warmup.0);
    if !OpensslSpeed::does_one_thing(load.algorithm) && together_ns > SIGNATURES_NS_MAX {
        let why = "openssl speed measures up to five operations of a key one after another, each for so long; give it at most 10 s \
                   with `warmup`";
        return Err(SettingsFault::new("load.duration", why));
    }
    Ok(())
}

const SAYS: Says = &[("ops", &[]), ("cpu_load", &[])];

/// Why the driver has no such value, and what would have it; `None` where it has one.
pub(crate) fn lacks(load: &LoadSettings, metric: &str, statistic: Option<Statistic>) -> Option<String> {
    let program = load.driver.program()?;
    if metric == crate::metrics::CPU_LOAD.name && !OpensslSpeed::does_one_thing(load.algorithm) {
        return Some(format!(
            "{program} does not report {metric}: openssl speed verifies in the process that signs, and no option separates their \
             CPU time; the native driver measures it"
        ));
    }
    let remedy = "openssl speed prints rates alone, whatever its options; the native driver measures it";
    tool::lacks(program, METRICS, (SAYS, remedy), (metric, statistic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Algorithm;

    #[test]
    fn what_openssl_speed_cannot_do_is_refused_at_its_key() {
        let key = |driver, change: fn(&mut CryptoSettings)| {
            let mut settings = CryptoSettings::default();
            settings.load.driver = driver;
            change(&mut settings);
            check(&settings).err().map(|fault| fault.key)
        };
        let at = |key: &str| Some(key.to_owned());
        assert_eq!(key(Driver::Openssl, |settings| settings.load.threads = 2), None);
        assert_eq!(key(Driver::Native, |settings| settings.load.threads = 2), at("load.threads"));
        assert_eq!(key(Driver::Openssl, |settings| settings.load.threads = 0), at("load.threads"));
        let device = |settings: &mut CryptoSettings| settings.system.device = DeviceKind::SoftwareAwsLc;
        assert_eq!(key(Driver::Openssl, device), at("system.device"));
        assert_eq!(key(Driver::Openssl, |settings| settings.load.duration.0 = 1), at("load.duration"));
        assert_eq!(
            key(Driver::Openssl, |settings| settings.load.duration.0 = 11_000_000_000),
            at("load.duration")
        );
    }

    #[test]
    fn cpu_time_of_a_signature_is_not_known() {
        let of = |algorithm| LoadSettings { driver: Driver::Openssl, algorithm, ..LoadSettings::default() };
        assert!(lacks(&of(Algorithm::Rsa2048), "cpu_load", None).is_some());
        assert_eq!(lacks(&of(Algorithm::Sha256), "cpu_load", None), None);
        assert_eq!(lacks(&of(Algorithm::Rsa2048), "ops", None), None);
        let latency = lacks(&of(Algorithm::Rsa2048), "op_latency", Some(Statistic::P99)).unwrap();
        assert!(latency.starts_with("openssl does not say op_latency.p99: openssl speed prints rates alone"));
        assert_eq!(lacks(&LoadSettings::default(), "op_latency", Some(Statistic::P99)), None);
    }
}
