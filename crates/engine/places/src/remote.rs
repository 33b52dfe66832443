//! Another host as the runner sees it: a keeper that answers requests, and the agents behind it.

pub(crate) mod connection;
mod heard;
pub(crate) mod pod;
mod remote_link;
pub(crate) mod ssh;

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write, copy};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_host::cpu::CpuSet;
use plumb_host::signals::{receive_unless_asked_to_stop, was_asked_to_stop};
use plumb_host::time::{monotonic_ns, sleep};
use plumb_kubernetes::Pods;
use plumb_model::{Evidence, PlaceOf};
use plumb_path::Sides;
use serde_json::Value;

use self::connection::{Connection, Input, Opened};
use self::heard::{Heard, Routes, sort};
use self::pod::Pod;
use self::remote_link::{RemoteLink, Route, Writer, say};
use self::ssh::{Client, LACKS, Shell};
use crate::child_agent::{Launch, Rights};
use crate::clock_offset::{ClockOffset, Clocks};
use crate::connection_error::Step;
use crate::error::{HostError, Unfit};
use crate::host_reading::HostReading;
use crate::intake::{Held, Intake};
use crate::node::Watched;
use crate::place::{Place, Started};
use crate::process_log::ProcessLog;
use crate::wire::{Hello, KeeperReply, KeeperRequest, Treat};

/// How long a host may take until its shell answers. If the network does not answer, the client gives up
/// before that.
const REACH_TIMEOUT: Duration = Duration::from_secs(9);
/// How long a host may take for any other answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How long this program may take to start. Many pods that start together share a node's CPUs.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the copy of this program may take.
const COPY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a treatment may take; users' commands have their own limits.
const TREATMENT_TIMEOUT: Duration = Duration::from_secs(600);
/// How often the runner shows the keeper that it is still there.
const BEAT: Duration = Duration::from_secs(1);
/// How many round trips the first estimate of a clock uses.
const FIRST_TRIPS: usize = 10;
/// How long the runner waits for the end of a keeper.
const END_GRACE: Duration = Duration::from_secs(5);
/// How long the runner waits for the last lines of a connection that has ended, and how often it looks.
const LAST_LINES: Duration = Duration::from_millis(500);
const GLANCE: Duration = Duration::from_millis(5);

/// Another host.
pub(crate) struct Remote {
    destination: String,
    connection: Box<dyn Connection>,
    writer: Writer,
    heard: Receiver<(Heard, Held)>,
    intake: Intake,
    routes: Routes,
    /// The keeper's log.
    log: ProcessLog,
    clocks: Clocks,
    /// The current window, and its looks that arrived while another answer was awaited.
    window: u64,
    looks: VecDeque<HostReading>,
    next_agent: u32,
    shell: Shell,
    hello: Hello,
    /// The pod that it is.
    pod: Option<Pod>,
    copied: bool,
    /// Whether the keeper knows the run's treatments.
    is_treated: bool,
}

impl Remote {
    /// Connects, copies this program to the host if it lacks this build, and starts a keeper.
    pub(crate) fn connect(place: &PlaceOf, build: &str, pods: Option<&Arc<Pods>>) -> Result<Self, HostError> {
        let (Opened { mut connection, mut input, output }, pod) = match (&place.pod, pods) {
            (Some(pod), Some(pods)) => {
                let (opened, pod) = pod::open(pods, pod)?;
                (opened, Some(pod))
            }
            (Some(_), None) => return Err(HostError::NoCluster { what: "use a pod".to_owned() }),
            (None, _) => (Client::start(place.ssh.as_deref().unwrap_or_default())?, None),
        };
        let destination = place.ssh.as_deref().unwrap_or(place.name());
        let routes: Routes = Arc::new(Mutex::new(Some(BTreeMap::new())));
        let (sender, heard) = channel();
        let log = ProcessLog::elsewhere(&format!("keeper {}", without_scheme(destination)));
        let intake = Intake::default();
        let (to_agents, of_keeper, bounds) = (Arc::clone(&routes), log.clone(), intake.clone());
        std::thread::spawn(move || sort(output, &sender, &to_agents, &of_keeper, &bounds));
        let begun = begin(&mut input, &heard, build);
        let (shell, mut hello, copied) = match begun {
            Ok(begun) => begun,
            Err(stuck) => {
                let error = match stuck {
                    Stuck::Because(cause) => HostError::Unfit { host: destination.to_owned(), cause },
                    Stuck::At(step, waited) => {
                        failure(destination, &intake, &mut *connection, (step, waited))
                    }
                };
                connection.kill();
                return Err(error);
            }
        };
        connection.expect_beats();
        hello.address = pod.as_ref().map(Pod::address).or(hello.address);
        let writer: Writer = Arc::new(Mutex::new(Some(input)));
        let beats = Arc::clone(&writer);
        std::thread::spawn(move || beat(&beats));
        let mut remote = Self {
            destination: destination.to_owned(),
            connection,
            writer,
            heard,
            intake,
            routes,
            log,
            clocks: Clocks::default(),
            window: 0,
            looks: VecDeque::new(),
            next_agent: 0,
            shell,
            hello,
            pod,
            copied,
            is_treated: false,
        };
        for _ in 0..FIRST_TRIPS {
            remote.compare_clocks()?;
        }
        tracing::info!(host = remote.name(), copied, round_trip_ns = remote.round_trip_ns(), "connected");
        Ok(remote)
    }

