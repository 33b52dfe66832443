//! The protocols that a load's connections speak.
//!
//! A thread is built for one protocol, so nothing about a request is decided at run time. Connecting, TLS and the
//! schedule are the same for all of them.

pub mod h1;
pub mod h2;
pub mod h3;

use plumb_host::epoll::Ready;
use plumb_model::Wait;

use super::core::Core;
use super::due::Due;
use super::errors::{Failure, OfferError};
use super::link::{Link, Then};
use super::stream::Stream;
use super::tls::Offer;
use super::transport::Security;
use crate::settings::{LoadSettings, Spoken};
use crate::url::Url;

/// The outcome of a protocol's step.
#[derive(Debug)]
pub enum Flow {
    /// More events are needed.
    Pending,
    /// A request ended at that time, and the connection has room for another.
    Answered(u64, Then),
    /// The number of requests that the server takes at a time may have changed.
    Room(u64),
    /// The server takes no requests on the connection, and answered none. They are repeated on others.
    Unserved(u64),
    /// The server closed the connection, which no request needed.
    Ended,
}

/// A protocol's part of one connection. It has more methods than other traits, because it is the load's only way to a protocol.
pub trait Protocol: Sized {
    /// State that a thread's connections share.
    type Shared: Clone + Send + 'static;

    /// The connections that the protocol is spoken on.
    type Link: Link;

    /// The protocol's name.
    const KIND: Spoken;

    /// Whether a connection carries several requests at a time.
    const IS_MULTIPLEXED: bool;

    /// The security of one thread's connections.
    ///
    /// # Errors
    /// When a certificate or a key cannot be used, or the host trusts nobody.
    fn security(
        _spec: &LoadSettings,
        offer: Option<&Offer>,
        connections: usize,
    ) -> Result<Security, OfferError> {
        Security::new(offer, connections)
    }

    /// The shared state in a load of these settings.
    fn shared(spec: &LoadSettings, url: &Url) -> Self::Shared;

    /// The state of a connection that is not made yet.
    fn new(shared: &Self::Shared) -> Self;

    /// Forgets the last connection and its requests.
    fn reset(&mut self);

    /// Takes a request, which begins at the next [`Protocol::start`].
    fn take(&mut self, due: Due);

    /// Whether the connection has room for a request.
    fn has_room(&self) -> bool;

    /// The limit on the requests of a connection: this load's own settings, or the server.
    fn limited_by(&self) -> Wait {
        Wait::Connection
    }

    /// Begins the requests that were taken, on a connection that is ready.
    ///
    /// # Errors
    /// When the connection is broken.
    fn start(
        &mut self,
        link: &mut Self::Link,
        core: &mut Core<Self::Shared>,
        now_ns: u64,
    ) -> Result<Flow, Failure>;

    /// Something became possible on a connection that is ready.
    ///
    /// # Errors
    /// When the connection is broken, or the server does not keep to the protocol.
    fn advance(
        &mut self,
        link: &mut Self::Link,
        core: &mut Core<Self::Shared>,
        ready: Ready,
    ) -> Result<Flow, Failure>;

    /// A timer that the protocol had set for `due_ns` went off.
    ///
    /// # Errors
    /// As [`Protocol::advance`].
    fn on_timer(
        &mut self,
        _link: &mut Self::Link,
        _core: &mut Core<Self::Shared>,
        _due_ns: u64,
    ) -> Result<Flow, Failure> {
        Ok(Flow::Pending)
    }

    /// A request on a connection that is ready has lasted for `timeout_ns`. Without another definition this ends the connection.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    fn expire(
        &mut self,
        _link: &mut Self::Link,
        _core: &mut Core<Self::Shared>,
        _now_ns: u64,
        _timeout_ns: u64,
    ) -> Result<Flow, Failure> {
        Err(Failure::RequestTimeout)
    }

    /// The requests under way.
    fn streams(&mut self) -> &mut [Stream];
}
