//! A place: a host on which agents run and which variants change. It is this host, or another one behind a keeper.

use plumb_host::cpu::{Awake, CpuSet};
use plumb_host::facts::HostFacts;
use plumb_path::Place as Resources;

use crate::child_agent::{ChildLink, Launch, Rights};
use crate::clock_offset::ClockOffset;
use crate::error::HostError;
use crate::host_reading::HostReading;
use crate::link::Link;
use crate::node::NodeReader;
use crate::process_log::ProcessLog;
use crate::treatments::Treatments;
use crate::wire::{KeeperReply, Treat};

/// An agent that was started: its lines, the resources that it may use, and its log.
pub(crate) type Started = (Box<dyn Link>, Resources, ProcessLog);

/// A host of a run.
pub(crate) trait Place {
    /// The name of the host in messages.
    fn name(&self) -> &str;

    /// Starts an agent with a name for its files and one for messages.
    fn start(
        &mut self,
        launch: &Launch,
        names: (&str, &str),
        cpus: &str,
        rights: Rights,
    ) -> Result<Started, HostError>;

    /// The current estimate of the host's clock.
    fn clock(&self) -> ClockOffset;

    /// Keeps these CPUs of the host, or else all, from idling for the rest of the run, if it is a virtual machine.
    fn keep_awake(&mut self, cpus: Option<&CpuSet>) -> Result<(), HostError>;

    /// Looks at the host now, and at the settings that variants change on it.
    fn look(&mut self) -> Result<HostReading, HostError>;

    /// Carries out a request about the changes of variants.
    fn treat(&mut self, request: Treat) -> Result<KeeperReply, HostError>;
}

/// The name of this host in messages.
pub(crate) const HERE: &str = "this host";

/// The host of this process: the runner's, or the keeper's.
#[derive(Default)]
pub(crate) struct ThisHost {
    treatments: Treatments,
    awake: Vec<Awake>,
    /// The facts that say whether to keep CPUs awake.
    facts: Option<HostFacts>,
    /// The counters of the node that each look reads, on a keeper that was told to.
    pub(crate) node: Option<NodeReader>,
}

impl ThisHost {
    /// The CPUs that are kept awake.
    fn awake(&self) -> CpuSet {
        self.awake.iter().flat_map(|awake| awake.cpus().iter()).collect()
    }
}

impl Place for ThisHost {
    fn name(&self) -> &str {
        HERE
    }

    fn start(
        &mut self,
        launch: &Launch,
        (name, label): (&str, &str),
        cpus: &str,
        rights: Rights,
    ) -> Result<Started, HostError> {
        let log = ProcessLog::here(label);
        let (link, resources) = ChildLink::start(launch, name, &cpus.parse()?, rights, log.clone())?;
        Ok((Box::new(link), resources, log))
    }

    fn clock(&self) -> ClockOffset {
        ClockOffset::default()
    }

    /// Under a CPU limit it has no effect, because the limit would count the CPU time of the threads that keep CPUs awake.
    fn keep_awake(&mut self, cpus: Option<&CpuSet>) -> Result<(), HostError> {
        let awake = self.awake();
        let facts = self.facts.get_or_insert_with(HostFacts::read_now);
        let is_worth_it = facts.virtualisation.is_some() && facts.cpu_limit.is_none();
        let more = cpus.unwrap_or(&facts.cpus_usable).without(&awake);
        if is_worth_it && !more.is_empty() {
            let awake = Awake::keep(&more);
            tracing::info!(cpus = %awake.cpus(), "kept CPUs from idling");
            self.awake.push(awake);
        }
        Ok(())
    }

    fn look(&mut self) -> Result<HostReading, HostError> {
        // The look at the host comes first, because users' commands that verify a change take time.
        let reading = HostReading::take()?.kept_awake(&self.awake());
        let reading = reading.with_node(self.node.as_ref().map(NodeReader::look));
        self.treatments.look();
        Ok(reading)
    }

    fn treat(&mut self, request: Treat) -> Result<KeeperReply, HostError> {
        self.treatments.answer(request)
    }
}

#[cfg(test)]
mod tests {
    use plumb_host::cpu::thread_cpu_times;

    use super::*;

    #[test]
    fn cpus_are_kept_awake_on_a_virtual_machine_alone_and_until_the_place_is_gone() {
        let spinning = || thread_cpu_times("awake-").unwrap().len();
        let mut here = ThisHost::default();
        let facts = HostFacts::read_now();
        let is_worth_it = facts.virtualisation.is_some() && facts.cpu_limit.is_none();
        let one: CpuSet = facts.cpus_usable.iter().take(1).collect();
        for (cpus, all) in
            [(Some(&one), 1), (None, facts.cpus_usable.len()), (Some(&one), facts.cpus_usable.len())]
        {
            here.keep_awake(cpus).unwrap();
            assert_eq!(spinning(), if is_worth_it { all } else { 0 });
        }
        drop(here);
        // The kernel lists a thread for a moment after it has ended.
        while spinning() > 0 {
            std::thread::yield_now();
        }
    }
}
