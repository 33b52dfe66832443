//! Evidence of a slot: each setting that any variant changes, read before, during and after.
//!
//! Also in slots of variants that do not change it: a setting that somebody else turns on in the baseline's slots
//! makes a comparison as worthless as one that was never on.

use plumb_model::Evidence;

use crate::tuner::{Sight, Tuner};

impl Tuner {
    /// Evidence that the tunings of a variant were in effect from the window's opening to its close, and those of others
    /// were not, and that everything was as before afterwards.
    #[must_use]
    pub fn evidence(&self, names: &[String], sights: &[Sight; 4]) -> Vec<Evidence> {
        let mut labels: Vec<&str> = Vec::new();
        for watched in &self.watched {
            if !labels.contains(&watched.label.as_str()) {
                labels.push(&watched.label);
            }
        }
        let settings = labels.into_iter().map(|label| self.of_label(label, names, sights));
        let checked = self.named(names).filter_map(|tuning| {
            let words = tuning.checked.clone()?;
            let what = format!("host: {}", tuning.name);
            Some(Evidence { what, expected: words.clone(), observed: words, holds: true })
        });
        settings.chain(checked).collect()
    }

    /// The settings of one label together: what differs between them stands side by side.
    fn of_label(&self, label: &str, names: &[String], sights: &[Sight; 4]) -> Evidence {
        let mut expected = Vec::new();
        let mut observed: [Vec<String>; 4] = Default::default();
        let mut holds = true;
        let members = self.watched.iter().enumerate().filter(|(_, watched)| watched.label == label);
        for (at, watched) in members {
            let wanted = self
                .named(names)
                .flat_map(|tuning| &tuning.wanted)
                .filter(|wanted| wanted.setting == watched.setting)
                .last();
            let due = wanted.map_or(&watched.original, |wanted| &wanted.value);
            add(&mut expected, due);
            let [before, opened, closed, after] = [0, 1, 2, 3].map(|sight| sights[sight].0[at].as_ref());
            holds &= opened == Some(due) && closed == Some(due) && before == after;
            for (values, value) in observed.iter_mut().zip([before, opened, closed, after]) {
                add(values, value.map_or("unreadable", String::as_str));
            }
        }
        let observed = history(&observed.map(|values| values.join(", ")));
        Evidence { what: format!("host: {label}"), expected: expected.join(", "), observed, holds }
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
