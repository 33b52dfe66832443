//! The node service: it turns volumes into mounts and devices of this node, which survive the end of any
//! process.

mod daemon;
mod filesystem;
mod processes;
mod server;
mod stack;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use plumb_host::{loop_device, mounts, time};
use plumb_volumes::state::VolumeRow;

use self::daemon::StorageDaemon;
use self::server::VolumeServer;
use self::stack::{Defect, Stack};
use crate::capability::{Access, Usage};
use crate::common::Common;
use crate::controller::grown;
use crate::fault::{CallError, Lacking};
use crate::identity::{VolumeId, check_id};
use crate::messages::{
    Empty, NodeExpandRequest, NodeExpandResponse, NodeInfo, PublishRequest, StageRequest, StatsRequest,
    StatsResponse, UnpublishRequest, UnstageRequest, VolumeUsage,
};
use crate::record::{PublishedPath, Record, Records, failed};

/// A UUID of the usual length.
const NIL_UUID: &str = "00000000-0000-0000-0000-000000000000";
const BYTES: i32 = 1;
const INODES: i32 = 2;

/// See the module.
#[derive(Debug)]
pub struct Node {
    common: Arc<Common>,
    records: Records,
    server: VolumeServer,
    /// Held during the start of the server, so that it is started only once.
    starting: Mutex<()>,
}

impl Node {
    /// The node service of a state directory.
    #[must_use]
    pub fn new(common: Arc<Common>) -> Self {
        let records = Records::in_directory_of(&common);
        let server = VolumeServer::new(common.state_directory(), &common.directory());
        Self { common, records, server, starting: Mutex::new(()) }
    }

    /// Checks that this host has everything that the service needs.
    ///
    /// # Errors
    /// When it lacks something.
    pub fn can_serve() -> Result<(), Lacking> {
        if !plumb_host::process::is_root() {
            return Err(Lacking::Root);
        }
        loop_device::LoopDevice::can_be_made()?;
        filesystem::can_be_made()?;
        StorageDaemon::can_run().map(drop)
    }

    /// Checks that the state directory can be used.
    ///
    /// # Errors
    /// When its path is too long.
    pub fn check_paths(&self) -> Result<(), CallError> {
        StorageDaemon::in_directory(&self.records.directory_of(NIL_UUID)).check_path()
    }

    fn stack<'a>(&'a self, uuid: &'a str) -> Stack<'a> {
        Stack { server: &self.server, records: &self.records, uuid }
    }

    /// A volume's record. A record of an earlier boot is removed, since nothing that it names still exists.
    fn record(&self, uuid: &str) -> Result<Option<Record>, CallError> {
        let Some(record) = self.records.record_of(uuid)? else { return Ok(None) };
        if record.boot == time::boot_id() {
            return Ok(Some(record));
        }
        self.records.remove(uuid)?;
        Ok(None)
    }

