//! Engines and providers of OpenSSL in programs of the host.
//!
//! OpenSSL loads them by the program's own words (`ssl-engine`, `ssl-provider`, `ssl_engine`) or by its configuration
//! file, which every program that uses libssl reads. The program's words are used where it has them; the
//! configuration file where it was built without them, and wherever a library is given by its path. Either way the
//! program gets a separate configuration file, so that what the host's says reaches neither side of a comparison.
//!
//! That something is loaded proves nothing: OpenSSL goes on in software where a library does not load, and engines do
//! where they find no device. What was mapped is read back, and what was saved is judged.

mod build;
mod environment;
mod error;
mod extension;
mod library;
mod module;
mod qat;

pub(super) use environment::Environment;
pub(super) use library::is_name_or_path;
pub(super) use module::{Module, may_give_up_root};
pub(super) use qat::{device_counters, device_states};

pub(crate) use module::LIBRARY_STATE;
pub(crate) use qat::is_qat;
