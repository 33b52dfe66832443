//! The pages to which the guest has written since they were last sent.
//!
//! From Linux 6.7 on, the kernel finds them, by userfaultfd's asynchronous write protection, which one ioctl on /proc/self/pagemap reads and
//! renews. On older kernels the guest's writer notes each page itself, which only Plumbline's writer can do. The evidence of a slot names
//! the method.

mod userfault;
mod writer;

use std::sync::Arc;

use self::userfault::Userfault;
pub use self::writer::{BACKLOG_NS, Writer, WriterCounts};
use super::bitmap::PageSet;
use super::error::MigrationError;
use super::memory::GuestMemory;
use crate::settings::DirtySettings;

/// A guest: its memory, the writer that dirties it, and the tracker of the writes.
#[derive(Debug)]
pub struct Guest {
    memory: Arc<GuestMemory>,
    activity: Option<Activity>,
}

#[derive(Debug)]
struct Activity {
    writer: Writer,
    watch: Option<Userfault>,
}

impl Guest {
    /// Starts a guest, with a writer if the rate is above 0.
    ///
    /// # Errors
    /// When the writer's thread cannot be started.
    pub fn start(memory: GuestMemory, dirty: &DirtySettings) -> Result<Self, MigrationError> {
        let memory = Arc::new(memory);
        let activity = if dirty.rate.0 > 0.0 {
            let watch = Userfault::watch(Arc::clone(&memory)).ok();
            let writer = Writer::start(Arc::clone(&memory), dirty, watch.is_none())?;
            Some(Activity { writer, watch })
        } else {
            None
        };
        Ok(Self { memory, activity })
    }

    /// The memory.
    #[must_use]
    pub fn memory(&self) -> &Arc<GuestMemory> {
        &self.memory
    }

    /// Whether the guest writes to its memory while it runs.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.activity.is_some()
    }

    /// The tracker of dirty pages.
    #[must_use]
    pub fn watch_name(&self) -> &'static str {
        match &self.activity {
            None => "idle guest",
            Some(Activity { watch: Some(_), .. }) => "userfaultfd write protection",
            Some(_) => "the writer's own bitmap",
        }
    }

    /// Adds the pages that were written since the last call, and forgets them.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn take_dirty(&self, set: &mut PageSet) -> Result<(), MigrationError> {
        match &self.activity {
            None => Ok(()),
            Some(Activity { watch: Some(watch), .. }) => watch.take(set),
            Some(Activity { writer, .. }) => {
                writer.dirty().drain_into(set);
                Ok(())
            }
        }
    }

    /// Pauses the guest. When this returns, nothing writes to its memory.
    pub fn stop(&self) {
        if let Some(activity) = &self.activity {
            activity.writer.pause();
        }
    }

    /// Resumes the guest.
    pub fn resume(&self) {
        if let Some(activity) = &self.activity {
            activity.writer.resume();
        }
    }

    /// The work of the guest's writer so far.
    #[must_use]
    pub fn counts(&self) -> WriterCounts {
        self.activity.as_ref().map(|activity| activity.writer.counts()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::bitmap::PageRange;
    use crate::settings::Pattern;
    use plumb_codec::PAGE_BYTES;
    use plumb_model::ByteRate;

    fn guest(rate: f64, pattern: Pattern) -> Guest {
        let memory = GuestMemory::map(600 * PAGE_BYTES as u64).unwrap();
        Guest::start(memory, &DirtySettings { rate: ByteRate(rate), pattern }).unwrap()
    }

    fn wait_for(guest: &Guest, pages: u64) {
        let before = guest.counts().pages;
        while guest.counts().pages < before + pages {
            plumb_host::time::sleep(std::time::Duration::from_millis(1));
        }
    }

    fn changed(before: &[u8], after: &[u8]) -> PageSet {
        let mut set = PageSet::none(600);
        for (page, (old, new)) in before.chunks(PAGE_BYTES).zip(after.chunks(PAGE_BYTES)).enumerate() {
            if old != new {
                set.insert(PageRange { first: page as u64, count: 1 });
            }
        }
        set
    }

    fn copy(guest: &Guest) -> Vec<u8> {
        let mut all = vec![0; guest.memory().bytes()];
        guest.memory().copy_out(&(0..all.len()), &mut all);
        all
    }

    #[test]
    fn every_page_that_changed_is_dirty_and_a_guest_at_rest_dirties_none() {
        for pattern in [Pattern::Sequential, Pattern::Uniform, Pattern::HotSet] {
            let guest = guest(40e6, pattern);
            guest.stop();
            guest.take_dirty(&mut PageSet::none(600)).unwrap();
            let before = copy(&guest);
            guest.resume();
            wait_for(&guest, 100);
            guest.stop();
            let (mut dirty, after) = (PageSet::none(600), copy(&guest));
            guest.take_dirty(&mut dirty).unwrap();
            let changed = changed(&before, &after);
            assert!(changed.count() > 20, "{pattern:?}");
            let mut both = dirty.clone();
            let mut page = 0;
            while let Some(run) = changed.next_run(page, 600) {
                both.insert(run);
                page = run.first + run.count;
            }
            assert_eq!(both, dirty, "{pattern:?}: a changed page was not told ({})", guest.watch_name());
            let mut none = PageSet::none(600);
            guest.take_dirty(&mut none).unwrap();
            assert_eq!(none.count(), 0, "{pattern:?}");
        }
    }

    #[test]
    fn the_writers_own_bitmap_tells_what_the_kernel_tells() {
        let memory = Arc::new(GuestMemory::map(600 * PAGE_BYTES as u64).unwrap());
        let dirty = DirtySettings { rate: ByteRate(40e6), pattern: Pattern::Uniform };
        let writer = Writer::start(Arc::clone(&memory), &dirty, true).unwrap();
        let guest = Guest { memory, activity: Some(Activity { writer, watch: None }) };
        wait_for(&guest, 100);
        guest.stop();
        let mut told = PageSet::none(600);
        guest.take_dirty(&mut told).unwrap();
        let changed = changed(&vec![0; guest.memory().bytes()], &copy(&guest));
        assert_eq!(told, changed);
    }

    #[test]
    fn an_idle_guest_dirties_nothing() {
        let guest = guest(0.0, Pattern::Uniform);
        let mut none = PageSet::none(600);
        guest.take_dirty(&mut none).unwrap();
        assert_eq!((none.count(), guest.is_active(), guest.watch_name()), (0, false, "idle guest"));
    }
}
