//! Messages of the Container Storage Interface that the driver reads and writes, with the fields that it
//! uses.
//!
//! They are written by hand, so that a build needs no protocol-buffer compiler. A protocol-buffer reader
//! skips unknown fields, so a message here may have fewer fields than in the interface. Source of names and
//! numbers: version 1 of the Container Storage Interface
//! (<https://github.com/container-storage-interface/spec>).

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};

/// Texts by name.
pub type Texts = BTreeMap<String, String>;

/// A message without fields.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Empty {}

/// The driver's name and version.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PluginInfo {
    /// The name, as storage classes name it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The version.
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

/// The capabilities of the driver.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PluginCapabilities {
    /// The capabilities.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

/// One capability of a driver.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PluginCapability {
    /// Which one.
    #[prost(oneof = "PluginAbility", tags = "1, 2")]
    pub ability: Option<PluginAbility>,
}

/// See [`PluginCapability`].
#[derive(Clone, Copy, PartialEq, Eq, Oneof)]
pub enum PluginAbility {
    /// 1: a controller service; 2: volumes that are not reachable from every node.
    #[prost(message, tag = "1")]
    Service(Choice),
    /// 1: volumes can grow while they are in use.
    #[prost(message, tag = "2")]
    Expansion(Choice),
}

/// A message with one number, which stands for a choice.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Choice {
    /// The number.
    #[prost(int32, tag = "1")]
    pub number: i32,
}

/// The capabilities of a controller or node service.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServiceCapabilities {
    /// The capabilities.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<ServiceCapability>,
}

/// One call that a service answers, by the number of the interface's `RPC.Type`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ServiceCapability {
    /// The number.
    #[prost(message, optional, tag = "1")]
    pub call: Option<Choice>,
}

/// Whether the driver is ready.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ProbeResponse {
    /// The driver is ready; an absent field means the same.
    #[prost(message, optional, tag = "1")]
    pub ready: Option<Flag>,
}

/// `google.protobuf.BoolValue`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Flag {
    /// The value.
    #[prost(bool, tag = "1")]
    pub value: bool,
}

/// A request to create a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CreateVolumeRequest {
    /// The name, which repeated requests for one volume share.
    #[prost(string, tag = "1")]
    pub name: String,
    /// The range of its size.
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    /// The uses that it must support.
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// Parameters of the storage class.
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: Texts,
    /// Present if the volume is to be a copy.
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<Empty>,
    /// The places that must reach it.
    #[prost(message, optional, tag = "7")]
    pub accessibility_requirements: Option<TopologyRequirement>,
    /// Parameters of the volume attributes class.
    #[prost(btree_map = "string, string", tag = "8")]
    pub mutable_parameters: Texts,
}

/// The created volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CreateVolumeResponse {
    /// The volume.
    #[prost(message, optional, tag = "1")]
    pub volume: Option<VolumeInfo>,
}

/// A range of sizes, in bytes; 0 means no bound.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CapacityRange {
    /// The lower bound.
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    /// The upper bound.
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}

/// A use of a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VolumeCapability {
    /// A block device or a file system.
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub access_type: Option<AccessType>,
    /// Which workloads may use it at the same time.
    #[prost(message, optional, tag = "3")]
    pub access_mode: Option<Choice>,
}

/// See [`VolumeCapability`].
#[derive(Clone, PartialEq, Eq, Oneof)]
pub enum AccessType {
    /// A block device.
    #[prost(message, tag = "1")]
    Block(Empty),
    /// A file system.
    #[prost(message, tag = "2")]
    Mount(MountVolume),
}

/// A file system and its options.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct MountVolume {
    /// The kind; empty leaves the choice to the driver.
    #[prost(string, tag = "1")]
    pub fs_type: String,
    /// Options as of mount(8).
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// Which workloads may use a volume at the same time: the interface's `AccessMode.Mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum AccessMode {
    /// No mode was given.
    Unknown = 0,
    /// One node writes.
    SingleNodeWriter = 1,
    /// One node reads.
    SingleNodeReaderOnly = 2,
    /// Many nodes read.
    MultiNodeReaderOnly = 3,
    /// One of many nodes writes.
    MultiNodeSingleWriter = 4,
    /// Many nodes write.
    MultiNodeMultiWriter = 5,
    /// One user on one node writes.
    SingleNodeSingleWriter = 6,
    /// Many users on one node write.
    SingleNodeMultiWriter = 7,
}

/// A volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VolumeInfo {
    /// The size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    /// The identity.
    #[prost(string, tag = "2")]
    pub volume_id: String,
    /// Data about it for the node service.
    #[prost(btree_map = "string, string", tag = "3")]
    pub volume_context: Texts,
    /// The places that reach it.
    #[prost(message, repeated, tag = "5")]
    pub accessible_topology: Vec<Topology>,
}

