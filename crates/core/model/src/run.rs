//! A run as it is held in memory: what was planned, where, and every slot so far.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Places, Plan, Slot};

/// The facts of a run before its first slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the program that made the run.
    pub program_version: String,
    /// Identifies its build among others of that version; `None` in runs from before it was recorded.
    #[serde(default)]
    pub build: Option<String>,
    /// Wall-clock time of the start, RFC 3339.
    pub started_at: String,
    /// The plan.
    pub plan: Plan,
    /// Facts about the host, by name, in the order in which they are shown.
    pub host: Vec<(String, String)>,
    /// CPUs of the system's side, such as `0-3`.
    pub system_cpus: String,
    /// CPUs of the load's side.
    pub load_cpus: String,
    /// Where both sides are; absent where that is the host that runs plumb.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub places: Option<Places>,
    /// The revision of the git work tree that the experiment is in, where the run was to be recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Labels that the user gave the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// A revision of a git work tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The commit, in full.
    pub revision: String,
    /// The branch; absent where none is checked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// Whether tracked files differed from the commit.
    #[serde(default)]
    pub dirty: bool,
    /// When it was committed, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub committed_at: Option<String>,
    /// The first line of the commit's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

impl Header {
    /// Facts about the host that a measurement depends on and that nothing changes by itself while a run is interrupted.
    const LASTING_FACTS: [&str; 10] = [
        "cpu",
        "cpus",
        "cpu features",
        "os",
        "kernel",
        "virtualisation",
        "container",
        "smt",
        "system on cpus",
        "load on cpus",
    ];

    /// The lasting facts in which another host, or one of several, differs: name, here, there.
    #[must_use]
    pub fn host_differences(&self, other: &[(String, String)]) -> Vec<(String, String, String)> {
        let value = |lines: &[(String, String)], name: &str| {
            let line = lines.iter().find(|(known, _)| known == name);
            line.map_or_else(|| "unknown".to_owned(), |(_, value)| value.clone())
        };
        let fact = |name: &str| name.rsplit_once(": ").map_or(name.to_owned(), |(_, fact)| fact.to_owned());
        let mut names: Vec<&String> = self.host.iter().chain(other).map(|(name, _)| name).collect();
        names.retain(|name| Self::LASTING_FACTS.contains(&fact(name).as_str()));
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(*name));
        let facts = names.into_iter().map(|name| (name.clone(), value(&self.host, name), value(other, name)));
        facts.filter(|(_, here, there)| here != there).collect()
    }
}

crate::named! {
    /// How a run ended, if it did.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    pub enum Ending: word {
        /// Every claim was decided or every block was run.
        Complete = "complete",
        /// Somebody stopped it.
        Interrupted = "interrupted",
        /// The harness failed.
        Failed = "failed",
    }
}

impl Run {
    /// Everything but its directory: what identifies it.
    #[must_use]
    pub fn content(&self) -> impl Serialize + '_ {
        (&self.header, &self.experiment_text, &self.slots, self.ending, self.took_s)
    }

    /// Whether it is the same run as another, which may have more slots or have been edited. An imported run is never
    /// recognised, because its plan does not say when it was made.
    #[must_use]
    pub fn began_with(&self, other: &Self) -> bool {
        let (one, two) = (&self.header, &other.header);
        one.plan.imported.is_none()
            && (&one.plan.name, &one.started_at, one.plan.seed, &one.host)
                == (&two.plan.name, &two.started_at, two.plan.seed, &two.host)
    }
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The directory, as it was given.
    pub directory: String,
    /// The facts from before the first slot.
    pub header: Header,
    /// The experiment file, byte for byte.
    pub experiment_text: String,
    /// Every slot, in the order in which they ran.
    pub slots: Vec<Slot>,
    /// How it ended; `None` while it runs and after a kill.
    pub ending: Option<Ending>,
    /// Seconds from its start to its end.
    pub took_s: Option<f64>,
}
