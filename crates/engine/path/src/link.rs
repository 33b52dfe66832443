//! A slow or lossy link between the two sides of an experiment: its settings, the link that Plumbline makes, and its evidence. Data paths
//! decide which of their devices it joins.

mod ends;
mod own;
mod shape;

pub use ends::{LinkedEnds, NoLink, remedy};
pub use own::{
    is_own, link_cpu_between, link_cpu_ns, link_evidence, link_terms, observe_link, subtract_link_cpu,
};
pub use shape::LinkShape;
