//! The loops of the server's flows: answer a message, or take what comes. Nothing is allocated for a message.

use std::io;

use super::flow::{DATAGRAM_BYTES_MAX, Flow, Report};
use super::{receiver, stream};
use crate::settings::Test;
use crate::wire::control::Terms;
use crate::wire::hello::Purpose;
use crate::wire::socket;

/// Runs a flow to its end.
pub fn run(flow: &Flow, terms: &Terms) -> Report {
    let mut report = Report::default();
    let ran = match terms.test {
        Test::TcpLat => answer_stream(flow, terms, &mut report),
        Test::UdpLat => answer_datagrams(flow, &mut report),
        Test::TcpBw => stream::take(flow, terms, &mut report),
        Test::UdpBw => receiver::take_datagrams(flow, terms, &mut report),
        Test::TcpCrr => Ok(()),
    };
    if let Err(error) = ran {
        *report.errors.entry(format!("server: {}", error.kind())).or_default() += 1;
    }
    report
}

fn answer_stream(flow: &Flow, terms: &Terms, report: &mut Report) -> io::Result<()> {
    let mut message = vec![0; terms.msg_size as usize];
    let (mut messages, size) = (0, u64::from(terms.msg_size));
    while socket::receive_all(flow.socket(), &mut message)? {
        messages += 1;
        flow.tallies.set(messages, messages * size);
        socket::send_all(flow.socket(), &message)?;
    }
    if messages > 0 {
        report.see_size(message.len());
    }
    Ok(())
}

fn answer_datagrams(flow: &Flow, report: &mut Report) -> io::Result<()> {
    let mut message = vec![0; DATAGRAM_BYTES_MAX];
    let (mut messages, mut bytes) = (0, 0);
    loop {
        let count = match socket::receive(flow.socket(), &mut message) {
            // The kernel says so on the next call when a datagram from here found nobody.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            received => received?,
        };
        if count == 0 {
            return Ok(());
        }
        if Purpose::is_hello(&message[..count]) {
            continue;
        }
        messages += 1;
        bytes += count as u64;
        flow.tallies.set(messages, bytes);
        report.see_size(count);
        // A datagram that cannot be sent is a lost one.
        let _ = socket::send(flow.socket(), &message[..count]);
    }
}
