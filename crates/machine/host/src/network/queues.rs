//! The CPUs to which a device's queues belong, through a `/sys` that shows the namespace.

use std::fs;
use std::path::PathBuf;

use super::namespace::Namespace;
use crate::Error;
use crate::cpu::CpuSet;

/// The direction of packets through a queue.
#[derive(Debug, Clone, Copy)]
enum Way {
    Receive,
    Send,
}

impl Way {
    fn file(self, device: &str, queue: usize) -> PathBuf {
        let (queues, file) = match self {
            Self::Receive => ("rx", "rps_cpus"),
            Self::Send => ("tx", "xps_cpus"),
        };
        format!("/sys/class/net/{device}/queues/{queues}-{queue}/{file}").into()
    }
}

impl Namespace {
    /// Has these CPUs handle the packets that a device receives, in every queue (receive packet steering).
    ///
    /// # Errors
    ///
    /// When this process may not, or the kernel cannot steer packets.
    pub fn set_receive_cpus(&self, device: &str, queues: usize, cpus: &CpuSet) -> Result<(), Error> {
        let mask = hexadecimal(cpus.iter());
        self.write_queues(Way::Receive, device, vec![mask; queues])
    }

    /// Assigns these CPUs to a device's queues for sending, one to each in turn (transmit packet steering).
    ///
    /// # Errors
    ///
    /// When this process may not, or the device has only one queue.
    pub fn set_send_cpus(&self, device: &str, queues: usize, cpus: &CpuSet) -> Result<(), Error> {
        let masks = (0..queues).map(|queue| hexadecimal(cpus.iter().skip(queue).step_by(queues))).collect();
        self.write_queues(Way::Send, device, masks)
    }

    /// The CPUs to which each of a device's queues belongs, first for receiving and then for sending; empty if the kernel does not report
    /// them.
    ///
    /// # Errors
    ///
    /// When this process may not mount its own `/sys`.
    pub fn queue_cpus(&self, device: &str, queues: usize) -> Result<(Vec<CpuSet>, Vec<CpuSet>), Error> {
        let read = |way: Way| -> Vec<CpuSet> {
            let texts = (0..queues).map(|queue| fs::read_to_string(way.file(device, queue)));
            texts.map(|text| cpus_of(text.unwrap_or_default().trim()).unwrap_or_default()).collect()
        };
        self.with_sysfs(|| (read(Way::Receive), read(Way::Send)))
    }

    fn write_queues(&self, way: Way, device: &str, masks: Vec<String>) -> Result<(), Error> {
        self.with_sysfs(|| {
            masks.iter().enumerate().try_for_each(|(queue, mask)| {
                let path = way.file(device, queue);
                fs::write(&path, mask).map_err(|cause| Error::Write { path, cause })
            })
        })?
    }
}

/// Writes CPUs as the kernel's hexadecimal mask, in groups of 32 bits with commas between them.
fn hexadecimal(cpus: impl Iterator<Item = u32>) -> String {
    let mut groups = vec![0_u32];
    for cpu in cpus {
        let group = cpu as usize / 32;
        groups.resize(groups.len().max(group + 1), 0);
        groups[group] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = groups.iter().rev().map(|group| format!("{group:08x}")).collect();
    words.join(",")
}

/// Reads the CPUs of such a mask.
fn cpus_of(mask: &str) -> Option<CpuSet> {
    let groups: Vec<u32> =
        mask.rsplit(',').map(|group| u32::from_str_radix(group, 16).ok()).collect::<Option<_>>()?;
    let is_set = |cpu: &u32| groups[*cpu as usize / 32] >> (cpu % 32) & 1 == 1;
    Some((0..u32::try_from(groups.len()).ok()? * 32).filter(is_set).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_read_as_they_are_written() {
        for cpus in [vec![], vec![0], vec![1, 31, 32], vec![33, 200]] {
            let set: CpuSet = cpus.iter().copied().collect();
            assert_eq!(cpus_of(&hexadecimal(cpus.into_iter())), Some(set));
        }
        assert_eq!(cpus_of("3"), Some([0, 1].into_iter().collect()));
        assert_eq!(cpus_of("1,00000000"), Some([32].into_iter().collect()));
        assert_eq!((cpus_of(""), cpus_of("x")), (None, None));
    }

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        assert_eq!(hexadecimal([0, 1].into_iter()), "00000003");
        assert_eq!(hexadecimal([33].into_iter()), "00000002,00000000");
        assert_eq!(hexadecimal([].into_iter()), "00000000");
    }
}
