//! Each interrupt of a network card's queues on a CPU of its own, and nobody who moves it away again.

use plumb_host::settings::{Machine, Setting};

use super::{cards, cpus};
use crate::found::Found;

/// Moves interrupts from CPU to CPU by load.
const BALANCER: &str = "irqbalance";

/// An interrupt of a queue.
struct QueueInterrupt {
    number: u32,
    /// The driver's name for it, such as `virtio2-input.0` or `eth0-TxRx-3`.
    name: String,
    /// The queue, where the name tells; both directions of a queue go to the same CPU.
    queue: Option<usize>,
}

pub(crate) fn interrupt_affinity(machine: &Machine, argument: Option<&str>) -> Found {
    let mut found = Found::default();
    let cpus = cpus(machine);
    let cards = cards(machine, argument, &mut found);
    let mut affinities = Found::default();
    for card in &cards {
        let interrupts = of_card(machine, card);
        if interrupts.is_empty() {
            found.leave_out(card, "its driver has no interrupts that could be moved");
        }
        for (at, interrupt) in interrupts.iter().enumerate() {
            let cpu = &cpus[interrupt.queue.unwrap_or(at) % cpus.len()];
            let label = format!("CPU of interrupt {} ({})", interrupt.number, interrupt.name);
            let cpu = cpu.trim_start_matches("cpu");
            affinities.want(machine, &label, Setting::interrupt(interrupt.number), cpu);
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

/// The interrupts of a card's queues. Under virtio the card is below the device that has them.
fn of_card(machine: &Machine, card: &str) -> Vec<QueueInterrupt> {
    let device = format!("class/net/{card}/device");
    let numbers = [format!("{device}/msi_irqs"), format!("{device}/../msi_irqs")]
        .iter()
        .map(|directory| machine.sys_names(directory))
        .find(|numbers| !numbers.is_empty())
        .unwrap_or_default();
    let mut interrupts: Vec<QueueInterrupt> = numbers
        .iter()
        .filter_map(|number| {
            let name = machine.sys(&format!("kernel/irq/{number}/actions"))?;
            let is_queue = !name.is_empty() && !name.ends_with("config") && !name.contains("async");
            let number = number.parse().ok().filter(|_| is_queue)?;
            Some(QueueInterrupt { number, queue: queue_of(&name), name })
        })
        .collect();
    interrupts.sort_by_key(|interrupt| interrupt.number);
    interrupts
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
