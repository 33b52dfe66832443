//! Tunings of a run: applied for a slot and put back after it, and looked at whenever evidence is taken.

use plumb_host::settings::journal::Journal;
use plumb_host::settings::state::{Lock, StateDirectory};
use plumb_host::settings::{Machine, Setting};
use plumb_host::signals;
use plumb_model::UserChange;

use crate::found::{Resolved, Wanted};
use crate::recovery::{PutBack, put_back, recover_locked, run_journal};
use crate::treatment::Treatment;
use crate::{TuningError, changes, find, transaction};

/// The message of a process that ends at once while its changes are in effect.
const STILL_CHANGED: &str = "plumb: ended before this host was restored; the next plumb command, or `plumb tune revert`, will restore it\n";

/// A setting that some variant changes.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) label: String,
    pub(crate) setting: Setting,
    /// The value when the run began.
    pub(crate) original: String,
}

/// The values of all watched settings at one moment; `None` where one cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValues(pub(crate) Vec<Option<String>>);

/// Applies and puts back the tunings of a run's variants. Holds the lock of this host for as long as it lives.
#[derive(Debug)]
pub struct Tuner {
    machine: Machine,
    state: StateDirectory,
    /// Every tuning of every variant, by its text.
    tunings: Vec<Resolved>,
    /// The changes of every variant that has some.
    changes: Vec<(Vec<UserChange>, Vec<Resolved>)>,
    pub(crate) watched: Vec<Watched>,
    /// The treatment that was applied last as a whole.
    applied: Option<(Vec<String>, Vec<UserChange>)>,
    /// The journal of what is in effect, or may be. It is there until all that it names was read back as it was.
    journal: Option<Journal>,
    /// The settings that could not be put back the last time, in sentences.
    trouble: Vec<String>,
    /// Files that others overwrote, in sentences.
    overwritten: Vec<String>,
    _lock: Lock,
}

