//! A stream that is received: all of it, in one way from its first byte to its last.

use std::io;
use std::time::Duration;

use super::flow::{Flow, Report};
use super::receiving::Receiving;
use crate::wire::control::Terms;
use crate::wire::socket;

/// The memory of each receive, whatever the size of the messages.
const PIECE_BYTES: usize = 256 << 10;
/// How long a receiver that pauses does so: 64 KiB come in it at 2.6 Gbit/s, and 256 KiB at 10 Gbit/s.
const PAUSE: Duration = Duration::from_micros(200);

/// Takes a stream until it ends.
///
/// # Errors
/// When the socket fails.
pub fn take(flow: &Flow, terms: &Terms, report: &mut Report) -> io::Result<()> {
    let mut receiving = Receiving::new(terms.receive, PAUSE);
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = 0;
    let ran = loop {
        let taken = receiving.take(flow, |waits| match waits {
            true => socket::receive(flow.socket(), &mut piece),
            false => socket::receive_now(flow.socket(), &mut piece),
        });
        match taken {
            Ok(0) => break Ok(()),
            Ok(count) => {
                bytes += count as u64;
                flow.tallies.set(0, bytes);
                receiving.rest(count == PIECE_BYTES);
            }
            Err(error) => break Err(error),
        }
    };
    receiving.account(terms.test, &mut report.observed);
    ran
}
