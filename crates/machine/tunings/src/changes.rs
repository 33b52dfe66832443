//! Changes that users define, as settings with the values that they should have: from there on they are tunings.

use std::path::Path;

use plumb_host::settings::contents::{Contents, is_kernels, owner_number};
use plumb_host::settings::secrets::{has_secrets, in_single_quotes, malformed};
use plumb_host::settings::{Action, Machine, RUNNING, Setting, Shell, normal_words};
use plumb_model::user_change::{
    CommandChange, FileChange, KubernetesChange, ServiceAction, ServiceChange, SysctlChange, TIMEOUT, Verify,
};
use plumb_model::{Span, UserChange};
use regex::Regex;

use crate::found::{Resolved, Wanted};
use crate::treatment::Treatment;
use crate::{TuningError, find};

/// The rights of a file that is made.
const NEW_FILE: u32 = 0o644;

/// Something wrong with a change that no machine could mend: the key, and what would be right.
pub type ChangeFault = (&'static str, String);

/// The mistake in a change as it was written.
///
/// # Errors
/// The first fault.
pub fn check(change: &UserChange) -> Result<(), ChangeFault> {
    match change {
        UserChange::Command(change) => check_command(change),
        UserChange::File(change) => check_file(change),
        UserChange::Sysctl(SysctlChange { values, .. }) => {
            if values.is_empty() {
                return Err((
                    "sysctl",
                    "`sysctl` needs a name with its value, such as `{ net.core.busy_read: 50 }`".to_owned(),
                ));
            }
            values.iter().try_for_each(|(name, value)| check_sysctl(name, value))
        }
        UserChange::Service(ServiceChange { name, timeout, verify, .. }) => {
            verify.as_ref().map_or(Ok(()), check_verify)?;
            let fits = |character: char| character.is_ascii_alphanumeric() || "@._:-".contains(character);
            if name.is_empty() || name.starts_with(['-', '.']) || !name.chars().all(fits) {
                return Err(("name", format!("`{name}` is not the name of a service, such as `nginx`")));
            }
            check_timeout(*timeout)
        }
        UserChange::Kubernetes(change) => check_kubernetes(change),
    }
}

fn check_kubernetes(change: &KubernetesChange) -> Result<(), ChangeFault> {
    let KubernetesChange { name, patch, env, timeout, .. } = change;
    if name.is_empty() || name.contains('/') {
        return Err(("name", format!("`{name}` is not the name of an object")));
    }
    if patch.is_none() && env.is_empty() {
        return Err((
            "kind",
            "nothing is changed: add `patch`, or `env` for environment variables".to_owned(),
        ));
    }
    if patch.as_ref().is_some_and(|patch| !patch.is_map()) {
        return Err(("patch", "a patch is a mapping, such as `{ spec: { replicas: 2 } }`".to_owned()));
    }
    check_timeout(*timeout)
}

fn check_command(change: &CommandChange) -> Result<(), ChangeFault> {
    let CommandChange { apply, revert, verify, expect, matches, timeout, place: _ } = change;
    for (key, line) in [("apply", apply), ("revert", revert), ("verify", verify)] {
        check_line(key, line)?;
    }
    check_printed("verify", expect.as_deref(), matches.as_deref())?;
    check_timeout(*timeout)
}

/// Checks what a command should print.
fn check_printed(
    command: &'static str,
    expect: Option<&str>,
    matches: Option<&str>,
) -> Result<(), ChangeFault> {
    match (expect, matches) {
        (Some(_), Some(_)) => {
            return Err(("matches", "give only one of `expect` and `matches`".to_owned()));
        }
        (None, None) => {
            let message = format!(
                "nothing says what `{command}` prints once the change is made, so it could not be proven: add \
                 `expect` with that text, or `matches` with a regular expression"
            );
            return Err((command, message));
        }
        (None, Some(pattern)) if has_secrets(pattern) => {
            return Err((
                "matches",
                "a secret cannot be part of a regular expression; use `expect`".to_owned(),
            ));
        }
        (None, Some(pattern)) => drop(expression("matches", pattern)?),
        (Some(text), None) if normal_words(text).is_empty() => {
            return Err(("expect", "an empty text proves nothing; have `verify` print something".to_owned()));
        }
        (Some(text), None) => check_references("expect", text)?,
    }
    Ok(())
}

fn check_verify(verify: &Verify) -> Result<(), ChangeFault> {
    let Verify { command, expect, matches, url, status, header, length, insecure } = verify;
    let is_asked = status.is_some() || header.is_some() || length.is_some();
    match (command, url) {
        (Some(line), None) if !is_asked && !insecure => {
            check_line("command", line)?;
            check_printed("command", expect.as_deref(), matches.as_deref())
        }
        (None, Some(url)) if is_asked && expect.is_none() && matches.is_none() => {
            let is_text = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\'');
            if !url.starts_with("http://") && !url.starts_with("https://") || !is_text(url) {
                return Err(("url", format!("`{url}` is not an address such as `https://localhost:8443/`")));
            }
            // The address is among the arguments of a process, which everybody may read.
            if has_secrets(url) || header.as_deref().is_some_and(has_secrets) {
                return Err((
                    "url",
                    "a secret cannot be part of `url` or `header`; use `command`".to_owned(),
                ));
            }
            match header.as_deref().map(|header| (header, header.split_once(':'))) {
                Some((_, Some((name, _)))) if !name.is_empty() && name.bytes().all(is_token) => Ok(()),
                Some((header, _)) => {
                    Err(("header", format!("`{header}` is not a header such as `Server: nginx`")))
                }
                None => Ok(()),
            }
        }
        _ => {
            let message = "it needs either `command` with `expect` or `matches`, or `url` with at least one of `status`, `header` \
                           and `length`";
            Err(("verify", message.to_owned()))
        }
    }
}

