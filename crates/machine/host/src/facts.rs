//! The facts of this machine: everything that a reader of a result needs in order to compare it with theirs,
//! and nothing that names its owner (no host name, address or serial number).
//!
//! A fact that the kernel does not tell is `None` or empty; reading facts never fails.

mod cpuinfo;
mod network;
mod virtualisation;

use std::collections::BTreeSet;
use std::env;
use std::path::{Path, PathBuf};

use rustix::system::uname;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::accelerators::{Accelerator, accelerators};
use crate::cgroup::CpuGroups;
use crate::cpu::{CpuSet, Sides, available_cpus, split_sides};
use crate::settings::Machine;
use crate::text;
use cpuinfo::CpuInfo;

pub use network::{CardInterrupt, Conntrack, NetworkCard};

const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";

/// The facts of this machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct HostFacts {
    /// Release of the kernel, such as `6.1.0-18-amd64`.
    pub kernel: String,
    /// Machine architecture as `uname -m` has it, such as `x86_64`.
    pub architecture: String,
    /// Name and version of the distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub os: Option<String>,
    /// Model of the CPU as its maker calls it.
    pub cpu_model: Option<String>,
    /// Maker of the CPU as the kernel calls it, such as `GenuineIntel`.
    pub cpu_vendor: Option<String>,
    /// CPU features that matter to data paths, in the kernel's spelling.
    pub cpu_flags: Vec<String>,
    /// Devices that encrypt, compress or copy, whether they can be used or not.
    pub accelerators: Vec<Accelerator>,
    /// CPUs that are online; hardware threads count as CPUs.
    pub cpus_online: CpuSet,
    /// Those of them that this process may use.
    pub cpus_usable: CpuSet,
    /// How these are shared between the system under test and the load.
    pub sides: Sides,
    /// Cores that are online.
    pub cores: Option<usize>,
    /// Whether cores run more than one hardware thread.
    pub smt: Option<bool>,
    /// Processor packages.
    pub sockets: Option<usize>,
    /// NUMA nodes.
    pub numa_nodes: Option<usize>,
    /// Physical memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Memory that programs could have now without swapping, in bytes.
    pub memory_available_bytes: Option<u64>,
    /// The hypervisor, such as `KVM`, or `unknown` for one that hides its name; `None` on bare metal.
    pub virtualisation: Option<String>,
    /// Maker and product of the machine as its firmware has them, such as `Amazon EC2 m7i.large`.
    pub platform: Option<String>,
    /// The container runtime here, if this process is in one, such as `docker`.
    pub container: Option<String>,
    /// The kernel's clock source, such as `tsc`.
    pub clocksource: Option<String>,
    /// The governor of the CPUs' clock, such as `performance`; several where CPUs differ, with commas.
    /// `None` where the kernel has no say in it, as in most virtual machines.
    pub governor: Option<String>,
    /// Whether CPUs may exceed their nominal clock; `None` where the kernel has no say in it.
    pub turbo: Option<bool>,
    /// How idle CPUs sleep, the deepest state last; empty where the kernel only halts.
    pub idle_states: Vec<IdleState>,
    /// Weaknesses of the CPU, and what the kernel does about each.
    pub mitigations: Vec<Mitigation>,
    /// When memory is backed by huge pages: `always`, `madvise` or `never`.
    pub transparent_huge_pages: Option<String>,
    /// Whether the kernel moves memory between NUMA nodes.
    pub numa_balancing: Option<bool>,
    /// Network interfaces that have a device behind them.
    pub network_cards: Vec<NetworkCard>,
    /// Whether a daemon moves interrupts from CPU to CPU.
    pub irqbalance: bool,
    /// Connections that the kernel keeps track of in this network namespace; `None` where it does not.
    pub conntrack: Option<Conntrack>,
    /// Version of the control groups that limit CPU time: 1 or 2.
    pub cgroup_version: Option<u8>,
    /// How many CPUs' worth of time the control groups allow; `None` for no limit.
    pub cpu_limit: Option<f64>,
    /// Processes that ran or wanted to run, on average over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
}

/// One weakness of the CPU as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Mitigation {
    /// The kernel's name of the weakness, such as `spectre_v2`.
    pub name: String,
    /// The kernel's words, such as `Not affected` or `Mitigation: PTI`.
    pub state: String,
}

