//! The messages of the Container Storage Interface that the driver reads and writes, with the fields that it uses.
//!
//! Written by hand, so that building needs no compiler of protocol buffers. A reader of protocol buffers skips fields that it
//! does not know, so a message here may have fewer than the interface's. Source of names and numbers: version 1 of the Container
//! Storage Interface (<https://github.com/container-storage-interface/spec>).

use std::collections::BTreeMap;

use prost::{Enumeration, Message, Oneof};

/// Texts by name.
pub type Texts = BTreeMap<String, String>;

/// A message without fields.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Empty {}

/// Who the driver is.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PluginInfo {
    /// Its name, as storage classes name it.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub vendor_version: String,
}

/// What the driver has.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PluginCapabilities {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub capabilities: Vec<PluginCapability>,
}

/// One of the things that a driver can have.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct PluginCapability {
    /// Which.
    #[prost(oneof = "PluginAbility", tags = "1, 2")]
    pub ability: Option<PluginAbility>,
}

/// See [`PluginCapability`].
#[derive(Clone, Copy, PartialEq, Eq, Oneof)]
pub enum PluginAbility {
    /// 1: a controller service; 2: volumes that not every node reaches.
    #[prost(message, tag = "1")]
    Service(Choice),
    /// 1: volumes grow while they are in use.
    #[prost(message, tag = "2")]
    Expansion(Choice),
}

/// A message with one number that stands for a choice.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Choice {
    /// The number.
    #[prost(int32, tag = "1")]
    pub number: i32,
}

/// What a controller or node service can do.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ServiceCapabilities {
    /// Each of them.
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
    /// Absent, it is.
    #[prost(message, optional, tag = "1")]
    pub ready: Option<Flag>,
}

/// `google.protobuf.BoolValue`.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Flag {
    /// Its value.
    #[prost(bool, tag = "1")]
    pub value: bool,
}

/// A volume is to be made.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CreateVolumeRequest {
    /// A name that another request for the same volume has, too.
    #[prost(string, tag = "1")]
    pub name: String,
    /// How large.
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
    /// What it is to be good for.
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// Parameters of the storage class.
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: Texts,
    /// Present where it is to be a copy.
    #[prost(message, optional, tag = "6")]
    pub volume_content_source: Option<Empty>,
    /// Where it is to be reachable.
    #[prost(message, optional, tag = "7")]
    pub accessibility_requirements: Option<TopologyRequirement>,
    /// Parameters of the volume attributes class.
    #[prost(btree_map = "string, string", tag = "8")]
    pub mutable_parameters: Texts,
}

/// A volume as it was made.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct CreateVolumeResponse {
    /// The volume.
    #[prost(message, optional, tag = "1")]
    pub volume: Option<VolumeInfo>,
}

/// Bytes from and to; 0 means any.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct CapacityRange {
    /// At least.
    #[prost(int64, tag = "1")]
    pub required_bytes: i64,
    /// At most.
    #[prost(int64, tag = "2")]
    pub limit_bytes: i64,
}

/// What a volume is used as.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VolumeCapability {
    /// A block device or a file system.
    #[prost(oneof = "AccessType", tags = "1, 2")]
    pub access_type: Option<AccessType>,
    /// Who may use it at a time.
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
    /// Its kind; empty for the driver's choice.
    #[prost(string, tag = "1")]
    pub fs_type: String,
    /// Options of mount(8).
    #[prost(string, repeated, tag = "2")]
    pub mount_flags: Vec<String>,
}

/// Who may use a volume at a time: the interface's `AccessMode.Mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Enumeration)]
#[repr(i32)]
pub enum AccessMode {
    /// None was given.
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
    /// Its size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    /// Its identity.
    #[prost(string, tag = "2")]
    pub volume_id: String,
    /// What the node service is told of it.
    #[prost(btree_map = "string, string", tag = "3")]
    pub volume_context: Texts,
    /// Where it is reachable.
    #[prost(message, repeated, tag = "5")]
    pub accessible_topology: Vec<Topology>,
}

/// Places of which at least one has to reach a volume.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct TopologyRequirement {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub requisite: Vec<Topology>,
    /// In the order in which the caller likes them.
    #[prost(message, repeated, tag = "2")]
    pub preferred: Vec<Topology>,
}

/// A place.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Topology {
    /// Its names by kind.
    #[prost(btree_map = "string, string", tag = "1")]
    pub segments: Texts,
}

/// A volume is to be deleted.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct DeleteVolumeRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
}

