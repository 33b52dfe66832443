//! Which host has which side of a run.

use plumb_model::{Host, PlaceOf, Places};
use plumb_path::Sides;

/// A side of a run. Loads are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The system.
    System,
    /// A load, by its number.
    Load(usize),
}

/// The places of the sides.
#[derive(Debug, Default)]
pub struct Layout {
    /// The places as given.
    pub(super) given: Places,
    /// The places with the current variant's pods.
    pub(super) places: Places,
}

impl Layout {
    /// The places as given; `None` where both sides are here, with one load.
    pub fn places(&self) -> Option<&Places> {
        let is_plain = self.given.others().is_empty() && self.places.load.len() < 2;
        (!is_plain || self.places.system.cpus.is_some()).then_some(&self.given)
    }

    /// How many load agents there are.
    pub fn loads(&self) -> usize {
        self.places.load.len().max(1)
    }

    /// Whether this host has a side.
    pub fn is_here(&self, side: Side) -> bool {
        self.place(side).is_here()
    }

    /// Whether this host has any side.
    pub(crate) fn has_one_here(&self) -> bool {
        (0..self.loads()).map(Side::Load).chain([Side::System]).any(|side| self.is_here(side))
    }

    /// Whether the two sides are on the same host.
    pub(crate) fn are_together(&self, one: Side, two: Side) -> bool {
        self.place(one).host() == self.place(two).host()
    }

    /// The name of a side's host.
    pub(super) fn name(&self, side: Side) -> String {
        self.place(side).name().to_owned()
    }

    /// A load's name: its host's name, with a number if the host has several loads.
    pub fn load_name(&self, load: usize) -> String {
        let name = self.name(Side::Load(load));
        let before =
            (0..load).filter(|other| self.are_together(Side::Load(*other), Side::Load(load))).count();
        if before == 0 { name } else { format!("{name} ({})", before + 1) }
    }

    /// A key that identifies this group of loads.
    pub fn names_of_loads(&self) -> String {
        (0..self.loads()).map(|load| self.load_name(load)).collect::<Vec<_>>().join(",")
    }

    /// The sides that a host has.
    pub(super) fn sides_on(&self, host: Host<'_>) -> Sides {
        let has = |side| self.place(side).host() == host;
        Sides { system: has(Side::System), load: (0..self.loads()).map(Side::Load).any(has) }
    }

    pub(super) fn place(&self, side: Side) -> &PlaceOf {
        match side {
            Side::System => &self.places.system,
            // Without places there is one load, on the system's host.
            Side::Load(load) => self.places.load.get(load).unwrap_or(&self.places.system),
        }
    }

    /// The name of an agent in messages.
    pub(super) fn label(&self, side: Side, name: &str) -> String {
        if self.is_here(side) { name.to_owned() } else { format!("{name} on {}", self.name(side)) }
    }
}
