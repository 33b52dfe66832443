//! Counts and times of one thread in the window.
//!
//! In a closed loop an answer belongs to the window if it is complete within it. In an open loop times belong to
//! the window in which a request fell due, whenever it was answered, while the rate of requests stays one of answers
//! completed within the window.
//!
//! A request on a connection that stands has waited for no connection. Such zeros, as well as an answer that
//! arrived in one piece and so took no time to receive, are counted and put into the distributions at the end.

use std::collections::BTreeMap;

use plumb_model::measurement::per_second;
use plumb_model::{Histogram, Largest, LoadWindow, Merge, Statistic, Wait, merged};
use plumb_pace::{Frame, Seconds};
use plumb_path::drive::Recorder;
use plumb_quic::DatagramCounts;

use super::content::Content;
use super::errors::Failure;
use super::quic::paths::Paths;
use super::segments::SegmentCounts;
use super::tls::{Negotiated, SessionUse, ZeroRtt};
use super::waits::Waits;

/// The most kinds of content that are told apart, because a server may invent a new one for each answer.
const CONTENTS_MAX: usize = 64;

/// The bodies of answers: what their heads said of them, and their lengths. An answer whose body is like the one before, as
/// most are, adds to a count and no more; that count is recorded with the next other body, or when threads are put together.
#[derive(Debug, Default)]
pub struct Bodies {
    pub contents: Vec<(Content, u64)>,
    pub lengths: Histogram,
    last: (Content, u64),
    /// Answers like the last one that are not recorded yet.
    alike: u64,
}

impl Bodies {
    fn note(&mut self, body: (Content, u64)) {
        if self.last != body {
            let (last, alike) = (self.last, std::mem::take(&mut self.alike));
            self.record(last, alike);
            self.last = body;
        }
        self.alike += 1;
    }

    fn record(&mut self, (content, bytes): (Content, u64), answers: u64) {
        if answers > 0 {
            self.lengths.record_many(bytes, answers);
            self.count(content, answers);
        }
    }

    fn count(&mut self, content: Content, answers: u64) {
        match self.contents.iter().position(|(known, _)| *known == content) {
            Some(at) => self.contents[at].1 += answers,
            None if self.contents.len() < CONTENTS_MAX || content == Content::other() => {
                self.contents.push((content, answers));
            }
            None => self.count(Content::other(), answers),
        }
    }
}

impl Merge for Bodies {
    fn add(&mut self, other: &Self) {
        other.contents.iter().for_each(|(content, answers)| self.count(*content, *answers));
        self.lengths.merge(&other.lengths);
        self.record(other.last, other.alike);
    }
}

/// When the parts of one request and its answer happened, in ns on the monotonic clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct Answer {
    /// When the request was due; in a closed loop, when it began.
    pub intended_ns: u64,
    /// The time that connecting took; 0 on a connection that already existed.
    pub connecting_ns: u64,
    /// The time that the TLS handshake took; 0 without one.
    pub tls_ns: u64,
    /// Whether the connection was made for this request.
    pub is_fresh: bool,
    /// The first byte of the request was about to be sent.
    pub send_ns: u64,
    /// The last byte of the request was sent.
    pub sent_ns: u64,
    /// The first byte of the answer had come.
    pub first_ns: u64,
    /// The answer was complete.
    pub end_ns: u64,
    /// The answer's status.
    pub status: u16,
    /// The head's description of its body.
    pub content: Content,
    /// The length of its body on the wire.
    pub body_bytes: u64,
}

impl Answer {
    fn service_ns(&self) -> u64 {
        self.end_ns - self.send_ns
    }
}

