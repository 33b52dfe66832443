//! Hosts that are one machine: two names of it, containers on it, or pods on one node.

use plumb_host::facts::boot;
use plumb_model::PlaceOf;

use super::{Hosts, Remote};

/// The name of this host beside those of others.
const HERE: &str = "this host";

/// A host with the kernel's name for its boot, which no two machines have in common.
#[derive(Debug, Clone)]
pub(super) struct Machine {
    name: String,
    boot: Option<String>,
    has_cpus: bool,
}

impl Machine {
    /// This host, if it has one of these places.
    pub(super) fn here(places: &[&PlaceOf]) -> Option<Self> {
        let own: Vec<&&PlaceOf> = places.iter().filter(|place| place.is_here()).collect();
        let has_cpus = own.iter().all(|place| place.cpus.is_some());
        (!own.is_empty()).then(|| Self { name: HERE.to_owned(), boot: boot(), has_cpus })
    }

    /// The machine of a place that is not here.
    pub(super) fn of(place: &PlaceOf, remote: &Remote) -> Self {
        let boot = remote.hello().boot.clone();
        Self { name: remote.name().to_owned(), boot, has_cpus: place.cpus.is_some() }
    }
}

/// The names of hosts that are one machine, in groups. A group whose places all name their CPUs is left out.
pub(super) fn shared(hosts: &[Machine]) -> Vec<Vec<String>> {
    let mut groups: Vec<Vec<&Machine>> = Vec::new();
    for host in hosts.iter().filter(|host| host.boot.is_some()) {
        match groups.iter_mut().find(|group| group[0].boot == host.boot) {
            Some(group) => group.push(host),
            None => groups.push(vec![host]),
        }
    }
    groups.retain(|group| group.len() > 1 && !group.iter().all(|host| host.has_cpus));
    groups.iter().map(|group| group.iter().map(|host| host.name.clone()).collect()).collect()
}

impl Hosts {
    /// The names of hosts that are one machine, whose CPUs they would share, in groups.
    #[must_use]
    pub fn on_one_machine(&self) -> Vec<Vec<String>> {
        let sides: Vec<&PlaceOf> = std::iter::once(&self.places.system).chain(&self.places.load).collect();
        let others = self.others.iter().map(|other| Machine::of(&other.place, &other.remote));
        shared(&Machine::here(&sides).into_iter().chain(others).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_one_boot_are_one_machine_unless_each_has_its_cpus() {
        let host = |name: &str, boot: Option<&str>, has_cpus| Machine {
            name: name.to_owned(),
            boot: boot.map(str::to_owned),
            has_cpus,
        };
        let (one, two) = (host("a", Some("1"), false), host("b", Some("2"), false));
        assert_eq!(shared(&[one.clone(), two.clone()]), Vec::<Vec<String>>::new());
        let again = host("c", Some("1"), true);
        assert_eq!(shared(&[one, two, again.clone()]), [["a", "c"]]);
        assert!(shared(&[again.clone(), host("d", Some("1"), true)]).is_empty(), "each has its CPUs");
        assert!(shared(&[host("e", None, false), host("f", None, false)]).is_empty(), "nobody knows");
        let elsewhere = PlaceOf::parse("ssh://a").unwrap();
        assert!(Machine::here(&[&elsewhere]).is_none());
        assert!(Machine::here(&[&elsewhere, &PlaceOf::default()]).is_some_and(|here| here.name == HERE));
    }
}
