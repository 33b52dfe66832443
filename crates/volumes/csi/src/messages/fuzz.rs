//! Messages that are nearly right: what is read is written, and read back. The capabilities and parameters in them are read as well.
//!
//! The first byte of an input chooses the message.

use plumb_fuzz::Target;
use plumb_volumes::policy::{Fixed, Policy};
use plumb_volumes::state::PolicyRow;

use super::*;
use crate::capability::{Access, Usage};
use crate::parameters::placement;

type Read = fn(&[u8]) -> String;

/// Every message that the driver reads.
const MESSAGES: [Read; 15] = [
    |bytes| {
        read_and_write_back::<CreateVolumeRequest>(bytes, |it| {
            [capabilities(&it.volume_capabilities), policy(&[&it.parameters, &it.mutable_parameters])]
                .concat()
        })
    },
    |bytes| {
        read_and_write_back::<ValidateRequest>(bytes, |it| {
            [capabilities(&it.volume_capabilities), policy(&[&it.parameters])].concat()
        })
    },
    |bytes| read_and_write_back::<ModifyRequest>(bytes, |it| policy(&[&it.mutable_parameters])),
    |bytes| read_and_write_back::<StageRequest>(bytes, |it| capability(it.volume_capability.as_ref())),
    |bytes| read_and_write_back::<PublishRequest>(bytes, |it| capability(it.volume_capability.as_ref())),
    |bytes| read_and_write_back::<GetCapacityRequest>(bytes, |it| capabilities(&it.volume_capabilities)),
    |bytes| read_and_write_back::<DeleteVolumeRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<ListVolumesRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<ControllerExpandRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<UnstageRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<UnpublishRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<StatsRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<NodeExpandRequest>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<ListVolumesResponse>(bytes, |_| String::new()),
    |bytes| read_and_write_back::<PluginCapabilities>(bytes, |_| String::new()),
];

/// Reads a message, and compares it with what it is written as. Returns what `inspect` says of it, or the error.
fn read_and_write_back<M: Message + Default + PartialEq>(bytes: &[u8], inspect: fn(&M) -> String) -> String {
    let message = match M::decode(bytes) {
        Ok(message) => message,
        Err(error) => return error.to_string().chars().filter(char::is_ascii_alphabetic).take(80).collect(),
    };
    let written = message.encode_to_vec();
    assert_eq!(written.len(), message.encoded_len());
    assert!(
        M::decode(written.as_slice()).is_ok_and(|again| again == message),
        "what is written is read back"
    );
    format!("{} {}", inspect(&message), written.len().checked_ilog2().unwrap_or(0))
}

fn capability(capability: Option<&VolumeCapability>) -> String {
    match Access::required(capability) {
        Ok(access) => {
            let asked = capability.expect("an absent capability is an error");
            let is_block = matches!(asked.access_type, Some(AccessType::Block(_)));
            assert_eq!(access.usage == Usage::Block, is_block);
            assert!(!(access.is_exclusive && access.is_read_only));
            format!("{} {}", access.is_exclusive, access.is_read_only)
        }
        Err(fault) => fault.to_string().chars().take(24).collect(),
    }
}

fn capabilities(all: &[VolumeCapability]) -> String {
    all.iter().take(2).map(|one| capability(Some(one))).collect()
}

fn policies() -> [PolicyRow; 1] {
    let policy = Policy::Fixed(Fixed::default());
    [PolicyRow { name: "gold".to_owned(), uuid: "u".to_owned(), svm: "svm1".to_owned(), policy }]
}

fn policy(parameters: &[&Texts]) -> String {
    match placement(parameters, &policies()) {
        Ok(Some(placement)) => {
            assert!(placement.policy.as_deref().is_none_or(|name| name == "gold"));
            assert!(!placement.svm.is_empty());
            "a policy".to_owned()
        }
        Ok(None) => "no policy".to_owned(),
        Err(fault) => fault.to_string().chars().take(24).collect(),
    }
}

