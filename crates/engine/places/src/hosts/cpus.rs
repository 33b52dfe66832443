//! The CPUs of each side, and the words for them.

use std::collections::BTreeMap;

use plumb_host::cpu::{CpuSet, Sides, available_cpus, sides, split_sides};
use plumb_host::facts::HostFacts;
use plumb_model::Places;
use plumb_path::PathSettings;

use super::running::Running;
use super::{Hosts, Other, Side};
use crate::error::HostError;
use crate::facts::{self, host_lines};
use crate::place::Place as _;

/// The hosts of a run in the words of its header.
pub struct HostsInWords {
    /// Facts about every host with a side, as lines, with the CPUs of each side.
    pub lines: Vec<(String, String)>,
    /// The CPUs of the system.
    pub system_cpus: String,
    /// The CPUs of all loads.
    pub load_cpus: String,
    /// Where the sides are; `None` where both are here, with one load.
    pub places: Option<Places>,
}

impl Hosts {
    /// Describes the hosts, and the CPUs of both sides.
    ///
    /// # Errors
    /// When the CPUs of this host are unknown.
    pub fn in_words(&self) -> Result<HostsInWords, HostError> {
        Ok(HostsInWords {
            lines: self.lines()?,
            system_cpus: self.cpus_of(Side::System)?,
            load_cpus: self.cpus_of_loads()?,
            places: self.layout.places().cloned(),
        })
    }

    /// Finds the systems of these settings that run on this host already.
    pub fn find_running<'s>(&mut self, settings: impl Iterator<Item = &'s PathSettings>) {
        let Some(available) = available_cpus().ok().filter(|_| self.layout.is_here(Side::System)) else {
            return;
        };
        let built = split_sides(&available).system;
        // Finding a process takes long, and most cells differ in the load alone.
        let mut found: BTreeMap<String, (bool, CpuSet)> = BTreeMap::new();
        for settings in settings.filter(|settings| settings.facts().system.exists) {
            let mut json = settings.to_json().unwrap_or_default();
            if let Some(keys) = json.as_object_mut() {
                keys.remove("load");
            }
            found.entry(json.to_string()).or_insert_with(|| match settings.facts().system.foreign {
                Some(foreign) => {
                    (true, foreign.service().and_then(|it| it.allowed_cpus()).unwrap_or_default())
                }
                None => (false, built.clone()),
            });
        }
        let are_running = !found.is_empty() && found.values().all(|(is_running, _)| *is_running);
        let systems: Vec<CpuSet> = found.into_values().map(|(_, cpus)| cpus).collect();
        self.running = Running::new(&available, &systems, are_running);
    }

    /// The CPUs of all loads on the system's host.
    pub fn cpus_beside_system(&self) -> Result<CpuSet, HostError> {
        let beside = (0..self.layout.loads())
            .map(Side::Load)
            .filter(|load| self.layout.are_together(*load, Side::System));
        let sets = beside.map(|load| Ok(self.cpus(load)?.parse::<CpuSet>()?));
        Ok(sets.collect::<Result<Vec<_>, HostError>>()?.iter().flat_map(CpuSet::iter).collect())
    }

    /// The CPUs of a side.
    pub(super) fn cpus(&self, side: Side) -> Result<String, HostError> {
        let place = self.layout.place(side);
        if let Some(cpus) = &place.cpus {
            return Ok(cpus.clone());
        }
        let shared = match side {
            Side::System => {
                self.has_system
                    && (0..self.layout.loads()).any(|load| self.layout.are_together(Side::Load(load), side))
            }
            Side::Load(_) => self.has_system && self.layout.are_together(Side::System, side),
        };
        let other = self.connections.to(place.host());
        Ok(match (other, shared, side) {
            (None, true, Side::System) => sides(true)?.system.to_string(),
            (None, true, Side::Load(_)) => match &self.running.load {
                Some(cpus) => cpus.to_string(),
                None => sides(true)?.load.to_string(),
            },
            (None, false, _) => available_cpus()?.to_string(),
            (Some(other), true, Side::System) => other.remote.hello().halves.0.clone(),
            (Some(other), true, Side::Load(_)) => other.remote.hello().halves.1.clone(),
            (Some(other), false, _) => other.remote.hello().cpus.clone(),
        })
    }

    /// Facts about every host with a side, as lines, with the CPUs of each side.
    fn lines(&self) -> Result<Vec<(String, String)>, HostError> {
        if self.connections.others.is_empty() && self.layout.places.system.cpus.is_none() {
            let sides = sides(self.has_system)?;
            let load = self.running.load.clone().unwrap_or(sides.load);
            let mut lines = host_lines(&HostFacts::read_now(), &Sides { load, ..sides });
            let system = lines.iter_mut().find(|(name, _)| name == facts::SYSTEM_ON_CPUS);
            if let (Some((_, value)), Some(words)) = (system, self.running.system_in_words()) {
                *value = words;
            }
            return Ok(lines);
        }
        let mut lines = Vec::new();
        if self.layout.has_one_here() {
            lines.extend(facts::of_host(&HostFacts::read_now()));
        }
        for Other { remote, .. } in &self.connections.others {
            let named =
                |(name, value): &(String, String)| (format!("{}: {name}", remote.name()), value.clone());
            lines.extend(remote.hello().facts.iter().map(named));
            lines.extend(remote.lines().iter().map(named));
            let trip_ms = remote.round_trip_ns() as f64 / 1e6;
            lines.push((format!("{}: round trip", remote.name()), format!("{trip_ms:.2} ms")));
        }
        if self.has_system {
            lines.push((facts::SYSTEM_ON_CPUS.to_owned(), self.cpus_of(Side::System)?));
        }
        lines.push(("load on cpus".to_owned(), self.cpus_of_loads()?));
        Ok(lines)
    }

    /// The CPUs of a side in words, with its host unless that is this one.
    fn cpus_of(&self, side: Side) -> Result<String, HostError> {
        if let Some(words) = self.running.system_in_words().filter(|_| side == Side::System) {
            return Ok(words);
        }
        let cpus = self.cpus(side)?;
        Ok(if self.layout.is_here(side) { cpus } else { format!("{cpus} of {}", self.layout.name(side)) })
    }

    /// The CPUs of all loads.
    fn cpus_of_loads(&self) -> Result<String, HostError> {
        let each = (0..self.layout.loads()).map(|load| self.cpus_of(Side::Load(load)));
        Ok(each.collect::<Result<Vec<_>, _>>()?.join(", "))
    }
}
