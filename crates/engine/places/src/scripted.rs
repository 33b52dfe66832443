//! Agents for tests: their answers and the times that these take are given in advance, and pass on a simulated clock.

use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use plumb_path::Place;
use plumb_path::protocol::Reply;

use super::{Agent, Ended, Link, ProcessLog, Received, SimulatedClock};

/// An agent that replies with these, each so long after the one before it, and then stays silent.
pub(crate) fn agent(name: &str, clock: &Rc<SimulatedClock>, replies: &[(Duration, Reply)]) -> Agent {
    let line = |(after, reply): &(Duration, Reply)| (*after, serde_json::to_string(reply).unwrap());
    let link = Scripted { clock: Rc::clone(clock), lines: replies.iter().map(line).collect() };
    let place = Place { scratch: "/nonexistent".into(), cpus: 1, address: None, number: 0 };
    Agent::new(name.to_owned(), Box::new(link), place, ProcessLog::here(name))
}

struct Scripted {
    clock: Rc<SimulatedClock>,
    lines: VecDeque<(Duration, String)>,
}

impl Link for Scripted {
    fn write(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, wait: Duration) -> Received {
        match self.lines.front_mut() {
            Some((after, _)) if *after > wait => *after -= wait,
            Some(_) => {
                let (after, line) = self.lines.pop_front().unwrap();
                self.clock.advance(after);
                return Received::Line(line);
            }
            None => {}
        }
        self.clock.advance(wait);
        Received::Nothing
    }

    fn close(&mut self) {}

    fn ended(&mut self, _: Duration) -> Option<Ended> {
        None
    }

    fn kill(&mut self) {}
}
