//! The effect of a tuning on one machine: settings and the values they should have.

use std::io::ErrorKind;

use plumb_host::settings::{Machine, Setting};
use regex::Regex;

/// One setting and the value that it should have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The name. Settings of the same name are one thing to people, such as the governor of every CPU.
    pub label: String,
    /// The setting.
    pub setting: Setting,
    /// The value as it reads back, or the regular expression that matches it.
    pub value: String,
    /// Whether it is a regular expression.
    pub is_pattern: bool,
}

impl Wanted {
    /// A setting with the very value that it should have.
    pub(crate) fn exactly(label: &str, setting: Setting, value: &str) -> Self {
        Self { label: label.to_owned(), setting, value: value.to_owned(), is_pattern: false }
    }

    /// Whether a value is the one that it should be.
    #[must_use]
    pub fn is_met_by(&self, now: &str) -> bool {
        match self.is_pattern {
            true => Regex::new(&self.value).is_ok_and(|pattern| pattern.is_match(now)),
            false => self.value == now,
        }
    }

    /// The value that it should have, as people may see it.
    pub(crate) fn shown(&self, machine: &Machine) -> String {
        match self.is_pattern {
            true => format!("what matches `{}`", self.value),
            false => machine.shown(&self.setting, &self.value),
        }
    }
}

/// A tuning on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resolved {
    /// The tuning as it was asked for, with its argument.
    pub name: String,
    /// The settings, in the order in which they are changed.
    pub wanted: Vec<Wanted>,
    /// The settings that this machine does not have, each with the reason.
    pub left_out: Vec<String>,
    /// Where the values come from, where that depends on the machine.
    pub source: Option<&'static str>,
    /// The settings that are read where nothing is changed.
    pub checked: Option<String>,
}

impl Resolved {
    /// Whether it has settings with values, and does not only have others notice something.
    #[must_use]
    pub fn has_values(&self) -> bool {
        self.wanted.iter().any(|wanted| !wanted.setting.is_action() && !wanted.setting.is_look())
    }

    /// The present output of the `verify` of a user's command, if `expect` or `matches` accepts that before the change as well: then it proves
    /// nothing.
    #[must_use]
    pub fn proven_before(&self, machine: &Machine) -> Option<String> {
        let mut commands = self.wanted.iter().filter(|wanted| wanted.setting.is_command());
        commands.find_map(|wanted| {
            let now = machine.value_of(&wanted.setting).ok().filter(|now| wanted.is_met_by(now))?;
            Some(format!(
                "{} {} {:?} without the change, so it cannot prove the change (expected {:?}): either the baseline has it too, or \
                 `verify` shows something else",
                wanted.label,
                if wanted.setting.is_look() { "already shows" } else { "already prints" },
                machine.shown(&wanted.setting, &now),
                wanted.shown(machine)
            ))
        })
    }

    /// Whether every setting has its value already, so that nothing would change.
    #[must_use]
    pub fn is_in_effect(&self, machine: &Machine) -> bool {
        let mut of_value = self.wanted.iter().filter(|wanted| !wanted.setting.is_action());
        of_value.all(|wanted| machine.value_of(&wanted.setting).is_ok_and(|now| wanted.is_met_by(&now)))
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
        match machine.value_of(&setting) {
            Ok(_) => self.wanted.push(Wanted::exactly(label, setting, value)),
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
