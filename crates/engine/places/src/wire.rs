//! The protocol between a runner and the keeper of another host.
//!
//! Each message is a line of JSON. A line that begins with a number belongs to the agent with that number,
//! and the keeper passes it on unchanged.

use plumb_model::{ChangePlace, LogLine, PlannedVariant, UserChange};
use plumb_path::{Place, Sides};
use plumb_tunings::Treatment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::child_agent::Rights;
use crate::error::HostError;
use crate::host_reading::HostReading;
use crate::host_tunings::{self, Obstacle, Proof};
use crate::link::Ended;
use crate::node::Watched;

/// A runner's request to a keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeeperRequest {
    /// A sign of life from the runner, which asks for one from the keeper. The keeper answers it at once,
    /// even during other work.
    Beat,
    /// Read the monotonic clock.
    Clock {
        /// When the runner sent this, by the runner's clock.
        sent_ns: u64,
    },
    /// Check whether this host can build a variant.
    Feasible {
        /// The data path's name.
        path: String,
        /// The data path's settings.
        settings: Value,
        /// The sides that will be on it.
        at: Sides,
    },
    /// Start an agent.
    Start {
        /// The number.
        agent: u32,
        /// The name, for its scratch directory and its thread.
        name: String,
        /// The CPUs that it is pinned to.
        cpus: String,
        /// The rights.
        rights: Rights,
        /// Names of environment variables that it gets, beside those of every child.
        environment: Vec<String>,
    },
    /// Close an agent's standard input.
    Close {
        /// The number.
        agent: u32,
    },
    /// End an agent and everything below it by force.
    Kill {
        /// The number.
        agent: u32,
    },
    /// Look at the host at a moment.
    Look {
        /// The window that it is for.
        window: u64,
        /// The moment, in ns of the keeper's monotonic clock; a past moment means at once.
        at_ns: u64,
    },
    /// Add this node's counters to each later look.
    WatchNode {
        /// The counters to read.
        watched: Watched,
    },
    /// Take the pending looks at once.
    Hurry,
    /// Keep these CPUs of this host, or else all, from idling, if it is a virtual machine.
    KeepAwake { cpus: Option<String> },
    /// A request about the variants' changes on this host.
    Treat(Treat),
    /// Run this program with these arguments, and report its output.
    Tell {
        /// The arguments.
        arguments: Vec<String>,
    },
}

/// A runner's request to a keeper about the changes of variants.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Treat {
    /// Check whether this host cannot have a variant's changes, or already has them.
    Impossible {
        /// The variant.
        variant: Box<PlannedVariant>,
        /// The baseline.
        base: Option<Box<PlannedVariant>>,
    },
    /// Prepare for these treatments: read the settings that they will change.
    Know {
        /// The treatments of all variants.
        treatments: Vec<OwnTreatment>,
    },
    /// Apply a treatment and undo it.
    TryOut {
        /// The treatment.
        treatment: OwnTreatment,
    },
    /// Apply a treatment for a slot.
    Begin {
        /// The treatment.
        treatment: OwnTreatment,
    },
    /// Undo a treatment after its slot, and prove that it was in effect.
    End {
        /// Whether the slot was measured.
        is_ok: bool,
    },
    /// Restore everything at the end of the run.
    PutBack,
}

/// A keeper's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeeperReply {
    /// The first line.
    Hello(Box<Hello>),
    /// The keeper is still there.
    Beat,
    /// A line of the keeper's log. This answers no request.
    Log(LogLine),
    /// The reading of the monotonic clock.
    Clock {
        /// The time from the request: a late answer is not taken for the answer to another question.
        sent_ns: u64,
        /// The reading, in ns.
        at_ns: u64,
    },
    /// Whether this host can build a variant.
    Feasible {
        /// Why it cannot.
        reason: Option<String>,
    },
    /// Whether this host cannot have a variant's changes, or already has them.
    Obstacle {
        /// Why they are pointless here.
        obstacle: Option<Obstacle>,
    },
    /// An agent was started.
    Started {
        /// The resources that it may use.
        place: Place,
    },
    /// The host at a moment.
    Looked {
        /// The window that it is for.
        window: u64,
        /// The look.
        sight: Box<HostReading>,
    },
    /// A slot's evidence and notices about a treatment.
    Proof(Proof),
    /// The request was carried out.
    Done,
    /// The program's output.
    Told {
        /// The standard output.
        text: String,
    },
    /// The request failed.
    Failed {
        /// Why.
        reason: String,
    },
    /// An agent has ended. This answers no request.
    Ended {
        /// The number.
        agent: u32,
        /// How it ended.
        ended: Ended,
    },
}

