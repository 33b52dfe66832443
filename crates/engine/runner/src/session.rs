//! One run from its plan to its end: header, directory, agents, dispatcher, events.
//!
//! The command line and any other front end submit the same [`Session`]; none of them assembles a run by
//! itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::cpu::available_cpus;
use plumb_host::scratch::Scratch;
use plumb_model::event::PuttingBack;
use plumb_model::{Ending, Event, Header, Run, Slot, Source, VariantState};
use plumb_path::{Mark, Place};
use plumb_places::{Hosts, Launch, Patience};
use plumb_store::RunDirectory;
use plumb_tunings::Treatment;

use crate::agent_executor::AgentExecutor;
use crate::dispatcher::{Dispatched, Outlets, dispatch};
use crate::error::RunError;
use crate::in_process::InProcess;
use crate::moment::Moment;
use crate::narration::{Narration, narrate};
use crate::prepare::Planned;
use crate::treatments::{treatments, try_out};

/// The inputs of a run beside its plan.
pub struct Session<'a> {
    /// The program that serves agents, with its arguments.
    pub agent_program: (PathBuf, Vec<String>),
    /// The version to write into the header.
    pub program_version: &'a str,
    /// Identifies this build among others of its version, see [`plumb_host::own_build`].
    pub build: &'a str,
    /// The revision of the experiment's git work tree, if it is to be recorded.
    pub source: Option<Source>,
    /// Labels that the user gave the run.
    pub labels: BTreeMap<String, String>,
    /// Receives the events of the run.
    pub emit: &'a mut dyn FnMut(&Event),
    /// The clock of the run, and whether the user wants it to end.
    pub patience: Patience<'a>,
}

