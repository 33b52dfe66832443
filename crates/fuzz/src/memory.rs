//! A global allocator that counts what each thread has allocated.
//!
//! The count is per thread, because `cargo test` runs tests on threads of one process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

#[global_allocator]
static COUNTING: Counting = Counting;

struct Counting;

thread_local! {
    /// The memory that the thread holds, which is negative after it has freed memory of other threads.
    static HELD_BYTES: Cell<isize> = const { Cell::new(0) };
    /// The most that the thread has held since the count began.
    static PEAK_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees memory after its thread-locals are gone; nobody reads its count any more.
    let _ = HELD_BYTES.try_with(|held| {
        held.set(held.get().wrapping_add(bytes));
        let _ = PEAK_BYTES.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).unwrap_or(isize::MAX)
}

// SAFETY: every call goes to the system's allocator as it came. Counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(signed(layout.size()));
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_bytes: usize) -> *mut u8 {
        count(signed(new_bytes).wrapping_sub(signed(layout.size())));
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(pointer, layout, new_bytes) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(signed(layout.size()).wrapping_neg());
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Calls a function. Returns its result, and the most memory that this thread held during the call, beyond what it held before.
pub fn peak_bytes_of<T>(call: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD_BYTES.get();
    PEAK_BYTES.set(before);
    let result = call();
    let peak = PEAK_BYTES.get().wrapping_sub(before);
    (result, usize::try_from(peak).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_counts_what_was_freed_before_the_end_and_nothing_of_other_threads() {
        let (left, peak) = peak_bytes_of(|| {
            drop(vec![0_u8; 3 << 20]);
            std::thread::spawn(|| drop(vec![0_u8; 64 << 20])).join().unwrap();
            let mut grown = Vec::<u8>::with_capacity(10);
            grown.reserve_exact(1 << 20);
            grown
        });
        assert!((3 << 20..4 << 20).contains(&peak), "{peak}");
        let (_, peak) = peak_bytes_of(|| drop(left));
        assert_eq!(peak, 0, "freeing takes none");
    }
}
