//! The loops of the client's flows. A round trip costs two system calls and one look at the clock, a message that goes one
//! way one system call. Nothing is allocated for a message. No socket has a timeout, which would cost a timer each time. To end
//! a flow that waits, the watching thread shuts its socket down.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_path::PathError;
use plumb_path::drive::{Ran, Worker};

use super::flow::{Flow, LOOK_NS};
use super::tally::Tally;
use super::{connections, datagrams, sender};
use crate::settings::Test;
use crate::wire::socket;

/// Why a flow cannot continue.
const CLOSED: &str = "the server closed a connection";

impl Worker for Flow {
    type Tally = Tally;

    fn run(mut self) -> Result<Ran<Tally>, PathError> {
        let ran = match (self.make.test, self.make.socket.clone()) {
            (Test::TcpLat, Some(socket)) => self.round_trips(&socket),
            (Test::UdpLat, Some(socket)) => datagrams::round_trips(&mut self, &socket),
            (Test::TcpBw, Some(socket)) => sender::stream(&mut self, &socket),
            (Test::UdpBw, Some(socket)) => sender::datagrams(&mut self, &socket),
            _ => connections::run(&mut self),
        };
        // A flow that was woken to end has not failed.
        if let Err(error) = ran
            && !self.make.live.is_over()
        {
            self.tally.recorder.fail(error.to_string());
        }
        let close_ns = self.make.part.frame.close_ns;
        // A flow that broke off has no part in the rest of the window, which goes on: its messages are still due.
        while !self.make.live.is_over() && monotonic_ns() < close_ns {
            sleep(Duration::from_nanos(LOOK_NS.min(close_ns.saturating_sub(monotonic_ns()))));
        }
        self.leave_unsent();
        let end_ns = monotonic_ns();
        self.observe(end_ns);
        Ok(Ran { tally: self.tally, end_ns: end_ns.min(close_ns), accounts: self.accounts.ends() })
    }
}

impl Flow {
    /// Puts what was due in the window and never sent into the distribution, with the time that it had waited by the end. Where
    /// there is more of it than a distribution tells apart, messages in a row count as their first.
    fn leave_unsent(&mut self) {
        const STEPS_MAX: u64 = 4096;
        let frame = self.make.part.frame;
        let Some(mut due) = self.make.part.due.filter(|_| !self.make.test.is_bandwidth()) else { return };
        let end_ns = monotonic_ns().min(frame.close_ns);
        due.skip(due.due_before(frame.open_ns.saturating_sub(frame.start_ns)));
        let mut left = due.due_before(end_ns.saturating_sub(frame.start_ns));
        let step = left.div_ceil(STEPS_MAX).max(1);
        while left > 0 {
            let due_ns = frame.start_ns.saturating_add(due.due_ns());
            let count = step.min(left);
            self.tally.leave(due_ns, end_ns.saturating_sub(due_ns), count);
            due.skip(count);
            left -= count;
        }
    }

    fn round_trips(&mut self, socket: &OwnedFd) -> io::Result<()> {
        let mut message = vec![0; self.make.size];
        let mut now_ns = monotonic_ns();
        while let Some((due_ns, start_ns)) = self.wait_for_turn(now_ns) {
            let sent = socket::send_all(socket, &message);
            let answered = sent.and_then(|()| socket::receive_all(socket, &mut message));
            now_ns = monotonic_ns();
            if matches!(answered, Ok(true)) {
                self.came_back(due_ns, start_ns, now_ns);
                continue;
            }
            self.tally.unanswered += 1;
            let time_ns = self.time_ns(due_ns, start_ns, now_ns);
            if self.make.live.is_over() {
                self.tally.leave(due_ns, time_ns, 1);
            } else {
                let cause = answered.err().map(|error| error.to_string());
                self.tally.fail_one(due_ns, time_ns, &cause.unwrap_or_else(|| CLOSED.to_owned()));
            }
            break;
        }
        Ok(())
    }
}
