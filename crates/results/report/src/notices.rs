//! The sentence of each kind of notice.
//!
//! Each is a template, so one row has the sentence for one slot and for many. In braces stand:
//!
//! - `a` or `b`: the first or second text that the notice is about; `*`: all of them
//! - `0`, `1`: a figure, as a count; `0 ns` as a time, `0 %` as a share, `0 MiB` as a size. Figures that differ are a range: `12 to 31`
//! - `0 it/they`: the first word if the figure is 1, and otherwise the second

use plumb_model::{Notice, NoticeKind, template};

use crate::figures;

/// Makes a function with one exhaustive match, and for tests the list of all kinds.
macro_rules! templates {
    ($($kind:ident => $template:literal)*) => {
        fn of_kind(kind: NoticeKind) -> &'static str {
            match kind {
                $(NoticeKind::$kind => $template,)*
            }
        }

        #[cfg(test)]
        const KINDS: &[NoticeKind] = &[$(NoticeKind::$kind),*];
    };
}

templates! {
    Text => "{a}"

    LoadBusy => "the load was the limit, not the system: a thread was on a CPU {0 %} of the time"
    LoadStoppedByQuota => "the load was the limit, not the system: a thread wanted {0 %} of a CPU, but a CPU quota stopped it"
    LoadCrowded => "the load was the limit, not the system: a thread wanted {0 %} of a CPU, but other threads held its CPU"
    LoadStolen => "the load was the limit, not the system: a thread wanted {0 %} of a CPU, but the hypervisor took its CPU away"
    LoadLate => "the load was the limit, not the system: {0 %} of its sends were late"
    NoUnion => "no value of all load agents together, and left out: {*}. The agents' own values cannot be merged"
    HiddenStall => "nothing completed for {0 ns}, and a closed loop sends nothing meanwhile: {a} p99 is {1 ns}, and an open loop at \
        this rate would have seen about {2 ns}; `--rate` measures it"

    Stolen => "noise: the hypervisor took {0 %} of this host's CPU time"
    Neighbours => "noise: other processes used {0 %} of this host's CPU time; rates and times are those of a shared machine"
    Throttled => "noise: a CPU quota stopped the control group of this program"

    UnansweredAtClose => "{0} {0 request/requests} had no answer when the window closed, after waiting for up to {1 ns}; the slowest \
        answer took {2 ns}. http_req_duration and iteration_duration include these waits"
    FewResumptions => "the server resumed {0} of {1} sessions: it refused {2}, and for {3} the load had none to offer; rates and \
        times include the {4} full {4 handshake/handshakes} made instead"
    Unanswered => "{0} {0 request/requests} due in the window had no answer when the load stopped waiting; http_req_duration \
        includes {0 that wait/those waits}"
    NoLocalPort => "local ports ran out: the load was the limit, and not the system"
    SpreadAddresses => "the ports of one local address ran out; connections came from many in 127.0.0.0/8"
    NoAnswer => "no request was answered within the window"
    FewConnections => "{0} requests/s need about {1} connections at this latency, and the load has {2}: requests waited for a \
        connection. Set more with --connections (`load.connections`)"
    StreamsUnused => "the load spoke HTTP/1.1, which has no streams: each connection carried 1 request at a time, and not {0}"
    HeldBack => "the server had to wait for the load's windows: {0} {0 time/times} for that of a connection, {1} {1 time/times} for that of a stream. \
        Set larger `load.windows`, or read the rates and times as those of a client with these windows"
    NoDistribution => "{a} gives statistics without their distribution, so those of several slots cannot be merged"

    ShortTrials => "trials of {0 ns} are short for a limit of {1 ns}: they pass an overload of up to {2 %}, because waits reach the limit \
        only near their end. Set `trial` to at least 100 times the limit"
    NoRateMet => "no capacity: no rate down to {0}/s met the objectives"
    NoRateFailed => "no capacity: no rate up to {0}/s failed an objective; add one that an overload breaks, such as a latency"
    LoadsOwnLimit => "the capacity is at least {0}/s: the load was the limit before the system failed an objective"
    NotRecovered => "after a rate that was too high, the system did not meet the objectives at half of it or less within {0 ns}, so the search \
        ended there"
    BurstSpent => "a burst was spent: rates of up to {0}/s met the objectives at first, and later none above {1}/s did. A limiter may \
        have allowed more for a while; the capacity is the lasting rate"
    FasterAtFirst => "the system did {0}/s in a closed loop at first, and never more than {1}/s afterwards, although it was asked for more. \
        It may have spent a burst; the capacity is the rate without it"

    CountersLate => "the system's counters were read late, by more than 5% of the window: its CPU costs are less exact"
    ClockSkew => "the hosts' clocks may differ by {0 ns}, more than 1% of the window: CPU costs are less exact; use a longer window"
    ProcessesReplaced => "the system's processes were replaced in some windows: CPU costs lack the last CPU time of the old ones"
    HeldByInit => "the system's CPU time is not known: only process 1 ({a}) listens at {b}, as it does for services that it starts \
        on demand; name the system's `unit`, `cgroup` or `pid`"

    NoMessage => "{a}: no message got through"
    MessagesLost => "{a}: {0} {0 message was/messages were} lost: no answer came within 1 s, or 16 round trips where these take \
        longer; each counts with the time until it was given up"
    LateAnswers => "{a}: {0} {0 answer/answers} came so late that the load had gone on without {0 it/them}; late answers count with \
        their times"
    MessagesUnanswered => "{a}: {0} {0 message/messages} had no answer when the window had closed; each counts with the time that it \
        had waited, which is less than it would have taken"
    RateNotReached => "{a}: the rate was not reached: {0} of {1} messages"

    Burst => "settled at {0} reads and writes per second; a burst of about {1} more came first: rates are of the last {2} of {3} s of \
        the window, and times of all of it (a longer warm-up keeps the burst out)"
    BurstBefore => "settled at {0} reads and writes per second; a burst of about {1} more came first, before the window opened"
    Unsettled => "{a} had not settled: over five equal parts of the window it ranged by {0 %} of its mean and its trend made up \
        {1 %} (SNIA's test specification allows 20% and 10%)"
    Unstarted => "{0} {0 read or write was/reads and writes were} due in the window and found no free place in the queue until its \
        end; the latencies include the time waited by then"
    UnstartedInSearch => "{0} {0 read or write was/reads and writes were} due in the window and found no free place in the queue until its \
        end; the objectives count {0 it/them} as above every limit, and the latencies exclude {0 it/them}"
    NothingTransferred => "nothing was read or written within the window"
    NullStorage => "null: does nothing, so these are the load's own costs, without any storage's"
    MadeForThis => "{a} did not exist: it was made for this measurement, and nothing of it is left"
    NoDirect => "{a} has no direct I/O: the load measured the page cache as much as the storage"
    NeverWritten => "{0 %} of {a} was never written: reading that needs no storage"
    Zeros => "{a} holds only zeros in {0} of the {1} places checked: many systems serve zeros without reading any data"
    ConnectionsApart => "the server does not promise that its connections see each other's writes"
    NoEngine => "{a} is not available here, failed to {b}"
    PsyncDepth => "psync has one read or write in flight in each job: a depth of 1, not {0}"
    DepthNotReached => "{0} reads and writes were in flight on average, but {1} were asked for"
    Interrupted => "interrupted: {0} of {1} jobs had finished"
    InterruptedWithin => "interrupted: {0} of {1} jobs had finished, and {a} was measured for {2 ns} of {3 ns}"

    RunsFailed => "some runs failed, and have no part in times and other values{a}"
    MemoryHidden => "memory_max is left out: a run's memory is known only above the {0 MiB} of the process that starts it"
    NoValue => "some runs have no value of {a}, so their slots have none: {b}"
    SameProgram => "two variants run the same program with the same arguments: {a}; a difference between them is chance or comes \
        from outside"
    SameBytes => "two variants run the same program with the same arguments: {a} and {b}, which have the same bytes; a difference \
        between them is chance or comes from outside"

    LongDowntime => "the guest stood still for {0 ns}, above its downtime limit of {a}"
    QemuBytes => "QEMU {a} says that it transferred {0} times the bytes that its sockets carried; throughput and wire_bytes are the \
        sockets'"
    QemuBytesUncompressed => "QEMU {a} says that it transferred {0} times the bytes that its sockets carried: it counts bytes before \
        compression; throughput and wire_bytes are the sockets'"
    QemuCapUncompressed => "QEMU {a} holds its bandwidth limit of {b} against bytes before compression: the wire carries less than \
        was allowed"
    QemuTime => "QEMU {a} reports {0} times the total time that passed until its completion event; total_time is the time until the \
        event"
    QemuConnections => "not all {0} connections of QEMU {a} were found before they ended: bytes on the wire are incomplete"
    DestinationElsewhere => "nothing reads the destination's counters: this result proves the encryption and the memory that \
        arrived, but not the codec, the cap or the bytes on the wire"

    DerivationAlone => "an exchange of openssl speed is the derivation alone; that of a device makes a fresh key too"
    SumOfProcesses => "ops of openssl speed are the sum over {0} processes, and those of a device are of one thread"

    UnderWayAtStop => "{0} {0 request was/requests were} under way when {a} stopped, and {0 is/are} in none of its times; slow \
        requests are the likeliest to be missing"
    FailuresIncluded => "{0} of the {a} failed ({1 %}), and rates and times include {0 it/them}"
    BadStatusIncluded => "{0} {0 answer/answers} had a status of 400 or above, and wrk's rate and latency include {0 it/them}"
    ExpectedP95 => "http_req_duration.p95 of the answers that were as expected is {0 ns}"
    HandshakeApart => "http_req_duration leaves out connecting and the TLS handshake ({0 ns} on average); http_req_blocked includes \
        them"
    DroppedIterations => "k6 dropped {0} {0 iteration that was/iterations that were} due; no time includes {0 its/their} wait"
    IterationsApart => "iteration_duration is the time of a whole iteration of the script, not of a request: {0} \
        {0 iteration/iterations} made {1} {1 request/requests}"
    LeftOut => "{a} are left out: {0}"
    ScaledLog => "the log's Interval_Max is the recorded value divided by about {0}: a column of ms beside values of ns is divided \
        by 1,000,000; the unit in --column is that of the recorded values"
    CpuClock => "openssl speed divided by the CPU time of its process ({0 ns}), not by the time that passed ({1 ns}): if the \
        process waited for a CPU or a device, its rates are far too high; run it with -elapsed"
    LaterThanTimeout => "{0} {0 answer/answers} took longer than the timeout (2 s without --timeout): wrk leaves {0 it/them} out of \
        the latency, so its percentiles and maximum are too low; run it with --timeout above the slowest answer"
    FewerOpened => "wrk opened {0} connections and not {1}: each of its {2} threads takes the same whole number"
    CalibrationApart => "wrk2's latency has {0} of {1} requests: it forgets those of its calibration, the first 10 s"
    OtherLengths => "ab calls {0} {0 answer/answers} failed because {0 its length differs/their lengths differ} from that of the \
        first answer; {0 it is/they are} not counted as {0 a failure/failures} here (ab -l accepts {0 it/them})"
    LostOrReordered => "{0} {0 message was/messages were} dropped and {1} came out of order; no time includes them"
}