merged! {
    /// The counts and times of one thread.
    #[derive(Debug, Default)]
    pub struct Tally {
        /// The record that every load keeps. A request that fails in several ways is one failed attempt.
        pub recorder: Recorder,
        /// Answers that were complete within the window.
        pub completed: u64,
        /// The same by second of the window, with their times.
        pub seconds: Seconds,
        /// Requests whose answer is good, and those that failed.
        pub succeeded: u64,
        /// See `succeeded`.
        pub failed: u64,
        /// The number of answers by status.
        pub statuses: Vec<u64>,
        /// Their bodies.
        pub bodies: Bodies,
        /// Passed and failed, by check.
        pub checks: Vec<[u64; 2]>,
        /// The failures that would happen at any other time as well.
        pub lasting: u64,
        /// The parameters negotiated on connections in use, with the number of connections.
        pub negotiated: BTreeMap<Negotiated, u64>,
        /// Full handshakes that were complete within the window.
        pub handshakes_full: u64,
        /// Resumed handshakes that were complete within the window.
        pub handshakes_resumed: u64,
        /// The handshakes that offered a session.
        pub sessions_offered: u64,
        /// The handshakes that were to offer a session when none was known.
        pub sessions_missing: u64,
        /// The handshakes after requests in 0-RTT that the server took.
        pub zero_rtt_accepted: u64,
        /// The handshakes after requests in 0-RTT that the server did not take.
        pub zero_rtt_rejected: u64,
        /// The handshakes that were to follow requests in 0-RTT when no known session allowed it.
        pub zero_rtt_missing: u64,
        /// Connections that stood within the window.
        pub connections_opened: u64,
        /// Connections whose server had acknowledged the load's settings: by its first answer in HTTP/2, by its handshake in HTTP/3.
        pub acknowledged: u64,
        /// Requests under way on a connection with each one that began in the window.
        pub streams: Histogram,
        /// The longest time from the beginning of a request to its complete answer.
        pub slowest_ns: Largest,
        /// Bytes on the wire within the window.
        pub on_wire: OnWire,
        /// Segments that were sent again, or came out of order, within the window.
        pub segments: SegmentCounts,
        /// Datagrams of QUIC within the window.
        pub datagrams: DatagramCounts,
        /// Paths of QUIC at the end of the window, or of the connection.
        pub paths: Paths,
        /// Whether local ports ran out on one address.
        pub spread_addresses: bool,
        /// Times.
        pub times: Times,
    }
}

/// Bytes that a thread has sent and received on all its connections by one moment.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// The moment.
    pub at_ns: u64,
    /// Sent, and received.
    pub bytes: [u64; 2],
}

merged! {
    /// Bytes on the wire, sent and received.
    #[derive(Debug, Default)]
    pub struct OnWire {
        /// All of them.
        pub bytes: [u64; 2],
        /// Rates between readings, which are taken at each whole second.
        pub per_s: [Vec<f64>; 2],
    }
}

impl OnWire {
    /// Adds the bytes between two readings. A thread takes a reading when it next runs, so two are not exactly a second apart.
    pub fn add_between(&mut self, before: Reading, after: Reading) {
        for side in 0..2 {
            let grown = after.bytes[side] - before.bytes[side];
            self.bytes[side] += grown;
            self.per_s[side].push(per_second(grown, after.at_ns - before.at_ns));
        }
    }
}

merged! {
    /// Distributions of times, as they are recorded.
    #[derive(Debug, Default)]
    pub struct Times {
        /// Sending the request.
        pub sending: Histogram,
        /// From there to the first byte of the answer.
        pub waiting: Histogram,
        /// From there to its last byte, where that came in another read.
        pub receiving: Histogram,
        /// The number of answers that came in one read.
        pub received_at_once: u64,
        /// Closed loop: all of that, on connections that stood. Open loop: from when it was due, on all connections.
        pub duration: Histogram,
        /// Closed loop: the same on connections that were made for the request.
        pub duration_fresh: Histogram,
        /// Closed loop: the same with the time that making the connection took.
        pub iteration_fresh: Histogram,
        /// Open loop: sending, waiting and receiving.
        pub service: Histogram,
        /// Waiting for a connection, where that was necessary.
        pub blocked: Histogram,
        /// Connecting.
        pub connecting: Histogram,
        /// TLS handshakes.
        pub tls: Histogram,
        /// Waits before sending, by reason in the order of [`Wait::ALL`], where there were any.
        pub stalled: [Histogram; Wait::ALL.len()],
        /// The number of requests that waited for any of these reasons.
        pub stalls: u64,
        /// The server's waits for the load's windows, in the order of [`LoadWindow::ALL`].
        pub withheld: [Histogram; LoadWindow::ALL.len()],
        /// The number of requests on connections that already existed.
        pub reused: u64,
        /// Closed loop: the waits of requests that had no answer when the window closed.
        pub pending: Histogram,
        /// The waits of requests that the server refused.
        pub refused: Histogram,
        /// The waits of requests that failed otherwise.
        pub broken: Histogram,
    }
}

