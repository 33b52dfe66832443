//! TLS on all connections of a migration. The destination makes a certificate when it starts, and the source trusts only that one.

use std::fmt;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject};
use rustls::{
    ClientConfig, ClientConnection, CommonState, ProtocolVersion, RootCertStore, ServerConfig,
    ServerConnection,
};

use super::super::error::MigrationError;

/// The name in the certificate: the source connects to an address and a certificate that it was told, not to a name.
const NAME: &str = "plumbline.invalid";

pub(super) fn failed(error: impl ToString) -> MigrationError {
    MigrationError::Tls(error.to_string())
}

/// The protection of a connection, as both ends have agreed on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protection {
    /// No encryption.
    #[default]
    None,
    /// TLS 1.3 with a cipher suite, by its name.
    Tls13(&'static str),
}

impl Protection {
    /// The protection of a connection; `None` until its handshake is over.
    #[must_use]
    pub fn of_connection(connection: &CommonState) -> Self {
        match (connection.protocol_version(), connection.negotiated_cipher_suite()) {
            (Some(ProtocolVersion::TLSv1_3), Some(suite)) => {
                Self::Tls13(suite.suite().as_str().unwrap_or("a cipher suite without a name"))
            }
            _ => Self::None,
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("plain TCP"),
            Self::Tls13(suite) => write!(formatter, "TLS 1.3 with {suite}"),
        }
    }
}

/// A destination's certificate.
#[derive(Debug)]
pub struct Identity {
    /// The certificate as PEM, for sources to trust.
    pub certificate_pem: String,
    config: Arc<ServerConfig>,
}

impl Identity {
    /// Makes a certificate with a key on P-256.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn make() -> Result<Self, MigrationError> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(failed)?;
        let key =
            PrivateKeyDer::from_pem_slice(made.signing_key.serialize_pem().as_bytes()).map_err(failed)?;
        let mut config = ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .map_err(failed)?;
        // A channel is one connection that is never resumed.
        config.send_tls13_tickets = 0;
        Ok(Self { certificate_pem: made.cert.pem(), config: Arc::new(config) })
    }

    /// The state of one connection.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn accept(&self) -> Result<ServerConnection, MigrationError> {
        ServerConnection::new(Arc::clone(&self.config)).map_err(failed)
    }
}

/// The certificate by which a source trusts one destination.
#[derive(Debug, Clone)]
pub struct Trust {
    config: Arc<ClientConfig>,
}

impl Trust {
    /// Reads the certificate to trust.
    ///
    /// # Errors
    /// When it is not a certificate.
    pub fn in_certificate(certificate_pem: &str) -> Result<Self, MigrationError> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(certificate_pem.as_bytes()).map_err(failed)?)
            .map_err(failed)?;
        let config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self { config: Arc::new(config) })
    }

    /// The state of one connection.
    ///
    /// # Errors
    /// When the library refuses.
    pub fn connect(&self) -> Result<ClientConnection, MigrationError> {
        let name = ServerName::try_from(NAME).map_err(failed)?;
        ClientConnection::new(Arc::clone(&self.config), name).map_err(failed)
    }
}
