//! Checks that no single field of the settings can make.

use std::collections::BTreeSet;
use std::path::PathBuf;

use plumb_host::process::which;
use plumb_path::{SettingsFault, Sides};

use crate::extract::Extractor;
use crate::metrics::METRICS;
use crate::program::{NoProgram, Program};
use crate::settings::{CommandSettings, Exits, LoadSettings, MetricSettings, Shell, SystemSettings};
use crate::words::{NotWords, split};

/// The runner itself waits a minute for a system.
const SYSTEM_TIMEOUT_NS_MAX: u64 = 55_000_000_000;

/// Checks what no single field can, as far as commands do not matter.
///
/// # Errors
/// The first fault, with the key that it is about.
pub fn check(settings: &CommandSettings) -> Result<(), SettingsFault> {
    check_parameters(settings)?;
    check_load(&settings.load)?;
    for (name, metric) in &settings.load.metrics {
        check_metric(name, metric)?;
    }
    check_system(&settings.system)
}

/// Checks the command as it is run.
///
/// # Errors
/// As [`check`].
pub fn check_resolved(settings: &CommandSettings) -> Result<(), SettingsFault> {
    check_command(&settings.load)
}

fn check_parameters(settings: &CommandSettings) -> Result<(), SettingsFault> {
    let is_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let is_name = |name: &&String| !name.is_empty() && name.chars().all(is_word);
    match settings.load.parameters.keys().find(|name| !is_name(name)) {
        Some(name) => Err(SettingsFault::new(
            format!("load.parameters.{name}"),
            format!("`{name}` is not a name; a parameter's name is letters, digits and `_`"),
        )),
        None => Ok(()),
    }
}

fn check_command(load: &LoadSettings) -> Result<(), SettingsFault> {
    let fault = |message: String| Err(SettingsFault::new("load.command", message));
    if load.command.contains('\0') {
        return fault("a command cannot have a NUL character in it".to_owned());
    }
    if load.shell == Shell::Sh {
        return if load.command.trim().is_empty() { fault(EMPTY.to_owned()) } else { Ok(()) };
    }
    match split(&load.command) {
        Ok(_) => Ok(()),
        Err(NotWords::Empty) => fault(EMPTY.to_owned()),
        Err(NotWords::Unclosed) => fault("a quote is not closed, or nothing follows a backslash".to_owned()),
        Err(NotWords::Shell(part)) => fault(format!(
            "`{part}` needs a shell, and the command is started without one; set `shell: sh` (`--shell sh`), or quote it"
        )),
    }
}

const EMPTY: &str = "the command is empty; write a program and its arguments, such as `sleep 0.05`";

fn check_load(load: &LoadSettings) -> Result<(), SettingsFault> {
    if load.duration.0 == 0 {
        return Err(SettingsFault::new("load.duration", "must be longer than 0"));
    }
    if load.timeout.0 == 0 {
        return Err(SettingsFault::new("load.timeout", "must be longer than 0"));
    }
    if load.runs == Some(0) {
        return Err(SettingsFault::new("load.runs", "must be at least 1"));
    }
    if let Exits::Codes(codes) = &load.exit
        && (codes.is_empty() || codes.iter().any(|code| !(0..=255).contains(code)))
    {
        return Err(SettingsFault::new(
            "load.exit",
            "an exit code is a number from 0 to 255; name at least one, or `any`",
        ));
    }
    let is_name = |name: &String| !name.is_empty() && !name.contains(['=', '\0']);
    if let Some(name) = load.env.keys().find(|name| !is_name(name)) {
        return Err(SettingsFault::new(
            "load.env",
            format!("`{name}` is not the name of an environment variable"),
        ));
    }
    if let Some(name) = load.inherit.iter().find(|name| !is_name(name)) {
        return Err(SettingsFault::new(
            "load.inherit",
            format!("`{name}` is not the name of an environment variable"),
        ));
    }
    match load.env.iter().find(|(_, value)| value.contains('\0')) {
        Some((name, _)) => {
            Err(SettingsFault::new("load.env", format!("the value of `{name}` has a NUL character in it")))
        }
        None => Ok(()),
    }
}

