//! Runs on the null data path for tests: in this process, on a simulated clock, with a truth that is known.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use plumb_model::{Event, Judgement, Run};
use plumb_places::{Patience, SimulatedClock};
use plumb_runner::{Planned, Session};
use serde_json::Value;
use tempfile::TempDir;

use crate::args::PlanArguments;
use crate::commands::{planning, run};
use crate::exit::{self, Failure};
use crate::experiments::Source;
use crate::live::LiveLine;
use crate::progress::Progress;

/// A null experiment with the given lines under `spec`.
pub fn experiment(spec: &str) -> Source {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: \"null\"\n{indented}"
    );
    Source { name: "test.yaml".to_owned(), bytes: text.into_bytes() }
}

/// The plan.
pub fn planned(spec: &str) -> Planned {
    planning::prepared(&experiment(spec), &PlanArguments { seed: Some(11), ..PlanArguments::default() })
        .unwrap()
}

/// The surroundings of one run: its directory, its user, and what that is told.
pub struct Scene {
    directory: TempDir,
    said: RefCell<Vec<String>>,
    /// How many slots are recorded before the user interrupts the run.
    pub slots_max: Cell<Option<usize>>,
}

/// A run that ended, and the conclusions from it.
pub struct Concluded {
    pub run: Run,
    pub judgement: Judgement,
    pub code: u8,
    /// The report as JSON.
    pub json: Value,
}

impl Scene {
    /// One without a run.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory, said: RefCell::default(), slots_max: Cell::new(None) }
    }

    /// The run directory, which does not exist before a run begins.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    /// Everything that was said so far.
    pub fn said(&self) -> String {
        self.said.borrow().join("\n")
    }

    /// Runs a plan from its beginning.
    pub fn begin(&self, planned: Planned) -> Result<Concluded, Failure> {
        self.with(planned, |session, planned, path| {
            run::begin_session(session, planned, Some(path)).map(|(run, _)| run)
        })
    }

    /// Continues the run, to this many blocks if given.
    pub fn resume(&self, blocks: Option<u32>) -> Result<Concluded, Failure> {
        let planned = run::planned_again(&self.path(), blocks)?;
        self.with(planned, |session, planned, path| session.resume(planned, path).map_err(run::failure))
    }

    fn with(
        &self,
        planned: Planned,
        perform: impl FnOnce(Session<'_>, Planned, &Path) -> Result<Run, Failure>,
    ) -> Result<Concluded, Failure> {
        let say = |line: &str| self.said.borrow_mut().push(line.to_owned());
        let recorded = Cell::new(0);
        let mut progress = Progress::told(planned.plan(), LiveLine::new(true), &say);
        let mut emit = |event: &Event| {
            recorded.set(recorded.get() + usize::from(matches!(event, Event::SlotFinished { .. })));
            progress.show(event);
        };
        let interrupted = || self.slots_max.get().is_some_and(|slots| recorded.get() >= slots);
        let patience = Patience { clock: &SimulatedClock::default(), interrupted: &interrupted };
        let session = Session {
            // An agent would fail.
            agent_program: (PathBuf::from("/nonexistent"), Vec::new()),
            ..run::session("a build", &mut emit, patience)?
        };
        let run = perform(session, planned, &self.path())?;
        let judgement = plumb_judge::judge(&run.header.plan, &run.slots);
        let json = serde_json::from_str(&plumb_report::json(&run, &judgement)).unwrap();
        Ok(Concluded { code: exit::of_run(&run, &judgement), run, judgement, json })
    }
}

/// Runs a null experiment with these lines under `spec`.
pub fn concluded(spec: &str) -> Concluded {
    Scene::new().begin(planned(spec)).unwrap()
}
