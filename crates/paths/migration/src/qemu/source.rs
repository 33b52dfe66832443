//! The source's side: a QEMU whose memory is filled once and migrated repeatedly, and the observations of it.
//!
//! The clock runs from the `migrate` command until QEMU reports that the migration is completed. With the capability `return-path`, which
//! libvirt sets too, the source reports that when it has heard from the destination that the guest has arrived. Without it, the source stops
//! its clock when its last byte is in a socket's buffer.

use std::path::PathBuf;
use std::time::Duration;

use plumb_host::process::TcpSockets;
use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::Measurement;
use plumb_path::{Load, Mark, PathError, Place, Window};
use serde_json::{Value, json};

use super::abilities::Abilities;
use super::control::{Ask, ControlReply, Link, Target};
use super::instance::{Instance, Ram, Role};
use super::memory::{Digests, GuestMemory};
use super::outcome::{Account, Outcome, Sample};
use super::qmp::Event;
use super::report;
use crate::settings::MigrationSettings;

/// The time between two searches until all of QEMU's sockets are known. It opens them one after the other.
const SEARCH_PAUSE: Duration = Duration::from_millis(1);
/// The time between two readings of the sockets' counters after that.
const SAMPLE_PAUSE: Duration = Duration::from_millis(10);
/// The time limit for QEMU to give up a migration.
const CANCEL_PATIENCE_NS: u64 = 30_000_000_000;
/// The time limit for QEMU to finish its account after it reported the end of a migration.
const ACCOUNT_PATIENCE_NS: u64 = 1_000_000_000;

/// The settings with which a source starts.
#[derive(Debug)]
pub(super) struct Setup {
    pub program: PathBuf,
    pub abilities: Abilities,
    pub settings: MigrationSettings,
    pub target: Target,
    pub place: Place,
}

/// A source that is ready to migrate.
#[derive(Debug)]
pub(super) struct Source {
    setup: Setup,
    instance: Instance,
    link: Link,
    memory: GuestMemory,
    /// The parameters as QEMU read them back.
    parameters: Value,
}

impl Source {
    /// Starts a QEMU and fills its memory.
    pub(super) fn start(setup: Setup) -> Result<Self, PathError> {
        let system = &setup.settings.system;
        let link = Link::connect(&setup.target.control)?;
        let mut instance = Instance::start(
            &setup.program,
            Role::Source,
            Ram { bytes: system.memory.0, is_prefaulted: false },
            &setup.place.scratch,
            setup.target.netns.as_deref(),
        )?;
        let parameters = instance.configure(system, &setup.abilities)?;
        let (process, begin) = instance.memory(system.memory.0)?;
        let bytes = usize::try_from(system.memory.0).map_err(|error| PathError::new(error.to_string()))?;
        let memory = GuestMemory { process, begin, bytes };
        memory.fill(&system.content, setup.place.cpus)?;
        Ok(Self { setup, instance, link, memory, parameters })
    }

    fn fresh_destination(&mut self) -> Result<u16, PathError> {
        match self.link.ask(&Ask::Fresh)? {
            ControlReply::Listening { port } => Ok(port),
            other => Err(unexpected(&other)),
        }
    }

    /// Migrates to a destination that listens, and compares both memories.
    fn migrate(&mut self, port: u16, content: &Digests, key: u64) -> Result<Outcome, PathError> {
        let state = self.instance.execute("query-status", json!({}))?;
        if state["status"] != "running" {
            // After a migration the guest is on the other side. No processor is left here that could do anything.
            self.instance.execute("cont", json!({}))?;
        }
        self.instance.forget_events();
        let cpu_before = self.instance.cpu()?;
        let begun_ns = monotonic_ns();
        let mut watch = Watch::new(self.setup.settings.system.channels, begun_ns);
        let watched = self
            .instance
            .execute("migrate", json!({ "uri": format!("tcp:{}:{port}", self.setup.target.address) }))
            .and_then(|_| watch.until_the_end(&mut self.instance, self.setup.settings.load.time_limit.0));
        let ended_ns = monotonic_ns();
        let end = watched.map_err(|error| self.with_the_destinations_end(error))?;
        let send_cpu = self.instance.cpu()?.saturating_sub(cpu_before);
        let account = self.account()?;
        let has_converged = match end {
            End::Completed => true,
            End::Cancelled => false,
            End::Failed => {
                let reason = account.error.as_deref().unwrap_or("it does not say why");
                let error = PathError::new(format!("migrate: the source QEMU failed: {reason}"));
                return Err(self.with_the_destinations_end(error));
            }
        };
        let recv_cpu = if has_converged { Some(self.compare(content, key)?) } else { None };
        if !has_converged {
            self.link.ask(&Ask::Abandon)?;
        }
        Ok(watch.outcome(
            ended_ns - begun_ns,
            has_converged,
            (send_cpu, recv_cpu.unwrap_or_default()),
            account,
        ))
    }

    /// QEMU's own account of the finished migration. It reports the end before it has set its total time.
    fn account(&mut self) -> Result<Account, PathError> {
        let deadline_ns = monotonic_ns().saturating_add(ACCOUNT_PATIENCE_NS);
        loop {
            let account = Account::from_answer(&self.instance.execute("query-migrate", json!({}))?);
            if account.is_final || monotonic_ns() >= deadline_ns {
                return Ok(account);
            }
            sleep(SEARCH_PAUSE);
        }
    }

    fn compare(&mut self, content: &Digests, key: u64) -> Result<plumb_host::cpu::CpuTime, PathError> {
        match self.link.ask(&Ask::Finish { key })? {
            ControlReply::Finished { cpu, digests } => match content.first_difference(&digests) {
                None => Ok(cpu),
                Some(at) => Err(PathError::new(format!(
                    "migrate: the destination's memory differs from the source's in the region at {at:#x}"
                ))),
            },
            other => Err(unexpected(&other)),
        }
    }

