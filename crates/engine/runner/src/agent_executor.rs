//! Measures slots with agents: a load agent for the whole run and a system agent for every variant of the cell at hand.
//!
//! Systems stay alive between their slots, asleep in their event loops, because building one costs more than
//! measuring it. They stop at the end of the cell. Tunings of the host differ: they are in effect from before
//! a slot's system is built or woken until its measurement has ended, and never between slots.

use std::collections::BTreeMap;
use std::time::Duration;

use plumb_model::event::PuttingBack;
use plumb_model::{Evidence, Measurement, Span};
use plumb_path::protocol::{Reply, Request};
use plumb_path::{DataPath, Mark, PathSettings};
use plumb_places::host_tunings::Proof;
use plumb_places::{
    Agent, HostError, Hosts, Launch, Patience, Rights, SeenHosts, SeenNode, Side, SlotError, unexpected,
};
use plumb_tunings::Treatment;
use serde_json::Value;

use crate::error::RunError;
use crate::executor::{Executor, Measured, SlotOrder};
use crate::search::Trials;
use crate::seen_slot::{SeenSlot, is_late};
use crate::window_run::{SeenWindow, WindowRun};

/// How long a system may take to start and to answer.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a Service may take until it leads to the system, and the pause between tries.
const SERVICE_PATIENCE: Duration = Duration::from_secs(15);
const SERVICE_PAUSE: Duration = Duration::from_millis(200);

/// Measures slots with agents.
pub struct AgentExecutor<'a> {
    path: DataPath,
    launch: Launch,
    hosts: Hosts,
    patience: Patience<'a>,
    watch: Option<&'a dyn Fn(Mark, Option<f64>)>,
    announce: Option<&'a dyn Fn(PuttingBack)>,
    /// The treatments of all variants, on whichever hosts.
    treatments: &'a [Treatment<'a>],
    /// Whether the CPUs of the system's host are kept from idling.
    keeps_awake: bool,
    systems: BTreeMap<String, (Agent, Value)>,
    /// The agents of the load, one per place.
    loads: BTreeMap<LoadGroup, Vec<Agent>>,
}

/// The loads of a variant. Those of other variants may need other agents.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct LoadGroup {
    /// The names of all places: variants may have separate pods.
    places: String,
    /// Whether they run without root's capabilities. To enter a namespace of the system takes CAP_SYS_ADMIN and CAP_SYS_PTRACE, so such
    /// loads keep them all.
    are_unprivileged: bool,
}

impl<'a> AgentExecutor<'a> {
    /// An executor without any agents yet.
    #[must_use]
    pub fn new(path: DataPath, launch: Launch, hosts: Hosts, patience: Patience<'a>) -> Self {
        Self {
            path,
            launch,
            hosts,
            patience,
            watch: None,
            announce: None,
            treatments: &[],
            keeps_awake: false,
            systems: BTreeMap::new(),
            loads: BTreeMap::new(),
        }
    }

    /// Sets the function that is told the progress of measurements, and how much is in flight if the load
    /// keeps that steady.
    #[must_use]
    pub fn watched_by(mut self, watch: &'a dyn Fn(Mark, Option<f64>)) -> Self {
        self.watch = Some(watch);
        self
    }

    /// Sets the function that is told what is put back after an interruption, while that lasts.
    #[must_use]
    pub fn announcing(mut self, announce: &'a dyn Fn(PuttingBack)) -> Self {
        self.announce = Some(announce);
        self
    }

