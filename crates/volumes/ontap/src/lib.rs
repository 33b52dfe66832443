//! Volumes and QoS policies under ONTAP's REST interface and commands.
//!
//! `plumb-volumes` keeps the state; this crate reads and changes it through the interface that NetApp ONTAP's clients know:
//!
//! - [`Interface`] answers one request, without a network: `resources` are what there is, `fields` reads a body, `query` the
//!   question mark's part, `fault` is everything that can be wrong with a request.
//! - [`server`] puts it behind HTTPS and passwords.
//! - [`command`] is the other way in: `qos adaptive-policy-group create …`.
//!
//! The shapes and the errors' codes are those of NetApp's published reference (ONTAP 9, REST API:
//! <https://docs.netapp.com/us-en/ontap-restapi/post-storage-qos-policies.html> and its siblings for PATCH and for volumes); the codes
//! that every resource shares are named in [`fault`]. It does not know load, experiments, or how a volume is served.

pub mod command;
pub mod fault;
pub mod passwords;
pub mod server;

mod answer;
mod asked;
mod fields;
mod interface;
mod query;
mod resources;
mod throughput;

pub use answer::RestResponse;
pub use asked::{Method, Request, ServedReport};
pub use interface::Interface;
