//! The source. It sends the guest's memory in rounds until the rest fits the downtime limit. Then it stops the guest, sends the rest, and
//! hands over.

mod channel;
mod link;
mod outcome;
mod round;

use std::sync::Arc;
use std::time::Duration;

use plumb_host::cpu::{CpuTime, process_cpu_time, thread_cpu_times};
use plumb_host::time::monotonic_ns;

use self::link::{Link, unexpected};
pub use self::outcome::{Ending, Outcome, RoundReport, Sample};
use self::round::Round;
use super::bitmap::PageSet;
use super::destination::{DestinationAddress, part, threads};
use super::dirty::Guest;
use super::error::MigrationError;
use super::memory::GuestMemory;
use super::message::{Carry, FromDestination, FromSource, REGIONS_MAX, Received};
use crate::settings::{LoadSettings, MigrationSettings, SystemSettings};
use plumb_codec::PAGE_BYTES;
use plumb_codec::content::CONTENT_SEED;

/// The least content of a round that shows the rate at which content is sent.
const RATE_BYTES_MIN: u64 = 8 << 20;
/// The smallest region that is hashed separately.
const REGION_BYTES_MIN: u64 = 4 << 20;
/// The time limit for a destination to hash its memory, a hundred times the usual time.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(600);
/// The time limit for a destination to receive the rest of what was sent.
const RUNNING_TIMEOUT: Duration = Duration::from_secs(60);

/// A guest that can be moved repeatedly.
#[derive(Debug)]
pub struct Source {
    guest: Guest,
    spec: SystemSettings,
    limits: LoadSettings,
    target: DestinationAddress,
}

/// The moments and the sums of a migration under way.
struct Progress {
    began_ns: u64,
    setup_ns: u64,
    rounds: Vec<RoundReport>,
    stopped_ns: Option<u64>,
}

impl Source {
    /// Makes a guest with the memory of the settings.
    ///
    /// # Errors
    /// When there is not enough memory, or its content cannot be made.
    pub fn new(settings: &MigrationSettings, target: DestinationAddress) -> Result<Self, MigrationError> {
        let spec = settings.system.clone();
        let mut memory = GuestMemory::map(spec.memory.0)?;
        spec.content.fill(memory.as_mut_slice(), CONTENT_SEED)?;
        let guest = Guest::start(memory, &spec.dirty)?;
        Ok(Self { guest, spec, limits: settings.load.clone(), target })
    }

    /// The guest.
    #[must_use]
    pub fn guest(&self) -> &Guest {
        &self.guest
    }

    /// Moves the guest's memory once, and compares it with the destination's. Afterwards the guest runs here again. Meanwhile, `watch` is
    /// told the bytes on the wire.
    ///
    /// # Errors
    /// When a side or a connection fails, or the memory that arrived differs from the one that was sent.
    pub fn migrate(&self, watch: &mut dyn FnMut(Sample)) -> Result<Outcome, MigrationError> {
        let moved = self.move_once(watch);
        self.guest.resume();
        moved
    }

    fn move_once(&self, watch: &mut dyn FnMut(Sample)) -> Result<Outcome, MigrationError> {
        let before = Spent::now()?;
        let began_ns = monotonic_ns();
        let mut link = Link::open(&self.target, &self.spec, self.guest.memory(), Carry::Packets)?;
        let began_ns = began_ns + link.prefault_ns();
        // From here on: while the destination made its memory, which is not part of the migration, the guest wrote as well.
        let guest_before = (self.guest.counts(), monotonic_ns());
        let mut progress =
            Progress { began_ns, setup_ns: monotonic_ns() - began_ns, rounds: Vec::new(), stopped_ns: None };
        link.sample(true);
        let given_up = self.send_rounds(&mut link, &mut progress, watch)?;
        let received = if given_up.is_none() { Some(self.switch_over(&mut link, &progress)?) } else { None };
        let ended_ns = monotonic_ns();
        let cpu = Spent::now()?.since(before);
        let wire_bytes = link.sample(true);
        let repeated_bytes = link.repeated_bytes();
        let (sent, samples, waited_ns) = link.passed();
        let guest = self.guest.counts().since(guest_before.0);
        let guest_ran_ns = progress.stopped_ns.unwrap_or(ended_ns) - guest_before.1;
        let regions = if received.is_some() { self.compare(&mut link)? } else { 0 };
        link.say(&FromSource::Release)?;
        Ok(Outcome {
            ending: given_up.map_or(Ending::Completed, Ending::GivenUp),
            began_ns,
            total_ns: ended_ns - began_ns,
            setup_ns: progress.setup_ns,
            downtime_ns: progress.stopped_ns.map_or(0, |stopped_ns| ended_ns - stopped_ns),
            rounds: progress.rounds,
            wire_bytes,
            repeated_bytes,
            samples,
            sent,
            received,
            cpu,
            waited_ns,
            guest,
            guest_ran_ns,
            protections: link.protections(),
            regions,
        })
    }

