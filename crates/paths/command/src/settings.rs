//! The `system` and `load` of a `command` experiment as types.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use plumb_model::{Better, Span};
use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The settings of a `command` experiment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandSettings {
    /// A system that the command works with, where it is to be started.
    pub system: SystemSettings,
    /// The command.
    pub load: LoadSettings,
}

/// A system that is started beside the command. Each of its commands is run by `sh`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SystemSettings {
    /// A command that runs in the foreground for as long as the variant has slots.
    pub start: Option<String>,
    /// A command that is tried until it ends with code 0; the first slot begins then.
    pub ready: Option<String>,
    /// A command that stops the system. What still runs then gets SIGTERM and, after a second, SIGKILL.
    pub stop: Option<String>,
    /// How long the system may take until `ready` succeeds.
    pub timeout: Span,
}

impl Default for SystemSettings {
    fn default() -> Self {
        Self { start: None, ready: None, stop: None, timeout: Span(30_000_000_000) }
    }
}

/// The shell that starts a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Shell {
    /// No shell: the words are split as a shell would, and the program is started directly.
    #[default]
    None,
    /// `sh -c`, whose start-up then counts as well.
    Sh,
}

/// The command and how it is run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LoadSettings {
    /// The command. Its input is empty, and its output leads nowhere unless a metric reads it.
    pub command: String,
    /// The shell that starts the command; `none` starts it directly.
    pub shell: Shell,
    /// How long a slot goes on starting the command. A run that has begun is measured to its end, and there is at least one.
    pub duration: Span,
    /// How long the command is run before that without being measured; `0 s` for not at all.
    pub warmup: Span,
    /// Exactly this many measured runs in each slot, instead of as many as begin within the duration.
    pub runs: Option<u64>,
    /// How long one run may take before it is killed and counts as failed.
    pub timeout: Span,
    /// A command, run by `sh` before the runs of each slot.
    pub setup: Option<String>,
    /// A command, run by `sh` before each run and not measured.
    pub prepare: Option<String>,
    /// A command, run by `sh` after the runs of each slot.
    pub cleanup: Option<String>,
    /// The exit codes of a run that succeeded, or `any`; only 0 if absent.
    pub exit: Exits,
    /// Environment variables that all commands get, with their values.
    pub env: BTreeMap<String, String>,
    /// Names of environment variables that are passed on to all commands.
    pub inherit: Vec<String>,
    /// The working directory of all commands.
    pub directory: Option<PathBuf>,
    /// The network namespace of the system of another data path, where the commands run.
    #[serde(skip)]
    pub(crate) netns: Option<PathBuf>,
    /// Values by name: `{NAME}` in any command stands for its value.
    pub parameters: BTreeMap<String, String>,
    /// Metrics by name, each read from what a run wrote.
    pub metrics: BTreeMap<String, MetricSettings>,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            command: String::new(),
            shell: Shell::default(),
            duration: Span(1_000_000_000),
            warmup: Span(100_000_000),
            runs: None,
            timeout: Span(600_000_000_000),
            setup: None,
            prepare: None,
            cleanup: None,
            exit: Exits::default(),
            env: BTreeMap::new(),
            inherit: Vec::new(),
            netns: None,
            directory: None,
            parameters: BTreeMap::new(),
            metrics: BTreeMap::new(),
        }
    }
}

impl CommandSettings {
    /// The settings with the values of parameters in their places.
    #[must_use]
    pub fn resolved(&self) -> Self {
        let mut resolved = self.clone();
        let parameters = std::mem::take(&mut resolved.load.parameters);
        for command in resolved.commands_mut() {
            *command = substituted(command, &parameters);
        }
        resolved
    }

    /// Whether a command has a place for the value of that parameter.
    #[must_use]
    pub fn has_place_for(&self, parameter: &str) -> bool {
        let place = format!("{{{parameter}}}");
        self.clone().commands_mut().any(|command| command.contains(&place))
    }

    /// The commands that the load's agent runs.
    pub(crate) fn commands(&self) -> impl Iterator<Item = &String> {
        let load = &self.load;
        [&load.setup, &load.prepare, &load.cleanup].into_iter().flatten().chain([&load.command])
    }

    fn commands_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let (system, load) = (&mut self.system, &mut self.load);
        let optional = [
            &mut load.setup,
            &mut load.prepare,
            &mut load.cleanup,
            &mut system.start,
            &mut system.ready,
            &mut system.stop,
        ];
        optional.into_iter().flatten().chain([&mut load.command])
    }
}