impl Session<'_> {
    /// Starts a new run in `directory`.
    ///
    /// # Errors
    /// When the directory cannot be written, or the harness itself fails.
    pub fn start(self, mut planned: Planned, directory: &Path) -> Result<Run, RunError> {
        let mut hosts = planned.take_hosts();
        try_treatments(&mut planned, &mut hosts, self.patience)?;
        if let Some(reason) = planned.hopeless() {
            return Err(RunError::Harness(format!("begin: {reason}")));
        }
        let described = hosts.in_words();
        let described = described.map_err(|error| RunError::Harness(format!("begin: {error}")))?;
        let header = Header {
            program_version: self.program_version.to_owned(),
            build: Some(self.build.to_owned()),
            started_at: self.patience.clock.wall_clock_rfc3339(),
            plan: planned.plan().clone(),
            host: described.lines,
            system_cpus: described.system_cpus,
            load_cpus: described.load_cpus,
            places: described.places,
            source: self.source.clone(),
            labels: self.labels.clone(),
        };
        let store = RunDirectory::create(directory, &header, planned.text())?;
        let run = Run {
            directory: directory.display().to_string(),
            header,
            experiment_text: planned.text().to_owned(),
            slots: Vec::new(),
            ending: None,
            took_s: None,
        };
        self.carry_on(run, &planned, store, hosts)
    }

    /// Continues the run in `directory`, whose plan is `planned`, after its last whole slot. An extended plan
    /// replaces the plan in the directory.
    ///
    /// # Errors
    /// As [`Session::start`], and when the directory holds no run, its experiment was edited, or another build or another
    /// host began it.
    pub fn resume(self, mut planned: Planned, directory: &Path) -> Result<Run, RunError> {
        let (mut store, mut run) = RunDirectory::resume(directory)?;
        let mut hosts = planned.take_hosts();
        let now = hosts.in_words();
        let now = now.map_err(|reason| RunError::Harness(format!("continue the run: {reason}")))?;
        let differences = differences(&run.header, self.build, &now.lines);
        if !differences.is_empty() {
            return Err(RunError::Differs(differences));
        }
        // All checks that may refuse come before the directory is changed.
        let treatments = treatments(&run.header.plan);
        hosts.treated(&treatments).iter_mut().try_for_each(|host| host.prepare())?;
        store.go_on()?;
        if planned.plan().blocks != run.header.plan.blocks {
            run.header.plan = planned.plan().clone();
            store.extend(&run)?;
        }
        remove_leftovers(directory)?;
        self.carry_on(run, &planned, store, hosts)
    }

    /// Measures what is left of a run, with its log in its directory.
    fn carry_on(
        self,
        run: Run,
        planned: &Planned,
        store: RunDirectory,
        hosts: Hosts,
    ) -> Result<Run, RunError> {
        // The log is an aid, so the run does without if it cannot be written.
        let narration = store.log().ok().map(|log| Narration::begin(log, &run));
        let ended = self.measure(run, planned, store, hosts);
        if let Some(narration) = narration {
            narration.end(&ended);
        }
        ended
    }

    fn measure(
        self,
        mut run: Run,
        planned: &Planned,
        store: RunDirectory,
        hosts: Hosts,
    ) -> Result<Run, RunError> {
        let Self { agent_program, emit, patience, .. } = self;
        let scratch = Scratch::create(&whole_path(store.path())?, SCRATCH_PREFIX)?;
        announce(&run, &mut |event: &Event| {
            narrate(event);
            emit(event);
        });
        let launch = Launch {
            program: agent_program.0,
            arguments: agent_program.1,
            directory: scratch.path().to_owned(),
            environment: planned.environment(),
        };
        let before_s =
            run.took_s.unwrap_or_else(|| run.slots.last().map_or(0.0, |slot| slot.offset_s + slot.took_s));
        let begun_ns = patience.clock.monotonic_ns();
        let store = RefCell::new(store);
        let (dispatched, back) = {
            // The executor reports a slot's progress while the dispatcher waits for it.
            let teller = RefCell::new((&mut *emit, Moment::new()));
            let tell = |event: &Event| {
                narrate(event);
                let (emit, moment) = &mut *teller.borrow_mut();
                emit(event);
                if moment.take(event) {
                    // A full disk ends the run at the next slot; a failed file for watchers is not worth
                    // that.
                    let _ = store.borrow().now(moment.now());
                }
            };
            let watch = |mark: Mark, in_flight: Option<f64>| match mark {
                Mark::Progress { work, elapsed_ns } => {
                    tell(&Event::SlotProgress { work, elapsed_ns, in_flight })
                }
                Mark::Agreed { open_ns, close_ns } => tell(&Event::WindowAgreed { open_ns, close_ns }),
                Mark::Opened | Mark::Closed => {}
            };
            let announce = |what: PuttingBack| tell(&Event::PuttingBack(what));
            let mut record = |slot: &Slot| store.borrow_mut().append(slot).map_err(RunError::from);
            let mut emit = tell;
            let mut outlets = Outlets { record: &mut record, emit: &mut emit, patience };
            let slots = std::mem::take(&mut run.slots);
            measure(planned, slots, (launch, hosts), &watch, &announce, &mut outlets)
        };
        let took_ns = patience.clock.monotonic_ns() - begun_ns;
        let took_s = before_s + Duration::from_nanos(took_ns).as_secs_f64();
        let (ending, slots) = match dispatched {
            Ok(done) => done,
            Err(error) => {
                // The first error is the one to report; a full disk does not take this line either.
                let _ = store.borrow().finish(Ending::Failed, took_s);
                return Err(match back {
                    Ok(()) => error,
                    Err(left) => RunError::Harness(format!("{error}; and failed to {left}")),
                });
            }
        };
        store.borrow().finish(ending, took_s)?;
        back?;
        emit(&Event::RunFinished { interrupted: ending == Ending::Interrupted });
        Ok(Run { slots, ending: Some(ending), took_s: Some(took_s), ..run })
    }
}

/// Runs a plan by the executor that it needs. Returns how it ended, and whether all hosts are as they were.
fn measure(
    planned: &Planned,
    slots: Vec<Slot>,
    (launch, hosts): (Launch, Hosts),
    watch: &dyn Fn(Mark, Option<f64>),
    announce: &dyn Fn(PuttingBack),
    outlets: &mut Outlets<'_>,
) -> (Dispatched, Result<(), RunError>) {
    if planned.runs_in_process(&hosts) {
        let cpus = available_cpus().map_or(1, |cpus| cpus.len());
        let place = Place { scratch: launch.directory, cpus, address: None, number: 0 };
        let mut executor = InProcess::new(place, outlets.patience).watched_by(watch).seeing_host();
        return (dispatch(planned, slots, &mut executor, outlets), Ok(()));
    }
    let treatments = treatments(planned.plan());
    let mut executor = AgentExecutor::new(planned.path(), launch, hosts, outlets.patience)
        .watched_by(watch)
        .announcing(announce)
        .treating(&treatments)
        .keeping_awake(planned.has_own_link());
    let dispatched = dispatch(planned, slots, &mut executor, outlets);
    (dispatched, executor.put_back())
}

/// Tries the variants' changes on each host, and marks the variants that a host refuses.
fn try_treatments(planned: &mut Planned, hosts: &mut Hosts, patience: Patience<'_>) -> Result<(), RunError> {
    let before = planned.plan().clone();
    let treatments = treatments(&before);
    try_out(planned.plan_mut(), |treatment| match try_on_hosts(hosts, (&treatments, treatment), patience)? {
        None => try_on_cluster(hosts, treatment),
        refused => Ok(refused),
    })
}

