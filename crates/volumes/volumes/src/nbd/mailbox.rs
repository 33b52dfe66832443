//! Letters to an event loop from other threads.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use plumb_host::epoll::Bell;

use super::wire::Refusal;
use super::work::Work;

/// Something for a connection.
#[derive(Debug)]
pub(super) enum Letter {
    /// The limiter lets its operation begin.
    Begin(u64),
    /// The limiter was replaced: it has to ask again.
    Again(u64),
    /// Another connection has its place: it has to close.
    Leave(u64),
    /// A worker did what was asked with this cookie.
    Done { connection: u64, cookie: [u8; 8], work: Work, refusal: Option<Refusal> },
}

impl Letter {
    /// Whom it is for.
    pub(super) fn connection(&self) -> u64 {
        let (Self::Begin(id) | Self::Again(id) | Self::Leave(id) | Self::Done { connection: id, .. }) = *self;
        id
    }
}

/// Letters for one event loop, and the bell.
#[derive(Debug)]
pub(super) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    bell: Bell,
    stop: AtomicBool,
}

impl Mailbox {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { letters: Mutex::new(Vec::new()), bell: Bell::new()?, stop: AtomicBool::new(false) })
    }

    pub(super) fn post(&self, letter: Letter) {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        self.ring();
    }

    /// Wakes the loop, to look at its limiters again.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Takes everything; later letters ring again.
    pub(super) fn empty(&self) -> Vec<Letter> {
        self.bell.reset();
        std::mem::take(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

impl AsFd for Mailbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}