/// Places that should reach a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TopologyRequirement {
    /// At least one of these must reach it.
    #[prost(message, repeated, tag = "1")]
    pub requisite: Vec<Topology>,
    /// Places in the order of the caller's preference.
    #[prost(message, repeated, tag = "2")]
    pub preferred: Vec<Topology>,
}

/// A place, such as a node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Topology {
    /// The names, by topology key.
    #[prost(btree_map = "string, string", tag = "1")]
    pub segments: Texts,
}

/// A request to delete a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

/// A question whether a volume supports some uses.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidateRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The context.
    #[prost(btree_map = "string, string", tag = "2")]
    pub volume_context: Texts,
    /// The uses in question.
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// Parameters of the storage class.
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: Texts,
}

/// The answer to a [`ValidateRequest`].
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidateResponse {
    /// Present if the volume supports all of them.
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<Confirmed>,
    /// Why it does not.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// The confirmed part of a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Confirmed {
    /// As requested.
    #[prost(btree_map = "string, string", tag = "1")]
    pub volume_context: Texts,
    /// As requested.
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// As requested.
    #[prost(btree_map = "string, string", tag = "3")]
    pub parameters: Texts,
}

/// A request for a list of volumes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListVolumesRequest {
    /// How many to return at most; 0 means all.
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    /// The token of the previous answer.
    #[prost(string, tag = "2")]
    pub starting_token: String,
}

/// A page of a list of volumes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListVolumesResponse {
    /// The volumes.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<VolumeEntry>,
    /// The token of the next page; empty on the last.
    #[prost(string, tag = "2")]
    pub next_token: String,
}

/// A volume in a list.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VolumeEntry {
    /// The volume.
    #[prost(message, optional, tag = "1")]
    pub volume: Option<VolumeInfo>,
}

/// A question for the free space.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GetCapacityRequest {
    /// The uses that volumes must support.
    #[prost(message, repeated, tag = "1")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// The place in question.
    #[prost(message, optional, tag = "3")]
    pub accessible_topology: Option<Topology>,
}

/// The free space.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct GetCapacityResponse {
    /// Bytes.
    #[prost(int64, tag = "1")]
    pub available_capacity: i64,
}

/// A request to make a volume larger.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ControllerExpandRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The range of its new size.
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
}

/// The new size of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ControllerExpandResponse {
    /// The size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    /// Whether the node service must also expand it.
    #[prost(bool, tag = "2")]
    pub node_expansion_required: bool,
}

/// A request to change a volume's parameters.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ModifyRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The new parameters.
    #[prost(btree_map = "string, string", tag = "3")]
    pub mutable_parameters: Texts,
}

/// A request to prepare a volume on this node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StageRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The directory to stage it in.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// How it will be used.
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

/// A request to undo the staging of a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UnstageRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The directory that it is staged in.
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

/// A request to show a staged volume to a workload.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PublishRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The directory that it is staged in.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// The path at which the workload expects it.
    #[prost(string, tag = "4")]
    pub target_path: String,
    /// How it will be used.
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    /// Whether the workload may only read.
    #[prost(bool, tag = "6")]
    pub readonly: bool,
}

/// A request to remove a volume from a workload's path.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UnpublishRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// The workload's path.
    #[prost(string, tag = "2")]
    pub target_path: String,
}

/// A question for the usage of a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatsRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// A path at which it is mounted or shown.
    #[prost(string, tag = "2")]
    pub volume_path: String,
}

/// The usage of a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatsResponse {
    /// The usage in each unit.
    #[prost(message, repeated, tag = "1")]
    pub usage: Vec<VolumeUsage>,
}

/// The usage of a volume in one unit.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VolumeUsage {
    /// The free amount.
    #[prost(int64, tag = "1")]
    pub available: i64,
    /// The total.
    #[prost(int64, tag = "2")]
    pub total: i64,
    /// The used amount.
    #[prost(int64, tag = "3")]
    pub used: i64,
    /// 1: bytes; 2: inodes.
    #[prost(int32, tag = "4")]
    pub unit: i32,
}

/// A request to make a volume's new size visible on this node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeExpandRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// A path at which it is mounted or shown.
    #[prost(string, tag = "2")]
    pub volume_path: String,
    /// The range of its new size.
    #[prost(message, optional, tag = "3")]
    pub capacity_range: Option<CapacityRange>,
}

/// The size of a volume on this node.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct NodeExpandResponse {
    /// The size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
}

/// A node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeInfo {
    /// The name.
    #[prost(string, tag = "1")]
    pub node_id: String,
    /// The topology that it reaches.
    #[prost(message, optional, tag = "3")]
    pub accessible_topology: Option<Topology>,
}

#[cfg(test)]
mod fuzz;
