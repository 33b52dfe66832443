//! The configuration of a program: plumb's own template or the user's, filled in, with the user's lines in their sections.

use std::path::Path;

use plumb_host::named_file;
use plumb_path::SettingsFault;
use twox_hash::XxHash3_64;

use crate::settings::ConfigSettings;

/// The longest template, in bytes.
pub(super) const LONG_TEMPLATE: u64 = 1 << 20;

/// How a program's configuration is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dialect {
    /// The sections to which lines may be added.
    pub sections: &'static [&'static str],
    /// The placeholders that a template may have, and whether each is required.
    pub placeholders: &'static [(&'static str, bool)],
    /// Whether sections are blocks in braces, and do not begin with a word at a line's start.
    pub has_braces: bool,
    /// plumb's own configuration.
    pub template: &'static str,
    /// The command that writes placeholders into a configuration, for a message.
    pub converter: &'static str,
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConfigError {
    /// The template cannot be read.
    #[error("failed to {_0}")]
    Unreadable(plumb_host::Error),
    #[error("plumb has nothing for {{{{{name}}}}}; there are {known}")]
    Unknown { name: String, known: String },
    #[error(
        "this configuration has no placeholders, and plumb needs {missing} to start the program with it; {converter}to measure a \
         server that runs with it, use `kind: external`, with `changes` to its file"
    )]
    NoPlaceholders { missing: String, converter: &'static str },
    #[error("the template needs {missing}, or plumb could not use the program; there are {known}")]
    Missing { missing: String, known: String },
    #[error("the template has no section `{section}`, for which `config` has lines")]
    NoSection { section: String },
}

/// Checks what can be said without the program.
///
/// # Errors
/// The first fault.
pub(super) fn check(config: &ConfigSettings, dialect: Option<Dialect>) -> Result<(), SettingsFault> {
    if config.is_empty() {
        return Ok(());
    }
    let fault =
        |key: &str, message: String| Err(SettingsFault::new(format!("system.ingress.config{key}"), message));
    let Some(dialect) = dialect else {
        return fault("", "only `kind: haproxy` and `kind: nginx` take a configuration".to_owned());
    };
    if let Some((name, _)) = config.lines().iter().find(|(name, _)| !dialect.sections.contains(name)) {
        let sections = dialect.sections.join("`, `");
        return fault(
            &format!(".{name}"),
            format!("this program has no section `{name}` here; it has `{sections}`"),
        );
    }
    if config.template.is_some() && config.path.is_some() {
        return fault(".path", "give only one of `template` and `path`".to_owned());
    }
    if config.path.as_ref().is_some_and(|path| !path.starts_with('/')) {
        return fault(".path", "a template needs its whole path, which begins with `/`".to_owned());
    }
    if config.template.is_none() && config.path.is_none() {
        return Ok(());
    }
    let (key, template) =
        if config.path.is_some() { (".path", template(config)) } else { (".template", template(config)) };
    let checked = template.and_then(|template| check_template(&template.unwrap_or_default(), dialect));
    checked.or_else(|error| fault(key, error.to_string()))
}

fn check_template(template: &str, dialect: Dialect) -> Result<(), ConfigError> {
    let names = placeholders(template);
    let known = || {
        dialect.placeholders.iter().map(|(name, _)| format!("{{{{{name}}}}}")).collect::<Vec<_>>().join(", ")
    };
    if let Some(unknown) =
        names.iter().find(|name| dialect.placeholders.iter().all(|(known, _)| known != *name))
    {
        return Err(ConfigError::Unknown { name: (*unknown).to_owned(), known: known() });
    }
    let needed = dialect.placeholders.iter().filter(|(name, is_needed)| *is_needed && !names.contains(name));
    let missing: Vec<String> = needed.map(|(name, _)| format!("{{{{{name}}}}}")).collect();
    match missing.as_slice() {
        [] => Ok(()),
        _ if names.is_empty() => {
            Err(ConfigError::NoPlaceholders { missing: missing.join(", "), converter: dialect.converter })
        }
        _ => Err(ConfigError::Missing { missing: missing.join(", "), known: known() }),
    }
}