    /// The keeper's facts about the host.
    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The pod that it is; `None` for a host by ssh.
    pub(crate) fn pod(&self) -> Option<&Pod> {
        self.pod.as_ref()
    }

    /// The cluster's facts about a pod, as of the connection.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        self.pod.as_ref().map(Pod::lines).unwrap_or_default()
    }

    /// Evidence that a pod is unchanged since the connection was made.
    pub(crate) fn evidence(&self) -> Vec<Evidence> {
        self.pod.as_ref().map(|pod| pod.evidence(self.name())).unwrap_or_default()
    }

    /// Why the connection ended.
    pub(crate) fn why_lost(&mut self) -> HostError {
        failure(&self.destination, &self.intake, &mut *self.connection, (Step::Lost, None))
    }

    /// The last lines of the keeper's log, as the end of an error.
    pub(crate) fn last_lines(&self) -> String {
        self.log.last_lines()
    }

    /// The host's C library.
    pub(crate) fn library(&self) -> &str {
        &self.shell.library
    }

    /// Whether this program had to be copied there.
    pub(crate) fn was_copied(&self) -> bool {
        self.copied
    }

    /// The shortest round trip so far, in ns.
    pub(crate) fn round_trip_ns(&self) -> u64 {
        self.clocks.round_trip_ns()
    }

    /// Compares the clocks again.
    pub(crate) fn compare_clocks(&mut self) -> Result<(), HostError> {
        self.say(&KeeperRequest::Clock { sent_ns: monotonic_ns() })?;
        match self.answer()? {
            (came_ns, KeeperReply::Clock { sent_ns, at_ns }) => {
                self.clocks.add(sent_ns, at_ns, came_ns);
                self.log.set_clock(self.clock());
                Ok(())
            }
            (_, other) => Err(self.odd(&other)),
        }
    }

    /// Why the host cannot build a variant, if so.
    pub(crate) fn lacking(
        &mut self,
        path: &str,
        settings: Value,
        at: Sides,
    ) -> Result<Option<String>, HostError> {
        self.say(&KeeperRequest::Feasible { path: path.to_owned(), settings, at })?;
        match self.answer()?.1 {
            KeeperReply::Feasible { reason } => Ok(reason),
            other => Err(self.odd(&other)),
        }
    }

    fn do_slowly(&mut self, ask: &KeeperRequest) -> Result<(), HostError> {
        self.say(ask)?;
        match self.slow_answer()? {
            KeeperReply::Done => Ok(()),
            other => Err(self.odd(&other)),
        }
    }

    /// The answer to a request that may run a command of the user.
    fn slow_answer(&mut self) -> Result<KeeperReply, HostError> {
        loop {
            match self.hear_within(TREATMENT_TIMEOUT)?.1 {
                KeeperReply::Looked { window, sight } => self.note(window, *sight),
                answer => return Ok(answer),
            }
        }
    }

    /// The output of this program on the host.
    pub(crate) fn tell(&mut self, arguments: &[&str]) -> Result<String, HostError> {
        let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        self.say(&KeeperRequest::Tell { arguments })?;
        match self.answer()?.1 {
            KeeperReply::Told { text } => Ok(text),
            other => Err(self.odd(&other)),
        }
    }

    /// Begins another window, which later looks belong to. Looks of a failed window may still arrive.
    pub(crate) fn begin_window(&mut self) {
        self.window += 1;
        self.looks.clear();
    }

    /// Makes the host look at itself, at moments of its own clock.
    pub(crate) fn look_at(&mut self, moments_ns: &[u64]) -> Result<(), HostError> {
        let window = self.window;
        moments_ns.iter().try_for_each(|at_ns| self.say(&KeeperRequest::Look { window, at_ns: *at_ns }))
    }

    /// Adds the counters of a pod's node to every later look, for a pod that sees its node.
    pub(crate) fn watch_node(&mut self, watched: Watched) -> Result<(), HostError> {
        self.do_slowly(&KeeperRequest::WatchNode { watched })
    }

    /// The node that a pod is on.
    pub(crate) fn node(&self) -> Option<&str> {
        self.pod.as_ref().map(Pod::node)
    }

    /// Makes the host take its pending looks at once.
    pub(crate) fn hurry(&mut self) -> Result<(), HostError> {
        self.say(&KeeperRequest::Hurry)
    }

    /// The next look.
    pub(crate) fn looked(&mut self) -> Result<HostReading, HostError> {
        loop {
            if let Some(sight) = self.looks.pop_front() {
                return Ok(sight);
            }
            match self.hear()?.1 {
                KeeperReply::Looked { window, sight } => self.note(window, *sight),
                other => return Err(self.odd(&other)),
            }
        }
    }

    fn note(&mut self, window: u64, sight: HostReading) {
        if window == self.window {
            self.looks.push_back(sight);
        }
    }

    /// Whether the connection is gone. Its output ends before the connection reports how.
    pub(crate) fn is_lost(&mut self) -> bool {
        let is_silent = self.routes.lock().unwrap_or_else(PoisonError::into_inner).is_none();
        is_silent || self.connection.has_ended(Duration::ZERO)
    }

    /// Whether it is a pod that, according to the cluster, has stopped or will soon, even if the connection
    /// still stands.
    pub(crate) fn is_going(&self) -> bool {
        self.pod.as_ref().is_some_and(|pod| pod.end().is_some())
    }

    /// Ends the connection.
    pub(crate) fn cut(&mut self) {
        self.connection.kill();
    }

    fn say(&mut self, ask: &KeeperRequest) -> Result<(), HostError> {
        say(&self.writer, ask).map_err(|_| self.why_lost())
    }

    /// The next answer that is not a look.
    fn answer(&mut self) -> Result<(u64, KeeperReply), HostError> {
        loop {
            match self.hear()? {
                (_, KeeperReply::Looked { window, sight }) => self.note(window, *sight),
                heard => return Ok(heard),
            }
        }
    }

    fn hear(&mut self) -> Result<(u64, KeeperReply), HostError> {
        self.hear_within(ANSWER_TIMEOUT)
    }

    fn hear_within(&mut self, timeout: Duration) -> Result<(u64, KeeperReply), HostError> {
        let host = || self.destination.clone();
        match self.heard.recv_timeout(timeout) {
            Ok((Heard::Reply(_, KeeperReply::Failed { reason }), _)) => Err(HostError::Keeper(reason)),
            Ok((Heard::Reply(came_ns, answer), _)) => Ok((came_ns, answer)),
            Ok((Heard::Shell(line), _)) => {
                Err(HostError::Odd { host: host(), said: format!("`{line:.100}`") })
            }
            Err(RecvTimeoutError::Timeout) => Err(HostError::Silent { host: host(), timeout }),
            Err(RecvTimeoutError::Disconnected) => Err(self.why_lost()),
        }
    }

    fn odd(&self, answer: &KeeperReply) -> HostError {
        answer.odd(&self.destination)
    }
}

