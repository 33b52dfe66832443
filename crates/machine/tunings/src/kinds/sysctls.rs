//! Tunings that set one sysctl: moves between NUMA nodes, polling, and any other.

use plumb_host::settings::Machine;

use crate::found::Found;

/// For how many µs a socket polls its card, where nothing else is asked for: what tuned's profile has.
const POLL_US: &str = "50";

/// No moving of memory between NUMA nodes.
pub(crate) fn numa_balancing(machine: &Machine, _: Option<&str>) -> Found {
    one_sysctl(machine, "kernel.numa_balancing", "0")
}

/// Polling in `poll` and `select`.
pub(crate) fn busy_poll(machine: &Machine, argument: Option<&str>) -> Found {
    one_sysctl(machine, "net.core.busy_poll", argument.unwrap_or(POLL_US))
}

/// Polling in reads of a socket.
pub(crate) fn busy_read(machine: &Machine, argument: Option<&str>) -> Found {
    one_sysctl(machine, "net.core.busy_read", argument.unwrap_or(POLL_US))
}

/// `KEY=VALUE`.
pub(crate) fn sysctl(machine: &Machine, argument: Option<&str>) -> Found {
    let (key, value) = argument.and_then(|text| text.split_once('=')).unwrap_or_default();
    one_sysctl(machine, key, value)
}

fn one_sysctl(machine: &Machine, key: &str, value: &str) -> Found {
    let mut found = Found::default();
    found.want_sysctl(machine, key, value);
    found
}