/// A text with values for `{NAME}`. What is put in is not looked through again, and other braces stay.
fn substituted(text: &str, parameters: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let found = rest.find('}').and_then(|close| Some((close, parameters.get(&rest[1..close])?)));
        match found {
            Some((close, value)) => {
                out.push_str(value);
                rest = &rest[close + 1..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

/// A metric that is read from what a run wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MetricSettings {
    /// Where it is: `stdout`, `stderr`, or a file that every run writes anew.
    #[serde(default = "stdout")]
    pub from: String,
    /// A regular expression with one group, which holds the number: `Requests/sec: ([0-9.]+)`.
    #[serde(default)]
    pub regex: Option<String>,
    /// A JSON pointer (RFC 6901) to the number, where all of it is one JSON value: `/jobs/0/read/iops`.
    #[serde(default)]
    pub pointer: Option<String>,
    /// The format of a tool, such as `wrk`, as `plumb import` knows it; `value` says what of it.
    #[serde(default)]
    pub format: Option<String>,
    /// A metric of that tool, with a statistic where it is a distribution: `http_reqs`, `http_req_duration.p99`.
    #[serde(default)]
    pub value: Option<String>,
    /// The unit of the number, such as `ms`, `1/s` or `MB/s`; a pure number if absent.
    #[serde(default)]
    pub unit: Option<String>,
    /// Which direction is an improvement.
    pub better: Better,
}

fn stdout() -> String {
    STDOUT.to_owned()
}

/// The source that is a command's output.
pub(crate) const STDOUT: &str = "stdout";
/// The source that is a command's error output.
pub(crate) const STDERR: &str = "stderr";

/// The exit codes of a run that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exits {
    /// Every one. A signal is still a failure.
    Any,
    /// These.
    Codes(Vec<i32>),
}

/// The word for [`Exits::Any`].
const ANY: &str = "any";

impl Default for Exits {
    fn default() -> Self {
        Self::Codes(vec![0])
    }
}

impl Exits {
    /// Whether a run that ended with this code succeeded.
    #[must_use]
    pub fn accept(&self, code: i32) -> bool {
        match self {
            Self::Any => true,
            Self::Codes(codes) => codes.contains(&code),
        }
    }
}

impl fmt::Display for Exits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => formatter.write_str(ANY),
            Self::Codes(codes) => {
                let words: Vec<String> = codes.iter().map(i32::to_string).collect();
                formatter.write_str(&words.join(", "))
            }
        }
    }
}

impl Serialize for Exits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str(ANY),
            Self::Codes(codes) => codes.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Exits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExitsVisitor)
    }
}

struct ExitsVisitor;

impl<'de> Visitor<'de> for ExitsVisitor {
    type Value = Exits;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of exit codes such as `[0, 1]`, or `any`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Exits, E> {
        if text == ANY {
            return Ok(Exits::Any);
        }
        let code = text.parse().map_err(|_| E::invalid_value(Unexpected::Str(text), &self))?;
        Ok(Exits::Codes(vec![code]))
    }

    fn visit_i64<E: Error>(self, code: i64) -> Result<Exits, E> {
        self.visit_str(&code.to_string())
    }

    fn visit_u64<E: Error>(self, code: u64) -> Result<Exits, E> {
        self.visit_str(&code.to_string())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Exits, A::Error> {
        let mut codes = Vec::new();
        while let Some(item) = items.next_element()? {
            match item {
                Exits::Any => return Ok(Exits::Any),
                Exits::Codes(more) => codes.extend(more),
            }
        }
        Ok(Exits::Codes(codes))
    }
}

impl JsonSchema for Exits {
    fn schema_name() -> Cow<'static, str> {
        "Exits".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": ["array", "string", "integer"],
            "items": { "type": ["integer", "string"] },
            "examples": [[0, 1], ANY]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_in_all_commands_and_other_braces_stay() {
        let mut settings = CommandSettings::default();
        settings.load.command = "sleep {n} {} {m} {{n}} {n".to_owned();
        settings.load.prepare = Some("echo {a}".to_owned());
        settings.system.start = Some("serve -p {n}".to_owned());
        let parameters = [("n", "2"), ("a", "{n}")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        settings.load.parameters = parameters.into();
        let resolved = settings.resolved();
        assert_eq!(resolved.load.command, "sleep 2 {} {m} {2} {n");
        assert_eq!(resolved.load.prepare.as_deref(), Some("echo {n}"));
        assert_eq!(resolved.system.start.as_deref(), Some("serve -p 2"));
        assert_eq!(resolved.resolved(), resolved);
    }

    #[test]
    fn exit_codes_are_a_list_one_code_or_any() {
        let read = |json: &str| serde_json::from_str::<Exits>(json);
        assert_eq!(read("[0, 3]").unwrap(), Exits::Codes(vec![0, 3]));
        assert_eq!(read("3").unwrap(), Exits::Codes(vec![3]));
        assert_eq!(read("\"any\"").unwrap(), Exits::Any);
        assert_eq!(read("[\"any\"]").unwrap(), Exits::Any);
        assert_eq!(read("[\"7\"]").unwrap(), Exits::Codes(vec![7]));
        assert!(read("\"some\"").unwrap_err().to_string().contains("a list of exit codes"));
        for exits in [Exits::Any, Exits::Codes(vec![0, 3])] {
            assert_eq!(read(&serde_json::to_string(&exits).unwrap()).unwrap(), exits);
        }
    }
}
