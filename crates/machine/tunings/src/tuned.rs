//! Profiles of tuned: read from its files where it is installed, with what they include, and translated to settings.
//!
//! tuned itself is not needed and not started: it would undo what others set. Of its plugins those are known that set
//! what can be read back (sysctl, sysfs, cpu, vm, disk, acpi); what else a profile says is named and left out.

mod profile;

use std::path::{Path, PathBuf};

use plumb_host::settings::{Machine, Setting};

use self::profile::{NotWhole, Profile, Section};
use crate::found::Found;
use crate::kinds;

/// Where profiles are, the administrator's own first, in old and new layouts (tuned-profiles(7), tuned 2.20 and 2.24).
const DIRECTORIES: [&str; 6] = [
    "/etc/tuned/profiles",
    "/etc/tuned",
    "/usr/lib/tuned/profiles",
    "/usr/lib/tuned",
    "/usr/share/tuned/profiles",
    "/usr/share/tuned",
];

/// The settings of the profiles of tuned 2.20, as far as they can be put back without a reboot (profiles/*/tuned.conf,
/// github.com/redhat-performance/tuned). For machines without tuned.
const NETWORK_LATENCY: &str = "
[cpu]
force_latency=cstate.id_no_zero:1|3
governor=performance
energy_perf_bias=performance
min_perf_pct=100
[vm]
transparent_hugepages=never
[sysctl]
vm.dirty_ratio=10
vm.dirty_background_ratio=3
vm.swappiness=10
net.core.busy_read=50
net.core.busy_poll=50
net.ipv4.tcp_fastopen=3
kernel.numa_balancing=0
";
const NETWORK_THROUGHPUT: &str = "
[cpu]
governor=performance
energy_perf_bias=performance
min_perf_pct=100
[disk]
readahead=>4096
[sysctl]
vm.dirty_ratio=40
vm.dirty_background_ratio=10
vm.swappiness=10
net.core.somaxconn=>2048
net.ipv4.tcp_rmem=4096 87380 16777216
net.ipv4.tcp_wmem=4096 16384 16777216
";

const FROM_FILES: &str = "tuned's profile as it is installed";
const FROM_LIST: &str = "Plumbline's list, after tuned 2.20";

/// The profile `network-latency`.
pub(crate) fn network_latency(machine: &Machine, _: Option<&str>) -> Found {
    installed_or(machine, "network-latency", NETWORK_LATENCY)
}

/// The profile `network-throughput`.
pub(crate) fn network_throughput(machine: &Machine, _: Option<&str>) -> Found {
    installed_or(machine, "network-throughput", NETWORK_THROUGHPUT)
}

/// Any profile that is installed.
pub(crate) fn installed(machine: &Machine, argument: Option<&str>) -> Found {
    let name = argument.unwrap_or_default();
    match installed_profile(machine, name) {
        Ok(Some(profile)) => Found { source: Some(FROM_FILES), ..settings(machine, &profile) },
        Ok(None) => nothing(name, "no profile of that name is installed"),
        Err(error) => nothing(name, &error.to_string()),
    }
}

fn installed_or(machine: &Machine, name: &str, own_list: &str) -> Found {
    match installed_profile(machine, name) {
        Ok(Some(profile)) => Found { source: Some(FROM_FILES), ..settings(machine, &profile) },
        Ok(None) => Found { source: Some(FROM_LIST), ..settings(machine, &Profile::parse(own_list)) },
        Err(error) => nothing(name, &error.to_string()),
    }
}

fn nothing(name: &str, reason: &str) -> Found {
    let mut found = Found::default();
    found.leave_out(&format!("tuned's profile {name}"), reason);
    found
}

/// A profile with all that it includes.
fn installed_profile(machine: &Machine, name: &str) -> Result<Option<Profile>, NotWhole> {
    profile::with_includes(name, &|name| {
        let files =
            DIRECTORIES.iter().map(|directory| PathBuf::from(directory).join(name).join("tuned.conf"));
        files.into_iter().find_map(|file: PathBuf| machine.text(Path::new(&file)))
    })
}

fn settings(machine: &Machine, profile: &Profile) -> Found {
    let mut found = Found::default();
    for section in &profile.sections {
        match condition(section) {
            Condition::Holds => {}
            Condition::Fails => continue,
            Condition::Unknown(key) => {
                found.leave_out(
                    &format!("[{}]", section.name),
                    &format!("its condition `{key}` is not understood"),
                );
                continue;
            }
        }
        for (key, value) in &section.options {
            option(machine, section, key, value, &mut found);
        }
    }
    found
}