    /// An error of the source, with the destination's own report, which often names the cause.
    fn with_the_destinations_end(&mut self, error: PathError) -> PathError {
        match self.link.ask(&Ask::Abandon) {
            Ok(ControlReply::Abandoned { reason: Some(reason) }) => {
                PathError::new(format!("{error}; {reason}"))
            }
            _ => error,
        }
    }
}

impl Load for Source {
    fn measure(&mut self, window: Window, mark: &mut dyn FnMut(Mark)) -> Result<Measurement, PathError> {
        let key = window.seed;
        let content = self.memory.digests(key, self.setup.place.cpus)?;
        let warm_ns = monotonic_ns().saturating_add(window.warmup_ns);
        while monotonic_ns() < warm_ns {
            let port = self.fresh_destination()?;
            self.migrate(port, &content, key)?;
        }
        let mut port = self.fresh_destination()?;
        let mut outcomes = Vec::new();
        let opened_ns = monotonic_ns();
        mark(Mark::Opened);
        let window_ns = loop {
            outcomes.push(self.migrate(port, &content, key)?);
            let elapsed_ns = monotonic_ns() - opened_ns;
            if elapsed_ns >= window.window_ns {
                break elapsed_ns;
            }
            let work = report::work(&outcomes);
            mark(Mark::Progress { work, elapsed_ns });
            port = self.fresh_destination()?;
        };
        mark(Mark::Closed);
        Ok(report::measurement(
            &self.setup.settings,
            &self.setup.abilities,
            &self.parameters,
            &outcomes,
            window_ns,
        ))
    }
}

fn unexpected(answer: &ControlReply) -> PathError {
    PathError::new(format!("ask the destination's agent: it answered {answer:.100?}"))
}

/// The end of a migration.
enum End {
    Completed,
    Failed,
    Cancelled,
}

/// The observations of a migration under way.
struct Watch {
    /// The channels' connections and the main one.
    connections: usize,
    begun_ns: u64,
    sockets: TcpSockets,
    samples: Vec<Sample>,
    passes_us: Vec<u64>,
    stopped_us: Option<u64>,
    ended_us: Option<u64>,
    is_cancelled: bool,
}

impl Watch {
    fn new(channels: u32, begun_ns: u64) -> Self {
        Self {
            connections: channels as usize + 1,
            begun_ns,
            sockets: TcpSockets::new(),
            samples: Vec::new(),
            passes_us: Vec::new(),
            stopped_us: None,
            ended_us: None,
            is_cancelled: false,
        }
    }

    fn until_the_end(&mut self, instance: &mut Instance, limit_ns: u64) -> Result<End, PathError> {
        let mut deadline_ns = self.begun_ns.saturating_add(limit_ns);
        loop {
            let pause = if self.sockets.len() < self.connections {
                instance.find_tcp_sockets(&mut self.sockets)?;
                SEARCH_PAUSE
            } else {
                SAMPLE_PAUSE
            };
            self.samples.push(self.sample()?);
            let event = instance.event(pause)?;
            if let Some(end) = event.and_then(|event| self.see(&event)) {
                self.samples.push(self.sample()?);
                return Ok(end);
            }
            if monotonic_ns() < deadline_ns {
                continue;
            }
            if self.is_cancelled {
                return Err(PathError::new("give up a migration: QEMU does not end it"));
            }
            self.is_cancelled = true;
            deadline_ns = monotonic_ns().saturating_add(CANCEL_PATIENCE_NS);
            instance.execute("migrate_cancel", json!({}))?;
        }
    }

    fn see(&mut self, event: &Event) -> Option<End> {
        match event.name.as_str() {
            "STOP" => self.stopped_us = Some(event.at_us),
            "MIGRATION_PASS" => self.passes_us.push(event.at_us),
            "MIGRATION" => {
                self.ended_us = Some(event.at_us);
                return match event.data["status"].as_str() {
                    Some("completed") => Some(End::Completed),
                    // Connections that are closed under its threads can make it call a cancelled migration a failed one.
                    Some("failed") if self.is_cancelled => Some(End::Cancelled),
                    Some("failed") => Some(End::Failed),
                    Some("cancelled") => Some(End::Cancelled),
                    _ => None,
                };
            }
            _ => {}
        }
        None
    }

    /// The bytes sent over all connections so far.
    fn sample(&self) -> Result<Sample, PathError> {
        let mut sent_bytes = 0;
        for socket in self.sockets.values() {
            sent_bytes += socket.counters()?.sent_bytes;
        }
        Ok(Sample { at_ns: monotonic_ns() - self.begun_ns, sent_bytes })
    }

    fn outcome(
        self,
        total_ns: u64,
        has_converged: bool,
        (send_cpu, recv_cpu): (plumb_host::cpu::CpuTime, plumb_host::cpu::CpuTime),
        account: Account,
    ) -> Outcome {
        let downtime_us = self.stopped_us.zip(self.ended_us).map(|(from, to)| to.saturating_sub(from));
        let ends_us = self.passes_us.iter().skip(1).chain(&self.ended_us);
        let rounds_us =
            self.passes_us.iter().zip(ends_us).map(|(from, to)| to.saturating_sub(*from)).collect();
        Outcome {
            total_ns,
            downtime_us,
            rounds_us,
            has_converged,
            send_cpu,
            recv_cpu,
            connections: self.sockets.len(),
            samples: self.samples,
            account,
        }
    }
}