    /// Sends rounds until the last one is sent, with the guest paused, or a limit is met. Returns the words for that limit.
    fn send_rounds(
        &self,
        link: &mut Link,
        progress: &mut Progress,
        watch: &mut dyn FnMut(Sample),
    ) -> Result<Option<String>, MigrationError> {
        let pages = self.guest.memory().pages();
        // Pages written before the first page is read travel with the first round.
        self.guest.take_dirty(&mut PageSet::none(pages))?;
        self.send_round(link, progress, PageSet::all(pages), watch)?;
        loop {
            let mut dirty = PageSet::none(pages);
            self.guest.take_dirty(&mut dirty)?;
            if let Some(last) = progress.rounds.last_mut() {
                last.dirty_pages = dirty.count();
            }
            if self.fits(link, progress, dirty.count()) {
                progress.stopped_ns = Some(monotonic_ns());
                self.guest.stop();
                self.guest.take_dirty(&mut dirty)?;
                self.send_round(link, progress, dirty, watch)?;
                return Ok(None);
            }
            if let Some(limit) = self.limit(progress) {
                return Ok(Some(limit));
            }
            self.send_round(link, progress, dirty, watch)?;
        }
    }

    /// Whether this many pages can be sent within the downtime limit, at the rate at which content was sent so far.
    fn fits(&self, link: &Link, progress: &Progress, dirty_pages: u64) -> bool {
        let content = |report: &RoundReport| (report.pages - report.zero_pages) * PAGE_BYTES as u64;
        let rate = match progress.rounds.last() {
            Some(last) if content(last) >= RATE_BYTES_MIN => {
                content(last) as f64 / last.time_ns.max(1) as f64
            }
            _ => {
                let elapsed_ns = progress.rounds.iter().map(|round| round.time_ns).sum::<u64>();
                (link.content_sent().pages * PAGE_BYTES as u64) as f64 / elapsed_ns.max(1) as f64
            }
        };
        let left = (dirty_pages * PAGE_BYTES as u64) as f64;
        left == 0.0 || left / rate <= self.spec.downtime_limit.0 as f64
    }

    /// The limit that was met, in words.
    fn limit(&self, progress: &Progress) -> Option<String> {
        if self.is_late(progress) {
            return Some(format!("the time limit of {}", self.limits.time_limit));
        }
        let rounds = progress.rounds.len();
        (rounds as u64 >= u64::from(self.limits.max_rounds))
            .then(|| format!("the limit of {} rounds", self.limits.max_rounds))
    }

    fn is_late(&self, progress: &Progress) -> bool {
        monotonic_ns().saturating_sub(progress.began_ns) >= self.limits.time_limit.0
    }

    fn send_round(
        &self,
        link: &mut Link,
        progress: &mut Progress,
        pages: PageSet,
        watch: &mut dyn FnMut(Sample),
    ) -> Result<(), MigrationError> {
        let number = u32::try_from(progress.rounds.len()).unwrap_or(u32::MAX).saturating_add(1);
        let is_quiet = progress.stopped_ns.is_some() || !self.guest.is_active();
        let round = Arc::new(Round::new(number, pages, is_quiet));
        let (before, wire_before, began_ns) = (link.content_sent(), link.sample(true), monotonic_ns());
        // The last round is sent whole: the guest waits for it.
        link.send_round(&round, |sample| {
            watch(sample);
            if progress.stopped_ns.is_none() && self.is_late(progress) {
                round.cut();
            }
        })?;
        let time_ns = monotonic_ns() - began_ns;
        let after = link.content_sent();
        progress.rounds.push(RoundReport {
            number,
            pages: after.pages + after.zero_pages - before.pages - before.zero_pages,
            zero_pages: after.zero_pages - before.zero_pages,
            wire_bytes: link.sample(true) - wire_before,
            time_ns,
            dirty_pages: 0,
        });
        Ok(())
    }

