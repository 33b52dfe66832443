//! The runs below the served directories: found, summarised, and opened.
//!
//! Nothing here runs by itself. A page request scans the directories, and a run is parsed again only if its
//! files have changed. A page that nobody requests costs a run nothing.

mod opened;
mod state;
mod summary;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_store::Stamp;

pub use opened::{OpenError, Opened};
pub use state::State;
pub use summary::Summary;

/// The most entries of a folder that are scanned.
const ENTRIES_MAX: usize = 50_000;
/// How many opened runs are held in memory.
const OPENED_MAX: usize = 4;
/// How long a request may read runs that have no summary yet. The others are read in the background, and the page asks for
/// them by itself.
const PATIENCE_NS: u64 = 300_000_000;
/// The pause between two such reads while a run is under way.
const PAUSE: Duration = Duration::from_millis(250);
/// Folders are scanned again after this many times the duration of the last scan.
const REST: u64 = 50;

/// The runs below some directories.
#[derive(Debug)]
pub struct Shelf {
    roots: Vec<PathBuf>,
    known: Mutex<Known>,
    opened: Mutex<Vec<(String, Arc<Mutex<Opened>>)>>,
    /// Whether a thread is reading the runs that have no summary yet.
    is_read: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    entries: HashMap<PathBuf, Entry>,
    /// Paths by their ids.
    ids: HashMap<String, PathBuf>,
    /// The earliest time of the next scan, in ns of the monotonic clock.
    again_ns: u64,
}

#[derive(Debug)]
struct Entry {
    stamp: Stamp,
    /// `None` until it was read.
    summary: Option<Arc<Summary>>,
}

/// All runs, as far as they have been read.
#[derive(Debug)]
pub struct Listing {
    /// The runs that have been read.
    pub runs: Vec<Arc<Summary>>,
    /// How many are still to be read.
    pub unread: usize,
}

impl Shelf {
    /// Creates a shelf of run directories and of folders that hold some, and scans them.
    #[must_use]
    pub fn new(roots: Vec<PathBuf>) -> Self {
        let (known, opened) = (Mutex::default(), Mutex::default());
        let shelf = Self { roots, known, opened, is_read: AtomicBool::new(false) };
        shelf.look();
        shelf
    }

    /// The served directories.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// All runs. Reads changed runs for a short time only; [`Shelf::read_rest`] reads the rest.
    pub fn list(&self) -> Listing {
        self.look();
        self.read_within(PATIENCE_NS);
        let known = self.known();
        let runs: Vec<Arc<Summary>> =
            known.entries.values().filter_map(|entry| entry.summary.clone()).collect();
        Listing { unread: known.entries.len() - runs.len(), runs }
    }

    /// Reads the newest run that has no summary yet. Returns `false` if there is none.
    fn read_more(&self) -> bool {
        let next = {
            let known = self.known();
            let unread = known.entries.iter().filter(|(_, entry)| entry.summary.is_none());
            let newest = unread.max_by_key(|(_, entry)| entry.stamp.begun_ns());
            newest.map(|(path, entry)| (path.clone(), entry.stamp))
        };
        let Some((path, stamp)) = next else { return false };
        let summary = Summary::read_run(id_of(&path), &path);
        let mut known = self.known();
        if let Some(entry) = known.entries.get_mut(&path) {
            *entry = Entry { stamp, summary: Some(Arc::new(summary)) };
        }
        true
    }

    /// Reads all runs that have no summary yet, unless another thread is reading them. Pauses after each run
    /// while a run is under way.
    pub fn read_rest(&self) {
        if self.is_read.swap(true, Ordering::SeqCst) {
            return;
        }
        while self.read_more() {
            let is_running =
                |entry: &Entry| entry.summary.as_ref().is_some_and(|it| it.state == State::Running);
            if self.known().entries.values().any(is_running) {
                sleep(PAUSE);
            }
        }
        self.is_read.store(false, Ordering::SeqCst);
    }

    fn read_within(&self, patience_ns: u64) {
        let until_ns = monotonic_ns() + patience_ns;
        while monotonic_ns() < until_ns && self.read_more() {}
    }

