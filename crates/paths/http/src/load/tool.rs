//! Tools that can drive the load: wrk, ab, h2load, k6, vegeta and oha.

mod abilities;
mod arguments;

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::process::{run_for_output, which};
use plumb_model::{Measurement, Metric, Notice, NoticeKind, Reading};
use plumb_path::tool::{DrivenLoad, Invocation, NotInstalled, Program, Tool};
use plumb_path::{AnyError, Load, PathError};

use self::arguments::VEGETA_RESULTS;

use super::names;
use crate::metrics::METRICS;
use crate::settings::{Driver, IngressSettings, LoadProtocol, LoadSettings};
use crate::target::Target;
use crate::url::{Url, UrlError};

pub(crate) use self::abilities::{check, lacks};

/// k6 ends with this code where a threshold of its script was crossed. The run is whole.
const THRESHOLD_CROSSED: i32 = 99;
/// The time limit for vegeta's report on its results.
const REPORT: Duration = Duration::from_secs(30);

/// Why a tool cannot drive the load.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Machine(#[from] plumb_host::Error),
    /// The tool connects to the host of the URL, and the system is elsewhere.
    #[error(
        "{program} connects to {host} by that name, which does not lead to {connect} here: use `driver: native`, or have the name \
         resolved"
    )]
    Elsewhere { program: &'static str, host: String, connect: String },
    /// The tool was removed during the run.
    #[error("it is not installed any more")]
    Gone,
}

/// Whether this host has the tool, and the tool reaches the system: none connects to an address under another name.
///
/// # Errors
/// When the tool is not installed, or cannot reach the system.
pub(crate) fn feasible(driver: Driver, ingress: &IngressSettings) -> Result<(), ToolError> {
    let Some(program) = program(driver) else { return Ok(()) };
    program.find()?;
    let (Some(connect), Some(url)) = (&ingress.connect, &ingress.url) else { return Ok(()) };
    let url = Url::parse(url)?;
    let at = |connect: Option<String>| Target { connect, ..Target::default() }.addresses(&url);
    let there = at(Some(connect.clone()))?;
    if at(None).is_ok_and(|named| named.iter().any(|address| there.contains(address))) {
        return Ok(());
    }
    Err(ToolError::Elsewhere { program: program.name, host: url.host, connect: connect.clone() })
}

/// Each tool has another option for its version, and wrk says it beside its usage.
fn program(driver: Driver) -> Option<Program> {
    let (version, remedy) = match driver {
        Driver::Native => return None,
        Driver::Wrk => ("-v", "on Debian: apt install wrk"),
        Driver::Ab => ("-V", "on Debian: apt install apache2-utils"),
        Driver::H2load => ("--version", "on Debian: apt install nghttp2-client"),
        Driver::K6 => ("version", "see grafana.com/docs/k6, or: go install go.k6.io/k6@latest"),
        Driver::Vegeta => ("--version", "go install github.com/tsenart/vegeta/v12@latest"),
        Driver::Oha => ("--version", "cargo install oha"),
    };
    Some(Program { name: driver.program()?, version, remedy })
}

/// A load that a tool drives against a target; `None` for Plumbline's own.
///
/// # Errors
/// When the tool or the URL cannot be used.
pub(crate) fn driven_load(
    settings: &LoadSettings,
    target: &Target,
    scratch: PathBuf,
) -> Result<Option<Box<dyn Load>>, PathError> {
    let Some(program) = program(settings.driver) else { return Ok(None) };
    let url = Url::parse(&target.url).map_err(PathError::load)?;
    let netns = target.netns.clone();
    let tool = HttpTool { settings: settings.clone(), program, url, scratch, netns };
    Ok(Some(Box::new(DrivenLoad::new(tool)?)))
}

struct HttpTool {
    settings: LoadSettings,
    program: Program,
    url: Url,
    scratch: PathBuf,
    netns: Option<PathBuf>,
}

impl Tool for HttpTool {
    fn program(&self) -> Program {
        self.program
    }

