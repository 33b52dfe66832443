//! Tunings of the host in a run: the variants that this machine cannot have, and the steps around each slot.

use plumb_model::{Evidence, Notice, PlannedVariant};
use plumb_tunings::{
    Machine, PutBack, Resolved, SettingValues, StateDirectory, Treatment, Tuner, TuningError,
};

use serde::{Deserialize, Serialize};

use crate::error::HostError;

/// Why a variant's changes are pointless on a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    /// The host cannot have them.
    Impossible(String),
    /// The host already has them.
    Already(String),
}

/// Why this machine cannot have a variant's changes, or that it already has them.
pub(crate) fn impossible(variant: &PlannedVariant, base: Option<&PlannedVariant>) -> Option<Obstacle> {
    let machine = &Machine::this();
    let resolved = match plumb_tunings::resolve(treatment(variant), machine) {
        Ok(resolved) => resolved,
        Err(error) => return Some(Obstacle::Impossible(reason(error))),
    };
    already(variant, base, &resolved, machine).or_else(|| {
        let mut changes = resolved[variant.tunings.len()..].iter();
        let is_own = base.is_none_or(|base| base.changes != variant.changes);
        changes.find_map(|change| change.proven_before(machine)).filter(|_| is_own).map(Obstacle::Impossible)
    })
}

/// Whether this machine already has all that a variant changes.
fn already(
    variant: &PlannedVariant,
    base: Option<&PlannedVariant>,
    resolved: &[Resolved],
    machine: &Machine,
) -> Option<Obstacle> {
    let base =
        base.filter(|base| base.settings == variant.settings && treatment(base) != treatment(variant))?;
    let (tunings, changes) = resolved.split_at(variant.tunings.len());
    // The effect of one list of changes over another is unknown before they are applied.
    if base.changes != variant.changes && !base.changes.is_empty() {
        return None;
    }
    let own: Vec<&Resolved> = tunings
        .iter()
        .filter(|tuning| !base.tunings.contains(&tuning.name))
        .chain(changes.iter().filter(|_| base.changes != variant.changes))
        .filter(|tuning| !tuning.wanted.is_empty())
        .collect();
    let changes_nothing = own.iter().any(|tuning| tuning.has_values())
        && base.tunings.iter().all(|name| variant.tunings.contains(name))
        && own.iter().all(|tuning| !tuning.has_values() || tuning.is_in_effect(machine));
    // Nobody can tell for commands: the machine may have their values, or `verify` may show something else.
    let are_commands = own.iter().flat_map(|tuning| &tuning.wanted).all(|wanted| wanted.setting.is_command());
    (changes_nothing && !are_commands).then(|| {
        let names: Vec<&str> = own.iter().map(|tuning| tuning.name.as_str()).collect();
        let names = names.join(" and ");
        Obstacle::Already(format!("this machine already has all values of {names}"))
    })
}

/// The treatment in effect during a variant's slots.
pub fn treatment(variant: &PlannedVariant) -> Treatment<'_> {
    Treatment { tunings: &variant.tunings, changes: &variant.changes }
}

/// An error as the reason of a skipped variant.
fn reason(error: TuningError) -> String {
    match error {
        TuningError::Impossible { tuning, reason } => format!("{tuning} is not possible here: {reason}"),
        TuningError::Refused { tuning, reason, .. } => format!("{tuning} was tried: {reason}"),
        other => other.to_string(),
    }
}

