//! Each tool's abilities and output, so that an experiment that asks for more is refused before it runs.

use plumb_model::{Bytes, Statistic};
use plumb_path::SettingsFault;
use plumb_path::tool::{self, Says};

use crate::metrics::METRICS;
use crate::settings::{Announced, Driver, LoadProtocol, LoadSettings, Reuse};

/// Refuses what the tool cannot do.
///
/// # Errors
/// The first such setting, with its key.
pub(crate) fn check(settings: &LoadSettings) -> Result<(), SettingsFault> {
    let Some(program) = settings.driver.program() else {
        return only_of_tools(settings);
    };
    let cannot = |key: &str, what: &str| Err(SettingsFault::new(key, format!("{program} {what}")));
    let is = |driver: Driver| settings.driver == driver;
    let has_rate = is(Driver::Vegeta) || is(Driver::Oha);
    if settings.rate.is_some() && !has_rate {
        return cannot(
            "load.rate",
            "has no fixed rate here; use the native driver, vegeta, oha, or k6 with a script that has one",
        );
    }
    if settings.rate.is_some_and(|rate| rate.0 < 1.0 || rate.0.fract() != 0.0) {
        return cannot("load.rate", "takes whole requests per second");
    }
    if settings.requests.is_some() {
        return cannot("load.requests", "is run for a time here; use `duration`");
    }
    if settings.resumption.0 > 0.0 {
        return cannot(
            "load.resumption",
            "does not let itself be told which sessions to resume; use the native driver",
        );
    }
    if !settings.checks.is_empty() {
        return cannot(
            "load.checks",
            "does not check answers here; use the native driver, or k6 with a script that does",
        );
    }
    for (key, is_set) in [
        ("load.sni", settings.sni.is_some()),
        ("load.alpn", !settings.alpn.is_empty()),
        ("load.client_certificate", settings.client_certificate.is_some()),
        ("load.group", settings.group.is_some()),
    ] {
        if is_set {
            return cannot(key, "has no such option here; use the native driver");
        }
    }
    if settings.script.is_some() && !is(Driver::K6) {
        return cannot("load.script", "runs no script; `script` is for k6");
    }
    if (settings.method != "GET" || settings.body.is_some()) && !(is(Driver::K6) || has_rate) {
        return cannot(
            "load.method",
            "sends GET without a body here; use the native driver, k6, vegeta or oha",
        );
    }
    if settings.cipher.is_some() && !(is(Driver::Ab) || is(Driver::H2load)) {
        return cannot("load.cipher", "has no option for the cipher; use ab, h2load or the native driver");
    }
    if settings.tls.is_some() && !(is(Driver::Ab) || is(Driver::K6)) {
        return cannot("load.tls", "has no option for the version of TLS; set that of the ingress");
    }
    if settings.reuse == Reuse::None && is(Driver::H2load) {
        return cannot("load.reuse", "keeps its connections; use ab, wrk, k6 or the native driver");
    }
    if settings.threads > 1 && is(Driver::Ab) {
        return cannot("load.threads", "has one thread");
    }
    if settings.threads > 1 && is(Driver::Oha) {
        return cannot("load.threads", "has a thread for each CPU of its side; leave it out");
    }
    if settings.duration.0 < 1_000_000_000 {
        return cannot("load.duration", "runs for whole seconds; give it at least 1 s");
    }
    check_http2(settings, program)
}

/// Refuses what the tool cannot announce in HTTP/2.
fn check_announced(settings: &LoadSettings, program: &str) -> Result<(), SettingsFault> {
    for Announced { key, bytes, .. } in Announced::changed(settings) {
        let is_window = key.starts_with("load.windows.");
        let why = match settings.driver {
            Driver::H2load if is_window && window_bits(bytes).is_none() => {
                "accepts only windows of 2^N - 1 bytes, such as `65535 B`; the largest is `1073741823 B`; use the native driver"
            }
            Driver::H2load => continue,
            _ => "has no such option here; use h2load or the native driver",
        };
        return Err(SettingsFault::new(key, format!("{program} {why}")));
    }
    Ok(())
}