/// The names between `{{` and `}}`.
fn placeholders(template: &str) -> Vec<&str> {
    let parts = template.split("{{").skip(1);
    parts.filter_map(|part| Some(part.split_once("}}")?.0)).collect()
}

/// The user's template, if there is one.
fn template(config: &ConfigSettings) -> Result<Option<String>, ConfigError> {
    let Some(path) = &config.path else { return Ok(config.template.clone()) };
    let text = named_file::text_at_most(Path::new(path), LONG_TEMPLATE);
    text.map(Some).map_err(ConfigError::Unreadable)
}

/// The text of a configuration.
///
/// # Errors
/// When the user's template cannot be read, or lacks a section.
pub(super) fn text(
    config: &ConfigSettings,
    dialect: Dialect,
    values: &[(&str, String)],
) -> Result<String, ConfigError> {
    let template = template(config)?;
    let mut text = template.unwrap_or_else(|| dialect.template.to_owned());
    for (name, value) in values {
        text = text.replace(&format!("{{{{{name}}}}}"), value);
    }
    config.lines().into_iter().try_fold(text, |text, (section, lines)| {
        with_lines(&text, dialect, section, lines)
            .ok_or_else(|| ConfigError::NoSection { section: section.to_owned() })
    })
}

/// The text with lines at the end of the first section of that name, and without the section's own lines of the same
/// directives; `None` if the section does not exist.
fn with_lines(text: &str, dialect: Dialect, section: &str, lines: &str) -> Option<String> {
    let new = trimmed(lines);
    let span = if dialect.has_braces { block(text, section) } else { titled(text, section) };
    let (begin, end) = span?;
    let all: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut depth = 0_usize;
    for (at, line) in all.iter().enumerate() {
        if at == end {
            out.extend(new.iter().map(|line| format!("    {line}")));
        }
        let is_own = (begin..end).contains(&at) && depth == 0 && !opens(line);
        if (begin..end).contains(&at) && dialect.has_braces {
            depth = (depth + usize::from(opens(line))).saturating_sub(usize::from(closes(line)));
        }
        if !(is_own && new.iter().any(|new| directive(new) == directive(line))) {
            out.push((*line).to_owned());
        }
    }
    if end == all.len() {
        out.extend(new.iter().map(|line| format!("    {line}")));
    }
    Some(out.join("\n") + "\n")
}

