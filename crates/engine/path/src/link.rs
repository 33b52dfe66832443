//! A link between the two sides of an experiment that is worse than the machine: its settings, and the evidence of a link that Plumbline
//! makes. Data paths decide which of their devices it joins.

mod ends;
mod own;
mod shape;

pub use ends::{LinkedEnds, NoLink, remedy};
pub use own::{is_own, observe_own, own_cpu_ns, own_evidence, own_terms, take_off};
pub use shape::LinkShape;