    fn invocation(&self, window_ns: u64) -> Result<Invocation, AnyError> {
        let invocation = arguments::invocation(&self.settings, &self.url, window_ns, &self.scratch)?;
        Ok(Invocation { netns: self.netns.clone(), ..invocation })
    }

    fn metrics(&self) -> &'static [Metric] {
        METRICS
    }

    fn threads(&self) -> u32 {
        match self.settings.driver {
            Driver::Ab => 1,
            _ => self.settings.threads,
        }
    }

    fn is_whole(&self, code: i32) -> bool {
        code == 0 || self.settings.driver == Driver::K6 && code == THRESHOLD_CROSSED
    }

    fn results(&self, said: String) -> Result<String, AnyError> {
        if self.settings.driver == Driver::Vegeta { Ok(report_of_vegeta(&self.scratch)?) } else { Ok(said) }
    }

    fn complete(&self, measurement: &mut Measurement) {
        if let Some(Reading::Summary { .. }) = measurement.readings.get("http_req_duration") {
            measurement.notices.push(Notice::from(NoticeKind::NoDistribution).about([self.program.name]));
        }
        // oha names no protocol. With `--http-version 2` it reads no other one, so what it counts was answered in HTTP/2.
        let is_known = self.settings.driver == Driver::Oha && self.settings.protocol == LoadProtocol::H2;
        if is_known && measurement.work > 0 {
            let spoken = [("h2".to_owned(), measurement.work)];
            measurement.observed.insert("protocol".to_owned(), spoken.into());
        }
        rename(measurement, "cipher", names::reported_cipher);
        rename(measurement, "group", names::reported_group);
    }
}

/// Gives the values of a property the names that Plumbline's own load reports.
fn rename(measurement: &mut Measurement, property: &str, reported: impl Fn(&str) -> String) {
    if let Some(values) = measurement.observed.get_mut(property) {
        *values = values.iter().map(|(name, count)| (reported(name), *count)).collect();
    }
}

/// Vegeta's report on the results that its attack wrote.
fn report_of_vegeta(scratch: &Path) -> Result<String, ToolError> {
    let file = which("vegeta").ok_or(ToolError::Gone)?;
    let results = scratch.join(VEGETA_RESULTS);
    let arguments = ["report".as_ref(), "-type=json".as_ref(), results.as_os_str()];
    let output = run_for_output(&file, arguments, REPORT)?;
    // An attack that is tried again must not read what an earlier one wrote.
    let _ = std::fs::remove_file(&results);
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The measurement of a tool of which this was read.
    fn completed(settings: LoadSettings, mut read: Measurement) -> Measurement {
        let (program, url) = (program(settings.driver).unwrap(), Url::parse("http://127.0.0.1/").unwrap());
        HttpTool { settings, program, url, scratch: PathBuf::new(), netns: None }.complete(&mut read);
        read
    }

    #[test]
    fn suites_and_groups_have_the_names_that_the_native_load_gives_them() {
        let one = |name: &str| [(name.to_owned(), 1)].into();
        let named = |cipher, group| {
            let observed = [("cipher".to_owned(), one(cipher)), ("group".to_owned(), one(group))].into();
            let settings = LoadSettings { driver: Driver::H2load, ..LoadSettings::default() };
            completed(settings, Measurement { observed, ..Measurement::default() }).observed
        };
        let old = named("ECDHE-RSA-AES128-GCM-SHA256", "prime256v1");
        assert_eq!(old, named("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "secp256r1"));
        assert_eq!(old["cipher"], one("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"));
        assert_eq!(named("TLS_AES_128_GCM_SHA256", "X25519")["group"], one("x25519"));
    }

    #[test]
    fn answers_that_oha_counts_in_its_mode_of_http_2_were_in_http_2() {
        let protocols = |protocol, work| {
            let settings = LoadSettings { driver: Driver::Oha, protocol, ..LoadSettings::default() };
            completed(settings, Measurement { work, ..Measurement::default() })
                .observed_count("protocol", "h2")
        };
        assert_eq!(protocols(LoadProtocol::H2, 100), 100);
        assert_eq!(protocols(LoadProtocol::H2, 0), 0);
        assert_eq!(protocols(LoadProtocol::H1, 100), 0);
    }
}
