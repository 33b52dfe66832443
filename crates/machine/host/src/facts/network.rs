//! Network cards: what they take off the CPU, how many queues they have, and who serves them.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::network::features::{Feature, is_on};
use crate::settings::{Machine, RingSizes};
use crate::text;

const INTERFACES: &str = "/sys/class/net";

/// A network interface that has a device behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct NetworkCard {
    /// The interface.
    pub name: String,
    /// The kernel's driver, such as `virtio_net`.
    pub driver: Option<String>,
    /// Queues for what arrives.
    pub receive_queues: usize,
    /// Queues for what is sent.
    pub transmit_queues: usize,
    /// The lengths of its rings, where the driver tells.
    pub rings: Option<RingSizes>,
    /// The work that the card or the stack takes off the CPU, by ethtool's short names, and whether it is on.
    pub offloads: BTreeMap<String, bool>,
    /// The interrupts of its queues.
    pub interrupts: Vec<CardInterrupt>,
}

/// An interrupt of one of a card's queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CardInterrupt {
    /// The number.
    pub number: u32,
    /// The driver's name for it, such as `virtio2-input.0`.
    pub name: String,
    /// The CPUs that may serve it, as a list.
    pub cpus: String,
}

/// Connections that the kernel keeps track of, for firewalls and address translation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conntrack {
    /// Connections now.
    pub count: u64,
    /// No more than this many.
    pub count_max: u64,
}

/// Every card, in the order of their names.
pub(super) fn cards() -> Vec<NetworkCard> {
    let machine = Machine::this();
    let names = machine.sys_names("class/net");
    let is_card = |name: &String| Path::new(INTERFACES).join(name).join("device").exists();
    names.into_iter().filter(is_card).map(|name| card(&machine, name)).collect()
}

fn card(machine: &Machine, name: String) -> NetworkCard {
    let directory = Path::new(INTERFACES).join(&name);
    let driver = fs::read_link(directory.join("device/driver")).ok();
    let queues = machine.sys_names(&format!("class/net/{name}/queues"));
    let count = |prefix: &str| queues.iter().filter(|queue| queue.starts_with(prefix)).count();
    NetworkCard {
        driver: driver.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
        receive_queues: count("rx-"),
        transmit_queues: count("tx-"),
        rings: machine.rings(&name).ok(),
        offloads: offloads(&name).unwrap_or_default(),
        interrupts: interrupts(machine, &name),
        name,
    }
}

fn offloads(name: &str) -> io::Result<BTreeMap<String, bool>> {
    let all = [Feature::Tso, Feature::Gso, Feature::Gro, Feature::TxChecksum, Feature::RxChecksum];
    all.into_iter().map(|feature| Ok((feature.name().to_owned(), is_on(name, feature)?))).collect()
}

fn interrupts(machine: &Machine, name: &str) -> Vec<CardInterrupt> {
    let as_fact = |(number, name): (u32, String)| {
        let cpus = text::read_trimmed(format!("/proc/irq/{number}/smp_affinity_list")).unwrap_or_default();
        CardInterrupt { number, name, cpus }
    };
    machine.card_interrupts(name).into_iter().map(as_fact).collect()
}

/// `None` where nothing tracks connections.
pub(super) fn conntrack() -> Option<Conntrack> {
    let number = |file: &str| text::read_number(format!("/proc/sys/net/netfilter/{file}"));
    Some(Conntrack { count: number("nf_conntrack_count")?, count_max: number("nf_conntrack_max")? })
}
