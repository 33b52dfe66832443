//! The driver behind gRPC on a Unix socket.
//!
//! It runs on a separate thread with its own async runtime. Calls block, for minutes where a file system is checked, so each
//! is done on a thread for blocking work.

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
use tokio::net::{UnixListener, UnixStream};

use crate::driver::Driver;

/// How many calls are done at a time; more wait.
const WORKERS: usize = 16;
/// How long calls that are under way may take when the server ends.
const GRACE: Duration = Duration::from_secs(20);

/// Why the driver cannot be reached; completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The socket cannot be used.
    #[error("listen on {}: {cause}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// What the kernel said.
        cause: io::Error,
    },
    /// Another driver listens there.
    #[error("listen on {}: another driver does already", .0.display())]
    Taken(PathBuf),
    /// The process may not have what it takes.
    #[error("start the server of the driver: {0}")]
    Start(io::Error),
}

/// A running server. Dropping it waits for calls that are under way, and removes the socket.
#[derive(Debug)]
pub struct Server {
    // It ends before its socket goes.
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

/// A socket that goes with its server.
#[derive(Debug)]
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // The next driver removes one that is left.
        let _ = remove_socket(&self.0);
    }
}

fn remove_socket(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

async fn accept(listener: UnixListener, driver: Arc<Driver>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, Arc::clone(&driver)))),
            // Out of descriptors, or a client that has gone again: neither lasts.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// Serves one connection. How it ends is its client's affair.
async fn serve(stream: UnixStream, driver: Arc<Driver>) {
    let service = service_fn(move |request| {
        let driver = Arc::clone(&driver);
        async move { Ok::<_, Infallible>(calls::answer(driver, request).await) }
    });
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new());
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