/// A notice as a sentence.
#[must_use]
pub fn sentence(notice: &Notice) -> String {
    let mut text = notice.of.as_ref().map_or_else(String::new, |of| format!("{of}: "));
    text += &template::fill(of_kind(notice.kind), |hole| filled(hole, notice));
    text
}

/// The text in place of a hole; a dash if a notice from elsewhere lacks it.
fn filled(hole: &str, notice: &Notice) -> String {
    let (place, form) = hole.split_once(' ').unwrap_or((hole, ""));
    let about = match place {
        "a" => notice.about.first().cloned(),
        "b" => notice.about.get(1).cloned(),
        "*" => Some(notice.about.join(", ")),
        _ => None,
    };
    let range = place.parse().ok().and_then(|at: usize| notice.figures.get(at));
    if let Some((one, many)) = form.split_once('/') {
        let is_one = range.is_some_and(|range| [range.least, range.most] == [1.0; 2]);
        return if is_one { one } else { many }.to_owned();
    }
    let figure = range.map(|range| {
        let [least, most] = [range.least, range.most].map(|figure| match form {
            "ns" => figures::time_ns(figure),
            "%" => figures::share_coarse(figure),
            "MiB" => format!("{:.0} MiB", figure / f64::from(1 << 20)),
            _ => figures::count(figure),
        });
        if least == most { least } else { format!("{least} to {most}") }
    });
    about.or(figure).unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every kind with these figures in each of its slots.
    fn all(of_slots: &[[f64; 5]]) -> String {
        let of_kind = |kind: &NoticeKind| {
            let slots = of_slots.iter().map(|figures| kind.with(*figures).about(["alpha", "beta"]));
            Notice::merged(&slots.collect::<Vec<_>>()).iter().map(sentence).collect::<Vec<_>>()
        };
        KINDS.iter().flat_map(of_kind).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_kind_has_a_sentence_for_one_and_for_many_and_for_a_range() {
        insta::assert_snapshot!("one", all(&[[1.0; 5]]));
        insta::assert_snapshot!("many", all(&[[0.2, 20.0, 2e3, 2e8, 3e9]]));
        insta::assert_snapshot!("range", all(&[[0.2, 20.0, 2e3, 2e8, 3e9], [0.1, 31.0, 1.0, 2e6, 4e9]]));
    }

    #[test]
    fn a_sentence_names_its_part_and_shows_what_is_lacking() {
        let notice = Notice::from(NoticeKind::HiddenStall).attributed_to("job1").attributed_to("client2");
        let text = sentence(&notice);
        assert!(text.starts_with("client2: job1: nothing completed for –, "), "{text}");
        let unknown = sentence(&NoticeKind::Unanswered.with([f64::NAN]));
        assert!(unknown.starts_with("– requests due in the window "), "{unknown}");
        assert_eq!(sentence(&Notice::text("12 of {a} {0}")), "12 of {a} {0}");
    }
}
