//! Settings of the machine that can be changed and put back: sysctls, files of /sys, a card's rings, a daemon that
//! undoes what others set; and what users change by themselves: files, and whatever commands change.
//!
//! A setting of the kernel's has one value, a text without line breaks, whatever the kernel writes around it: the chosen one of
//! `always [madvise] never`, numbers with single blanks between them, and for two files of which one rules the other
//! out (`vm.dirty_ratio` and `vm.dirty_bytes`) the one that is in force.

pub mod contents;
pub mod journal;
mod machine;
mod rings;
pub mod secrets;
mod shell;
pub mod state;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use machine::{Calls, Machine};
pub use rings::{Ring, RingSizes};
pub use shell::{Action, RUNNING, Shell};

/// Where sysctls are.
const SYSCTL: &str = "/proc/sys/";
/// Other settings of the kernel that are files.
const SYS: &str = "/sys/";
/// Which CPUs serve an interrupt.
const INTERRUPTS: &str = "/proc/irq/";

/// Pairs of sysctls of which the kernel sets one to 0 when the other is written (Documentation/admin-guide/sysctl/vm.rst).
const PAIRS: [[&str; 2]; 2] =
    [["vm.dirty_ratio", "vm.dirty_bytes"], ["vm.dirty_background_ratio", "vm.dirty_background_bytes"]];

/// Something about the machine that has a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// A file of the kernel's.
    File(String),
    /// Two files of the kernel's of which only one is in force and the other reads 0. The value is the name of the one
    /// in force, `=`, and what it holds.
    OneOf([String; 2]),
    /// The length of one of a network interface's rings, in packets.
    Ring {
        /// The interface.
        interface: String,
        /// Which of its rings.
        ring: Ring,
    },
    /// Whether a daemon runs: `running`, `paused` (stopped by SIGSTOP, which it goes on from), or `gone`.
    Daemon {
        /// The name.
        name: String,
        /// The pid.
        pid: u32,
        /// When it started, in clock ticks since boot: with the pid it names one process for ever.
        started_ticks: u64,
    },
    /// A file that is not the kernel's, see [`contents`].
    Contents(String),
    /// The effect of commands, see [`Shell`].
    Shell(Shell),
    /// The step that makes others notice a change, see [`Action`].
    Action(Action),
}

impl Setting {
    /// The sysctl `key`, such as `net.core.busy_read`, or the pair that it belongs to.
    ///
    /// As in sysctl(8), a key may be written with slashes, for names of interfaces that have dots.
    #[must_use]
    pub fn sysctl(key: &str) -> Self {
        let file = |key: &str| {
            let path = if key.contains('/') { key.to_owned() } else { key.replace('.', "/") };
            format!("{SYSCTL}{path}")
        };
        match PAIRS.iter().find(|pair| pair.iter().any(|member| file(member) == file(key))) {
            Some(pair) => Self::OneOf(pair.map(file)),
            None => Self::File(file(key)),
        }
    }

    /// The value to write so that the sysctl `key` has `value`: the same, or for one of a pair with its name.
    #[must_use]
    pub fn sysctl_value(key: &str, value: &str) -> String {
        match Self::sysctl(key) {
            Self::OneOf(_) => format!("{}={}", last_part(&key.replace('.', "/")), normal(value)),
            _ => normal(value),
        }
    }

    /// A file below /sys.
    #[must_use]
    pub fn sys(path: &str) -> Self {
        Self::File(format!("{SYS}{path}"))
    }

    /// The CPUs that an interrupt goes to, as a list.
    #[must_use]
    pub fn interrupt(number: u32) -> Self {
        Self::File(format!("{INTERRUPTS}{number}/smp_affinity_list"))
    }

    /// Whether it belongs to the network namespace of the process that sets it, and not to the whole machine.
    #[must_use]
    pub fn is_of_network_namespace(&self) -> bool {
        match self {
            Self::File(path) => path.starts_with("/proc/sys/net/") || path.starts_with("/sys/class/net/"),
            // Nobody knows, so they are not run in another one.
            Self::Ring { .. } | Self::Shell(_) | Self::Action(_) => true,
            Self::OneOf(_) | Self::Daemon { .. } | Self::Contents(_) => false,
        }
    }

    /// Whether a change of it may still be there after a boot.
    #[must_use]
    pub fn outlives_boot(&self) -> bool {
        matches!(self, Self::Contents(_) | Self::Shell(_) | Self::Action(_))
    }

