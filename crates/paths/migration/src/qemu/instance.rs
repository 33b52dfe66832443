//! A QEMU process: its start, its configuration over QMP, its answers, and its end.
//!
//! The machine is `none`, which has only memory: no processor, no device, no firmware. So QEMU migrates only the requested memory, and the
//! time is that of its migration. The memory is anonymous, as by libvirt's default, because QEMU asks for huge pages for it. Memory in a
//! file has none on most hosts, and then the destination spends its time on page faults.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::{CpuTime, process_cpu_time};
use plumb_host::process::{Child, Command, Memory, Signal, Stream, TcpSockets};
use plumb_path::PathError;
use serde_json::{Map, Value, json};

use super::abilities::Abilities;
use super::method::{Method, NoMethod};
use super::qmp::{Event, Qmp, QmpError};
use crate::settings::SystemSettings;

/// The time limit for an answer of QEMU, including the greeting.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for a QEMU that closed its connection to end.
const LAST_BREATH: Duration = Duration::from_secs(1);
/// The memory of a QEMU that is started only to ask for its abilities. It is never touched.
const PROBE_BYTES: u64 = 2 << 20;
/// The bytes of its output that go into an error.
const LAST_WORDS_BYTES: u64 = 1_000;
/// The value of `max-bandwidth` without a cap, in bytes per second: faster than any wire.
const UNCAPPED: f64 = 1e12;

/// The role of a process in a migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Source,
    Destination,
}

impl Role {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Destination => "destination",
        }
    }
}

/// A running QEMU. Dropping it kills it; it also dies with the thread that started it.
#[derive(Debug)]
pub(super) struct Instance {
    role: Role,
    child: Child,
    qmp: Qmp,
    log: PathBuf,
}

impl Instance {
    /// Starts a QEMU with this much memory, in a network namespace if one is given, and waits until it answers. Its standard error goes to a
    /// file in `directory`.
    pub(super) fn start(
        program: &Path,
        role: Role,
        ram: Ram,
        directory: &Path,
        netns: Option<&Path>,
    ) -> Result<Self, PathError> {
        let netns = netns.map(File::open).transpose();
        let netns = netns
            .map_err(|cause| PathError::new(format!("start QEMU: open its network namespace: {cause}")))?;
        Self::start_patiently(program, role, ram, directory, (netns, PATIENCE + ram.patience()))
    }

    fn start_patiently(
        program: &Path,
        role: Role,
        ram: Ram,
        directory: &Path,
        (netns, patience): (Option<File>, Duration),
    ) -> Result<Self, PathError> {
        let log = directory.join(format!("qemu-{}.log", role.name()));
        let prepared = File::create(&log);
        let errors = prepared.map_err(|cause| {
            PathError::new(format!("start QEMU: it cannot write to {}: {cause}", log.display()))
        })?;
        let mut command = Command::new(program)
            .args(arguments(role, ram))
            .stdin(Stream::Piped)
            .stdout(Stream::Piped)
            .stderr(Stream::File(errors))
            .own_group()
            .no_new_privileges()
            .dies_with_parent(Signal::KILL);
        if let Some(netns) = &netns {
            command = command.network(netns)?;
        }
        let mut child = command.spawn()?;
        let (Some(input), Some(output)) = (child.take_stdin(), child.take_stdout()) else {
            return Err(PathError::new("start QEMU: it has no standard streams"));
        };
        let (input, output) = (File::from(OwnedFd::from(input)), File::from(OwnedFd::from(output)));
        match Qmp::open(input, output, patience) {
            Ok(qmp) => Ok(Self { role, child, qmp, log }),
            Err(error) => Err(explain(&mut child, role, &log, &error)),
        }
    }

    pub(super) fn version(&self) -> &str {
        &self.qmp.version
    }

    /// Executes a command. An error also says what became of the process.
    pub(super) fn execute(&mut self, command: &str, arguments: Value) -> Result<Value, PathError> {
        self.qmp
            .execute(command, arguments)
            .map_err(|error| explain(&mut self.child, self.role, &self.log, &error))
    }

    /// The next event; `None` if there is none within `timeout`.
    pub(super) fn event(&mut self, timeout: Duration) -> Result<Option<Event>, PathError> {
        self.qmp.event(timeout).map_err(|error| explain(&mut self.child, self.role, &self.log, &error))
    }

    pub(super) fn forget_events(&mut self) {
        self.qmp.forget_events();
    }

