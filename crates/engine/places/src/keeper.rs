//! The keeper: the runner's representative on another host. It starts agents there, passes their lines on,
//! and ends them all when the connection ends.
//!
//! It answers its own requests in order, except that a look at the host waits for its moment while other
//! requests continue. A runner that stops or becomes unreachable is silent. The keeper takes it for gone
//! after a while, see [`Agenda`].

mod agenda;
mod leftovers;

use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_host::cpu::{CpuSet, available_cpus, split_sides};
use plumb_host::facts::HostFacts;
use plumb_host::own_program;
use plumb_host::process::{Command, output_of};
use plumb_host::time::boot_id;
use plumb_host::time::monotonic_ns;
use plumb_path::log::Log;
use plumb_path::{DataPath, find};
use tracing::{info, warn};

use self::agenda::{Agenda, SILENCE};
use self::leftovers::{lock, sweep};
use crate::child_agent::{ChildAgent, Launch, Rights};
use crate::error::HostError;
use crate::facts;
use crate::intake::Intake;
use crate::link::Ended;
use crate::node::NodeReader;
use crate::place::{Place as _, ThisHost};
use crate::wire::{Hello, KeeperReply, KeeperRequest, of_agent};

/// How long an agent that closed its output may take to end, and how long all may take once the runner is
/// gone.
const GRACE: Duration = Duration::from_millis(2500);
/// How long the last lines of the log may take to leave.
const LAST_LINES: Duration = Duration::from_millis(500);
/// How long a program that reports on the host may take.
const TELL_TIMEOUT: Duration = Duration::from_secs(30);

/// An event for the keeper.
enum Happening {
    Line(String),
    /// An agent closed its output.
    Closed(u32),
    /// The runner closed its output.
    End,
}

/// Serves a runner from `input` until the runner is gone. Agents have their files below `directory`.
///
/// # Errors
/// When it cannot serve at all. A runner that is gone is the ordinary end.
pub fn keep(
    paths: &[DataPath],
    directory: &Path,
    input: impl BufRead + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), plumb_host::Error> {
    // Held until this process ends.
    let _lock = lock(directory);
    sweep(directory);
    let (sender, happenings) = channel();
    let output: Output = Arc::new(Mutex::new(Box::new(output)));
    let (reader, beats) = (sender.clone(), Arc::clone(&output));
    std::thread::spawn(move || {
        for line in input.lines().map_while(Result::ok) {
            if matches!(serde_json::from_str(&line), Ok(KeeperRequest::Beat)) {
                say(&beats, &KeeperReply::Beat);
            }
            if reader.send(Happening::Line(line)).is_err() {
                return;
            }
        }
        // The keeper may have ended already.
        let _ = reader.send(Happening::End);
    });
    let launch = Launch {
        program: own_program().to_owned(),
        arguments: vec!["agent".to_owned()],
        directory: directory.to_owned(),
        environment: Vec::new(),
    };
    let mut keeper = Keeper {
        paths,
        launch,
        output,
        sender,
        agents: BTreeMap::new(),
        agenda: Agenda::new(monotonic_ns()),
        here: ThisHost::default(),
    };
    keeper.say(&KeeperReply::Hello(Box::new(hello()?)));
    let all_sent = send_log(&keeper.output);
    info!(pid = std::process::id(), "keeping this host");
    match keeper.serve(&happenings) {
        Gone::Closed => info!("the runner has ended the connection"),
        Gone::Silent => warn!(silent_s = SILENCE.as_secs(), "the runner is silent, and taken for gone"),
    }
    keeper.end();
    info!("all agents have ended");
    end_log(&all_sent);
    // The shell that created the directory removes it as well, unless it was killed.
    let _ = std::fs::remove_dir_all(directory);
    Ok(())
}

/// Sends the lines of this process's log from a thread, which tells when the log is closed and all are sent.
fn send_log(output: &Output) -> Receiver<()> {
    let (sent, all_sent) = channel();
    let (log, output) = (Log::current(), Arc::clone(output));
    std::thread::spawn(move || {
        let Some(log) = log else { return };
        loop {
            let is_open = log.wait();
            log.take().into_iter().for_each(|(_, line)| say(&output, &KeeperReply::Log(line)));
            if !is_open {
                break;
            }
        }
        drop::<Sender<()>>(sent);
    });
    all_sent
}

