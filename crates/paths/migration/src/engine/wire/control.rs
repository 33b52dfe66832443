//! The control connection: lines in both directions at once, encrypted if the channels are.
//!
//! Its content would reveal the memory: the key and the hashes of every region, and the token with which a channel joins a migration. One
//! thread reads while another writes, so they share the state of TLS, and neither holds it while it waits for the peer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::Connection;

use super::super::error::MigrationError;
use super::tls::{Identity, Protection, Trust, failed};

/// The bytes that are read from the socket at once. Messages are short.
const PIECE_BYTES: usize = 4096;

/// One end of a control connection.
#[derive(Debug)]
pub struct Control {
    stream: TcpStream,
    tls: Option<Arc<Mutex<Connection>>>,
}

impl Control {
    /// An end without encryption.
    #[must_use]
    pub fn plain(stream: TcpStream) -> Self {
        Self { stream, tls: None }
    }

    /// The source's end: TLS with the destination that has this certificate.
    ///
    /// # Errors
    /// When the destination does not speak TLS, or has another certificate.
    pub fn connect(stream: TcpStream, trust: &Trust) -> Result<Self, MigrationError> {
        Self::shake_hands(stream, Connection::Client(trust.connect()?)).map_err(|error| {
            failed(format!(
                "{error} (is it the certificate of this destination, and does it serve with `--tls on`?)"
            ))
        })
    }

    /// The destination's end.
    ///
    /// # Errors
    /// When the source does not speak TLS, or does not trust this destination.
    pub fn accept(stream: TcpStream, identity: &Identity) -> Result<Self, MigrationError> {
        Self::shake_hands(stream, Connection::Server(identity.accept()?)).map_err(failed)
    }

    fn shake_hands(stream: TcpStream, mut connection: Connection) -> io::Result<Self> {
        let mut socket = &stream;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Self { stream, tls: Some(Arc::new(Mutex::new(connection))) })
    }

    /// The same connection for another thread.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self { stream: self.stream.try_clone()?, tls: self.tls.clone() })
    }

    /// The socket below.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.stream
    }

    /// The protection.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.tls.as_ref().map_or(Protection::None, |tls| Protection::of_connection(&lock(tls)))
    }
}

fn lock(tls: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends the bytes that TLS has ready.
fn send(connection: &mut Connection, mut socket: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(&mut socket)?;
    }
    Ok(())
}

impl Read for Control {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.stream.read(out) };
        let mut raw = [0; PIECE_BYTES];
        loop {
            match lock(tls).reader().read(out) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            let count = (&self.stream).read(&mut raw)?;
            if count == 0 {
                // A message is a whole line, so that a connection that was cut off is never taken for one.
                return Ok(0);
            }
            let (mut connection, mut bytes) = (lock(tls), &raw[..count]);
            while !bytes.is_empty() {
                connection.read_tls(&mut bytes)?;
                connection.process_new_packets().map_err(io::Error::other)?;
            }
            send(&mut connection, &self.stream)?;
        }
    }
}

impl Write for Control {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.stream.write(bytes) };
        let mut connection = lock(tls);
        let taken = connection.writer().write(bytes)?;
        send(&mut connection, &self.stream)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