/// A way for an idle CPU to sleep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IdleState {
    /// The name, such as `C6`.
    pub name: String,
    /// How long a CPU takes to wake from it, in µs.
    pub latency_us: u64,
    /// Whether it may be used.
    pub enabled: bool,
}

impl HostFacts {
    /// Reads what there is to know now.
    #[must_use]
    pub fn read_now() -> Self {
        let uname = uname();
        let cpu = CpuInfo::parse(&text::read_trimmed("/proc/cpuinfo").unwrap_or_default());
        let memory = text::read_trimmed("/proc/meminfo").unwrap_or_default();
        let groups = CpuGroups::own();
        let cpus_online = online_cpus();
        let cpus_usable = available_cpus().unwrap_or_else(|_| cpus_online.clone());
        Self {
            kernel: uname.release().to_string_lossy().into_owned(),
            architecture: uname.machine().to_string_lossy().into_owned(),
            os: os_name(),
            virtualisation: virtualisation::hypervisor(cpu.has_hypervisor),
            platform: virtualisation::platform(),
            container: container(),
            cpu_model: cpu.model,
            cpu_vendor: cpu.vendor,
            cpu_flags: cpu.flags,
            accelerators: accelerators(),
            cores: distinct_per_cpu(&cpus_online, "topology/thread_siblings_list"),
            sockets: distinct_per_cpu(&cpus_online, "topology/physical_package_id"),
            smt: text::read_trimmed(cpu_file("smt/active")).map(|active| active == "1"),
            numa_nodes: text::read_trimmed("/sys/devices/system/node/online")
                .and_then(|list| count_of(&list)),
            governor: governor(&cpus_online),
            sides: split_sides(&cpus_usable),
            cpus_online,
            cpus_usable,
            memory_bytes: text::kib_field(&memory, "MemTotal"),
            memory_available_bytes: text::kib_field(&memory, "MemAvailable"),
            clocksource: text::read_trimmed(
                "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            ),
            turbo: turbo(),
            idle_states: idle_states(),
            mitigations: mitigations(),
            transparent_huge_pages: text::read_trimmed("/sys/kernel/mm/transparent_hugepage/enabled")
                .and_then(|choices| parse_choice(&choices)),
            numa_balancing: text::read_number("/proc/sys/kernel/numa_balancing").map(|mode| mode != 0),
            network_cards: network::cards(),
            irqbalance: !Machine::this().daemons("irqbalance").is_empty(),
            conntrack: network::conntrack(),
            cgroup_version: groups.as_ref().map(|groups| groups.version),
            cpu_limit: groups.and_then(|groups| groups.limit_cpus()),
            load_average: text::read_trimmed("/proc/loadavg")
                .and_then(|averages| parse_load_average(&averages)),
        }
    }
}

fn cpu_file(file: &str) -> PathBuf {
    Path::new(CPU_DIRECTORY).join(file)
}

fn online_cpus() -> CpuSet {
    text::read_trimmed(cpu_file("online")).and_then(|list| list.parse().ok()).unwrap_or_default()
}

fn count_of(list: &str) -> Option<usize> {
    Some(list.parse::<CpuSet>().ok()?.len())
}

/// The different contents of a file that each CPU may have; empty when none has it.
fn contents_per_cpu(cpus: &CpuSet, file: &str) -> BTreeSet<String> {
    cpus.iter().filter_map(|cpu| text::read_trimmed(cpu_file(&format!("cpu{cpu}/{file}")))).collect()
}

fn distinct_per_cpu(cpus: &CpuSet, file: &str) -> Option<usize> {
    Some(contents_per_cpu(cpus, file).len()).filter(|&count| count > 0)
}

fn governor(cpus: &CpuSet) -> Option<String> {
    let governors: Vec<String> = contents_per_cpu(cpus, "cpufreq/scaling_governor").into_iter().collect();
    Some(governors.join(", ")).filter(|names| !names.is_empty())
}

/// Intel's driver has its own switch, with the opposite sense.
fn turbo() -> Option<bool> {
    let is_off = text::read_number(cpu_file("intel_pstate/no_turbo")).map(|off| off == 0);
    is_off.or_else(|| text::read_number(cpu_file("cpufreq/boost")).map(|on| on == 1))
}

/// Those of the first CPU; all have the same as a rule.
fn idle_states() -> Vec<IdleState> {
    let state = |number: u32| {
        let file = |name: &str| cpu_file(&format!("cpu0/cpuidle/state{number}/{name}"));
        Some(IdleState {
            name: text::read_trimmed(file("name"))?,
            latency_us: text::read_number(file("latency"))?,
            enabled: text::read_number(file("disable")) != Some(1),
        })
    };
    (0..).map_while(state).collect()
}

fn mitigations() -> Vec<Mitigation> {
    let Ok(entries) = std::fs::read_dir(cpu_file("vulnerabilities")) else { return Vec::new() };
    let mut mitigations: Vec<Mitigation> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_string_lossy().into_owned();
            Some(Mitigation { name, state: text::read_trimmed(path)? })
        })
        .collect();
    mitigations.sort_by(|a, b| a.name.cmp(&b.name));
    mitigations
}

