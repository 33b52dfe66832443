//! Every tuning that there is: one row each, with what a person has to know before using it.
//!
//! The rows are the methods of Kube-OVN's documentation ("Performance Tuning",
//! <https://kubeovn.github.io/docs/stable/en/advance/performance-tuning/>) and what others like it name beside them. Those of its methods that belong to the system under test and not to the host stand here as well,
//! with where they are set, so that nobody looks for them in vain.

use std::io::ErrorKind;

use plumb_host::settings::Machine;

use crate::TuningError;
use crate::found::{Found, Resolved};
use crate::{kinds, tuned};

/// A tuning of the catalogue.
#[derive(Debug)]
pub struct Tuning {
    /// The name by which users ask for it.
    pub name: &'static str,
    /// The argument that may or must follow the name after `=`.
    pub argument: Argument,
    /// The change.
    pub changes: &'static str,
    /// The requirements.
    pub needs: &'static str,
    /// The risks.
    pub risks: &'static str,
    /// The effect.
    pub purpose: Purpose,
}

/// The argument after a tuning's name and `=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// May follow; what it is.
    Optional(&'static str),
    /// Must follow; what it is.
    Required(&'static str),
}

/// Settings on a machine, for an argument.
type Find = fn(&Machine, Option<&str>) -> Found;

/// The effect of a tuning.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// Changes settings of the host.
    Change(Find),
    /// Only looks whether the CPU has these flags.
    CpuFlags(&'static [&'static str]),
    /// Nothing: it belongs to the system under test, and this says where it is set.
    System(&'static str),
}

/// Every tuning, in the order of that document.
#[must_use]
pub fn catalogue() -> &'static [Tuning] {
    CATALOGUE
}

const ROOT: &str = "root";

