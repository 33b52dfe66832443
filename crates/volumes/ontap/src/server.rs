//! The interface behind HTTPS and passwords.
//!
//! It runs on a separate thread with its own async runtime, so that nothing that measures or serves volumes ever waits for it.
//! It bounds what a client may take: connections, headers, the size of a body, and the time for each.

mod identity;
mod lenient;
mod logins;
mod requests;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plumb_background::{Background, Limits, Visitor, accept};
use plumb_volumes::state::{State, StateError};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

pub use identity::Identity;

use crate::asked::ServedReport;
use crate::interface::Interface;
use lenient::Lenient;
use requests::Shared;

/// The largest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How much, and for how long, a client may go on sending once its connection is to end.
const REST_BYTES_MAX: u64 = 1 << 20;
const REST_TIME: Duration = Duration::from_secs(1);
/// The limits of connections. A client may take tens of milliseconds until it sends its first byte, and keeps its place for so long
/// although thousands of silent ones connect in a second.
const LIMITS: Limits =
    Limits { silent: 320, strangers: 64, known: 96, known_of_one: 32, until_known: Duration::from_secs(30) };
/// For a request's head, and for the next one on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(15);
/// How many threads beside the event loop use the database and hash passwords. `logins` has one password hashed at a time.
const WORKERS: usize = 3;
/// How long answers that are under way may take when the server ends.
const GRACE: Duration = Duration::from_secs(1);

/// Why the interface cannot be served; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// The address cannot be used.
    #[error("listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        cause: std::io::Error,
    },
    /// A certificate or a key cannot be read.
    #[error(transparent)]
    Unreadable(plumb_host::Error),
    /// A certificate or a key cannot be used.
    #[error("use {}: {cause}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// The mistake.
        cause: String,
    },
    /// It has no users.
    #[error("serve the REST interface: it has no users; `plumb volumes user set NAME` adds one")]
    Nobody,
    /// The process may not have what it takes.
    #[error("start the REST interface: {0}")]
    Start(String),
}

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    certificate: PathBuf,
    _background: Background,
}

impl Server {
    /// Serves the interface to a state directory. Port 0 takes a free one.
    ///
    /// # Errors
    /// When nobody may use it, or the address, the certificate or the key cannot be used.
    pub fn start(
        directory: &std::path::Path,
        address: SocketAddr,
        identity: Identity,
        served: ServedReport,
    ) -> Result<Self, ServerError> {
        let state = State::open(directory)?;
        if state.users()?.is_empty() {
            return Err(ServerError::Nobody);
        }
        let (config, certificate) = identity.load(directory, address.ip())?;
        let shared = Shared::new(Interface::new(State::open(directory)?, served), state);
        let shared = Arc::new(shared.map_err(|error| ServerError::Start(error.to_string()))?);
        let started = |error: std::io::Error| ServerError::Start(error.to_string());
        let runtime = plumb_background::runtime(WORKERS).map_err(started)?;
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.map_err(|cause| ServerError::Listen { address, cause })?;
        let address = listener.local_addr().map_err(started)?;
        let tls = TlsAcceptor::from(config);
        let serve = move |stream, visitor| serve(stream, tls.clone(), Arc::clone(&shared), visitor);
        runtime.spawn(accept(listener, LIMITS, serve));
        let background = Background::start(runtime, "rest", GRACE).map_err(started)?;
        Ok(Self { address, certificate, _background: background })
    }

    /// The address that clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The file of the certificate that clients may check the server against.
    #[must_use]
    pub fn certificate(&self) -> &std::path::Path {
        &self.certificate
    }
}

/// Serves one connection. How it ends is its client's affair.
async fn serve(stream: TcpStream, tls: TlsAcceptor, shared: Arc<Shared>, visitor: Arc<Visitor>) {
    let Ok(mut stream) = tls.accept(stream).await else { return };
    let service =
        service_fn(move |request| requests::respond(Arc::clone(&shared), Arc::clone(&visitor), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES_MAX);
    let _ = http.serve_connection(TokioIo::new(Lenient::new(&mut stream)), service).await;
    hear_out(&mut stream).await;
}

/// Reads what a client is still sending. If the server closed at once, the client might lose the answer, such as "too long".
async fn hear_out(stream: &mut (impl AsyncRead + Unpin)) {
    let mut rest = stream.take(REST_BYTES_MAX);
    let _ = timeout(REST_TIME, tokio::io::copy(&mut rest, &mut tokio::io::sink())).await;
}