    /// The directory of a run by its id.
    pub fn path(&self, id: &str) -> Option<PathBuf> {
        let find = || self.known().ids.get(id).cloned();
        find().or_else(|| {
            self.look();
            find()
        })
    }

    /// A run with all of its slots as they are now; `None` if no run has that id.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn open(&self, id: &str) -> Option<Result<Arc<Mutex<Opened>>, OpenError>> {
        let path = self.path(id)?;
        let held = {
            let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
            let at = opened.iter().position(|(known, _)| known == id);
            // The list is in the order of use, the latest last.
            at.map(|at| opened.remove(at)).inspect(|entry| opened.push(entry.clone())).map(|(_, run)| run)
        };
        if let Some(held) = held {
            let refreshed = held.lock().unwrap_or_else(PoisonError::into_inner).go_on();
            return Some(refreshed.map(|_| Arc::clone(&held)));
        }
        let run = match Opened::read_directory(&path) {
            Ok(run) => Arc::new(Mutex::new(run)),
            Err(error) => return Some(Err(error)),
        };
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|(known, _)| known != id);
        if opened.len() >= OPENED_MAX {
            opened.remove(0);
        }
        opened.push((id.to_owned(), Arc::clone(&run)));
        Some(Ok(run))
    }

    /// Makes the next request scan the folders again, however recent the last scan is.
    pub fn look_again(&self) {
        self.known().again_ns = 0;
    }

    /// Scans for runs, and for those that have changed.
    fn look(&self) {
        let begun_ns = monotonic_ns();
        if begun_ns < self.known().again_ns {
            return;
        }
        let found: Vec<PathBuf> = self.roots.iter().flat_map(|root| runs_below(root)).collect();
        let stamped = found.into_iter().map(|path| (Stamp::of_directory(&path), path));
        let stamps: HashMap<PathBuf, Stamp> =
            stamped.filter(|(stamp, _)| stamp.has_run()).map(|(stamp, path)| (path, stamp)).collect();
        let mut known = self.known();
        known.entries.retain(|path, _| stamps.contains_key(path));
        for (path, &stamp) in &stamps {
            let is_current = known.entries.get(path).is_some_and(|entry| {
                let is_settled = entry.summary.as_ref().is_none_or(|it| it.is_settled(path));
                entry.stamp == stamp && is_settled
            });
            if !is_current && known.entries.insert(path.clone(), Entry { stamp, summary: None }).is_none() {
                known.ids.insert(id_of(path), path.clone());
            }
        }
        known.ids.retain(|_, path| stamps.contains_key(path));
        let ended_ns = monotonic_ns();
        known.again_ns = ended_ns + REST * (ended_ns - begun_ns);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The root itself if it is a run, otherwise the directories in it.
fn runs_below(root: &Path) -> Vec<PathBuf> {
    if Stamp::of_directory(root).has_run() {
        return vec![root.to_owned()];
    }
    let entries = std::fs::read_dir(root).into_iter().flatten().flatten().take(ENTRIES_MAX);
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// The id of a run in addresses: 16 hexadecimal digits of the SHA-256 of its path.
#[must_use]
pub fn id_of(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let digest = digest(&SHA256, whole.as_os_str().as_bytes());
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_run_is_not_found_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("run.json"), "{}").unwrap();
        };
        make("one");
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        std::os::unix::fs::symlink(folder.path().join("one"), folder.path().join("link")).unwrap();
        let shelf = Shelf::new(vec![folder.path().to_owned()]);
        let listing = shelf.list();
        assert_eq!((listing.runs.len(), listing.unread), (1, 0));
        assert!(matches!(listing.runs[0].state, State::Unreadable), "{:?}", listing.runs[0]);
        let id = &listing.runs[0].id;
        assert_eq!(shelf.path(id), Some(folder.path().join("one")));
        assert!(shelf.open(id).unwrap().is_err() && shelf.open("../one").is_none());
        let alone = Shelf::new(vec![folder.path().join("one")]);
        assert_eq!(&alone.list().runs[0].id, id, "a run has one id, by whatever directory it is served");
    }
}
