//! The way between a protocol and the server.

use plumb_host::epoll::Ready;
use plumb_model::Merge as _;

use super::core::Core;
use super::errors::Failure;
use super::segments::SegmentCounts;
use super::tls::Negotiated;

/// The index of the connection that a token belongs to.
#[must_use]
pub fn index_of(token: u64) -> usize {
    (token & u64::from(u32::MAX)) as usize
}

/// Whether a connection stays after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// It stays.
    Stay,
    /// This side closes it.
    Close,
    /// The server said that it would close it.
    Part,
}

/// One connection below its protocol: TCP with or without TLS, or QUIC.
pub trait Link: Sized {
    /// Begins a connection, whose events will have this token. Also returns when it was connected, if it already is.
    ///
    /// # Errors
    /// When it cannot be begun.
    fn open<T>(core: &mut Core<T>, token: u64) -> Result<(Self, Option<u64>), Failure>;

    /// Notes an event.
    fn on_ready(&mut self, ready: Ready);

    /// Whether the connection stands, before any handshake.
    ///
    /// # Errors
    /// When it was refused or failed otherwise.
    fn is_connected<T>(&mut self, core: &Core<T>) -> Result<bool, Failure>;

    /// Whether requests need no handshake.
    fn is_plain(&self) -> bool;

    /// Goes on with the handshake; `true` once requests can be sent.
    ///
    /// # Errors
    /// When either side refuses, or the connection breaks.
    fn handshake<T>(&mut self, core: &mut Core<T>) -> Result<bool, Failure>;

    /// The parameters that both sides agreed on; `None` without TLS.
    fn negotiated(&self) -> Option<Negotiated>;

    /// The window opens: segments count from now on.
    fn open_window(&mut self);

    /// The segments that were sent again, or came out of order, since the connection began or the window opened.
    fn segments(&self) -> SegmentCounts;

    /// Counts its segments: when the window closes, or the connection ends before.
    fn count_segments<T>(&self, core: &mut Core<T>) {
        core.tally.segments.add(&self.segments());
    }

    /// Ends the connection: the server first, where it said that it would.
    fn leave<T>(self, core: &mut Core<T>, then: Then);

    /// Gives a connection up that failed. Closing a socket of TCP tells the server.
    fn abandon<T>(self, _core: &mut Core<T>) {}
}