/// A tuner of this host for these treatments.
pub(crate) fn open(treatments: &[Treatment<'_>]) -> Result<Tuner, HostError> {
    Ok(Tuner::open(Machine::this(), StateDirectory::of_user(), treatments)?)
}

/// Applies a treatment and undoes it. Returns the reason if the machine refuses it.
pub(crate) fn try_one(tuner: &mut Tuner, treatment: Treatment<'_>) -> Result<Option<String>, HostError> {
    let refused = match tuner.apply(treatment) {
        Ok(()) => None,
        Err(error @ TuningError::Refused { .. }) => Some(reason(error)),
        Err(error) => return Err(error.into()),
    };
    let back = put_back_whole(tuner)?;
    Ok(refused.or_else(|| back.sentences().into_iter().next()))
}

/// Applies a variant's treatment, unless it is still in effect from the previous slot. Returns the settings
/// from before it.
pub(crate) fn begin(tuner: &mut Tuner, treatment: Treatment<'_>) -> Result<SettingValues, HostError> {
    if tuner.is_still_applied(treatment) {
        return Ok(tuner.look());
    }
    tuner.put_back()?;
    let before = tuner.look();
    tuner.apply(treatment)?;
    Ok(before)
}

/// A slot's evidence and notices about a treatment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// The values read back.
    pub evidence: Vec<Evidence>,
    /// Tunings that were left out, and settings that could not be put back.
    pub notices: Vec<Notice>,
}

impl Proof {
    /// The same proof with the host's name, for a host without the system, whose settings others may share.
    pub fn on(self, host: &str) -> Self {
        Self {
            evidence: self.evidence.into_iter().map(|evidence| evidence.on(host)).collect(),
            notices: self.notices.into_iter().map(|notice| notice.attributed_to(host)).collect(),
        }
    }

    /// The proofs of several hosts as one.
    pub fn together(proofs: Vec<Self>) -> Self {
        let mut together = Self::default();
        for Self { evidence, notices } in proofs {
            together.evidence.extend(evidence);
            together.notices.extend(notices);
        }
        together
    }
}

/// Undoes tunings after a slot.
///
/// Users' changes often take longer than a slot, such as the restart of a service. They stay until a slot of
/// another variant.
pub(crate) fn undo(tuner: &mut Tuner, treatment: Treatment<'_>, is_ok: bool) -> Result<PutBack, HostError> {
    if stays(treatment) && is_ok {
        return Ok(PutBack::default());
    }
    Ok(tuner.put_back()?)
}

fn stays(treatment: Treatment<'_>) -> bool {
    !treatment.changes.is_empty()
}

/// The proof from the settings before the window, at its ends, and afterwards.
pub(crate) fn prove(
    tuner: &Tuner,
    treatment: Treatment<'_>,
    before: SettingValues,
    seen: Option<(SettingValues, SettingValues)>,
    back: PutBack,
) -> Result<Proof, HostError> {
    let (opened, closed) = seen.ok_or(HostError::Unseen)?;
    let after = tuner.look();
    let evidence = tuner.evidence(treatment, stays(treatment), &[before, opened, closed, after]);
    let texts = tuner.left_out(treatment).into_iter().chain(back.sentences());
    Ok(Proof { evidence, notices: texts.map(Notice::text).collect() })
}

/// The tunings that `plumb tune apply` has in effect, independent of any run; `None` if there are none.
pub(crate) fn in_effect() -> Option<String> {
    let found = plumb_tunings::in_effect(&Machine::this(), &StateDirectory::of_user()).ok()?;
    let mut names: Vec<String> = found.into_iter().map(|it| it.entry.tuning).collect();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}

/// Ends a run; an error if a setting could not be restored.
pub(crate) fn all_is_back(tuner: Option<Tuner>) -> Result<(), HostError> {
    tuner.map_or(Ok(()), |mut tuner| put_back_whole(&mut tuner).map(drop))
}

/// Restores all changed settings; an error if that fails. With a setting still changed, measurements would
/// come from another machine than the report says.
pub(crate) fn put_back_whole(tuner: &mut Tuner) -> Result<PutBack, HostError> {
    let back = tuner.put_back()?;
    match (tuner.trouble(), tuner.overwritten()) {
        ([], []) => Ok(back),
        ([], overwritten) => Err(HostError::Overwritten(overwritten.to_vec())),
        (trouble, _) => Err(HostError::NotRestored {
            trouble: trouble.to_vec(),
            journal: tuner.state().path().to_owned(),
        }),
    }
}
