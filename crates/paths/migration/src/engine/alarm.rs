//! An alarm that ends all threads of a migration when one of them fails.

use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::error::MigrationError;

/// An alarm that is raised once. Every thread that waits for a socket of it is woken.
#[derive(Debug, Default)]
pub struct Alarm {
    is_raised: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    first: Option<MigrationError>,
    sockets: Vec<(TcpStream, Shutdown)>,
}

impl Alarm {
    /// Adds a socket, which is shut down in this direction when the alarm is raised.
    pub fn watch(&self, socket: TcpStream, how: Shutdown) {
        let mut inner = self.lock();
        if self.is_raised() {
            let _ = socket.shutdown(how);
        }
        inner.sockets.push((socket, how));
    }

    /// Raises the alarm. Only the first error is kept, because later ones are its consequences.
    pub fn raise(&self, error: MigrationError) {
        let mut inner = self.lock();
        inner.first.get_or_insert(error);
        self.is_raised.store(true, Ordering::Release);
        for (socket, how) in &inner.sockets {
            // A closed socket needs no shutdown.
            let _ = socket.shutdown(*how);
        }
    }

    /// Whether the alarm was raised.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// Takes the first error. Later calls return nothing.
    #[must_use]
    pub fn take(&self) -> Option<MigrationError> {
        self.lock().first.take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
