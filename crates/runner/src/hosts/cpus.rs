//! The CPUs of each side, and the words for them.

use plumb_host::cpu::{available_cpus, sides};
use plumb_host::facts::HostFacts;

use super::facts::{self, host_lines};
use super::{Hosts, Other, Side};

impl Hosts {
    /// The CPUs of a side.
    pub(crate) fn cpus(&self, side: Side, has_system: bool) -> Result<String, String> {
        let place = self.place(side);
        if let Some(cpus) = &place.cpus {
            return Ok(cpus.clone());
        }
        let shared = match side {
            Side::System => {
                has_system && (0..self.loads()).any(|load| self.are_together(Side::Load(load), side))
            }
            Side::Load(_) => has_system && self.are_together(Side::System, side),
        };
        let other = self.others.iter().find(|other| other.host() == place.host());
        Ok(match (other, shared, side) {
            (None, true, Side::System) => {
                sides(has_system).map_err(|error| error.to_string())?.system.to_string()
            }
            (None, true, Side::Load(_)) => sides(true).map_err(|error| error.to_string())?.load.to_string(),
            (None, false, _) => available_cpus().map_err(|error| error.to_string())?.to_string(),
            (Some(other), true, Side::System) => other.remote.hello().halves.0.clone(),
            (Some(other), true, Side::Load(_)) => other.remote.hello().halves.1.clone(),
            (Some(other), false, _) => other.remote.hello().cpus.clone(),
        })
    }

    /// Facts about every host with a side, as lines, with the CPUs of each side.
    pub(crate) fn lines(&self, has_system: bool) -> Result<Vec<(String, String)>, String> {
        if self.others.is_empty() && self.places.system.cpus.is_none() {
            let sides = sides(has_system).map_err(|error| error.to_string())?;
            return Ok(host_lines(&HostFacts::read(), &sides));
        }
        let mut lines = Vec::new();
        if self.has_one_here() {
            lines.extend(facts::of_host(&HostFacts::read()));
        }
        for Other { remote, .. } in &self.others {
            let named =
                |(name, value): &(String, String)| (format!("{}: {name}", remote.name()), value.clone());
            lines.extend(remote.hello().facts.iter().map(named));
            lines.extend(remote.lines().iter().map(named));
            let trip_ms = remote.round_trip_ns() as f64 / 1e6;
            lines.push((format!("{}: round trip", remote.name()), format!("{trip_ms:.2} ms")));
        }
        if has_system {
            lines.push(("system on cpus".to_owned(), self.cpus_of(Side::System, has_system)?));
        }
        lines.push(("load on cpus".to_owned(), self.cpus_of_loads(has_system)?));
        Ok(lines)
    }

    /// The CPUs of a side, with its host unless that is this one.
    pub(crate) fn cpus_of(&self, side: Side, has_system: bool) -> Result<String, String> {
        let cpus = self.cpus(side, has_system)?;
        Ok(if self.is_here(side) { cpus } else { format!("{cpus} of {}", self.name(side)) })
    }

    /// The CPUs of all loads.
    pub(crate) fn cpus_of_loads(&self, has_system: bool) -> Result<String, String> {
        let each = (0..self.loads()).map(|load| self.cpus_of(Side::Load(load), has_system));
        Ok(each.collect::<Result<Vec<_>, _>>()?.join(", "))
    }
}
