//! Guest memory: one anonymous mapping, on huge pages where the kernel has them.
//!
//! While the guest runs, its writer changes memory at any moment. So nobody holds a slice of it then: the writer stores
//! words atomically and the channels copy them atomically. Only while the guest stands still are there slices, and
//! pages that the kernel sends from where they are.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use twox_hash::XxHash3_128;

use super::error::MigrationError;
use plumb_codec::PAGE_BYTES;

/// The size of a huge page, to which the mapping is aligned.
const HUGE_PAGE_BYTES: usize = 2 << 20;
const WORD_BYTES: usize = 8;

/// The memory of a guest.
#[derive(Debug)]
pub struct GuestMemory {
    base: NonNull<u8>,
    bytes: usize,
    mapping: NonNull<libc::c_void>,
    mapping_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone and stays until it is dropped. Shared access is by atomic words, by the
// kernel, or through functions that are unsafe and say what their callers promise.
unsafe impl Send for GuestMemory {}
// SAFETY: see above.
unsafe impl Sync for GuestMemory {}

impl GuestMemory {
    /// Maps memory of zeros, a multiple of 4 KiB. No page of it exists until it is touched.
    ///
    /// # Errors
    /// When the kernel lacks the memory.
    pub fn map(bytes: u64) -> Result<Self, MigrationError> {
        let failed = |cause| MigrationError::Memory { bytes, cause };
        let too_much = || failed(io::ErrorKind::OutOfMemory.into());
        let wanted = usize::try_from(bytes).map_err(|_| too_much())?;
        let mapping_bytes = wanted.checked_add(HUGE_PAGE_BYTES).ok_or_else(too_much)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let mapping = unsafe {
            libc::mmap(std::ptr::null_mut(), mapping_bytes, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if mapping == libc::MAP_FAILED {
            return Err(failed(io::Error::last_os_error()));
        }
        let mapping = NonNull::new(mapping).ok_or_else(too_much)?;
        let offset = mapping.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
        // SAFETY: the offset is below the size of a huge page, by which the mapping is larger than `wanted`.
        let base = unsafe { mapping.cast::<u8>().add(offset) };
        // SAFETY: the range is within the mapping; the advice changes no content. A kernel without huge pages refuses it,
        // and the memory works all the same.
        unsafe { libc::madvise(base.as_ptr().cast(), wanted, libc::MADV_HUGEPAGE) };
        Ok(Self { base, bytes: wanted, mapping, mapping_bytes })
    }

    /// Makes every page exist, without changing its content.
    ///
    /// # Errors
    /// When the kernel lacks the memory.
    pub fn populate(&mut self) -> Result<(), MigrationError> {
        let bytes = self.bytes;
        // SAFETY: the range is the mapping's own; the advice changes no content.
        let refused =
            unsafe { libc::madvise(self.base.as_ptr().cast(), bytes, libc::MADV_POPULATE_WRITE) } != 0;
        if !refused {
            return Ok(());
        }
        match io::Error::last_os_error() {
            // Kernels before 5.14 do not know the advice.
            cause if cause.raw_os_error() == Some(libc::EINVAL) => {
                // Without the hint a compiler may see that nothing changes, and leave it out.
                self.as_mut_slice()
                    .chunks_mut(PAGE_BYTES)
                    .for_each(|page| page[0] = std::hint::black_box(page[0]));
                Ok(())
            }
            cause => Err(MigrationError::Memory { bytes: bytes as u64, cause }),
        }
    }

    /// The size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The size in pages.
    #[must_use]
    pub fn pages(&self) -> u64 {
        (self.bytes / PAGE_BYTES) as u64
    }

    /// All of the memory, to be filled.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is this long and readable and writable, and `&mut self` is the only access to it.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.bytes) }
    }

    /// The address of a range.
    ///
    /// # Panics
    /// When the range is not within memory.
    #[must_use]
    pub fn pointer(&self, range: &Range<usize>) -> *mut u8 {
        assert!(range.start <= range.end && range.end <= self.bytes, "{range:?} of {} bytes", self.bytes);
        // SAFETY: the start is within the mapping, by the assertion.
        unsafe { self.base.as_ptr().add(range.start) }
    }

    /// A word of it, for the guest's writer and for copies.
    fn word(&self, at: usize) -> &AtomicU64 {
        let start = at * WORD_BYTES;
        let pointer = self.pointer(&(start..start + WORD_BYTES));
        // SAFETY: the word is within the mapping and aligned, since the base is; while the guest runs all access in this
        // process is by atomic words.
        unsafe { AtomicU64::from_ptr(pointer.cast()) }
    }

    /// Writes a word, as the guest does.
    ///
    /// # Panics
    /// When no such word exists.
    pub fn store(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Copies a range of whole words out, also while the guest writes to it: then a page may be partly old and partly
    /// new, and is dirty.
    ///
    /// # Panics
    /// When the range is not within memory, or has another size than `out`.
    pub fn copy_out(&self, range: &Range<usize>, out: &mut [u8]) {
        assert_eq!(range.len(), out.len());
        let first = self.pointer(range).cast::<u64>();
        let (words, _) = out.as_chunks_mut::<WORD_BYTES>();
        for (at, word) in words.iter_mut().enumerate() {
            // SAFETY: the range is within the mapping, pages are aligned to words, and access is atomic.
            let value = unsafe { AtomicU64::from_ptr(first.add(at)) };
            *word = value.load(Ordering::Relaxed).to_ne_bytes();
        }
    }

    /// A range while nothing writes to it.
    ///
    /// # Safety
    /// While the slice exists, nothing in this process, and no system call of it, writes to the range.
    ///
    /// # Panics
    /// When the range is not within memory.
    #[must_use]
    pub unsafe fn quiet(&self, range: &Range<usize>) -> &[u8] {
        let pointer = self.pointer(range);
        // SAFETY: the range is within the mapping, and the caller keeps writers away.
        unsafe { std::slice::from_raw_parts(pointer, range.len()) }
    }

    /// A range to which only the caller writes.
    ///
    /// # Safety
    /// While the slice exists, nothing else reads or writes the range.
    ///
    /// # Panics
    /// When the range is not within memory.
    #[must_use]
    #[expect(clippy::mut_from_ref, reason = "threads write to different pages of one memory")]
    pub unsafe fn claimed(&self, range: &Range<usize>) -> &mut [u8] {
        let pointer = self.pointer(range);
        // SAFETY: the range is within the mapping, and the caller is alone with it.
        unsafe { std::slice::from_raw_parts_mut(pointer, range.len()) }
    }

    /// A keyed hash of each region, computed by as many threads as there are CPUs.
    ///
    /// # Safety
    /// Nothing writes to the memory until this returns.
    #[must_use]
    pub unsafe fn digests(&self, key: u64, region_bytes: usize, threads: usize) -> Vec<u128> {
        // SAFETY: the caller keeps writers away.
        let memory = unsafe { self.quiet(&(0..self.bytes)) };
        let regions: Vec<&[u8]> = memory.chunks(region_bytes.max(1)).collect();
        let share = regions.len().div_ceil(threads.max(1)).max(1);
        let hash = |regions: &[&[u8]]| -> Vec<u128> {
            regions.iter().map(|region| XxHash3_128::oneshot_with_seed(key, region)).collect()
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                regions.chunks(share).map(|regions| scope.spawn(move || hash(regions))).collect();
            workers.into_iter().flat_map(|worker| worker.join().unwrap_or_default()).collect()
        })
    }
}

impl Drop for GuestMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own and nobody can have a reference into it any more.
        unsafe { libc::munmap(self.mapping.as_ptr(), self.mapping_bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_as_large_as_asked() {
        let mut memory = GuestMemory::map(3 * PAGE_BYTES as u64).unwrap();
        assert_eq!((memory.bytes(), memory.pages()), (3 * PAGE_BYTES, 3));
        assert!(memory.pointer(&(0..0)).cast::<[u8; HUGE_PAGE_BYTES]>().align_offset(HUGE_PAGE_BYTES) == 0);
        assert!(memory.as_mut_slice().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_the_guest_stores_is_copied_and_changes_the_digest_of_its_region_alone() {
        let memory = GuestMemory::map(8 * PAGE_BYTES as u64).unwrap();
        // SAFETY: no other thread knows of this memory.
        let digests = || unsafe { memory.digests(7, 2 * PAGE_BYTES, 3) };
        let before = digests();
        memory.store(3 * PAGE_BYTES / WORD_BYTES + 1, 0x0102);
        let mut page = vec![0_u8; PAGE_BYTES];
        memory.copy_out(&(3 * PAGE_BYTES..4 * PAGE_BYTES), &mut page);
        assert_eq!(page[8..10], [2, 1]);
        let after = digests();
        let changed: Vec<usize> = (0..4).filter(|at| before[*at] != after[*at]).collect();
        assert_eq!((before.len(), changed), (4, vec![1]));
        // SAFETY: as above.
        assert_ne!(after, unsafe { memory.digests(8, 2 * PAGE_BYTES, 1) });
    }

    #[test]
    fn memory_that_no_machine_has_is_an_error() {
        let error = GuestMemory::map(1 << 62).unwrap_err().to_string();
        assert!(error.starts_with("map 4611686018427387904 bytes of guest memory: "), "{error}");
    }

    #[test]
    #[should_panic(expected = "of 4096 bytes")]
    fn nothing_is_read_behind_the_end() {
        let memory = GuestMemory::map(PAGE_BYTES as u64).unwrap();
        let _ = memory.pointer(&(0..PAGE_BYTES + 1));
    }
}
