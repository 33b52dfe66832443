//! Puts each interrupt of a network card's queues on a separate CPU, and keeps daemons from moving it.

use plumb_host::settings::{Machine, Setting};

use super::{cards, cpus};
use crate::found::Found;

/// Moves interrupts from CPU to CPU by load.
const BALANCER: &str = "irqbalance";

pub(crate) fn interrupt_affinity(machine: &Machine, argument: Option<&str>) -> Found {
    let mut found = Found::default();
    let cpus = cpus(machine);
    let cards = cards(machine, argument, &mut found);
    let mut affinities = Found::default();
    for card in &cards {
        let interrupts = machine.card_interrupts(card);
        if interrupts.is_empty() {
            found.leave_out(card, "its driver has no interrupts that could be moved");
        }
        for (at, (number, name)) in interrupts.iter().enumerate() {
            // Both directions of a queue go to the same CPU.
            let cpu = &cpus[queue_of(name).unwrap_or(at) % cpus.len()];
            let label = format!("CPU of interrupt {number} ({name})");
            affinities.want(machine, &label, Setting::interrupt(*number), cpu.trim_start_matches("cpu"));
        }
    }
    // Before the first interrupt is moved; and it goes on after the last one is back.
    if !affinities.wanted.is_empty() {
        for daemon in machine.daemons(BALANCER) {
            found.want(machine, BALANCER, daemon, "paused");
        }
    }
    found.add(affinities);
    found
}

/// The number at the end of a name: `virtio2-input.0`, `eth0-TxRx-3`, `mlx5_comp3@pci:0000:08:00.0`.
fn queue_of(name: &str) -> Option<usize> {
    let name = name.split('@').next().unwrap_or(name);
    let digits = name.len() - name.trim_end_matches(|end: char| end.is_ascii_digit()).len();
    name[name.len() - digits..].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_the_number_at_the_end() {
        assert_eq!(queue_of("virtio2-input.0"), Some(0));
        assert_eq!(queue_of("eth0-TxRx-13"), Some(13));
        assert_eq!(queue_of("mlx5_comp3@pci:0000:08:00.0"), Some(3));
        assert_eq!(queue_of("eth0"), Some(0));
        assert_eq!(queue_of("ens-mgmt"), None);
        assert_eq!(queue_of(""), None);
    }
}
