//! Evidence of a slot: each setting that any variant changes, read before, during and after.
//!
//! Also in slots of variants that do not change it: a setting that somebody else turns on in the baseline's slots
//! makes a comparison as worthless as one that was never on.

use plumb_model::{Evidence, facts, statements};

use crate::treatment::Treatment;
use crate::tuner::{SettingValues, Tuner, Watched};

statements! {
    SETTING = "host-setting": "host: {of}", "{asked}", "{seen}";
}

impl Tuner {
    /// Evidence that the treatment of a variant was in effect from the window's opening to its close, and those of others
    /// were not, and that everything was as before afterwards. What `stays` for the variant's next slot is not asked to be.
    #[must_use]
    pub fn evidence(
        &self,
        treatment: Treatment<'_>,
        stays: bool,
        values: &[SettingValues; 4],
    ) -> Vec<Evidence> {
        let mut labels: Vec<&str> = Vec::new();
        for watched in &self.watched {
            if self.concerns(watched, treatment) && !labels.contains(&watched.label.as_str()) {
                labels.push(&watched.label);
            }
        }
        let settings = labels.into_iter().map(|label| self.of_label(label, treatment, stays, values));
        let checked = self.named(treatment).filter_map(|tuning| {
            let checked = tuning.checked.as_deref()?;
            Some(SETTING.evidence(true, facts![of = tuning.name.as_str(), asked = checked, seen = checked]))
        });
        settings.chain(checked).collect()
    }

    /// Whether a slot of a treatment has to show a setting. A variant's change may also alter what the `verify` of another variant
    /// shows, so a variant with changes is asked only for its own.
    fn concerns(&self, watched: &Watched, treatment: Treatment<'_>) -> bool {
        let mut own = self.named(treatment).flat_map(|tuning| &tuning.wanted);
        !watched.setting.is_look()
            || treatment.changes.is_empty()
            || own.any(|wanted| wanted.setting == watched.setting)
    }

    /// The settings of one label together: what differs between them stands side by side.
    fn of_label(
        &self,
        label: &str,
        treatment: Treatment<'_>,
        stays: bool,
        values: &[SettingValues; 4],
    ) -> Evidence {
        let mut expected = Vec::new();
        let mut observed: [Vec<String>; 4] = Default::default();
        let mut holds = true;
        let is_member = |watched: &Watched| watched.label == label && self.concerns(watched, treatment);
        let members = self.watched.iter().enumerate().filter(|(_, watched)| is_member(watched));
        for (at, watched) in members {
            let wanted = self
                .named(treatment)
                .flat_map(|tuning| &tuning.wanted)
                .filter(|wanted| wanted.setting == watched.setting)
                .last();
            let Watched { setting, original, .. } = watched;
            let shown = |value: &String| self.machine().shown(setting, value);
            // Without the change, what a program shows may be anything that does not prove the change.
            let proof = self.proofs(setting).next().filter(|_| wanted.is_none());
            let words = match (wanted, proof) {
                (Some(wanted), _) => wanted.shown(self.machine()),
                (None, Some(proof)) => format!("not {}", proof.shown(self.machine())),
                (None, None) => shown(original),
            };
            add(&mut expected, &words);
            let [before, opened, closed, after] = [0, 1, 2, 3].map(|moment| values[moment].0[at].as_ref());
            let is_due = |value: Option<&String>| {
                value.is_some_and(|value| match wanted {
                    Some(wanted) => wanted.is_met_by(value),
                    None if proof.is_some() => !self.proofs(setting).any(|proof| proof.is_met_by(value)),
                    None => value == original,
                })
            };
            let is_back = stays || before == after || setting.is_look();
            holds &= is_due(opened) && is_due(closed) && is_back;
            for (values, value) in observed.iter_mut().zip([before, opened, closed, after]) {
                add(values, &value.map_or_else(|| "unreadable".to_owned(), shown));
            }
        }
        let observed = observed.map(|values| values.join(", "));
        let observed = match &observed {
            [_, opened, closed, _] if stays && opened == closed => format!("{opened} during"),
            observed => history(observed),
        };
        SETTING.evidence(holds, facts![of = label, asked = expected.join(", "), seen = observed])
    }
}

/// The values before, when the window opened, when it closed, and afterwards, in as few words as there are changes.
fn history([before, opened, closed, after]: &[String; 4]) -> String {
    if opened != closed {
        return format!(
            "{before} before, {opened} when the window opened, {closed} when it closed, {after} afterwards"
        );
    }
    if before == opened && opened == after {
        return format!("{opened} before, during and after");
    }
    format!("{before} before, {opened} during, {after} after")
}

fn add(values: &mut Vec<String>, value: &str) {
    if values.iter().all(|known| known != value) {
        values.push(value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_says_what_changed_and_when() {
        let say = |values: [&str; 4]| history(&values.map(str::to_owned));
        assert_eq!(say(["0", "0", "0", "0"]), "0 before, during and after");
        assert_eq!(say(["0", "50", "50", "0"]), "0 before, 50 during, 0 after");
        assert_eq!(
            say(["0", "50", "7", "7"]),
            "0 before, 50 when the window opened, 7 when it closed, 7 afterwards"
        );
    }
}