enum Condition {
    Holds,
    Fails,
    Unknown(&'static str),
}

/// A section may hold for some machines only. Regular expressions are understood where they are a plain name.
fn condition(section: &Section) -> Condition {
    if section.get("enabled").is_some_and(|value| matches!(value, "false" | "0" | "False" | "no")) {
        return Condition::Fails;
    }
    let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    match section.get("uname_regex") {
        Some(name) if !is_plain(name) => return Condition::Unknown("uname_regex"),
        Some(name) if name != std::env::consts::ARCH => return Condition::Fails,
        _ => {}
    }
    if section.get("cpuinfo_regex").is_some() {
        Condition::Unknown("cpuinfo_regex")
    } else {
        Condition::Holds
    }
}

/// Options that say where a section holds, and change nothing by themselves.
const OF_SECTIONS: [&str; 8] = [
    "type",
    "enabled",
    "replace",
    "devices",
    "uname_regex",
    "cpuinfo_regex",
    "priority",
    "devices_udev_regex",
];

fn option(machine: &Machine, section: &Section, key: &str, value: &str, found: &mut Found) {
    if OF_SECTIONS.contains(&key) {
        return;
    }
    let plugin = section.get("type").unwrap_or(&section.name);
    let what = format!("[{plugin}] {key}");
    if value.contains("${") {
        return found.leave_out(&what, "its value has variables or functions of tuned's");
    }
    if section.get("devices").is_some_and(|devices| devices != "*") {
        return found.leave_out(&what, "it is only for some devices");
    }
    match (plugin, key) {
        ("sysctl", _) => sysctl(machine, key, value, found),
        ("sysfs", path) => sysfs(machine, path, value, found),
        ("cpu", "governor") => found.add(kinds::governor(machine, Some(value))),
        ("cpu", "energy_perf_bias") => found.add(kinds::energy_bias(machine, value)),
        ("cpu", "energy_performance_preference") => found.add(kinds::energy_preference(machine, value)),
        ("cpu", "min_perf_pct" | "max_perf_pct" | "no_turbo") => {
            let setting = Setting::sys(&format!("devices/system/cpu/intel_pstate/{key}"));
            found.want(machine, key, setting, value);
        }
        ("cpu", "force_latency") => match latency(value) {
            Some(limit) => found.add(kinds::idle_states(machine, limit)),
            None => found.leave_out(&what, &format!("{value:?} is not understood")),
        },
        ("vm", "transparent_hugepages" | "transparent_hugepage") => {
            found.add(kinds::huge_pages(machine, Some(value)));
        }
        ("disk", "readahead") => readahead(machine, value, found),
        ("acpi", "platform_profile") => {
            let setting = Setting::sys("firmware/acpi/platform_profile");
            let chosen = value.split('|').next().unwrap_or(value);
            found.want(machine, "platform profile", setting, chosen);
        }
        ("bootloader", _) => found.leave_out(&what, "it takes effect at the next boot"),
        _ => found.leave_out(&what, "plumb cannot read it back"),
    }
}

/// The longest wake-up that `force_latency` allows, in µs; of alternatives the first. `cstate.id_no_zero:1` is that of
/// the first state that is not polling.
fn latency(value: &str) -> Option<Option<&str>> {
    let first = value.split('|').next()?.trim();
    match first {
        "cstate.id_no_zero:1" | "cstate.id:1" | "cstate.name:C1" => Some(None),
        number => number.parse::<u64>().ok().map(|_| Some(number)),
    }
}

fn sysctl(machine: &Machine, key: &str, value: &str, found: &mut Found) {
    found.want_sysctl(machine, key, &bounded(machine, &Setting::sysctl(key), value));
}

fn sysfs(machine: &Machine, path: &str, value: &str, found: &mut Found) {
    let Some(inside) = path.strip_prefix('/').and_then(|path| path.strip_prefix("sys/")) else {
        return found.leave_out(path, "it is not a file of /sys");
    };
    if inside.contains(['*', '?', '[']) {
        return found.leave_out(path, "it stands for several files");
    }
    let setting = Setting::sys(inside);
    let value = bounded(machine, &setting, value);
    found.want(machine, path, setting, &value);
}

/// KiB that are read ahead, for every disk. tuned counts them in sectors where it says so by an `s`.
fn readahead(machine: &Machine, value: &str, found: &mut Found) {
    let (number, kib_per_unit) = match value.strip_suffix('s') {
        Some(sectors) => (sectors.trim(), 0.5),
        None => (value, 1.0),
    };
    let (sign, number) = match number.strip_prefix(['>', '<']) {
        Some(rest) => (&number[..1], rest),
        None => ("", number),
    };
    let Ok(count) = number.trim().parse::<f64>() else {
        return found.leave_out("[disk] readahead", &format!("{value:?} is not understood"));
    };
    let value = format!("{sign}{:.0}", count * kib_per_unit);
    let disks = machine.sys_names("block");
    for disk in disks.iter().filter(|disk| machine.sys_link(&format!("block/{disk}/device")).is_some()) {
        let setting = Setting::sys(&format!("block/{disk}/queue/read_ahead_kb"));
        let value = bounded(machine, &setting, &value);
        found.want(machine, "KiB read ahead of every disk", setting, &value);
    }
}

/// The value to set: `>4096` is at least that much, and `<` at most. A value within its bound stays.
fn bounded(machine: &Machine, setting: &Setting, value: &str) -> String {
    let Some(bound) = value.strip_prefix(['>', '<']) else { return value.to_owned() };
    let now = machine.value_of(setting).unwrap_or_default();
    let is_within = match (now.parse::<i64>(), bound.trim().parse::<i64>()) {
        (Ok(count), Ok(limit)) if value.starts_with('>') => count >= limit,
        (Ok(count), Ok(limit)) => count <= limit,
        _ => false,
    };
    if is_within { now } else { bound.trim().to_owned() }
}
