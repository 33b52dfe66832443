//! The way back: at the end of a slot or a run, and at the next start after a kill.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_host::settings::contents::Contents;
use plumb_host::settings::journal::{self, Entry, Record, Writer};
use plumb_host::settings::state::{LockError, StateDirectory};
use plumb_host::settings::{Machine, Setting};
use plumb_host::time::{monotonic_ns, sleep};

use crate::TuningError;
use crate::transaction::note;

/// The journal of a run, which has to be empty when nothing runs.
pub(crate) fn run_journal(state: &StateDirectory) -> PathBuf {
    state.path().join("tunings-of-a-run.jsonl")
}

/// The journal of what is meant to stay until somebody asks for its end.
pub(crate) fn staying_journal(state: &StateDirectory) -> PathBuf {
    state.path().join("tunings-that-stay.jsonl")
}

/// The result of putting settings back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PutBack {
    /// Settings that have their old value again, and had another one before.
    pub restored: Vec<Entry>,
    /// Settings that somebody else has changed since, or that are gone, in sentences; they are left as they are.
    pub left_alone: Vec<String>,
    /// Those of them that others overwrote although their old contents are not back, in the same sentences.
    pub overwritten: Vec<String>,
    /// The settings that could not be put back, in sentences.
    pub failed: Vec<String>,
    /// The entries behind those.
    pub(crate) still_due: Vec<Entry>,
}

impl PutBack {
    pub(crate) fn add(&mut self, other: Self) {
        self.restored.extend(other.restored);
        self.left_alone.extend(other.left_alone);
        self.overwritten.extend(other.overwritten);
        self.failed.extend(other.failed);
        self.still_due.extend(other.still_due);
    }

    /// Notes for the user.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        self.left_alone.iter().chain(&self.failed).cloned().collect()
    }
}

/// Puts settings back, the last change first. To do it twice does no harm.
///
/// What makes others notice a change is done once more after all that, in the order in which it was done.
pub(crate) fn put_back(machine: &Machine, state: &StateDirectory, entries: &[Entry]) -> PutBack {
    let mut outcome = PutBack::default();
    let (actions, values): (Vec<&Entry>, Vec<&Entry>) =
        entries.iter().partition(|entry| entry.setting.is_action());
    for entry in values.into_iter().rev() {
        // An earlier change of a setting can be judged only after the later one is undone.
        if outcome.still_due.iter().any(|due| due.setting == entry.setting) {
            outcome.still_due.push(entry.clone());
            continue;
        }
        let original = entries.iter().find(|first| first.setting == entry.setting);
        outcome.put_back_one(machine, state, entry, original.unwrap_or(entry));
    }
    outcome.still_due.reverse();
    for entry in &outcome.still_due {
        note("failed to put a setting back", entry);
    }
    let has_restored = !outcome.restored.is_empty();
    for (at, entry) in actions.iter().enumerate() {
        if actions[..at].iter().all(|earlier| earlier.setting != entry.setting) {
            outcome.act_again(machine, entry, has_restored);
        }
    }
    outcome
}

impl PutBack {
    /// `original` is the first change of the same setting: it has the value from before all of them.
    fn put_back_one(&mut self, machine: &Machine, state: &StateDirectory, entry: &Entry, original: &Entry) {
        let Entry { setting, old, new, .. } = entry;
        machine.tidy(setting);
        let shown = |value: &str| machine.shown(setting, value);
        let (was, became) = (shown(old), shown(new));
        let now = match machine.value_of(setting) {
            Ok(now) => Some(now),
            // What cannot be shown any more can be undone all the same.
            Err(_) if setting.is_command() => None,
            Err(error) if error.is_absence() => {
                let sentence =
                    format!("{setting} is gone, and with it the change from {was:?} to {became:?}");
                return self.leave_alone(setting, "is gone", sentence);
            }
            Err(error) => {
                let sentence =
                    format!("failed to {error}, so {setting} may still be {became:?} and not {was:?}");
                return self.fail(sentence, entry.clone());
            }
        };
        if now.as_ref().is_some_and(|now| now == old || now == "gone") {
            return;
        }
        if let Some(now) = now.filter(|now| now != new && !setting.is_command()) {
            if self.left_alone.iter().any(|line| line.starts_with(&format!("{setting} is"))) {
                return;
            }
            let now = shown(&now);
            let old_text = match keep(state, original) {
                Some(Ok(path)) => format!("; {} has what it was", path.display()),
                Some(Err(cause)) => format!("; what it was could not be kept: {cause}"),
                None => String::new(),
            };
            let sentence = format!(
                "{setting} is {now:?} now, which somebody else set: it is not changed (it was {was:?} before {became:?}{old_text})"
            );
            if matches!(setting, Setting::Contents(_)) {
                self.overwritten.push(sentence.clone());
            }
            return self.leave_alone(setting, "is", sentence);
        }
        match machine.write(setting, old).and_then(|()| machine.value_of(setting)) {
            Ok(back) if back == *old => {
                note("put a setting back", entry);
                self.restored.push(entry.clone());
            }
            Ok(back) if setting.is_command() && changes_by_itself(machine, setting, &back) => {
                let sentence = format!(
                    "{setting} prints something else each time: {was:?} before the change, and {:?} after `revert`, so nothing shows \
                     that it is undone",
                    shown(&back)
                );
                self.leave_alone(setting, "prints", sentence);
            }
            // The kernel changed the value that was written, so the remaining change is this one and not another user's.
            Ok(back) => self.fail(
                format!("{setting} was put back to {was:?} and reads {:?}", shown(&back)),
                Entry { new: back, ..entry.clone() },
            ),
            Err(error) => {
                self.fail(format!("{setting} could not be put back to {was:?}: {error}"), entry.clone());
            }
        }
    }