    /// Whether its value is whatever the user's command prints. A command that was interrupted may have left a third value
    /// between the old one and the new one.
    #[must_use]
    pub fn is_command(&self) -> bool {
        matches!(self, Self::Shell(_))
    }

    /// Whether it only shows what other changes brought about, and cannot be changed itself.
    #[must_use]
    pub fn is_look(&self) -> bool {
        matches!(self, Self::Shell(Shell { apply, .. }) if apply.is_empty())
    }

    /// Whether it is done after a change, and once more after it was undone.
    #[must_use]
    pub fn is_action(&self) -> bool {
        matches!(self, Self::Action(_))
    }

    /// Whether its value says anything.
    #[must_use]
    pub fn has_state(&self) -> bool {
        match self {
            Self::Action(action) => action.has_state(),
            _ => true,
        }
    }

    /// Whether it is of a kind and in a place that a tuning may change. What a journal names is checked by this before
    /// it is written to.
    #[must_use]
    pub fn is_changeable(&self) -> bool {
        let is_kernels = |path: &String| {
            [SYSCTL, SYS, INTERRUPTS].iter().any(|place| path.starts_with(place))
                && path.split('/').all(|part| part != "..")
        };
        match self {
            Self::File(path) => is_kernels(path),
            Self::OneOf(paths) => paths.iter().all(is_kernels),
            Self::Contents(path) => path.starts_with('/') && path.split('/').all(|part| part != ".."),
            Self::Ring { .. } | Self::Daemon { .. } | Self::Shell(_) | Self::Action(_) => true,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => formatter.write_str(&short(path)),
            Self::OneOf([first, second]) => {
                write!(formatter, "{} or {}", short(first), last_part(second))
            }
            Self::Ring { interface, ring } => write!(formatter, "{ring} ring of {interface}"),
            Self::Daemon { name, pid, .. } => write!(formatter, "{name} (process {pid})"),
            Self::Contents(path) => formatter.write_str(path),
            Self::Shell(shell) => write!(formatter, "`{}`", shell.verify),
            Self::Action(action) => action.fmt(formatter),
        }
    }
}

/// A sysctl by its dotted name, as its users know it, and anything else by its path.
fn short(path: &str) -> String {
    match path.strip_prefix(SYSCTL) {
        Some(key) if !key.contains('.') => key.replace('/', "."),
        Some(key) => key.to_owned(),
        None => path.to_owned(),
    }
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A text as the kernel may have written it, as the one value that it stands for.
#[must_use]
pub fn normal(text: &str) -> String {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    match chosen {
        Some((chosen, _)) => chosen.trim().to_owned(),
        None => normal_words(text),
    }
}

/// A text as words with single blanks between them.
#[must_use]
pub fn normal_words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_is_chosen_or_the_words_with_single_blanks() {
        assert_eq!(normal("always [madvise] never\n"), "madvise");
        assert_eq!(normal("4096\t131072\t6291456\n"), "4096 131072 6291456");
        assert_eq!(normal("\n"), "");
    }

    #[test]
    fn sysctls_have_their_paths_and_pairs_are_one_setting() {
        let file = |path: &str| Setting::File(path.to_owned());
        assert_eq!(Setting::sysctl("net.core.busy_read"), file("/proc/sys/net/core/busy_read"));
        assert_eq!(
            Setting::sysctl("net/ipv4/conf/eth0.10/rp_filter"),
            file("/proc/sys/net/ipv4/conf/eth0.10/rp_filter")
        );
        assert_eq!(Setting::sysctl("vm.dirty_ratio"), Setting::sysctl("vm.dirty_bytes"));
        assert_eq!(Setting::sysctl_value("vm.dirty_bytes", "1000000"), "dirty_bytes=1000000");
        assert_eq!(Setting::sysctl_value("net.ipv4.tcp_rmem", "1\t2  3"), "1 2 3");
        assert_eq!(Setting::sysctl("vm.dirty_ratio").to_string(), "vm.dirty_ratio or dirty_bytes");
        assert_eq!(Setting::sysctl("net.core.busy_read").to_string(), "net.core.busy_read");
    }

    #[test]
    fn nothing_outside_of_the_kernels_files_is_changeable() {
        for path in ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/1/mem", "/sysx"] {
            assert!(!Setting::File(path.to_owned()).is_changeable(), "{path}");
        }
        assert!(Setting::sysctl("vm.swappiness").is_changeable());
        assert!(Setting::interrupt(24).is_changeable());
        assert!(Setting::sys("kernel/mm/transparent_hugepage/enabled").is_changeable());
    }
}
