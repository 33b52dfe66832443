//! Reasons not to trust a measurement, as facts: a kind, what it is about, and its figures. The report makes sentences of them.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason not to trust a measurement as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Notice {
    /// The problem. It says what the texts and the figures are.
    pub kind: NoticeKind,
    /// The load agent, host or job that it is of, where not all have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Names and texts, in the order that the kind gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
    /// Figures, in the order that the kind gives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Range>,
}

/// A figure, over one or several slots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// The least of them.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// A problem of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// A sentence of another tool, or of a run from before notices had kinds. About: the sentence.
    Text,

    /// A load thread was on a CPU nearly all the time. Figures: its share of the window.
    LoadBusy,
    /// A CPU quota stopped the load. Figures: the share of a CPU that a thread wanted.
    LoadStoppedByQuota,
    /// Other threads held the load's CPUs. Figures: the share of a CPU that a thread wanted.
    LoadCrowded,
    /// The hypervisor took the load's CPUs away. Figures: the share of a CPU that a thread wanted.
    LoadStolen,
    /// Sends were late for the load's own reasons. Figures: their share.
    LoadLate,
    /// Values that several load agents do not have together. About: the metrics.
    NoUnion,
    /// Percentiles of a closed loop hide a stall. About: the metric. Figures: the stall, p99, and p99 of an open loop, in ns.
    HiddenStall,

    /// The hypervisor took CPU time from this host. Figures: its share.
    Stolen,
    /// Other processes used CPU time of this host. Figures: their share.
    Neighbours,
    /// A CPU quota stopped the control group of this program.
    Throttled,

    /// HTTP requests had no answer when the window closed. Figures: their number, the longest wait and the slowest answer in ns.
    UnansweredAtClose,
    /// The server resumed few TLS sessions. Figures: sessions resumed, sessions to resume, those that the server refused, those
    /// that the load lacked, full handshakes instead.
    FewResumptions,
    /// The load stopped waiting for answers to HTTP requests that were due in the window. Figures: their number.
    Unanswered,
    /// Local ports ran out.
    NoLocalPort,
    /// Local ports of one address ran out, so the load used others.
    SpreadAddresses,
    /// No HTTP request was answered.
    NoAnswer,
    /// The rate needs more connections. Figures: requests per second, connections needed, connections.
    FewConnections,
    /// The server chose HTTP/1.1, which has no streams. Figures: the streams of a connection that were asked for.
    StreamsUnused,
    /// The server said in QUIC that it had to wait for the load's windows. Figures: how often for that of a connection, and of a stream.
    HeldBack,
    /// A tool gives statistics without their distribution. About: the tool.
    NoDistribution,

    /// Trials were short beside the limit. Figures: a trial and the limit in ns, the overload that may pass.
    ShortTrials,
    /// No rate of a pilot met the objectives. Figures: the lowest rate.
    NoRateMet,
    /// No rate of a pilot failed an objective. Figures: the highest rate.
    NoRateFailed,
    /// The load was the limit before a rate failed. Figures: the highest rate that met the objectives.
    LoadsOwnLimit,
    /// The system did not recover from a rate that was too high. Figures: how long it had, in ns.
    NotRecovered,
    /// Trials met the objectives until a burst was spent. Figures: the highest rate that did before, and the highest since.
    BurstSpent,
    /// The closed loop of a search did far more than any later trial. Figures: its rate, and the highest rate done since.
    FasterAtFirst,

    /// The system's counters were read late.
    CountersLate,
    /// The hosts' clocks may differ by much of the window. Figures: by how many ns.
    ClockSkew,
    /// The system's processes were replaced.
    ProcessesReplaced,
    /// Only process 1 listens at the system's address, so its CPU time is not known. About: its name, the address.
    HeldByInit,

    /// No message got through. About: the test.
    NoMessage,
    /// Messages were lost. About: the test. Figures: their number.
    MessagesLost,
    /// Answers came after the load had given them up. About: the test. Figures: their number.
    LateAnswers,
    /// Messages had no answer when the window closed. About: the test. Figures: their number.
    MessagesUnanswered,
    /// The load sent less than the rate. About: the test. Figures: messages sent, messages due.
    RateNotReached,

    /// A burst came before the rate settled. Figures: the settled operations per second, the burst's operations beyond that, the
    /// seconds that rates are of, the seconds of the window.
    Burst,
    /// The same before the window opened. Figures: the first two.
    BurstBefore,
    /// A rate had not settled. About: the metric. Figures: its range and its trend as shares of its mean.
    Unsettled,
    /// Operations found no free place in the queue. Figures: their number.
    Unstarted,
    /// The same in a search, whose objectives count them as above every limit. Figures: their number.
    UnstartedInSearch,
    /// Nothing was read or written.
    NothingTransferred,
    /// The target does nothing.
    NullStorage,
    /// The target was made for the measurement, and is removed. About: its path.
    MadeForThis,
    /// The target has no direct I/O. About: its path.
    NoDirect,
    /// Part of the target was never written. About: its path. Figures: the share.
    NeverWritten,
    /// Much of the target holds zeros. About: its path. Figures: places with zeros, places checked.
    Zeros,
    /// Connections to the NBD server may not see each other's writes.
    ConnectionsApart,
    /// An engine is not available. About: the engine, what it failed to do.
    NoEngine,
    /// `psync` has a depth of 1. Figures: the depth asked for.
    PsyncDepth,
    /// Fewer operations were in flight than asked for. Figures: operations in flight, operations asked for.
    DepthNotReached,
    /// The suite was interrupted between its jobs. Figures: finished jobs, all jobs.
    Interrupted,
    /// The suite was interrupted within a job. About: the job. Figures: finished jobs, all jobs, time measured and planned in ns.
    InterruptedWithin,

    /// Some runs of a command failed. About: its last words, which follow without a space.
    RunsFailed,
    /// A run's memory is hidden by that of the process that starts it. Figures: the latter in bytes.
    MemoryHidden,
    /// Some runs have no value of a metric. About: the metric, the reason.
    NoValue,
    /// Two variants run the same program with the same arguments. About: the file.
    SameProgram,
    /// The same with two files of the same bytes. About: both files.
    SameBytes,

    /// The guest stood still for too long. About: the limit. Figures: the downtime in ns.
    LongDowntime,
    /// QEMU counts other bytes than its sockets carry. About: its version. Figures: the factor.
    QemuBytes,
    /// The same, because it counts before compression.
    QemuBytesUncompressed,
    /// QEMU holds its limit against bytes before compression. About: its version, the limit.
    QemuCapUncompressed,
    /// QEMU reports another total time. About: its version. Figures: the factor.
    QemuTime,
    /// Connections of QEMU ended unseen. About: its version. Figures: connections expected.
    QemuConnections,
    /// Another command serves the destination, and nothing reads its counters.
    DestinationElsewhere,

    /// An exchange of `openssl speed` is the derivation alone.
    DerivationAlone,
    /// Figures of `openssl speed` are sums over processes. Figures: their number.
    SumOfProcesses,

    /// Requests were under way when another tool stopped. About: the tool. Figures: their number.
    UnderWayAtStop,
    /// Another tool's rates and times include failures. About: its units of work. Figures: failures, their share.
    FailuresIncluded,
    /// Answers with a status of 400 or above are in wrk's rate and latency.
    BadStatusIncluded,
    /// The p95 of the answers that k6 expected. Figures: in ns.
    ExpectedP95,
    /// k6's main time leaves out the TLS handshake. Figures: the mean handshake in ns.
    HandshakeApart,
    /// k6 dropped iterations. Figures: their number.
    DroppedIterations,
    /// An iteration of a k6 script is not a request. Figures: iterations, requests.
    IterationsApart,
    /// Parts of an imported file are left out. About: the parts. Figures: their number.
    LeftOut,
    /// A log's maxima are not in the unit of its values. Figures: the factor.
    ScaledLog,
    /// `openssl speed` divided by CPU time. Figures: CPU time and time in ns.
    CpuClock,
    /// wrk leaves out answers later than its timeout. Figures: their number.
    LaterThanTimeout,
    /// wrk opened fewer connections than asked for. Figures: connections opened, connections asked for, threads.
    FewerOpened,
    /// wrk2 leaves out its calibration. Figures: requests with a latency, all requests.
    CalibrationApart,
    /// ab calls answers of another length failed. Figures: their number.
    OtherLengths,
    /// sockperf lost messages or received them out of order. Figures: the former, the latter.
    LostOrReordered,
}