const CATALOGUE: &[Tuning] = &[
    Tuning {
        name: "governor",
        argument: Argument::Optional("the governor, `performance` by default"),
        changes: "the policy that sets the CPUs' clock (scaling_governor of every CPU)",
        needs: "root, and a kernel with cpufreq; most virtual machines have none",
        risks: "more power and heat",
        purpose: Purpose::Change(kinds::governor),
    },
    Tuning {
        name: "idle-states",
        argument: Argument::Optional(
            "the longest wake-up in µs, by default that of the first state that is not polling",
        ),
        changes: "how deep idle CPUs sleep (cpuidle/state*/disable of every CPU)",
        needs: "root, and a kernel with cpuidle states; most virtual machines have none",
        risks: "much more power and heat; turbo has less room, so that single threads may get slower",
        purpose: Purpose::Change(kinds::idle_states),
    },
    Tuning {
        name: "turbo-off",
        argument: Argument::None,
        changes: "whether CPUs exceed their nominal clock (intel_pstate/no_turbo or cpufreq/boost)",
        needs: "root, and a driver of the clock with such a switch",
        risks: "slower, but the same at any heat",
        purpose: Purpose::Change(kinds::turbo_off),
    },
    Tuning {
        name: "rings",
        argument: Argument::Optional("one network interface, by default all that have a card"),
        changes: "the lengths of the cards' receive and transmit rings, to the longest possible (as `ethtool -G`)",
        needs: "root, and a card whose driver can change them",
        risks: "the link goes down for a moment with many drivers; longer queues under load",
        purpose: Purpose::Change(kinds::rings),
    },
    Tuning {
        name: "network-latency",
        argument: Argument::None,
        changes: "the settings of tuned's profile of that name; from its files where tuned is installed, else from \
                  Plumbline's list",
        needs: ROOT,
        risks: "those of `governor`, `idle-states` and `busy-read`: power, heat, CPU time spent on polling",
        purpose: Purpose::Change(tuned::network_latency),
    },
    Tuning {
        name: "network-throughput",
        argument: Argument::None,
        changes: "the settings of tuned's profile of that name; from its files where tuned is installed, else from \
                  Plumbline's list",
        needs: ROOT,
        risks: "more memory for sockets and for data not yet written to disk",
        purpose: Purpose::Change(tuned::network_throughput),
    },
    Tuning {
        name: "tuned",
        argument: Argument::Required("the name of an installed profile"),
        changes: "the settings of any profile of tuned, as far as they are sysctls, files of /sys, CPUs, huge pages and disks",
        needs: "root, and the profile's files",
        risks: "those of what the profile sets",
        purpose: Purpose::Change(tuned::installed),
    },
    Tuning {
        name: "interrupt-affinity",
        argument: Argument::Optional("one network interface, by default all that have a card"),
        changes: "which CPU serves each of the cards' queues, one each in turn; pauses irqbalance (SIGSTOP) meanwhile",
        needs: "root, and a card with interrupts for its queues that may be moved",
        risks: "interrupts may land on a CPU that does something else",
        purpose: Purpose::Change(kinds::interrupt_affinity),
    },
    Tuning {
        name: "load-balancer",
        argument: Argument::None,
        changes: "nothing on the host: connection tracking and service rules on the path (Kube-OVN: OVN LB off)",
        needs: "the data path `network`",
        risks: "without its rules a service's address leads nowhere",
        purpose: Purpose::System("`system.service_rules` and `system.conntrack` of the data path `network`"),
    },
    Tuning {
        name: "fast-path",
        argument: Argument::None,
        changes: "nothing on the host: packets of pods bypass netfilter (Kube-OVN: a kernel module)",
        needs: "the data path `network`",
        risks: "rules that pods need are bypassed as well",
        purpose: Purpose::System("`system.fastpath` of the data path `network`"),
    },
    Tuning {
        name: "cpu-flags",
        argument: Argument::None,
        changes: "nothing: checks whether the CPU has popcnt and sse4_2, which Open vSwitch's module can be built to use",
        needs: "an x86-64 CPU with these instructions",
        risks: "none",
        purpose: Purpose::CpuFlags(&["popcnt", "sse4_2"]),
    },
    Tuning {
        name: "tunnel-type",
        argument: Argument::None,
        changes: "nothing on the host: what the overlay wraps packets in (VXLAN or Geneve; Kube-OVN's STT needs a \
                  module that no kernel has)",
        needs: "the data path `network`",
        risks: "none",
        purpose: Purpose::System("`system.kind` and `system.tunnel` of the data path `network`"),
    },
    Tuning {
        name: "huge-pages",
        argument: Argument::Optional("`always`, `madvise` or `never`, which is the default"),
        changes: "when memory is backed by huge pages (transparent_hugepage/enabled)",
        needs: ROOT,
        risks: "applies to memory that is requested afterwards; `always` may stall programs while the kernel tidies memory",
        purpose: Purpose::Change(kinds::huge_pages),
    },
    Tuning {
        name: "numa-balancing",
        argument: Argument::None,
        changes: "whether the kernel moves memory between NUMA nodes; off (kernel.numa_balancing)",
        needs: "root, and a kernel with NUMA balancing",
        risks: "memory stays on the node where it was first touched",
        purpose: Purpose::Change(kinds::numa_balancing),
    },
    Tuning {
        name: "busy-read",
        argument: Argument::Optional("µs, 50 by default"),
        changes: "for how long a read of a socket polls the card before it sleeps (net.core.busy_read)",
        needs: "root; only cards whose driver has NAPI are polled, and so neither loopback nor veth without XDP",
        risks: "a CPU that polls is busy; sockets take the value when they are made",
        purpose: Purpose::Change(kinds::busy_read),
    },
    Tuning {
        name: "busy-poll",
        argument: Argument::Optional("µs, 50 by default"),
        changes: "for how long poll and select poll the card before they sleep (net.core.busy_poll)",
        needs: "as `busy-read`",
        risks: "a CPU that polls is busy",
        purpose: Purpose::Change(kinds::busy_poll),
    },
    Tuning {
        name: "sysctl",
        argument: Argument::Required("KEY=VALUE"),
        changes: "any one sysctl",
        needs: "root as a rule",
        risks: "those of the sysctl",
        purpose: Purpose::Change(kinds::sysctl),
    },
];

/// A tuning as somebody asked for it.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The tuning.
    pub tuning: &'static Tuning,
    argument: Option<String>,
    text: String,
}

/// The tuning that `text` names, such as `governor` or `busy-read=100`.
///
/// # Errors
/// When there is none of that name, its argument is missing or wrong, or it is nothing that a host can be set to.
pub fn find(text: &str) -> Result<Asked, TuningError> {
    let (name, argument) = match text.split_once('=') {
        Some((name, argument)) => (name, Some(argument.trim().to_owned())),
        None => (text, None),
    };
    let Some(tuning) = CATALOGUE.iter().find(|tuning| tuning.name == name) else {
        let names: Vec<&str> = CATALOGUE.iter().map(|tuning| tuning.name).collect();
        let hint = plumb_model::name::suggestion(name, names.iter().copied());
        return Err(TuningError::Name(format!("no tuning is named `{name}`; {hint}")));
    };
    if let Some(fault) = tuning.fault(argument.as_deref()) {
        return Err(TuningError::Name(fault));
    }
    Ok(Asked { tuning, argument, text: text.to_owned() })
}

