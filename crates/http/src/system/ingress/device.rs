//! The seam between a handshake and what does its private-key operation.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::sign::Signer;

use crate::system::net::{Key, Signals};

/// A signature, or why there is none.
pub(super) type Signature = Result<Vec<u8>, rustls::Error>;

/// One private-key operation of a handshake.
#[derive(Debug)]
pub(super) struct Operation {
    /// Key and scheme.
    pub(super) signer: Arc<dyn Signer>,
    /// What is to be signed, not hashed.
    pub(super) message: Vec<u8>,
}

/// Something that does private-key operations while the event loops go on.
pub(super) trait Device: fmt::Debug + Send + Sync {
    /// Takes an operation; the result comes through `reply`, from any thread, at any time.
    fn submit(&self, operation: Operation, reply: Reply);
}

/// Where a result goes: to one connection of one event loop.
#[derive(Debug)]
pub(super) struct Reply {
    completions: Arc<Completions>,
    connection: Key,
}

impl Reply {
    pub(super) fn new(completions: &Arc<Completions>, connection: Key) -> Self {
        Self { completions: Arc::clone(completions), connection }
    }

    pub(super) fn give(self, signature: Signature) {
        self.completions.push(self.connection, signature);
    }
}

/// Results for one event loop that it has not taken yet.
#[derive(Debug)]
pub(super) struct Completions {
    waiting: Mutex<Vec<(Key, Signature)>>,
    signals: Arc<Signals>,
}

impl Completions {
    pub(super) fn new(signals: Arc<Signals>) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), signals })
    }

    fn push(&self, connection: Key, signature: Signature) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((connection, signature));
        // Who finds the queue empty wakes the loop; what is added before the loop looks comes along.
        if waiting.len() == 1 {
            drop(waiting);
            self.signals.waker().wake();
        }
    }

    /// Moves all results into `taken`, which has to be empty.
    pub(super) fn take(&self, taken: &mut Vec<(Key, Signature)>) {
        std::mem::swap(taken, &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