impl NoticeKind {
    /// A notice of this kind with its figures, up to the first that is not finite, which JSON cannot have.
    #[must_use]
    pub fn with<const N: usize>(self, figures: [f64; N]) -> Notice {
        let figures = figures.into_iter().take_while(|figure| figure.is_finite());
        let figures = figures.map(|figure| Range { least: figure, most: figure }).collect();
        Notice { kind: self, of: None, about: Vec::new(), figures }
    }
}

impl From<NoticeKind> for Notice {
    fn from(kind: NoticeKind) -> Self {
        kind.with([])
    }
}

impl From<&str> for Notice {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Notice {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Notice {
    /// A sentence that is data: another tool's, or one recorded before notices had kinds.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::from(NoticeKind::Text).about([text])
    }

    /// The same notice about these names and texts.
    #[must_use]
    pub fn about<T: Into<String>>(self, about: impl IntoIterator<Item = T>) -> Self {
        Self { about: about.into_iter().map(Into::into).collect(), ..self }
    }

    /// The same notice of one agent, host or job.
    #[must_use]
    pub fn attributed_to(self, part: &str) -> Self {
        let of = self.of.map_or_else(|| part.to_owned(), |inner| format!("{part}: {inner}"));
        Self { of: Some(of), ..self }
    }

    /// The distinct notices in order of first appearance. Those that differ only in their figures become one with ranges.
    #[must_use]
    pub fn merged<'n>(notices: impl IntoIterator<Item = &'n Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        let mut known = HashMap::new();
        for notice in notices {
            let key = (notice.kind, &notice.of, &notice.about, notice.figures.len());
            let at = *known.entry(key).or_insert(merged.len());
            match merged.get_mut(at) {
                Some(ranges) => {
                    for (range, figure) in ranges.figures.iter_mut().zip(&notice.figures) {
                        range.least = range.least.min(figure.least);
                        range.most = range.most.max(figure.most);
                    }
                }
                None => merged.push(notice.clone()),
            }
        }
        merged
    }
}

