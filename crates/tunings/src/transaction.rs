//! Changing settings so that they can be put back: note, write, read back; and the way back.

use plumb_host::settings::Machine;
use plumb_host::settings::journal::{Entry, Journal};

use crate::TuningError;
use crate::found::{Resolved, Wanted};
use crate::recovery::{PutBack, put_back};

/// Applies a tuning: all of it or nothing. What it returns is what was changed, in order.
pub(crate) fn apply(
    machine: &Machine,
    journal: &mut Journal,
    tuning: &Resolved,
) -> Result<Vec<Entry>, TuningError> {
    let entries = changes(machine, tuning)?;
    if entries.is_empty() {
        return Ok(entries);
    }
    journal.note(&entries)?;
    for (at, entry) in entries.iter().enumerate() {
        if let Err(reason) = change(machine, entry) {
            let mut done = entries[..=at].to_vec();
            // A value that the kernel chose instead is ours as well, and nobody else's.
            if let Ok(chosen) = machine.read(&entry.setting).map(|new| Entry { new, ..entry.clone() }) {
                journal.note(std::slice::from_ref(&chosen))?;
                done.push(chosen);
            }
            let PutBack { failed, .. } = put_back(machine, &done);
            return Err(TuningError::Refused { tuning: tuning.name.clone(), reason, trouble: failed });
        }
    }
    Ok(entries)
}

/// What there is to change: settings that already have their value are left alone.
fn changes(machine: &Machine, tuning: &Resolved) -> Result<Vec<Entry>, TuningError> {
    let mut entries: Vec<Entry> = Vec::new();
    for Wanted { setting, value, .. } in &tuning.wanted {
        // A profile may name a setting twice; the last one counts.
        if let Some(earlier) = entries.iter_mut().find(|entry| entry.setting == *setting) {
            earlier.new.clone_from(value);
            continue;
        }
        let old = machine.read(setting)?;
        let (tuning, new) = (tuning.name.clone(), value.clone());
        entries.push(Entry { tuning, setting: setting.clone(), old, new });
    }
    entries.retain(|entry| entry.old != entry.new);
    Ok(entries)
}

/// Writes, and reads back: the kernel may refuse a value, or take another one without a word.
fn change(machine: &Machine, entry: &Entry) -> Result<(), String> {
    machine
        .write(&entry.setting, &entry.new)
        .map_err(|error| format!("the kernel refused {:?} for {} ({error})", entry.new, entry.setting))?;
    let now = machine.read(&entry.setting).map_err(|error| error.to_string())?;
    if now == entry.new {
        return Ok(());
    }
    Err(format!("{} was set to {:?} and reads back {now:?}", entry.setting, entry.new))
}