    /// Sets the parameters of a migration, and reads back those that QEMU accepted.
    pub(super) fn configure(
        &mut self,
        system: &SystemSettings,
        abilities: &Abilities,
    ) -> Result<Value, PathError> {
        let capabilities = ["multifd", "return-path", "events"]
            .map(|capability| json!({ "capability": capability, "state": true }));
        self.execute("migrate-set-capabilities", json!({ "capabilities": capabilities }))?;
        let parameters = parameters(system, abilities).map_err(PathError::new)?;
        self.execute("migrate-set-parameters", parameters)?;
        self.execute("query-migrate-parameters", json!({}))
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(super) fn cpu(&self) -> Result<CpuTime, PathError> {
        Ok(process_cpu_time(self.child.pid())?)
    }

    pub(super) fn find_tcp_sockets(&self, known: &mut TcpSockets) -> Result<(), PathError> {
        Ok(self.child.find_tcp_sockets(known)?)
    }

    /// The guest's memory in the process, and its address there.
    pub(super) fn memory(&self, bytes: u64) -> Result<(Memory, u64), PathError> {
        let begin = self.child.anonymous_mapping(bytes).ok_or_else(|| {
            PathError::new(format!(
                "find the guest's memory in the {} QEMU: no anonymous mapping has {bytes} bytes",
                self.role.name()
            ))
        })?;
        Ok((self.child.memory()?, begin))
    }

    /// The way in which the process ended, with its last output; `None` if it runs on. A killed process first returns its memory.
    pub(super) fn end(&mut self) -> Option<String> {
        end(&mut self.child, self.role, &self.log, LAST_BREATH)
    }

    /// Ends the process.
    pub(super) fn stop(mut self) -> Result<(), PathError> {
        // It has no state that would have to be saved.
        self.child.kill()?;
        Ok(())
    }
}

/// A guest's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ram {
    pub(super) bytes: u64,
    /// Whether all of it exists before the monitor answers.
    pub(super) is_prefaulted: bool,
}

impl Ram {
    /// The time by which the monitor's first answer may exceed the limit of any other: 4 s for each GiB that is made.
    fn patience(self) -> Duration {
        if self.is_prefaulted { Duration::from_secs(4 * (self.bytes >> 30)) } else { Duration::ZERO }
    }
}

fn arguments(role: Role, Ram { bytes: memory_bytes, is_prefaulted }: Ram) -> Vec<String> {
    let prealloc = if is_prefaulted { "on" } else { "off" };
    let memory = format!("memory-backend-ram,id=memory,size={memory_bytes},prealloc={prealloc}");
    let ram = format!("size={memory_bytes}B");
    let mut arguments =
        vec!["-nodefaults", "-no-user-config", "-display", "none", "-machine", "none,memory-backend=memory"];
    // The second is for builds that lack the first.
    arguments.extend(["-accel", "tcg", "-accel", "kvm", "-object", &memory, "-m", &ram, "-qmp", "stdio"]);
    if role == Role::Destination {
        arguments.extend(["-incoming", "defer"]);
    }
    arguments.into_iter().map(str::to_owned).collect()
}

fn parameters(system: &SystemSettings, abilities: &Abilities) -> Result<Value, NoMethod> {
    let method = Method::for_codec(&system.codec)?;
    let mut parameters = Map::new();
    let mut set = |name: &str, value: Value| parameters.insert(name.to_owned(), value);
    set("multifd-channels", json!(system.channels));
    set("multifd-compression", json!(method.name));
    if let Some((parameter, level)) = method.level {
        set(parameter, json!(level));
    }
    set("max-bandwidth", json!(whole(system.cap.0.map_or(UNCAPPED, |cap| cap.0))));
    set("downtime-limit", json!(system.downtime_limit.0 / 1_000_000));
    if let Some(mode) = abilities.zero_page_mode(system.zero_pages) {
        set("zero-page-detection", json!(mode));
    }
    Ok(Value::Object(parameters))
}

fn whole(bytes_per_s: f64) -> u64 {
    bytes_per_s.clamp(1.0, UNCAPPED).round() as u64
}

/// The error of a conversation, with the end of the process if it ended.
fn explain(child: &mut Child, role: Role, log: &Path, error: &QmpError) -> PathError {
    let patience = if matches!(error, QmpError::Closed { .. }) { LAST_BREATH } else { Duration::ZERO };
    match end(child, role, log, patience) {
        Some(end) => PathError::new(format!("{error}; {end}")),
        None => PathError::new(error.to_string()),
    }
}

fn end(child: &mut Child, role: Role, log: &Path, patience: Duration) -> Option<String> {
    let exit = child.wait_timeout(patience).ok()??;
    let words = last_words(log);
    let words = if words.is_empty() { String::new() } else { format!(" and wrote: {words}") };
    Some(format!("the {} QEMU {exit}{words}", role.name()))
}

/// The end of its output, on one line.
fn last_words(log: &Path) -> String {
    let read = || {
        let mut file = File::open(log)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    // Without a log there are no last words.
    let text = read().map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}

/// Starts the binary and asks for its abilities.
pub(super) fn abilities_of(program: &Path, directory: &Path) -> Result<Abilities, PathError> {
    let ram = Ram { bytes: PROBE_BYTES, is_prefaulted: false };
    let mut instance = Instance::start(program, Role::Source, ram, directory, None)?;
    let schema = instance.execute("query-qmp-schema", json!({}))?;
    let capabilities = instance.execute("query-migrate-capabilities", json!({}))?;
    let version = instance.version().to_owned();
    instance.stop()?;
    Ok(Abilities::from_answers(version, &schema, &capabilities))
}