/// The characters in the name of a header (RFC 9110, 5.6.2), without the marks that a shell reads.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

fn check_file(change: &FileChange) -> Result<(), ChangeFault> {
    let FileChange { path, contents, replace, with, mode, owner, reload, verify, timeout, place: _ } = change;
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") || path.ends_with('/') {
        return Err((
            "path",
            format!("`{path}` is not the whole path of a file; write one such as `/etc/nginx/nginx.conf`"),
        ));
    }
    if is_kernels(path) {
        return Err((
            "path",
            format!("`{path}` is the kernel's; use `sysctl`, `command`, or a tuning of `plumb tune list`"),
        ));
    }
    match (contents, replace, with) {
        (Some(text), None, None) => check_references("contents", text)?,
        (None, Some(pattern), Some(line)) => {
            if line.contains('\n') {
                return Err((
                    "with",
                    "the new line has a line break in it; use `contents` for more than one line".to_owned(),
                ));
            }
            expression("replace", pattern)?;
            check_references("with", line)?;
        }
        _ => {
            let message = "a file needs either `contents`, or `replace` (a regular expression for one line) and `with` (the new line)";
            return Err(("path", message.to_owned()));
        }
    }
    if let Some(mode) = mode {
        octal(mode)?;
    }
    if owner.as_ref().is_some_and(|owner| owner.split(':').any(str::is_empty) || owner.split(':').count() > 2)
    {
        return Err(("owner", "an owner is a user, or a user and a group, such as `root:adm`".to_owned()));
    }
    if let Some(line) = reload {
        check_line("reload", line)?;
    }
    if let Some(verify) = verify {
        check_verify(verify)?;
    }
    check_timeout(*timeout)
}

