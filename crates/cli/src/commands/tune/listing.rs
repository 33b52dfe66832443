//! `plumb tune list`: the catalogue, with what this machine can do of it.

use std::fmt::Write;

use plumb_tunings::{Argument, Machine, Purpose, Resolved, Tuning, TuningError, catalogue, find};
use serde_json::{Value, json};

use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Text fits a terminal of this width.
const WIDTH: usize = 100;
/// Where texts begin, behind `changes`, `needs` and so on.
const TEXT_COLUMN: usize = 11;

pub fn list(machine: &Machine, as_json: bool) -> Outcome {
    let rows: Vec<Row> = catalogue().iter().map(|tuning| Row::on_machine(tuning, machine)).collect();
    if as_json {
        let rows: Vec<Value> = rows.iter().map(Row::json).collect();
        output::json(&json!({ "format": "plumbline.tuning-list/1", "tunings": rows }))?;
    } else {
        let texts: Vec<String> = rows.iter().map(|row| wrapped(&row.text())).collect();
        output::result(&texts.join("\n"))?;
    }
    Ok(HOLDS)
}

struct Row {
    tuning: &'static Tuning,
    here: Here,
}

/// A tuning on this machine.
enum Here {
    /// It can be applied, or is in effect already.
    Possible {
        settings: Vec<(String, String, String)>,
        left_out: Vec<String>,
        source: Option<&'static str>,
        in_effect: bool,
    },
    /// It looked, and all is well.
    Checked(String),
    /// It needs an argument to say.
    Depends,
    Impossible(String),
    /// It is set elsewhere.
    Elsewhere(&'static str),
}

impl Row {
    fn on_machine(tuning: &'static Tuning, machine: &Machine) -> Self {
        let here = match (tuning.purpose, tuning.argument) {
            (Purpose::System(place), _) => Here::Elsewhere(place),
            (_, Argument::Required(_)) => Here::Depends,
            _ => match find(tuning.name).and_then(|asked| asked.resolve(machine)) {
                Ok(Resolved { checked: Some(words), .. }) => Here::Checked(words),
                Ok(resolved) => possible(&resolved, machine),
                Err(TuningError::Impossible { reason, .. }) => Here::Impossible(reason),
                Err(error) => Here::Impossible(error.to_string()),
            },
        };
        Self { tuning, here }
    }

    fn text(&self) -> String {
        let Tuning { name, argument, changes, needs, risks, .. } = self.tuning;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = match argument {
            Argument::None => writeln!(text, "{name}"),
            Argument::Optional(what) => writeln!(text, "{name}[=…]  {what}"),
            Argument::Required(what) => writeln!(text, "{name}=…  {what}"),
        };
        let _ = writeln!(text, "  changes  {changes}\n  needs    {needs}\n  risks    {risks}");
        let _ = match &self.here {
            Here::Elsewhere(place) => writeln!(text, "  set in   {place}"),
            Here::Depends => Ok(()),
            Here::Checked(words) => writeln!(text, "  here     ✔ {words}"),
            Here::Impossible(reason) => writeln!(text, "  here     not possible: {reason}"),
            Here::Possible { settings, left_out, source, in_effect } => {
                let state = if *in_effect { "this machine has all its values already" } else { "possible" };
                let source = source.map_or_else(String::new, |source| format!(", by {source}"));
                let _ = writeln!(text, "  here     {state}{source}");
                for (label, now, value) in settings.iter().filter(|(_, now, value)| now != value) {
                    let _ = writeln!(text, "           {label}: {now} → {value}");
                }
                left_out.iter().try_for_each(|line| writeln!(text, "           left out: {line}"))
            }
        };
        text
    }

    fn json(&self) -> Value {
        let Tuning { name, argument, changes, needs, risks, .. } = self.tuning;
        let argument = match argument {
            Argument::None => None,
            Argument::Optional(what) | Argument::Required(what) => Some(what),
        };
        let (state, reason) = match &self.here {
            Here::Possible { in_effect: true, .. } => ("in-effect", None),
            Here::Possible { .. } => ("possible", None),
            Here::Checked(words) => ("checked", Some(words.as_str())),
            Here::Depends => ("depends", Some("it needs an argument")),
            Here::Impossible(reason) => ("impossible", Some(reason.as_str())),
            Here::Elsewhere(place) => ("elsewhere", Some(*place)),
        };
        let (settings, left_out) = match &self.here {
            Here::Possible { settings, left_out, .. } => (settings.clone(), left_out.clone()),
            _ => (Vec::new(), Vec::new()),
        };
        let row = |(label, now, value): &(String, String, String)| json!({ "what": label, "now": now, "sets": value });
        json!({ "name": name, "argument": argument, "changes": changes, "needs": needs, "risks": risks, "state": state, "reason": reason,
                "settings": settings.iter().map(row).collect::<Vec<_>>(), "left_out": left_out })
    }
}

/// Lines of at most [`WIDTH`] characters; what does not fit goes on below its text.
fn wrapped(text: &str) -> String {
    let mut wrapped = String::new();
    for line in text.lines() {
        let indent = text_column(line);
        let mut column = 0;
        for (at, word) in line.split(' ').enumerate() {
            let length = word.chars().count();
            if at > 0 && column > indent && column + 1 + length > WIDTH {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(indent));
                column = indent;
            } else if at > 0 {
                wrapped.push(' ');
                column += 1;
            }
            wrapped.push_str(word);
            column += length;
        }
        wrapped.push('\n');
    }
    wrapped
}

/// Where the text of a line begins: behind its key, or behind its blanks where it has none.
fn text_column(line: &str) -> usize {
    let blanks = line.chars().take_while(|character| *character == ' ').count();
    if blanks == 0 || blanks >= TEXT_COLUMN { blanks.max(2) } else { TEXT_COLUMN }
}

/// Settings of one label that have the same values are one line.
fn possible(resolved: &Resolved, machine: &Machine) -> Here {
    let mut settings: Vec<(String, String, String)> = Vec::new();
    for wanted in &resolved.wanted {
        let now = machine.value_of(&wanted.setting).unwrap_or_default();
        let row = (wanted.label.clone(), now, wanted.value.clone());
        if !settings.contains(&row) {
            settings.push(row);
        }
    }
    Here::Possible {
        settings,
        left_out: resolved.left_out.clone(),
        source: resolved.source,
        in_effect: resolved.is_in_effect(machine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_fit_and_go_on_below_their_text() {
        let here = Here::Possible {
            settings: vec![
                (
                    "vm.dirty_background_ratio or dirty_background_bytes".to_owned(),
                    "0".to_owned(),
                    "0".to_owned(),
                ),
                (
                    "vm.dirty_background_ratio or dirty_background_bytes".to_owned(),
                    "dirty_background_ratio=10".to_owned(),
                    "dirty_background_ratio=3".to_owned(),
                ),
            ],
            left_out: Vec::new(),
            source: None,
            in_effect: false,
        };
        let row = Row { tuning: &catalogue()[0], here };
        let text = wrapped(&row.text());
        let (_, here) = text.split_once("  here ").unwrap();
        assert_eq!(
            here,
            "    possible\n           vm.dirty_background_ratio or dirty_background_bytes: dirty_background_ratio=10 →\n           \
             dirty_background_ratio=3\n"
        );
    }

    #[test]
    fn every_row_fits_100_columns() {
        let machine = Machine::of_files(std::path::Path::new("/nowhere"));
        for tuning in catalogue() {
            let text = wrapped(&Row::on_machine(tuning, &machine).text());
            assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        }
    }
}
