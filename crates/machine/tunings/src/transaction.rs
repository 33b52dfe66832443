//! Changing settings so that they can be put back: note, write, read back.

use std::time::Duration;

use plumb_host::settings::journal::{Entry, Journal};
use plumb_host::settings::{Machine, Setting};
use plumb_host::time::{monotonic_ns, sleep};

use crate::TuningError;
use crate::found::{Resolved, Wanted};

/// The pause between two looks at the effect of a change.
const GLANCE: Duration = Duration::from_millis(50);
/// How many looks in a row have to see it: after a reload, the old process may answer beside the new one for a moment.
const GLANCES: u32 = 5;

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
        let wanted = tuning.wanted.iter().rfind(|wanted| wanted.setting == entry.setting);
        if let Err(error) = change(machine, entry, wanted) {
            // A value that the kernel chose instead is this tuning's doing as well, and nobody else's. It chooses none for a file.
            let is_file = matches!(entry.setting, Setting::Contents(_));
            if let Some(new) = machine.value_of(&entry.setting).ok().filter(|_| !is_file) {
                journal.note(&[Entry { new, ..entry.clone() }])?;
            }
            return Err(TuningError::Refused {
                tuning: tuning.name.clone(),
                reason: error.to_string(),
                trouble: Vec::new(),
            });
        }
        note("changed a setting", entry);
    }
    Ok(entries)
}

/// Waits until every `verify` shows that the changes are used: a program may need some time to read its configuration again.
pub(crate) fn look_for_effect(machine: &Machine, tunings: &[Resolved]) -> Result<(), TuningError> {
    for tuning in tunings {
        for wanted in &tuning.wanted {
            let Setting::Shell(shell) = &wanted.setting else { continue };
            if !wanted.setting.is_look() {
                continue;
            }
            if let Err(now) = seen(machine, &wanted.setting, shell.timeout_ms, |now| wanted.is_met_by(now)) {
                let now = match now {
                    Ok(now) => format!("shows {:?}", machine.shown(&wanted.setting, &now)),
                    Err(error) => format!("failed to {error}"),
                };
                let reason = format!(
                    "after the change, {} {now}, and should show {:?}: the change is not used",
                    wanted.label,
                    wanted.shown(machine)
                );
                return Err(TuningError::Refused {
                    tuning: tuning.name.clone(),
                    reason,
                    trouble: Vec::new(),
                });
            }
        }
    }
    Ok(())
}

/// Reads until a value is accepted a few times in a row, or for so long; then what was read last.
pub(crate) fn seen(
    machine: &Machine,
    setting: &Setting,
    within_ms: u64,
    is_it: impl Fn(&str) -> bool,
) -> Result<(), Result<String, plumb_host::Error>> {
    let until_ns = monotonic_ns().saturating_add(within_ms.saturating_mul(1_000_000));
    let mut accepted = 0;
    loop {
        match machine.value_of(setting) {
            Ok(now) if is_it(&now) => accepted += 1,
            now if monotonic_ns() >= until_ns => return Err(now),
            _ => accepted = 0,
        }
        if accepted == GLANCES {
            return Ok(());
        }
        sleep(GLANCE);
    }
}

/// Logs that something was done to a setting. Values and commands may have secrets in them.
pub(crate) fn note(what: &'static str, entry: &Entry) {
    if entry.setting.is_command() {
        tracing::info!(setting = "a command's", "{what}");
    } else {
        tracing::info!(setting = %entry.setting, "{what}");
    }
}

/// The settings to change, without those that already have their value.
fn changes(machine: &Machine, tuning: &Resolved) -> Result<Vec<Entry>, TuningError> {
    let mut entries: Vec<Entry> = Vec::new();
    for wanted in tuning.wanted.iter().filter(|wanted| !wanted.setting.is_look()) {
        let Wanted { setting, value, .. } = wanted;
        // A profile may name a setting twice; the last one counts.
        if let Some(earlier) = entries.iter_mut().find(|entry| entry.setting == *setting) {
            earlier.new.clone_from(value);
            continue;
        }
        let old = machine.value_of(setting)?;
        // A command's value is whatever it prints, so one that is met already is as good as the same.
        let new = if wanted.is_met_by(&old) { old.clone() } else { value.clone() };
        entries.push(Entry { tuning: tuning.name.clone(), setting: setting.clone(), old, new });
    }
    entries.retain(|entry| entry.old != entry.new || entry.setting.is_action());
    Ok(entries)
}

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error("failed to {_0}")]
    Host(#[from] plumb_host::Error),
    #[error("the kernel refused {new:?} for {setting} ({cause})")]
    Kernel { setting: String, new: String, cause: plumb_host::Error },
    #[error("after `apply`, {setting} prints {now:?}, and should print {new:?}")]
    Prints { setting: String, now: String, new: String },
    #[error("{setting} was set to {new:?} and reads back {now:?}")]
    ReadsBack { setting: String, now: String, new: String },
}

/// Writes, and reads back: the kernel may refuse a value, or take another one without a word.
fn change(machine: &Machine, entry: &Entry, wanted: Option<&Wanted>) -> Result<(), WriteError> {
    let Entry { setting, new, .. } = entry;
    machine.change(setting, new).map_err(|cause| match setting {
        Setting::Contents(_) | Setting::Shell(_) | Setting::Action(_) => cause.into(),
        _ => WriteError::Kernel { setting: setting.to_string(), new: new.clone(), cause },
    })?;
    let now = machine.value_of(setting)?;
    if wanted.map_or(now == *new, |wanted| wanted.is_met_by(&now)) {
        return Ok(());
    }
    let (now, new) =
        (machine.shown(setting, &now), wanted.map_or_else(|| new.clone(), |it| it.shown(machine)));
    let is_command = setting.is_command();
    let setting = setting.to_string();
    Err(if is_command {
        WriteError::Prints { setting, now, new }
    } else {
        WriteError::ReadsBack { setting, now, new }
    })
}
