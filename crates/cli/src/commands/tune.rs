//! `plumb tune`: what a host can be set to, applied until it is put back.

mod listing;

use std::fmt::Write;

use plumb_host::settings::journal::Entry;
use plumb_host::signals::Interrupts;
use plumb_tunings::{
    Asked, InEffect, Machine, PutBack, StateDirectory, TuningError, apply_to_stay, find, in_effect,
    in_effect_of_run, recover, revert,
};
use serde_json::json;

use crate::args::tune::TuneCommand;
use crate::exit::{FAILED, Failure, HOLDS, Outcome};
use crate::output;

/// Lists, applies or ends tunings.
pub fn tune(command: &TuneCommand) -> Outcome {
    let (machine, state) = (Machine::this(), StateDirectory::of_user());
    match command {
        TuneCommand::List(arguments) => listing::list(&machine, arguments.json),
        TuneCommand::Status(arguments) => status(&machine, &state, arguments.json),
        TuneCommand::Apply { names } => apply(&machine, &state, names),
        TuneCommand::Revert => {
            let done = revert(&machine, &state).map_err(failure)?;
            output::result(&describe(&machine, &done))?;
            Ok(if done.failed.is_empty() { HOLDS } else { FAILED })
        }
    }
}

/// Puts back what a killed plumb left on this host, and says so. Nothing is measured on a host that is not as it was, unless it
/// `may_be_changed`.
pub fn put_back_leftovers(may_be_changed: bool) -> Result<(), Failure> {
    let machine = Machine::this();
    let state = StateDirectory::of_user();
    let done = recover(&machine, &state).map_err(failure)?;
    if done != PutBack::default() {
        output::message("an earlier plumb left changes on this host; undoing them:");
        output::message(describe(&machine, &done).trim_end());
    }
    if done.failed.is_empty() || may_be_changed {
        return Ok(());
    }
    Err(Failure::harness(format!(
        "put this host back as it was, so nothing is measured on it: mend that, then run `plumb tune revert`; or remove its \
         journal in {}",
        state.path().display()
    )))
}

fn failure(error: TuningError) -> Failure {
    match error {
        TuningError::Name(message) => Failure::usage(message),
        TuningError::Impossible { .. } => Failure::usage(format!("failed to {error}")),
        error => Failure::harness(error),
    }
}

fn apply(machine: &Machine, state: &StateDirectory, names: &[String]) -> Outcome {
    let asked: Vec<Asked> = names.iter().map(|name| find(name)).collect::<Result<_, _>>().map_err(failure)?;
    // Ctrl-C in the middle would leave a part; it is over in a moment.
    let _interrupts = Interrupts::install().map_err(Failure::harness)?;
    let made = apply_to_stay(machine, state, &asked).map_err(failure)?;
    let mut text = String::new();
    for made in made {
        let name = &made.tuning.name;
        // Writing to a String cannot fail.
        let _ = match &made.tuning.checked {
            Some(checked) => writeln!(text, "{name}: {checked}"),
            None if made.changes.is_empty() => {
                writeln!(text, "{name}: this machine has all its values already")
            }
            None => writeln!(text, "{name}:"),
        };
        if let Some(source) = made.tuning.source {
            let _ = writeln!(text, "  from {source}");
        }
        for entry in &made.changes {
            let _ = writeln!(text, "  {}: {} → {}", entry.setting, entry.old, entry.new);
        }
        for left_out in &made.tuning.left_out {
            let _ = writeln!(text, "  left out: {left_out}");
        }
    }
    output::result(&text)?;
    if !in_effect(machine, state).map_err(failure)?.is_empty() {
        output::message("in effect until `plumb tune revert` or the next boot");
    }
    Ok(HOLDS)
}

