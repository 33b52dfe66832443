//! The device `software-openssl`: the OpenSSL that this program is linked with. One operation at a time.

use openssl::bn::BigNumContext;
use openssl::derive::Deriver;
use openssl::ec::{EcGroup, EcKey, EcPoint, PointConversionForm};
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private, Public};
use openssl::rsa::Padding;
use openssl::sign::{RsaPssSaltlen, Signer};
use zeroize::Zeroizing;

use crate::device_kind::DeviceKind;

use crate::algorithm::{Group, Hash, OperationKind, Scheme};
use crate::error::LaneError;
use crate::exchange::{ExchangeKey, Secret};
use crate::key::{Form, SigningKey};
use crate::operation::Lane;
use crate::operation::{Operation, Outcome};

const DEVICE: DeviceKind = DeviceKind::SoftwareOpenssl;

/// The device.
pub(crate) struct OpenSsl {
    p256: EcGroup,
}

impl OpenSsl {
    /// # Errors
    ///
    /// When OpenSSL was built without P-256.
    pub(crate) fn new() -> Result<Self, ErrorStack> {
        Ok(Self { p256: EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)? })
    }

    pub(crate) fn run(&self, operation: &Operation) -> Lane {
        match operation {
            Operation::Sign { key, scheme, message } => sign(key, *scheme, message).map(Outcome::Signature),
            Operation::Generate(group) => {
                self.generate(*group).map(Outcome::Key).map_err(refused("generate a key"))
            }
            Operation::Derive { key, peer } => self.derive(key, peer),
        }
    }

    fn generate(&self, group: Group) -> Result<ExchangeKey, ErrorStack> {
        let (public, secret) = match group {
            Group::X25519 => {
                let key = PKey::generate_x25519()?;
                (key.raw_public_key()?, key)
            }
            Group::P256 => {
                let key = EcKey::generate(&self.p256)?;
                let mut context = BigNumContext::new()?;
                let form = PointConversionForm::UNCOMPRESSED;
                (key.public_key().to_bytes(&self.p256, form, &mut context)?, PKey::from_ec_key(key)?)
            }
        };
        Ok(ExchangeKey::new(group, public, Secret::OpenSsl(secret)))
    }

    fn derive(&self, key: &ExchangeKey, peer: &[u8]) -> Lane {
        let Secret::OpenSsl(secret) = key.secret() else {
            return Err(LaneError::ForeignKey { device: DEVICE });
        };
        if !key.group().has_form(peer) {
            return Err(LaneError::Peer);
        }
        let peer = self.peer(key.group(), peer).map_err(|_| LaneError::Peer)?;
        let shared = || {
            let mut deriver = Deriver::new(secret)?;
            deriver.set_peer(&peer)?;
            deriver.derive_to_vec()
        };
        // What is left to fail is a point of low order.
        shared().map(|shared| Outcome::Secret(Zeroizing::new(shared))).map_err(|_| LaneError::Peer)
    }

    fn peer(&self, group: Group, peer: &[u8]) -> Result<PKey<Public>, ErrorStack> {
        match group {
            Group::X25519 => PKey::public_key_from_raw_bytes(peer, Id::X25519),
            Group::P256 => {
                let mut context = BigNumContext::new()?;
                let point = EcPoint::from_bytes(&self.p256, peer, &mut context)?;
                PKey::from_ec_key(EcKey::from_public_key(&self.p256, &point)?)
            }
        }
    }
}

fn sign(key: &SigningKey, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, LaneError> {
    let Form::OpenSsl(form) = key.form() else { return Err(LaneError::ForeignKey { device: DEVICE }) };
    let is_ecdsa = scheme == Scheme::EcdsaP256Sha256;
    if is_ecdsa != (key.kind() == OperationKind::EcdsaP256) {
        return Err(LaneError::Scheme { scheme, key: key.kind().name() });
    }
    signature(form, scheme, message).map_err(refused("sign"))
}

fn signature(key: &PKey<Private>, scheme: Scheme, message: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let hash = match scheme {
        Scheme::RsaPkcs1(hash) | Scheme::RsaPss(hash) => hash,
        Scheme::EcdsaP256Sha256 => Hash::Sha256,
    };
    let digest = match hash {
        Hash::Sha256 => MessageDigest::sha256(),
        Hash::Sha384 => MessageDigest::sha384(),
        Hash::Sha512 => MessageDigest::sha512(),
    };
    let mut signer = Signer::new(digest, key)?;
    if let Scheme::RsaPss(_) = scheme {
        signer.set_rsa_padding(Padding::PKCS1_PSS)?;
        signer.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
    }
    signer.sign_oneshot_to_vec(message)
}

fn refused(what: &'static str) -> impl Fn(ErrorStack) -> LaneError {
    move |error| LaneError::Refused { what, device: DEVICE, reason: error.to_string() }
}
