//! CPUs that both ends of a flow share. Hosts number their CPUs alike, so that the same numbers on two of them are not the
//! same CPUs: what is shared says which host's they are.

use plumb_host::cpu::{CpuSet, available_cpus, pin_current_thread};
use plumb_host::time::boot_id;
use serde::{Deserialize, Serialize};

/// The CPUs of one host that the flows' threads run on in turn, at both ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedCpus {
    /// The kernel's name for the time since its last boot, which no two hosts have in common.
    pub boot: String,
    /// Their numbers.
    pub cpus: Vec<u32>,
}

impl SharedCpus {
    /// Those that this process may use.
    ///
    /// # Errors
    /// When the kernel does not say which these are.
    pub fn ours() -> Result<Self, plumb_host::Error> {
        Ok(Self { boot: boot_id().unwrap_or_default(), cpus: available_cpus()?.iter().collect() })
    }

    /// Those that are also among the others.
    #[must_use]
    pub fn common(&self, others: &Self) -> Option<Self> {
        let mut common = self.clone();
        common.cpus.retain(|cpu| others.cpus.contains(cpu));
        let is_one_host = !self.boot.is_empty() && self.boot == others.boot;
        (is_one_host && !common.cpus.is_empty()).then_some(common)
    }

    /// Whether they are this host's.
    #[must_use]
    pub fn are_here(&self) -> bool {
        boot_id().is_some_and(|boot| boot == self.boot)
    }

    /// The one for a flow's thread.
    #[must_use]
    pub fn cpu_for(&self, flow: u32) -> Option<u32> {
        let turn = (flow as usize).checked_rem(self.cpus.len())?;
        self.cpus.get(turn).copied()
    }
}

/// Keeps the calling thread on one CPU, and says where it may run then.
///
/// # Errors
/// When this process may not use that CPU.
pub fn pin(cpu: u32) -> Result<CpuSet, plumb_host::Error> {
    pin_current_thread(&std::iter::once(cpu).collect())?;
    available_cpus()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_cpus_in_turn() {
        let shared = SharedCpus { cpus: vec![4, 7], ..SharedCpus::ours().unwrap() };
        assert_eq!([0, 1, 2, 3].map(|flow| shared.cpu_for(flow)), [Some(4), Some(7), Some(4), Some(7)]);
        assert_eq!(SharedCpus { cpus: Vec::new(), ..shared }.cpu_for(0), None);
    }

    #[test]
    fn only_cpus_of_one_host_are_common() {
        let of = |boot: &str, cpus: &[u32]| SharedCpus { boot: boot.to_owned(), cpus: cpus.to_vec() };
        let ours = of("1f", &[0, 1, 2]);
        assert_eq!(ours.common(&of("1f", &[1, 2, 3])), Some(of("1f", &[1, 2])));
        assert_eq!(ours.common(&of("1f", &[3])), None);
        assert_eq!(ours.common(&of("2e", &[1, 2])), None);
        assert_eq!(of("", &[0]).common(&of("", &[0])), None, "no kernel says which host it is");
    }

    #[test]
    fn cpus_of_another_boot_are_not_here() {
        let ours = SharedCpus::ours().unwrap();
        assert!(ours.are_here());
        for boot in ["", "6f1d8b0e-0000-0000-0000-000000000000"] {
            assert!(!SharedCpus { boot: boot.to_owned(), ..ours.clone() }.are_here(), "{boot:?}");
        }
    }
}
