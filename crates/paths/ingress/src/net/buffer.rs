//! Byte queues with pooled storage.
//!
//! A connection owns storage only while bytes are waiting in it, so that thousands of idle connections cost nothing.

use std::io;
use std::os::fd::AsFd;

use rustix::buffer::spare_capacity;
use rustix::io::retry_on_intr;

use super::socket::{Received, read_result};

/// The size of a buffer, and so of the largest read.
pub(crate) const BUFFER_BYTES: usize = 64 * 1024;

/// How much storage a pool keeps for later.
const SPARE_MAX: usize = 64;

/// Storage that no buffer uses at the moment.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    spare: Vec<Vec<u8>>,
}

impl Pool {
    /// Empty storage of at least [`BUFFER_BYTES`].
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Takes storage back.
    pub(crate) fn give(&mut self, mut storage: Vec<u8>) {
        let is_usual = (BUFFER_BYTES..=2 * BUFFER_BYTES).contains(&storage.capacity());
        if is_usual && self.spare.len() < SPARE_MAX {
            storage.clear();
            self.spare.push(storage);
        }
    }
}

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// The bytes that are waiting.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.bytes.len()
    }

    /// Whether a read would find no room.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= BUFFER_BYTES
    }

    /// Drops the first `count` bytes.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Drops the last `count` bytes.
    pub(crate) fn cut_off(&mut self, count: usize) {
        self.bytes.truncate(self.bytes.len() - count);
    }

    /// The storage to append to.
    pub(crate) fn end(&mut self, pool: &mut Pool) -> &mut Vec<u8> {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.take();
        }
        // A queue that never empties must not keep all that went through it.
        if self.start >= BUFFER_BYTES {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        &mut self.bytes
    }

    /// Reads once from a socket, as much as there is room for. The caller makes sure that there is room.
    pub(crate) fn receive(&mut self, socket: impl AsFd, pool: &mut Pool) -> io::Result<Received> {
        if self.bytes.len() == self.bytes.capacity() && self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        let storage = self.end(pool);
        let room = storage.capacity() - storage.len();
        read_result(retry_on_intr(|| rustix::io::read(&socket, spare_capacity(storage))), room)
    }

    /// Gives storage back to the pool when nothing is waiting in it.
    pub(crate) fn release(&mut self, pool: &mut Pool) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            self.clear(pool);
        }
    }

    /// Forgets what is waiting and gives the storage back.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        pool.give(std::mem::take(&mut self.bytes));
        self.start = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_storage_goes_back() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        buffer.end(&mut pool).extend_from_slice(b"hello world");
        buffer.consume(6);
        assert_eq!(buffer.data(), b"world");
        buffer.release(&mut pool);
        assert_eq!(buffer.len(), 5);
        buffer.consume(5);
        buffer.release(&mut pool);
        assert_eq!((buffer.bytes.capacity(), pool.spare.len()), (0, 1));
    }

    #[test]
    fn a_queue_that_never_empties_stays_small() {
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        for _ in 0..1000 {
            buffer.end(&mut pool).extend_from_slice(&[7; 10_000]);
            buffer.consume(buffer.len() - 1);
        }
        assert!(buffer.bytes.len() <= 2 * BUFFER_BYTES, "{}", buffer.bytes.len());
        assert_eq!(buffer.data(), [7]);
    }

    #[test]
    fn a_full_buffer_makes_room_from_what_was_consumed() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let (mut pool, mut buffer) = (Pool::default(), Buffer::default());
        let storage = buffer.end(&mut pool);
        storage.resize(storage.capacity(), b'x');
        buffer.consume(10);
        std::io::Write::write_all(&mut &theirs, b"0123456789abc").unwrap();
        assert_eq!(buffer.receive(&ours, &mut pool).unwrap(), Received::Bytes { count: 10, emptied: false });
        assert!(buffer.data().ends_with(b"x0123456789"));
    }
}
