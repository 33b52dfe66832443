//! New connections: for control, for flows, for one message each, and from strangers.
//!
//! A silent connection does not hold up others. This thread reads what a connection is for if that has arrived already; otherwise
//! `greeter` waits for it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::control;
use super::greeter::{Heard, Silent, refuse};
use super::held::held;
use super::session::Session;
use super::shared::{Shared, spawn};
use crate::wire::hello::{HELLO_BYTES, Purpose, Stranger};
use crate::wire::socket;

/// How long a connection that is used once may take for its message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long this thread waits for its hello, which follows at once; handing the connection to another thread would cost more.
const HELLO_WAIT: Duration = Duration::from_millis(20);
/// Pause where the kernel has no connection to give, such as without a free descriptor.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes connections until the server ends.
pub fn connections(shared: &Arc<Shared>) {
    while !shared.has_ended.load(Ordering::Acquire) {
        let Ok((connection, peer)) = socket::accept(&shared.listener) else {
            plumb_host::time::sleep(PAUSE);
            continue;
        };
        let mut silent = Silent::new(connection, peer.ip());
        if shared.once.load(Ordering::Relaxed) > 0 {
            silent.wait(HELLO_WAIT);
        }
        match silent.listen() {
            Heard::All(hello) => dispatch(shared, silent, &hello),
            Heard::More => shared.greeter.take(silent),
            Heard::End => {}
        }
    }
}

/// Listens to silent connections until the server ends.
pub fn silent(shared: &Arc<Shared>) {
    shared.greeter.run(&shared.has_ended, |one, hello| dispatch_elsewhere(shared, one, hello));
}

/// As [`dispatch`], from a thread that must not wait for a message.
fn dispatch_elsewhere(shared: &Arc<Shared>, silent: Silent, hello: [u8; HELLO_BYTES]) {
    if let Ok(Purpose::Once { .. }) = Purpose::decode(&hello) {
        let own = Arc::clone(shared);
        let _ = spawn("plumb-net-once", move || dispatch(&own, silent, &hello));
    } else {
        dispatch(shared, silent, &hello);
    }
}

/// Gives a connection to those that it is for.
fn dispatch(shared: &Arc<Shared>, silent: Silent, hello: &[u8; HELLO_BYTES]) {
    let (connection, peer) = silent.into_connection();
    match Purpose::decode(hello) {
        Ok(Purpose::Once { token }) => {
            if socket::set_receive_timeout(&connection, Some(MESSAGE_TIMEOUT)).is_ok()
                && let Some(session) = shared.session(token)
            {
                session.answer_once(&connection);
            }
        }
        Ok(Purpose::Flow { token, flow }) => {
            if let Some(session) = shared.session(token) {
                session.join(flow, connection);
            }
        }
        Ok(Purpose::Control) => match shared.controls.admit(peer, 1) {
            Ok(admitted) => {
                let own = Arc::clone(shared);
                let serve = move || {
                    control::serve(&own, connection, peer);
                    drop(admitted);
                };
                let _ = spawn("plumb-net-control", serve);
            }
            Err(crowded) => refuse(&connection, crowded.to_string()),
        },
        // The peer reads our version from our hello, and names it.
        Err(Stranger::Version(_)) => {
            let _ = socket::send_all(&connection, &Purpose::Control.encode());
        }
        Err(Stranger::Foreign) => {
            let said = String::from_utf8_lossy(hello).escape_debug().to_string();
            held(&shared.news).push(format!("the client is not plumb; it said {said:?}"));
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

/// Gives a flow a separate socket and answers from it. A flow that has one was not answered, or the answer was lost.
fn join_datagrams(shared: &Shared, session: &Arc<Session>, flow: u32, peer: SocketAddr) -> io::Result<()> {
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