/// Refuses what the tool cannot do in HTTP/2.
fn check_http2(settings: &LoadSettings, program: &str) -> Result<(), SettingsFault> {
    check_announced(settings, program)?;
    let (key, what) = match settings.driver {
        _ if settings.protocol != LoadProtocol::H2 => return Ok(()),
        Driver::Wrk | Driver::Ab | Driver::Vegeta => {
            ("load.protocol", "speaks HTTP/1.1 only here; use the native driver, h2load, k6 or oha")
        }
        // Each virtual user has a separate connection, also in HTTP/2 (grafana/k6, `internal/js/runner.go`).
        Driver::K6 if settings.streams > 1 => (
            "load.streams",
            "makes 1 request at a time on a connection; use the native driver, h2load or oha",
        ),
        Driver::Oha if settings.reuse == Reuse::None => {
            ("load.reuse", "keeps its connections of HTTP/2; use the native driver or k6")
        }
        Driver::Oha if settings.host.is_some() => (
            "load.host",
            "sends the host of the URL with HTTP/2, and `host` beside it; use the native driver or h2load",
        ),
        _ => return Ok(()),
    };
    Err(SettingsFault::new(key, format!("{program} {what}")))
}

/// The number that h2load takes for a window; `None` where it cannot have that window.
pub(super) fn window_bits(window: Bytes) -> Option<u32> {
    let size = window.0.checked_add(1)?;
    let bits = size.ilog2();
    (size.is_power_of_two() && bits <= 30).then_some(bits)
}

fn only_of_tools(settings: &LoadSettings) -> Result<(), SettingsFault> {
    let of_tools =
        [("load.options", !settings.options.is_empty()), ("load.script", settings.script.is_some())];
    match of_tools.into_iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => Err(SettingsFault::new(
            key,
            "this is for another driver; name one with `driver`, such as `driver: k6`",
        )),
        None => Ok(()),
    }
}

/// The statistics that most tools print for a time.
const TO_P99: &[Statistic] = &[
    Statistic::Avg,
    Statistic::Min,
    Statistic::Med,
    Statistic::Max,
    Statistic::P90,
    Statistic::P95,
    Statistic::P99,
];

const VEGETA: Says = &[
    ("http_reqs", &[]),
    ("data_received", &[]),
    ("data_sent", &[]),
    ("http_req_failed", &[]),
    ("iteration_duration", TO_P99),
];

const OHA: Says = &[
    ("http_reqs", &[]),
    ("data_received", &[]),
    ("http_req_failed", &[]),
    ("iteration_duration", &Statistic::ALL),
];

/// Why they have no more.
const WHOLE: &str = "its times include connecting and TLS; k6 and the native driver have them apart";

