//! Changing settings so that they can be put back: note, write, read back.

use plumb_host::settings::Machine;
use plumb_host::settings::journal::{Entry, Journal};

use crate::TuningError;
use crate::found::{Resolved, Wanted};

/// Applies a tuning, and returns what was changed, in order. After an error a part of it may be in effect, which the
/// journal names: the caller puts back what the journal has.
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
    for entry in &entries {
        if let Err(reason) = change(machine, entry) {
            // A value that the kernel chose instead is this tuning's doing as well, and nobody else's.
            if let Ok(new) = machine.read(&entry.setting) {
                journal.note(&[Entry { new, ..entry.clone() }])?;
            }
            return Err(TuningError::Refused { tuning: tuning.name.clone(), reason, trouble: Vec::new() });
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