/// Is a volume good for this?
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidateRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Its context.
    #[prost(btree_map = "string, string", tag = "2")]
    pub volume_context: Texts,
    /// What it is to be good for.
    #[prost(message, repeated, tag = "3")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// Parameters of the storage class.
    #[prost(btree_map = "string, string", tag = "4")]
    pub parameters: Texts,
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ValidateResponse {
    /// Present where all of it is so.
    #[prost(message, optional, tag = "1")]
    pub confirmed: Option<Confirmed>,
    /// Why not.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// What is confirmed.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Confirmed {
    /// As it was asked.
    #[prost(btree_map = "string, string", tag = "1")]
    pub volume_context: Texts,
    /// As it was asked.
    #[prost(message, repeated, tag = "2")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// As it was asked.
    #[prost(btree_map = "string, string", tag = "3")]
    pub parameters: Texts,
}

/// Which volumes are there?
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListVolumesRequest {
    /// At most this number of them; 0 for all.
    #[prost(int32, tag = "1")]
    pub max_entries: i32,
    /// Where the last answer ended.
    #[prost(string, tag = "2")]
    pub starting_token: String,
}

/// Volumes.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ListVolumesResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub entries: Vec<VolumeEntry>,
    /// Where to go on; empty at the end.
    #[prost(string, tag = "2")]
    pub next_token: String,
}

/// A volume of a list.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct VolumeEntry {
    /// The volume.
    #[prost(message, optional, tag = "1")]
    pub volume: Option<VolumeInfo>,
}

/// How much is free?
#[derive(Clone, PartialEq, Eq, Message)]
pub struct GetCapacityRequest {
    /// What volumes are to be good for.
    #[prost(message, repeated, tag = "1")]
    pub volume_capabilities: Vec<VolumeCapability>,
    /// Where.
    #[prost(message, optional, tag = "3")]
    pub accessible_topology: Option<Topology>,
}

/// What is free.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct GetCapacityResponse {
    /// Bytes.
    #[prost(int64, tag = "1")]
    pub available_capacity: i64,
}

/// A volume is to grow.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ControllerExpandRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// How large.
    #[prost(message, optional, tag = "2")]
    pub capacity_range: Option<CapacityRange>,
}

/// A volume has grown.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct ControllerExpandResponse {
    /// Its size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
    /// The node has something to do, too.
    #[prost(bool, tag = "2")]
    pub node_expansion_required: bool,
}

/// A volume is to have other parameters.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct ModifyRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Its new parameters.
    #[prost(btree_map = "string, string", tag = "3")]
    pub mutable_parameters: Texts,
}

/// A volume is to be made ready on this node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StageRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// A directory for it.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// What it is to be used as.
    #[prost(message, optional, tag = "4")]
    pub volume_capability: Option<VolumeCapability>,
}

/// A volume is no longer needed on this node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UnstageRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Its directory.
    #[prost(string, tag = "2")]
    pub staging_target_path: String,
}

/// A volume is to be shown to a workload.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct PublishRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where it was staged.
    #[prost(string, tag = "3")]
    pub staging_target_path: String,
    /// Where the workload looks for it.
    #[prost(string, tag = "4")]
    pub target_path: String,
    /// What it is to be used as.
    #[prost(message, optional, tag = "5")]
    pub volume_capability: Option<VolumeCapability>,
    /// The workload may only read.
    #[prost(bool, tag = "6")]
    pub readonly: bool,
}

/// A volume is no longer to be shown to a workload.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct UnpublishRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where it is shown.
    #[prost(string, tag = "2")]
    pub target_path: String,
}

/// How full is a volume?
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatsRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where it is seen.
    #[prost(string, tag = "2")]
    pub volume_path: String,
}

/// How full a volume is.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StatsResponse {
    /// In each unit.
    #[prost(message, repeated, tag = "1")]
    pub usage: Vec<VolumeUsage>,
}

/// How full a volume is, in one unit.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct VolumeUsage {
    /// What is left.
    #[prost(int64, tag = "1")]
    pub available: i64,
    /// All of it.
    #[prost(int64, tag = "2")]
    pub total: i64,
    /// What is used.
    #[prost(int64, tag = "3")]
    pub used: i64,
    /// 1: bytes; 2: inodes.
    #[prost(int32, tag = "4")]
    pub unit: i32,
}

/// A volume has grown, and is to be seen so on this node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeExpandRequest {
    /// The volume.
    #[prost(string, tag = "1")]
    pub volume_id: String,
    /// Where it is seen.
    #[prost(string, tag = "2")]
    pub volume_path: String,
    /// How large.
    #[prost(message, optional, tag = "3")]
    pub capacity_range: Option<CapacityRange>,
}

/// A volume is seen with its size.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct NodeExpandResponse {
    /// Its size.
    #[prost(int64, tag = "1")]
    pub capacity_bytes: i64,
}

/// This node.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct NodeInfo {
    /// Its name.
    #[prost(string, tag = "1")]
    pub node_id: String,
    /// What it reaches.
    #[prost(message, optional, tag = "3")]
    pub accessible_topology: Option<Topology>,
}
