//! What a runner and the keeper of another host say to each other.
//!
//! Each is a line of JSON. A line that begins with a number instead is one for or from the agent of that number, which the keeper
//! passes on as it is.

use plumb_model::{ChangePlace, PlannedVariant, UserChange};
use plumb_path::{Place, Sides};
use plumb_tunings::Treatment;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::here::Rights;
use super::link::Ended;
use super::node::Watched;
use super::sight::HostSight;
use crate::host_tunings::{self, Obstacle, Proof};

/// What a runner asks of a keeper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ask {
    /// Whether the keeper is still there, as the runner is. It answers at once, whatever else it does.
    Beat,
    /// What the monotonic clock says.
    Clock {
        /// When this was asked, by the runner's clock.
        sent_ns: u64,
    },
    /// Whether this host can build a variant.
    Feasible {
        /// The data path's name.
        path: String,
        /// The data path's settings.
        settings: Value,
        /// The sides that are to be on it.
        at: Sides,
    },
    /// Start an agent.
    Start {
        /// Its number.
        agent: u32,
        /// What it is, for its scratch directory and its thread.
        name: String,
        /// The CPUs that it is pinned to.
        cpus: String,
        /// What it may do.
        rights: Rights,
        /// Names of environment variables that it gets beside those that every child does.
        environment: Vec<String>,
    },
    /// Close an agent's standard input.
    Close {
        /// Its number.
        agent: u32,
    },
    /// End an agent and everything below it by force.
    Kill {
        /// Its number.
        agent: u32,
    },
    /// Look at the host at a moment.
    Look {
        /// The window that it is for.
        window: u64,
        /// The moment, in ns of the keeper's monotonic clock; at once where it has passed.
        at_ns: u64,
    },
    /// Say with each look from now on what this node counts.
    WatchNode {
        /// Of what.
        watched: Watched,
    },
    /// Take at once the looks that are waited for.
    Hurry,
    /// Something about what variants change on this host.
    Treat(Treat),
    /// Run this program with these arguments, and say what it prints.
    Tell {
        /// The arguments.
        arguments: Vec<String>,
    },
}

/// What a runner asks of a keeper about what variants change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Treat {
    /// Whether this host cannot have what a variant changes, or has it anyway.
    Impossible {
        /// The variant.
        variant: Box<PlannedVariant>,
        /// The baseline.
        base: Option<Box<PlannedVariant>>,
    },
    /// Get ready for these treatments: read what they will change.
    Know {
        /// Of all variants.
        treatments: Vec<OwnTreatment>,
    },
    /// Apply a treatment and put it back.
    TryOut {
        /// The treatment.
        treatment: OwnTreatment,
    },
    /// Apply a treatment for a slot.
    Begin {
        /// The treatment.
        treatment: OwnTreatment,
    },
    /// Put a treatment back after its slot, and prove that it was in effect.
    End {
        /// Whether the slot was measured.
        is_ok: bool,
    },
    /// Put everything back at the end of the run.
    PutBack,
}

/// What a keeper answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// The first line of all.
    Hello(Box<Hello>),
    /// The keeper is still there.
    Beat,
    /// What the monotonic clock says.
    Clock {
        /// As it was asked: an answer that comes too late is not taken for that of another question.
        sent_ns: u64,
        /// In ns.
        at_ns: u64,
    },
    /// Whether this host can build a variant.
    Feasible {
        /// Why it cannot.
        reason: Option<String>,
    },
    /// Whether this host cannot have what a variant changes, or has it anyway.
    Obstacle {
        /// Why it is of no use here.
        obstacle: Option<Obstacle>,
    },
    /// An agent runs.
    Started {
        /// What it may use.
        place: Place,
    },
    /// The host at a moment.
    Looked {
        /// The window that it is for.
        window: u64,
        /// What was seen.
        sight: Box<HostSight>,
    },
    /// What a slot's result says of a treatment.
    Proof(Proof),
    /// What was asked for is done.
    Done,
    /// What the program printed.
    Told {
        /// Its standard output.
        text: String,
    },
    /// What was asked for could not be done.
    Failed {
        /// Why.
        reason: String,
    },
    /// An agent has ended. It answers nothing.
    Ended {
        /// Its number.
        agent: u32,
        /// How it ended.
        ended: Ended,
    },
}

/// What a variant changes on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OwnTreatment {
    tunings: Vec<String>,
    changes: Vec<UserChange>,
}

impl OwnTreatment {
    /// What of a treatment is made on a host that has these sides.
    pub(crate) fn at(treatment: Treatment<'_>, sides: Sides) -> Self {
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

    /// What of a variant is made on a host that has these sides.
    pub(crate) fn of_variant(variant: &PlannedVariant, sides: Sides) -> PlannedVariant {
        let Self { tunings, changes } = Self::at(host_tunings::treatment(variant), sides);
        PlannedVariant { tunings, changes, ..variant.clone() }
    }

    /// Whether nothing is changed.
    pub(crate) fn is_empty(&self) -> bool {
        self.as_treatment().is_empty()
    }

    /// The same as it is applied.
    pub(crate) fn as_treatment(&self) -> Treatment<'_> {
        Treatment { tunings: &self.tunings, changes: &self.changes }
    }
}

/// What a keeper says first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Identifies the build, see [`plumb_host::own_build`].
    pub build: String,
    /// The kernel's name for its boot.
    pub boot: Option<String>,
    /// The CPUs that it may use.
    pub cpus: String,
    /// Those for the system and those for the load, where both are there.
    pub halves: (String, String),
    /// Whether it runs as root.
    pub is_root: bool,
    /// What the host is, as `plumb host` says it.
    pub facts: Vec<(String, String)>,
    /// The address by which the runner reached this host.
    pub address: Option<std::net::IpAddr>,
    /// The address from which it did.
    pub peer: Option<std::net::IpAddr>,
}

/// The agent's number and its line, if it is one of an agent.
pub(crate) fn of_agent(line: &str) -> Option<(u32, &str)> {
    let (number, line) = line.split_once(' ')?;
    Some((number.parse().ok()?, line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_at_a_host_travels_as_it_is() {
        let looked = Answer::Looked { window: 7, sight: Box::new(HostSight::take().unwrap()) };
        let line = serde_json::to_string(&looked).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&line).unwrap(), looked);
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
        for line in
            [serde_json::to_string(&Ask::Look { window: 1, at_ns: 1 }).unwrap().as_str(), "", "7", "-1 {}"]
        {
            assert_eq!(of_agent(line), None, "{line}");
        }
    }
}
