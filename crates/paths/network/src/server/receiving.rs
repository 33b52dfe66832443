//! How a receiver waits for data that goes one way: as it was told to, from the first byte to the last, and counted.
//!
//! Nothing here looks at how fast data comes. A receiver that chose its way by that would measure one variant in one way and
//! another variant in another.

use std::io;
use std::time::Duration;

use plumb_host::time::sleep;

use super::flow::Flow;
use crate::options::Receive;
use crate::settings::Test;
use crate::wire::options::{self, EMPTY_POLLS, Observed, PAUSES, RECEIVES};

/// A way of receiving, and what it came to.
#[derive(Debug)]
pub struct Receiving {
    way: Receive,
    pause: Duration,
    receives: u64,
    empty_polls: u64,
    pauses: u64,
}

impl Receiving {
    /// For the thread that receives; it sleeps for `pause` where it is to.
    pub fn new(way: Receive, pause: Duration) -> Self {
        if way == Receive::Pause {
            plumb_host::time::keep_exact_timers();
        }
        Self { way, pause, receives: 0, empty_polls: 0, pauses: 0 }
    }

    /// Receives by `call`, which is told whether it may wait. Returns 0 at the flow's end.
    ///
    /// # Errors
    /// Those of `call`.
    #[inline]
    pub fn take(
        &mut self,
        flow: &Flow,
        mut call: impl FnMut(bool) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let waits = self.way != Receive::Poll;
        loop {
            match call(waits) {
                Err(error) if !waits && error.kind() == io::ErrorKind::WouldBlock => {
                    // A socket for datagrams that was shut says the same as one without data.
                    if flow.has_ended() {
                        return Ok(0);
                    }
                    self.empty_polls += 1;
                }
                taken => {
                    self.receives += u64::from(taken.is_ok());
                    return taken;
                }
            }
        }
    }

    /// Pauses where it is to; not while there was more than `call` had room for.
    #[inline]
    pub fn rest(&mut self, is_more: bool) {
        if self.way == Receive::Pause && !is_more {
            sleep(self.pause);
            self.pauses += 1;
        }
    }

    /// Says what was done.
    pub fn account(&self, test: Test, observed: &mut Observed) {
        let (test, way) = (test.name(), self.way.name());
        for (what, count) in
            [(RECEIVES, self.receives), (EMPTY_POLLS, self.empty_polls), (PAUSES, self.pauses)]
        {
            if count > 0 || what == RECEIVES {
                options::see(observed, "receive", format!("{test} {way}: {what}"), count);
            }
        }
    }
}
