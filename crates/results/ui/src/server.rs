//! The HTTP server of the pages, on a thread with its own async runtime, so that nothing else in the process
//! waits for it.
//!
//! It limits what a client can use: connections, headers, the size of a body, followers of runs, and the time
//! for sending a head and for reading an answer. Without the token, a connection gets one answer.

mod events;
mod headers;
mod patient;
mod requests;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plumb_background::{Background, Limits, Visitor, accept};
use tokio::net::{TcpListener, TcpStream};

use self::patient::Patient;
use crate::access::Door;
use crate::error::UiError;
use crate::site::{Settings, Site};

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The time limit for a request's head, and for the next request on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How many threads make pages. A run's page is judged and drawn on one of them.
const WORKERS: usize = 4;
/// How long pending answers may take when the server ends.
const GRACE: Duration = Duration::from_millis(500);

/// The limits of connections. A browser opens six.
const LIMITS: Limits =
    Limits { silent: 128, strangers: 64, known: 96, known_of_one: 96, until_known: Duration::from_secs(10) };
/// The time limit for each write that waits for the client.
const WRITE_TIME: Duration = Duration::from_secs(20);

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {
    site: Arc<Site>,
    _background: Background,
}

impl Server {
    /// Starts to serve the pages. Port 0 selects a free port.
    ///
    /// # Errors
    /// When the address cannot be used, or is open to other hosts and `is_remote_allowed` is not set.
    pub fn start(settings: Settings, address: SocketAddr, is_remote_allowed: bool) -> Result<Self, UiError> {
        Self::start_with(LIMITS, WRITE_TIME, settings, address, is_remote_allowed)
    }

    fn start_with(
        limits: Limits,
        write_time: Duration,
        settings: Settings,
        address: SocketAddr,
        is_remote_allowed: bool,
    ) -> Result<Self, UiError> {
        if !address.ip().is_loopback() && !is_remote_allowed {
            return Err(UiError::Remote { address });
        }
        let runtime = plumb_background::runtime(WORKERS).map_err(UiError::Start)?;
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.map_err(|cause| UiError::Listen { address, cause })?;
        let address = listener.local_addr().map_err(UiError::Start)?;
        let site = Arc::new(Site::new(settings, Door::new(address)?));
        let served = Arc::clone(&site);
        let serve = move |stream, visitor| serve(stream, Arc::clone(&served), visitor, write_time);
        runtime.spawn(accept(listener, limits, serve));
        let background = Background::start(runtime, "page", GRACE).map_err(UiError::Start)?;
        Ok(Self { site, _background: background })
    }

    /// The address with the token, to open once in a browser.
    #[must_use]
    pub fn url(&self) -> String {
        self.site.door.url()
    }

    /// How many browsers follow a run.
    #[must_use]
    pub fn watchers(&self) -> usize {
        self.site.watchers()
    }

    /// The time since the last request.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.site.idle()
    }
}

/// Serves one connection. An error concerns only its client, and is ignored.
async fn serve(stream: TcpStream, site: Arc<Site>, visitor: Arc<Visitor>, write_time: Duration) {
    let service =
        service_fn(move |request| requests::respond(Arc::clone(&site), Arc::clone(&visitor), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES_MAX);
    let _ = http.serve_connection(TokioIo::new(Patient::new(stream, write_time)), service).await;
}
