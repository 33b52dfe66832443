//! A variant's changes of a host, as its plan has it.

use plumb_host::settings::Setting;
use plumb_model::UserChange;
use plumb_model::user_change::{ChangePlace, SysctlChange};

/// The changes in effect in a variant's slots: tunings of the catalogue, and after them what the user defined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Treatment<'a> {
    /// The names of the tunings, in their order.
    pub tunings: &'a [String],
    /// The changes, in their order.
    pub changes: &'a [UserChange],
}

impl Treatment<'_> {
    /// Each tuning and change, in words.
    #[must_use]
    pub fn in_words(&self) -> Vec<String> {
        self.tunings.iter().cloned().chain(self.changes.iter().map(ToString::to_string)).collect()
    }

    /// Whether nothing is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tunings.is_empty() && self.changes.is_empty()
    }

    /// The sysctls below `net` that it sets by name on the system's host.
    #[must_use]
    pub fn network_sysctls(&self) -> Vec<Setting> {
        let of_tuning = |name: &String| Some(name.strip_prefix("sysctl=")?.split_once('=')?.0.to_owned());
        let of_change = |change: &UserChange| match change {
            UserChange::Sysctl(SysctlChange { values, place: ChangePlace::System }) => {
                values.keys().cloned().collect()
            }
            _ => Vec::new(),
        };
        let names = self.tunings.iter().filter_map(of_tuning).chain(self.changes.iter().flat_map(of_change));
        names.map(|name| Setting::sysctl(&name)).filter(Setting::is_of_network_namespace).collect()
    }
}