impl Place for Remote {
    fn name(&self) -> &str {
        without_scheme(&self.destination)
    }

    fn start(
        &mut self,
        launch: &Launch,
        (name, label): (&str, &str),
        cpus: &str,
        rights: Rights,
    ) -> Result<Started, HostError> {
        let log = self.log.beside(label);
        self.next_agent += 1;
        let agent = self.next_agent;
        let (replies, lines) = channel();
        if let Some(routes) = &mut *self.routes.lock().unwrap_or_else(PoisonError::into_inner) {
            routes.insert(agent, Route { replies, log: log.clone() });
        }
        self.say(&KeeperRequest::Start {
            agent,
            name: name.to_owned(),
            cpus: cpus.to_owned(),
            rights,
            environment: launch.environment.clone(),
        })?;
        match self.answer()?.1 {
            KeeperReply::Started { place } => {
                let writer = Arc::clone(&self.writer);
                let link = RemoteLink::new(agent, self.destination.clone(), writer, lines);
                Ok((Box::new(link), place, log))
            }
            other => Err(self.odd(&other)),
        }
    }

    fn keep_awake(&mut self, cpus: Option<&CpuSet>) -> Result<(), HostError> {
        self.do_slowly(&KeeperRequest::KeepAwake { cpus: cpus.map(CpuSet::to_string) })
    }

    fn clock(&self) -> ClockOffset {
        self.clocks.at(monotonic_ns())
    }

    fn look(&mut self) -> Result<HostReading, HostError> {
        self.begin_window();
        self.look_at(&[0])?;
        self.looked()
    }

