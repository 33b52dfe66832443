//! Changes that a user defines and that are in no catalogue: commands, files, sysctls, services.
//!
//! They are data: a plan and a run directory have them as the experiment file does, with references in place of secrets.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Json, Span};

/// A change of the host that a variant makes, in its slots alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UserChange {
    /// A command that makes the change, one that undoes it, and one that shows it.
    Command(CommandChange),
    /// A file: all of it, or one line.
    File(FileChange),
    /// A sysctl and its value, such as `net.core.busy_read: 50`; and `place` if you want.
    Sysctl(
        #[schemars(with = "BTreeMap<String, String>", extend("minProperties" = 1, "maxProperties" = 2))]
        SysctlChange,
    ),
    /// A service that restarts or reloads, so that it notices the changes before this one. It does so again after they
    /// were undone.
    Service(ServiceChange),
    /// An object of the places' cluster, by a patch.
    Kubernetes(KubernetesChange),
}

/// On which hosts of a run a change is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangePlace {
    /// The system's host.
    #[default]
    System,
    /// Every host of the load.
    Load,
    /// The cluster, which is not a host.
    #[serde(skip)]
    Cluster,
}

/// Sysctls and their values.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, String>", into = "BTreeMap<String, String>")]
pub struct SysctlChange {
    /// By name.
    pub values: BTreeMap<String, String>,
    /// On which hosts; the system's if absent. It stands among the values, as no sysctl has a name without a dot.
    pub place: ChangePlace,
}

/// A text that does not name the hosts of a change.
#[derive(Debug, thiserror::Error)]
#[error("`place` is `{_0}`; write `{SYSTEM}` or `{LOAD}`")]
pub struct NotPlace(String);

impl TryFrom<BTreeMap<String, String>> for SysctlChange {
    type Error = NotPlace;

    fn try_from(mut values: BTreeMap<String, String>) -> Result<Self, NotPlace> {
        let place = match values.remove(PLACE).as_deref() {
            None | Some(SYSTEM) => ChangePlace::System,
            Some(LOAD) => ChangePlace::Load,
            Some(other) => return Err(NotPlace(other.to_owned())),
        };
        Ok(Self { values, place })
    }
}

impl From<SysctlChange> for BTreeMap<String, String> {
    fn from(SysctlChange { mut values, place }: SysctlChange) -> Self {
        if place == ChangePlace::Load {
            values.insert(PLACE.to_owned(), LOAD.to_owned());
        }
        values
    }
}

const PLACE: &str = "place";
const SYSTEM: &str = "system";
const LOAD: &str = "load";

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
    /// The output of `verify` once the change is made. Blanks and line breaks count as one blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// In place of `expect`: a regular expression that matches what `verify` prints, and does not match it before the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// How long each command may take; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// On which hosts of a run: the system's if absent, or every one of the load.
    #[serde(default, skip_serializing_if = "ChangePlace::is_default")]
    pub place: ChangePlace,
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
    /// How the program that reads the file shows that it uses the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// How long `reload` may take, and how long `verify` is waited for; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// On which hosts of a run: the system's if absent, or every one of the load.
    #[serde(default, skip_serializing_if = "ChangePlace::is_default")]
    pub place: ChangePlace,
}

/// A service that notices changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServiceChange {
    /// The name, as `systemctl` or `service` knows it.
    pub name: String,
    /// How it notices.
    pub action: ServiceAction,
    /// How it shows that it uses what was changed before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// How long it may take, and how long `verify` is waited for; 30 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// On which hosts of a run: the system's if absent, or every one of the load.
    #[serde(default, skip_serializing_if = "ChangePlace::is_default")]
    pub place: ChangePlace,
}

/// How a program shows that it uses what was changed: by what a command prints, or by its answer to one HTTP request. It must not
/// show that without the change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verify {
    /// A command that prints something else once the change is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The output of `command` after that. Blanks and line breaks count as one blank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// In place of `expect`: a regular expression that matches it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// In place of `command`: an address that answers otherwise once the change is used. Redirects are not followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The status of its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// A header of its answer, such as `Server: nginx`; `Server:` for an answer without that header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// How many bytes the body of its answer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// Accepts any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
}

