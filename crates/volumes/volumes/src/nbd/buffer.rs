//! Byte queues of a fixed size, whose storage is borrowed from a pool while something is in them.

use std::io::{self, ErrorKind, Read, Write};

/// The contents of a buffer.
pub(super) const BUFFER_BYTES: usize = 256 << 10;
/// How much storage a pool keeps for later.
const SPARE_MAX: usize = 32;

/// Storage that no buffer uses at the moment.
#[derive(Debug, Default)]
pub(super) struct Pool {
    spare: Vec<Box<[u8]>>,
}

/// A queue of bytes.
#[derive(Debug, Default)]
pub(super) struct Buffer {
    storage: Box<[u8]>,
    start: usize,
    end: usize,
}

/// The result of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// This many bytes, and whether the socket may be able to do more.
    Bytes { count: usize, more: bool },
    /// The socket can do nothing for now.
    Nothing,
    /// The other side sends no more.
    End,
}

impl Buffer {
    pub(super) fn data(&self) -> &[u8] {
        &self.storage[self.start..self.end]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
    }

    /// Room behind what is in it, after moving that to the front if there is less than `wanted`.
    pub(super) fn room(&mut self, wanted: usize, pool: &mut Pool) -> &mut [u8] {
        if self.storage.is_empty() {
            self.storage = pool.spare.pop().unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice());
        }
        if self.storage.len() - self.end < wanted && self.start > 0 {
            self.storage.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        &mut self.storage[self.end..]
    }

    /// Says that so much of the room was filled.
    pub(super) fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// Appends bytes for which there is room.
    pub(super) fn push(&mut self, bytes: &[u8], pool: &mut Pool) {
        self.room(bytes.len(), pool)[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Reads once.
    pub(super) fn receive(&mut self, mut from: impl Read, pool: &mut Pool) -> io::Result<Moved> {
        let room = self.room(BUFFER_BYTES / 4, pool);
        let wanted = room.len();
        match from.read(room) {
            Ok(0) => Ok(Moved::End),
            Ok(count) => {
                self.filled(count);
                Ok(Moved::Bytes { count, more: count == wanted })
            }
            Err(error) => nothing_or(error),
        }
    }

    /// Writes once.
    pub(super) fn send(&mut self, mut to: impl Write) -> io::Result<Moved> {
        match to.write(self.data()) {
            Ok(count) => {
                self.consume(count);
                Ok(Moved::Bytes { count, more: self.is_empty() })
            }
            Err(error) => nothing_or(error),
        }
    }

    /// Gives the storage back if nothing is in it.
    pub(super) fn release(&mut self, pool: &mut Pool) {
        if self.is_empty() && !self.storage.is_empty() {
            let storage = std::mem::take(&mut self.storage);
            if pool.spare.len() < SPARE_MAX {
                pool.spare.push(storage);
            }
        }
    }
}

fn nothing_or(error: io::Error) -> io::Result<Moved> {
    match error.kind() {
        ErrorKind::WouldBlock => Ok(Moved::Nothing),
        ErrorKind::Interrupted => Ok(Moved::Bytes { count: 0, more: true }),
        _ => Err(error),
    }
}