    fn treat(&mut self, request: Treat) -> Result<KeeperReply, HostError> {
        match &request {
            // A new connection needs them again.
            Treat::Know { .. } if std::mem::replace(&mut self.is_treated, true) => {
                return Ok(KeeperReply::Done);
            }
            Treat::PutBack => self.is_treated = false,
            _ => {}
        }
        self.say(&KeeperRequest::Treat(request))?;
        self.slow_answer()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if !self.connection.has_ended(END_GRACE) {
            self.connection.kill();
        }
        // The keeper's last lines may still be on their way.
        let last_ns = monotonic_ns() + LAST_LINES.as_nanos() as u64;
        while self.routes.lock().unwrap_or_else(PoisonError::into_inner).is_some() && monotonic_ns() < last_ns
        {
            sleep(GLANCE);
        }
    }
}

/// A destination as the user knows it.
fn without_scheme(destination: &str) -> &str {
    destination.strip_prefix("ssh://").unwrap_or(destination)
}

/// Why a connection failed at a step: its host sent too much, or it ended, or nothing came for so long.
fn failure(
    destination: &str,
    intake: &Intake,
    connection: &mut dyn Connection,
    (step, waited): (Step, Option<Duration>),
) -> HostError {
    match intake.excess() {
        Some(excess) => HostError::Excess { host: without_scheme(destination).to_owned(), excess },
        None => HostError::Connection(Box::new(connection.trouble(step, waited))),
    }
}

/// Why the start of a keeper failed.
enum Stuck {
    /// A known reason.
    Because(Unfit),
    /// A step at which the client may know the reason. The duration is the time without a line, unless the
    /// connection ended.
    At(Step, Option<Duration>),
}

/// Talks to the shell until there is a keeper. The last value says whether this program had to be copied
/// there.
fn begin(
    input: &mut Input,
    heard: &Receiver<(Heard, Held)>,
    build: &str,
) -> Result<(Shell, Hello, bool), Stuck> {
    let line = |timeout: Duration, step| match receive_unless_asked_to_stop(heard, timeout) {
        Ok((Heard::Shell(line), _)) => Ok(Ok(line)),
        Ok((Heard::Reply(_, KeeperReply::Hello(hello)), _)) => Ok(Err(hello)),
        Ok((Heard::Reply(..), _)) => Err(Stuck::Because(Unfit::NoHello)),
        Err(RecvTimeoutError::Timeout) if was_asked_to_stop() => Err(Stuck::Because(Unfit::NoAnswerYet)),
        Err(RecvTimeoutError::Timeout) => Err(Stuck::At(step, Some(timeout))),
        Err(RecvTimeoutError::Disconnected) => Err(Stuck::At(step, None)),
    };
    let last_ns = monotonic_ns() + REACH_TIMEOUT.as_nanos() as u64;
    let shell = loop {
        // A profile may print something first, but not without end.
        match line(Duration::from_nanos(last_ns.saturating_sub(monotonic_ns())), Step::Reach) {
            Ok(Ok(line)) => {
                if let Some(shell) = Shell::parse(&line) {
                    break shell;
                }
            }
            Ok(Err(_)) => {}
            Err(Stuck::At(step, Some(_))) => return Err(Stuck::At(step, Some(REACH_TIMEOUT))),
            Err(stuck) => return Err(stuck),
        }
    };
    if let Some(misfit) = shell.misfit() {
        return Err(Stuck::Because(misfit));
    }
    writeln!(input, "{build}").map_err(|_| Stuck::At(Step::Begin, None))?;
    let mut copied = false;
    let hello = loop {
        let timeout = if copied { COPY_TIMEOUT } else { START_TIMEOUT };
        match line(timeout, Step::Start)? {
            Ok(word) => {
                if let Some(unpack) = word.strip_prefix(LACKS) {
                    let program =
                        ssh::program(unpack).map_err(|error| Stuck::Because(Unfit::Program(error)))?;
                    send(input, program).map_err(|_| Stuck::At(Step::Copy, None))?;
                    copied = true;
                }
            }
            Err(hello) => break *hello,
        }
    };
    if hello.build != build {
        return Err(Stuck::Because(Unfit::Damaged { found: hello.build, wanted: build.to_owned() }));
    }
    Ok((shell, hello, copied))
}

/// Sends a size, and as many bytes.
fn send(to: &mut Input, (size, mut bytes): (u64, Box<dyn Read>)) -> std::io::Result<()> {
    writeln!(to, "{size}")?;
    copy(&mut bytes, to)?;
    to.flush()
}

fn beat(writer: &Writer) {
    while say(writer, &KeeperRequest::Beat).is_ok() {
        sleep(BEAT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_does_not_answer_is_not_awaited_once_the_run_is_to_stop() {
        let (_sender, heard) = channel();
        plumb_host::signals::ask_to_stop();
        let mut input: Input = Box::new(std::io::sink());
        let stuck = begin(&mut input, &heard, "build");
        assert!(matches!(stuck, Err(Stuck::Because(Unfit::NoAnswerYet))));
    }
}
