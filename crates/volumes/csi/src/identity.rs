//! Names and identities of volumes and nodes.

use plumb_volumes::state::VolumeRow;
use twox_hash::XxHash3_64;

use crate::fault::CallError;
use crate::messages::{Texts, Topology};

/// The driver's name, which storage classes give as provisioner.
pub const DRIVER: &str = "csi.plumbline.dev";
/// The topology key whose value is a node's name.
pub const TOPOLOGY_KEY: &str = "plumbline.dev/node";
/// The longest value of a label in Kubernetes; a node's name is such a value.
const NODE_CHARACTERS_MAX: usize = 63;
/// How many characters are kept of a name that a volume cannot have as it is.
const KEPT_CHARACTERS: usize = 100;
const VOLUME_NAME_CHARACTERS_MAX: usize = 127;

/// The name of a node: 1 to 63 letters, digits, `.`, `_` and `-`, the first and the last a letter or a digit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName(String);

/// A text that cannot be a node's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{_0}` cannot be a node's name: 1 to {NODE_CHARACTERS_MAX} letters, digits, `.`, `_` and `-`, the first and the last a letter \
     or a digit"
)]
pub struct NotNodeName(String);

impl NodeName {
    /// Checks a name.
    ///
    /// # Errors
    /// When it is not one.
    pub fn new(name: &str) -> Result<Self, NotNodeName> {
        let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
        let is_good = name.len() <= NODE_CHARACTERS_MAX
            && is_edge(name.bytes().next())
            && is_edge(name.bytes().last())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        if is_good {
            return Ok(Self(name.to_owned()));
        }
        Err(NotNodeName(name.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The only place that reaches this node's volumes.
    #[must_use]
    pub fn topology(&self) -> Topology {
        Topology { segments: Texts::from([(TOPOLOGY_KEY.to_owned(), self.0.clone())]) }
    }

    /// Whether a place is this node. A place without a node's name counts as this node.
    #[must_use]
    pub fn is_in(&self, place: &Topology) -> bool {
        place.segments.get(TOPOLOGY_KEY).is_none_or(|node| *node == self.0)
    }
}

/// The identity of a volume: the node that holds its file, and the volume's UUID, as `NODE/UUID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeId {
    /// The node.
    pub node: String,
    /// The UUID, which survives a change of the volume's name.
    pub uuid: String,
}

impl VolumeId {
    /// The identity of a volume of this node.
    #[must_use]
    pub fn text_for(node: &NodeName, row: &VolumeRow) -> String {
        format!("{}/{}", node.0, row.uuid)
    }

    /// Parses an identity.
    ///
    /// # Errors
    /// When the text is empty, or no volume of this driver can have that identity, which counts as a missing
    /// volume.
    pub fn parse(text: &str) -> Result<Self, CallError> {
        check_id(text)?;
        // The UUID is also the name of a directory.
        let is_uuid = |uuid: &str| uuid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        text.split_once('/')
            .filter(|(_, uuid)| uuid.len() == 36 && is_uuid(uuid))
            .map(|(node, uuid)| Self { node: node.to_owned(), uuid: uuid.to_owned() })
            .ok_or_else(|| missing(text))
    }

    /// The UUID of a volume of this node.
    ///
    /// # Errors
    /// As [`VolumeId::parse`], and when the volume is another node's.
    pub fn on(node: &NodeName, text: &str) -> Result<String, CallError> {
        let id = Self::parse(text)?;
        if id.node == node.0 { Ok(id.uuid) } else { Err(missing_here(text, node)) }
    }
}

/// Checks that a request names a volume.
///
/// # Errors
/// When it does not.
pub(crate) fn check_id(text: &str) -> Result<(), CallError> {
    if text.is_empty() { Err(CallError::Invalid("the request has no volume ID".to_owned())) } else { Ok(()) }
}

/// The fault for a volume that does not exist.
pub(crate) fn missing(id: &str) -> CallError {
    CallError::Missing(format!("there is no volume `{id}`"))
}

fn missing_here(id: &str, node: &NodeName) -> CallError {
    CallError::Missing(format!("the volume `{id}` is on another node than this one, `{}`", node.0))
}

/// The name of the volume for a requested name. A valid name is kept. In others, invalid characters are
/// replaced, and a hash of the requested name keeps them distinct.
#[must_use]
pub fn volume_name(asked: &str) -> String {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let begins_well = asked.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if asked.len() <= VOLUME_NAME_CHARACTERS_MAX && begins_well && asked.bytes().all(|byte| is_allowed(&byte))
    {
        return asked.to_owned();
    }
    let replaced = asked.bytes().map(|byte| if is_allowed(&byte) { char::from(byte) } else { '-' });
    let kept: String = replaced.take(KEPT_CHARACTERS).collect();
    format!("v{kept}-{:016x}", XxHash3_64::oneshot(asked.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_volume_may_have_become_others_that_stay_apart() {
        assert_eq!(volume_name("pvc-0b1f"), "pvc-0b1f");
        let long = ["a".repeat(128), "a".repeat(129), "../a".to_owned(), "..-a".to_owned(), "ä".to_owned()];
        let names: Vec<String> = long.iter().map(|name| volume_name(name)).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(name.len() <= VOLUME_NAME_CHARACTERS_MAX && !names[..at].contains(name), "{name}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{name}");
            assert_eq!(volume_name(name), *name, "a volume may be called so");
        }
    }

    #[test]
    fn an_identity_says_which_node_has_the_volume() {
        let node = NodeName::new("node-1").unwrap();
        let uuid = "2829ebfb-4d6a-11e8-a5dc-005056b08451";
        assert_eq!(VolumeId::on(&node, &format!("node-1/{uuid}")).unwrap(), uuid);
        for other in [format!("node-2/{uuid}"), "x".to_owned(), format!("node-1/../{uuid}")] {
            assert!(matches!(VolumeId::on(&node, &other), Err(CallError::Missing(_))), "{other}");
        }
        assert!(matches!(VolumeId::parse(""), Err(CallError::Invalid(_))));
        for bad in ["", "-a", "a.", "a/b", &"a".repeat(64)] {
            assert!(NodeName::new(bad).is_err(), "{bad}");
        }
    }
}
