//! Private-key operations, a fixed number in flight: what an event loop with that many handshakes asks of a device.
//!
//! An operation's time runs from when it is pushed to when its pass is done, so that it has the wait for company and
//! for the passes before it. A device without lanes does one at a time, with the same number in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use plumb_devices::{
    Batch, Batcher, Counters, Device, DeviceError, Group, Hash, Lane, Operation, OperationKind, Outcome,
    Scheme, SigningKey,
};
use plumb_host::time::monotonic_ns;

use super::tally::Tally;
use super::work::Work;
use crate::error::CryptoError;

/// About as long as what a server signs in a TLS 1.2 handshake: two random numbers and an elliptic-curve key.
const MESSAGE: [u8; 100] = [0x5a; 100];

#[derive(Debug)]
pub(super) struct ClosedLoop {
    device: Device,
    batcher: Batcher<Operation>,
    ready: VecDeque<Batch<Operation>>,
    /// When each unit of work was begun, by token.
    begun_ns: Vec<u64>,
    /// The public key of the peer in every exchange.
    peer: Vec<u8>,
}

impl ClosedLoop {
    /// Signatures with one key.
    pub(super) fn signing(device: Device, key: SigningKey, work: Work) -> Self {
        let scheme = match key.kind() {
            OperationKind::EcdsaP256 => Scheme::EcdsaP256Sha256,
            _ => Scheme::RsaPkcs1(Hash::Sha256),
        };
        let key = Arc::new(key);
        let sign = || Operation::Sign { key: Arc::clone(&key), scheme, message: MESSAGE.to_vec() };
        Self::new(device, work, Vec::new(), sign)
    }

    /// Exchanges with one peer: a fresh key, and a secret derived with it.
    ///
    /// # Errors
    ///
    /// When the peer's key cannot be generated.
    pub(super) fn exchanging(mut device: Device, group: Group, work: Work) -> Result<Self, CryptoError> {
        let peer = match device.run(&[Operation::Generate(group)]).pop() {
            Some(Ok(Outcome::Key(key))) => key.public().to_vec(),
            Some(Err(cause)) => return Err(DeviceError::Operation { cause }.into()),
            _ => Vec::new(),
        };
        Ok(Self::new(device, work, peer, || Operation::Generate(group)))
    }

    fn new(device: Device, work: Work, peer: Vec<u8>, first: impl Fn() -> Operation) -> Self {
        let width = device.kind().width().min(work.batch as usize);
        let in_flight = work.in_flight.max(1);
        let now_ns = monotonic_ns();
        let mut this = Self {
            device,
            batcher: Batcher::new(width, Batcher::<Operation>::BOUND_NS),
            ready: VecDeque::new(),
            begun_ns: vec![now_ns; in_flight as usize],
            peer,
        };
        (0..u64::from(in_flight)).for_each(|token| this.push(token, first(), now_ns));
        this
    }

    pub(super) fn counters(&self) -> &Arc<Counters> {
        self.device.counters()
    }

    pub(super) fn in_flight(&self) -> u64 {
        self.begun_ns.len() as u64
    }

    /// Does one pass: the next full batch, or, as nothing else is runnable here, what has waited longest.
    pub(super) fn step(&mut self, tally: &mut Tally) {
        let Some(batch) = self.ready.pop_front().or_else(|| self.batcher.flush_idle()) else { return };
        let from_ns = monotonic_ns();
        self.device.counters().submitted(&batch, from_ns);
        let results = self.device.run(&batch.operations);
        let now_ns = monotonic_ns();
        tally.device_worked(from_ns, now_ns);
        for ((token, operation), result) in batch.tokens.into_iter().zip(batch.operations).zip(results) {
            self.go_on(token, operation, result, now_ns, tally);
        }
    }

    /// Goes on after an operation: with the other half of an exchange, or the next unit of work.
    fn go_on(&mut self, token: u64, operation: Operation, result: Lane, now_ns: u64, tally: &mut Tally) {
        let next = match (operation, result) {
            (Operation::Generate(_), Ok(Outcome::Key(key))) => {
                let second_half = Operation::Derive { key, peer: self.peer.clone() };
                return self.push(token, second_half, now_ns);
            }
            (operation, result) => {
                match result {
                    Ok(_) => tally.completed(now_ns, now_ns.saturating_sub(self.begun_ns[token as usize]), 1),
                    Err(error) => tally.failed(&error),
                }
                match operation {
                    Operation::Derive { key, .. } => Operation::Generate(key.group()),
                    same => same,
                }
            }
        };
        self.begun_ns[token as usize] = now_ns;
        self.push(token, next, now_ns);
    }

    fn push(&mut self, token: u64, operation: Operation, now_ns: u64) {
        self.ready.extend(self.batcher.push(operation.kind(), token, operation, now_ns));
    }
}
