//! The ways in which a volume can be used.

use crate::fault::CallError;
use crate::messages::{AccessMode, AccessType, VolumeCapability};

/// The only file system that the driver creates.
pub const FILE_SYSTEM: &str = "ext4";

/// How a volume is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Usage {
    /// A block device.
    Block,
    /// A file system, with the options of its mount.
    Mounted(Vec<String>),
}

/// How a volume is used, and by which workloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// As what.
    pub usage: Usage,
    /// Whether only one workload may use the volume at a time.
    pub is_exclusive: bool,
    /// Whether the volume is only read.
    pub is_read_only: bool,
}

impl Access {
    /// Reads the capability that a request must have.
    ///
    /// # Errors
    /// When it is absent or incomplete, or asks for something that the driver does not support.
    pub fn required(capability: Option<&VolumeCapability>) -> Result<Self, CallError> {
        let absent = || CallError::Invalid("the request has no volume capability".to_owned());
        Self::from_capability(capability.ok_or_else(absent)?)
    }

    /// Reads a capability.
    ///
    /// # Errors
    /// As [`Access::required`].
    pub fn from_capability(capability: &VolumeCapability) -> Result<Self, CallError> {
        let invalid = |text: String| Err(CallError::Invalid(text));
        let usage = match &capability.access_type {
            None => return invalid("the volume capability has no access type".to_owned()),
            Some(AccessType::Block(_)) => Usage::Block,
            Some(AccessType::Mount(mount)) if ["", FILE_SYSTEM].contains(&mount.fs_type.as_str()) => {
                Usage::Mounted(mount.mount_flags.clone())
            }
            Some(AccessType::Mount(mount)) => {
                return invalid(format!("the file system `{}`: there is only {FILE_SYSTEM}", mount.fs_type));
            }
        };
        let number = capability.access_mode.map_or(0, |mode| mode.number);
        let mode = AccessMode::try_from(number).unwrap_or(AccessMode::Unknown);
        let access = |is_exclusive, is_read_only| Ok(Self { usage, is_exclusive, is_read_only });
        match mode {
            AccessMode::Unknown => invalid("the volume capability has no access mode".to_owned()),
            AccessMode::SingleNodeWriter | AccessMode::SingleNodeMultiWriter => access(false, false),
            AccessMode::SingleNodeSingleWriter => access(true, false),
            AccessMode::SingleNodeReaderOnly => access(false, true),
            AccessMode::MultiNodeReaderOnly
            | AccessMode::MultiNodeSingleWriter
            | AccessMode::MultiNodeMultiWriter => invalid(
                "only one node reaches a volume, so access modes of several nodes are not there".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Choice, Empty, MountVolume};

    fn mounted(fs_type: &str, mode: AccessMode) -> VolumeCapability {
        let mount = MountVolume { fs_type: fs_type.to_owned(), mount_flags: vec!["noatime".to_owned()] };
        VolumeCapability {
            access_type: Some(AccessType::Mount(mount)),
            access_mode: Some(Choice { number: mode as i32 }),
        }
    }

    #[test]
    fn one_node_may_mount_ext4_or_have_a_device() {
        let access = Access::from_capability(&mounted("", AccessMode::SingleNodeSingleWriter)).unwrap();
        assert_eq!(access.usage, Usage::Mounted(vec!["noatime".to_owned()]));
        assert!(access.is_exclusive && !access.is_read_only);
        let block = VolumeCapability {
            access_type: Some(AccessType::Block(Empty {})),
            ..mounted("", AccessMode::SingleNodeReaderOnly)
        };
        let access = Access::from_capability(&block).unwrap();
        assert!(access.usage == Usage::Block && access.is_read_only);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let none = VolumeCapability { access_type: None, ..mounted("", AccessMode::SingleNodeWriter) };
        let refused = [
            mounted("xfs", AccessMode::SingleNodeWriter),
            mounted("ext4", AccessMode::MultiNodeMultiWriter),
            mounted("ext4", AccessMode::Unknown),
            none,
        ];
        for capability in refused {
            assert!(
                matches!(Access::from_capability(&capability), Err(CallError::Invalid(_))),
                "{capability:?}"
            );
        }
        assert!(Access::required(None).is_err());
    }
}
