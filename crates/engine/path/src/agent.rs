//! The agent's side of the protocol: it reads requests, drives one system or one load, and writes replies.
//!
//! A separate thread reads requests, so that the agent notices even while it prepares or measures that it is to stop, or that its
//! runner is gone. An agent whose runner is gone stops whatever it started, and ends.
//!
//! The lines of its log go the same way as its replies. A thread sends them as they come, and each reply sends those
//! before it, so that the runner knows them when it reads the reply.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_host::cpu::Placement;
use plumb_host::signals::ask_to_stop;
use plumb_host::time::monotonic_ns;
use plumb_model::FailureCause;
use serde::Serialize;
use serde_json::Value;
use tracing::{debug, error, info, trace};

use crate::data_path::{DataPath, find};
use crate::family::{Load, Mark, PathError, System, Window};
use crate::log::Log;
use crate::protocol::{Logged, Reply, Request};

/// How long an agent without a runner may take to stop its system before everything below it is killed.
const ORPHAN_GRACE: Duration = Duration::from_millis(1200);

/// Serves requests from `input` until it ends or a request asks to stop.
///
/// # Errors
/// When the output cannot be written, because the runner is gone.
pub fn serve(
    paths: &[DataPath],
    input: impl BufRead + Send + 'static,
    output: impl Write + Send,
) -> std::io::Result<()> {
    let (sender, requests) = channel();
    let done = Arc::new(AtomicBool::new(false));
    let seen_by_control = Arc::clone(&done);
    std::thread::Builder::new()
        .name("control".to_owned())
        .spawn(move || read_requests(input, &sender, &seen_by_control))?;
    let requests = Requests { lines: requests, early: VecDeque::new() };
    let output = Output { to: Mutex::new(output), log: Log::current() };
    let outcome = std::thread::scope(|scope| {
        scope.spawn(|| output.send_log());
        // Also after a panic, because the scope waits for the thread.
        let _closing = Closing(output.log.clone());
        let mut agent = Agent { paths, output: &output, requests, system: None, load: None };
        let outcome = agent.run();
        if let Some(mut system) = agent.system.take() {
            info!("the runner is gone: stopping the system");
            // No reader is left for a failure here. The end of the process kills whatever does not stop.
            let _ = system.stop();
        }
        outcome
    });
    done.store(true, Ordering::Release);
    outcome
}

/// The agent's output, which its replies and its log share.
struct Output<W> {
    to: Mutex<W>,
    log: Option<Log>,
}

impl<W: Write> Output<W> {
    /// Sends the lines of the log until it is closed.
    fn send_log(&self) {
        let Some(log) = &self.log else { return };
        while log.wait() {
            // The control thread notices a runner that is gone.
            let _ = self.write(None);
        }
        let _ = self.write(None);
    }

    /// Writes the lines of the log that are held, and a reply after them.
    fn write(&self, reply: Option<&Reply>) -> std::io::Result<()> {
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, log) in self.log.as_ref().map(Log::take).unwrap_or_default() {
            write_line(&mut *to, &Logged { log })?;
        }
        reply.map_or(Ok(()), |reply| write_line(&mut *to, reply))
    }

    /// Writes a mark alone: it must not wait for anything.
    fn mark(&self, mark: Mark) {
        let reply = Reply::Mark { mark, at_ns: monotonic_ns() };
        // The control thread notices a runner that is gone.
        let _ = write_line(&mut *self.to.lock().unwrap_or_else(PoisonError::into_inner), &reply);
    }
}

/// Closes the log when it is dropped.
struct Closing(Option<Log>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(log) = &self.0 {
            log.close();
        }
    }
}

fn read_requests(input: impl BufRead, requests: &Sender<String>, done: &AtomicBool) {
    for line in input.lines() {
        let Ok(line) = line else { break };
        if matches!(parse(&line), Ok(Request::Stop)) {
            ask_to_stop();
        }
        if requests.send(line).is_err() {
            return;
        }
    }
    ask_to_stop();
    if requests.send(String::new()).is_err() {
        return;
    }
    plumb_host::time::sleep(ORPHAN_GRACE);
    if !done.load(Ordering::Acquire) {
        plumb_host::process::start_no_more();
        for child in plumb_host::process::descendants(std::process::id()) {
            plumb_host::process::kill_tree(child);
        }
        std::process::exit(1);
    }
}

/// The runner's requests; an empty line stands for the end of the input.
struct Requests {
    lines: Receiver<String>,
    /// Lines that arrived while the agent waited for a moment.
    early: VecDeque<String>,
}

impl Requests {
    fn next(&mut self) -> Option<serde_json::Result<Request>> {
        let line = self.early.pop_front().or_else(|| self.lines.recv().ok())?;
        (!line.is_empty()).then(|| parse(&line))
    }

