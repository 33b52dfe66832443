//! Private keys for signatures, read once and prepared for one device.
//!
//! OpenSSL reads every form that there is and hands the parts on; what it held is wiped when it is freed.

pub(crate) mod aws_lc;
pub(crate) mod multibuffer;

use std::fmt;

use openssl::ec::{EcGroup, EcKey, EcKeyRef};
use openssl::error::ErrorStack;
use openssl::nid::Nid;
use openssl::pkey::{Id, PKey, Private};
use openssl::rsa::Rsa;
use zeroize::Zeroizing;

use crate::algorithm::OperationKind;
use crate::device_kind::DeviceKind;
use crate::error::{DeviceError, KeyFault};

/// A private key, prepared for one device. It can be shared between threads.
pub struct SigningKey {
    kind: OperationKind,
    form: Form,
}

/// A key as a device has it.
pub(crate) enum Form {
    AwsLc(aws_lc::Key),
    OpenSsl(PKey<Private>),
    /// The lanes' own form, and one for what is not worth a pass.
    Multibuffer {
        lanes: multibuffer::Key,
        software: aws_lc::Key,
    },
}

impl SigningKey {
    /// Reads an RSA key with 2048, 3072 or 4096 bits, or a P-256 key, from PKCS#8, PKCS#1 or SEC1 in DER.
    ///
    /// # Errors
    ///
    /// When the bytes are not such a key, or the device has no use for it.
    pub fn from_der(device: DeviceKind, der: &[u8]) -> Result<Self, DeviceError> {
        let refused = |fault| DeviceError::Key { device, fault };
        let key = PKey::private_key_from_der(der).map_err(|_| refused(KeyFault::Form))?;
        let kind = kind_of(&key).map_err(refused)?;
        let form = match device {
            DeviceKind::SoftwareAwsLc => aws_lc::Key::new(kind, &key).map(Form::AwsLc),
            DeviceKind::SoftwareOpenssl => Ok(Form::OpenSsl(key)),
            DeviceKind::Multibuffer => multibuffer::Key::new(kind, &key)
                .and_then(|lanes| Ok(Form::Multibuffer { lanes, software: aws_lc::Key::new(kind, &key)? })),
        };
        Ok(Self { kind, form: form.map_err(refused)? })
    }

    /// The kind of its signatures.
    #[must_use]
    pub fn kind(&self) -> OperationKind {
        self.kind
    }

    /// A key whose parts need not fit each other.
    #[cfg(test)]
    pub(crate) fn of_parts(kind: OperationKind, form: Form) -> Self {
        Self { kind, form }
    }

    pub(crate) fn form(&self) -> &Form {
        &self.form
    }
}

/// A fresh private key for signatures of a kind, in PKCS#8; on P-256 for all that is not RSA.
///
/// # Errors
///
/// When OpenSSL cannot generate it.
pub fn generate_key(kind: OperationKind) -> Result<Zeroizing<Vec<u8>>, DeviceError> {
    let generate = || {
        let key = match kind.rsa_bits() {
            Some(bits) => PKey::from_rsa(Rsa::generate(bits)?)?,
            None => {
                let group = EcGroup::from_curve_name(Nid::X9_62_PRIME256V1)?;
                PKey::from_ec_key(EcKey::generate(&group)?)?
            }
        };
        key.private_key_to_pkcs8().map(Zeroizing::new)
    };
    generate().map_err(|error: ErrorStack| DeviceError::OpenSsl {
        what: "generate a private key",
        cause: error.to_string(),
    })
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SigningKey").field("kind", &self.kind).finish_non_exhaustive()
    }
}

fn kind_of(key: &PKey<Private>) -> Result<OperationKind, KeyFault> {
    match key.id() {
        Id::RSA => OperationKind::rsa(key.bits()).ok_or(KeyFault::Bits(key.bits())),
        Id::EC if key.ec_key().is_ok_and(|key| is_p256(&key)) => Ok(OperationKind::EcdsaP256),
        Id::EC => Err(KeyFault::Curve),
        _ => Err(KeyFault::Algorithm),
    }
}

fn is_p256(key: &EcKeyRef<Private>) -> bool {
    key.group().curve_name() == Some(Nid::X9_62_PRIME256V1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTWARE: [DeviceKind; 2] = [DeviceKind::SoftwareAwsLc, DeviceKind::SoftwareOpenssl];

    #[test]
    fn every_form_of_a_key_is_read() {
        let rsa = Rsa::generate(2048).unwrap();
        let ec = EcKey::generate(&EcGroup::from_curve_name(Nid::X9_62_PRIME256V1).unwrap()).unwrap();
        let pkcs8 = |key: PKey<Private>| key.private_key_to_pkcs8().unwrap();
        let forms = [
            (OperationKind::Rsa2048, rsa.private_key_to_der().unwrap()),
            (OperationKind::Rsa2048, pkcs8(PKey::from_rsa(rsa).unwrap())),
            (OperationKind::EcdsaP256, ec.private_key_to_der().unwrap()),
            (OperationKind::EcdsaP256, pkcs8(PKey::from_ec_key(ec).unwrap())),
        ];
        // Reading a key for the multi-buffer device does not take the device.
        for device in DeviceKind::ALL {
            for (kind, der) in &forms {
                assert_eq!(SigningKey::from_der(device, der).unwrap().kind(), *kind);
            }
        }
    }

    #[test]
    fn other_keys_are_refused_in_words() {
        let words = |device, der: &[u8]| SigningKey::from_der(device, der).unwrap_err().to_string();
        let small = Rsa::generate(1024).unwrap().private_key_to_der().unwrap();
        let p384 = EcKey::generate(&EcGroup::from_curve_name(Nid::SECP384R1).unwrap()).unwrap();
        for device in SOFTWARE {
            assert!(words(device, b"x").ends_with("it is not a private key in PKCS#8, PKCS#1 or SEC1"));
            assert!(words(device, &small).ends_with("it has 1024 bits; it must have 2048, 3072 or 4096"));
            assert!(words(device, &p384.private_key_to_der().unwrap()).ends_with("its curve is not P-256"));
        }
        let exponent = openssl::bn::BigNum::from_u32(3).unwrap();
        let rsa = Rsa::generate_with_e(2048, &exponent).unwrap().private_key_to_der().unwrap();
        assert_eq!(
            words(DeviceKind::Multibuffer, &rsa),
            "prepare a private key for the multibuffer device: its public exponent is not 65537, the only one by which \
             the device can check its results"
        );
    }
}