    /// Sets the treatments that change hosts as variants say.
    #[must_use]
    pub fn treating(mut self, treatments: &'a [Treatment<'a>]) -> Self {
        self.treatments = treatments;
        self
    }

    /// Sets whether the CPUs of the system's host are kept from idling in all slots, where that is a virtual machine. Variants with and
    /// without a link can then be compared.
    #[must_use]
    pub fn keeping_awake(mut self, keeps_awake: bool) -> Self {
        self.keeps_awake = keeps_awake;
        self
    }

    /// Makes all hosts undo what variants changed there. Systems that still run, as after a failure, are stopped before.
    ///
    /// # Errors
    /// When a host still has a change.
    pub fn put_back(&mut self) -> Result<(), RunError> {
        self.end_cell();
        let objects = self.hosts.objects.put_back();
        let mut hosts = self.hosts.treated(self.treatments);
        let done: Vec<_> = hosts.iter_mut().map(|host| host.put_back()).collect();
        Ok(done.into_iter().chain([objects]).collect::<Result<(), HostError>>()?)
    }

    fn start(&mut self, side: Side, name: &str, is_unprivileged: bool) -> Result<Agent, SlotError> {
        let rights = rights(&self.path, is_unprivileged);
        self.hosts.start(&self.launch, (side, name), rights)
    }

    fn prepare_system(&mut self, SlotOrder { name, settings, .. }: SlotOrder<'_>) -> Result<(), SlotError> {
        if self.systems.contains_key(name) {
            return Ok(());
        }
        let agent = self.start(Side::System, &format!("system-{name}"), self.path.system_is_unprivileged)?;
        let mut agent = agent.stops_within(self.path.stop_grace);
        let request = Request::PrepareSystem {
            path: self.path.name.to_owned(),
            settings: json(settings)?,
            place: agent.place(),
        };
        match agent.ask(&request, PREPARE_TIMEOUT, self.patience) {
            Ok(Reply::Ready { target }) => {
                let target = self.hosts.target_for_loads(target)?;
                self.systems.insert(name.to_owned(), (agent, target));
                Ok(())
            }
            Ok(other) => Err(unexpected("ready", &other)),
            Err(error) => {
                self.stop_system(name, agent);
                Err(error)
            }
        }
    }

    /// Stops the system of a variant.
    fn stop_system(&self, name: &str, agent: Agent) {
        agent.stop_telling(|grace| {
            let at_most = Span(grace.as_nanos() as u64);
            self.tell_if_interrupted(|| PuttingBack::System { name: name.to_owned(), at_most });
        });
    }

    fn tell_if_interrupted(&self, what: impl FnOnce() -> PuttingBack) {
        if let Some(announce) = self.announce
            && (self.patience.interrupted)()
        {
            announce(what());
        }
    }

    fn prepare_loads(&mut self, order: SlotOrder<'_>) -> Result<(), SlotError> {
        let wait = if self.hosts.have_service() { SERVICE_PATIENCE } else { Duration::ZERO };
        let end_ns = self.patience.end_ns(wait);
        loop {
            match self.try_prepare_loads(order) {
                // Nodes learn of a Service and its pods a while after the API server does.
                Err(SlotError::Failed(_)) if !self.patience.is_over(end_ns) => {
                    self.patience.clock.sleep(SERVICE_PAUSE);
                }
                prepared => return prepared,
            }
        }
    }

    fn load_group(&self, settings: &PathSettings) -> LoadGroup {
        let are_unprivileged = self.path.load_is_unprivileged && !settings.facts().system.needs_namespaces;
        LoadGroup { places: self.hosts.layout().names_of_loads(), are_unprivileged }
    }

    fn try_prepare_loads(
        &mut self,
        SlotOrder { name, settings, .. }: SlotOrder<'_>,
    ) -> Result<(), SlotError> {
        let count = self.hosts.layout().loads();
        let key = self.load_group(settings);
        for load in self.loads.get(&key).map_or(0, Vec::len)..count {
            let label = if count == 1 { "load".to_owned() } else { format!("load-{}", load + 1) };
            let agent = self.start(Side::Load(load), &label, key.are_unprivileged)?;
            self.loads.entry(key.clone()).or_default().push(agent);
        }
        let loads = self.loads.entry(key).or_default();
        let target = self.systems.get(name).map(|(_, target)| target.clone()).unwrap_or_default();
        for (load, agent) in loads.iter_mut().enumerate() {
            let request = Request::PrepareLoad {
                path: self.path.name.to_owned(),
                settings: share(settings, load, count)?,
                target: target.clone(),
                place: agent.place(),
            };
            agent.send(&request)?;
        }
        let reply = |agent: &mut Agent| match agent.reply(PREPARE_TIMEOUT, self.patience)? {
            Reply::Ready { .. } => Ok(()),
            other => Err(unexpected("ready", &other)),
        };
        // Reads every reply, so that no load answers the next request with a stale one.
        let replies: Vec<Result<(), SlotError>> = loads.iter_mut().map(reply).collect();
        replies.into_iter().collect()
    }

    fn measure_prepared(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        let parts = parts(order.settings, self.hosts.layout().loads())?;
        let loads = self.load_group(order.settings);
        let Some((system, _)) = self.systems.get_mut(order.name) else {
            return Err(SlotError::Harness("measure: a side is missing".to_owned()));
        };
        let watch = self.watch;
        let tell = |mark| {
            if let Some(watch) = watch {
                watch(mark, order.settings.facts().load.in_flight);
            }
        };
        let run = WindowRun {
            loads: self.loads.entry(loads).or_default(),
            system,
            hosts: self.hosts.begin_window(),
            parts: &parts,
            threads: order.settings.facts().load.threads,
            watch: &tell,
            patience: self.patience,
        };
        let seen = run.measure(order.window)?;
        // What the null path measures is made up.
        if !self.path.synthetic {
            seen.believe()?;
        }
        let SeenWindow { measurements, mut opened, mut closed, hosts, .. } = seen;
        let SeenHosts { hosts, nodes, skew_ns } = hosts;
        if let Some(node) = nodes.iter().find(|node| node.has_system) {
            node.add_to(&mut opened.system, &mut closed.system);
        }
        let measurement = self.union(measurements)?;
        let mut more = self.hosts.evidence(&self.path, order.settings, &hosts);
        // This comes after the evidence, so that a pod deleted while evidence was taken is found.
        if let Some(reason) = self.hosts.connections.cut_deleted() {
            return Err(SlotError::Killed(reason));
        }
        more.extend(nodes.iter().flat_map(SeenNode::evidence));
        let ends = (&opened, &closed);
        let is_late = is_late(ends, measurement.window_ns);
        let load_cpus = self.hosts.cpus_beside_system()?;
        let seen = SeenSlot { measurement, ends, hosts: &hosts, skew_ns, load_cpus, is_late };
        Ok(seen.interpreted(order.settings, more))
    }

    /// Combines the measurements of all loads.
    fn union(&self, measurements: Vec<Measurement>) -> Result<Measurement, SlotError> {
        let named = measurements
            .into_iter()
            .enumerate()
            .map(|(load, one)| (self.hosts.layout().load_name(load), one));
        Measurement::union(named.collect())
            .map_err(|error| SlotError::Harness(format!("put together what the loads measured: {error}")))
    }

    /// Builds or wakes both sides, and measures.
    fn attempt(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        self.make_ready(order)?;
        self.attempt_connected(order)
    }

    /// Connects every host on which the slot is measured.
    fn make_ready(&mut self, order: SlotOrder<'_>) -> Result<(), SlotError> {
        self.hosts.turn_to(order.pods)?;
        if self.hosts.connections.revive(self.patience)? {
            // Agents end with their connection. Those of other variants are dropped, so that they do not fail
            // later slots.
            self.systems.retain(|_, (agent, _)| !agent.has_ended());
            self.loads.retain(|_, agents| !agents.iter_mut().any(Agent::has_ended));
        }
        Ok(())
    }

    /// Measures once all hosts are connected. A host that has gone since then would have lost the treatment.
    fn attempt_connected(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        self.patience.rest(order.cooldown_ns)?;
        self.hosts.connections.compare_clocks()?;
        if self.keeps_awake {
            self.hosts.keep_awake().map_err(|error| self.lost(error))?;
        }
        self.prepare_system(order)?;
        self.prepare_loads(order)?;
        let Some(searching) = order.searching else { return self.measure_prepared(order) };
        // A trial needs each request to be sent on time.
        let is_foreign = order.settings.facts().system.exists;
        self.hosts.keep_loads_awake(is_foreign).map_err(|error| self.lost(error))?;
        let patience = self.patience;
        let mut measure = |window| self.measure_prepared(SlotOrder { window, ..order });
        Trials::run(searching, (order.window, patience), &mut measure)
    }

    /// Measures with a treatment of the hosts, of which each applies its part.
    fn measure_treated(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        self.make_ready(order)?;
        self.hosts
            .objects
            .turn_to(order.treatment.changes)
            .map_err(|error| SlotError::Failed(error.to_string()))?;
        let objects = self.hosts.objects.look();
        let attempted = match self.begin_treatment(order.treatment) {
            Ok(()) => self.attempt_connected(order),
            Err(error) => Err(error),
        };
        if !order.treatment.is_empty() {
            self.tell_if_interrupted(|| PuttingBack::Changes(order.treatment.in_words()));
        }
        let proof = self.end_treatment(attempted.is_ok());
        let mut measured = attempted?;
        measured.add(proof?);
        // A condition that held before the slot must also hold after it.
        let after = self.hosts.objects.look();
        let worse = |(before, after): (Evidence, Evidence)| if before.holds { after } else { before };
        measured.result.evidence.extend(objects.into_iter().zip(after).map(worse));
        Ok(measured)
    }

    fn begin_treatment(&mut self, treatment: Treatment<'_>) -> Result<(), SlotError> {
        let mut hosts = self.hosts.treated(self.treatments);
        let begun = hosts.iter_mut().try_for_each(|host| host.begin(treatment));
        drop(hosts);
        begun.map_err(|error| self.lost(error))
    }

    /// Ends the treatment on every host, even if another host fails.
    fn end_treatment(&mut self, is_ok: bool) -> Result<Proof, SlotError> {
        let mut hosts = self.hosts.treated(self.treatments);
        let ended: Vec<_> = hosts.iter_mut().map(|host| host.end(is_ok)).collect();
        drop(hosts);
        let proofs: Result<Vec<Proof>, HostError> = ended.into_iter().collect();
        proofs.map(Proof::together).map_err(|error| self.lost(error))
    }

    /// The error for a failure on a host. If a connection ended, the failure says nothing about the
    /// variant.
    fn lost(&mut self, error: HostError) -> SlotError {
        if self.hosts.connections.has_lost_one() {
            SlotError::Killed(error.to_string())
        } else {
            error.into()
        }
    }

    /// Drops agents that a failed slot may have left in an unknown state; the next attempt starts new ones.
    fn discard(&mut self, name: &str) {
        let system = self.systems.remove(name).map(|(agent, _)| agent);
        let loads = std::mem::take(&mut self.loads).into_values().flatten();
        let mut agents: Vec<Agent> = loads.chain(system).collect();
        agents.iter_mut().for_each(Agent::release);
        agents.into_iter().for_each(Agent::stop);
    }
}