impl Tuning {
    /// The mistake in an argument, if there is one.
    fn fault(&self, argument: Option<&str>) -> Option<String> {
        if let Purpose::System(place) = self.purpose {
            return Some(format!("`{}` is not a setting of the host; set {place}", self.name));
        }
        let given = argument.filter(|argument| !argument.is_empty());
        match (self.argument, given) {
            (Argument::None, Some(_)) => return Some(format!("`{}` takes no argument", self.name)),
            (Argument::Required(what), None) => {
                return Some(format!("`{0}` needs an argument: {0}=…, {what}", self.name));
            }
            (Argument::None | Argument::Optional(_), None) if argument.is_some() => {
                return Some(format!("there is nothing after `{}=`", self.name));
            }
            _ => {}
        }
        let given = given?;
        let is_number = given.parse::<u32>().is_ok();
        match self.name {
            "busy-read" | "busy-poll" | "idle-states" if !is_number => {
                Some(format!("`{}={given}`: it must be a number of µs", self.name))
            }
            "huge-pages" if !["always", "madvise", "never"].contains(&given) => {
                Some(format!("`{given}` is not one of `always`, `madvise` and `never`"))
            }
            "sysctl" => sysctl_fault(given),
            _ if given.contains(['/', '\0', '\n']) || given.starts_with('.') => {
                Some(format!("`{given}` is not a name"))
            }
            _ => None,
        }
    }
}

fn sysctl_fault(argument: &str) -> Option<String> {
    let Some((key, value)) = argument.split_once('=') else {
        return Some("it needs a value: sysctl=KEY=VALUE".to_owned());
    };
    let is_fitting = |character: char| character.is_ascii_alphanumeric() || "._-/:@".contains(character);
    if key.is_empty() || !key.chars().all(is_fitting) || key.starts_with(['/', '.']) || key.contains("..") {
        return Some(format!("`{key}` is not a sysctl"));
    }
    let is_text = !value.trim().is_empty() && !value.contains(['\n', '\0', '[', ']']);
    (!is_text).then(|| format!("`{value}` is not a value of a sysctl"))
}

/// Why a setting may not be written, with what would help.
fn not_writable(label: &str, error: plumb_host::Error) -> String {
    match error {
        plumb_host::Error::Write { cause, .. } => match cause.kind() {
            ErrorKind::PermissionDenied => format!("setting {label} needs root"),
            ErrorKind::ReadOnlyFilesystem => {
                format!("{label} is read-only here, as in most containers: set it on the host itself")
            }
            _ => format!("{label} cannot be set: {cause}"),
        },
        other => other.to_string(),
    }
}

impl Asked {
    /// As it was asked for.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The settings that it changes on this machine.
    ///
    /// # Errors
    /// When this machine has none of its settings, or does not let this process write one of them.
    pub fn resolve(&self, machine: &Machine) -> Result<Resolved, TuningError> {
        let impossible = |reason: String| TuningError::Impossible { tuning: self.text.clone(), reason };
        let found = match self.tuning.purpose {
            Purpose::Change(find) => find(machine, self.argument.as_deref()),
            Purpose::CpuFlags(wanted) => {
                let flags = machine.cpu_flags();
                let is_missing = |name: &&&str| flags.iter().all(|flag| flag != **name);
                let missing: Vec<&str> = wanted.iter().filter(is_missing).copied().collect();
                if !missing.is_empty() {
                    return Err(impossible(format!(
                        "the CPU of this machine lacks {}",
                        missing.join(" and ")
                    )));
                }
                let checked = Some(format!("the CPU has {}", wanted.join(" and ")));
                return Ok(Resolved { name: self.text.clone(), checked, ..Resolved::default() });
            }
            Purpose::System(place) => return Err(impossible(format!("it is set in {place}"))),
        };
        let left_out: Vec<String> = found
            .left_out
            .iter()
            .map(|(what, why)| if what == self.tuning.name { why.clone() } else { format!("{what}: {why}") })
            .collect();
        if found.wanted.is_empty() {
            return Err(impossible(left_out.join("; ")));
        }
        for wanted in &found.wanted {
            machine
                .may_write(&wanted.setting)
                .map_err(|error| impossible(not_writable(&wanted.label, error)))?;
        }
        Ok(Resolved {
            name: self.text.clone(),
            wanted: found.wanted,
            left_out,
            source: found.source,
            checked: None,
        })
    }
}
