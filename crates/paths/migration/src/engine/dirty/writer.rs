//! The guest's writer: a thread that dirties pages at a rate, eight bytes in each.
//!
//! It keeps to its schedule in small steps, so that the rate holds over every few milliseconds, and it stops at once. If it falls behind by
//! more than [`BACKLOG_NS`], it counts the missed writes and does not make up for them, because a guest that could not run does not run
//! twice as fast afterwards.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::SplitMix;

use super::super::bitmap::SharedPageSet;
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use crate::settings::{DirtySettings, HOT_PAGES, HOT_WRITES, Pattern};
use plumb_codec::PAGE_BYTES;

/// Pages between two readings of the clock.
const STEP_PAGES: u64 = 64;
/// The longest rest between two steps.
const REST: Duration = Duration::from_micros(500);
/// The longest backlog that is made up for. Writes of this much time before a migration may so fall into it.
pub const BACKLOG_NS: u64 = 20_000_000;
const WORDS_PER_PAGE: u64 = PAGE_BYTES as u64 / 8;

/// The work of a writer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriterCounts {
    /// Pages that were written.
    pub pages: u64,
    /// Pages for which it was too late.
    pub missed: u64,
    /// The time that it ran.
    pub ran_ns: u64,
}

impl WriterCounts {
    /// The work done since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            pages: self.pages - earlier.pages,
            missed: self.missed - earlier.missed,
            ran_ns: self.ran_ns - earlier.ran_ns,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Run,
    Pause,
    End,
}

#[derive(Debug)]
struct Shared {
    order: Mutex<(Order, bool)>,
    changed: Condvar,
    is_ordered: AtomicBool,
    pages: AtomicU64,
    missed: AtomicU64,
    ran_ns: AtomicU64,
    dirty: SharedPageSet,
}

/// A writer that runs until it is dropped.
#[derive(Debug)]
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts a writer. With `notes`, it notes each page that it writes.
    pub(super) fn start(
        memory: Arc<GuestMemory>,
        dirty: &DirtySettings,
        notes: bool,
    ) -> Result<Self, MigrationError> {
        let shared = Arc::new(Shared {
            order: Mutex::new((Order::Run, false)),
            changed: Condvar::new(),
            is_ordered: AtomicBool::new(false),
            pages: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            ran_ns: AtomicU64::new(0),
            dirty: SharedPageSet::none(if notes { memory.pages() } else { 0 }),
        });
        let (dirty, seen) = (dirty.clone(), Arc::clone(&shared));
        let thread = std::thread::Builder::new()
            .name("guest".to_owned())
            .spawn(move || run(&memory, &dirty, notes, &seen))
            .map_err(MigrationError::kernel("start the guest's writer"))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    pub(super) fn dirty(&self) -> &SharedPageSet {
        &self.shared.dirty
    }

    /// Waits until the writer has paused.
    pub(super) fn pause(&self) {
        self.order(Order::Pause);
        let order = self.shared.order.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.shared.changed.wait_while(order, |(_, rests)| !*rests));
    }

    pub(super) fn resume(&self) {
        self.order(Order::Run);
    }

    pub(super) fn counts(&self) -> WriterCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Acquire);
        let Shared { pages, missed, ran_ns, .. } = &*self.shared;
        WriterCounts { pages: read(pages), missed: read(missed), ran_ns: read(ran_ns) }
    }

    fn order(&self, order: Order) {
        let mut current = self.shared.order.lock().unwrap_or_else(PoisonError::into_inner);
        current.0 = order;
        self.shared.is_ordered.store(order != Order::Run, Ordering::Release);
        self.shared.changed.notify_all();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.order(Order::End);
        if let Some(thread) = self.thread.take() {
            // A writer that panicked has nothing more to say here.
            let _ = thread.join();
        }
    }
}