impl Executor for AgentExecutor<'_> {
    fn measure(&mut self, order: SlotOrder<'_>) -> Result<Measured, SlotError> {
        let measured =
            if self.treatments.is_empty() { self.attempt(order) } else { self.measure_treated(order) };
        let measured = measured.map_err(|error| match error {
            SlotError::Killed(reason) => SlotError::Killed(match self.hosts.connections.why_lost() {
                Some(why) if !reason.contains(&why) => format!("{reason}: failed to {why}"),
                _ => reason,
            }),
            error => error,
        });
        if !matches!(measured, Ok(_) | Err(SlotError::Interrupted)) {
            self.discard(order.name);
        }
        measured
    }

    fn end_cell(&mut self) {
        for (agent, _) in self.systems.values_mut() {
            agent.release();
        }
        for (name, (agent, _)) in std::mem::take(&mut self.systems) {
            self.stop_system(&name, agent);
        }
    }
}

/// The rights of an agent of a data path. `is_unprivileged` says whether its side needs none of root's
/// capabilities.
fn rights(path: &DataPath, is_unprivileged: bool) -> Rights {
    match (path.runs_commands, is_unprivileged) {
        (true, _) => Rights::Whole,
        (false, true) => Rights::Few,
        (false, false) => Rights::Kept,
    }
}

