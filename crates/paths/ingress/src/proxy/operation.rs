//! The seam between a handshake and what does its private-key operations.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::sign::Signer;

use plumb_devices::{OperationKind, Outcome};

use crate::net::{Key, Signals};

/// One operation of a handshake, in the form of what is to do it.
#[derive(Debug)]
pub(super) enum Operation {
    /// For a worker thread.
    Software(Signing),
    /// For libcrypto_mb.
    Multibuffer(plumb_devices::Operation),
}

impl Operation {
    /// Whether it uses the server's private key, and not one that is made for one handshake.
    pub(super) fn is_signature(&self) -> bool {
        match self {
            Self::Software(_) => true,
            Self::Multibuffer(operation) => is_signature(operation.kind()),
        }
    }
}

/// A signature to be made by rustls' own means.
#[derive(Debug)]
pub(super) struct Signing {
    /// Key and scheme.
    pub(super) signer: Arc<dyn Signer>,
    /// The message to sign, not hashed.
    pub(super) message: Vec<u8>,
}

/// The event loop's answer to a handshake that asked for an operation.
#[derive(Debug)]
pub(super) enum OperationResult {
    /// The result, or why there is none.
    Done(Result<Outcome, rustls::Error>),
    /// The device would take longer than the handshake itself, which is to do it now.
    Declined,
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

    pub(super) fn give(self, answer: OperationResult) {
        self.completions.push(self.connection, answer);
    }
}

/// Results for one event loop that it has not taken yet.
#[derive(Debug)]
pub(super) struct Completions {
    waiting: Mutex<Vec<(Key, OperationResult)>>,
    signals: Arc<Signals>,
}

impl Completions {
    pub(super) fn new(signals: Arc<Signals>) -> Arc<Self> {
        Arc::new(Self { waiting: Mutex::default(), signals })
    }

    fn push(&self, connection: Key, answer: OperationResult) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push((connection, answer));
        // The thread that finds the queue empty wakes the loop; what is added before the loop looks comes along.
        if waiting.len() == 1 {
            drop(waiting);
            self.signals.bell().ring();
        }
    }

    /// Moves all results into `taken`, which has to be empty.
    pub(super) fn take(&self, taken: &mut Vec<(Key, OperationResult)>) {
        std::mem::swap(taken, &mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Whether operations of a kind use the server's private key, and not one that is made for one handshake.
pub(super) fn is_signature(kind: OperationKind) -> bool {
    match kind {
        OperationKind::Rsa2048
        | OperationKind::Rsa3072
        | OperationKind::Rsa4096
        | OperationKind::EcdsaP256 => true,
        OperationKind::X25519Generate
        | OperationKind::X25519Derive
        | OperationKind::P256Generate
        | OperationKind::P256Derive => false,
    }
}