fn check_sysctl(name: &str, value: &str) -> Result<(), ChangeFault> {
    let fits = |character: char| character.is_ascii_alphanumeric() || "._-/:@".contains(character);
    if name.is_empty() || name.contains("..") || name.starts_with(['/', '.']) || !name.chars().all(fits) {
        return Err((
            "sysctl",
            format!("`{name}` is not the name of a sysctl, such as `net.core.busy_read`"),
        ));
    }
    if normal_words(value).is_empty() || has_secrets(value) {
        return Err(("sysctl", format!("`{name}` needs a value, such as `50`; it cannot be a secret")));
    }
    Ok(())
}

fn check_line(key: &'static str, line: &str) -> Result<(), ChangeFault> {
    if line.trim().is_empty() {
        return Err((key, format!("`{key}` is empty; it needs a command")));
    }
    if let Some(reference) = in_single_quotes(line) {
        return Err((
            key,
            format!(
                "{reference} stands in single quotes, where the shell fills in nothing; use double quotes"
            ),
        ));
    }
    check_references(key, line)
}

fn check_references(key: &'static str, text: &str) -> Result<(), ChangeFault> {
    match malformed(text) {
        Some(wrong) => {
            Err((key, format!("`{wrong}` names no secret; write `${{env:NAME}}` or `${{file:/whole/path}}`")))
        }
        None => Ok(()),
    }
}

fn check_timeout(timeout: Option<Span>) -> Result<(), ChangeFault> {
    match timeout {
        Some(Span(0)) => Err(("timeout", "the time for a command must be longer than 0 s".to_owned())),
        _ => Ok(()),
    }
}

fn expression(key: &'static str, pattern: &str) -> Result<Regex, ChangeFault> {
    Regex::new(pattern).map_err(|error| {
        let error = error.to_string();
        // The library's message draws the place over several lines; the last one says what is wrong.
        let last = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
        (key, format!("`{pattern}` is not a regular expression: {last}"))
    })
}

fn octal(mode: &str) -> Result<u32, ChangeFault> {
    let number = u32::from_str_radix(mode, 8).ok().filter(|mode| *mode <= 0o7777);
    number.ok_or_else(|| ("mode", format!("`{mode}` is not the rights of a file in octal, such as `0644`")))
}

/// A treatment as settings of this machine: its tunings, and behind them its changes. Nothing is changed.
///
/// # Errors
/// When this machine cannot have one of them.
pub fn resolve_treatment(treatment: Treatment<'_>, machine: &Machine) -> Result<Vec<Resolved>, TuningError> {
    let tunings = treatment.tunings.iter().map(|name| find(name)?.resolve(machine));
    let mut resolved = tunings.collect::<Result<Vec<_>, _>>()?;
    resolved.extend(resolve(treatment.changes, machine)?);
    Ok(resolved)
}

/// A list of changes as settings of this machine. Nothing is changed.
///
/// # Errors
/// When this machine cannot have one of them, or its present value cannot be read.
pub(crate) fn resolve(changes: &[UserChange], machine: &Machine) -> Result<Vec<Resolved>, TuningError> {
    let mut resolved: Vec<Resolved> = Vec::new();
    for change in changes {
        let wanted = wanted(change, machine, &resolved).map_err(|error| TuningError::Impossible {
            tuning: change.to_string(),
            reason: error.to_string(),
        })?;
        resolved.push(Resolved { name: change.to_string(), wanted, ..Resolved::default() });
    }
    Ok(resolved)
}

