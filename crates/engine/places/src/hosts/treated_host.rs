//! The hosts that variants change: the system's host, and with `place: load` every host of the load. Each
//! makes its own part of a treatment.

use plumb_model::{Host, PlannedVariant};
use plumb_path::Sides;
use plumb_tunings::Treatment;

use super::Hosts;
use crate::error::HostError;
use crate::host_tunings::{self, Obstacle, Proof};
use crate::place::Place;
use crate::wire::{KeeperReply, OwnTreatment, Treat};

/// A host that variants change.
pub struct TreatedHost<'h> {
    place: &'h mut dyn Place,
    sides: Sides,
    /// The parts of all treatments, without empty ones.
    parts: Vec<OwnTreatment>,
}

impl Hosts {
    /// Every host with the sides that it has, this one first.
    fn with_sides(&mut self) -> impl Iterator<Item = (&mut dyn Place, Sides)> {
        let Self { layout, here, connections, .. } = self;
        let others = connections.others.iter_mut().map(|other| {
            let sides = layout.sides_on(other.host());
            (&mut other.remote as &mut dyn Place, sides)
        });
        std::iter::once((here as &mut dyn Place, layout.sides_on(Host::Here))).chain(others)
    }

    /// The hosts that any of these treatments changes.
    pub fn treated(&mut self, treatments: &[Treatment<'_>]) -> Vec<TreatedHost<'_>> {
        let treated = self.with_sides().map(|(place, sides)| {
            let parts = treatments.iter().map(|treatment| OwnTreatment::at(*treatment, sides));
            TreatedHost { place, sides, parts: parts.filter(|part| !part.is_empty()).collect() }
        });
        treated.filter(|host| !host.parts.is_empty()).collect()
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
        let (mut already, mut is_news) = (None, false);
        for (place, sides) in self.with_sides() {
            let part = OwnTreatment::of_variant(variant, sides);
            let base = base.map(|base| OwnTreatment::of_variant(base, sides));
            let differs = base
                .as_ref()
                .is_none_or(|base| host_tunings::treatment(base) != host_tunings::treatment(&part));
            let request = Treat::Impossible { variant: Box::new(part), base: base.map(Box::new) };
            let obstacle = match place.treat(request)? {
                KeeperReply::Obstacle { obstacle } => obstacle,
                other => return Err(other.odd(place.name())),
            };
            match obstacle {
                Some(Obstacle::Impossible(reason)) => {
                    return Ok(Some(Obstacle::Impossible(on(place, sides, reason))));
                }
                Some(Obstacle::Already(reason)) => {
                    already.get_or_insert_with(|| on(place, sides, reason));
                }
                None => is_news |= differs,
            }
        }
        Ok(already.filter(|_| !is_news).map(Obstacle::Already))
    }
}

impl TreatedHost<'_> {
    /// Tries its part of a treatment out. Returns the reason if the host refuses it.
    ///
    /// # Errors
    /// When the host cannot be asked, or is not as it was.
    pub fn try_out(&mut self, treatment: Treatment<'_>) -> Result<Option<String>, HostError> {
        let part = OwnTreatment::at(treatment, self.sides);
        if part.is_empty() {
            return Ok(None);
        }
        self.prepare()?;
        match self.place.treat(Treat::TryOut { treatment: part })? {
            KeeperReply::Feasible { reason } => Ok(reason.map(|reason| on(self.place, self.sides, reason))),
            other => Err(other.odd(self.place.name())),
        }
    }

    /// Applies its part of a treatment for a slot, and undoes the part of the previous one.
    ///
    /// # Errors
    /// When it cannot be applied.
    pub fn begin(&mut self, treatment: Treatment<'_>) -> Result<(), HostError> {
        self.prepare()?;
        self.do_it(Treat::Begin { treatment: OwnTreatment::at(treatment, self.sides) })
    }

    /// Ends the treatment after its slot, and proves that it was in effect.
    ///
    /// # Errors
    /// When it cannot be undone or proven.
    pub fn end(&mut self, is_ok: bool) -> Result<Proof, HostError> {
        let proof = match self.place.treat(Treat::End { is_ok })? {
            KeeperReply::Proof(proof) => proof,
            KeeperReply::Done => Proof::default(),
            other => return Err(other.odd(self.place.name())),
        };
        Ok(if self.sides.system { proof } else { proof.on(self.place.name()) })
    }

    /// Restores everything at the end of a run.
    ///
    /// # Errors
    /// When a setting is not restored.
    pub fn put_back(&mut self) -> Result<(), HostError> {
        self.do_it(Treat::PutBack)
    }

    /// Makes the host read the settings that the run will change.
    ///
    /// # Errors
    /// When somebody else changes them.
    pub fn prepare(&mut self) -> Result<(), HostError> {
        self.do_it(Treat::Know { treatments: self.parts.clone() })
    }

    fn do_it(&mut self, request: Treat) -> Result<(), HostError> {
        match self.place.treat(request)? {
            KeeperReply::Done => Ok(()),
            other => Err(other.odd(self.place.name())),
        }
    }
}

/// A reason with the host's name, where another host has the system.
fn on(place: &dyn Place, sides: Sides, reason: String) -> String {
    if sides.system { reason } else { format!("on {}: {reason}", place.name()) }
}
