//! The evidence of how messages that go one way were handed to the kernel (as many at a time as were asked for, and without a
//! copy where that was asked for) and of how they were received.

use plumb_model::{Evidence, Measurement, facts, statements};

use crate::load::{COPIED, SHARED};
use crate::options::{Receive, ZeroCopy};
use crate::settings::{NetworkSettings, SystemKind, Test};
use crate::wire::batch::{segments_max, segments_name};
use crate::wire::options::{EMPTY_POLLS, PAUSES, RECEIVES};

statements! {
    AT_A_TIME = "messages-per-call": "{of} messages at a time", "{asked:.1} a call",
        "{mean:.1} a call: {messages} in {calls} calls ({by})";
    RECEIVER = "receiver": "{of} receiver", "{asked}", "{seen}";
    GRO = "udp-gro": "UDP_GRO at the receiver", "on, where its kernel has it", "{seen}: {messages} messages came in {pieces} pieces";
    SENDFILE = "sendfile": "sendfile without a copy", "a page that is changed after it was handed over arrives changed",
        "so {shared} of {times} times; {calls} calls of sendfile";
    ZEROCOPY = "msg-zerocopy": "MSG_ZEROCOPY without a copy", "most sends, as the kernel says", "{lent} of {sends}{rest}";
}

/// The share of a batch that calls may miss on average: the kernel takes less of it when a queue is full.
const MISSED_MAX: f64 = 0.1;

/// The counts of all of it.
pub fn evidence(settings: &NetworkSettings, measurement: &Measurement) -> Vec<Evidence> {
    let load = &settings.load;
    let mut evidence = Vec::new();
    if load.batch > 1 {
        let tests = load.tests.iter().filter(|test| test.is_bandwidth());
        evidence.extend(tests.map(|test| at_a_time(*test, settings, measurement)));
        evidence.extend(load.tests.contains(&Test::UdpBw).then(|| joined(measurement)));
    }
    evidence.extend(
        load.tests
            .iter()
            .filter(|test| test.is_bandwidth())
            .map(|test| receives(*test, load.receive, measurement)),
    );
    match load.zero_copy {
        ZeroCopy::Off => {}
        ZeroCopy::Sendfile => evidence.push(shared(measurement)),
        ZeroCopy::MsgZerocopy => evidence.push(lent(settings, measurement)),
    }
    evidence
}

/// How many messages each call took.
fn at_a_time(test: Test, settings: &NetworkSettings, measurement: &Measurement) -> Evidence {
    let (batch, size) = (settings.load.batch, settings.load.size_of(test).0);
    let prefix = format!("{}: ", test.name());
    let seen = measurement.values_of("send_calls");
    let seen: Vec<(&str, u64)> =
        seen.filter_map(|(by, count)| Some((by.strip_prefix(&prefix)?, count))).collect();
    let segments = segments_name(i32::try_from(size).unwrap_or(i32::MAX));
    let is_cut = seen.iter().any(|(by, _)| *by == segments);
    // More than fits into one call takes several of the same length but for the last.
    let parts =
        if is_cut { batch.div_ceil(u32::try_from(segments_max(size as usize)).unwrap_or(1)) } else { 1 };
    let asked = f64::from(batch) / f64::from(parts);
    let calls: u64 = seen.iter().map(|(_, count)| count).sum();
    let messages = measurement.observed_count("messages_sent", test.name());
    let mean = messages as f64 / calls.max(1) as f64;
    // A socket that cuts to another size than it was told to is none of these.
    let is_known = |by: &str| !test.is_udp() || by == segments || by == "sendmmsg";
    let words: Vec<&str> = seen.iter().map(|(by, _)| *by).collect();
    let (by, is_known) = (words.join(", "), words.into_iter().all(is_known));
    let holds = calls > 0 && mean >= asked * (1.0 - MISSED_MAX) && is_known;
    AT_A_TIME.evidence(holds, facts![of = test.name(), asked, mean, messages, calls, by])
}