fn check_metric(name: &str, metric: &MetricSettings) -> Result<(), SettingsFault> {
    let fault = |message: String| Err(SettingsFault::new(format!("load.metrics.{name}"), message));
    let is_word =
        |character: char| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '_';
    if !name.starts_with(|first: char| first.is_ascii_lowercase()) || !name.chars().all(is_word) {
        let message = format!(
            "`{name}` is not a name; a metric's name is a small letter and then small letters, digits and `_`"
        );
        return fault(message);
    }
    if METRICS.iter().any(|known| known.name == name) {
        return fault(format!("every command has a metric `{name}`; choose another name"));
    }
    match Extractor::new(name, metric, None) {
        Ok(_) => Ok(()),
        Err(error) => {
            let key = error.key().map(|key| format!(".{key}")).unwrap_or_default();
            Err(SettingsFault::new(format!("load.metrics.{name}{key}"), error))
        }
    }
}

fn check_system(system: &SystemSettings) -> Result<(), SettingsFault> {
    let empty = |command: &Option<String>| command.as_ref().is_some_and(|text| text.trim().is_empty());
    for (key, command) in [("start", &system.start), ("ready", &system.ready), ("stop", &system.stop)] {
        if empty(command) {
            return Err(SettingsFault::new(format!("system.{key}"), "the command is empty"));
        }
        if command.is_some() && system.start.is_none() {
            let message = format!("`{key}` goes with `start`, the command that starts the system");
            return Err(SettingsFault::new(format!("system.{key}"), message));
        }
    }
    if !(1..=SYSTEM_TIMEOUT_NS_MAX).contains(&system.timeout.0) {
        return Err(SettingsFault::new("system.timeout", "must be longer than 0 and at most 55 s"));
    }
    Ok(())
}

/// Something that this host lacks for a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Lacking {
    #[error("there is no shell `sh` on PATH")]
    Shell,
    #[error("there is no directory {}", _0.display())]
    Directory(PathBuf),
    #[error("the environment variable `{_0}`, which `inherit` names, is not set")]
    Variable(String),
    #[error(transparent)]
    Program(#[from] NoProgram),
}