/// Notices in a measurement. A text alone is a JSON string, as in runs from before notices had kinds, so their digests stay.
pub(crate) mod recorded {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::{Notice, NoticeKind};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Recorded {
        Text(String),
        Typed(Notice),
    }

    pub(crate) fn serialize<S: Serializer>(notices: &[Notice], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(notices.iter().map(|notice| {
            match (notice.kind, &notice.of, &notice.about[..]) {
                (NoticeKind::Text, None, [text]) => Recorded::Text(text.clone()),
                _ => Recorded::Typed(notice.clone()),
            }
        }))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Notice>, D::Error> {
        let notice = |recorded| match recorded {
            Recorded::Text(text) => Notice::text(text),
            Recorded::Typed(notice) => notice,
        };
        Ok(Vec::<Recorded>::deserialize(deserializer)?.into_iter().map(notice).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measurement;

    #[test]
    fn notices_that_differ_in_figures_only_are_one_with_their_ranges() {
        let few = |resumed| NoticeKind::FewResumptions.with([resumed, 1000.0]);
        let stall = |metric| Notice::from(NoticeKind::HiddenStall).about([metric]);
        let all = [
            few(31.0),
            stall("time"),
            few(12.0),
            few(31.0).attributed_to("client1"),
            stall("time"),
            stall("other"),
        ];
        let merged = Notice::merged(&all);
        let range = |least, most| Range { least, most };
        assert_eq!(merged.len(), 4, "{merged:?}");
        assert_eq!(merged[0].figures, [range(12.0, 31.0), range(1000.0, 1000.0)]);
        assert_eq!(merged[1..], [stall("time"), few(31.0).attributed_to("client1"), stall("other")]);
        assert_eq!(Notice::merged(&merged), merged);
    }

    #[test]
    fn a_sentence_of_an_older_run_is_read_and_written_as_it_is() {
        let json = serde_json::to_string(&Measurement::default()).unwrap();
        let old = json.replace(r#""warnings":[]"#, r#""warnings":["it was slow"]"#);
        let read: Measurement = serde_json::from_str(&old).unwrap();
        assert_eq!(read.notices, [Notice::text("it was slow")]);
        assert_eq!(serde_json::to_string(&read).unwrap(), old);
        let infinite = NoticeKind::RateNotReached.with([0.5, f64::INFINITY]);
        assert_eq!(infinite, NoticeKind::RateNotReached.with([0.5]));
        let typed = vec![Notice::text("slow").attributed_to("a"), infinite];
        let typed = Measurement { notices: typed, ..read };
        let written = serde_json::to_string(&typed).unwrap();
        assert_eq!(serde_json::from_str::<Measurement>(&written).unwrap(), typed);
    }
}
