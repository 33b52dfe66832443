//! The destination: it listens, receives memory, and reports when the guest would run.

mod arrivals;
mod channel;
mod hub;
mod room;
mod session;

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_path::PathError;
use plumb_path::link::LinkedEnds;
use serde::{Deserialize, Serialize};

use super::error::MigrationError;
use super::wire::tls::Identity;
use super::wire::{self, Hello};
pub use hub::Totals;

use hub::{HELLO_TIMEOUT, Hub};
use room::Room;
pub(super) use session::{part, threads};

/// The time for which a source may be silent while the other side waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// The address of a destination, as a source needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DestinationAddress {
    /// Address and port.
    pub address: SocketAddr,
    /// The certificate, if the destination accepts only encrypted connections.
    pub certificate_pem: Option<String>,
    /// The network namespace from which it can be reached; the source's own if absent.
    #[serde(default)]
    pub netns: Option<PathBuf>,
}

/// A destination that listens until it is dropped.
#[derive(Debug)]
pub struct Destination {
    address: SocketAddr,
    hub: Arc<Hub>,
    listener: Option<JoinHandle<()>>,
}

impl Destination {
    /// Listens. Port 0 means any free port.
    ///
    /// # Errors
    /// When the port is taken, or the certificate cannot be made.
    pub fn start(address: SocketAddr, is_encrypted: bool) -> Result<Self, MigrationError> {
        Self::with_patience(address, is_encrypted, PATIENCE, None)
    }

    /// Listens on a free port at the system's end of a link.
    ///
    /// # Errors
    /// When the calling thread cannot go there.
    pub fn behind(link: Arc<LinkedEnds>, is_encrypted: bool) -> Result<Self, PathError> {
        link.enter_system()?;
        link.resolve_addresses()?;
        let address = SocketAddr::new(LinkedEnds::ADDRESS, 0);
        Ok(Self::with_patience(address, is_encrypted, PATIENCE, Some(link))?)
    }

    /// As [`Destination::start`], but gives up a source that is silent for the given time.
    pub(super) fn with_patience(
        address: SocketAddr,
        is_encrypted: bool,
        patience: Duration,
        link: Option<Arc<LinkedEnds>>,
    ) -> Result<Self, MigrationError> {
        let failed = |cause| MigrationError::Listen { address, cause };
        let identity = if is_encrypted { Some(Identity::make()?) } else { None };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let hub = Arc::new(Hub {
            identity,
            waiting: Mutex::default(),
            totals: Mutex::default(),
            last_error: Mutex::default(),
            is_over: AtomicBool::new(false),
            room: Room::default(),
            patience,
            link,
        });
        let shared = Arc::clone(&hub);
        let listener = std::thread::Builder::new()
            .name("listen".to_owned())
            .spawn(move || listen(&listener, &shared))
            .map_err(failed)?;
        Ok(Self { address, hub, listener: Some(listener) })
    }

    /// The address of the destination.
    #[must_use]
    pub fn target(&self) -> DestinationAddress {
        let certificate = self.hub.identity.as_ref().map(|identity| identity.certificate_pem.clone());
        let netns = self.hub.link.as_ref().map(|link| link.path_of_load());
        DestinationAddress { address: self.address, certificate_pem: certificate, netns }
    }

    /// The work done so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        self.hub.totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The link through which sources come, if there is one.
    pub fn link(&self) -> Option<&LinkedEnds> {
        self.hub.link.as_deref()
    }

    /// Takes the reason why the last migration failed. Later calls return nothing.
    #[must_use]
    pub fn take_error(&self) -> Option<String> {
        self.hub.last_error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        self.hub.is_over.store(true, Ordering::Release);
        // The listener is woken by one more connection; where even that fails it ends with the process.
        if wire::connect(self.address, None).is_ok()
            && let Some(listener) = self.listener.take()
        {
            let _ = listener.join();
        }
    }
}

fn listen(listener: &TcpListener, hub: &Arc<Hub>) {
    for stream in listener.incoming() {
        if hub.is_over.load(Ordering::Acquire) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let hub = Arc::clone(hub);
        // Each connection has a thread: one that says nothing keeps nobody from coming in.
        let _ = std::thread::Builder::new().name("control".to_owned()).spawn(move || receive(stream, &hub));
    }
}

/// Reads a connection's purpose, and serves it.
fn receive(mut stream: TcpStream, hub: &Arc<Hub>) {
    let Ok(stranger) = hub.room.let_in(&stream) else { return };
    let hello = || -> io::Result<Hello> {
        wire::prepare(&stream)?;
        stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
        let hello = Hello::receive(&mut stream)?;
        stream.set_read_timeout(None)?;
        Ok(hello)
    };
    let mut hello = hello;
    match hello() {
        Ok(Hello::Control { is_encrypted }) => session::serve(stream, is_encrypted, stranger, hub),
        Ok(Hello::Channel { token, channel }) => {
            let waiting = hub.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = waiting.get(&token) {
                // A session that is over drops its channels, which closes them.
                let _ = session.send((channel, stream));
            }
        }
        // A stranger, or a source that went away at once.
        Err(_) => {}
    }
}