impl Tally {
    /// Counts for `frame`, of a load with `checks` checks.
    #[must_use]
    pub fn new(frame: Frame, is_open_loop: bool, checks: usize) -> Self {
        Self {
            recorder: Recorder::new(frame, is_open_loop),
            statuses: vec![0; 1000],
            checks: vec![[0; 2]; checks],
            ..Self::default()
        }
    }

    /// Whether the times of a request that was due at one moment and ended at another belong to the window.
    fn counts(&self, intended_ns: u64, end_ns: u64) -> bool {
        self.recorder.frame.measures(if self.recorder.is_open_loop { intended_ns } else { end_ns })
    }

    /// The time that a request took, as `http_req_duration` counts it.
    #[must_use]
    pub fn duration_ns(&self, answer: &Answer) -> u64 {
        if self.recorder.is_open_loop { answer.end_ns - answer.intended_ns } else { answer.service_ns() }
    }

    /// A request was answered. Returns whether its times belong to the window.
    pub fn answered(&mut self, answer: &Answer) -> bool {
        if answer.status < 400 {
            self.recorder.fastest_ns.note(answer.service_ns());
        }
        if let Some(second) = self.recorder.frame.second(answer.end_ns) {
            self.completed += 1;
            self.seconds.note(second, answer.end_ns - answer.intended_ns);
            self.recorder.gaps.completed(answer.end_ns);
        }
        let counts = self.counts(answer.intended_ns, answer.end_ns);
        if counts {
            self.time(answer);
            self.statuses[usize::from(answer.status % 1000)] += 1;
            self.bodies.note((answer.content, answer.body_bytes));
            *(if answer.status < 400 { &mut self.succeeded } else { &mut self.failed }) += 1;
        } else if !self.recorder.is_open_loop && answer.end_ns >= self.recorder.frame.close_ns {
            // It was under way when the window closed, and read too late to be seen there.
            self.left_pending(answer.intended_ns, self.recorder.frame.close_ns);
        }
        counts
    }

    fn time(&mut self, answer: &Answer) {
        let duration_ns = self.duration_ns(answer);
        let blocked_ns = answer.send_ns - answer.intended_ns;
        let times = &mut self.times;
        times.sending.record(answer.sent_ns - answer.send_ns);
        times.waiting.record(answer.first_ns.saturating_sub(answer.sent_ns));
        if answer.end_ns == answer.first_ns {
            times.received_at_once += 1;
        } else {
            times.receiving.record(answer.end_ns - answer.first_ns);
        }
        if self.recorder.is_open_loop {
            times.duration.record(duration_ns);
            times.service.record(answer.service_ns());
            times.blocked.record(blocked_ns);
        } else if answer.is_fresh {
            times.duration_fresh.record(duration_ns);
            times.iteration_fresh.record(blocked_ns + duration_ns);
            times.blocked.record(blocked_ns);
        } else {
            times.duration.record(duration_ns);
        }
        if answer.is_fresh {
            times.connecting.record(answer.connecting_ns);
            times.tls.record(answer.tls_ns);
        } else {
            times.reused += 1;
        }
        self.slowest_ns.note(answer.end_ns - answer.intended_ns);
    }

    /// A request whose times belong to the window waited before it was sent.
    pub fn waited(&mut self, waits: &Waits) {
        if waits.are_none() {
            return;
        }
        self.times.stalls += 1;
        for (histogram, wait_ns) in self.times.stalled.iter_mut().zip(waits.all_ns()) {
            if wait_ns > 0 {
                histogram.record(wait_ns);
            }
        }
    }

