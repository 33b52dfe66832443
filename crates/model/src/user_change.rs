//! Changes that a user defines and that are in no catalogue: commands, files, sysctls, services.
//!
//! They are data: a plan and a run directory have them as the experiment file does, with references in place of secrets.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Span;

/// A change of the host that a variant makes, in its slots alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserChange {
    /// A command that makes the change, one that undoes it, and one that shows it.
    Command(CommandChange),
    /// A file: all of it, or one line.
    File(FileChange),
    /// A sysctl and its value, such as `net.core.busy_read: 50`.
    Sysctl(#[schemars(extend("minProperties" = 1, "maxProperties" = 1))] BTreeMap<String, String>),
    /// A service that restarts or reloads, so that it notices the changes before this one. It does so again after they
    /// were undone.
    Service(ServiceChange),
}

/// Commands that make a change, undo it and show it. `sh` runs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommandChange {
    /// Makes the change.
    pub apply: String,
    /// Undoes it. It also runs after an `apply` that was interrupted, so it must not fail on a part of the change.
    pub revert: String,
    /// Prints the value, before the change, while windows open and close, and after it was undone.
    pub verify: String,
    /// What `verify` prints once the change is made. Blanks and line breaks count as one blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// In place of `expect`: a regular expression that matches what `verify` prints, and does not match it before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// How long each command may take; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// A file that is replaced, or one line of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileChange {
    /// The file's whole path.
    pub path: String,
    /// All of its text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// In place of `contents`: a regular expression that matches one line of the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replace: Option<String>,
    /// The line in its place, without a line break.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<String>,
    /// The file's rights in octal, such as `0640`; unchanged if absent, and 0644 for a file that is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The file's owner, such as `root` or `root:adm`; unchanged if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// A command that has the file's reader notice the change, such as `nginx -s reload`. It runs again after the old file is
    /// back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reload: Option<String>,
    /// How long `reload` may take; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// A service that notices changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceChange {
    /// Its name, as `systemctl` or `service` knows it.
    pub name: String,
    /// How it notices.
    pub action: ServiceAction,
    /// How long it may take; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// How a service notices a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServiceAction {
    /// It ends and starts anew.
    Restart,
    /// It reads its configuration anew.
    Reload,
}

/// How long a command may take where nobody says.
pub const TIMEOUT: Span = Span(30_000_000_000);

impl fmt::Display for UserChange {
    /// In few words: `file /etc/nginx/nginx.conf`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(change) => write!(formatter, "command `{}`", change.apply),
            Self::File(FileChange { path, with: Some(with), .. }) => {
                write!(formatter, "file {path}: `{}`", with.trim())
            }
            Self::File(change) => write!(formatter, "file {}", change.path),
            Self::Sysctl(values) => {
                let values: Vec<String> =
                    values.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(formatter, "sysctl {}", values.join(" "))
            }
            Self::Service(ServiceChange { name, action: ServiceAction::Restart, .. }) => {
                write!(formatter, "restart of {name}")
            }
            Self::Service(change) => write!(formatter, "reload of {}", change.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_few_words_and_travels_as_it_was_written() {
        let written = [
            (r#"{"sysctl":{"net.core.busy_read":"50"}}"#, "sysctl net.core.busy_read=50"),
            (r#"{"service":{"name":"nginx","action":"reload"}}"#, "reload of nginx"),
            (r#"{"file":{"path":"/etc/x","contents":"a"}}"#, "file /etc/x"),
            (r#"{"file":{"path":"/etc/x","replace":"^a","with":"  b"}}"#, "file /etc/x: `b`"),
            (r#"{"command":{"apply":"up","revert":"down","verify":"look","expect":"up"}}"#, "command `up`"),
        ];
        for (json, words) in written {
            let change: UserChange = serde_json::from_str(json).unwrap();
            assert_eq!(change.to_string(), words);
            assert_eq!(serde_json::to_string(&change).unwrap(), json);
        }
    }
}
