//! Tunings that a person applies and ends, outside of any run.

use plumb_host::settings::Machine;
use plumb_host::settings::journal::{self, Entry, Journal, Record};
use plumb_host::settings::state::StateDirectory;

use crate::found::Resolved;
use crate::recovery::{PutBack, put_back, reachable, recover_locked, run_journal, staying_journal};
use crate::{Asked, TuningError, transaction};

/// The result of applying one tuning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// The tuning on this machine.
    pub tuning: Resolved,
    /// The changes; settings that had their value already are not among them.
    pub changes: Vec<Entry>,
}

/// One change that is meant to stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InEffect {
    /// The change.
    pub entry: Entry,
    /// The setting's current value; `None` where it cannot be read.
    pub now: Option<String>,
}

/// Applies tunings until [`revert`]: all of them or none.
///
/// # Errors
/// When one cannot be applied; then all are put back.
pub fn apply_to_stay(
    machine: &Machine,
    state: &StateDirectory,
    asked: &[Asked],
) -> Result<Vec<Made>, TuningError> {
    let resolved: Vec<Resolved> =
        asked.iter().map(|asked| asked.resolve(machine)).collect::<Result<_, _>>()?;
    let _lock = state.lock()?;
    let left = recover_locked(machine, state)?;
    if !left.failed.is_empty() {
        return Err(TuningError::StillChanged { trouble: left.failed, journal: run_journal(state) });
    }
    let path = staying_journal(state);
    if journal::read_record(&path)?.is_some_and(|record| !record.writer.is_of_this_network_namespace()) {
        let reason = "tunings of another network namespace are in effect; put them back there first";
        return Err(TuningError::Name(reason.to_owned()));
    }
    let mut journal = if path.exists() { Journal::append(&path)? } else { Journal::create(&path)? };
    let mut made: Vec<Made> = Vec::new();
    for tuning in resolved {
        match transaction::apply(machine, &mut journal, &tuning) {
            Ok(changes) => made.push(Made { tuning, changes }),
            Err(error) => {
                // Puts back the changes after the last mark of the journal, and shortens the journal.
                return Err(error.but(recover_locked(machine, state)?.failed));
            }
        }
    }
    if made.iter().any(|made| !made.changes.is_empty()) {
        journal.stay()?;
    } else {
        recover_locked(machine, state)?;
    }
    Ok(made)
}

/// The tunings in effect by [`apply_to_stay`].
///
/// # Errors
/// When the journal cannot be read.
pub fn in_effect(machine: &Machine, state: &StateDirectory) -> Result<Vec<InEffect>, TuningError> {
    let record = journal::read_record(&staying_journal(state))?;
    let record = record.filter(|record| record.writer.is_of_this_boot());
    let entries = record.map_or_else(Vec::new, |record| record.staying);
    let look = |entry: Entry| InEffect { now: machine.value_of(&entry.setting).ok(), entry };
    Ok(entries.into_iter().map(look).collect())
}

/// The changes that a run under way has made for the slot at hand: tunings, and what users define.
///
/// # Errors
/// When the journal cannot be read.
pub fn in_effect_of_run(machine: &Machine, state: &StateDirectory) -> Result<Vec<InEffect>, TuningError> {
    let record = journal::read_record(&run_journal(state))?;
    let entries = record.map_or_else(Vec::new, |record| record.unfinished);
    let has_state = |entry: &Entry| entry.setting.has_state() && !entry.setting.is_action();
    let look = |entry: Entry| InEffect { now: machine.value_of(&entry.setting).ok(), entry };
    Ok(entries.into_iter().filter(has_state).map(look).collect())
}

/// Puts back all that is in effect by [`apply_to_stay`].
///
/// # Errors
/// When another process changes the machine at this moment, or the journal cannot be read.
pub fn revert(machine: &Machine, state: &StateDirectory) -> Result<PutBack, TuningError> {
    let path = staying_journal(state);
    if !path.exists() && !run_journal(state).exists() {
        return Ok(PutBack::default());
    }
    let _lock = state.lock()?;
    let mut outcome = recover_locked(machine, state)?;
    let Some(record) = journal::read_record(&path)? else { return Ok(outcome) };
    let done = put_back(machine, state, &reachable(&record.writer, &record.staying, &mut outcome));
    let staying = done.still_due.clone();
    outcome.add(done);
    journal::replace(&path, &Record { staying, unfinished: Vec::new(), ..record })?;
    Ok(outcome)
}
