//! The server's certificate and key: given, or signed by itself and kept beside the volumes, so that a client that was told to trust it
//! once can go on doing so.

use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plumb_host::named_file;
use plumb_volumes::private;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::ServerError;

const CERTIFICATE_FILE: &str = "certificate.pem";
const KEY_FILE: &str = "key.pem";

/// Who the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// Signed by itself, made once and kept in the state directory.
    SelfSigned,
    /// A chain and a key in PEM.
    Files {
        /// The chain, the server's own certificate first.
        certificate: PathBuf,
        /// The key.
        key: PathBuf,
    },
}

impl Identity {
    /// A TLS configuration, and the file of the certificate.
    pub(super) fn load(
        self,
        directory: &Path,
        address: IpAddr,
    ) -> Result<(Arc<ServerConfig>, PathBuf), ServerError> {
        let (certificate, key) = match self {
            Self::Files { certificate, key } => (certificate, key),
            Self::SelfSigned => {
                let files = (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE));
                if !(files.0.exists() && files.1.exists()) {
                    make(&files.0, &files.1, address)?;
                }
                files
            }
        };
        let fail = |path: &Path, cause: String| ServerError::Identity { path: path.to_owned(), cause };
        let pem = |path: &Path| named_file::read_file(path).map_err(ServerError::Unreadable);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem(&certificate)?).collect();
        let chain = chain.map_err(|error| fail(&certificate, error.to_string()))?;
        let secret = PrivateKeyDer::from_pem_slice(&pem(&key)?);
        let secret = secret.map_err(|error| fail(&key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| fail(&certificate, error.to_string()))?
            .with_no_client_auth()
            .with_single_cert(chain, secret)
            .map_err(|error| fail(&certificate, error.to_string()))?;
        Ok((Arc::new(config), certificate))
    }
}

/// Makes a certificate for this host's own names and the address that is listened on.
fn make(certificate: &Path, key: &Path, address: IpAddr) -> Result<(), ServerError> {
    let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
    if !address.is_unspecified() && !address.is_loopback() {
        names.push(address.to_string());
    }
    let fail = |path: &Path, cause: String| ServerError::Identity { path: path.to_owned(), cause };
    let made = rcgen::generate_simple_self_signed(names);
    let made = made.map_err(|error| fail(certificate, error.to_string()))?;
    // The key first: a certificate without one would look complete.
    for (path, text) in [(key, made.signing_key.serialize_pem()), (certificate, made.cert.pem())] {
        let file = private::options().write(true).create(true).truncate(true).open(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|cause| fail(path, cause.to_string()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_refused_as_a_certificate() {
        let device = PathBuf::from("/dev/null");
        let identity = Identity::Files { certificate: device.clone(), key: device };
        let error = identity.load(Path::new("/nowhere"), [127, 0, 0, 1].into()).unwrap_err();
        assert_eq!(error.to_string(), "read /dev/null: it is a character device, not a file");
    }
}
