//! Where the two sides of a run are.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The hosts of a run. Without any, both sides are on the host that runs plumb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// Where the system is built, or from where one that exists is watched.
    #[serde(default)]
    pub system: PlaceOf,
    /// Where the load comes from. Of several hosts, each drives its share.
    #[serde(default)]
    pub load: Vec<PlaceOf>,
}

/// One side's place on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceOf {
    /// The host as `ssh` is given it: a name from its configuration, `user@host`, or `ssh://user@host:port`. The host that runs
    /// plumb if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// The CPUs of the side, such as `2-7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The address by which loads on other hosts reach the system; the one that the host has for ssh if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

impl Places {
    /// Whether both sides are on the host that runs plumb.
    #[must_use]
    pub fn are_here(&self) -> bool {
        self.system.ssh.is_none() && self.load.iter().all(|place| place.ssh.is_none())
    }

    /// Whether a load is on another host than the system.
    #[must_use]
    pub fn are_apart(&self) -> bool {
        self.load.iter().any(|place| place.ssh != self.system.ssh)
    }

    /// The other hosts, each once.
    #[must_use]
    pub fn others(&self) -> Vec<&str> {
        let mut others: Vec<&str> = Vec::new();
        for place in std::iter::once(&self.system).chain(&self.load) {
            if let Some(host) = place.ssh.as_deref().filter(|host| !others.contains(host)) {
                others.push(host);
            }
        }
        others
    }
}

impl PlaceOf {
    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.ssh.as_deref().map_or("here", |host| host.strip_prefix("ssh://").unwrap_or(host))
    }

    /// A place from a word on the command line: `here`, or a host as in [`PlaceOf::ssh`].
    ///
    /// # Errors
    /// When no host can have that name.
    pub fn parse(word: &str) -> Result<Self, String> {
        let word = word.trim();
        if word.is_empty() || word.starts_with('-') || word.chars().any(char::is_whitespace) {
            return Err(format!(
                "`{word}` is no host; write `ssh://user@host`, a name that ssh knows, or `here`"
            ));
        }
        let ssh = (word != "here").then(|| word.to_owned());
        Ok(Self { ssh, ..Self::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_counted_once() {
        let at = |word: &str| PlaceOf::parse(word).unwrap();
        let places = Places { system: at("ssh://a"), load: vec![at("b"), at("here"), at("b")] };
        assert_eq!(places.others(), ["ssh://a", "b"]);
        assert!(places.are_apart() && !places.are_here());
        assert_eq!((places.system.name(), places.load[1].name()), ("a", "here"));
        assert!(Places::default().are_here() && !Places::default().are_apart());
        assert!(!Places { system: at("a"), load: vec![at("a")] }.are_apart());
    }

    #[test]
    fn an_option_of_ssh_is_no_host() {
        for word in ["-oProxyCommand=reboot", "", "a b"] {
            assert!(PlaceOf::parse(word).is_err(), "{word}");
        }
    }
}
