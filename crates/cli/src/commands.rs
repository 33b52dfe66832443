//! One module a command; each turns its arguments into an exit code or a failure that carries one.

pub mod agent;
pub mod answer;
pub mod audit;
pub mod check;
pub mod codec;
pub mod command;
pub mod compare;
pub mod completions;
pub mod connecting;
pub mod crypto;
pub mod export;
pub mod gate;
pub mod git;
pub mod history;
pub mod host;
pub mod http;
pub mod import;
pub mod init;
#[cfg(test)]
mod json;
pub mod keep;
pub mod list;
pub mod man;
pub mod migrate;
pub mod network;
pub mod places;
pub mod planning;
pub mod recording;
pub mod report;
pub mod run;
pub mod schema;
pub mod single;
pub mod storage;
pub mod tune;
pub mod ui;
pub mod version;
pub mod volumes;
