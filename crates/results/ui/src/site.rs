//! Everything that pages share.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_history::Location;
use plumb_host::process::Detached;
use plumb_host::time::monotonic_ns;

use crate::access::Door;
use crate::samples::Samples;
use crate::shelf::Shelf;

/// The folders that a page serves, and the program that starts its runs.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Run directories, and folders that hold some.
    pub roots: Vec<PathBuf>,
    /// The location of the history; `None` if nothing names one.
    pub history: Option<Location>,
    /// The path of the program `plumb`.
    pub program: PathBuf,
    /// The version of the program.
    pub version: &'static str,
    /// Name and text of every built-in experiment.
    pub experiments: &'static [(&'static str, &'static str)],
}

/// See the module.
#[derive(Debug)]
pub struct Site {
    pub settings: Settings,
    pub door: Door,
    pub shelf: Shelf,
    /// The cached samples for Prometheus.
    pub samples: Samples,
    /// How many browsers follow a run.
    watchers: AtomicUsize,
    /// The time of the last request, in ns of the monotonic clock.
    asked_ns: AtomicU64,
    /// Runs that the page started.
    started: Mutex<Vec<Detached>>,
}

impl Site {
    /// Creates a site with these settings and access rules.
    #[must_use]
    pub fn new(settings: Settings, door: Door) -> Self {
        let shelf = Shelf::new(settings.roots.clone());
        Self {
            settings,
            door,
            shelf,
            samples: Samples::default(),
            watchers: AtomicUsize::new(0),
            asked_ns: AtomicU64::new(monotonic_ns()),
            started: Mutex::default(),
        }
    }

    /// Records that a request has arrived.
    pub fn touch(&self) {
        self.asked_ns.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// The time since the last request.
    #[must_use]
    pub fn idle(&self) -> Duration {
        Duration::from_nanos(monotonic_ns().saturating_sub(self.asked_ns.load(Ordering::Relaxed)))
    }

    /// How many browsers follow a run.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.watchers.load(Ordering::SeqCst)
    }

    /// Remembers a run that the page started, and forgets the runs that have ended.
    pub fn started(&self, process: Detached) {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.retain(Detached::is_running);
        started.push(process);
    }

    /// Counts one more follower until the result is dropped; `None` if there are `most` already.
    #[must_use]
    pub fn watch(self: &Arc<Self>, most: usize) -> Option<Watching> {
        let before = self.watchers.fetch_add(1, Ordering::SeqCst);
        let watching = Watching(Arc::clone(self));
        (before < most).then_some(watching)
    }
}

/// A browser that follows a run.
#[derive(Debug)]
pub struct Watching(Arc<Site>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.watchers.fetch_sub(1, Ordering::SeqCst);
    }
}
