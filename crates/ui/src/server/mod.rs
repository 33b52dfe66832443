//! The HTTP server of the pages, on a thread with its own async runtime, so that nothing else in the process
//! waits for it.
//!
//! It limits what a client can use: connections, headers, the size of a body, followers of runs, and the time
//! for sending a head and for reading an answer. Without the token, a connection gets one answer.

mod events;
mod headers;
mod patient;
mod places;
mod requests;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plumb_background::Background;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::sleep;

use self::patient::Patient;
use self::places::{Places, Visitor};
use crate::access::Door;
use crate::error::UiError;
use crate::site::{Settings, Site};

/// The largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The time limit for a request's head, and for the next request on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// The most connections that may be open before their first request with the token.
const STRANGERS_MAX: usize = 64;
/// The most connections that may be open after it; a browser opens six.
const KNOWN_MAX: usize = 96;
/// How many threads make pages. A run's page is judged and drawn on one of them.
const WORKERS: usize = 4;
/// How long pending answers may take when the server ends.
const GRACE: Duration = Duration::from_millis(500);

/// The deadlines of a connection.
#[derive(Debug, Clone, Copy)]
struct Deadlines {
    /// From the beginning until a request with the token.
    first_request: Duration,
    /// For each write that waits for the client.
    write: Duration,
}

const DEADLINES: Deadlines =
    Deadlines { first_request: Duration::from_secs(10), write: Duration::from_secs(20) };

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
        Self::start_with(DEADLINES, settings, address, is_remote_allowed)
    }

    fn start_with(
        deadlines: Deadlines,
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
        runtime.spawn(accept(listener, Arc::clone(&site), deadlines));
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

async fn accept(listener: TcpListener, site: Arc<Site>, deadlines: Deadlines) {
    let places = Places::new(STRANGERS_MAX, KNOWN_MAX);
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // The process is out of descriptors, or the client has disconnected already. Neither lasts.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        tokio::spawn(serve(stream, Arc::clone(&site), places.enter(peer.ip()), deadlines));
        // Lets this connection read a request that has already arrived before later connections can push it out.
        yield_now().await;
    }
}

/// Serves one connection. An error concerns only its client, and is ignored.
async fn serve(stream: TcpStream, site: Arc<Site>, visitor: Arc<Visitor>, deadlines: Deadlines) {
    let answering = Arc::clone(&visitor);
    let service =
        service_fn(move |request| requests::respond(Arc::clone(&site), Arc::clone(&answering), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES_MAX);
    let stream = TokioIo::new(Patient::new(stream, deadlines.write));
    tokio::select! {
        _ = http.serve_connection(stream, service) => {}
        () = visitor.asked_to_leave() => {}
        () = stays_a_stranger(&visitor, deadlines.first_request) => {}
    }
}

/// Returns if no request with the token came in time.
async fn stays_a_stranger(visitor: &Visitor, patience: Duration) {
    sleep(patience).await;
    if visitor.is_known() {
        pending::<()>().await;
    }
}