/// How the receiver waited for data, as it counted its own calls.
fn receives(test: Test, way: Receive, measurement: &Measurement) -> Evidence {
    let prefix = format!("{} ", test.name());
    let seen = measurement.values_of("receive");
    let seen: Vec<(&str, u64)> =
        seen.filter_map(|(what, count)| Some((what.strip_prefix(&prefix)?, count))).collect();
    let own = format!("{}: ", way.name());
    let of = |what: &str| {
        let counts = seen.iter().filter(|(name, _)| name.strip_prefix(&own) == Some(what));
        counts.map(|(_, count)| count).sum::<u64>()
    };
    let words = |(what, count): &(&str, u64)| match what.split_once(": ") {
        Some((way, what)) => format!("{way}: {count} {what}"),
        None => format!("{what} ({count})"),
    };
    let words: Vec<String> = seen.iter().map(words).collect();
    let holds = of(RECEIVES) > 0
        && seen.iter().all(|(what, _)| what.starts_with(&own))
        && (of(EMPTY_POLLS) > 0) <= (way == Receive::Poll)
        && (of(PAUSES) > 0) == (way == Receive::Pause);
    let seen = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    RECEIVER.evidence(holds, facts![of = test.name(), asked = way.name(), seen])
}

/// Whether the receiver's kernel was told to hand over as one what came in a row. A kernel that cannot is not a fault of the
/// batch, which is the sender's.
fn joined(measurement: &Measurement) -> Evidence {
    let seen: Vec<&str> = measurement.values_of("udp_gro").map(|(value, _)| value).collect();
    let taken = |what| measurement.observed_count("udp_bw_taken", what);
    let holds = !seen.is_empty() && !seen.contains(&"off");
    let seen = if seen.is_empty() { "nothing".to_owned() } else { seen.join(", ") };
    GRO.evidence(holds, facts![seen, messages = taken("messages"), pieces = taken("pieces")])
}

/// Whether pages that were handed over with `sendfile` were sent from where they are.
fn shared(measurement: &Measurement) -> Evidence {
    let of = |what| measurement.observed_count("sendfile", what);
    let (shared, copied) = (of(SHARED), of(COPIED));
    let calls = measurement.observed_count("send_calls", "tcp_bw: sendfile");
    // One that arrives as it was may have been sent before it was changed, on a host that stood still.
    let holds = shared > 0 && calls > 0;
    SENDFILE.evidence(holds, facts![shared, times = shared + copied, calls])
}

/// Evidence from the kernel's notifications about sends from borrowed memory.
fn lent(settings: &NetworkSettings, measurement: &Measurement) -> Evidence {
    let of = |what| measurement.observed_count("msg_zerocopy", what);
    let (lent, copied) = (of(SHARED), of(COPIED));
    let why = if settings.system.kind == SystemKind::External {
        ""
    } else {
        ", as it always does for a receiver on the same host"
    };
    let rest = if copied > 0 { format!("; it copied {copied} after all{why}") } else { String::new() };
    ZEROCOPY.evidence(lent > copied, facts![lent, sends = lent + copied, rest])
}

#[cfg(test)]
mod tests {
    use plumb_model::Bytes;

    use super::*;

    fn settings(test: Test, batch: u32, zero_copy: ZeroCopy) -> NetworkSettings {
        let mut settings = NetworkSettings::default();
        settings.load.tests = vec![test];
        settings.load.msg_size = Some(Bytes(64));
        settings.load.batch = batch;
        settings.load.zero_copy = zero_copy;
        settings
    }

    fn measurement(observed: &[(&str, &str, u64)]) -> Measurement {
        let mut measurement = Measurement::default();
        for (property, value, count) in observed {
            let values = measurement.observed.entry((*property).to_owned()).or_default();
            values.insert((*value).to_owned(), *count);
        }
        measurement
    }

    fn broken(settings: &NetworkSettings, observed: &[(&str, &str, u64)]) -> Vec<String> {
        let receives: Vec<String> =
            settings.load.tests.iter().map(|test| format!("{} block: receives", test.name())).collect();
        let blocked = receives.iter().map(|what| ("receive", what.as_str(), 5));
        let observed: Vec<_> = observed.iter().copied().chain(blocked).collect();
        let evidence = evidence(settings, &measurement(&observed)).into_iter();
        evidence.filter(|one| !one.holds).map(|one| one.what).collect()
    }

    #[test]
    fn messages_that_went_one_by_one_are_no_batch() {
        let settings = settings(Test::UdpBw, 64, ZeroCopy::Off);
        let of = |by: &str, calls: u64| {
            let seen = [("udp_gro", "on", 1), ("messages_sent", "udp_bw", 6400), ("send_calls", by, calls)];
            broken(&settings, &seen)
        };
        let batch = ["udp_bw messages at a time"];
        assert_eq!(of("udp_bw: UDP_SEGMENT of 64 B", 100), [""; 0]);
        assert_eq!(of("udp_bw: sendmmsg", 105), [""; 0]);
        assert_eq!(of("udp_bw: sendmmsg", 200), batch);
        assert_eq!(of("udp_bw: send", 6400), batch);
        assert_eq!(of("udp_bw: UDP_SEGMENT of 0 B", 100), batch);
        assert_eq!(of("tcp_bw: send", 100), batch);
    }