    /// Waits for a moment, unless the runner hurries the agent, sends another request, or is gone.
    fn wait_until(&mut self, at_ns: u64) {
        let can_wait = |line: &String| matches!(parse(line), Ok(Request::Snapshot { .. }));
        while self.early.iter().all(can_wait) {
            let left = Duration::from_nanos(at_ns.saturating_sub(monotonic_ns()));
            match self.lines.recv_timeout(left) {
                Ok(line) => self.early.push_back(line),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

fn parse(line: &str) -> serde_json::Result<Request> {
    serde_json::from_str(line)
}

struct Agent<'p, W> {
    paths: &'p [DataPath],
    output: &'p Output<W>,
    requests: Requests,
    system: Option<Box<dyn System>>,
    load: Option<Box<dyn Load>>,
}

impl<W: Write> Agent<'_, W> {
    /// Serves until the end.
    fn run(&mut self) -> std::io::Result<()> {
        while let Some(request) = self.requests.next() {
            let request = match request {
                Ok(Request::Stop) => return self.stop(),
                // The snapshot to hurry has already been taken.
                Ok(Request::Hurry) => continue,
                Ok(request) => request,
                Err(error) => {
                    let reason = format!("read a request: {error}");
                    let cause = FailureCause::Harness;
                    self.output.write(Some(&Reply::Failed { reason, cause, is_usage: false }))?;
                    continue;
                }
            };
            let reply = self.answer(request).unwrap_or_else(|error| failed(&error));
            self.output.write(Some(&reply))?;
        }
        Ok(())
    }

    fn answer(&mut self, request: Request) -> Result<Reply, PathError> {
        match request {
            Request::PrepareSystem { path, settings, place } => {
                info!(path, cpus = place.cpus, "preparing the system");
                let system = find(self.paths, &path)?.decode(&settings)?.system(&place)?;
                let target = system.target();
                self.system = Some(system);
                info!("the system is ready");
                Ok(Reply::Ready { target })
            }
            Request::PrepareLoad { path, settings, target, place } => {
                info!(path, cpus = place.cpus, "preparing the load");
                // The previous load holds resources that this one may need, such as the name of a device.
                self.load = None;
                self.load = Some(find(self.paths, &path)?.decode(&settings)?.load(&target, &place)?);
                info!("the load is ready");
                Ok(Reply::Ready { target: Value::Null })
            }
            Request::Snapshot { at_ns } => {
                self.requests.wait_until(at_ns);
                trace!("reading the counters");
                let system =
                    self.system.as_mut().ok_or_else(|| PathError::new("there is no system to ask"))?;
                let mut snapshot = system.snapshot()?;
                if !snapshot.is_foreign && snapshot.cpu.total_ns() > 0 {
                    snapshot.placement = Some(own_placement());
                }
                Ok(Reply::Snapshot { at_ns: monotonic_ns(), snapshot: Box::new(snapshot) })
            }
            Request::Measure { window } => self.measure(window),
            Request::Hurry | Request::Stop => Ok(Reply::Stopped),
        }
    }

    /// Measures a window. Its moments are logged after it.
    fn measure(&mut self, window: Window) -> Result<Reply, PathError> {
        let Self { load, output, .. } = self;
        let load = load.as_mut().ok_or_else(|| PathError::new("there is no load to measure with"))?;
        let (index, window_ms, warmup_ms) =
            (window.index, window.window_ns / 1_000_000, window.warmup_ns / 1_000_000);
        info!(index, attempt = window.attempt, window_ms, warmup_ms, "measuring");
        // An agent that crashes in the window has said what it was doing. The control thread notices a runner that is gone.
        let _ = output.write(None);
        let (mut opened_ns, mut closed_ns) = (0, 0);
        let measurement = load.measure(window, &mut |mark| {
            output.mark(mark);
            match mark {
                Mark::Opened => opened_ns = monotonic_ns(),
                Mark::Closed => closed_ns = monotonic_ns(),
                Mark::Agreed { .. } => debug!("agreed on the window"),
                Mark::Progress { .. } => {}
            }
        })?;
        let open_ms = u64::saturating_sub(closed_ns, opened_ns) / 1_000_000;
        let closed_ms_ago = monotonic_ns().saturating_sub(closed_ns) / 1_000_000;
        info!(index, work = measurement.work, open_ms, closed_ms_ago, "measured");
        Ok(Reply::Measured { measurement: Box::new(measurement) })
    }

    fn stop(&mut self) -> std::io::Result<()> {
        let stopped = self.system.take().map_or(Ok(()), |mut system| system.stop());
        let reply = match stopped {
            Ok(()) => Reply::Stopped,
            Err(error) => failed(&error),
        };
        info!("stopped");
        self.output.write(Some(&reply))
    }
}

/// The CPUs of the threads of a system that this agent has started.
fn own_placement() -> Placement {
    let own = std::process::id();
    let pids: Vec<u32> = std::iter::once(own).chain(plumb_host::process::descendants(own)).collect();
    Placement::of_processes(&pids)
}

fn failed(error: &PathError) -> Reply {
    error!(cause = ?error.cause(), reason = %error, "the request failed");
    let is_usage = matches!(error, PathError::Usage(_));
    Reply::Failed { reason: error.to_string(), cause: error.cause(), is_usage }
}

fn write_line(output: &mut impl Write, value: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(value).map_err(std::io::Error::other)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::null::NULL;

    fn talk(requests: &str) -> Vec<Value> {
        let mut output = Vec::new();
        let input = std::io::Cursor::new(format!("{requests}\n{{\"request\":\"stop\"}}\n").into_bytes());
        serve(&[NULL], input, &mut output).unwrap();
        lines(output)
    }

    fn lines(output: Vec<u8>) -> Vec<Value> {
        String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn reply_kinds(replies: &[Value]) -> Vec<&str> {
        replies.iter().map(|reply| reply["reply"].as_str().unwrap()).collect()
    }

    const PLACE: &str = r#"{"scratch":"/tmp","cpus":1}"#;
    const PREPARE_SYSTEM: &str =
        r#"{"request":"prepare-system","path":"null","settings":{},"place":{"scratch":"/tmp","cpus":1}}"#;

    #[test]
    fn a_load_is_prepared_and_measured_with_marks() {
        let replies = talk(&format!(
            "{}\n{}",
            format_args!(
                r#"{{"request":"prepare-load","path":"null","settings":{{}},"target":null,"place":{PLACE}}}"#
            ),
            r#"{"request":"measure","window":{"warmup_ns":0,"window_ns":1000000000,"seed":7,"index":0,"attempt":0}}"#
        ));
        assert_eq!(reply_kinds(&replies), ["ready", "mark", "mark", "measured", "stopped"]);
        assert!(replies[3]["measurement"]["work"].as_u64().unwrap() > 0);
    }

    #[test]
    fn a_system_is_prepared_and_asked() {
        let replies = talk(&format!(
            "{}\n{}",
            format_args!(r#"{{"request":"prepare-system","path":"null","settings":{{}},"place":{PLACE}}}"#),
            r#"{"request":"snapshot","at_ns":0}"#
        ));
        assert_eq!(reply_kinds(&replies), ["ready", "snapshot", "stopped"]);
    }

    #[test]
    fn the_log_comes_before_the_reply_that_it_belongs_to() {
        let log = Log::new("load", None);
        let talked = tracing::subscriber::with_default(log, || {
            talk(
                r#"{"request":"prepare-system","path":"storage","settings":{"password":"hunter2"},"place":{"scratch":"/tmp","cpus":1}}"#,
            )
        });
        let words = |line: &Value| {
            let log = line["log"]["message"].as_str().map(str::to_owned);
            log.unwrap_or_else(|| line["reply"].as_str().unwrap().to_owned())
        };
        assert_eq!(
            talked.iter().map(words).collect::<Vec<_>>(),
            ["preparing the system", "the request failed", "failed", "stopped", "stopped"]
        );
        assert!(!format!("{talked:?}").contains("hunter2"), "settings are not logged");
    }

    #[test]
    fn a_snapshot_waits_for_its_moment() {
        let (input, mut runner) = std::io::pipe().unwrap();
        let soon_ns = monotonic_ns() + 30_000_000;
        let writer = std::thread::spawn(move || {
            writeln!(runner, "{PREPARE_SYSTEM}\n{{\"request\":\"snapshot\",\"at_ns\":{soon_ns}}}").unwrap();
            // Any request but a snapshot ends the wait, so it is sent only after the moment.
            plumb_host::time::sleep(Duration::from_nanos(soon_ns.saturating_sub(monotonic_ns()) + 1));
        });
        let mut output = Vec::new();
        serve(&[NULL], std::io::BufReader::new(input), &mut output).unwrap();
        writer.join().unwrap();
        let replies = lines(output);
        assert_eq!(reply_kinds(&replies), ["ready", "snapshot"]);
        assert!(replies[1]["at_ns"].as_u64().unwrap() >= soon_ns);
    }

    #[test]
    fn a_request_to_stop_reaches_whatever_waits() {
        assert!(!plumb_host::signals::was_asked_to_stop());
        talk(r#"{"request":"stop"}"#);
        assert!(plumb_host::signals::was_asked_to_stop());
    }

    #[test]
    fn a_hurry_ends_the_wait_for_a_snapshot() {
        let never_ns = u64::MAX;
        let replies = talk(&format!(
            "{PREPARE_SYSTEM}\n{{\"request\":\"snapshot\",\"at_ns\":{never_ns}}}\n{{\"request\":\"hurry\"}}"
        ));
        assert_eq!(reply_kinds(&replies), ["ready", "snapshot", "stopped"]);
        assert!(replies[1]["at_ns"].as_u64().unwrap() < never_ns);
    }

    #[test]
    fn a_request_that_cannot_be_met_is_answered_and_the_agent_lives_on() {
        let replies = talk(&format!(
            "{}\n{}\n{}",
            "garbage",
            r#"{"request":"snapshot","at_ns":0}"#,
            format_args!(
                r#"{{"request":"prepare-system","path":"storage","settings":{{}},"place":{PLACE}}}"#
            ),
        ));
        assert_eq!(reply_kinds(&replies), ["failed", "failed", "failed", "stopped"]);
        let causes: Vec<&str> = replies[..3].iter().map(|reply| reply["cause"].as_str().unwrap()).collect();
        assert_eq!(causes, ["harness", "system", "system"]);
        assert!(replies[2]["reason"].as_str().unwrap().contains("no data path `storage`"));
    }
}
