//! Connections that have not said yet what they are for. One thread waits for all of them, each until its deadline.
//!
//! Their number is bounded, for each address and in all, and the oldest makes room for a new one. A client that wants to measure
//! says so at once.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use plumb_host::epoll::Bell;
use plumb_host::time::monotonic_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;

use super::held::held;
use crate::wire::control::{Reply, write_line};
use crate::wire::hello::{HELLO_BYTES, Purpose};
use crate::wire::socket;

/// How long a connection may take to say what it is for.
const HELLO_NS: u64 = 2_000_000_000;
/// How many may be silent at a time, of one address and of all.
const OF_ONE_MAX: usize = 64;
const OF_ALL_MAX: usize = 256;

/// A connection that has not said yet what it is for.
#[derive(Debug)]
pub struct Silent {
    connection: OwnedFd,
    peer: IpAddr,
    until_ns: u64,
    bytes: [u8; HELLO_BYTES],
    filled: usize,
}

/// The progress of a hello.
pub enum Heard {
    /// All of it.
    All([u8; HELLO_BYTES]),
    /// Not all yet.
    More,
    /// Nothing more will.
    End,
}

impl Silent {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn new(connection: OwnedFd, peer: IpAddr) -> Self {
        let until_ns = monotonic_ns() + HELLO_NS;
        Self { connection, peer: peer.to_canonical(), until_ns, bytes: [0; HELLO_BYTES], filled: 0 }
    }

    /// Takes what is there, without waiting.
    pub fn listen(&mut self) -> Heard {
        match socket::receive_now(&self.connection, &mut self.bytes[self.filled..]) {
            Ok(0) => return Heard::End,
            Ok(count) => self.filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return Heard::End,
        }
        if self.filled == HELLO_BYTES { Heard::All(self.bytes) } else { Heard::More }
    }

    /// Waits until something arrives, for `timeout` at most.
    pub fn wait(&self, timeout: Duration) {
        // `listen` reports a connection that failed.
        let _ = socket::is_ready(&self.connection, PollFlags::IN, timeout);
    }

    /// The connection, and the address of its peer.
    pub fn into_connection(self) -> (OwnedFd, IpAddr) {
        (self.connection, self.peer)
    }
}

/// The way to the thread that waits.
#[derive(Debug)]
pub struct Greeter {
    new: Mutex<Vec<Silent>>,
    bell: Bell,
}

impl Greeter {
    /// # Errors
    /// When the process has no descriptor left.
    pub fn new() -> io::Result<Self> {
        Ok(Self { new: Mutex::default(), bell: Bell::new()? })
    }

    /// Hands a connection over.
    pub fn take(&self, silent: Silent) {
        held(&self.new).push(silent);
        self.wake();
    }

    /// Has the thread look at once.
    pub fn wake(&self) {
        self.bell.ring();
    }

    /// Listens to silent connections until `has_ended`, and hands on those that said what they are for.
    pub fn run(&self, has_ended: &AtomicBool, mut dispatch: impl FnMut(Silent, [u8; HELLO_BYTES])) {
        let mut silent: Vec<Silent> = Vec::new();
        while !has_ended.load(Ordering::Acquire) {
            let ready = self.wait(&silent);
            let now_ns = monotonic_ns();
            let mut left = Vec::with_capacity(silent.len());
            for (mut one, is_ready) in silent.into_iter().zip(ready) {
                match if is_ready { one.listen() } else { Heard::More } {
                    Heard::All(hello) => dispatch(one, hello),
                    Heard::More if now_ns < one.until_ns => left.push(one),
                    Heard::More | Heard::End => {}
                }
            }
            left.append(&mut held(&self.new));
            silent = bounded(left);
        }
    }

    fn wait(&self, silent: &[Silent]) -> Vec<bool> {
        let now_ns = monotonic_ns();
        let until_ns = silent.iter().map(|one| one.until_ns).min();
        let timeout = until_ns.map(|until_ns| Duration::from_nanos(until_ns.saturating_sub(now_ns)));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let connections = silent.iter().map(|one| PollFd::new(&one.connection, PollFlags::IN));
        let mut polled: Vec<PollFd<'_>> =
            std::iter::once(PollFd::new(&self.bell, PollFlags::IN)).chain(connections).collect();
        // Where the kernel refuses, all are looked at.
        let failed = retry_on_intr(|| poll(&mut polled, timeout.as_ref())).is_err();
        let ready = polled[1..].iter().map(|one| failed || !one.revents().is_empty()).collect();
        self.bell.reset();
        ready
    }
}

/// Drops the oldest of an address that has too many, and of all where these are too many.
fn bounded(mut silent: Vec<Silent>) -> Vec<Silent> {
    let mut kept: Vec<Silent> = Vec::with_capacity(silent.len().min(OF_ALL_MAX));
    while let Some(one) = silent.pop() {
        let of_one = kept.iter().filter(|other| other.peer == one.peer).count();
        if of_one < OF_ONE_MAX && kept.len() < OF_ALL_MAX {
            kept.push(one);
        } else {
            let reason = format!(
                "wait for this connection: more than {OF_ONE_MAX} connections of one address or {OF_ALL_MAX} in all are silent"
            );
            refuse(&one.into_connection().0, reason);
        }
    }
    kept.reverse();
    kept
}

/// Tells a client why it cannot measure, as far as the reason fits into the socket's buffer.
pub fn refuse(connection: &OwnedFd, reason: String) {
    let mut bytes = Purpose::Control.encode().to_vec();
    if write_line(&mut bytes, &Reply::Refused { reason, is_usage: false }).is_ok() {
        // A peer that is gone needs no reason.
        let _ = socket::send_all(connection, &bytes);
    }
}
