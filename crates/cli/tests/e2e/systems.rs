//! Tests on real systems of this machine: servers, devices, namespaces. Some need root.

mod codec;
mod command_systems;
mod crypto;
mod documents;
mod drivers;
mod engines;
mod existing;
pub mod ingresses;
mod init;
mod integrity;
mod links;
mod migration;
mod migration_qemu;
pub mod network;
mod networks;
mod qos;
mod storage;
mod storage_ontap;
mod tunings;
mod user_changes;
mod volumes;
pub mod volumes_rest;
