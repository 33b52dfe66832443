//! A connection for each message. The server closes first, so that this host's ports are free at once.
//!
//! A timeout would cost a system call and a timer for each connection. So none has one, and the watching thread shuts the
//! connection under way when the flow is to end.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use plumb_host::time::monotonic_ns;

use super::flow::Flow;
use crate::wire::hello::Purpose;
use crate::wire::socket;

/// How long a connection may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Opens a connection for each message until the flow is over.
///
/// # Errors
/// When the network namespace cannot be entered.
pub fn run(flow: &mut Flow) -> io::Result<()> {
    if let Some(netns) = &flow.make.netns {
        plumb_host::namespace::enter(netns).map_err(io::Error::other)?;
    }
    let hello = Purpose::Once { token: flow.make.token }.encode();
    let mut message = hello.to_vec();
    message.resize(hello.len() + flow.make.size, 0);
    let mut answer = vec![0; flow.make.size];
    let mut now_ns = monotonic_ns();
    while let Some((due_ns, start_ns)) = flow.wait_for_turn(now_ns) {
        let done = connection(flow, &message, &mut answer);
        now_ns = monotonic_ns();
        match done {
            Ok(()) => flow.came_back(due_ns, start_ns, now_ns),
            Err(error) => {
                flow.tally.unanswered += 1;
                // A connection that was shut to end the flow has not failed.
                if flow.make.live.under_way.is_shut() {
                    flow.tally.leave(due_ns, now_ns - due_ns, 1);
                } else {
                    flow.tally.fail_one(due_ns, now_ns - due_ns, &error.to_string());
                }
                flow.observe(now_ns);
            }
        }
    }
    Ok(())
}

fn connection(flow: &Flow, message: &[u8], answer: &mut [u8]) -> io::Result<()> {
    let connection = socket::connect(flow.make.address, Some(&flow.make.options), CONNECT_TIMEOUT)
        .map_err(io::Error::other)?;
    let connection = Arc::new(connection);
    flow.make.live.under_way.begin(&connection)?;
    let exchanged = exchange(&connection, message, answer);
    flow.make.live.under_way.end();
    exchanged
}

fn exchange(connection: &OwnedFd, message: &[u8], answer: &mut [u8]) -> io::Result<()> {
    socket::send_all(connection, message)?;
    if !socket::receive_all(connection, answer)? {
        return Err(io::Error::other("the server closed a connection before its answer"));
    }
    // The end comes right behind the answer.
    socket::receive(connection, &mut [0]).map(drop)
}
