//! The gRPC server of the driver, on a Unix socket.
//!
//! It runs on a separate thread with its own async runtime. Calls block, for minutes while a file system is
//! checked, so each runs on a thread for blocking work.

mod calls;

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use plumb_background::Background;
use plumb_volumes::nbd::remove_socket;
use tokio::net::{UnixListener, UnixStream};

use crate::driver::Driver;

/// How many calls run at a time; more wait.
const WORKERS: usize = 16;
/// How long calls may take to finish when the server ends.
const GRACE: Duration = Duration::from_secs(20);

/// Why the driver's server did not start; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket cannot be used.
    #[error("listen on {}: {cause}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The kernel's error.
        cause: io::Error,
    },
    /// Another driver listens there.
    #[error("listen on {}: another driver listens there already", .0.display())]
    Taken(PathBuf),
    /// The kernel refused a resource that the server needs.
    #[error("start the server of the driver: {0}")]
    Start(io::Error),
}

/// A running server. Dropping it waits for calls that are under way, and removes the socket.
#[derive(Debug)]
pub struct Server {
    // Declared first, so that the server ends before its socket is removed.
    _background: Background,
    _socket: Socket,
}

impl Server {
    /// Serves a driver on a Unix socket.
    ///
    /// # Errors
    /// When the socket cannot be used.
    pub fn start(driver: Arc<Driver>, socket: &Path) -> Result<Self, ServerError> {
        let listen = |cause| ServerError::Listen { path: socket.to_owned(), cause };
        if std::os::unix::net::UnixStream::connect(socket).is_ok() {
            return Err(ServerError::Taken(socket.to_owned()));
        }
        remove_socket(socket).map_err(listen)?;
        let runtime = plumb_background::runtime(WORKERS).map_err(ServerError::Start)?;
        let listener = runtime.block_on(async { UnixListener::bind(socket) }).map_err(listen)?;
        runtime.spawn(accept(listener, driver));
        let background = Background::start(runtime, "csi", GRACE).map_err(ServerError::Start)?;
        Ok(Self { _background: background, _socket: Socket(socket.to_owned()) })
    }
}

/// A socket that is removed when its server ends.
#[derive(Debug)]
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // If this fails, the next driver removes the socket.
        let _ = remove_socket(&self.0);
    }
}

async fn accept(listener: UnixListener, driver: Arc<Driver>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&driver)))),
            // The process is out of descriptors, or the client has gone: both pass.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one connection, whichever way its client ends it.
async fn serve(stream: UnixStream, driver: Arc<Driver>) {
    let service = service_fn(move |request| {
        let driver = Arc::clone(&driver);
        async move { Ok::<_, Infallible>(calls::answer(driver, request).await) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new());
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