/// Why a load by this driver has no such value, and what would print it; `None` where it has one.
pub(crate) fn lacks(driver: Driver, metric: &str, statistic: Option<Statistic>) -> Option<String> {
    use Statistic::{Avg, Max, Med, Min, P90, P99};
    let program = driver.program()?;
    let says: (Says, &str) = match driver {
        Driver::Native => return None,
        Driver::Wrk => (
            &[
                ("http_reqs", &[]),
                ("data_received", &[]),
                ("http_req_failed", &[]),
                ("http_req_duration", &[Avg, Max, Med, P90, P99]),
            ],
            "wrk --latency prints no other; k6 and the native driver do",
        ),
        Driver::Ab => (
            &[
                ("http_reqs", &[]),
                ("data_received", &[]),
                ("http_req_failed", &[]),
                ("iteration_duration", TO_P99),
                ("http_req_duration", &[Avg, Min, Med, Max]),
                ("http_req_blocked", &[Avg, Min, Med, Max]),
                ("http_req_waiting", &[Avg, Min, Med, Max]),
            ],
            "ab prints no other, whatever its options; k6 and the native driver do",
        ),
        Driver::H2load => (
            &[
                ("http_reqs", &[]),
                ("data_received", &[]),
                ("http_req_failed", &[]),
                ("http_req_duration", &[Avg, Min, Max]),
            ],
            "h2load --log-file has the time of each request; `plumb import` reads it",
        ),
        Driver::K6 => (
            &[
                ("http_reqs", &[]),
                ("data_received", &[]),
                ("data_sent", &[]),
                ("http_req_failed", &[]),
                ("iteration_duration", &Statistic::ALL),
                ("http_req_duration", &Statistic::ALL),
                ("http_req_blocked", &Statistic::ALL),
                ("http_req_connecting", &Statistic::ALL),
                ("http_req_tls_handshaking", &Statistic::ALL),
                ("http_req_sending", &Statistic::ALL),
                ("http_req_waiting", &Statistic::ALL),
                ("http_req_receiving", &Statistic::ALL),
                ("checks", &[]),
            ],
            "the native driver measures it",
        ),
        Driver::Vegeta => (VEGETA, WHOLE),
        Driver::Oha => (OHA, WHOLE),
    };
    tool::lacks(program, METRICS, says, (metric, statistic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_cannot_do_is_refused_at_its_key() {
        let key = |driver, change: fn(&mut LoadSettings)| {
            let mut settings = LoadSettings { driver, ..LoadSettings::default() };
            change(&mut settings);
            check(&settings).err().map(|fault| fault.key)
        };
        assert_eq!(key(Driver::Wrk, |_| ()), None);
        assert_eq!(
            key(Driver::Wrk, |settings| settings.checks.push("status == 200".to_owned())),
            Some("load.checks".to_owned())
        );
        assert_eq!(
            key(Driver::H2load, |settings| settings.reuse = Reuse::None),
            Some("load.reuse".to_owned())
        );
        assert_eq!(key(Driver::Ab, |settings| settings.threads = 2), Some("load.threads".to_owned()));
        assert_eq!(
            key(Driver::Oha, |settings| settings.header_table = Bytes(0)),
            Some("load.header_table".to_owned())
        );
        assert_eq!(
            key(Driver::Native, |settings| settings.script = Some("a.js".to_owned())),
            Some("load.script".to_owned())
        );
    }

    #[test]
    fn http_2_is_refused_where_a_tool_cannot_speak_it_as_asked() {
        let fault = |driver, change: fn(&mut LoadSettings)| {
            let mut settings = LoadSettings { driver, protocol: LoadProtocol::H2, ..LoadSettings::default() };
            change(&mut settings);
            check(&settings).map_or_else(|fault| fault.to_string(), |()| "none".to_owned())
        };
        assert_eq!(fault(Driver::H2load, |settings| settings.streams = 8), "none");
        assert_eq!(fault(Driver::Oha, |settings| settings.streams = 8), "none");
        assert_eq!(fault(Driver::K6, |settings| settings.reuse = Reuse::None), "none");
        let faults = [
            fault(Driver::Vegeta, |_| ()),
            fault(Driver::K6, |settings| settings.streams = 2),
            fault(Driver::Oha, |settings| settings.reuse = Reuse::None),
            fault(Driver::Oha, |settings| settings.host = Some("a".to_owned())),
        ];
        insta::assert_snapshot!(faults.join("\n"), @"
        load.protocol: vegeta speaks HTTP/1.1 only here; use the native driver, h2load, k6 or oha
        load.streams: k6 makes 1 request at a time on a connection; use the native driver, h2load or oha
        load.reuse: oha keeps its connections of HTTP/2; use the native driver or k6
        load.host: oha sends the host of the URL with HTTP/2, and `host` beside it; use the native driver or h2load
        ");
    }

    #[test]
    fn h2load_has_windows_of_a_power_of_two_less_one() {
        let bits = |bytes| window_bits(Bytes(bytes));
        assert_eq!([bits(1), bits(65_535), bits((1 << 30) - 1)], [Some(1), Some(16), Some(30)]);
        assert_eq!([bits(65_536), bits((1 << 31) - 1)], [None, None]);
        let mut settings = LoadSettings { driver: Driver::H2load, ..LoadSettings::default() };
        settings.windows.stream = Bytes(64 << 10);
        assert_eq!(check(&settings).unwrap_err().key, "load.windows.stream");
        settings.windows.stream = Bytes((64 << 10) - 1);
        check(&settings).unwrap();
    }

    #[test]
    fn what_a_tool_does_not_say_is_named_with_what_does() {
        assert_eq!(lacks(Driver::Wrk, "http_req_duration", Some(Statistic::P99)), None);
        let found = lacks(Driver::Wrk, "http_req_duration", Some(Statistic::P95)).unwrap();
        assert_eq!(
            found,
            "wrk does not say http_req_duration.p95: wrk --latency prints no other; k6 and the native driver do"
        );
        assert!(lacks(Driver::Ab, "http_req_tls_handshaking", Some(Statistic::Avg)).is_some());
        assert_eq!(lacks(Driver::Native, "http_req_service", Some(Statistic::P999)), None);
        assert_eq!(lacks(Driver::Ab, "cpu_load", None), None);
    }
}
