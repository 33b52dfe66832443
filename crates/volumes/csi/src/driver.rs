//! The driver: the services of this process as one value, without a network.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use plumb_volumes::private;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::common::Common;
use crate::controller::Controller;
use crate::fault::CallError;
use crate::identity::{DRIVER, NodeName};
use crate::messages::{
    Choice, PluginAbility, PluginCapabilities, PluginCapability, PluginInfo, ServiceCapabilities,
    ServiceCapability,
};
use crate::node::Node;
use crate::record::{failed, make_directory};

/// Numbers of the interface's `PluginCapability.Service.Type`, `PluginCapability.VolumeExpansion.Type`,
/// `ControllerServiceCapability.RPC.Type` and `NodeServiceCapability.RPC.Type`.
mod number {
    pub const CONTROLLER_SERVICE: i32 = 1;
    pub const ACCESSIBILITY_CONSTRAINTS: i32 = 2;
    pub const ONLINE: i32 = 1;
    /// Create and delete volumes, list volumes, get capacity, expand, several writers on one node, modify.
    pub const CONTROLLER: [i32; 6] = [1, 3, 4, 9, 13, 14];
    /// Stage and unstage, statistics, expand, several writers on one node.
    pub const NODE: [i32; 4] = [1, 2, 3, 5];
}

/// The services that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Controller and node.
    All,
    /// Only the controller.
    Controller,
    /// Only the node.
    Node,
}

/// See the module.
#[derive(Debug)]
pub struct Driver {
    controller: Option<Controller>,
    node: Option<Node>,
    /// Held while this process is the node service of its state: two would mount one file system twice. A
    /// lock works across containers, which cannot see each other's processes.
    _lock: Option<File>,
}

fn lock(common: &Common) -> Result<File, CallError> {
    let path = common.directory().join("node.lock");
    make_directory(&common.directory()).map_err(|cause| failed("make", &common.directory(), &cause))?;
    let file = private::options().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|cause| failed("open", &path, &cause))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(CallError::Precondition(format!(
            "another node service has {}; end it first",
            common.state_directory().display()
        ))),
        Err(cause) => Err(failed("lock", &path, &cause.into())),
    }
}

impl Driver {
    /// A driver of the volumes in a state directory.
    ///
    /// # Errors
    /// When the state cannot be used, or this host lacks what the node service needs.
    pub fn open(state: &Path, node: NodeName, mode: Mode) -> Result<Self, CallError> {
        if mode != Mode::Controller {
            Node::can_serve()?;
        }
        let common = Arc::new(Common::open(state, node)?);
        let lock = if mode == Mode::Controller { None } else { Some(lock(&common)?) };
        let controller = (mode != Mode::Node).then(|| Controller::new(Arc::clone(&common)));
        let node = (mode != Mode::Controller).then(|| Node::new(common));
        node.as_ref().map_or(Ok(()), Node::check_paths)?;
        Ok(Self { controller, node, _lock: lock })
    }

    /// The controller service, if this process runs it.
    #[must_use]
    pub fn controller(&self) -> Option<&Controller> {
        self.controller.as_ref()
    }

    /// The node service, if this process runs it.
    #[must_use]
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// The driver's name and version.
    #[must_use]
    pub fn info() -> PluginInfo {
        PluginInfo { name: DRIVER.to_owned(), vendor_version: env!("CARGO_PKG_VERSION").to_owned() }
    }

    /// The driver's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> PluginCapabilities {
        let service = |number| PluginAbility::Service(Choice { number });
        let controller = self.controller.is_some().then(|| service(number::CONTROLLER_SERVICE));
        let always = [
            service(number::ACCESSIBILITY_CONSTRAINTS),
            PluginAbility::Expansion(Choice { number: number::ONLINE }),
        ];
        let abilities = controller.into_iter().chain(always);
        let capabilities = abilities.map(|ability| PluginCapability { ability: Some(ability) });
        PluginCapabilities { capabilities: capabilities.collect() }
    }

    /// The controller service's capabilities.
    #[must_use]
    pub fn controller_capabilities() -> ServiceCapabilities {
        calls(&number::CONTROLLER)
    }

    /// The node service's capabilities.
    #[must_use]
    pub fn node_capabilities() -> ServiceCapabilities {
        calls(&number::NODE)
    }
}

fn calls(numbers: &[i32]) -> ServiceCapabilities {
    let capability = |number: &i32| ServiceCapability { call: Some(Choice { number: *number }) };
    ServiceCapabilities { capabilities: numbers.iter().map(capability).collect() }
}
