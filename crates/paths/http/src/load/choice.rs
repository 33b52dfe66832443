//! The server's choice of a protocol for a whole load (`protocol: auto`).
//!
//! Threads are built for one protocol, so the choice is made before them, by one connection that offers what all later ones offer.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use plumb_host::epoll::{Epoll, Ready};
use plumb_host::namespace::enter;
use plumb_host::signals::unless_asked_to_stop;
use plumb_host::time::monotonic_ns;
use plumb_path::PathError;

use super::core::RequestSettings;
use super::errors::Failure;
use super::socket::Socket;
use super::tcp::TcpLink;
use super::tls::{Offer, is_spoken};
use super::transport::Security;
use crate::settings::{LoadProtocol, LoadSettings, Spoken};

/// The longest wait for the server's choice.
const PATIENCE_NS_MAX: u64 = 10_000_000_000;

/// The protocol of a load. If the server gives no answer, this is HTTP/1.1: the connections of the load then fail for the same reason,
/// and their requests count.
///
/// # Errors
/// When the offer cannot be used, or this process is asked to stop.
pub fn protocol(
    spec: &LoadSettings,
    offer: Option<&Offer>,
    request_settings: &RequestSettings,
) -> Result<Spoken, PathError> {
    let Some(offer) = offer.filter(|_| spec.protocol == LoadProtocol::Auto) else {
        return Ok(spec.protocol.fixed().unwrap_or_default());
    };
    let security = Security::new(Some(offer), 1)?;
    let patience_ns = spec.timeout.0.min(PATIENCE_NS_MAX);
    let (address, netns) = (request_settings.address, request_settings.netns.clone());
    let choose = move || -> Result<Result<String, Failure>, plumb_host::Error> {
        // The thread is for this alone, so it may stay there.
        netns.as_deref().map_or(Ok(()), enter)?;
        Ok(negotiate(&security, address, patience_ns))
    };
    let negotiated = unless_asked_to_stop(choose)
        .map_err(|cause| PathError::new(format!("connect to the server: {cause}")))?;
    Ok(match negotiated.map_err(PathError::load)? {
        Ok(alpn) if is_spoken(Spoken::H2, &alpn) => Spoken::H2,
        _ => Spoken::H1,
    })
}

/// Makes one handshake. Returns the ALPN identifier on which both sides agreed, or `none`.
fn negotiate(security: &Security, address: SocketAddr, patience_ns: u64) -> Result<String, Failure> {
    let deadline_ns = monotonic_ns().saturating_add(patience_ns);
    let epoll = Epoll::new()?;
    let socket = Socket::connect(address, None, Rc::default())?;
    let mut is_connected = socket.is_connected(address)?;
    let mut link = TcpLink::new(socket, security.begin(false)?, &epoll, 0, is_connected)?;
    let mut events = Vec::new();
    while !(is_connected && link.shake_hands(&epoll)?) {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Err(Failure::TlsTimeout);
        }
        epoll.wait(Some(Duration::from_nanos(left_ns)), &mut events)?;
        for ready in events.iter().copied().map(Ready::from).filter(|ready| ready.is_readable()) {
            link.socket.became_readable(ready.is_ending());
        }
        is_connected = is_connected || link.socket.is_connected(address)?;
    }
    let TcpLink { mut socket, mut transport, .. } = link;
    transport.farewell(&mut socket);
    Ok(transport.negotiated().map_or_else(|| "none".to_owned(), |negotiated| negotiated.alpn))
}
