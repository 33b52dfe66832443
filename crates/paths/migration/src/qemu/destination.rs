//! The destination's side: a thread that starts a fresh QEMU for every migration, and ends it when it is done.
//!
//! A QEMU that has received a guest cannot receive another, and starting one is not part of a migration. So the
//! destination is started when the source's side asks for it, before the clock runs.

use std::collections::BTreeMap;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use plumb_host::cpu::CpuTime;
use plumb_host::time::monotonic_ns;
use plumb_model::CpuCost;
use plumb_path::link::LinkedEnds;
use plumb_path::{PathError, Place, Snapshot, System};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::abilities::Abilities;
use super::control::{self, Ask, ControlReply, Target, read_line, write_line};
use super::instance::{Instance, Ram, Role};
use super::memory::GuestMemory;
use crate::settings::SystemSettings;

/// The counter of complete migrations.
pub(super) const MIGRATIONS: &str = "migrations";
/// The time limit for a destination to report that the guest runs, after the source has heard it.
const SETTLING: Duration = Duration::from_secs(5);
const MICROSECONDS_PER_SECOND: u64 = 1_000_000;

/// The settings with which a destination starts.
#[derive(Debug)]
pub(super) struct Setup {
    pub program: PathBuf,
    pub abilities: Abilities,
    pub system: SystemSettings,
    pub place: Place,
    pub address: IpAddr,
}

/// The address at which QEMU listens: behind a link, or on loopback.
pub(super) fn address(link: Option<&LinkedEnds>) -> IpAddr {
    link.map_or(Ipv4Addr::LOCALHOST.into(), |_| LinkedEnds::ADDRESS)
}

/// The sums that the thread passes to the side that answers the runner.
#[derive(Debug, Default)]
struct Totals {
    cpu: CpuTime,
    migrations: u64,
    /// The process of the newest destination.
    pid: u32,
    parameters: BTreeMap<String, String>,
}

/// The running side.
#[derive(Debug)]
pub(super) struct Destination {
    directory: PathBuf,
    version: String,
    totals: Arc<Mutex<Totals>>,
    link: Option<LinkedEnds>,
    /// Closing it ends the thread.
    lifeline: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Destination {
    /// Starts the thread and proves that a destination can be started.
    ///
    /// The calling thread is on the system's side of the link, if there is one.
    pub(super) fn start(setup: Setup, link: Option<LinkedEnds>) -> Result<Self, PathError> {
        let (directory, version) = (setup.place.scratch.clone(), setup.abilities.version.clone());
        let listener = control::listen(&directory)?;
        let failed =
            |cause: std::io::Error| PathError::new(format!("start the destination's thread: {cause}"));
        let (lifeline, end) = UnixStream::pair().map_err(failed)?;
        let totals = Arc::new(Mutex::new(Totals::default()));
        let (ready, readiness) = std::sync::mpsc::channel();
        let mut server = Server { setup, totals: Arc::clone(&totals), current: None };
        let serve = move || {
            // By the thread that lives as long as the destinations are to live.
            let proof = server.fresh().map(|_| ());
            server.current = None;
            let is_proven = proof.is_ok();
            let is_heard = ready.send(proof).is_ok();
            if is_proven && is_heard {
                server.serve(&listener, &end);
            }
        };
        let thread =
            std::thread::Builder::new().name("qemu-control".to_owned()).spawn(serve).map_err(failed)?;
        let destination =
            Self { directory, version, totals, link, lifeline: Some(lifeline), thread: Some(thread) };
        let ended = |_| Err(PathError::new("start the destination's thread: it has ended"));
        readiness.recv().unwrap_or_else(ended).map(|()| destination)
    }
}

impl System for Destination {
    fn target(&self) -> Value {
        let target = Target {
            control: self.directory.clone(),
            address: address(self.link.as_ref()),
            netns: self.link.as_ref().map(LinkedEnds::path_of_load),
        };
        serde_json::to_value(target).unwrap_or_default()
    }

    fn snapshot(&mut self) -> Result<Snapshot, PathError> {
        if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            return Err(PathError::new("ask the destination: its thread has ended"));
        }
        let totals = locked(&self.totals);
        let mut states = totals.parameters.clone();
        states.insert("program".to_owned(), format!("QEMU {}", self.version));
        states.insert("pid".to_owned(), totals.pid.to_string());
        let mut snapshot = Snapshot {
            cpu: CpuCost {
                user_ns: totals.cpu.user_ns,
                system_ns: totals.cpu.system_ns,
                components: BTreeMap::from([("qemu".to_owned(), totals.cpu.total_ns())]),
            },
            counters: BTreeMap::from([(MIGRATIONS.to_owned(), totals.migrations)]),
            states,
            ..Snapshot::default()
        };
        if let Some(link) = &self.link {
            link.observe(&mut snapshot)?;
        }
        Ok(snapshot)
    }

    fn stop(&mut self) -> Result<(), PathError> {
        drop(self.lifeline.take());
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        control::forget(&self.directory);
        ended.map_err(|_| PathError::new("end the destination: its thread has panicked"))
    }
}

