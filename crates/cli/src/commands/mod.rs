//! One module a command; each turns its arguments into an exit code or a failure that carries one.

pub mod agent;
pub mod audit;
pub mod check;
pub mod codec;
pub mod command;
pub mod compare;
pub mod completions;
pub mod crypto;
pub mod gate;
pub mod host;
pub mod http;
pub mod import;
pub mod init;
pub mod list;
pub mod migrate;
pub mod network;
pub mod planning;
pub mod report;
pub mod run;
pub mod schema;
pub mod single;
pub mod storage;
mod surroundings;
pub mod tune;
pub mod version;
pub mod volumes;
