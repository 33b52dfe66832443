//! `offload: multibuffer`: operations of many handshakes in one pass, in the event loop's own thread.
//!
//! A pass takes as long for one operation as for eight. So where too few have come together for a pass to pay, the
//! handshakes do what they need themselves, and a lone client is not slowed. From how many on a pass pays is measured
//! when the ingress starts.

use std::collections::VecDeque;
use std::sync::Arc;

use rustls::PeerMisbehaved;

use plumb_devices::{
    Batch, Batcher, Counters, DeviceError, DeviceKind, LANES, Lane, LaneError, Operation, OperationKind,
};

use super::operation::OperationResult;
use crate::net::Key;

/// From how many operations on a pass pays, by [`OperationKind::index`].
pub(super) type PaysFrom = [usize; OperationKind::COUNT];

/// How operations come together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gathering {
    /// Operations of a full batch.
    pub(super) width: usize,
    /// The longest that an operation waits for company, in ns.
    pub(super) bound_ns: u64,
    /// The smallest batches worth a pass; smaller ones are declined.
    pub(super) pays_from: PaysFrom,
}

impl Gathering {
    /// Every operation by the device, at once and alone.
    pub(super) fn one_at_a_time() -> Self {
        Self { width: 1, bound_ns: 0, pays_from: [1; OperationKind::COUNT] }
    }

    /// Up to as many as the device does in one pass.
    pub(super) fn in_batches(bound_ns: u64, pays_from: PaysFrom) -> Self {
        Self { width: LANES, bound_ns, pays_from }
    }
}

/// A device with what waits for it. It belongs to one event loop.
#[derive(Debug)]
pub(super) struct Batches {
    device: plumb_devices::Device,
    batcher: Batcher<Operation>,
    /// Batches that are full. They are not run at once, since the handshake that filled one is still on its stack.
    full: VecDeque<Batch<Operation>>,
    pays_from: PaysFrom,
}

/// The results of a batch.
#[derive(Debug)]
pub(super) struct Finished {
    /// Of which kind.
    pub(super) kind: OperationKind,
    /// For whom, and what.
    pub(super) answers: Vec<(Key, OperationResult)>,
}

impl Batches {
    /// Opens a device.
    ///
    /// # Errors
    ///
    /// When this machine has none.
    pub(super) fn open(gathering: Gathering) -> Result<Self, DeviceError> {
        Ok(Self {
            device: plumb_devices::Device::open(DeviceKind::Multibuffer)?,
            batcher: Batcher::new(gathering.width, gathering.bound_ns),
            full: VecDeque::new(),
            pays_from: gathering.pays_from,
        })
    }

    /// The device's own counters.
    pub(super) fn counters(&self) -> &Arc<Counters> {
        self.device.counters()
    }

    /// The library's own words for its name and version.
    pub(super) fn version(&self) -> String {
        self.device.presence().version
    }

    /// Takes an operation of a client's handshake.
    pub(super) fn push(&mut self, client: Key, operation: Operation, now_ns: u64) {
        let kind = operation.kind();
        self.full.extend(self.batcher.push(kind, client.token(0), operation, now_ns));
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.full.is_empty() && self.batcher.is_empty()
    }

    /// A batch that is full.
    pub(super) fn full(&mut self) -> Option<Batch<Operation>> {
        self.full.pop_front()
    }

    /// A batch whose first operation has waited for as long as it may.
    pub(super) fn due(&mut self, now_ns: u64) -> Option<Batch<Operation>> {
        self.batcher.due(now_ns)
    }

    /// The batch that has waited longest, for when nothing else is to be done.
    pub(super) fn idle(&mut self) -> Option<Batch<Operation>> {
        self.batcher.flush_idle()
    }

    /// Does a batch, or declines it.
    pub(super) fn run(&mut self, batch: Batch<Operation>, now_ns: u64) -> Finished {
        let clients = batch.tokens.iter().map(|token| Key::from_token(*token).1);
        let pays = batch.operations.len() >= self.pays_from[batch.kind.index()];
        let answers = if pays {
            self.device.counters().submitted(&batch, now_ns);
            clients.zip(self.device.run(&batch.operations).into_iter().map(answer)).collect()
        } else {
            clients.map(|client| (client, OperationResult::Declined)).collect()
        };
        Finished { kind: batch.kind, answers }
    }
}