impl Drop for Destination {
    fn drop(&mut self) {
        // A caller that wants to know calls `stop` first.
        let _ = self.stop();
    }
}

fn locked(totals: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A destination that listens.
struct Current {
    instance: Instance,
    cpu_before: CpuTime,
}

/// The thread that serves the sources' sides, one after the other.
struct Server {
    setup: Setup,
    totals: Arc<Mutex<Totals>>,
    /// The destination, unused or in use.
    current: Option<Current>,
}

impl Server {
    fn serve(&mut self, listener: &UnixListener, end: &UnixStream) {
        while is_ready(listener, end) {
            if let Ok((stream, _)) = listener.accept() {
                self.talk(stream, end);
            }
            // The next migration asks for a fresh one.
            self.current = None;
        }
    }

    fn talk(&mut self, stream: UnixStream, end: &UnixStream) {
        let mut reader = BufReader::new(stream);
        while !reader.buffer().is_empty() || is_ready(reader.get_ref(), end) {
            // A source's side that says something else, or nothing any more, is gone.
            let Ok(Some(ask)) = read_line::<Ask>(&mut reader) else { return };
            let answer =
                self.answer(&ask).unwrap_or_else(|error| ControlReply::Failed { reason: error.to_string() });
            if write_line(reader.get_ref(), &answer).is_err() {
                return;
            }
        }
    }

    fn answer(&mut self, ask: &Ask) -> Result<ControlReply, PathError> {
        match ask {
            Ask::Fresh => Ok(ControlReply::Listening { port: self.fresh()? }),
            Ask::Finish { key } => self.finish(*key),
            Ask::Abandon => Ok(ControlReply::Abandoned {
                reason: self.current.take().and_then(|mut current| current.instance.end()),
            }),
        }
    }

    fn fresh(&mut self) -> Result<u16, PathError> {
        self.current = None;
        let Setup { program, abilities, system, place, address } = &self.setup;
        let mut instance = Instance::start(
            program,
            Role::Destination,
            Ram { bytes: system.memory.0, is_prefaulted: system.prefault },
            &place.scratch,
            None,
        )?;
        let parameters = instance.configure(system, abilities)?;
        instance.execute("migrate-incoming", json!({ "uri": format!("tcp:{address}:0") }))?;
        let state = instance.execute("query-migrate", json!({}))?;
        let port = port(&state).ok_or_else(|| {
            PathError::new(format!("start the destination QEMU: it does not say where it listens: {state}"))
        })?;
        let mut totals = locked(&self.totals);
        (totals.pid, totals.parameters) = (instance.pid(), texts(&parameters));
        drop(totals);
        let cpu_before = instance.cpu()?;
        self.current = Some(Current { instance, cpu_before });
        Ok(port)
    }

    fn finish(&mut self, key: u64) -> Result<ControlReply, PathError> {
        let Current { mut instance, cpu_before, .. } = self
            .current
            .take()
            .ok_or_else(|| PathError::new("finish a migration: there is no destination"))?;
        settle(&mut instance)?;
        let cpu = instance.cpu()?.saturating_sub(cpu_before);
        let bytes = self.setup.system.memory.0;
        let (process, begin) = instance.memory(bytes)?;
        let bytes = usize::try_from(bytes).map_err(|error| PathError::new(error.to_string()))?;
        let digests = GuestMemory { process, begin, bytes }.digests(key, self.setup.place.cpus)?;
        let mut totals = locked(&self.totals);
        totals.cpu += cpu;
        totals.migrations += 1;
        drop(totals);
        instance.stop()?;
        Ok(ControlReply::Finished { cpu, digests })
    }
}

/// Waits until the guest runs on the destination.
fn settle(instance: &mut Instance) -> Result<(), PathError> {
    let deadline_ns = monotonic_ns().saturating_add(SETTLING.as_secs() * MICROSECONDS_PER_SECOND * 1_000);
    loop {
        let state = instance.execute("query-migrate", json!({}))?;
        match state["status"].as_str() {
            Some("completed") => return Ok(()),
            Some("failed") => {
                let reason = state["error-desc"].as_str().unwrap_or("it does not say why");
                return Err(PathError::new(format!(
                    "receive the guest: the destination QEMU failed: {reason}"
                )));
            }
            _ if monotonic_ns() >= deadline_ns => {
                return Err(PathError::new(format!(
                    "receive the guest: {} s after the source was done the destination QEMU is still at {state}",
                    SETTLING.as_secs()
                )));
            }
            _ => plumb_host::time::sleep(Duration::from_millis(1)),
        }
    }
}

fn port(state: &Value) -> Option<u16> {
    state["socket-address"].as_array()?.iter().find_map(|address| address["port"].as_str()?.parse().ok())
}

/// The parameters that QEMU read back, as text.
fn texts(parameters: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let entries = parameters.as_object().into_iter().flatten();
    entries.map(|(name, value)| (name.clone(), text(value))).collect()
}

/// Waits for a connection. Returns `false` when the side is to end.
fn is_ready(source: &impl AsFd, end: &UnixStream) -> bool {
    loop {
        let mut polled = [PollFd::new(source, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => return polled[1].revents().is_empty(),
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
