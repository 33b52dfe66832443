//! Sorts the lines of another host: an agent's lines go to its link, and the keeper's answers to the request that waits.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

use plumb_host::time::monotonic_ns;

use super::connection::Output;
use super::remote_link::Route;
use crate::intake::{Held, Intake, LINE_BYTES_MAX, PREFIX_BYTES_MAX};
use crate::process_log::ProcessLog;
use crate::wire::{KeeperReply, of_agent};

/// A line from the shell or the keeper of a host.
pub(crate) enum Heard {
    /// A line of the shell, before there is a keeper.
    Shell(String),
    /// A reply of the keeper, and when it came.
    Reply(u64, KeeperReply),
}

/// The receivers of agents' lines; `None` once no more lines come.
pub(crate) type Routes = Arc<Mutex<Option<BTreeMap<u32, Route>>>>;

/// Passes each line of a host to its receiver, until the host's output ends or exceeds its bounds.
pub(crate) fn sort(
    output: Output,
    heard: &Sender<(Heard, Held)>,
    routes: &Routes,
    log: &ProcessLog,
    intake: &Intake,
) {
    for line in intake.lines(output, LINE_BYTES_MAX + PREFIX_BYTES_MAX) {
        let came_ns = monotonic_ns();
        let Some(held) = intake.hold(&line) else { break };
        if let Some((agent, line)) = of_agent(&line) {
            to_agent(routes, agent, |route| route.line(line, held));
            continue;
        }
        let is_wanted = match serde_json::from_str(&line) {
            Ok(KeeperReply::Beat) => true,
            Ok(KeeperReply::Log(line)) => {
                log.take(line.bounded());
                true
            }
            Ok(KeeperReply::Ended { agent, ended }) => {
                to_agent(routes, agent, |route| route.end(ended));
                true
            }
            Ok(answer) => heard.send((Heard::Reply(came_ns, answer), held)).is_ok(),
            Err(_) => heard.send((Heard::Shell(line), held)).is_ok(),
        };
        if !is_wanted {
            break;
        }
    }
    *routes.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

fn to_agent(routes: &Routes, agent: u32, pass: impl FnOnce(&Route)) {
    let routes = routes.lock().unwrap_or_else(PoisonError::into_inner);
    // An agent without a route has been given up.
    if let Some(route) = routes.as_ref().and_then(|routes| routes.get(&agent)) {
        pass(route);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};
    use std::sync::mpsc::channel;

    use super::*;

    /// The excess of a host that sends this over and over to a runner that takes none of it.
    fn excess(line: &'static [u8]) -> String {
        struct Again(&'static [u8]);
        impl Read for Again {
            fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
                let length = bytes.len().min(self.0.len());
                bytes[..length].copy_from_slice(&self.0[..length]);
                Ok(length)
            }
        }
        let (sender, heard) = channel();
        let (replies, _lines) = channel();
        let log = ProcessLog::elsewhere("keeper far");
        let routes: Routes =
            Arc::new(Mutex::new(Some(BTreeMap::from([(1, Route { replies, log: log.clone() })]))));
        let intake = Intake::default();
        sort(Box::new(Again(line)), &sender, &routes, &log, &intake);
        assert!(routes.lock().unwrap().is_none(), "the host counts as lost");
        drop(heard);
        intake.excess().unwrap().to_string()
    }

    #[test]
    fn a_host_that_sends_without_end_is_lost() {
        assert_eq!(excess(&[b'x'; 4096]), "sent a line of more than 16 MiB");
        let unasked = "sent more than 64 MiB without being asked";
        assert_eq!(excess(b"hello from a shell that says hello over and over again, and again\n"), unasked);
        assert_eq!(
            excess(b"1 {\"reply\":\"stopped\"} and something that no agent says at all, ever\n"),
            unasked
        );
    }
}
