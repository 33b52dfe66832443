//! The hosts that variants change: the system's host, and with `place: load` every host of the load. Each
//! makes its own part of a treatment.

use plumb_model::{Host, PlannedVariant};
use plumb_path::Sides;
use plumb_tunings::Treatment;

use super::{Hosts, Other};
use crate::error::HostError;
use crate::host_tunings::{self, Obstacle, Proof};
use crate::remote::Remote;
use crate::wire::OwnTreatment;

/// Another host that variants change.
pub struct TreatedHost<'h> {
    remote: &'h mut Remote,
    sides: Sides,
    /// Its parts of all treatments, without empty ones.
    parts: Vec<OwnTreatment>,
}

impl Hosts {
    /// The part of a treatment that applies to this host.
    pub fn part_here(&self, treatment: Treatment<'_>) -> OwnTreatment {
        OwnTreatment::at(treatment, self.sides_on(Host::Here))
    }

    /// The other hosts that any of these treatments changes.
    pub fn treated(&mut self, treatments: &[Treatment<'_>]) -> Vec<TreatedHost<'_>> {
        let sides: Vec<Sides> = self.others.iter().map(|other| self.sides_on(other.host())).collect();
        let treated = self.others.iter_mut().zip(sides).map(|(Other { remote, .. }, sides)| {
            let parts = treatments.iter().map(|treatment| OwnTreatment::at(*treatment, sides));
            TreatedHost { remote, sides, parts: parts.filter(|part| !part.is_empty()).collect() }
        });
        treated.filter(|host| !host.parts.is_empty()).collect()
    }

    /// Whether the connection to any host is gone.
    pub fn has_lost_one(&mut self) -> bool {
        self.remotes().any(Remote::is_lost)
    }

    /// Why a host cannot have a variant's changes there, or that all hosts already have them.
    ///
    /// # Errors
    /// When a host cannot be asked.
    pub fn impossible(
        &mut self,
        variant: &PlannedVariant,
        base: Option<&PlannedVariant>,
    ) -> Result<Option<Obstacle>, HostError> {
        let sides_here = self.sides_on(Host::Here);
        let sides: Vec<Sides> = self.others.iter().map(|other| self.sides_on(other.host())).collect();
        let others = self.others.iter_mut().zip(sides).map(|(other, sides)| (Some(&mut other.remote), sides));
        let (mut already, mut is_news) = (None, false);
        for (remote, sides) in std::iter::once((None, sides_here)).chain(others) {
            let part = OwnTreatment::of_variant(variant, sides);
            let base = base.map(|base| OwnTreatment::of_variant(base, sides));
            let differs = base
                .as_ref()
                .is_none_or(|base| host_tunings::treatment(base) != host_tunings::treatment(&part));
            let name = remote.as_ref().filter(|_| !sides.system).map(|remote| remote.name().to_owned());
            let obstacle = match remote {
                None => host_tunings::impossible(&part, base.as_ref()),
                Some(remote) => remote.impossible(part, base)?,
            };
            match obstacle {
                Some(Obstacle::Impossible(reason)) => {
                    return Ok(Some(Obstacle::Impossible(on(name.as_deref(), reason))));
                }
                Some(Obstacle::Already(reason)) => {
                    already.get_or_insert_with(|| on(name.as_deref(), reason));
                }
                None => is_news |= differs,
            }
        }
        Ok(already.filter(|_| !is_news).map(Obstacle::Already))
    }
}

impl TreatedHost<'_> {
    /// Tries its part of a treatment out. Returns the reason if the host refuses it.
    pub fn try_out(&mut self, treatment: Treatment<'_>) -> Result<Option<String>, HostError> {
        let part = OwnTreatment::at(treatment, self.sides);
        if part.is_empty() {
            return Ok(None);
        }
        self.prepare()?;
        let refused = self.remote.try_out(part)?;
        Ok(refused.map(|reason| on(self.name(), reason)))
    }

    /// Applies its part of a treatment for a slot, and undoes the part of the previous one.
    pub fn begin(&mut self, treatment: Treatment<'_>) -> Result<(), HostError> {
        self.prepare()?;
        self.remote.begin_treatment(OwnTreatment::at(treatment, self.sides))
    }

    /// Ends the treatment after its slot, and proves that it was in effect.
    pub fn end(&mut self, is_ok: bool) -> Result<Proof, HostError> {
        let proof = self.remote.end_treatment(is_ok)?;
        Ok(match self.name() {
            Some(name) => proof.on(name),
            None => proof,
        })
    }

    /// Restores everything at the end of a run.
    pub fn put_back(&mut self) -> Result<(), HostError> {
        self.remote.put_back()
    }

    fn prepare(&mut self) -> Result<(), HostError> {
        self.remote.prepare_treatments(self.parts.clone())
    }

    /// A name that tells it from the system's host.
    fn name(&self) -> Option<&str> {
        (!self.sides.system).then(|| self.remote.name())
    }
}

fn on(name: Option<&str>, reason: String) -> String {
    name.map_or(reason.clone(), |name| format!("on {name}: {reason}"))
}
