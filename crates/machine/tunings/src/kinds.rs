//! The settings behind each tuning, found on a machine.

mod cpu;
mod huge_pages;
mod interrupts;
mod rings;
mod sysctls;

use plumb_host::settings::Machine;

use crate::found::Found;

pub(crate) use cpu::{energy_bias, energy_preference, governor, idle_states, turbo_off};
pub(crate) use huge_pages::huge_pages;
pub(crate) use interrupts::interrupt_affinity;
pub(crate) use rings::rings;
pub(crate) use sysctls::{busy_poll, busy_read, numa_balancing, sysctl};

/// The CPUs that the machine has, by their directories' names.
pub(crate) fn cpus(machine: &Machine) -> Vec<String> {
    let is_cpu = |name: &String| {
        name.strip_prefix("cpu")
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut names: Vec<String> = machine.sys_names("devices/system/cpu").into_iter().filter(is_cpu).collect();
    names.sort_by_key(|name| name.len());
    names
}

/// The network interfaces that have a device behind them, or the one that was asked for.
pub(crate) fn cards(machine: &Machine, asked: Option<&str>, found: &mut Found) -> Vec<String> {
    let is_card = |name: &String| machine.sys_link(&format!("class/net/{name}/device")).is_some();
    let names = machine.sys_names("class/net");
    match asked {
        Some(asked) if !names.iter().any(|name| name == asked) => {
            found.leave_out(asked, "there is no such network interface");
            Vec::new()
        }
        Some(asked) => vec![asked.to_owned()],
        None => {
            let cards: Vec<String> = names.into_iter().filter(is_card).collect();
            if cards.is_empty() {
                found.leave_out("network cards", "this machine has none");
            }
            cards
        }
    }
}