    #[test]
    fn a_batch_that_is_too_large_for_a_call_takes_several() {
        let settings = settings(Test::UdpBw, 200, ZeroCopy::Off);
        let seen = |calls| {
            [
                ("udp_gro", "not in this kernel", 1),
                ("messages_sent", "udp_bw", 2000),
                ("send_calls", "udp_bw: UDP_SEGMENT of 64 B", calls),
            ]
        };
        assert_eq!(broken(&settings, &seen(40)), [""; 0]);
        assert_eq!(broken(&settings, &seen(80)), ["udp_bw messages at a time"]);
    }

    #[test]
    fn a_receiver_that_was_told_to_join_and_does_not_breaks_the_evidence() {
        let settings = settings(Test::UdpBw, 2, ZeroCopy::Off);
        let seen = |gro| {
            let gro = ("udp_gro", gro, 1);
            [gro, ("messages_sent", "udp_bw", 20), ("send_calls", "udp_bw: sendmmsg", 10)]
        };
        assert_eq!(broken(&settings, &seen("on")), [""; 0]);
        assert_eq!(broken(&settings, &seen("off")), ["UDP_GRO at the receiver"]);
        assert_eq!(broken(&settings, &seen("on")[1..]), ["UDP_GRO at the receiver"]);
    }

    #[test]
    fn a_receiver_that_waits_in_another_way_breaks_the_evidence() {
        let holds = |way: Receive, seen: &[(&str, u64)]| {
            let seen: Vec<_> = seen.iter().map(|(what, count)| ("receive", *what, *count)).collect();
            receives(Test::TcpBw, way, &measurement(&seen)).holds
        };
        let block = ("tcp_bw block: receives", 7);
        assert!(holds(Receive::Block, &[block, ("udp_bw poll: receives", 3)]));
        assert!(!holds(Receive::Block, &[]));
        assert!(!holds(Receive::Block, &[block, ("tcp_bw poll: receives", 1)]));
        assert!(!holds(Receive::Block, &[block, ("tcp_bw block: pauses", 1)]));
        assert!(!holds(Receive::Poll, &[block]));
        let poll = ("tcp_bw poll: receives", 7);
        assert!(holds(Receive::Poll, &[poll, ("tcp_bw poll: empty polls", 70)]));
        let pause = ("tcp_bw pause: receives", 7);
        assert!(holds(Receive::Pause, &[pause, ("tcp_bw pause: pauses", 6)]));
        assert!(!holds(Receive::Pause, &[pause]));
    }

    #[test]
    fn pages_that_arrive_as_they_were_had_been_copied() {
        let settings = settings(Test::TcpBw, 1, ZeroCopy::Sendfile);
        let seen = |shared, calls| {
            let calls = ("send_calls", "tcp_bw: sendfile", calls);
            [("sendfile", SHARED, shared), ("sendfile", COPIED, 3 - shared), calls]
        };
        assert_eq!(broken(&settings, &seen(3, 9)), [""; 0]);
        assert_eq!(broken(&settings, &seen(0, 9)), ["sendfile without a copy"]);
        assert_eq!(broken(&settings, &seen(3, 0)), ["sendfile without a copy"]);
    }

    #[test]
    fn sends_that_the_kernel_copied_after_all_break_the_evidence_and_are_counted() {
        let mut settings = settings(Test::TcpBw, 1, ZeroCopy::MsgZerocopy);
        let of = |settings: &NetworkSettings, lent, copied| {
            let seen = [("msg_zerocopy", SHARED, lent), ("msg_zerocopy", COPIED, copied)];
            let evidence = super::lent(settings, &measurement(&seen));
            (evidence.holds, evidence.observed)
        };
        let (holds, words) = of(&settings, 0, 7);
        assert!(!holds);
        assert_eq!(words, "0 of 7; it copied 7 after all, as it always does for a receiver on the same host");
        settings.system.kind = SystemKind::External;
        assert_eq!(of(&settings, 9, 1), (true, "9 of 10; it copied 1 after all".to_owned()));
        assert_eq!(of(&settings, 9, 0), (true, "9 of 9".to_owned()));
        assert!(!of(&settings, 0, 0).0);
    }
}