fn status(machine: &Machine, state: &StateDirectory, as_json: bool) -> Outcome {
    let staying = in_effect(machine, state).map_err(failure)?;
    let of_run = in_effect_of_run(machine, state).map_err(failure)?;
    let shown = |it: &InEffect, value: &str| machine.shown(&it.entry.setting, value);
    if as_json {
        let row = |it: &InEffect, is_of_run: bool| {
            let now = it.now.as_ref().map(|now| shown(it, now));
            json!({ "tuning": it.entry.tuning, "setting": it.entry.setting.to_string(),
                    "before": shown(it, &it.entry.old), "set": shown(it, &it.entry.new), "now": now,
                    "as_set": it.now.as_ref() == Some(&it.entry.new), "of_run": is_of_run })
        };
        let rows = staying.iter().map(|it| row(it, false)).chain(of_run.iter().map(|it| row(it, true)));
        let rows: Vec<_> = rows.collect();
        output::json(&json!({ "format": "plumbline.tuning-status/1", "in_effect": rows }))?;
        return Ok(HOLDS);
    }
    if staying.is_empty() && of_run.is_empty() {
        output::result("no tunings are in effect")?;
        return Ok(HOLDS);
    }
    let mut text = String::new();
    for it in &staying {
        let InEffect { entry, now } = it;
        let now = match now {
            Some(now) if *now == entry.new => String::new(),
            Some(now) => format!("; somebody else has set it to {}", shown(it, now)),
            None => "; it cannot be read now".to_owned(),
        };
        let (old, new) = (shown(it, &entry.old), shown(it, &entry.new));
        let _ = writeln!(text, "{}: {}: {old} → {new}{now}", entry.tuning, entry.setting);
    }
    for it in &of_run {
        let now = it.now.as_ref().map_or_else(|| "unreadable".to_owned(), |now| shown(it, now));
        let old = shown(it, &it.entry.old);
        let _ = writeln!(text, "changed by a run: {}: {old} → {now}", it.entry.setting);
    }
    output::result(&text)?;
    Ok(HOLDS)
}

fn describe(machine: &Machine, done: &PutBack) -> String {
    let mut text = String::new();
    for Entry { setting, old, new, .. } in &done.restored {
        // Writing to a String cannot fail.
        let _ = match setting.is_action() {
            true => writeln!(text, "{setting}: done again"),
            false => {
                writeln!(text, "{setting}: {} → {}", machine.shown(setting, new), machine.shown(setting, old))
            }
        };
    }
    for sentence in done.sentences() {
        let _ = writeln!(text, "{sentence}");
    }
    if text.is_empty() { "nothing had to be put back".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_applied_is_said_in_one_line_and_nothing_is_changed() {
        let directory = tempfile::tempdir().unwrap();
        let path = |path: &str| directory.path().join(path);
        for (file, text) in
            [("root/proc/sys/net/core/busy_read", "0\n"), ("state/tunings-that-stay.jsonl", "hello\n")]
        {
            std::fs::create_dir_all(path(file).parent().unwrap()).unwrap();
            std::fs::write(path(file), text).unwrap();
        }
        let (machine, broken) = (Machine::of_files(&path("root")), StateDirectory::at(&path("state")));
        let said = |state: &StateDirectory, names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let Failure { code, message, .. } = apply(&machine, state, &names).unwrap_err();
            format!("{code} {message}").replace(directory.path().to_str().unwrap(), "…")
        };
        let state = StateDirectory::at(&path("other"));
        insta::assert_snapshot!(said(&state, &["busy-read", "governor"]), @"2 failed to apply governor: this machine has no cpufreq: the kernel does not control the CPUs' clock");
        insta::assert_snapshot!(said(&state, &["busyread"]), @"2 no tuning is named `busyread`; did you mean `busy-read`?");
        insta::assert_snapshot!(said(&state, &["tunnel-type"]), @"2 `tunnel-type` is not a setting of the host; set `system.kind` and `system.tunnel` of the data path `network`");
        insta::assert_snapshot!(said(&state, &["sysctl=no.such=1"]), @"2 failed to apply sysctl=no.such=1: no.such: this machine has no such setting");
        insta::assert_snapshot!(said(&state, &["rings=nosuch0"]), @"2 failed to apply rings=nosuch0: nosuch0: there is no such network interface");
        insta::assert_snapshot!(said(&broken, &["busy-read"]), @"5 failed to read …/state/tunings-that-stay.jsonl: line 1 does not belong in a journal: expected value at line 1 column 1");
        assert_eq!(std::fs::read_to_string(path("root/proc/sys/net/core/busy_read")).unwrap(), "0\n");
    }
}