    fn ensure_server(&self) -> Result<(), CallError> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        self.server.ensure()
    }

    fn build(&self, row: &VolumeRow, record: &mut Record) -> Result<(), CallError> {
        self.ensure_server()?;
        self.server.await_volume(&row.uuid, row.size_bytes)?;
        let file = self.common.state().file_of(&row.file);
        self.stack(&row.uuid).build(row, &file, record)
    }

    /// Prepares a volume, or repairs what an earlier call prepared.
    ///
    /// # Errors
    /// When the volume does not exist, is staged with other options, or a layer cannot be built.
    pub fn stage(&self, request: &StageRequest) -> Result<Empty, CallError> {
        check_id(&request.volume_id)?;
        let staging = path_of(&request.staging_target_path, "staging target path")?;
        let access = Access::required(request.volume_capability.as_ref())?;
        let row = self.common.volume(&request.volume_id)?;
        let _reserved = self.common.reserve(&row.uuid)?;
        let mount_options = match access.usage {
            Usage::Block => None,
            Usage::Mounted(options) => Some(options),
        };
        let new = Record {
            boot: time::boot_id(),
            staging,
            mount_options,
            daemon: None,
            connection: 0,
            device: None,
            targets: Vec::new(),
        };
        let mut record_is_new = true;
        let mut record = match self.record(&row.uuid)? {
            Some(found) if found.staging != new.staging || found.mount_options != new.mount_options => {
                return Err(CallError::Exists(format!(
                    "the volume `{}` is staged already, at {} or with other options",
                    request.volume_id,
                    found.staging.display()
                )));
            }
            Some(found) => {
                record_is_new = false;
                found
            }
            None => {
                self.records.write(&row.uuid, &new)?;
                new
            }
        };
        let staged = self.mend(&row, &mut record);
        if staged.is_err() && record_is_new {
            // Kubernetes asks for no end of what it was told has failed.
            self.stack(&row.uuid).take_apart(&mut record, true)?;
            self.forget(&row.uuid)?;
        }
        staged.map(|_| Empty {})
    }

    /// Builds a stack, after taking a broken one apart. Returns what was wrong.
    fn mend(&self, row: &VolumeRow, record: &mut Record) -> Result<Option<String>, CallError> {
        let stack = self.stack(&row.uuid);
        let defect = stack.defect(record)?;
        if matches!(defect, Some(Defect::Broken(_))) && record.device.is_some() {
            stack.take_apart(record, true)?;
            self.records.write(&row.uuid, record)?;
        }
        if defect.is_some() {
            self.build(row, record)?;
        }
        Ok(defect.map(Defect::into_words))
    }

    /// Takes apart the layers that staging built. A volume that is not staged is left alone.
    ///
    /// # Errors
    /// When a workload still sees the volume, or a layer is in use.
    pub fn unstage(&self, request: &UnstageRequest) -> Result<Empty, CallError> {
        check_id(&request.volume_id)?;
        let staging = path_of(&request.staging_target_path, "staging target path")?;
        let Ok(uuid) = VolumeId::on(&self.common.node, &request.volume_id) else { return Ok(Empty {}) };
        let _reserved = self.common.reserve(&uuid)?;
        let Some(mut record) = self.record(&uuid)?.filter(|record| record.staging == staging) else {
            return Ok(Empty {});
        };
        if let Some(target) = record.targets.first() {
            let path = target.path.display();
            return Err(CallError::Precondition(format!(
                "the volume is still published at {path}; unpublish it first"
            )));
        }
        let stack = self.stack(&uuid);
        let is_of_use = !matches!(stack.defect(&record)?, Some(Defect::Broken(_)));
        if is_of_use {
            // The last writes go through the server.
            self.ensure_server()?;
        }
        stack.take_apart(&mut record, !is_of_use)?;
        self.forget(&uuid)?;
        Ok(Empty {})
    }

    /// Removes the record of a volume that is taken apart, and ends the server after the last one.
    fn forget(&self, uuid: &str) -> Result<(), CallError> {
        self.records.remove(uuid)?;
        if self.records.all()?.is_empty() { self.stop_server() } else { Ok(()) }
    }

    /// Shows a staged volume at a path.
    ///
    /// # Errors
    /// When it is not staged, is shown there differently, or allows only one workload and has one.
    pub fn publish(&self, request: &PublishRequest) -> Result<Empty, CallError> {
        check_id(&request.volume_id)?;
        let path = path_of(&request.target_path, "target path")?;
        let access = Access::required(request.volume_capability.as_ref())?;
        let row = self.common.volume(&request.volume_id)?;
        let staging = path_of(&request.staging_target_path, "staging target path")?;
        let _reserved = self.common.reserve(&row.uuid)?;
        let not_staged =
            || CallError::Precondition(format!("the volume `{}` is not staged there", request.volume_id));
        let record = self.record(&row.uuid)?.filter(|record| record.staging == staging);
        let mut record = record.ok_or_else(not_staged)?;
        if (access.usage == Usage::Block) != record.mount_options.is_none() {
            return Err(CallError::Invalid(
                "the volume is staged as something else than it is asked for".to_owned(),
            ));
        }
        let target = PublishedPath { path, is_read_only: request.readonly || access.is_read_only };
        if target.is_read_only && record.mount_options.is_none() {
            // The kernel allows writes to a device through a read-only mount.
            return Err(CallError::Invalid("a block volume cannot be shown read-only".to_owned()));
        }
        let known = record.targets.len();
        match record.targets.iter().find(|known| known.path == target.path) {
            Some(known) if *known != target => {
                return Err(CallError::Exists(format!(
                    "the volume is published at {} with other options",
                    target.path.display()
                )));
            }
            Some(_) => {}
            None if access.is_exclusive && !record.targets.is_empty() => {
                return Err(CallError::Precondition(
                    "the volume allows one workload at a time, and another one uses it".to_owned(),
                ));
            }
            None => {
                record.targets.push(target);
                self.records.write(&row.uuid, &record)?;
            }
        }
        let shown = self.mend_or_show(&row, &mut record);
        if shown.is_err() && record.targets.len() > known {
            // As after staging that failed.
            for target in record.targets.split_off(known) {
                mounts::unmount_all(&target.path, true)?;
                remove_target(&target.path).map_err(|cause| failed("remove", &target.path, &cause))?;
            }
            self.records.write(&row.uuid, &record)?;
        }
        shown.map(|()| Empty {})
    }

    /// A new target does not mean that the layers below it are broken.
    fn mend_or_show(&self, row: &VolumeRow, record: &mut Record) -> Result<(), CallError> {
        let targets = std::mem::take(&mut record.targets);
        let defect = self.stack(&row.uuid).defect(record);
        record.targets = targets;
        if defect?.is_some() {
            return self.mend(row, record).map(drop);
        }
        self.build(row, record)
    }

    /// Removes a volume from a path, and the path itself.
    ///
    /// # Errors
    /// When the path is in use.
    pub fn unpublish(&self, request: &UnpublishRequest) -> Result<Empty, CallError> {
        check_id(&request.volume_id)?;
        let path = path_of(&request.target_path, "target path")?;
        let Ok(uuid) = VolumeId::on(&self.common.node, &request.volume_id) else { return Ok(Empty {}) };
        let _reserved = self.common.reserve(&uuid)?;
        mounts::unmount_all(&path, false)?;
        remove_target(&path).map_err(|cause| failed("remove", &path, &cause))?;
        if let Some(mut record) = self.record(&uuid)? {
            record.targets.retain(|target| target.path != path);
            self.records.write(&uuid, &record)?;
        }
        Ok(Empty {})
    }

    /// Reports the usage of a volume.
    ///
    /// # Errors
    /// When the volume is not at that path.
    pub fn stats(&self, request: &StatsRequest) -> Result<StatsResponse, CallError> {
        check_id(&request.volume_id)?;
        check_path(&request.volume_path)?;
        let path = PathBuf::from(&request.volume_path);
        let row = self.common.volume(&request.volume_id)?;
        let is_at = |record: &Record| {
            record.staging == path || record.targets.iter().any(|target| target.path == path)
        };
        let record = self.record(&row.uuid)?.filter(is_at);
        let Some(record) = record else {
            return Err(CallError::Missing(format!(
                "the volume `{}` is not at {}",
                request.volume_id,
                path.display()
            )));
        };
        if record.mount_options.is_none() {
            let total = row.size_bytes.cast_signed();
            return Ok(StatsResponse {
                usage: vec![VolumeUsage { available: 0, total, used: 0, unit: BYTES }],
            });
        }
        let space = rustix::fs::statvfs(&path)
            .map_err(|cause| CallError::host(format!("ask for the space of {}: {cause}", path.display())))?;
        let bytes = |blocks: u64| blocks.saturating_mul(space.f_frsize);
        let inodes = usage(space.f_favail, space.f_files, space.f_files - space.f_ffree, INODES);
        let used = bytes(space.f_blocks - space.f_bfree);
        Ok(StatsResponse {
            usage: vec![usage(bytes(space.f_bavail), bytes(space.f_blocks), used, BYTES), inodes],
        })
    }

    /// Grows a volume's device and file system to the volume's size. If the request asks for it, the volume
    /// grows first.
    ///
    /// # Errors
    /// When it is not staged, or a layer does not grow.
    pub fn expand(&self, request: &NodeExpandRequest) -> Result<NodeExpandResponse, CallError> {
        check_id(&request.volume_id)?;
        check_path(&request.volume_path)?;
        let _reserved = self.common.reserve(&VolumeId::on(&self.common.node, &request.volume_id)?)?;
        let mut row = self.common.volume(&request.volume_id)?;
        let record = self.record(&row.uuid)?;
        let not_staged =
            || CallError::Precondition(format!("the volume `{}` is not staged", request.volume_id));
        let mut record = record.ok_or_else(not_staged)?;
        if let Some(range) = &request.capacity_range {
            row.size_bytes = grown(&self.common, &row, range)?;
        }
        self.mend(&row, &mut record)?;
        self.ensure_server()?;
        self.server.await_volume(&row.uuid, row.size_bytes)?;
        self.stack(&row.uuid).grow(&row, &mut record)?;
        Ok(NodeExpandResponse { capacity_bytes: row.size_bytes.cast_signed() })
    }

    /// This node's name and topology.
    #[must_use]
    pub fn info(&self) -> NodeInfo {
        let node = &self.common.node;
        NodeInfo { node_id: node.as_str().to_owned(), accessible_topology: Some(node.topology()) }
    }

    /// Starts the server if it has ended while a volume is staged, and reports what it did or why it failed.
    /// Call it several times a minute, from a thread that does not wait for volumes: they wait for the
    /// server.
    pub fn look_after_server(&self) -> Option<String> {
        // Unstaging the last volume ends the server, so the lock keeps both checks consistent.
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_needed = self.records.all().is_ok_and(|staged| !staged.is_empty());
        if !is_needed || self.server.is_running() {
            return None;
        }
        Some(match self.server.ensure() {
            Ok(()) => "the server of the volumes had ended; it is started again".to_owned(),
            Err(fault) => format!("warning: {fault}"),
        })
    }

    /// Checks every staged volume and repairs its stack. Returns what it did and what failed. Call it when
    /// the driver starts and several times a minute.
    pub fn look_after(&self) -> Vec<String> {
        match self.records.all() {
            Ok(staged) => staged.iter().filter_map(|uuid| self.look_after_one(uuid)).collect(),
            Err(fault) => vec![format!("warning: {fault}")],
        }
    }

    fn look_after_one(&self, uuid: &str) -> Option<String> {
        // Reserve the volume only if there is something to repair, so that calls need not wait.
        if let Ok(Some(record)) = self.records.record_of(uuid)
            && record.boot == time::boot_id()
            && matches!(self.stack(uuid).defect(&record), Ok(None))
        {
            return None;
        }
        // A call that holds the volume repairs it.
        let _reserved = self.common.reserve(uuid).ok()?;
        let mended = || -> Result<Option<String>, CallError> {
            let Some(mut record) = self.record(uuid)? else { return Ok(None) };
            let Some(row) = self.common.row(uuid)? else {
                return Err(CallError::Missing("it was deleted while it was staged".to_owned()));
            };
            self.mend(&row, &mut record)
        };
        match mended() {
            Ok(defect) => defect.map(|defect| format!("volume {uuid}: {defect}; it is built again")),
            Err(fault) => Some(format!("warning: volume {uuid}: {fault}")),
        }
    }

    /// Writes pending data to the volumes, and ends the server if nothing is staged. Call it when the driver
    /// ends: the end of a container ends every process behind its mounts.
    ///
    /// # Errors
    /// When the kernel cannot end the server, or pending data cannot be written.
    pub fn retire(&self) -> Result<(), CallError> {
        let staged = self.records.all()?;
        if staged.is_empty() {
            return self.stop_server();
        }
        for uuid in staged {
            let stack = self.stack(&uuid);
            if let Some(record) = self.record(&uuid)?
                && self.server.is_running()
                && !matches!(stack.defect(&record)?, Some(Defect::Broken(_)))
            {
                stack.synchronise(&record)?;
            }
        }
        Ok(())
    }

    fn stop_server(&self) -> Result<(), CallError> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        self.server.stop()
    }
}

/// Checks that a path is not empty. Any other path without a volume is a missing volume and not an invalid
/// request.
fn check_path(text: &str) -> Result<(), CallError> {
    if text.is_empty() {
        Err(CallError::Invalid("the request has no volume path".to_owned()))
    } else {
        Ok(())
    }
}

fn path_of(text: &str, what: &str) -> Result<PathBuf, CallError> {
    match Path::new(text) {
        _ if text.is_empty() => Err(CallError::Invalid(format!("the request has no {what}"))),
        path if path.is_relative() => Err(CallError::Invalid(format!("the {what} `{text}` is not absolute"))),
        path => Ok(path.to_owned()),
    }
}

fn usage(available: u64, total: u64, used: u64, unit: i32) -> VolumeUsage {
    let [available, total, used] = [available, total, used].map(|it| i64::try_from(it).unwrap_or(i64::MAX));
    VolumeUsage { available, total, used, unit }
}

/// Removes a target that publishing created: an empty directory, or an empty file.
fn remove_target(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => std::fs::remove_dir(path),
        Ok(found) if found.is_file() && found.len() == 0 => std::fs::remove_file(path),
        Ok(_) => Err(std::io::Error::other("something else is there")),
    }
}