/// Why the cluster refuses a treatment, if so.
fn try_on_cluster(hosts: &mut Hosts, treatment: Treatment<'_>) -> Result<Option<String>, RunError> {
    let refused = hosts.objects.turn_to(treatment.changes).err();
    hosts.objects.put_back()?;
    Ok(refused.map(|error| error.to_string()))
}

/// Why a host refuses a treatment, if so. A connection that ends meanwhile does not count as a refusal,
/// so all hosts are asked once more.
fn try_on_hosts(
    hosts: &mut Hosts,
    (all, treatment): (&[Treatment<'_>], Treatment<'_>),
    patience: Patience<'_>,
) -> Result<Option<String>, RunError> {
    let mut is_again = false;
    loop {
        let tried = hosts.treated(all).iter_mut().find_map(|host| host.try_out(treatment).transpose());
        match tried.transpose() {
            Err(_) if !std::mem::replace(&mut is_again, true) && hosts.connections.has_lost_one() => {
                hosts.connections.revive(patience).map_err(|error| RunError::Harness(error.into_reason()))?;
            }
            tried => return Ok(tried?),
        }
    }
}

/// The differences between a continued run and its beginning, in words.
fn differences(header: &Header, build: &str, host: &[(String, String)]) -> Vec<String> {
    let mut found = Vec::new();
    if header.build.as_deref() != Some(build) {
        let began = header.build.as_deref().unwrap_or("unknown");
        found.push(format!("plumb {} was build {began} and is build {build}", header.program_version));
    }
    for (name, was, is) in header.host_differences(host) {
        found.push(format!("{name} was {was} and is {is}"));
    }
    found
}

/// The prefix of scratch directories, by which those of a killed run are found.
const SCRATCH_PREFIX: &str = "scratch-";

/// An absolute path, which agents can use from any working directory.
fn whole_path(path: &Path) -> Result<PathBuf, RunError> {
    path.canonicalize().map_err(|error| RunError::Harness(format!("find {}: {error}", path.display())))
}

/// Removes what a killed run left behind. The lock on the directory shows that it is not in use.
fn remove_leftovers(directory: &Path) -> Result<(), RunError> {
    let failed =
        |error: std::io::Error| RunError::Harness(format!("tidy up {}: {error}", directory.display()));
    for entry in std::fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name().to_string_lossy().starts_with(SCRATCH_PREFIX) {
            std::fs::remove_dir_all(entry.path()).map_err(failed)?;
        }
    }
    Ok(())
}

fn announce(run: &Run, emit: &mut dyn FnMut(&Event)) {
    emit(&Event::RunStarted {
        directory: run.directory.clone(),
        seed: run.header.plan.seed,
        resumed_slots: run.slots.len(),
    });
    let mut said: Vec<(String, String)> = Vec::new();
    for summary in plumb_judge::judge(&run.header.plan, &[]).variants {
        if let VariantState::Skipped { reason } = summary.state {
            let line = (run.header.plan.variants[summary.variant].name.clone(), reason);
            if !said.contains(&line) {
                emit(&Event::VariantSkipped { variant: line.0.clone(), reason: line.1.clone() });
                said.push(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_resumed_run_would_mix_is_named() {
        let lines = |facts: &[(&str, &str)]| -> Vec<(String, String)> {
            facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let host = lines(&[("cpu", "EPYC"), ("kernel", "6.1"), ("load average", "1 2 3")]);
        let plan = crate::tests::plan(1, &[("a", serde_json::json!({}))], &[]);
        let header = Header {
            program_version: "0.1.0".to_owned(),
            build: Some("1f".to_owned()),
            started_at: String::new(),
            plan,
            host: host.clone(),
            system_cpus: "0".to_owned(),
            load_cpus: "1".to_owned(),
            places: None,
            source: None,
            labels: Default::default(),
        };
        assert_eq!(differences(&header, "1f", &host), Vec::<String>::new());
        let now =
            lines(&[("cpu", "EPYC"), ("kernel", "6.12"), ("container", "docker"), ("load average", "9 9 9")]);
        assert_eq!(
            differences(&header, "2e", &now),
            [
                "plumb 0.1.0 was build 1f and is build 2e",
                "kernel was 6.1 and is 6.12",
                "container was unknown and is docker"
            ]
        );
        let old = Header { build: None, ..header };
        assert_eq!(differences(&old, "1f", &host), ["plumb 0.1.0 was build unknown and is build 1f"]);
    }
}
