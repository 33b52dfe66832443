//! A run in one row.

use std::path::{Path, PathBuf};

use plumb_model::{Header, Verdict};
use plumb_store::is_being_written;

use super::opened::Opened;
use super::state::State;

/// How many characters of a text from a run a row shows.
const TEXT_MAX: usize = 300;

/// A run in one row.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The id in addresses.
    pub id: String,
    /// The directory.
    pub path: PathBuf,
    pub name: String,
    pub title: String,
    /// RFC 3339.
    pub started_at: String,
    pub took_s: Option<f64>,
    pub state: State,
    /// How many slots it has; `None` if the run cannot be read.
    pub slots: Option<usize>,
    /// How many claims hold, are refuted, undecided, void, skipped.
    pub verdicts: [usize; 5],
    /// The host in one line.
    pub host: String,
    /// Lasting facts of the host by name.
    pub facts: Vec<(String, String)>,
    pub is_quick: bool,
    /// The headline of the run in one sentence, or why the run cannot be read.
    pub words: String,
}

impl Summary {
    /// Reads and summarises a run. The summary of an unreadable run says why.
    #[must_use]
    pub fn read_run(id: String, path: &Path) -> Self {
        match Opened::read_directory(path) {
            Ok(opened) => Self::of_opened(id, path, &opened),
            Err(error) => Self::unreadable(id, path, &error.to_string()),
        }
    }

    fn of_opened(id: String, path: &Path, opened: &Opened) -> Self {
        let (run, judgement) = (opened.run(), opened.judgement());
        let plan = &run.header.plan;
        Self {
            id,
            path: path.to_owned(),
            name: short(&plan.name),
            title: short(&plan.title),
            started_at: short(&run.header.started_at),
            took_s: run.took_s,
            state: opened.state(),
            slots: Some(run.slots.len()),
            verdicts: Verdict::ALL
                .map(|verdict| judgement.claims.iter().filter(|it| it.verdict == verdict).count()),
            host: short(&host_line(&run.header)),
            facts: facts(&run.header),
            is_quick: plan.quick,
            words: short(&plumb_report::headline(run, judgement)),
        }
    }

    fn unreadable(id: String, path: &Path, reason: &str) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self {
            id,
            path: path.to_owned(),
            name: short(&name),
            title: short(&name),
            started_at: String::new(),
            took_s: None,
            state: State::Unreadable,
            slots: None,
            verdicts: [0; 5],
            host: String::new(),
            facts: Vec::new(),
            is_quick: false,
            words: short(&format!("plumb failed to {reason}")),
        }
    }

    /// Whether its state still holds. A run may be killed or resumed without a change to its files.
    pub(super) fn is_settled(&self, path: &Path) -> bool {
        match self.state {
            State::Running => is_being_written(path),
            State::Killed => !is_being_written(path),
            _ => true,
        }
    }

    /// Whether it contains every word of a search.
    #[must_use]
    pub fn has(&self, words: &str) -> bool {
        let text = format!(
            "{} {} {} {} {} {}",
            self.name,
            self.title,
            self.path.display(),
            self.host,
            self.started_at,
            self.words
        );
        let text = text.to_lowercase();
        words.to_lowercase().split_whitespace().all(|word| text.contains(word))
    }
}

/// The facts that identify a host, in one line: its CPUs, its system, and where it runs.
fn host_line(header: &Header) -> String {
    let facts = facts(header);
    let values: Vec<&str> = facts.iter().map(|(_, value)| value.as_str()).collect();
    if values.is_empty() { "unknown host".to_owned() } else { values.join(" · ") }
}

/// The facts that identify a host, in this order. A run on other hosts shows its first host's name, then that
/// host's facts.
fn facts(header: &Header) -> Vec<(String, String)> {
    const NAMES: [&str; 5] = ["cpu", "cpus", "kernel", "virtualisation", "container"];
    let of = |prefix: &str| -> Vec<(String, String)> {
        let known =
            |name: &&str| header.host.iter().find(|(known, _)| known.strip_prefix(prefix) == Some(*name));
        NAMES.iter().filter_map(|name| Some(((*name).to_owned(), short(&known(name)?.1)))).collect()
    };
    let here = of("");
    let host = header.host.iter().find_map(|(name, _)| Some(name.rsplit_once(": ")?.0));
    match host {
        Some(host) if here.is_empty() => {
            [("host".to_owned(), short(host))].into_iter().chain(of(&format!("{host}: "))).collect()
        }
        _ => here,
    }
}

fn short(text: &str) -> String {
    let mut characters = text.chars();
    let mut short: String = characters.by_ref().take(TEXT_MAX).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}