    /// A failure is tried again at the next start, unless nothing was restored any more: a service that is gone for good must
    /// not keep every later run from starting.
    fn act_again(&mut self, machine: &Machine, entry: &Entry, has_restored: bool) {
        let Entry { setting, old, .. } = entry;
        match machine.write(setting, old) {
            Ok(()) => self.restored.push(entry.clone()),
            Err(error) if has_restored => {
                self.fail(format!("all is back, but the {setting} after it failed: {error}"), entry.clone());
            }
            Err(error) => {
                self.left_alone.push(format!("all is back, but the {setting} after it failed: {error}"));
            }
        }
    }

    /// Of several changes to one setting the last is enough.
    fn leave_alone(&mut self, setting: &Setting, how: &str, sentence: String) {
        if !self.left_alone.iter().any(|line| line.starts_with(&format!("{setting} {how}"))) {
            self.left_alone.push(sentence);
        }
    }

    fn fail(&mut self, sentence: String, entry: Entry) {
        self.failed.push(sentence);
        self.still_due.push(entry);
    }
}

/// Whether what a `verify` prints changes although nothing else does. A clock's seconds take up to a second to show that.
fn changes_by_itself(machine: &Machine, setting: &Setting, first: &str) -> bool {
    let until_ns = monotonic_ns().saturating_add(1_100_000_000);
    while monotonic_ns() < until_ns {
        sleep(Duration::from_millis(50));
        if machine.value_of(setting).is_ok_and(|now| now != first) {
            return true;
        }
    }
    false
}

/// Keeps the text that a file had before it was changed, where the file itself is left to somebody else; `None` for other settings,
/// and for a file that was not there.
fn keep(state: &StateDirectory, entry: &Entry) -> Option<io::Result<PathBuf>> {
    let Setting::Contents(path) = &entry.setting else { return None };
    let contents = Contents::of_value(&entry.old)?;
    let name = Path::new(path).file_name()?.to_string_lossy().into_owned();
    let write = || {
        let directory = state.path().join("kept");
        std::fs::create_dir_all(&directory)?;
        let free = (1..).map(|number| directory.join(format!("{name}.{number}"))).find(|path| !path.exists());
        let path = free.unwrap_or(directory);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.write_all(contents.text.as_bytes())?;
        file.sync_all().map(|()| path)
    };
    Some(write())
}

/// Puts back what a process left that was killed, if one did; a process that lives is left alone.
///
/// # Errors
/// When a journal cannot be read, or not be removed when all is done.
pub fn recover(machine: &Machine, state: &StateDirectory) -> Result<PutBack, TuningError> {
    let journals = [run_journal(state), staying_journal(state)];
    // Where this user may not even look, with HOME left over from another one, nothing of this user's can be.
    if journals[1].try_exists().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
        return Ok(PutBack::default());
    }
    let is_left = |record: Option<Record>| record.is_some_and(|record| !record.unfinished.is_empty());
    let mut any = journals[0].exists();
    any |= is_left(journal::read_record(&journals[1])?);
    if !any {
        return Ok(PutBack::default());
    }
    let _lock = match state.lock() {
        Ok(lock) => lock,
        // Its holder is at work, and puts back its own changes.
        Err(LockError::Held { .. }) => return Ok(PutBack::default()),
        Err(error) => return Err(error.into()),
    };
    recover_locked(machine, state)
}

/// As [`recover`], for the holder of the lock.
pub(crate) fn recover_locked(machine: &Machine, state: &StateDirectory) -> Result<PutBack, TuningError> {
    let mut outcome = PutBack::default();
    for path in [run_journal(state), staying_journal(state)] {
        let Some(mut record) = journal::read_record(&path)? else {
            // It may be there with nothing in it, when its writer was killed in the first line.
            journal::replace(&path, &nothing())?;
            continue;
        };
        if !record.writer.is_of_this_boot() {
            record.staying.clear();
            record.unfinished.retain(|entry| entry.setting.outlives_boot());
            if record.unfinished.is_empty() {
                journal::replace(&path, &nothing())?;
                continue;
            }
        }
        if record.unfinished.is_empty() && !record.staying.is_empty() {
            continue;
        }
        let done = put_back(machine, state, &reachable(&record.writer, &record.unfinished, &mut outcome));
        let unfinished = done.still_due.clone();
        outcome.add(done);
        journal::replace(&path, &Record { unfinished, ..record })?;
    }
    Ok(outcome)
}

pub(crate) fn nothing() -> Record {
    Record { writer: Writer::this(), staying: Vec::new(), unfinished: Vec::new() }
}

/// Without those of another network namespace: from here they cannot be seen, and this one's must not be changed in
/// their place.
pub(crate) fn reachable(writer: &Writer, entries: &[Entry], outcome: &mut PutBack) -> Vec<Entry> {
    if writer.is_of_this_network_namespace() {
        return entries.to_vec();
    }
    let (of_namespace, others): (Vec<Entry>, Vec<Entry>) =
        entries.iter().cloned().partition(|entry| entry.setting.is_of_network_namespace());
    outcome.left_alone.extend(of_namespace.iter().map(|entry| {
        format!(
            "{} was changed from {:?} to {:?} in another network namespace, which is out of reach from here",
            entry.setting, entry.old, entry.new
        )
    }));
    others
}
