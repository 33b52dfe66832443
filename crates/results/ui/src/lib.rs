//! Web pages that show runs: all runs below some directories, a run that is under way, and two runs side by
//! side.
//!
//! The server is a separate process that follows run directories, so it survives the runs and they survive
//! it. It listens on loopback, requires a token, and loads nothing from elsewhere. The server makes all
//! pages, with the figures of reports; a script only replaces parts of a live page. The text of a run
//! directory may come from another user, and is escaped wherever it is shown.

mod access;
mod asked;
mod error;
mod fault;
mod launch;
mod live;
mod page_response;
mod pages;
mod routes;
mod samples;
mod server;
mod shelf;
mod site;

pub use error::UiError;
pub use server::Server;
pub use site::Settings;
