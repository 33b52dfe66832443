//! State that all connections of one event loop share.

use std::io;
use std::sync::Arc;

use super::batches::Batches;
use super::coroutine::Stacks;
use super::counters::{InFlight, Shard};
use super::operation::{Completions, Operation, OperationResult, Reply};
use super::pool::WorkerPool;
use super::upstream::{ClientKey, Leased, Owner, Upstreams};
use crate::config::{Http2, Timeouts};
use crate::net::Pool;
use plumb_host::epoll::Epoll;

/// Does operations while the handshakes that need them are set aside.
#[derive(Debug)]
pub(super) enum Device {
    /// Threads, which all event loops share.
    Workers(Arc<WorkerPool>),
    /// Passes of eight operations in the event loop's own thread.
    Batches(Box<Batches>),
}

/// State that all connections of one event loop share.
pub(super) struct Thread {
    pub(super) upstreams: Upstreams,
    pub(super) pool: Pool,
    pub(super) stacks: Stacks,
    pub(super) scratch: Vec<u8>,
    pub(super) counters: Arc<Shard>,
    pub(super) device: Option<Device>,
    pub(super) http2: Option<Http2>,
    pub(super) timeouts: Timeouts,
    pub(super) now_ns: u64,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) epoll: Epoll,
    pub(super) completions: Arc<Completions>,
    /// The client whose turn it is.
    pub(super) current: Option<ClientKey>,
    /// The stream of that client; 0 if it speaks HTTP/1.1.
    pub(super) stream: u64,
}

impl Thread {
    /// Hands an operation of the present client's handshake to the device.
    pub(super) fn submit(&mut self, operation: Operation) {
        // Handshakes in QUIC never give way.
        let Some(ClientKey::Tcp(current)) = self.current else { return };
        if operation.is_signature() {
            self.in_flight.submitted();
        }
        match (&mut self.device, operation) {
            (Some(Device::Workers(pool)), Operation::Software(signing)) => {
                pool.submit(signing, Reply::new(&self.completions, current));
            }
            (Some(Device::Batches(batches)), Operation::Multibuffer(operation)) => {
                batches.push(current, operation, self.now_ns);
            }
            // A signature in a scheme that the device does not have, and that the handshake can do without it.
            _ => Reply::new(&self.completions, current).give(OperationResult::Declined),
        }
    }

    /// Counts what became of a signature.
    pub(super) fn on_signature(&self, answer: &OperationResult) {
        self.in_flight.completed();
        match answer {
            OperationResult::Done(_) => self.counters.key_operations_device.count(),
            OperationResult::Declined => self.counters.key_operations_declined.count(),
        }
    }

    pub(super) fn batches(&mut self) -> Option<&mut Batches> {
        match &mut self.device {
            Some(Device::Batches(batches)) => Some(batches),
            _ => None,
        }
    }

    /// A connection to the origin for the present client's request.
    pub(super) fn lease(&mut self) -> io::Result<Leased> {
        let idle = self.owner().and_then(|owner| self.upstreams.lease_idle(owner));
        idle.map_or_else(|| self.lease_new(), Ok)
    }

    /// A new connection to the origin for the present client's request.
    pub(super) fn lease_new(&mut self) -> io::Result<Leased> {
        let owner = self.owner().ok_or(io::ErrorKind::NotFound)?;
        self.counters.upstream_connects.count();
        self.upstreams.lease_new(owner, &self.epoll)
    }

    fn owner(&self) -> Option<Owner> {
        self.current.map(|client| Owner { client, stream: self.stream })
    }
}
