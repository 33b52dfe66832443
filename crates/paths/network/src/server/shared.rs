//! The state that the server's threads share.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread;

use super::admission::Admission;
use super::greeter::Greeter;
use super::held::held;
use super::session::Session;

/// The state that the server's threads share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) address: SocketAddr,
    pub(super) listener: OwnedFd,
    pub(super) datagrams: OwnedFd,
    pub(super) greeter: Greeter,
    pub(super) controls: Arc<Admission>,
    pub(super) flows: Arc<Admission>,
    pub(super) has_ended: AtomicBool,
    pub(super) sessions: Mutex<BTreeMap<u64, Arc<Session>>>,
    /// Tests of connections that are used once, as long as there are any.
    pub(super) once: AtomicU64,
    /// One line for each thing that somebody may want to hear of.
    pub(super) news: Mutex<Vec<String>>,
}

impl Shared {
    /// The test of that token.
    pub(super) fn session(&self, token: u64) -> Option<Arc<Session>> {
        held(&self.sessions).get(&token).cloned()
    }
}

/// Runs something in a thread with that name.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}