impl KeeperReply {
    /// The error for a reply that answers another request.
    pub(crate) fn odd(&self, host: &str) -> HostError {
        let words = serde_json::to_string(self).unwrap_or_default();
        HostError::Odd { host: host.to_owned(), said: format!("{words:.200}") }
    }
}

/// A variant's changes on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnTreatment {
    tunings: Vec<String>,
    changes: Vec<UserChange>,
}

impl OwnTreatment {
    /// The part of a treatment that applies to a host with these sides.
    pub fn at(treatment: Treatment<'_>, sides: Sides) -> Self {
        let is_here = |change: &&UserChange| match change.place() {
            ChangePlace::System => sides.system,
            ChangePlace::Load => sides.load,
            ChangePlace::Cluster => false,
        };
        Self {
            tunings: if sides.system { treatment.tunings.to_vec() } else { Vec::new() },
            changes: treatment.changes.iter().filter(is_here).cloned().collect(),
        }
    }

    /// The part of a variant that applies to a host with these sides.
    pub fn of_variant(variant: &PlannedVariant, sides: Sides) -> PlannedVariant {
        let Self { tunings, changes } = Self::at(host_tunings::treatment(variant), sides);
        PlannedVariant { tunings, changes, ..variant.clone() }
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.as_treatment().is_empty()
    }

    /// The treatment to apply.
    pub fn as_treatment(&self) -> Treatment<'_> {
        Treatment { tunings: &self.tunings, changes: &self.changes }
    }
}

/// A keeper's first line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Identifies the build, see [`plumb_host::own_build`].
    pub build: String,
    /// The kernel's name for its boot.
    pub boot: Option<String>,
    /// The CPUs that it may use.
    pub cpus: String,
    /// The CPUs for the system and those for the load, if both sides are there.
    pub halves: (String, String),
    /// Whether it runs as root.
    pub is_root: bool,
    /// Facts about the host, as `plumb host` prints them.
    pub facts: Vec<(String, String)>,
    /// The address by which the runner reached this host.
    pub address: Option<std::net::IpAddr>,
    /// The address from which the runner reached it.
    pub peer: Option<std::net::IpAddr>,
}

/// The agent's number and its line; `None` if the line is not an agent's.
pub fn of_agent(line: &str) -> Option<(u32, &str)> {
    let (number, line) = line.split_once(' ')?;
    Some((number.parse().ok()?, line))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_a_host_travels_as_it_is() {
        let looked = KeeperReply::Looked { window: 7, sight: Box::new(HostReading::take().unwrap()) };
        let line = serde_json::to_string(&looked).unwrap();
        assert_eq!(serde_json::from_str::<KeeperReply>(&line).unwrap(), looked);
    }

    #[test]
    fn each_host_gets_its_part_of_a_treatment_in_order() {
        let read = |json: &str| serde_json::from_str::<UserChange>(json).unwrap();
        let changes = [
            read(r#"{"sysctl":{"vm.swappiness":"5"}}"#),
            read(r#"{"sysctl":{"net.core.busy_read":"50","place":"load"}}"#),
            read(r#"{"file":{"path":"/etc/x","contents":"a"}}"#),
        ];
        let tunings = ["busy-poll".to_owned()];
        let treatment = Treatment { tunings: &tunings, changes: &changes };
        let at = |system: bool, load: bool| OwnTreatment::at(treatment, Sides { system, load });
        assert_eq!(at(true, true).as_treatment(), treatment);
        assert_eq!(at(true, false).changes, [changes[0].clone(), changes[2].clone()]);
        assert_eq!(at(true, false).tunings, tunings);
        assert_eq!(at(false, true), OwnTreatment { tunings: Vec::new(), changes: vec![changes[1].clone()] });
        assert!(at(false, false).is_empty());
    }

    #[test]
    fn lines_of_agents_are_told_from_those_of_keepers() {
        assert_eq!(of_agent(r#"7 {"reply":"stopped"}"#), Some((7, r#"{"reply":"stopped"}"#)));
        for line in [
            serde_json::to_string(&KeeperRequest::Look { window: 1, at_ns: 1 }).unwrap().as_str(),
            "",
            "7",
            "-1 {}",
        ] {
            assert_eq!(of_agent(line), None, "{line}");
        }
    }
}
