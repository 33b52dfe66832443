//! Certificates for the systems that are built here: one leaf, signed by an authority that exists for it alone.
//!
//! They are files, since every kind of ingress has to get the same ones. They stay in the scratch directory when a
//! system is stopped, so that the next one started there need not look for primes again: that takes seconds for
//! 4096 bits.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use plumb_path::PathError;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, RsaKeySize, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::settings::KeyKind;

/// Why there are no certificates.
#[derive(Debug, thiserror::Error)]
enum CertificateError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error(transparent)]
    Make(#[from] rcgen::Error),
    #[error("{name}: {cause}")]
    Write { name: &'static str, cause: io::Error },
}

/// Where the files are, and what is in them.
#[derive(Debug)]
pub(super) struct Certificates {
    /// The authority's certificate as PEM, for clients to trust.
    pub ca_pem: String,
    /// PEM file of the leaf, the only certificate of the chain that is sent.
    pub leaf_file: PathBuf,
    /// PEM file of the leaf's private key.
    pub key_file: PathBuf,
    /// Leaf and key in one PEM file.
    pub bundle_file: PathBuf,
    pub leaf: CertificateDer<'static>,
    pub key: PrivateKeyDer<'static>,
}

impl Certificates {
    /// The files that a server needs, each under the name that it keeps where it is copied to.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        vec![self.bundle_file.clone(), self.leaf_file.clone(), self.key_file.clone()]
    }

    /// Those in the scratch directory for a server on an address, made if there are none.
    pub(super) fn in_scratch(scratch: &Path, kind: KeyKind, address: IpAddr) -> Result<Self, PathError> {
        let name = match address {
            IpAddr::V4(Ipv4Addr::LOCALHOST) => kind.name().to_owned(),
            other => format!("{}-{other}", kind.name()),
        };
        let directory = scratch.join("certificates").join(name);
        if let Ok(existing) = Self::read_from(&directory) {
            return Ok(existing);
        }
        make(&directory, kind, address).map_err(|reason| {
            PathError::new(format!("make certificates in {}: {reason}", directory.display()))
        })?;
        Self::read_from(&directory).map_err(|reason| {
            PathError::new(format!("read certificates in {}: {reason}", directory.display()))
        })
    }

    fn read_from(directory: &Path) -> Result<Self, CertificateError> {
        let file = |name: &str| directory.join(name);
        Ok(Self {
            ca_pem: fs::read_to_string(file("ca.pem"))?,
            leaf: CertificateDer::from_pem_file(file("leaf.pem"))?,
            key: PrivateKeyDer::from_pem_file(file("key.pem"))?,
            leaf_file: file("leaf.pem"),
            key_file: file("key.pem"),
            bundle_file: file("bundle.pem"),
        })
    }
}

fn make(directory: &Path, kind: KeyKind, address: IpAddr) -> Result<(), CertificateError> {
    let authority_key = key_pair(authority_kind(kind))?;
    let authority_params = authority();
    let authority = authority_params.self_signed(&authority_key)?;
    let key = key_pair(kind)?;
    let leaf = leaf(address)?.signed_by(&key, &Issuer::new(authority_params, authority_key))?;
    let key_pem = key.serialize_pem();
    // The first name is written last: where it can be read, the others can be.
    let files = [
        ("bundle.pem", format!("{}{key_pem}", leaf.pem())),
        ("key.pem", key_pem),
        ("leaf.pem", leaf.pem()),
        ("ca.pem", authority.pem()),
    ];
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    for (name, text) in files {
        write_private(&directory.join(name), &text)
            .map_err(|cause| CertificateError::Write { name, cause })?;
    }
    Ok(())
}

/// An authority's key of the leaf's family: what a client does to verify the chain is then what it does with
/// certificates from the public.
fn authority_kind(kind: KeyKind) -> KeyKind {
    match kind {
        KeyKind::Rsa2048 | KeyKind::Rsa3072 | KeyKind::Rsa4096 => KeyKind::Rsa2048,
        KeyKind::EcdsaP256 => KeyKind::EcdsaP256,
    }
}

fn key_pair(kind: KeyKind) -> Result<KeyPair, rcgen::Error> {
    match kind {
        KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_2048),
        KeyKind::Rsa3072 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_3072),
        KeyKind::Rsa4096 => KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, RsaKeySize::_4096),
        KeyKind::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "Plumbline experiment authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn leaf(address: IpAddr) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "localhost");
    let mut addresses: Vec<IpAddr> = vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if !addresses.contains(&address) {
        addresses.push(address);
    }
    params.subject_alt_names = vec![SanType::DnsName("localhost".try_into()?)];
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    Ok(params)
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
