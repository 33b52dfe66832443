//! A connection for each message. The server closes first, so that this host's ports are free at once.
//!
//! A timeout would cost a system call and a timer for each connection. So none has one, and the watching thread shuts the
//! connection under way when the flow is to end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plumb_host::time::monotonic_ns;

use super::flow::Flow;
use crate::wire::hello::Purpose;
use crate::wire::socket;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

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

    fn is_shut(&self) -> bool {
        matches!(*self.state(), State::Shut)
    }

    fn begin(&self, connection: &Arc<OwnedFd>) -> io::Result<()> {
        match &mut *self.state() {
            State::Shut => Err(io::ErrorKind::ConnectionAborted.into()),
            state => {
                *state = State::Open(Arc::clone(connection));
                Ok(())
            }
        }
    }

    /// Lets go of the connection, so that its owner can close it.
    fn end(&self) {
        let state = &mut *self.state();
        if matches!(state, State::Open(_)) {
            *state = State::Idle;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens a connection for each message until the flow is over.
///
/// # Errors
/// When the network namespace cannot be entered.
pub fn run(flow: &mut Flow) -> io::Result<()> {
    if let Some(netns) = &flow.make.netns {
        plumb_host::namespace::enter(netns).map_err(io::Error::other)?;
    }
    let hello = Purpose::Once { token: flow.make.token }.encode();
    let mut message = hello.to_vec();
    message.resize(hello.len() + flow.make.size, 0);
    let mut answer = vec![0; flow.make.size];
    let mut now_ns = monotonic_ns();
    while let Some((due_ns, start_ns)) = flow.wait_for_turn(now_ns) {
        let done = connection(flow, &message, &mut answer);
        now_ns = monotonic_ns();
        match done {
            Ok(()) => flow.came_back(due_ns, start_ns, now_ns),
            Err(error) => {
                flow.tally.unanswered += 1;
                // A connection that was shut to end the flow has not failed.
                if flow.make.live.under_way.is_shut() {
                    flow.tally.leave(due_ns, now_ns - due_ns, 1);
                } else {
                    flow.tally.fail_one(due_ns, now_ns - due_ns, &error.to_string());
                }
                flow.observe(now_ns);
            }
        }
    }
    Ok(())
}

fn connection(flow: &Flow, message: &[u8], answer: &mut [u8]) -> io::Result<()> {
    let connection = socket::connect(flow.make.address, Some(&flow.make.options), CONNECT_TIMEOUT)
        .map_err(io::Error::other)?;
    let connection = Arc::new(connection);
    flow.make.live.under_way.begin(&connection)?;
    let exchanged = exchange(&connection, message, answer);
    flow.make.live.under_way.end();
    exchanged
}

fn exchange(connection: &OwnedFd, message: &[u8], answer: &mut [u8]) -> io::Result<()> {
    socket::send_all(connection, message)?;
    if !socket::receive_all(connection, answer)? {
        return Err(io::Error::other("the server closed a connection before its answer"));
    }
    // The end comes right behind the answer.
    socket::receive(connection, &mut [0]).map(drop)
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
