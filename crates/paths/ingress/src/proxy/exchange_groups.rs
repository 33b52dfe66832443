//! Key-exchange groups whose operations give way to a device, as those of the private key do.

use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{ActiveKeyExchange, SharedSecret, SupportedKxGroup};
use rustls::{Error, NamedGroup};

use plumb_devices::{ExchangeKey, Group, Operation as Multibuffer, Outcome};

use super::coroutine;
use super::operation::{Operation, OperationResult};

/// The groups to offer where a device does multi-buffer exchanges. P-384 is for peers that have nothing else.
pub(super) fn groups() -> Vec<&'static dyn SupportedKxGroup> {
    vec![&X25519, &P256, kx_group::SECP384R1]
}

static X25519: OffloadableGroup = OffloadableGroup(Group::X25519);
static P256: OffloadableGroup = OffloadableGroup(Group::P256);

/// The group in rustls' own hands.
pub(super) fn software_group(group: Group) -> &'static dyn SupportedKxGroup {
    match group {
        Group::X25519 => kx_group::X25519,
        Group::P256 => kx_group::SECP256R1,
    }
}

#[derive(Debug)]
struct OffloadableGroup(Group);

impl SupportedKxGroup for OffloadableGroup {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, Error> {
        match coroutine::give_way(Operation::Multibuffer(Multibuffer::Generate(self.0))) {
            Some(OperationResult::Done(Ok(Outcome::Key(key)))) => Ok(Box::new(Exchange(key))),
            Some(OperationResult::Done(other)) => Err(unexpected(other)),
            Some(OperationResult::Declined) | None => software_group(self.0).start(),
        }
    }

    fn name(&self) -> NamedGroup {
        name(self.0)
    }
}

/// A key that the device has generated, and from which only it can derive.
struct Exchange(ExchangeKey);

impl ActiveKeyExchange for Exchange {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, Error> {
        let operation = Multibuffer::Derive { key: self.0, peer: peer.to_vec() };
        match coroutine::give_way(Operation::Multibuffer(operation)) {
            Some(OperationResult::Done(Ok(Outcome::Secret(secret)))) => {
                Ok(SharedSecret::from(secret.as_slice()))
            }
            Some(OperationResult::Done(other)) => Err(unexpected(other)),
            Some(OperationResult::Declined) | None => {
                Err(Error::General("the device that generated the key is not there".to_owned()))
            }
        }
    }

    fn pub_key(&self) -> &[u8] {
        self.0.public()
    }

    fn group(&self) -> NamedGroup {
        name(self.0.group())
    }
}

fn name(group: Group) -> NamedGroup {
    match group {
        Group::X25519 => NamedGroup::X25519,
        Group::P256 => NamedGroup::secp256r1,
    }
}

/// Why there is not what was asked for.
pub(super) fn unexpected(answer: Result<Outcome, Error>) -> Error {
    answer.err().unwrap_or_else(|| Error::General("the device did something else".to_owned()))
}
