//! Page-aligned memory for the blocks in flight, in one piece, so that the kernel can pin it once.

use std::io;
use std::ptr::NonNull;

/// Blocks of equal length in one mapping. Each begins on a page, which satisfies every device's alignment.
#[derive(Debug)]
pub struct Buffers {
    base: NonNull<u8>,
    bytes: usize,
    stride: usize,
    block: usize,
}

// SAFETY: the mapping belongs to this value alone, and nothing in it depends on the thread.
unsafe impl Send for Buffers {}

const PAGE_BYTES: usize = 4096;

impl Buffers {
    /// `count` blocks of `block` bytes, zeroed.
    ///
    /// # Errors
    /// When the kernel has no memory for them.
    pub fn new(count: usize, block: usize) -> io::Result<Self> {
        let stride = block.next_multiple_of(PAGE_BYTES);
        let bytes = stride
            .checked_mul(count.max(1))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: an anonymous private mapping touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // Larger pages make a registered buffer cheaper to walk. A kernel that has none ignores it.
        // SAFETY: the range is the mapping just made, and advice does not change what it holds.
        let _ = unsafe { libc::madvise(base, bytes, libc::MADV_HUGEPAGE) };
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, bytes, stride, block })
    }

    /// All of the mapping, for registration.
    #[must_use]
    pub fn whole(&self) -> libc::iovec {
        libc::iovec { iov_base: self.base.as_ptr().cast(), iov_len: self.bytes }
    }

    /// Where block `index` lies.
    #[must_use]
    pub fn address(&self, index: usize) -> *mut u8 {
        let at = index * self.stride;
        assert!(at < self.bytes, "block {index} is not among those that were made");
        // SAFETY: the assertion keeps it within the mapping.
        unsafe { self.base.as_ptr().add(at) }
    }

    /// Block `index`, which must not be in flight.
    #[must_use]
    pub fn block(&self, index: usize) -> &[u8] {
        // SAFETY: every block lies within the mapping, which lives as long as `self`; it was zeroed by the kernel.
        unsafe { std::slice::from_raw_parts(self.address(index), self.block) }
    }

    /// Block `index`, which must not be in flight, to be written.
    pub fn block_mut(&mut self, index: usize) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.address(index), self.block) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it outlives `self`.
        let _ = unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_and_apart() {
        let mut buffers = Buffers::new(3, 5000).unwrap();
        buffers.block_mut(1).fill(7);
        assert!((0..3).all(|index| (buffers.address(index) as usize).is_multiple_of(PAGE_BYTES)));
        assert_eq!(buffers.block(1), [7; 5000]);
        assert!(buffers.block(0).iter().chain(buffers.block(2)).all(|byte| *byte == 0));
    }

    #[test]
    fn more_than_there_is_an_address_for_is_an_error() {
        assert!(Buffers::new(usize::MAX / 2, 4096).is_err());
    }
}
