//! The controller service on a real database, without a network.

use plumb_volumes::policy::{Fixed, Policy};

use super::*;
use crate::identity::NodeName;
use crate::messages::{AccessType, Choice, MountVolume, Topology, TopologyRequirement};
use crate::record::Record;

const GIB: i64 = 1 << 30;

fn controller() -> (tempfile::TempDir, Controller) {
    let directory = tempfile::tempdir().unwrap();
    let common = Common::open(directory.path(), NodeName::new("node-1").unwrap()).unwrap();
    let gold = Policy::Fixed(Fixed { max_iops: Some(500), ..Fixed::default() });
    common.state().create_policy("gold", &gold).unwrap();
    (directory, Controller::new(Arc::new(common)))
}

fn mounted() -> VolumeCapability {
    VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(Choice { number: 1 }),
    }
}

fn asked(name: &str, required_bytes: i64, limit_bytes: i64) -> CreateVolumeRequest {
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes, limit_bytes }),
        volume_capabilities: vec![mounted()],
        parameters: Texts::from([("qosPolicy".to_owned(), "gold".to_owned())]),
        ..CreateVolumeRequest::default()
    }
}

#[test]
fn a_request_that_comes_again_finds_its_volume() {
    let (_directory, controller) = controller();
    let first = controller.create(&asked("pvc-1", GIB, 0)).unwrap().volume.unwrap();
    assert_eq!(first.capacity_bytes, GIB);
    assert_eq!(first.accessible_topology, [controller.common.node.topology()]);
    assert_eq!(controller.create(&asked("pvc-1", GIB, 0)).unwrap().volume.unwrap(), first);
    assert_eq!(controller.create(&asked("pvc-1", GIB / 2, 2 * GIB)).unwrap().volume.unwrap(), first);
    let row = controller.common.volume(&first.volume_id).unwrap();
    assert_eq!((row.name.as_str(), row.policy.as_deref()), ("pvc-1", Some("gold")));
    let free = CreateVolumeRequest { parameters: Texts::new(), ..asked("pvc-1", GIB, 0) };
    for other in [asked("pvc-1", 2 * GIB, 0), asked("pvc-1", 0, GIB / 2), free] {
        assert!(matches!(controller.create(&other), Err(CallError::Exists(_))), "{other:?}");
    }
}

#[test]
fn what_cannot_be_made_is_refused_with_its_kind() {
    let (_directory, controller) = controller();
    let elsewhere =
        Topology { segments: Texts::from([("plumbline.dev/node".to_owned(), "node-2".to_owned())]) };
    let cases = [
        (asked("", GIB, 0), CallError::Invalid(String::new())),
        (asked("a", -1, 0), CallError::Invalid(String::new())),
        (asked("a", i64::MAX, 0), CallError::Range(String::new())),
        (asked("a", 1, 1), CallError::Range(String::new())),
        (asked("a", 2, 1), CallError::Invalid(String::new())),
        (
            CreateVolumeRequest { volume_capabilities: Vec::new(), ..asked("a", GIB, 0) },
            CallError::Invalid(String::new()),
        ),
        (
            CreateVolumeRequest { volume_content_source: Some(Empty {}), ..asked("a", GIB, 0) },
            CallError::Invalid(String::new()),
        ),
        (
            CreateVolumeRequest {
                accessibility_requirements: Some(TopologyRequirement {
                    requisite: vec![elsewhere.clone()],
                    preferred: Vec::new(),
                }),
                ..asked("a", GIB, 0)
            },
            CallError::Exhausted(String::new()),
        ),
    ];
    for (request, kind) in cases {
        let fault = controller.create(&request).unwrap_err();
        assert_eq!(std::mem::discriminant(&fault), std::mem::discriminant(&kind), "{fault} for {request:?}");
    }
    let capacity = |place| GetCapacityRequest { accessible_topology: place, ..GetCapacityRequest::default() };
    assert_eq!(controller.capacity(&capacity(Some(elsewhere))).unwrap().available_capacity, 0);
    assert!(controller.capacity(&capacity(None)).unwrap().available_capacity > 0);
}

