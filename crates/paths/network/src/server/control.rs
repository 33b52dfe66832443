//! One control connection: it begins tests, asks what they counted, and ends them.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader};
use std::net::{IpAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use plumb_host::time::monotonic_ns;

use super::held::held;
use super::session::Session;
use super::shared::Shared;
use crate::settings::Test;
use crate::wire::bounds::{check_flows, check_size};
use crate::wire::control::{Reply, Request, Terms, read_line, write_line};
use crate::wire::hello::Purpose;
use crate::wire::socket;

/// How long a client may say nothing. It asks for counters every second.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Tests at a time.
const SESSIONS_MAX: usize = 64;

/// Serves a control connection to its end.
pub fn serve(shared: &Arc<Shared>, connection: OwnedFd, peer: IpAddr) {
    let mut current = None;
    let outcome = converse(shared, connection, peer, &mut current);
    if let Some(session) = current.take() {
        leave(shared, &session);
    }
    if let Err(error) = outcome {
        held(&shared.news).push(format!("a client's connection ended: {error}"));
    }
}

/// Takes a test off the list.
fn leave(shared: &Shared, session: &Arc<Session>) {
    session.end();
    let was_listed = held(&shared.sessions).remove(&session.token()).is_some();
    if was_listed && session.terms().test == Test::TcpCrr {
        shared.once.fetch_sub(1, Ordering::Relaxed);
    }
}

fn converse(
    shared: &Arc<Shared>,
    connection: OwnedFd,
    peer: IpAddr,
    current: &mut Option<Arc<Session>>,
) -> io::Result<()> {
    socket::keep_watch(&connection)?;
    socket::set_receive_timeout(&connection, Some(SILENCE_MAX))?;
    socket::send_all(&connection, &Purpose::Control.encode())?;
    let own_ip = socket::own_address(&connection)?.ip();
    let mut to = TcpStream::from(connection);
    let mut from = BufReader::new(to.try_clone()?);
    while let Some(request) = read_line(&mut from)? {
        let reply = match (request, current.as_ref()) {
            (Request::Begin(terms), _) => {
                if let Some(session) = current.take() {
                    leave(shared, &session);
                }
                begin(shared, terms, (own_ip, peer), current)
            }
            (Request::Join, Some(session)) => joined(session),
            (Request::Sample, Some(session)) => Reply::Counters(session.counters()),
            (Request::Finish, Some(session)) => Reply::Finished(session.finish()),
            (_, None) => refused("answer: no test was begun".to_owned(), false),
        };
        write_line(&mut to, &reply)?;
    }
    Ok(())
}

fn refused(reason: String, is_usage: bool) -> Reply {
    Reply::Refused { reason, is_usage }
}

fn joined(session: &Session) -> Reply {
    if let Err(count) = session.wait_for_flows() {
        let all = session.terms().flows;
        return refused(format!("see all flows: {count} of {all} have reached the server"), false);
    }
    // The refusal of a socket is the reason why the test cannot run as the client asked.
    match session.first_error() {
        Some(error) => refused(error, true),
        None => Reply::Joined,
    }
}

fn begin(
    shared: &Shared,
    terms: Terms,
    (own_ip, peer): (IpAddr, IpAddr),
    current: &mut Option<Arc<Session>>,
) -> Reply {
    let checked = check_flows(terms.flows).and_then(|()| check_size(terms.test, terms.msg_size.into()));
    if let Err(fault) = checked {
        return refused(format!("begin: {fault}"), true);
    }
    if terms.shared_cpus.as_ref().is_some_and(|shared| !shared.are_here()) {
        let reason = "share CPUs with the client, which is on another host; measure without `cpus: shared`";
        return refused(reason.to_owned(), true);
    }
    let admitted = match shared.flows.admit(peer, terms.flows.into()) {
        Ok(admitted) => admitted,
        Err(crowded) => return refused(crowded.to_string(), false),
    };
    let mut sessions = held(&shared.sessions);
    if sessions.len() >= SESSIONS_MAX {
        return refused(format!("begin: the server has {SESSIONS_MAX} tests under way"), false);
    }
    let token = RandomState::new().hash_one(monotonic_ns());
    if terms.test == Test::TcpCrr {
        shared.once.fetch_add(1, Ordering::Relaxed);
    }
    let session = Arc::new(Session::new(token, terms, own_ip, admitted));
    sessions.insert(token, Arc::clone(&session));
    *current = Some(session);
    Reply::Ready { token }
}
