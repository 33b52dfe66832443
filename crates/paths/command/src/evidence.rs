//! The evidence that a slot ran what was asked: the same program as in the first slot, to ends that are accepted.

use plumb_model::{Evidence, Measurement, facts, statements};

use crate::load::{PROGRAM, PROGRAM_BEFORE};
use crate::settings::CommandSettings;
use crate::tally::ENDING;

statements! {
    SAME_PROGRAM = "program": PROGRAM, "the same in every slot{before}", "{now}";
    SUCCEEDED = "succeeded": "runs that succeeded", "at least 1, with exit code {exit}", "{succeeded}: {endings}";
}

/// Proof that a slot did what was asked.
pub fn evidence(settings: &CommandSettings, measurement: &Measurement) -> Vec<Evidence> {
    vec![program(measurement), endings(settings, measurement)]
}

/// A program that is built anew or updated in the middle of a run makes two variants of one.
fn program(measurement: &Measurement) -> Evidence {
    let values =
        |property| -> Vec<&str> { measurement.values_of(property).map(|(value, _)| value).collect() };
    let (now, before) = (values(PROGRAM), values(PROGRAM_BEFORE));
    let holds = now.len() == 1 && before.is_empty();
    let before = before.first().map_or_else(String::new, |before| format!(": {before}"));
    SAME_PROGRAM.evidence(holds, facts![before, now = now.join(", ")])
}

fn endings(settings: &CommandSettings, measurement: &Measurement) -> Evidence {
    let endings = measurement.values_of(ENDING);
    let words: Vec<String> = endings.map(|(ending, count)| format!("{ending} ({count})")).collect();
    let succeeded = measurement.work;
    let (exit, endings) = (settings.load.exit.to_string(), words.join(", "));
    SUCCEEDED.evidence(succeeded > 0, facts![exit, succeeded, endings])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(observed: &[(&str, &str)]) -> Measurement {
        let of =
            |(property, value): &(&str, &str)| ((*property).to_owned(), [((*value).to_owned(), 3)].into());
        Measurement { work: 3, observed: observed.iter().map(of).collect(), ..Measurement::default() }
    }

    fn broken(measurement: &Measurement) -> Vec<String> {
        let evidence = evidence(&CommandSettings::default(), measurement);
        evidence.into_iter().filter(|evidence| !evidence.holds).map(|evidence| evidence.what).collect()
    }

    #[test]
    fn one_program_in_all_slots_holds_and_a_changed_one_does_not() {
        let same = [(PROGRAM, "/bin/a with hash 1"), (ENDING, "exit code 0")];
        assert_eq!(broken(&measurement(&same)), [""; 0]);
        let changed = [same[0], same[1], (PROGRAM_BEFORE, "/bin/a with hash 2")];
        assert_eq!(broken(&measurement(&changed)), [PROGRAM]);
        let none = Measurement { work: 0, ..measurement(&[]) };
        assert_eq!(broken(&none), [PROGRAM, "runs that succeeded"]);
    }
}