fn texts(pairs: &[(&str, &str)]) -> Texts {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn mounted(mode: AccessMode) -> VolumeCapability {
    let mount = MountVolume { fs_type: "ext4".to_owned(), mount_flags: vec!["noatime".to_owned()] };
    VolumeCapability {
        access_type: Some(AccessType::Mount(mount)),
        access_mode: Some(Choice { number: mode as i32 }),
    }
}

fn block() -> VolumeCapability {
    let access_mode = Some(Choice { number: AccessMode::SingleNodeWriter as i32 });
    VolumeCapability { access_type: Some(AccessType::Block(Empty {})), access_mode }
}

fn id() -> String {
    "2f8a".to_owned()
}

fn range() -> Option<CapacityRange> {
    Some(CapacityRange { required_bytes: 1 << 30, limit_bytes: -1 })
}

fn place() -> Topology {
    Topology { segments: texts(&[("zone", "a"), ("", "")]) }
}

/// Messages with capabilities or parameters, in the order of [`MESSAGES`].
fn messages_with_uses() -> Vec<Vec<u8>> {
    let create = CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        capacity_range: range(),
        volume_capabilities: vec![mounted(AccessMode::SingleNodeSingleWriter), block()],
        parameters: texts(&[("qosPolicy", "gold"), ("csi.storage.k8s.io/fstype", "ext4")]),
        volume_content_source: Some(Empty {}),
        accessibility_requirements: Some(TopologyRequirement {
            requisite: vec![place()],
            preferred: vec![place(); 2],
        }),
        mutable_parameters: texts(&[("adaptiveQosPolicy", "")]),
    };
    let validate = ValidateRequest {
        volume_id: id(),
        volume_context: texts(&[("a", "b")]),
        volume_capabilities: vec![block()],
        parameters: texts(&[("qosPolicy", "")]),
    };
    let modify = ModifyRequest { volume_id: id(), mutable_parameters: texts(&[("qosPolicy", "gold")]) };
    let stage = StageRequest {
        volume_id: id(),
        staging_target_path: "/stage".to_owned(),
        volume_capability: Some(mounted(AccessMode::SingleNodeReaderOnly)),
    };
    let publish = PublishRequest {
        volume_id: id(),
        staging_target_path: "/stage".to_owned(),
        target_path: "/target".to_owned(),
        volume_capability: Some(block()),
        readonly: true,
    };
    vec![
        create.encode_to_vec(),
        validate.encode_to_vec(),
        modify.encode_to_vec(),
        stage.encode_to_vec(),
        publish.encode_to_vec(),
    ]
}

/// The other messages, in the order of [`MESSAGES`].
fn other_messages() -> Vec<Vec<u8>> {
    let capacity =
        GetCapacityRequest { volume_capabilities: vec![block()], accessible_topology: Some(place()) };
    let list = ListVolumesRequest { max_entries: -1, starting_token: "7".to_owned() };
    let expand = ControllerExpandRequest { volume_id: id(), capacity_range: range() };
    let unpublish = UnpublishRequest { volume_id: id(), target_path: "/target".to_owned() };
    let volume = VolumeInfo {
        capacity_bytes: 1 << 40,
        volume_id: id(),
        volume_context: texts(&[("a", "b")]),
        accessible_topology: vec![place()],
    };
    let listed = ListVolumesResponse {
        entries: vec![VolumeEntry { volume: Some(volume) }; 3],
        next_token: "3".to_owned(),
    };
    let ability = |ability| PluginCapability { ability: Some(ability) };
    let abilities = PluginCapabilities {
        capabilities: vec![
            ability(PluginAbility::Service(Choice { number: 1 })),
            ability(PluginAbility::Expansion(Choice { number: 1 })),
        ],
    };
    vec![
        capacity.encode_to_vec(),
        DeleteVolumeRequest { volume_id: id() }.encode_to_vec(),
        list.encode_to_vec(),
        expand.encode_to_vec(),
        UnstageRequest { volume_id: id(), staging_target_path: "/stage".to_owned() }.encode_to_vec(),
        unpublish.encode_to_vec(),
        StatsRequest { volume_id: id(), volume_path: "/target".to_owned() }.encode_to_vec(),
        NodeExpandRequest { volume_id: id(), volume_path: "/target".to_owned(), capacity_range: range() }
            .encode_to_vec(),
        listed.encode_to_vec(),
        abilities.encode_to_vec(),
    ]
}

/// Every message, with the number by which it is chosen.
fn messages() -> Vec<Vec<u8>> {
    let encoded = messages_with_uses().into_iter().chain(other_messages());
    (0_u8..).zip(encoded).map(|(number, message)| [vec![number], message].concat()).collect()
}

#[test]
fn fuzz_csi_messages() {
    let keys = ["\x0a\x09qosPolicy", "\x12\x04gold", "adaptiveQosPolicy", "ext4", "csi.storage.k8s.io/"];
    Target::new("fuzz_csi_messages").seeds(messages()).with_words(keys).run(|bytes| {
        let Some((number, message)) = bytes.split_first() else { return (0, String::new()) };
        let number = usize::from(*number) % MESSAGES.len();
        (number, MESSAGES[number](message))
    });
}