/// os-release(5): the first of the two places that has it.
fn os_name() -> Option<String> {
    ["/etc/os-release", "/usr/lib/os-release"]
        .iter()
        .find_map(|path| parse_os_name(&text::read_trimmed(path)?))
}

fn parse_os_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty())
}

/// The chosen one of `always [madvise] never`.
fn parse_choice(choices: &str) -> Option<String> {
    Some(choices.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn parse_load_average(text: &str) -> Option<[f64; 3]> {
    let averages: Vec<f64> = text.split(' ').take(3).filter_map(|field| field.parse().ok()).collect();
    averages.try_into().ok().filter(|averages: &[f64; 3]| averages.iter().all(|average| average.is_finite()))
}

/// The traces that the usual runtimes leave inside of a container.
fn container() -> Option<String> {
    let exists = |path: &str| Path::new(path).exists();
    if env::var_os("KUBERNETES_SERVICE_HOST").is_some() {
        return Some("kubernetes".to_owned());
    }
    // systemd notes here what the variable `container` of process 1 says; others set it for all.
    let named = text::read_trimmed("/run/systemd/container").or_else(|| env::var("container").ok());
    named
        .or_else(|| exists("/.dockerenv").then(|| "docker".to_owned()))
        .or_else(|| exists("/run/.containerenv").then(|| "podman".to_owned()))
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn this_machine_has_facts() {
        let facts = HostFacts::read_now();
        assert!(!facts.kernel.is_empty() && !facts.architecture.is_empty());
        assert!(facts.cpus_usable.iter().all(|cpu| facts.cpus_online.contains(cpu)));
        assert!(facts.memory_bytes.unwrap() > facts.memory_available_bytes.unwrap());
        assert!(facts.load_average.is_some());
        let json = serde_json::to_string(&facts).unwrap();
        assert_eq!(serde_json::from_str::<HostFacts>(&json).unwrap(), facts);
    }

    #[test]
    fn facts_of_another_version_are_read_as_far_as_they_go() {
        let facts: HostFacts = serde_json::from_str(r#"{"kernel":"6.1","later":1}"#).unwrap();
        assert_eq!(facts, HostFacts { kernel: "6.1".to_owned(), ..HostFacts::default() });
    }

    #[test]
    fn the_distribution_is_read_with_and_without_quotes() {
        assert_eq!(
            parse_os_name("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n").unwrap(),
            "Debian GNU/Linux 12 (bookworm)"
        );
        assert_eq!(parse_os_name("PRETTY_NAME=Alpine\n").unwrap(), "Alpine");
        assert_eq!(parse_os_name("PRETTY_NAME=\"\"\n"), None);
        assert_eq!(parse_os_name("ID=x"), None);
    }

    #[test]
    fn choices_averages_and_lists_are_read() {
        assert_eq!(parse_choice("always [madvise] never").unwrap(), "madvise");
        assert_eq!(parse_choice("always"), None);
        assert_eq!(parse_load_average("0.52 0.58 1.59 1/467 12345"), Some([0.52, 0.58, 1.59]));
        assert_eq!(parse_load_average("0.52 0.58"), None);
        assert_eq!(parse_load_average("nan inf 1"), None);
        assert_eq!(count_of("0-1,4"), Some(3));
        assert_eq!(count_of("x"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in ".*") {
            drop(parse_os_name(&format!("PRETTY_NAME={text}")));
            drop(parse_choice(&format!("{text}[{text}]{text}")));
            let _ = parse_load_average(&text);
        }
    }
}
