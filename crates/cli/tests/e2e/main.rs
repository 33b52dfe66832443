//! End to end, through the built `plumb`: on the null data path where speed matters, on real systems where truth does.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests start programs, wait for them, say what they skip, and stop at the first surprise"
)]

mod audit;
mod browser;
mod cluster;
mod codec;
mod command;
mod commands;
mod common;
mod compare;
mod configs;
mod crypto;
mod csi;
mod directories;
mod documents;
mod drivers;
mod endings;
mod engines;
mod existing;
mod export;
mod gate;
mod history;
mod hosts;
mod import;
mod integrity;
mod migration;
mod migration_qemu;
mod network;
mod networks;
mod places;
mod pods;
mod qos;
mod single;
mod storage;
mod storage_ontap;
mod systems;
mod tunings;
mod ui;
mod user_changes;
mod verdicts;
mod volumes;
mod volumes_rest;
