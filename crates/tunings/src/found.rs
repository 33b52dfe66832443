//! What a tuning comes to on one machine: settings and the values they should have.

use std::io::ErrorKind;

use plumb_host::settings::{Machine, Setting};

/// One setting and the value that it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// What it is called. Settings of the same name are one thing to people, such as the governor of every CPU.
    pub label: String,
    /// The setting.
    pub setting: Setting,
    /// The value as it reads back.
    pub value: String,
}

/// A tuning on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The tuning as it was asked for, with its argument.
    pub name: String,
    /// Its settings, in the order in which they are changed.
    pub wanted: Vec<Wanted>,
    /// What of it this machine does not have, each with the reason.
    pub left_out: Vec<String>,
    /// Where the values come from, where that depends on the machine.
    pub source: Option<&'static str>,
    /// What was looked at where nothing is changed at all.
    pub checked: Option<String>,
}

impl Resolved {
    /// Whether every setting has its value already, so that nothing would change.
    #[must_use]
    pub fn is_in_effect(&self, machine: &Machine) -> bool {
        self.wanted.iter().all(|wanted| machine.read(&wanted.setting).is_ok_and(|now| now == wanted.value))
    }
}

/// Settings as they are collected.
#[derive(Debug, Default)]
pub struct Found {
    pub(crate) wanted: Vec<Wanted>,
    /// What, and why.
    pub(crate) left_out: Vec<(String, String)>,
    /// See [`Resolved::source`].
    pub(crate) source: Option<&'static str>,
}

impl Found {
    /// Wants a setting to have a value, where the machine has such a setting.
    pub(crate) fn want(&mut self, machine: &Machine, label: &str, setting: Setting, value: &str) {
        match machine.read(&setting) {
            Ok(_) => self.wanted.push(Wanted { label: label.to_owned(), setting, value: value.to_owned() }),
            Err(plumb_host::Error::Read { cause, .. }) if cause.kind() == ErrorKind::NotFound => {
                self.leave_out(label, "this machine has no such setting");
            }
            Err(error) => self.leave_out(label, &format!("this machine has no such setting ({error})")),
        }
    }

    /// Wants a sysctl to have a value.
    pub(crate) fn want_sysctl(&mut self, machine: &Machine, key: &str, value: &str) {
        let setting = Setting::sysctl(key);
        self.want(machine, &setting.to_string(), setting, &Setting::sysctl_value(key, value));
    }

    /// Notes what this machine cannot do.
    pub(crate) fn leave_out(&mut self, what: &str, reason: &str) {
        let line = (what.to_owned(), reason.to_owned());
        if !self.left_out.contains(&line) {
            self.left_out.push(line);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.wanted.extend(other.wanted);
        self.left_out.extend(other.left_out);
    }
}
