//! Systems that run on this host already. They keep their CPUs, and the load avoids those of a pinned server while others are
//! left.

use plumb_host::cpu::{CpuSet, split_sides, with_siblings};

/// The CPUs of both sides where systems run on this host already.
#[derive(Debug, Default)]
pub(super) struct Running {
    /// The load's CPUs, if these systems may run on its half.
    pub(super) load: Option<CpuSet>,
    /// The CPUs on which these systems may run, if the run builds no others. Empty if they are unknown.
    systems: Option<CpuSet>,
}

impl Running {
    /// For systems that may run on these CPUs, of the `available` ones. `are_running` says that all of them run already.
    pub(super) fn new(available: &CpuSet, systems: &[CpuSet], are_running: bool) -> Self {
        let all = || systems.iter().flat_map(CpuSet::iter).collect();
        Self { load: clear_of(available, systems, with_siblings), systems: are_running.then(all) }
    }

    /// The words for the system's CPUs, if plumb does not choose them.
    pub(super) fn system_in_words(&self) -> Option<String> {
        let cpus = self.systems.as_ref()?;
        let cpus = if cpus.is_empty() { "unknown".to_owned() } else { cpus.to_string() };
        Some(format!("{cpus} (it runs already)"))
    }
}

/// The load's CPUs, if pinned systems may run on its half of the `available` ones. CPUs on other cores than theirs are preferred,
/// because a busy hardware thread slows the other one of its core.
fn clear_of(available: &CpuSet, systems: &[CpuSet], cores: impl Fn(&CpuSet) -> CpuSet) -> Option<CpuSet> {
    let is_pinned = |system: &&CpuSet| !available.without(system).is_empty();
    let taken: CpuSet = systems.iter().filter(is_pinned).flat_map(CpuSet::iter).collect();
    let half = split_sides(available).load;
    let sets = |taken: &CpuSet| [half.without(taken), available.without(taken)];
    let mut clear = sets(&cores(&taken)).into_iter().chain(sets(&taken));
    clear.find(|cpus| !cpus.is_empty()).filter(|cpus| *cpus != half)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(available: &str, systems: &[&str]) -> Option<String> {
        load_with(available, systems, CpuSet::clone)
    }

    fn load_with(available: &str, systems: &[&str], cores: impl Fn(&CpuSet) -> CpuSet) -> Option<String> {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let systems: Vec<CpuSet> = systems.iter().map(|text| set(text)).collect();
        clear_of(&set(available), &systems, cores).map(|cpus| cpus.to_string())
    }

    #[test]
    fn a_load_keeps_clear_of_pinned_servers_while_there_are_cpus_left() {
        // Numbers of CPUs that no machine has, so that none of them are of one core.
        let (two, four) = ("50000-50001", "50000-50003");
        assert_eq!(load(two, &["50000"]), None, "its half is clear");
        assert_eq!(load(two, &["50001"]).as_deref(), Some("50000"));
        assert_eq!(load(two, &["50000-50001"]), None, "it is not pinned");
        assert_eq!(load(two, &["50000", "50001"]), None, "nothing is left");
        assert_eq!(load(four, &["50002", four]).as_deref(), Some("50003"));
        assert_eq!(load(four, &["50002-50003"]).as_deref(), Some("50000-50001"));
        assert_eq!(load("50000", &["50000"]), None, "there is one CPU");
    }

    #[test]
    fn a_load_keeps_clear_of_the_cores_of_pinned_servers_where_it_can() {
        let pairs = |cpus: &CpuSet| cpus.iter().flat_map(|cpu| [cpu & !1, cpu | 1]).collect::<CpuSet>();
        let load = |available: &str, server: &str| load_with(available, &[server], pairs);
        assert_eq!(load("50000-50003", "50002").as_deref(), Some("50000-50001"));
        assert_eq!(load("50000-50007", "50004").as_deref(), Some("50006-50007"));
        assert_eq!(load("50000-50001", "50001").as_deref(), Some("50000"), "there is one core");
        assert_eq!(load("50000-50003", "50000"), None, "its half is clear");
    }

    #[test]
    fn nobody_has_chosen_the_cpus_of_a_system_that_runs_already() {
        let words =
            |systems: &str| Running { systems: Some(systems.parse().unwrap()), load: None }.system_in_words();
        assert_eq!(words("0-1").unwrap(), "0-1 (it runs already)");
        assert_eq!(words("").unwrap(), "unknown (it runs already)");
        assert_eq!(Running::default().system_in_words(), None);
    }
}
