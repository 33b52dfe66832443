//! A listening socket that one or several event loops take connections from.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::socket::{accept, listen_on};
use plumb_host::epoll::Epoll;

/// A listener in one event loop. Clones share the socket: a loop that is free takes the next connection, so that no loop
/// has a queue while another has nothing to do.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    socket: Arc<OwnedFd>,
    port: u16,
    token: u64,
    is_paused: bool,
}

impl Listener {
    /// On a free port of an address of this host.
    pub(crate) fn on(address: IpAddr) -> io::Result<Self> {
        let (socket, port) = listen_on(address)?;
        Ok(Self { socket: Arc::new(socket), port, token: 0, is_paused: true })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Has the loop be told of connections by this token.
    pub(crate) fn begin(&mut self, epoll: &Epoll, token: u64) -> io::Result<()> {
        epoll.watch_arrivals(&*self.socket, token)?;
        (self.token, self.is_paused) = (token, false);
        Ok(())
    }

    /// Takes one connection, if one is waiting, and whose it is.
    ///
    /// When there are no descriptors left it pauses, since the loop would be woken for the same connection for ever.
    pub(crate) fn accept(&mut self, epoll: &Epoll) -> Option<(OwnedFd, IpAddr)> {
        accept(&*self.socket).unwrap_or_else(|_| {
            self.is_paused = epoll.forget(&*self.socket).is_ok();
            None
        })
    }

    /// Begins again after a pause, to be called from time to time.
    pub(crate) fn resume(&mut self, epoll: &Epoll) {
        if self.is_paused {
            self.is_paused = epoll.watch_arrivals(&*self.socket, self.token).is_err();
        }
    }
}
