//! The connection under way of a flow that opens one for each message.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::wire::socket;

/// The connection of the message under way, for the watching thread to shut.
#[derive(Debug, Default)]
pub struct UnderWay(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Open(Arc<OwnedFd>),
    /// No further connection may begin.
    Shut,
}

impl UnderWay {
    /// Shuts the connection under way, if there is one, and every later one before it waits for anything.
    pub fn shut(&self) {
        if let State::Open(connection) = std::mem::replace(&mut *self.state(), State::Shut) {
            socket::shut(connection);
        }
    }

    /// Whether no further connection may begin.
    pub fn is_shut(&self) -> bool {
        matches!(*self.state(), State::Shut)
    }

    /// Notes the connection that begins.
    ///
    /// # Errors
    /// When no further connection may begin.
    pub fn begin(&self, connection: &Arc<OwnedFd>) -> io::Result<()> {
        match &mut *self.state() {
            State::Shut => Err(io::ErrorKind::ConnectionAborted.into()),
            state => {
                *state = State::Open(Arc::clone(connection));
                Ok(())
            }
        }
    }

    /// Lets go of the connection, so that its owner can close it.
    pub fn end(&self) {
        let state = &mut *self.state();
        if matches!(state, State::Open(_)) {
            *state = State::Idle;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Arc<OwnedFd>, std::os::unix::net::UnixStream) {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        (Arc::new(one.into()), other)
    }

    #[test]
    fn what_is_under_way_is_shut_and_nothing_begins_after_that() {
        let under_way = UnderWay::default();
        let (first, _peer) = pair();
        under_way.begin(&first).unwrap();
        under_way.end();
        let (second, _peer) = pair();
        under_way.begin(&second).unwrap();
        assert!(!under_way.is_shut());
        under_way.shut();
        assert_eq!(socket::receive(&second, &mut [0]).unwrap(), 0, "a receive that waits returns");
        let of_the_first = socket::receive_now(&first, &mut [0]).unwrap_err();
        assert_eq!(of_the_first.kind(), io::ErrorKind::WouldBlock, "it was over, and is not touched");
        under_way.end();
        assert!(under_way.is_shut() && under_way.begin(&first).is_err());
    }
}