    /// A check was made on an answer whose times belong to the window.
    pub fn checked(&mut self, check: usize, passes: bool) {
        self.checks[check][usize::from(!passes)] += 1;
    }

    /// A request whose times belong to the window ended, with or without a good answer.
    pub fn attempted(&mut self, is_good: bool) {
        self.recorder.attempts.tried += 1;
        self.recorder.attempts.failed += u64::from(!is_good);
    }

    /// A request failed. Its time is recorded with those of answers, because an answer would have taken at least as long. A
    /// refusal comes at once, so its time counts only where it was long: see [`Times::settle`].
    pub fn failed(&mut self, failure: &Failure, waits: &Waits, intended_ns: u64, at_ns: u64) {
        if !self.counts(intended_ns, at_ns) {
            if !self.recorder.is_open_loop && at_ns >= self.recorder.frame.close_ns {
                self.left_pending(intended_ns, self.recorder.frame.close_ns);
            }
            return;
        }
        self.failed += 1;
        self.attempted(false);
        self.waited(waits);
        self.recorder.fail(failure.to_string());
        self.lasting += u64::from(failure.is_lasting());
        let waited_ns = at_ns.saturating_sub(intended_ns);
        if failure.is_refusal() {
            self.times.refused.record(waited_ns);
        } else {
            self.times.broken.record(waited_ns);
            self.slowest_ns.note(waited_ns);
        }
    }

    /// A request of a closed loop had no answer when the window closed.
    pub fn left_pending(&mut self, intended_ns: u64, end_ns: u64) {
        self.times.pending.record(end_ns.saturating_sub(intended_ns));
    }

    /// A connection stands.
    pub fn opened(&mut self, at_ns: u64) {
        self.connections_opened += u64::from(self.recorder.frame.measures(at_ns));
    }

    /// A handshake is complete.
    pub fn shook_hands(&mut self, negotiated: Negotiated, at_ns: u64) {
        if self.recorder.frame.measures(at_ns) {
            *(if negotiated.is_resumed {
                &mut self.handshakes_resumed
            } else {
                &mut self.handshakes_full
            }) += 1;
            self.sessions_offered += u64::from(negotiated.session == SessionUse::Offered);
            self.sessions_missing += u64::from(negotiated.session == SessionUse::Missing);
            match negotiated.zero_rtt {
                ZeroRtt::Unasked => {}
                ZeroRtt::Missing => self.zero_rtt_missing += 1,
                ZeroRtt::Accepted => self.zero_rtt_accepted += 1,
                ZeroRtt::Rejected => self.zero_rtt_rejected += 1,
            }
            self.uses(negotiated);
        }
    }

    /// A connection is in use in the window.
    pub fn uses(&mut self, negotiated: Negotiated) {
        *self.negotiated.entry(negotiated).or_default() += 1;
    }
}

impl Times {
    /// Adds waits without an answer to the durations, once the times of all threads are together.
    ///
    /// A wait longer than the median answer belongs to the upper half, however long it would have gone on. A shorter wait
    /// says nothing, because most answers take that long: it would only make the system look faster.
    pub fn settle(&mut self) {
        self.duration.merge(&self.broken);
        let median_ns = self.iteration().statistic_ns(Statistic::Med);
        let waits =
            [(&self.pending, median_ns.unwrap_or(0.0)), (&self.refused, median_ns.unwrap_or(f64::MAX))];
        for (histogram, least_ns) in waits {
            let long = histogram.bins().filter(|(wait_ns, _)| as_f64(*wait_ns) > least_ns);
            long.for_each(|(wait_ns, count)| self.duration.record_many(wait_ns, count));
        }
    }

    /// All of a request, from when it was due.
    #[must_use]
    pub fn iteration(&self) -> Histogram {
        let mut iteration = self.duration.clone();
        iteration.merge(&self.iteration_fresh);
        iteration
    }
}

fn as_f64(time_ns: u64) -> f64 {
    time_ns as f64
}
