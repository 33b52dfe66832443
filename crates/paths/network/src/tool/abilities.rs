//! The abilities and outputs of each tool, so that an experiment that asks for more is refused before it runs.

use plumb_model::Statistic;
use plumb_path::SettingsFault;
use plumb_path::tool::{self, Says};

use crate::metrics::METRICS;
use crate::options::{Placement, Receive, ZeroCopy};
use crate::settings::{Driver, LoadSettings, NetworkSettings, SystemKind, Test};

/// sockperf's smallest message.
const SOCKPERF_BYTES_MIN: u64 = 14;
/// iperf3's most streams.
const IPERF3_FLOWS_MAX: u32 = 128;

/// Refuses what the tool cannot do.
///
/// # Errors
/// The first such setting, with its key.
pub(crate) fn check(settings: &NetworkSettings) -> Result<(), SettingsFault> {
    let load = &settings.load;
    let Some(program) = load.driver.program() else {
        return match load.options.is_empty() {
            true => Ok(()),
            false => Err(SettingsFault::new(
                "load.options",
                "this is for another driver; name one with `driver`, such as `driver: iperf3`",
            )),
        };
    };
    let cannot = |key: &str, what: &str| Err(SettingsFault::new(key, format!("{program} {what}")));
    let is = |driver: Driver| load.driver == driver;
    if let Some(test) = load.tests.iter().find(|test| !tests_of(load.driver).contains(test)) {
        let known: Vec<&str> = tests_of(load.driver).iter().map(|test| test.name()).collect();
        return cannot("load.tests", &format!("has no {} here; it has {}", test.name(), known.join(", ")));
    }
    if is(Driver::Qperf) && settings.system.kind == SystemKind::Loopback {
        return cannot(
            "system.kind",
            "listens on every address of its host; give it a network of its own, such as `kind: veth`",
        );
    }
    if load.flows > 1 && !is(Driver::Iperf3) {
        return cannot("load.flows", "has one flow; use iperf3 or the native driver");
    }
    if load.flows > IPERF3_FLOWS_MAX {
        return cannot("load.flows", "has at most 128 flows; use the native driver");
    }
    if load.rate.is_some() && !is(Driver::Iperf3) {
        return cannot("load.rate", "has no fixed rate here; use iperf3 or the native driver");
    }
    let small = |test: &Test| load.size_of(*test).0 < SOCKPERF_BYTES_MIN;
    if is(Driver::Sockperf) && load.tests.iter().any(small) {
        return cannot("load.msg_size", "has messages of at least 14 B; set `msg_size: 14 B` or more");
    }
    if let Some((key, _)) = refused(load).into_iter().find(|(_, is_set)| *is_set) {
        return cannot(key, "is not told this here; use the native driver, or `options`");
    }
    if load.duration.0 < 1_000_000_000 * load.tests.len() as u64 {
        return cannot("load.duration", "runs for whole seconds; give it at least 1 s for each test");
    }
    Ok(())
}

/// Settings that are not handed to a tool.
fn refused(load: &LoadSettings) -> [(&'static str, bool); 8] {
    let is = |driver: Driver| load.driver == driver;
    let has_nodelay = match load.nodelay {
        None => true,
        Some(true) => is(Driver::Iperf3) || is(Driver::Netperf) || is(Driver::Sockperf),
        Some(false) => is(Driver::Sockperf),
    };
    [
        ("load.batch", load.batch != 1),
        ("load.cpus", load.cpus == Placement::Shared),
        ("load.busy_poll", load.busy_poll.0 > 0),
        ("load.zero_copy", load.zero_copy != ZeroCopy::Off && !has_sendfile(load)),
        ("load.receive", load.receive != Receive::Block),
        ("load.send_buffer", load.send_buffer.is_some()),
        ("load.receive_buffer", load.receive_buffer.is_some()),
        ("load.nodelay", !has_nodelay),
    ]
}

fn has_sendfile(load: &LoadSettings) -> bool {
    load.driver == Driver::Iperf3 && load.zero_copy == ZeroCopy::Sendfile
}

/// The tests that a tool can run.
fn tests_of(driver: Driver) -> &'static [Test] {
    match driver {
        Driver::Native | Driver::Netperf => &Test::ALL,
        Driver::Qperf => &[Test::TcpLat, Test::UdpLat, Test::TcpBw, Test::UdpBw],
        Driver::Iperf3 => &[Test::TcpBw, Test::UdpBw],
        // Its throughput is that of the sender alone.
        Driver::Sockperf => &[Test::TcpLat, Test::UdpLat],
    }
}

const MEAN: &[Statistic] = &[Statistic::Avg];

const QPERF: Says = &[
    ("tcp_lat", MEAN),
    ("udp_lat", MEAN),
    ("tcp_bw", &[]),
    ("udp_bw", &[]),
    ("udp_send_bw", &[]),
    ("cpu_load_per_gb", &[]),
];

const IPERF3: Says = &[
    ("tcp_bw", &[]),
    ("udp_bw", &[]),
    ("udp_send_bw", &[]),
    ("udp_loss", &[]),
    ("udp_jitter", &[]),
    ("tcp_retransmits", &[]),
    ("tcp_rtt", &[]),
    ("cpu_load_per_gb", &[]),
];