#[test]
fn sizes_are_whole_blocks_and_within_the_range() {
    let size =
        |required_bytes, limit_bytes| size_of(&CapacityRange { required_bytes, limit_bytes }, DEFAULT_BYTES);
    assert_eq!(size(0, 0).unwrap(), DEFAULT_BYTES);
    assert_eq!(size(1, 0).unwrap(), BYTES_MIN);
    assert_eq!(size(GIB + 1, 0).unwrap(), (1 << 30) + 4096);
    assert!(size(GIB + 1, GIB + 1).is_err(), "no block ends there");
    assert_eq!(size(0, (20 << 20) + 1).unwrap(), 20 << 20);
}

#[test]
fn a_volume_grows_moves_to_another_policy_and_goes() {
    let (_directory, controller) = controller();
    let volume = controller.create(&asked("pvc-1", GIB, 0)).unwrap().volume.unwrap();
    let expand = |id: &str, required_bytes, limit_bytes| {
        let capacity_range = Some(CapacityRange { required_bytes, limit_bytes });
        controller.expand(&ControllerExpandRequest { volume_id: id.to_owned(), capacity_range })
    };
    let grown = expand(&volume.volume_id, 2 * GIB, 0).unwrap();
    assert!(grown.capacity_bytes == 2 * GIB && grown.node_expansion_required);
    assert_eq!(expand(&volume.volume_id, GIB, 0).unwrap().capacity_bytes, 2 * GIB, "it does not shrink");
    assert!(matches!(expand(&volume.volume_id, GIB, GIB), Err(CallError::Range(_))));
    let uuid = VolumeId::parse(&volume.volume_id).unwrap().uuid;
    let elsewhere = expand(&format!("node-2/{uuid}"), 3 * GIB, 0).unwrap();
    assert!(elsewhere.capacity_bytes == 3 * GIB && elsewhere.node_expansion_required);
    assert_eq!(controller.common.volume(&volume.volume_id).unwrap().size_bytes, 2 << 30);

    let mutable_parameters = Texts::from([("qosPolicy".to_owned(), String::new())]);
    controller.modify(&ModifyRequest { volume_id: volume.volume_id.clone(), mutable_parameters }).unwrap();
    assert_eq!(controller.common.volume(&volume.volume_id).unwrap().policy, None);

    let delete = || controller.delete(&DeleteVolumeRequest { volume_id: volume.volume_id.clone() });
    let record = Record {
        boot: None,
        staging: "/staging".into(),
        mount_options: None,
        daemon: None,
        connection: 0,
        device: None,
        targets: Vec::new(),
    };
    controller.records.write(&uuid, &record).unwrap();
    assert!(matches!(delete(), Err(CallError::Precondition(_))), "it is staged");
    controller.records.remove(&uuid).unwrap();
    delete().unwrap();
    delete().unwrap();
    assert!(controller.common.state().volumes().unwrap().is_empty());
    let other = DeleteVolumeRequest { volume_id: format!("node-2/{uuid}") };
    assert!(controller.delete(&other).is_err(), "another node's volume is not gone because it is not here");
}

#[test]
fn a_list_in_parts_is_the_whole_list() {
    let (_directory, controller) = controller();
    for number in 0..5 {
        controller.create(&asked(&format!("pvc-{number}"), GIB, 0)).unwrap();
    }
    let mut token = String::new();
    let mut ids = Vec::new();
    loop {
        let part = controller.list(&ListVolumesRequest { max_entries: 2, starting_token: token }).unwrap();
        ids.extend(part.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id));
        token = part.next_token;
        if token.is_empty() {
            break;
        }
    }
    let whole = controller.list(&ListVolumesRequest::default()).unwrap();
    assert!(whole.next_token.is_empty());
    let all: Vec<String> = whole.entries.into_iter().map(|entry| entry.volume.unwrap().volume_id).collect();
    assert_eq!((ids.len(), &ids), (5, &all));
    let wrong = ListVolumesRequest { max_entries: 1, starting_token: "none-such".to_owned() };
    assert!(matches!(controller.list(&wrong), Err(CallError::Busy(_))));
}
