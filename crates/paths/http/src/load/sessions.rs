//! TLS sessions that a thread may resume, for rustls.
//!
//! This is not the library's store: that one keeps few tickets per server, enough for a
//! browser and too few for a load with hundreds of connections to one server. A thread talks to one server only,
//! so the server's name need not be looked at.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

#[derive(Debug, Default)]
struct Kept {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// Each is used once (RFC 8446, appendix C.4), the newest first.
    tls13: VecDeque<Tls13ClientSessionValue>,
    /// Whether a session was handed out since this was last asked.
    was_taken: bool,
    /// Whether the server sent a session since this was last asked.
    was_given: bool,
}

/// The sessions of one thread with one server.
#[derive(Debug)]
pub struct Sessions {
    kept: Mutex<Kept>,
    tickets_max: usize,
}

impl Sessions {
    /// A store of this many tickets for a load of `connections` at a time.
    #[must_use]
    pub fn new(connections: usize) -> Self {
        Self { kept: Mutex::default(), tickets_max: 2 * connections + 8 }
    }

    /// Whether a session was handed out since this was last asked.
    #[must_use]
    pub fn was_taken(&self) -> bool {
        std::mem::take(&mut self.kept().was_taken)
    }

    /// Whether the server sent a session since this was last asked.
    #[must_use]
    pub fn was_given(&self) -> bool {
        std::mem::take(&mut self.kept().was_given)
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // The lock is there for the trait's sake: one thread uses the store, and nothing panics while it is held.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, group: NamedGroup) {
        self.kept().group = Some(group);
    }

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        self.kept().group
    }

    fn set_tls12_session(&self, _: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.kept().tls12 = Some(session);
    }

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        let mut kept = self.kept();
        kept.was_taken |= kept.tls12.is_some();
        kept.tls12.clone()
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {
        self.kept().tls12 = None;
    }

    fn insert_tls13_ticket(&self, _: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let mut kept = self.kept();
        if kept.tls13.len() == self.tickets_max {
            kept.tls13.pop_front();
        }
        kept.tls13.push_back(ticket);
        kept.was_given = true;
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let mut kept = self.kept();
        let ticket = kept.tls13.pop_back();
        kept.was_taken |= ticket.is_some();
        ticket
    }
}