impl Tuner {
    /// A tuner for these treatments. It first puts back the changes that a killed process left, and then reads the present
    /// values of all settings that any of them changes. It changes nothing.
    ///
    /// # Errors
    /// When another process changes this host at this moment, an earlier change could not be put back, or a tuning or
    /// change is not possible here.
    pub fn open(
        machine: Machine,
        state: StateDirectory,
        treatments: &[Treatment<'_>],
    ) -> Result<Self, TuningError> {
        let lock = state.lock()?;
        let left = recover_locked(&machine, &state)?;
        if !left.failed.is_empty() {
            return Err(TuningError::StillChanged { trouble: left.failed, journal: run_journal(&state) });
        }
        let mut tuner = Self {
            machine,
            state,
            tunings: Vec::new(),
            changes: Vec::new(),
            watched: Vec::new(),
            applied: None,
            journal: None,
            trouble: Vec::new(),
            overwritten: left.overwritten,
            _lock: lock,
        };
        for treatment in treatments {
            tuner.learn(*treatment)?;
        }
        Ok(tuner)
    }

    fn learn(&mut self, treatment: Treatment<'_>) -> Result<(), TuningError> {
        for name in treatment.tunings {
            let resolved = find(name)?.resolve(&self.machine)?;
            if self.tunings.iter().all(|known| known.name != resolved.name) {
                self.watch(&resolved)?;
                self.tunings.push(resolved);
            }
        }
        if self.changes.iter().all(|(known, _)| known != treatment.changes) {
            let resolved = changes::resolve(treatment.changes, &self.machine)?;
            resolved.iter().try_for_each(|resolved| self.watch(resolved))?;
            self.changes.push((treatment.changes.to_vec(), resolved));
        }
        Ok(())
    }

    fn watch(&mut self, tuning: &Resolved) -> Result<(), TuningError> {
        for wanted in tuning.wanted.iter().filter(|wanted| wanted.setting.has_state()) {
            if self.watched.iter().all(|watched| watched.setting != wanted.setting) {
                self.watched.push(Watched {
                    label: wanted.label.clone(),
                    setting: wanted.setting.clone(),
                    original: self.machine.value_of(&wanted.setting)?,
                });
            }
        }
        Ok(())
    }

    /// Applies a treatment in its order: all of it or nothing. It first puts back what was applied before.
    ///
    /// # Errors
    /// When the kernel does not take a value, a command fails, or the journal cannot be written.
    pub fn apply(&mut self, treatment: Treatment<'_>) -> Result<(), TuningError> {
        let before = self.put_back()?;
        if !before.failed.is_empty() {
            return Err(TuningError::StillChanged {
                trouble: before.failed,
                journal: run_journal(&self.state),
            });
        }
        let tunings: Vec<Resolved> = self.named(treatment).cloned().collect();
        if tunings.iter().all(|tuning| tuning.wanted.is_empty()) {
            return Ok(());
        }
        let journal = self.journal.insert(Journal::create(&run_journal(&self.state))?);
        signals::set_last_words(Some(STILL_CHANGED));
        for tuning in &tunings {
            if let Err(error) = transaction::apply(&self.machine, journal, tuning) {
                return Err(error.but(self.put_back()?.failed));
            }
        }
        if let Err(error) = transaction::look_for_effect(&self.machine, &tunings) {
            return Err(error.but(self.put_back()?.failed));
        }
        self.applied = Some((treatment.tunings.to_vec(), treatment.changes.to_vec()));
        Ok(())
    }

    /// Puts back all that the journal names, and says what somebody else has changed meanwhile, or could not be put
    /// back. Settings that could not be put back stay in the journal, and the next call tries again.
    ///
    /// # Errors
    /// When the journal cannot be removed or rewritten.
    pub fn put_back(&mut self) -> Result<PutBack, TuningError> {
        let Some(journal) = &mut self.journal else { return Ok(PutBack::default()) };
        let applied = self.applied.take();
        let outcome = put_back(&self.machine, &self.state, journal.entries());
        self.trouble.clone_from(&outcome.failed);
        self.overwritten.extend(outcome.overwritten.iter().cloned());
        if outcome.still_due.is_empty() {
            journal.remove()?;
            self.journal = None;
            signals::set_last_words(None);
        } else {
            journal.retain(&outcome.still_due)?;
        }
        if let Some((tunings, changes)) = applied.filter(|_| outcome.failed.is_empty()) {
            self.wait_for_originals(Treatment { tunings: &tunings, changes: &changes });
        }
        Ok(outcome)
    }

    /// Waits until no `verify` shows the changes any more. If that takes too long, the next slot's evidence says so.
    fn wait_for_originals(&self, treatment: Treatment<'_>) {
        for wanted in self.named(treatment).flat_map(|tuning| &tuning.wanted) {
            if let Setting::Shell(shell) = &wanted.setting
                && wanted.setting.is_look()
            {
                let is_back = |now: &str| !wanted.is_met_by(now);
                let _ = transaction::seen(&self.machine, &wanted.setting, shell.timeout_ms, is_back);
            }
        }
    }

    /// The value that would prove a change by this `verify`: one value for each variant that has it.
    pub(crate) fn proofs<'a>(&'a self, setting: &'a Setting) -> impl Iterator<Item = &'a Wanted> {
        let all = self.changes.iter().flat_map(|(_, resolved)| resolved).flat_map(|tuning| &tuning.wanted);
        all.filter(|wanted| wanted.setting.is_look() && wanted.setting == *setting)
    }

    /// The values of all settings that any variant changes, now.
    #[must_use]
    pub fn look(&self) -> SettingValues {
        SettingValues(
            self.watched.iter().map(|watched| self.machine.value_of(&watched.setting).ok()).collect(),
        )
    }

    /// The settings that could not be put back and are still changed, in sentences.
    #[must_use]
    pub fn trouble(&self) -> &[String] {
        &self.trouble
    }

    /// Files that others overwrote while they were changed, in sentences.
    #[must_use]
    pub fn overwritten(&self) -> &[String] {
        &self.overwritten
    }

    /// Where the journal is.
    #[must_use]
    pub fn state(&self) -> &StateDirectory {
        &self.state
    }

    /// The parts of some tunings that this machine lacks, in sentences.
    #[must_use]
    pub fn left_out(&self, treatment: Treatment<'_>) -> Vec<String> {
        let sentence = |tuning: &Resolved| {
            let parts = tuning.left_out.join("; ");
            (!parts.is_empty())
                .then(|| format!("host tuning {}: left out on this machine: {parts}", tuning.name))
        };
        self.named(treatment).filter_map(sentence).collect()
    }

    pub(crate) fn named<'a>(&'a self, treatment: Treatment<'a>) -> impl Iterator<Item = &'a Resolved> {
        let tuning = |name: &String| self.tunings.iter().find(|tuning| tuning.name == *name);
        let changes = self.changes.iter().find(|(changes, _)| changes == treatment.changes);
        let changes = changes.map_or(&[][..], |(_, resolved)| resolved);
        treatment.tunings.iter().filter_map(tuning).chain(changes)
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether the treatment that was applied last is this one and was not put back.
    #[must_use]
    pub fn is_still_applied(&self, treatment: Treatment<'_>) -> bool {
        let is_it = |(tunings, changes): &(Vec<String>, Vec<UserChange>)| {
            *treatment.tunings == **tunings && *treatment.changes == **changes
        };
        self.journal.is_some() && self.applied.as_ref().is_some_and(is_it)
    }
}

impl Drop for Tuner {
    fn drop(&mut self) {
        // A caller that drops it without asking has no use for the answer; the journal is still there if this fails.
        let _ = self.put_back();
    }
}
