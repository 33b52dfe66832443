//! Facts about a host, as lines for people.

use plumb_host::acceleration::cpu_features;
use plumb_host::cpu::Sides;
use plumb_host::facts::HostFacts;

use crate::host_tunings;

/// The name of the fact that says on which CPUs the system runs.
pub(crate) const SYSTEM_ON_CPUS: &str = "system on cpus";

/// Facts about this host as lines, the most telling first, with the CPUs of each side.
#[must_use]
pub fn host_lines(facts: &HostFacts, sides: &Sides) -> Vec<(String, String)> {
    let mut lines = of_host(facts);
    let shared = match (sides.shared, sides.load.len()) {
        (false, _) => "",
        (true, 0 | 1) => " (shared: there is only one CPU)",
        (true, _) => " (shared: there is no system beside the load)",
    };
    lines.push((SYSTEM_ON_CPUS.to_owned(), format!("{}{shared}", sides.system)));
    lines.push(("load on cpus".to_owned(), format!("{}{shared}", sides.load)));
    lines
}

/// Facts about a host as lines, the most telling first.
pub(crate) fn of_host(facts: &HostFacts) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            lines.push((name.to_owned(), value));
        }
    };
    add("cpu", facts.cpu_model.clone());
    add("cpus", Some(facts.cpus_usable.len().to_string()));
    let features = cpu_features(facts);
    let present = features.iter().filter(|feature| feature.present).map(|feature| feature.name);
    add("cpu features", Some(present.collect::<Vec<_>>().join(", ")).filter(|names| !names.is_empty()));
    add("accelerators", plumb_host::accelerators::summary(&facts.accelerators));
    add("memory", facts.memory_bytes.map(|bytes| format!("{:.1} GiB", gibibytes(bytes))));
    add("os", facts.os.clone());
    add("kernel", Some(facts.kernel.clone()));
    add("virtualisation", facts.virtualisation.clone());
    add("container", facts.container.clone());
    add("clock source", facts.clocksource.clone());
    add("governor", facts.governor.clone());
    add("smt", facts.smt.map(|on| if on { "on" } else { "off" }.to_owned()));
    add("turbo", facts.turbo.map(|on| if on { "on" } else { "off" }.to_owned()));
    add("transparent huge pages", facts.transparent_huge_pages.clone());
    add("tunings", host_tunings::in_effect());
    add("load average", facts.load_average.map(|[one, five, fifteen]| format!("{one} {five} {fifteen}")));
    lines
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}