    fn switch_over(&self, link: &mut Link, progress: &Progress) -> Result<Received, MigrationError> {
        let rounds = u32::try_from(progress.rounds.len()).unwrap_or(u32::MAX);
        link.send_end(rounds)?;
        link.say(&FromSource::Complete)?;
        match link.hear(RUNNING_TIMEOUT, "the destination's message that the guest runs")? {
            FromDestination::Running { report } => Ok(report),
            other => Err(unexpected(&other)),
        }
    }

    /// Compares the memories, region by region, by a hash with a key that neither side could know before.
    fn compare(&self, link: &mut Link) -> Result<usize, MigrationError> {
        let bytes = self.guest.memory().bytes() as u64;
        let region_bytes =
            REGION_BYTES_MIN.max(bytes.div_ceil(REGIONS_MAX).next_multiple_of(PAGE_BYTES as u64));
        let key = rand::random();
        link.say(&FromSource::Compare { key, region_bytes })?;
        let size = usize::try_from(region_bytes).unwrap_or(usize::MAX);
        // SAFETY: the guest was stopped for the last round, or is idle, and runs again only when this is over.
        let own = unsafe { self.guest.memory().digests(key, size, threads()) };
        let FromDestination::Digests { digests } = link.hear(COMPARE_TIMEOUT, "the destination's hashes")?
        else {
            return Err(MigrationError::Control {
                peer: "destination",
                reason: "it did not send its hashes".to_owned(),
            });
        };
        let differs =
            |at: &usize| own.get(*at).map(|digest| format!("{digest:032x}")).as_ref() != digests.get(*at);
        let wrong: Vec<usize> = (0..own.len().max(digests.len())).filter(differs).collect();
        match wrong.first() {
            None => Ok(own.len()),
            Some(first) => Err(MigrationError::Mismatch {
                wrong: wrong.len(),
                regions: own.len(),
                first: *first as u64 * region_bytes,
            }),
        }
    }

    /// Measures how fast the same two processes move the same memory by plain writes and reads over as many connections, in bytes per
    /// second. The destination's memory is as fresh as that of a migration.
    ///
    /// # Errors
    /// When a side or a connection fails.
    pub fn stream_limit(&self) -> Result<f64, MigrationError> {
        self.guest.stop();
        let measure = || -> Result<f64, MigrationError> {
            let memory = self.guest.memory();
            let mut link = Link::open(&self.target, &self.spec, memory, Carry::Stream)?;
            let began_ns = monotonic_ns();
            let channels = u8::try_from(self.spec.channels).unwrap_or(u8::MAX);
            link.send_stream(|channel| part(channel, channels, memory.pages()))?;
            link.say(&FromSource::Complete)?;
            let answer = link.hear(RUNNING_TIMEOUT, "the end of the stream")?;
            let elapsed_ns = monotonic_ns() - began_ns;
            link.say(&FromSource::Release)?;
            match answer {
                FromDestination::Running { .. } => Ok(memory.bytes() as f64 / elapsed_ns.max(1) as f64 * 1e9),
                other => Err(unexpected(&other)),
            }
        };
        let measured = measure();
        self.guest.resume();
        measured
    }
}

/// CPU time of this process without the guest's writer.
#[derive(Clone, Copy)]
struct Spent {
    process: CpuTime,
    guest_ns: u64,
}

impl Spent {
    fn now() -> Result<Self, MigrationError> {
        let guest_ns = thread_cpu_times("guest")?.iter().map(|thread| thread.cpu_ns).sum();
        Ok(Self { process: process_cpu_time(std::process::id())?, guest_ns })
    }

    fn since(self, before: Self) -> CpuTime {
        let mut spent = self.process.saturating_sub(before.process);
        // The writer runs in user mode, but for its page faults, which are the migration's doing.
        spent.user_ns = spent.user_ns.saturating_sub(self.guest_ns.saturating_sub(before.guest_ns));
        spent
    }
}