fn run(memory: &GuestMemory, dirty: &DirtySettings, notes: bool, shared: &Shared) {
    let ns_per_page = PAGE_BYTES as f64 / dirty.rate.0 * 1e9;
    let mut choice =
        Choice { pattern: dirty.pattern, pages: memory.pages(), next: 0, random: SplitMix::new(0x9e37_79b9) };
    let mut epoch_ns = monotonic_ns();
    let mut done = 0_u64;
    loop {
        if shared.is_ordered.load(Ordering::Acquire) {
            if !rest(shared) {
                return;
            }
            (epoch_ns, done) = (monotonic_ns(), 0);
        }
        let began_ns = monotonic_ns();
        let due = due(began_ns - epoch_ns, ns_per_page).saturating_sub(done);
        if due == 0 {
            sleep(REST);
        }
        for _ in 0..due.min(STEP_PAGES) {
            let (page, word, value) = choice.draw();
            memory.store(usize::try_from(page * WORDS_PER_PAGE + word).unwrap_or(0), value);
            if notes {
                shared.dirty.insert(page);
            }
        }
        done += due.min(STEP_PAGES);
        shared.pages.fetch_add(due.min(STEP_PAGES), Ordering::AcqRel);
        shared.ran_ns.fetch_add(monotonic_ns() - began_ns, Ordering::AcqRel);
        let behind = due.saturating_sub(STEP_PAGES);
        if behind as f64 * ns_per_page > BACKLOG_NS as f64 {
            shared.missed.fetch_add(behind, Ordering::AcqRel);
            done += behind;
        }
    }
}

fn due(elapsed_ns: u64, ns_per_page: f64) -> u64 {
    (elapsed_ns as f64 / ns_per_page) as u64
}

/// Waits for another order. Returns `false` when the writer is to end.
fn rest(shared: &Shared) -> bool {
    let mut order = shared.order.lock().unwrap_or_else(PoisonError::into_inner);
    order.1 = true;
    shared.changed.notify_all();
    while order.0 == Order::Pause {
        order = shared.changed.wait(order).unwrap_or_else(PoisonError::into_inner);
    }
    order.1 = false;
    order.0 == Order::Run
}

/// The choice of the next page.
struct Choice {
    pattern: Pattern,
    pages: u64,
    next: u64,
    random: SplitMix,
}

impl Choice {
    /// Chooses a page, a word in it, and the value to write there.
    fn draw(&mut self) -> (u64, u64, u64) {
        let (place, value) = (self.random.draw(), self.random.draw());
        let page = match self.pattern {
            Pattern::Sequential => {
                self.next = (self.next + 1) % self.pages;
                self.next
            }
            Pattern::Uniform => scale(place, self.pages),
            Pattern::HotSet => {
                let hot = part(HOT_PAGES.0, self.pages).max(1);
                let is_hot = self.random.draw() < part(HOT_WRITES.0, u64::MAX);
                if is_hot { scale(place, hot) } else { scale(place, self.pages) }
            }
        };
        (page, value >> 32 & (WORDS_PER_PAGE - 1), value)
    }
}

/// Maps a random word to a number below `limit`.
fn scale(word: u64, limit: u64) -> u64 {
    u64::try_from((u128::from(word) * u128::from(limit)) >> 64).unwrap_or(0)
}

fn part(share: f64, whole: u64) -> u64 {
    (share * whole as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(pattern: Pattern) -> Vec<u64> {
        let mut choice = Choice { pattern, pages: 1000, next: 0, random: SplitMix::new(1) };
        (0..20_000).map(|_| choice.draw().0).collect()
    }

    #[test]
    fn patterns_are_what_they_are_called() {
        let sequential = pages(Pattern::Sequential);
        assert!(sequential.windows(2).all(|two| two[1] == (two[0] + 1) % 1000));
        let below_100 = |pages: &[u64]| pages.iter().filter(|page| **page < 100).count();
        let uniform = pages(Pattern::Uniform);
        assert!((1800..2200).contains(&below_100(&uniform)), "{}", below_100(&uniform));
        assert!(uniform.iter().all(|page| *page < 1000));
        // Nine of ten, and a tenth of the rest.
        let hot = pages(Pattern::HotSet);
        assert!((18_000..18_400).contains(&below_100(&hot)), "{}", below_100(&hot));
    }

    #[test]
    fn a_word_of_every_place_in_a_page_is_written() {
        let mut choice = Choice { pattern: Pattern::Uniform, pages: 1, next: 0, random: SplitMix::new(1) };
        let words: std::collections::BTreeSet<u64> = (0..10_000).map(|_| choice.draw().1).collect();
        assert_eq!(words.len() as u64, WORDS_PER_PAGE);
    }
}
