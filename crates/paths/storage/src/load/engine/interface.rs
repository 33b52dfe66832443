//! The input and the output of an engine.

use super::super::error::Error;

/// Requests that go to the kernel at once. A disk that hears of 64 at a time works them off while the thread waits, and then
/// waits for the thread: with four at a time both work, for hardly more CPU time.
pub(super) const KERNEL_PIECE: usize = 4;

/// One read or write of a whole block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The tag that asks; the completion returns it.
    pub tag: u32,
    /// Whether it writes.
    pub is_write: bool,
    /// Where, in bytes.
    pub offset: u64,
    /// The block in memory; it stays untouched until the completion.
    pub buffer: *mut u8,
    /// How many bytes.
    pub length: u32,
}

/// The end of one read or write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The tag that asked.
    pub tag: u32,
    /// How many bytes were read or written, or a negative `errno`.
    pub result: i32,
}

/// Takes requests and gives completions. Never more requests are under way than the depth it was made for.
pub trait Engine {
    /// How many requests are best handed over at once, where more are waiting for it; without it, all of them.
    fn piece(&self) -> usize {
        usize::MAX
    }

    /// Takes a request; it may stay with the engine until the next call of the other two.
    fn queue(&mut self, request: Request);

    /// Hands over all that was queued, without waiting for completions.
    ///
    /// # Errors
    /// When the engine itself fails; failed requests are completions.
    fn submit(&mut self) -> Result<(), Error>;

    /// Hands over all that was queued and adds completions: at least one, unless `timeout_ns` passes before.
    ///
    /// # Errors
    /// As `submit`.
    fn wait(&mut self, timeout_ns: Option<u64>, completions: &mut Vec<Completion>) -> Result<(), Error>;
}