/// Sends the last lines, unless the runner does not read.
fn end_log(all_sent: &Receiver<()>) {
    if let Some(log) = Log::current() {
        log.close();
    }
    let _ = all_sent.recv_timeout(LAST_LINES);
}

/// Why a keeper stops serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// The runner closed its output.
    Closed,
    /// The runner was silent for too long.
    Silent,
}

/// The output of agents and the keeper, a line at a time.
type Output = Arc<Mutex<Box<dyn Write + Send>>>;

struct Keeper<'p> {
    paths: &'p [DataPath],
    launch: Launch,
    output: Output,
    sender: Sender<Happening>,
    agents: BTreeMap<u32, ChildAgent>,
    agenda: Agenda,
    here: ThisHost,
}

impl Keeper<'_> {
    fn serve(&mut self, happenings: &Receiver<Happening>) -> Gone {
        loop {
            let now_ns = monotonic_ns();
            while let Some(window) = self.agenda.due(now_ns) {
                self.look(window);
            }
            let Some(wait) = self.agenda.wait(now_ns) else { return Gone::Silent };
            match happenings.recv_timeout(wait) {
                Ok(Happening::Line(line)) => {
                    self.take(&line);
                    // The request may have taken longer than the runner may be silent.
                    self.agenda.heard(monotonic_ns());
                }
                Ok(Happening::Closed(agent)) => self.bury(agent),
                Ok(Happening::End) | Err(RecvTimeoutError::Disconnected) => return Gone::Closed,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn take(&mut self, line: &str) {
        if let Some((agent, line)) = of_agent(line) {
            if let Some(agent) = self.agents.get_mut(&agent) {
                // The end of an agent's output shows that it is gone.
                let _ = agent.write(format!("{line}\n").as_bytes());
            }
            return;
        }
        let ask = serde_json::from_str(line).map_err(HostError::Request);
        match ask.and_then(|ask| self.answer(ask)) {
            Ok(None) => {}
            Ok(Some(answer)) => self.say(&answer),
            Err(error) => {
                let reason = error.to_string();
                warn!(reason, "the request failed");
                self.say(&KeeperReply::Failed { reason });
            }
        }
    }

    fn answer(&mut self, ask: KeeperRequest) -> Result<Option<KeeperReply>, HostError> {
        match ask {
            KeeperRequest::Beat => return Ok(None),
            KeeperRequest::Treat(treat) => return self.here.treat(treat).map(Some),
            KeeperRequest::Clock { sent_ns } => {
                return Ok(Some(KeeperReply::Clock { sent_ns, at_ns: monotonic_ns() }));
            }
            KeeperRequest::Feasible { path, settings, at } => {
                let path = find(self.paths, &path)?;
                let settings = path.decode(&settings)?;
                if settings.facts().system.needs_namespaces {
                    // If the kernel refuses, the variant reports it.
                    let _ = plumb_host::namespace::become_root_if_needed();
                }
                let lacking = settings.feasible(at).err();
                return Ok(Some(KeeperReply::Feasible { reason: lacking.map(|error| error.to_string()) }));
            }
            KeeperRequest::Start { agent, name, cpus, rights, environment } => {
                return self.start(agent, &name, &cpus, rights, environment).map(Some);
            }
            KeeperRequest::Close { agent } => {
                if let Some(agent) = self.agents.get_mut(&agent) {
                    agent.close();
                }
            }
            KeeperRequest::Kill { agent } => {
                if let Some(agent) = self.agents.get_mut(&agent) {
                    agent.kill();
                }
            }
            KeeperRequest::Look { window, at_ns } => self.agenda.add(window, at_ns),
            KeeperRequest::WatchNode { watched } => {
                self.here.node = Some(NodeReader::open(watched)?);
                return Ok(Some(KeeperReply::Done));
            }
            KeeperRequest::KeepAwake { cpus } => {
                let cpus = cpus.map(|cpus| cpus.parse()).transpose()?;
                self.here.keep_awake(cpus.as_ref())?;
                return Ok(Some(KeeperReply::Done));
            }
            KeeperRequest::Hurry => {
                while let Some(window) = self.agenda.due(u64::MAX) {
                    self.look(window);
                }
            }
            KeeperRequest::Tell { arguments } => {
                let command = Command::new(own_program()).args(&arguments);
                let said = output_of(command, "plumb", TELL_TIMEOUT)?;
                return Ok(Some(KeeperReply::Told { text: said.stdout }));
            }
        }
        Ok(None)
    }

    fn start(
        &mut self,
        agent: u32,
        name: &str,
        cpus: &str,
        rights: Rights,
        environment: Vec<String>,
    ) -> Result<KeeperReply, HostError> {
        let cpus = cpus.parse::<CpuSet>()?;
        let launch = Launch { environment, ..self.launch.clone() };
        let (output, sender) = (Arc::clone(&self.output), self.sender.clone());
        let deliver = move |line: Option<String>| match line {
            Some(line) => write_line(&output, &format!("{agent} {line}")),
            // The keeper may have ended already.
            None => sender.send(Happening::Closed(agent)).is_ok(),
        };
        let (local, place) = ChildAgent::start(&launch, name, &cpus, rights, Intake::default(), deliver)?;
        info!(agent, name, %cpus, "started an agent");
        self.agents.insert(agent, local);
        Ok(KeeperReply::Started { place })
    }

    /// Handles the end of an agent's output, and reports how the agent ended.
    fn bury(&mut self, agent: u32) {
        let Some(mut local) = self.agents.remove(&agent) else { return };
        let ended = local.ended(GRACE).unwrap_or_else(|| {
            local.kill();
            Ended { how: "closed its output".to_owned(), is_from_outside: false }
        });
        info!(agent, how = ended.how, "an agent ended");
        self.say(&KeeperReply::Ended { agent, ended });
    }

    fn look(&mut self, window: u64) {
        let answer = match self.here.look() {
            Ok(sight) => KeeperReply::Looked { window, sight: Box::new(sight) },
            Err(error) => KeeperReply::Failed { reason: error.to_string() },
        };
        self.say(&answer);
    }

    fn say(&self, answer: &KeeperReply) {
        say(&self.output, answer);
    }

    /// Ends all agents: closes their lifelines, and kills those that do not end.
    fn end(&mut self) {
        self.agents.values_mut().for_each(ChildAgent::close);
        let last_ns = monotonic_ns() + GRACE.as_nanos() as u64;
        for local in self.agents.values_mut() {
            let left = Duration::from_nanos(last_ns.saturating_sub(monotonic_ns()));
            if local.ended(left).is_none() {
                local.kill();
            }
        }
        self.agents.clear();
    }
}

fn say(output: &Output, answer: &KeeperReply) {
    if let Ok(line) = serde_json::to_string(answer) {
        write_line(output, &line);
    }
}

/// Writes a line, and returns whether that succeeded. Silence shows that a runner is gone.
fn write_line(output: &Output, line: &str) -> bool {
    let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
    output
        .write_all(line.as_bytes())
        .and_then(|()| output.write_all(b"\n"))
        .and_then(|()| output.flush())
        .is_ok()
}

fn hello() -> Result<Hello, plumb_host::Error> {
    let cpus = available_cpus()?;
    let halves = split_sides(&cpus);
    // sshd(8): the client's address and port, then the server's.
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let mut words = connection.split(' ');
    let peer = words.next().and_then(|word| word.parse().ok());
    let address = words.nth(1).and_then(|word| word.parse().ok());
    Ok(Hello {
        build: plumb_host::own_build()?,
        boot: boot_id(),
        cpus: cpus.to_string(),
        halves: (halves.system.to_string(), halves.load.to_string()),
        is_root: plumb_host::process::is_root(),
        facts: facts::of_host(&HostFacts::read_now()),
        address,
        peer,
    })
}
