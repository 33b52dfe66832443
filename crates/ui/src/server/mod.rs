//! The pages behind HTTP, on a thread with its own async runtime, so that nothing else of the process waits for it.
//!
//! It bounds what a client may take: connections, headers, the size of a body, followers of runs, and the time for a head.

mod events;
mod headers;
mod requests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use plumb_background::Background;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::access::Door;
use crate::error::UiError;
use crate::site::{Settings, Site};

/// What one request's head may hold.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// For a request's head, and for the next one on a connection that is kept.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Connections at a time; a browser opens six.
const CONNECTIONS_MAX: usize = 96;
/// How many threads make pages. A run's page is judged and drawn on one of them.
const WORKERS: usize = 4;
/// How long answers that are under way may take when the page ends.
const GRACE: Duration = Duration::from_millis(500);

/// A running server, which ends when it is dropped.
#[derive(Debug)]
pub struct Server {
    site: Arc<Site>,
    _background: Background,
}

impl Server {
    /// Serves the pages. Port 0 takes a free one.
    ///
    /// # Errors
    /// When the address cannot be used, or is open to other hosts and `is_remote_allowed` is not set.
    pub fn start(settings: Settings, address: SocketAddr, is_remote_allowed: bool) -> Result<Self, UiError> {
        if !address.ip().is_loopback() && !is_remote_allowed {
            return Err(UiError::Remote { address });
        }
        let runtime = plumb_background::runtime(WORKERS).map_err(UiError::Start)?;
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.map_err(|cause| UiError::Listen { address, cause })?;
        let address = listener.local_addr().map_err(UiError::Start)?;
        let site = Arc::new(Site::new(settings, Door::new(address)?));
        runtime.spawn(accept(listener, Arc::clone(&site)));
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

    /// For how long nobody has asked for anything.
    #[must_use]
    pub fn idle(&self) -> Duration {
        self.site.idle()
    }
}

async fn accept(listener: TcpListener, site: Arc<Site>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors, or a client that has gone again: neither lasts.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let site = Arc::clone(&site);
        tokio::spawn(async move {
            serve(stream, site).await;
            drop(place);
        });
    }
}

/// Serves one connection. How it ends is its client's affair.
async fn serve(stream: TcpStream, site: Arc<Site>) {
    let service = service_fn(move |request| requests::respond(Arc::clone(&site), request));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_BYTES_MAX);
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