/// Why this machine cannot have a change.
#[derive(Debug, thiserror::Error)]
enum ChangeError {
    #[error("failed to {_0}")]
    Host(#[from] plumb_host::Error),
    #[error("failed to find {path}: {cause}")]
    NoPath { path: String, cause: std::io::Error },
    #[error("it is {_0} and not running; start it first")]
    NotRunning(String),
    #[error("`verify` printed {_0:?} and then {_1:?}, though nothing was changed: make its output stable")]
    Unstable(String, String),
    #[error("this host has no user or group {_0}")]
    NoOwner(String),
    #[error("{}", _0.1)]
    Fault(ChangeFault),
    #[error("a line of {_0} is to be replaced, and that file does not exist")]
    NoFile(String),
    #[error("no line of {path} matches `{pattern}`")]
    NoLine { path: String, pattern: String },
    #[error("{} lines of {path} match `{pattern}` ({}); make the expression match only one", lines.len(), lines.join(", "))]
    SeveralLines { path: String, pattern: String, lines: Vec<String> },
}

fn wanted(change: &UserChange, machine: &Machine, earlier: &[Resolved]) -> Result<Vec<Wanted>, ChangeError> {
    let wanted = match change {
        // Made by the runner and not on a host.
        UserChange::Kubernetes(_) => Vec::new(),
        UserChange::Command(change) => vec![of_command(change)],
        UserChange::File(change) => of_file(change, machine, earlier)?,
        UserChange::Sysctl(SysctlChange { values, .. }) => {
            let of_pair = |(key, value): (&String, &String)| {
                let setting = Setting::sysctl(key);
                Wanted::exactly(&setting.to_string(), setting, &Setting::sysctl_value(key, value))
            };
            values.iter().map(of_pair).collect()
        }
        UserChange::Service(ServiceChange { name, action, timeout, verify, .. }) => {
            let action = Action::service(name, *action == ServiceAction::Restart, timeout_ms(*timeout))?;
            let service = Wanted::exactly(&format!("service {name}"), Setting::Action(action), RUNNING);
            [Some(service), of_verify(verify.as_ref(), *timeout)?].into_iter().flatten().collect()
        }
    };
    for Wanted { setting, .. } in &wanted {
        let now = machine.value_of(setting)?;
        if setting.is_action() && now != RUNNING {
            return Err(ChangeError::NotRunning(now));
        }
        // A value that changes by itself can never be seen to be back.
        let again = if setting.is_command() { machine.value_of(setting).ok() } else { None };
        if let Some(again) = again.filter(|again| *again != now) {
            let [now, again] = [now, again].map(|value| machine.shown(setting, &value));
            return Err(ChangeError::Unstable(now, again));
        }
        machine.may_write(setting)?;
    }
    Ok(wanted)
}

fn of_command(change: &CommandChange) -> Wanted {
    let CommandChange { apply, revert, verify, expect, matches, timeout, .. } = change;
    let [apply, revert, verify] = [apply, revert, verify].map(Clone::clone);
    let setting = Setting::Shell(Shell { apply, revert, verify, timeout_ms: timeout_ms(*timeout) });
    let label = setting.to_string();
    match (expect, matches) {
        (_, Some(pattern)) => Wanted { is_pattern: true, ..Wanted::exactly(&label, setting, pattern) },
        (text, None) => Wanted::exactly(&label, setting, &normal_words(text.as_deref().unwrap_or_default())),
    }
}

fn of_verify(verify: Option<&Verify>, timeout: Option<Span>) -> Result<Option<Wanted>, ChangeError> {
    let Some(verify) = verify else { return Ok(None) };
    let (line, label, expect) = match &verify.url {
        None => {
            let line = verify.command.clone().unwrap_or_default();
            (line.clone(), format!("`{line}`"), verify.expect.clone().unwrap_or_default())
        }
        Some(url) => {
            let program = std::env::current_exe()
                .map_err(|cause| ChangeError::NoPath { path: "plumb".to_owned(), cause })?;
            let header = verify.header.as_ref().and_then(|header| header.split_once(':'));
            let header = header.map(|(name, value)| (name.to_ascii_lowercase(), value.trim()));
            let asked = [
                verify.status.map(|status| ("status".to_owned(), format!("status {status}"))),
                verify.length.map(|length| ("length".to_owned(), format!("length {length}"))),
                header.map(|(name, value)| (format!("header:{name}"), format!("{name}: {value}"))),
            ];
            let (shown, words): (Vec<String>, Vec<String>) = asked.into_iter().flatten().unzip();
            let insecure = if verify.insecure { " --insecure" } else { "" };
            let program = program.display().to_string().replace('\'', "'\\''");
            let line = format!("'{program}' answer{insecure} --show {} -- '{url}'", shown.join(","));
            (line, format!("answer of {url}"), words.join(" "))
        }
    };
    let setting = Setting::Shell(Shell::look(line, timeout_ms(timeout)));
    Ok(Some(match &verify.matches {
        Some(pattern) => Wanted { is_pattern: true, ..Wanted::exactly(&label, setting, pattern) },
        None => Wanted::exactly(&label, setting, &normal_words(&expect)),
    }))
}

fn of_file(change: &FileChange, machine: &Machine, earlier: &[Resolved]) -> Result<Vec<Wanted>, ChangeError> {
    let path = machine.whole_path(Path::new(&change.path));
    let path = path.map_err(|cause| ChangeError::NoPath { path: change.path.clone(), cause })?;
    let setting = Setting::Contents(path.display().to_string());
    let mut before = earlier.iter().rev().flat_map(|resolved| &resolved.wanted);
    let now = match before.find(|wanted| wanted.setting == setting) {
        Some(wanted) => wanted.value.clone(),
        None => machine.value_of(&setting)?,
    };
    let now = Contents::of_value(&now);
    let text = new_text(change, now.as_ref().map(|now| now.text.as_str()))?;
    let text = machine.secrets().filled_in(&text)?;
    let mut contents = now.unwrap_or_else(|| Contents::new_file(NEW_FILE));
    contents.text = text;
    if let Some(mode) = &change.mode {
        contents.mode = octal(mode).map_err(ChangeError::Fault)?;
    }
    if let Some(owner) = &change.owner {
        let number = |name: &str, is_group| {
            owner_number(name, is_group).ok_or_else(|| ChangeError::NoOwner(name.to_owned()))
        };
        let (user, group) =
            owner.split_once(':').map_or((owner.as_str(), None), |(user, group)| (user, Some(group)));
        contents.uid = number(user, false)?;
        contents.gid = group.map_or(Ok(contents.gid), |group| number(group, true))?;
    }
    let mut wanted = vec![Wanted::exactly(&setting.to_string(), setting, &contents.value())];
    if let Some(command) = change.reload.clone() {
        let action = Action::Reload { command, timeout_ms: timeout_ms(change.timeout) };
        wanted.push(Wanted::exactly(&action.to_string(), Setting::Action(action), RUNNING));
    }
    wanted.extend(of_verify(change.verify.as_ref(), change.timeout)?);
    Ok(wanted)
}

/// The text that a file should have.
fn new_text(change: &FileChange, now: Option<&str>) -> Result<String, ChangeError> {
    let (Some(pattern), Some(line)) = (&change.replace, &change.with) else {
        return Ok(change.contents.clone().unwrap_or_default());
    };
    let path = &change.path;
    let now = now.ok_or_else(|| ChangeError::NoFile(path.clone()))?;
    let expression = expression("replace", pattern).map_err(ChangeError::Fault)?;
    let lines: Vec<&str> = now.split('\n').collect();
    let found: Vec<usize> =
        (0..lines.len()).filter(|&at| !lines[at].is_empty() && expression.is_match(lines[at])).collect();
    match found.as_slice() {
        [at] => {
            let new =
                lines.iter().enumerate().map(|(number, old)| if number == *at { line.as_str() } else { old });
            Ok(new.collect::<Vec<_>>().join("\n"))
        }
        [] => Err(ChangeError::NoLine { path: path.clone(), pattern: pattern.clone() }),
        several => {
            let lines = several.iter().map(|at| (at + 1).to_string()).collect();
            Err(ChangeError::SeveralLines { path: path.clone(), pattern: pattern.clone(), lines })
        }
    }
}

fn timeout_ms(timeout: Option<Span>) -> u64 {
    timeout.unwrap_or(TIMEOUT).0.div_ceil(1_000_000)
}