/// Whether this host has the program.
///
/// # Errors
/// When it lacks something.
pub(crate) fn feasible(settings: &CommandSettings, at: Sides) -> Result<(), Lacking> {
    let load = &settings.load;
    let hooks = [&load.setup, &load.prepare, &load.cleanup];
    let of_load = load.shell == Shell::Sh || hooks.iter().any(|hook| hook.is_some());
    let needs_shell = at.load && of_load || at.system && settings.system.start.is_some();
    if needs_shell && which("sh").is_none() {
        return Err(Lacking::Shell);
    }
    // They may make the program first.
    if !at.load || load.setup.is_some() || load.prepare.is_some() || settings.system.start.is_some() {
        return Ok(());
    }
    if let Some(directory) = load.directory.as_ref().filter(|directory| !directory.is_dir()) {
        return Err(Lacking::Directory(directory.clone()));
    }
    let unset: BTreeSet<&String> =
        load.inherit.iter().filter(|name| std::env::var_os(name).is_none()).collect();
    if let Some(name) = unset.first() {
        return Err(Lacking::Variable((*name).clone()));
    }
    Program::from_settings(load)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use plumb_model::{Better, Span};
    use plumb_path::Settings;

    use super::*;

    fn settings(command: &str) -> CommandSettings {
        let mut settings = CommandSettings::default();
        settings.load.command = command.to_owned();
        settings
    }

    fn metric(regex: Option<&str>, pointer: Option<&str>) -> MetricSettings {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let (regex, pointer) = (own(regex), own(pointer));
        let (format, value) = (None, None);
        MetricSettings {
            from: "stdout".to_owned(),
            regex,
            pointer,
            format,
            value,
            unit: None,
            better: Better::Lower,
        }
    }

    #[test]
    fn a_pipe_without_a_shell_is_refused_and_with_one_it_is_not() {
        let check = Settings::check;
        let fault = check(&settings("seq 10 | wc")).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "load.command: `|` needs a shell, and the command is started without one; set `shell: sh` (`--shell sh`), or quote it"
        );
        let mut with_shell = settings("seq 10 | wc");
        with_shell.load.shell = Shell::Sh;
        assert_eq!(check(&with_shell), Ok(()));
        for empty in ["", "  ", "''"] {
            assert_eq!(check(&settings(empty)).unwrap_err().key, "load.command", "{empty:?}");
        }
    }

    #[test]
    fn a_command_is_checked_with_the_values_of_its_parameters() {
        let mut with = settings("sleep {n}");
        with.load.parameters.insert("n".to_owned(), "1 | wc".to_owned());
        assert_eq!(with.check().unwrap_err().key, "load.command");
        with.load.parameters.insert("n".to_owned(), "1".to_owned());
        assert_eq!(with.check(), Ok(()));
        with.load.parameters.insert("a.b".to_owned(), "1".to_owned());
        assert_eq!(with.check().unwrap_err().key, "load.parameters.a.b");
    }

    #[test]
    fn each_fault_is_at_its_key() {
        let key = |change: fn(&mut CommandSettings)| {
            let mut changed = settings("true");
            change(&mut changed);
            check(&changed).unwrap_err().key
        };
        assert_eq!(key(|it| it.load.duration = Span(0)), "load.duration");
        assert_eq!(key(|it| it.load.runs = Some(0)), "load.runs");
        assert_eq!(key(|it| it.load.exit = Exits::Codes(vec![300])), "load.exit");
        assert_eq!(key(|it| it.load.exit = Exits::Codes(Vec::new())), "load.exit");
        assert_eq!(key(|it| it.load.inherit = vec!["A=b".to_owned()]), "load.inherit");
        assert_eq!(key(|it| it.system.ready = Some("true".to_owned())), "system.ready");
        assert_eq!(key(|it| it.system.timeout = Span(60_000_000_000)), "system.timeout");
    }

    #[test]
    fn a_metric_that_cannot_be_read_is_refused() {
        let fault = |name: &str, metric: MetricSettings| {
            let mut declared = settings("true");
            declared.load.metrics.insert(name.to_owned(), metric);
            check(&declared).unwrap_err().to_string()
        };
        assert!(fault("wall_time", metric(Some("(a)"), None)).contains("choose another name"));
        assert!(fault("Rps", metric(Some("(a)"), None)).starts_with("load.metrics.Rps: "));
        assert!(fault("rps", metric(None, None)).contains("`regex`, `pointer` and `format`"));
        assert!(fault("rps", metric(Some("(a)"), Some("/a"))).contains("`regex`, `pointer` and `format`"));
        assert!(fault("rps", metric(Some("a"), None)).starts_with("load.metrics.rps.regex: "));
        assert!(fault("rps", metric(Some("(a"), None)).starts_with("load.metrics.rps.regex: "));
        assert!(fault("rps", metric(None, Some("a"))).starts_with("load.metrics.rps.pointer: "));
        let unit = MetricSettings { unit: Some("parsec".to_owned()), ..metric(Some("(a)"), None) };
        assert!(fault("rps", unit).starts_with("load.metrics.rps.unit: "));
    }

    #[test]
    fn a_program_that_is_not_there_is_not_feasible_unless_something_may_make_it() {
        feasible(&settings("true"), Sides::BOTH).unwrap();
        let mut missing = settings("no-such-program-1 x");
        assert!(feasible(&missing, Sides::BOTH).unwrap_err().to_string().contains("no-such-program-1"));
        feasible(&missing, Sides { system: true, load: false }).expect("the load is elsewhere");
        missing.load.setup = Some("make".to_owned());
        feasible(&missing, Sides::BOTH).unwrap();
        let mut unset = settings("true");
        unset.load.inherit = vec!["PLUMB_NO_SUCH_VARIABLE".to_owned()];
        assert!(feasible(&unset, Sides::BOTH).unwrap_err().to_string().contains("PLUMB_NO_SUCH_VARIABLE"));
    }
}
