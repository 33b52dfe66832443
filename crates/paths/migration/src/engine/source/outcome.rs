//! The result of one migration.

use plumb_host::cpu::CpuTime;
use plumb_model::Merge;

use super::super::dirty::WriterCounts;
use super::super::message::Received;
use super::super::wire::tls::Protection;
use super::channel::Sent;

/// The end of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The guest runs on the destination.
    Completed,
    /// The guest dirtied pages faster than they were sent, and runs on at the source. The words name the limit that was met.
    GivenUp(String),
}

/// A round over pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundReport {
    /// The round's number, from 1.
    pub number: u32,
    /// Pages that were sent, including those of zeros.
    pub pages: u64,
    /// Pages of zeros among them.
    pub zero_pages: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// The time that it took.
    pub time_ns: u64,
    /// Pages that were dirty when it was over.
    pub dirty_pages: u64,
}

/// Bytes on the wire at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The moment, in ns of the monotonic clock.
    pub at_ns: u64,
    /// Bytes on the wire since the migration's start.
    pub bytes: u64,
}

/// The result of one migration.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The end of the migration.
    pub ending: Ending,
    /// When it began, in ns of the monotonic clock.
    pub began_ns: u64,
    /// From the start until the source heard that the destination runs, or gave up.
    pub total_ns: u64,
    /// The part of that time before the first page: connecting, and mapping the destination's memory.
    pub setup_ns: u64,
    /// From the stop of the guest until the source heard that the destination runs.
    pub downtime_ns: u64,
    /// The rounds.
    pub rounds: Vec<RoundReport>,
    /// Bytes on the wire, control connection included, by the kernel's count.
    pub wire_bytes: u64,
    /// The bytes among them that were sent again.
    pub repeated_bytes: u64,
    /// Bytes on the wire over time.
    pub samples: Vec<Sample>,
    /// The traffic that each channel has sent.
    pub sent: Vec<Sent>,
    /// The traffic that the destination received; `None` if the migration was given up.
    pub received: Option<Received>,
    /// CPU time of the source without the guest's writer.
    pub cpu: CpuTime,
    /// The time for which all channels together have waited for the cap.
    pub waited_ns: u64,
    /// The work of the guest's writer while the guest ran.
    pub guest: WriterCounts,
    /// The length of that time: from when the channels were connected until the guest was paused.
    pub guest_ran_ns: u64,
    /// The protection of the control connection, and of each channel.
    pub protections: Vec<Protection>,
    /// Regions of memory that were compared and found equal.
    pub regions: usize,
}

impl Outcome {
    /// Whether the guest runs on the destination.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.ending == Ending::Completed
    }

    /// The time in which pages moved.
    #[must_use]
    pub fn transfer_ns(&self) -> u64 {
        self.total_ns.saturating_sub(self.setup_ns).max(1)
    }

    /// Pages that were sent, including those of zeros.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.rounds.iter().map(|round| round.pages).sum()
    }

    /// The traffic that all channels have sent.
    #[must_use]
    pub fn all_sent(&self) -> Sent {
        self.sent.iter().fold(Sent::default(), |sum, sent| sum.and(sent))
    }

    /// Channels that have carried pages.
    #[must_use]
    pub fn channels_used(&self) -> usize {
        self.sent.iter().filter(|sent| sent.packets > 0).count()
    }
}
