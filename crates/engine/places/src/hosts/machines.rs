//! Finds hosts that are one machine: two names of it, containers on it, or pods on one node.

use plumb_host::cpu::CpuSet;
use plumb_host::time::boot_id;
use plumb_model::PlaceOf;

use super::Hosts;
use crate::place::{HERE, Place as _};
use crate::remote::Remote;

/// A host with the kernel's identifier of its boot, which differs between machines.
#[derive(Debug, Clone)]
pub struct Machine {
    name: String,
    boot: Option<String>,
    /// The CPUs that its place names; `None` if it may use all.
    cpus: Option<CpuSet>,
}

impl Machine {
    /// This host, if it has one of these places.
    pub fn here(places: &[&PlaceOf]) -> Option<Self> {
        let own: Vec<&&PlaceOf> = places.iter().filter(|place| place.is_here()).collect();
        let each: Option<Vec<CpuSet>> = own.iter().map(|place| cpus(place)).collect();
        let cpus = each.map(|sets| sets.iter().flat_map(CpuSet::iter).collect());
        (!own.is_empty()).then(|| Self { name: HERE.to_owned(), boot: boot_id(), cpus })
    }

    /// The machine of a place that is not here.
    pub fn elsewhere(place: &PlaceOf, remote: &Remote) -> Self {
        let boot = remote.hello().boot.clone();
        Self { name: remote.name().to_owned(), boot, cpus: cpus(place) }
    }

    fn shares_cpus_with(&self, other: &Self) -> bool {
        match (&self.cpus, &other.cpus) {
            (Some(own), Some(others)) => !own.intersection(others).is_empty(),
            _ => true,
        }
    }
}

fn cpus(place: &PlaceOf) -> Option<CpuSet> {
    place.cpus.as_ref()?.parse().ok()
}

/// The names of hosts that are one machine, in groups. A group is left out if none of its places share CPUs.
pub fn shared(hosts: &[Machine]) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<&Machine>> = Vec::new();
    for host in hosts.iter().filter(|host| host.boot.is_some()) {
        match groups.iter_mut().find(|group| group[0].boot == host.boot) {
            Some(group) => group.push(host),
            None => groups.push(vec![host]),
        }
    }
    let shares = |group: &Vec<&Machine>| {
        (1..group.len()).any(|at| group[..at].iter().any(|host| host.shares_cpus_with(group[at])))
    };
    groups.retain(shares);
    groups.iter().map(|group| group.iter().map(|host| host.name.clone()).collect()).collect()
}

impl Hosts {
    /// The names of hosts that are one machine and would share its CPUs, in groups.
    #[must_use]
    pub fn on_one_machine(&self) -> Vec<Vec<String>> {
        let sides: Vec<&PlaceOf> =
            std::iter::once(&self.layout.places.system).chain(&self.layout.places.load).collect();
        let others =
            self.connections.others.iter().map(|other| Machine::elsewhere(&other.place, &other.remote));
        shared(&Machine::here(&sides).into_iter().chain(others).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_boot_are_one_machine_unless_each_has_its_cpus() {
        let host = |name: &str, boot: Option<&str>, cpus: Option<&str>| Machine {
            name: name.to_owned(),
            boot: boot.map(str::to_owned),
            cpus: cpus.map(|cpus| cpus.parse().unwrap()),
        };
        let (one, two) = (host("a", Some("1"), None), host("b", Some("2"), None));
        assert_eq!(shared(&[one.clone(), two.clone()]), Vec::<Vec<String>>::new());
        let again = host("c", Some("1"), Some("0"));
        assert_eq!(shared(&[one, two, again.clone()]), [["a", "c"]]);
        assert!(shared(&[again.clone(), host("d", Some("1"), Some("1-3"))]).is_empty(), "each has its CPUs");
        assert_eq!(shared(&[again.clone(), host("d", Some("1"), Some("0-3"))]), [["c", "d"]]);
        assert!(shared(&[host("e", None, None), host("f", None, None)]).is_empty(), "nobody knows");
        let elsewhere = PlaceOf::parse("ssh://a").unwrap();
        assert!(Machine::here(&[&elsewhere]).is_none());
        assert!(Machine::here(&[&elsewhere, &PlaceOf::default()]).is_some_and(|here| here.name == HERE));
    }
}