/// An object of a cluster that is patched. The object itself remembers what it was, and is put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct KubernetesChange {
    /// The group and version of its kind, such as `apps/v1`; not needed for common kinds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind, such as `Deployment`.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace; the places' if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The change, as `kubectl patch` takes it: items of lists are merged by their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patch: Option<Json>,
    /// Environment variables of its containers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The container that gets them; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The condition to wait for after the change, and after it was undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<WaitFor>,
    /// How long that may take; 120 s if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// The condition to wait for after a change of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitFor {
    /// Until all pods of a Deployment, DaemonSet or StatefulSet are those of its new specification, and ready.
    Rollout,
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

impl ChangePlace {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl UserChange {
    /// On which hosts of a run it is made.
    #[must_use]
    pub fn place(&self) -> ChangePlace {
        match self {
            Self::Command(change) => change.place,
            Self::File(change) => change.place,
            Self::Sysctl(change) => change.place,
            Self::Service(change) => change.place,
            Self::Kubernetes(_) => ChangePlace::Cluster,
        }
    }
}

/// How long a command may take where nobody says.
pub const TIMEOUT: Span = Span(30_000_000_000);

impl fmt::Display for UserChange {
    /// In few words: `file /etc/nginx/nginx.conf`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(change) => write!(formatter, "command `{}`", change.apply)?,
            Self::File(FileChange { path, with: Some(with), .. }) => {
                write!(formatter, "file {path}: `{}`", with.trim())?;
            }
            Self::File(change) => write!(formatter, "file {}", change.path)?,
            Self::Sysctl(SysctlChange { values, .. }) => {
                let values: Vec<String> =
                    values.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(formatter, "sysctl {}", values.join(" "))?;
            }
            Self::Service(ServiceChange { name, action: ServiceAction::Restart, .. }) => {
                write!(formatter, "restart of {name}")?;
            }
            Self::Service(change) => write!(formatter, "reload of {}", change.name)?,
            Self::Kubernetes(KubernetesChange { kind, name, patch, env, .. }) => {
                let mut parts: Vec<String> =
                    env.iter().map(|(key, value)| format!("{key}={value}")).collect();
                parts.extend(patch.as_ref().map(|patch| patch.0.to_string()));
                write!(formatter, "{kind} {name}: {}", parts.join(" "))?;
            }
        }
        match self.place() {
            ChangePlace::System | ChangePlace::Cluster => Ok(()),
            ChangePlace::Load => formatter.write_str(" on the load's hosts"),
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
            (
                r#"{"kubernetes":{"kind":"Deployment","name":"router","env":{"A":"1"},"wait":"rollout"}}"#,
                "Deployment router: A=1",
            ),
            (
                r#"{"sysctl":{"net.core.busy_read":"50","place":"load"}}"#,
                "sysctl net.core.busy_read=50 on the load's hosts",
            ),
            (
                r#"{"service":{"name":"nginx","action":"restart","place":"load"}}"#,
                "restart of nginx on the load's hosts",
            ),
        ];
        for (json, words) in written {
            let change: UserChange = serde_json::from_str(json).unwrap();
            assert_eq!(change.to_string(), words);
            assert_eq!(serde_json::to_string(&change).unwrap(), json);
        }
    }
    #[test]
    fn a_change_without_a_place_is_the_systems() {
        let place = |json: &str| serde_json::from_str::<UserChange>(json).map(|change| change.place());
        assert_eq!(place(r#"{"sysctl":{"vm.swappiness":"5"}}"#).unwrap(), ChangePlace::System);
        assert_eq!(
            place(r#"{"sysctl":{"vm.swappiness":"5","place":"system"}}"#).unwrap(),
            ChangePlace::System
        );
        assert_eq!(
            place(r#"{"file":{"path":"/etc/x","contents":"a","place":"load"}}"#).unwrap(),
            ChangePlace::Load
        );
        let wrong = place(r#"{"sysctl":{"vm.swappiness":"5","place":"client"}}"#).unwrap_err().to_string();
        assert!(wrong.contains("`place` is `client`; write `system` or `load`"), "{wrong}");
    }
}
