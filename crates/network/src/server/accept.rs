//! Who comes: control connections, flows, connections that are used once, and strangers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::{Shared, held, session, spawn};
use crate::wire::hello::{HELLO_BYTES, Purpose, Stranger};
use crate::wire::socket;

/// How long a connection may take to say what it is for.
const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause where the kernel has no connection to give, such as without a free descriptor.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes connections until the server ends.
pub fn connections(shared: &Arc<Shared>) {
    while !shared.has_ended.load(Ordering::Acquire) {
        let Ok(connection) = socket::accept(&shared.listener) else {
            plumb_host::time::sleep(PAUSE);
            continue;
        };
        if shared.once.load(Ordering::Relaxed) > 0 {
            // Thousands a second come then, and a thread for each would cost more than the connection.
            greet(shared, connection);
            continue;
        }
        let own = Arc::clone(shared);
        if spawn("plumb-net-peer", move || greet(&own, connection)).is_err() {
            plumb_host::time::sleep(PAUSE);
        }
    }
}

/// Finds out what a connection is for.
fn greet(shared: &Arc<Shared>, connection: OwnedFd) {
    let mut bytes = [0; HELLO_BYTES];
    let read = socket::set_receive_timeout(&connection, Some(HELLO_TIMEOUT))
        .and_then(|()| socket::receive_all(&connection, &mut bytes));
    let Ok(true) = read else { return };
    match Purpose::decode(&bytes) {
        Ok(Purpose::Once { token }) => session::once(shared, token, &connection),
        Ok(Purpose::Flow { token, flow }) => {
            if socket::set_receive_timeout(&connection, None).is_ok()
                && let Some(session) = shared.session(token)
            {
                session.join(flow, connection);
            }
        }
        Ok(Purpose::Control) => {
            let own = Arc::clone(shared);
            // In crr tests this thread has to go on taking connections.
            let _ = spawn("plumb-net-control", move || session::serve(&own, connection));
        }
        // Its version is in our hello, for the peer to name.
        Err(Stranger::Version(_)) => {
            let _ = socket::send_all(&connection, &Purpose::Control.encode());
        }
        Err(Stranger::Foreign) => {
            let said = String::from_utf8_lossy(&bytes).escape_debug().to_string();
            held(&shared.news).push(format!("something else called, and said {said:?}"));
        }
    }
}

/// Takes flows of datagrams until the server ends.
pub fn datagrams(shared: &Arc<Shared>) {
    let mut bytes = [0; HELLO_BYTES + 1];
    while !shared.has_ended.load(Ordering::Acquire) {
        let Ok((count, Some(peer))) = socket::receive_from(&shared.datagrams, &mut bytes) else {
            thread::sleep(PAUSE);
            continue;
        };
        if let Ok(Purpose::Flow { token, flow }) = Purpose::decode(&bytes[..count])
            && let Some(session) = shared.session(token)
        {
            // One that is not answered is asked for again.
            let _ = join_datagrams(shared, &session, flow, peer);
        }
    }
}

/// Gives a flow a socket of its own and answers from it. A flow that has one was not answered, or the answer was lost.
fn join_datagrams(
    shared: &Shared,
    session: &Arc<session::Session>,
    flow: u32,
    peer: SocketAddr,
) -> io::Result<()> {
    let hello = Purpose::Flow { token: session.token(), flow }.encode();
    if let Some(joined) = session.flow(flow) {
        return socket::send(joined.socket(), &hello).map(drop);
    }
    let own = SocketAddr::new(session.own_ip(), shared.address.port());
    let connected = socket::datagrams(own)?;
    rustix::net::connect(&connected, &peer)?;
    session.join(flow, connected);
    match session.flow(flow) {
        Some(joined) => socket::send(joined.socket(), &hello).map(drop),
        None => Ok(()),
    }
}
