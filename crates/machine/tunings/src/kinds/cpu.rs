//! The CPUs' clock and sleep.

use plumb_host::settings::{Machine, Setting};

use super::cpus;
use crate::found::Found;

const POLICIES: &str = "devices/system/cpu/cpufreq";
const CPUS: &str = "devices/system/cpu";

/// A governor for every CPU; the first of several that the machine has.
pub(crate) fn governor(machine: &Machine, argument: Option<&str>) -> Found {
    let mut found = Found::default();
    let wanted = argument.unwrap_or("performance");
    let policies: Vec<String> = machine
        .sys_names(POLICIES)
        .into_iter()
        .filter(|name| machine.sys(&format!("{POLICIES}/{name}/scaling_governor")).is_some())
        .collect();
    if policies.is_empty() {
        let why = "this machine has no cpufreq: the kernel does not control the CPUs' clock";
        found.leave_out("governor", why);
    }
    for policy in policies {
        let offered =
            machine.sys(&format!("{POLICIES}/{policy}/scaling_available_governors")).unwrap_or_default();
        let Some(chosen) = wanted.split('|').find(|name| offered.split(' ').any(|it| it == *name)) else {
            let why = format!("{policy} offers {offered:?}, not {wanted}");
            found.leave_out("governor", &why);
            continue;
        };
        let setting = Setting::sys(&format!("{POLICIES}/{policy}/scaling_governor"));
        found.want(machine, "governor of every CPU", setting, chosen);
    }
    found
}

/// No idle state from which a CPU takes longer to wake than this many µs; by default than the first that is not polling.
pub(crate) fn idle_states(machine: &Machine, argument: Option<&str>) -> Found {
    let mut found = Found::default();
    let latency = |cpu: &str, state: &str| {
        machine.sys(&format!("{CPUS}/{cpu}/cpuidle/{state}/latency"))?.parse::<u64>().ok()
    };
    let cpus = cpus(machine);
    let of_first = || cpus.first().and_then(|cpu| latency(cpu, "state1"));
    let Some(max_us) = argument.and_then(|text| text.parse().ok()).or_else(of_first) else {
        let why = "this machine has no idle states to choose from: the kernel halts, and a hypervisor does the rest";
        found.leave_out("idle-states", why);
        return found;
    };
    let label = format!("idle states deeper than {max_us} µs, off");
    for cpu in &cpus {
        for state in machine.sys_names(&format!("{CPUS}/{cpu}/cpuidle")) {
            if latency(cpu, &state).is_some_and(|latency_us| latency_us > max_us) {
                let setting = Setting::sys(&format!("{CPUS}/{cpu}/cpuidle/{state}/disable"));
                found.want(machine, &label, setting, "1");
            }
        }
    }
    if found.wanted.is_empty() {
        found.leave_out("idle-states", &format!("this machine has none deeper than {max_us} µs"));
    }
    found
}

/// No clock above the nominal one.
pub(crate) fn turbo_off(machine: &Machine, _: Option<&str>) -> Found {
    let mut found = Found::default();
    let switches = [("intel_pstate/no_turbo", "1"), ("cpufreq/boost", "0")];
    let present = switches.iter().find(|(file, _)| machine.sys(&format!("{CPUS}/{file}")).is_some());
    match present {
        Some((file, value)) => {
            found.want(machine, "turbo, off", Setting::sys(&format!("{CPUS}/{file}")), value)
        }
        None => found.leave_out("turbo-off", "the kernel of this machine does not control it"),
    }
    found
}

/// The CPUs' own preference between speed and power, as an Intel MSR has it: 0 is speed.
pub(crate) fn energy_bias(machine: &Machine, value: &str) -> Found {
    // The kernel takes these names and reads back numbers (Documentation/admin-guide/pm/intel_epb.rst).
    let number = match value {
        "performance" => "0",
        "balance-performance" | "balance_performance" => "4",
        "normal" | "default" => "6",
        "balance-power" | "balance_power" => "8",
        "power" | "powersave" => "15",
        other => other,
    };
    per_cpu(machine, "energy bias of every CPU", "power/energy_perf_bias", number)
}

/// The same as a hint to the driver of the clock.
pub(crate) fn energy_preference(machine: &Machine, value: &str) -> Found {
    let chosen = value.split('|').next().unwrap_or(value);
    per_cpu(machine, "energy preference of every CPU", "cpufreq/energy_performance_preference", chosen)
}

fn per_cpu(machine: &Machine, label: &str, file: &str, value: &str) -> Found {
    let mut found = Found::default();
    for cpu in cpus(machine) {
        let path = format!("{CPUS}/{cpu}/{file}");
        if machine.sys(&path).is_some() {
            found.want(machine, label, Setting::sys(&path), value);
        }
    }
    if found.wanted.is_empty() {
        found.leave_out(label, "this machine has no such setting");
    }
    found
}