fn answer(lane: Lane) -> OperationResult {
    OperationResult::Done(lane.map_err(|error| match error {
        LaneError::Peer => PeerMisbehaved::InvalidKeyShare.into(),
        error => rustls::Error::General(error.to_string()),
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use openssl::hash::MessageDigest;
    use openssl::pkey::PKey;
    use openssl::sign::Verifier;
    use plumb_devices::{Hash, Outcome, Scheme, SigningKey, generate_key};

    use super::*;
    use crate::net::Slab;

    /// A device that takes batches of at least three signatures; `None`, and a word, where the host has none.
    fn batches(test: &str) -> Option<Batches> {
        let mut pays_from = [1; OperationKind::COUNT];
        pays_from[OperationKind::Rsa2048.index()] = 3;
        let opened = Batches::open(Gathering::in_batches(1000, pays_from));
        if let Err(reason) = &opened {
            let test = format!("proxy::batches::{test}");
            let missing = DeviceKind::Multibuffer.probe().err();
            let hardware = if missing.is_some_and(|cause| cause.is_hardware()) { "hardware: " } else { "" };
            writeln!(std::io::stderr(), "test skipped: {test}: {hardware}{reason}").unwrap();
        }
        opened.ok()
    }

    /// Some clients, each with something to be signed.
    fn push(batches: &mut Batches, der: &[u8], count: u8) -> Vec<Key> {
        let key = Arc::new(SigningKey::from_der(DeviceKind::Multibuffer, der).unwrap());
        let mut slab = Slab::new();
        let sign = |message: u8| {
            let client = slab.insert(());
            let scheme = Scheme::RsaPkcs1(Hash::Sha256);
            let operation = Operation::Sign { key: Arc::clone(&key), scheme, message: vec![message] };
            batches.push(client, operation, 5);
            client
        };
        (0..count).map(sign).collect()
    }

    #[test]
    fn each_client_of_a_full_batch_gets_the_signature_of_its_own_message() {
        let Some(mut batches) = batches("each_client_of_a_full_batch_gets_the_signature_of_its_own_message")
        else {
            return;
        };
        let der = generate_key(OperationKind::Rsa2048).unwrap();
        let clients = push(&mut batches, &der, 9);
        let batch = batches.full().unwrap();
        let finished = batches.run(batch, 5);
        assert_eq!((finished.kind, batches.is_empty()), (OperationKind::Rsa2048, false));
        let public = PKey::private_key_from_der(&der).unwrap();
        assert_eq!(finished.answers.len(), LANES);
        for (message, (client, answer)) in (0..).zip(finished.answers) {
            let OperationResult::Done(Ok(Outcome::Signature(signature))) = answer else {
                panic!("{answer:?}")
            };
            let mut verifier = Verifier::new(MessageDigest::sha256(), &public).unwrap();
            assert!(verifier.verify_oneshot(&signature, &[message]).unwrap());
            assert_eq!(client, clients[usize::from(message)]);
        }
        assert_eq!(batches.counters().totals().fill[LANES - 1], 1);
    }

    #[test]
    fn where_too_few_come_together_handshakes_do_it_themselves() {
        let Some(mut batches) = batches("where_too_few_come_together_handshakes_do_it_themselves") else {
            return;
        };
        let der = generate_key(OperationKind::Rsa2048).unwrap();
        for (count, by_device) in [(1, false), (2, false), (3, true), (7, true)] {
            let clients = push(&mut batches, &der, count);
            assert!(batches.full().is_none() && batches.due(1004).is_none());
            let batch = batches.due(1005).or_else(|| batches.idle()).unwrap();
            let finished = batches.run(batch, 1005);
            assert_eq!(finished.answers.len(), clients.len());
            assert!(
                finished
                    .answers
                    .iter()
                    .all(|(_, answer)| matches!(answer, OperationResult::Declined) != by_device)
            );
            assert!(batches.is_empty());
        }
        assert_eq!(batches.counters().totals().operations_done(), 10);
    }
}
