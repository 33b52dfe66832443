//! A page to look at runs: those below some directories, one that is under way, and two side by side.
//!
//! It is a process of its own that follows run directories, so it survives the runs and they survive it. It listens on loopback,
//! wants a token, and loads nothing from elsewhere. All pages are made here, with the report's figures; a script only replaces
//! parts of a live page. The text of a run directory may come from somebody else, and is escaped wherever it is shown.

mod access;
mod answer;
mod asked;
mod error;
mod fault;
mod launch;
mod live;
mod pages;
mod routes;
mod samples;
mod server;
mod shelf;
mod site;

pub use error::UiError;
pub use server::Server;
pub use site::Settings;