/// The settings in an agent's format.
fn json(settings: &PathSettings) -> Result<Value, SlotError> {
    settings.to_json().map_err(|error| SlotError::Harness(error.to_string()))
}

impl Drop for AgentExecutor<'_> {
    fn drop(&mut self) {
        self.loads.values_mut().flatten().for_each(Agent::release);
        self.end_cell();
        std::mem::take(&mut self.loads).into_values().flatten().for_each(Agent::stop);
    }
}

/// The part of a rate that each load sends: as large as its part of the connections.
fn parts(settings: &PathSettings, count: usize) -> Result<Vec<f64>, SlotError> {
    let weights =
        (0..count).map(|load| Ok(share_of(settings, load, count)?.facts().load.weight.unwrap_or(1.0)));
    let weights = weights.collect::<Result<Vec<f64>, SlotError>>()?;
    let sum: f64 = weights.iter().sum();
    Ok(weights.into_iter().map(|weight| weight / sum).collect())
}

/// The settings of one of several loads, in its agent's format.
fn share(settings: &PathSettings, load: usize, count: usize) -> Result<Value, SlotError> {
    json(&share_of(settings, load, count)?)
}

fn share_of(settings: &PathSettings, load: usize, count: usize) -> Result<PathSettings, SlotError> {
    let number = |number| u32::try_from(number).unwrap_or(u32::MAX);
    let share = settings.share(number(load), number(count));
    share.map_err(|fault| SlotError::Harness(format!("share the load: {fault}")))
}