fn trimmed(lines: &str) -> Vec<&str> {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

fn opens(line: &str) -> bool {
    line.trim_end().ends_with('{')
}

fn closes(line: &str) -> bool {
    line.trim() == "}"
}

/// From which line on the first block of that name has lines, and where it ends; `main` is all of the text.
fn block(text: &str, name: &str) -> Option<(usize, usize)> {
    if name == "main" {
        return Some((0, text.lines().position(opens)?));
    }
    let is_it = |line: &str| opens(line) && line.split_whitespace().next() == Some(name);
    let begin = text.lines().position(is_it)? + 1;
    let mut depth = 1_usize;
    let end = text.lines().skip(begin).position(|line| {
        depth = depth + usize::from(opens(line)) - usize::from(closes(line));
        depth == 0
    })?;
    Some((begin, begin + end))
}

/// The same of a section that begins with its name at a line's start. Empty lines at its end are not part of it.
fn titled(text: &str, name: &str) -> Option<(usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let is_title = |line: &&str| !line.is_empty() && !line.starts_with([' ', '\t', '#']);
    let begin =
        lines.iter().position(|line| is_title(line) && line.split_whitespace().next() == Some(name))? + 1;
    let next = lines[begin..].iter().position(is_title).map_or(lines.len(), |at| begin + at);
    let last = lines[begin..next].iter().rposition(|line| !line.trim().is_empty());
    Some((begin, last.map_or(begin, |last| begin + last + 1)))
}

/// Words before which a directive is not complete: there may be several, such as one timeout of each kind.
const SEVERAL: [&str; 9] = [
    "timeout",
    "option",
    "stats",
    "http-request",
    "http-response",
    "proxy_set_header",
    "server",
    "listen",
    "bind",
];

/// The directive that a line sets: lines of the same directive exclude each other.
fn directive(line: &str) -> Vec<&str> {
    let mut words = line.trim().trim_end_matches(';').split_whitespace();
    let first = words.next().unwrap_or_default();
    let second = words.next().filter(|_| SEVERAL.contains(&first));
    std::iter::once(first).chain(second).collect()
}

/// The state of a system that says what [`expected`] expects.
pub const CONFIG_STATE: &str = "config";

/// The summary of a configuration that evidence shows, given its text with the port 0 everywhere; `None` for plumb's own.
pub(super) fn expected(
    config: &ConfigSettings,
    text: impl FnOnce() -> Result<String, ConfigError>,
) -> Option<String> {
    let of_text = |text: String| summary(config, &text);
    (!config.is_empty()).then(|| text().map_or_else(|error| error.to_string(), of_text))
}

/// A configuration in a few words, as evidence shows it: its hash, and the user's lines.
fn summary(config: &ConfigSettings, text: &str) -> String {
    let mut parts =
        vec![format!("{} lines of hash {:016x}", text.lines().count(), XxHash3_64::oneshot(text.as_bytes()))];
    parts.extend(
        config
            .lines()
            .into_iter()
            .map(|(section, lines)| format!("{section}: {}", trimmed(lines).join(" / "))),
    );
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::{haproxy, nginx};
    use super::*;

    #[test]
    fn lines_go_to_the_end_of_their_section_and_replace_its_own() {
        let with = |dialect, text: &str, section, lines| with_lines(text, dialect, section, lines).unwrap();
        let haproxy = "global\n    nbthread 1\n    tune.x 2\n\ndefaults\n    timeout client 60s\n    timeout server 30s\n\nfrontend a\n    bind x\n";
        assert_eq!(
            with(haproxy::DIALECT, haproxy, "global", "nbthread 4\ntune.y 1"),
            haproxy.replace("    nbthread 1\n    tune.x 2\n", "    tune.x 2\n    nbthread 4\n    tune.y 1\n")
        );
        assert_eq!(
            with(haproxy::DIALECT, haproxy, "defaults", "timeout client 1s"),
            haproxy.replace(
                "    timeout client 60s\n    timeout server 30s\n",
                "    timeout server 30s\n    timeout client 1s\n"
            )
        );
        assert_eq!(
            with(haproxy::DIALECT, haproxy, "frontend", "maxconn 9"),
            format!("{haproxy}    maxconn 9\n")
        );
        let nginx = "user root;\nevents {\n}\nhttp {\n    sendfile on;\n    server {\n        sendfile off;\n    }\n    server {\n        listen b;\n    }\n}\n";
        assert_eq!(
            with(nginx::DIALECT, nginx, "http", "sendfile off;"),
            nginx.replace("    sendfile on;\n", "").replace("    }\n}\n", "    }\n    sendfile off;\n}\n")
        );
        assert_eq!(
            with(nginx::DIALECT, nginx, "server", "x 1;"),
            nginx.replace("sendfile off;\n    }", "sendfile off;\n    x 1;\n    }")
        );
        assert_eq!(
            with(nginx::DIALECT, nginx, "main", "user nobody;"),
            nginx.replace("user root", "    user nobody")
        );
    }

    #[test]
    fn a_template_has_what_plumb_needs_and_nothing_else() {
        let said = |text: &str| check_template(text, haproxy::DIALECT).unwrap_err().to_string();
        assert!(said("{{port}} {{nothing}}").contains("plumb has nothing for {{nothing}}"));
        assert!(said("{{bind}}").contains("needs {{global}}"));
        for dialect in [haproxy::DIALECT, nginx::DIALECT] {
            check_template(dialect.template, dialect).unwrap();
        }
    }
}
