//! The server's end: it answers, receives and counts for every client, one thread for each flow.
//!
//! Everything goes through one port: control connections and flows over TCP, and flows of datagrams over UDP. A datagram
//! flow begins with a hello to that port; from then on it has its own socket, connected to the client, so the
//! kernel finds it without a look at the others.

mod accept;
mod admission;
mod answer;
mod control;
mod flow;
mod greeter;
mod held;
mod receiver;
mod receiving;
mod session;
mod shared;
mod stream;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use plumb_path::PathError;

use self::admission::Admission;
use self::greeter::Greeter;
use self::held::held;
use self::session::Session;
use self::shared::{Shared, spawn};
use crate::wire::socket;

/// Tries to find a port that is free for TCP and UDP.
const PORT_TRIES: u32 = 16;
/// Threads that take connections.
const ACCEPTORS_MAX: usize = 4;
/// Control connections and flows, each of which has a thread: of one address, and of all.
const CONTROLS_MAX: (u64, u64) = (64, 128);
const FLOWS_MAX: (u64, u64) = (2048, 4096);

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerOptions {
    /// The address; port 0 is any free one.
    pub address: SocketAddr,
    /// The network namespace to listen in; that of the caller if absent.
    pub netns: Option<PathBuf>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), netns: None }
    }
}

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The namespace cannot be entered.
    #[error(transparent)]
    Host(#[from] plumb_host::Error),
    /// The port is not to be had.
    #[error("listen on {address}: {}", listen_words(.cause))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The kernel's error.
        cause: io::Error,
    },
    /// No thread is to be had.
    #[error("start a server thread: {0}")]
    Thread(io::Error),
}

fn listen_words(cause: &io::Error) -> String {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use; end the program that has it, or choose another port".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this host has no such address".to_owned(),
        _ => cause.to_string(),
    }
}

impl From<ServerError> for PathError {
    fn from(error: ServerError) -> Self {
        Self::new(error.to_string())
    }
}

/// A server that runs. It ends with this value.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
}

impl Server {
    /// Listens, and serves in new threads.
    ///
    /// # Errors
    /// When the port is not to be had, or the namespace cannot be entered.
    pub fn start(options: &ServerOptions) -> Result<Self, ServerError> {
        // Threads belong to the namespace of the one that started them, and so do the sockets that they open.
        thread::scope(|scope| {
            let start = || {
                if let Some(netns) = &options.netns {
                    plumb_host::namespace::enter(netns)?;
                }
                Self::start_here(options.address)
            };
            let thread = thread::Builder::new().name("plumb-net-start".to_owned());
            thread
                .spawn_scoped(scope, start)
                .map_err(ServerError::Thread)?
                .join()
                .unwrap_or_else(|_| Err(ServerError::Thread(io::Error::other("it ended early"))))
        })
    }

    fn start_here(address: SocketAddr) -> Result<Self, ServerError> {
        let (listener, datagrams) =
            listen_on_both(address).map_err(|cause| ServerError::Listen { address, cause })?;
        let address =
            socket::own_address(&listener).map_err(|cause| ServerError::Listen { address, cause })?;
        let server = Self {
            shared: Arc::new(Shared {
                address,
                listener,
                datagrams,
                greeter: Greeter::new().map_err(ServerError::Thread)?,
                controls: Admission::new("control connections", CONTROLS_MAX.0, CONTROLS_MAX.1),
                flows: Admission::new("flows", FLOWS_MAX.0, FLOWS_MAX.1),
                has_ended: AtomicBool::new(false),
                sessions: Mutex::default(),
                once: AtomicU64::new(0),
                news: Mutex::default(),
            }),
        };
        let acceptors = thread::available_parallelism().map_or(1, usize::from).min(ACCEPTORS_MAX);
        for _ in 0..acceptors {
            let shared = Arc::clone(&server.shared);
            spawn("plumb-net-accept", move || accept::connections(&shared)).map_err(ServerError::Thread)?;
        }
        let shared = Arc::clone(&server.shared);
        spawn("plumb-net-greet", move || accept::silent(&shared)).map_err(ServerError::Thread)?;
        let shared = Arc::clone(&server.shared);
        spawn("plumb-net-hello", move || accept::datagrams(&shared)).map_err(ServerError::Thread)?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// The events since this was last asked, a line each.
    #[must_use]
    pub fn news(&self) -> Vec<String> {
        std::mem::take(&mut *held(&self.shared.news))
    }

    /// Ends every test and stops to listen.
    pub fn stop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        self.shared.greeter.wake();
        socket::shut(&self.shared.listener);
        socket::shut(&self.shared.datagrams);
        let sessions: Vec<Arc<Session>> = held(&self.shared.sessions).values().cloned().collect();
        sessions.iter().for_each(|session| session.end());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A listener and a socket for datagrams with the same port.
fn listen_on_both(address: SocketAddr) -> io::Result<(OwnedFd, OwnedFd)> {
    let mut tries = if address.port() == 0 { PORT_TRIES } else { 1 };
    loop {
        let listener = socket::listen(address)?;
        tries -= 1;
        match socket::datagrams(socket::own_address(&listener)?) {
            Ok(datagrams) => return Ok((listener, datagrams)),
            Err(error) if tries == 0 => return Err(error),
            Err(_) => {}
        }
    }
}