/// sockperf's statistics of a time.
const ITS_OWN: &[Statistic] = &[
    Statistic::Avg,
    Statistic::Min,
    Statistic::Med,
    Statistic::Max,
    Statistic::P90,
    Statistic::P99,
    Statistic::P999,
];

const SOCKPERF: Says = &[("tcp_lat", ITS_OWN), ("udp_lat", ITS_OWN)];

/// netperf's statistics of a time.
const NETPERF_TIMES: &[Statistic] =
    &[Statistic::Avg, Statistic::Min, Statistic::Med, Statistic::Max, Statistic::P90, Statistic::P99];

const NETPERF: Says = &[
    ("tcp_lat", NETPERF_TIMES),
    ("udp_lat", NETPERF_TIMES),
    ("tcp_crr", &[]),
    ("tcp_crr_latency", NETPERF_TIMES),
    ("tcp_bw", &[]),
    ("udp_bw", &[]),
    ("udp_send_bw", &[]),
    ("udp_loss", &[]),
    ("cpu_load_per_gb", &[]),
];

/// Why a load by this driver has no such value, and what would print it; `None` where it has one.
pub(crate) fn lacks(driver: Driver, metric: &str, statistic: Option<Statistic>) -> Option<String> {
    let program = driver.program()?;
    let says: (Says, &str) = match driver {
        Driver::Native => return None,
        Driver::Qperf => (
            QPERF,
            "it prints means and bandwidths, whatever its options; sockperf, netperf and the native driver have percentiles",
        ),
        Driver::Iperf3 => (IPERF3, "no option of iperf3 prints it; the native driver measures it"),
        Driver::Sockperf => (
            SOCKPERF,
            "its summary has no more; `--full-log` writes the time of each message, which `plumb import` reads",
        ),
        Driver::Netperf => (NETPERF, "its `-k` has no such key; the native driver measures it"),
    };
    tool::lacks(program, METRICS, says, (metric, statistic))
}

#[cfg(test)]
mod tests {
    use plumb_model::{Bytes, Rate, Span};

    use super::*;

    #[test]
    fn what_a_tool_cannot_do_is_refused_at_its_key() {
        let key = |driver, change: fn(&mut NetworkSettings)| {
            let mut settings = NetworkSettings::default();
            settings.system.kind = SystemKind::Veth;
            settings.load.driver = driver;
            settings.load.tests = vec![tests_of(driver)[0]];
            settings.load.msg_size = Some(Bytes(64));
            change(&mut settings);
            check(&settings).err().map(|fault| fault.key)
        };
        for driver in [Driver::Qperf, Driver::Iperf3, Driver::Sockperf, Driver::Netperf] {
            assert_eq!(key(driver, |_| {}), None, "{driver:?}");
            assert_eq!(
                key(driver, |of| of.load.cpus = Placement::Shared),
                Some("load.cpus".to_owned()),
                "{driver:?}"
            );
        }
        let refused = |driver, change| key(driver, change).unwrap();
        assert_eq!(refused(Driver::Qperf, |of| of.system.kind = SystemKind::Loopback), "system.kind");
        assert_eq!(refused(Driver::Qperf, |of| of.load.tests = vec![Test::TcpCrr]), "load.tests");
        assert_eq!(refused(Driver::Sockperf, |of| of.load.tests = vec![Test::TcpBw]), "load.tests");
        assert_eq!(refused(Driver::Sockperf, |of| of.load.msg_size = None), "load.msg_size");
        assert_eq!(refused(Driver::Netperf, |of| of.load.flows = 2), "load.flows");
        assert_eq!(refused(Driver::Iperf3, |of| of.load.flows = 129), "load.flows");
        assert_eq!(refused(Driver::Netperf, |of| of.load.rate = Some(Rate(5.0))), "load.rate");
        assert_eq!(refused(Driver::Iperf3, |of| of.load.nodelay = Some(false)), "load.nodelay");
        assert_eq!(refused(Driver::Iperf3, |of| of.load.duration = Span(10)), "load.duration");
        assert_eq!(refused(Driver::Native, |of| of.load.options = vec!["-x".to_owned()]), "load.options");
        assert_eq!(key(Driver::Iperf3, |of| of.load.zero_copy = ZeroCopy::Sendfile), None);
    }

    #[test]
    fn what_a_tool_does_not_say_is_named_with_what_does() {
        let lacks = |driver, metric, statistic| lacks(driver, metric, Some(statistic));
        assert_eq!(lacks(Driver::Qperf, "tcp_lat", Statistic::Avg), None);
        let found = lacks(Driver::Qperf, "tcp_lat", Statistic::P99).unwrap();
        assert!(found.starts_with("qperf does not say tcp_lat.p99: it prints means"), "{found}");
        assert!(lacks(Driver::Sockperf, "udp_lat", Statistic::P95).is_some());
        assert_eq!(lacks(Driver::Native, "udp_lat", Statistic::P95), None);
        assert_eq!(super::lacks(Driver::Iperf3, "cpu_system", None), None);
        assert!(super::lacks(Driver::Iperf3, "udp_reordered", None).is_some());
    }
}
