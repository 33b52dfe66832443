//! Trees as the kernel shows them, with devices in every state that a person has to do something about.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;
use crate::scratch::Scratch;

/// A made-up /sys.
pub(crate) struct Tree(Scratch);

impl Tree {
    pub(crate) fn new() -> Self {
        Self(Scratch::create(&std::env::temp_dir(), "accelerators").unwrap())
    }

    pub(crate) fn device(
        &self,
        address: &str,
        id: &str,
        driver: Option<&str>,
        files: &[(&str, &str)],
    ) -> PathBuf {
        let directory = self.0.path().join("bus/pci/devices").join(address);
        fs::create_dir_all(&directory).unwrap();
        for (file, text) in [("vendor", "0x8086"), ("device", id), ("numa_node", "-1")].iter().chain(files) {
            let file = directory.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("{text}\n")).unwrap();
        }
        if let Some(driver) = driver {
            symlink(Path::new("../../../bus/pci/drivers").join(driver), directory.join("driver")).unwrap();
        }
        directory
    }

    /// Makes `virtual_function` the next virtual function of `physical`.
    fn relate(&self, physical: &Path, index: u32, virtual_function: &Path) {
        let up = |path: &Path| Path::new("..").join(path.file_name().unwrap());
        symlink(up(virtual_function), physical.join(format!("virtfn{index}"))).unwrap();
        symlink(up(physical), virtual_function.join("physfn")).unwrap();
    }

    pub(crate) fn all(&self) -> Vec<Accelerator> {
        accelerators_in(self.0.path())
    }

    fn one(&self) -> Accelerator {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:#?}");
        all.remove(0)
    }
}

const UP: [(&str, &str); 2] = [("qat/state", "up"), ("qat/cfg_services", "sym;asym")];

#[test]
fn a_4xxx_that_is_up_is_usable_and_its_virtual_functions_belong_to_it() {
    let tree = Tree::new();
    let files = [&UP[..], &[("numa_node", "1"), ("sriov_totalvfs", "16")]].concat();
    let physical = tree.device("0000:6b:00.0", "0x4940", Some("4xxx"), &files);
    for index in 0..12 {
        let address = format!("0000:6b:{:02x}.{}", (index + 1) / 8, (index + 1) % 8);
        let driver = if index < 11 { Some("vfio-pci") } else { None };
        tree.relate(&physical, index, &tree.device(&address, "0x4941", driver, &[]));
    }
    let all = tree.all();
    let found = &all[0];
    assert_eq!(
        (found.kind, found.model.as_str(), found.id.as_str()),
        (AcceleratorKind::Qat, "4xxx", "8086:4940")
    );
    assert_eq!((found.driver.as_deref(), found.state.as_deref()), (Some("4xxx"), Some("up")));
    assert_eq!((&found.services[..], found.numa_node), (&["sym".to_owned(), "asym".to_owned()][..], Some(1)));
    assert_eq!((found.virtual_functions.len(), found.virtual_functions_max), (12, Some(16)));
    assert_eq!(found.virtual_functions[10], "0000:6b:01.3");
    assert!(
        found.is_usable() && found.notes.is_empty() && found.does(AcceleratorKind::Qat, "asym"),
        "{found:?}"
    );
    let lone: Vec<&Accelerator> = all.iter().filter(|device| !device.is_usable()).collect();
    assert_eq!(lone.len(), 1);
    assert_eq!(
        lone[0].missing.as_deref(),
        Some("no driver is bound to it: bind it to vfio-pci for qatlib (`systemctl start qat`)")
    );
    assert!(all[1..].iter().all(|device| device.physical_function.as_deref() == Some("0000:6b:00.0")));
    assert_eq!(summary(&all).unwrap(), "1 × QAT 4xxx (up, sym;asym)");
}

/// The missing part of one device, or the note about it.
fn lack_or_notes(id: &str, driver: Option<&str>, files: &[(&str, &str)]) -> String {
    let tree = Tree::new();
    tree.device("0000:6b:00.0", id, driver, files);
    let found = tree.one();
    found.missing.unwrap_or_else(|| [&["usable".to_owned()], &found.notes[..]].concat().join("; "))
}

#[test]
fn what_a_qat_device_lacks_is_said_with_what_to_do() {
    let down = [("qat/state", "down"), ("qat/cfg_services", "sym;asym")];
    let unconfigured = [("qat/state", "down"), ("qat/cfg_services", "")];
    let up_for_nothing = [("qat/state", "up"), ("qat/cfg_services", "")];
    let compressing = [("qat/state", "up"), ("qat/cfg_services", "dc"), ("sriov_totalvfs", "16")];
    let cases = [
        lack_or_notes("0x4940", None, &[]),
        lack_or_notes("0x4946", None, &[]),
        lack_or_notes("0x6f54", None, &[]),
        lack_or_notes("0x4944", Some("4xxx"), &down),
        lack_or_notes("0x4948", Some("6xxx"), &unconfigured),
        lack_or_notes("0x4940", Some("4xxx"), &up_for_nothing),
        lack_or_notes("0x4942", Some("4xxx"), &[("qat/state", "resetting")]),
        lack_or_notes("0x4940", Some("4xxx"), &compressing),
        lack_or_notes("0x37c8", Some("vfio-pci"), &[]),
        lack_or_notes("0x37c8", Some("c6xx"), &[("sriov_totalvfs", "0")]),
        lack_or_notes("0x37c9", None, &[]),
        lack_or_notes("0x4941", None, &[]),
        lack_or_notes("0x0443", Some("dh895xccvf"), &[]),
    ];
    insta::assert_snapshot!(cases.join("\n"), @"
        no driver is bound to it: `modprobe qat_4xxx`, with its firmware from linux-firmware installed
        no driver is bound to it: `modprobe qat_420xx`, with its firmware from linux-firmware installed
        no driver is bound to it: install Intel's QAT driver, because the kernel has none for it
        it is down: `echo up > /sys/bus/pci/devices/0000:6b:00.0/qat/state`
        no service is configured: `echo 'sym;asym' > /sys/bus/pci/devices/0000:6b:00.0/qat/cfg_services`, `echo up > /sys/bus/pci/devices/0000:6b:00.0/qat/state`
        no service is configured: `echo down > /sys/bus/pci/devices/0000:6b:00.0/qat/state`, `echo 'sym;asym' > /sys/bus/pci/devices/0000:6b:00.0/qat/cfg_services`, `echo up > /sys/bus/pci/devices/0000:6b:00.0/qat/state`
        its state is `resetting`: look for 0000:6b:00.0 in the kernel's log
        usable; its services do no private-key operations: TLS handshakes need `asym`; it has no virtual functions: programs that use qatlib need some (`systemctl start qat` makes them)
        vfio-pci holds it for a guest or another program: bind it to the driver of qat_c62x instead
        usable
        no driver is bound to it: bind it to vfio-pci for qatlib (`systemctl start qat`), or `modprobe qat_c62xvf` for the kernel's own use
        no driver is bound to it: bind it to vfio-pci for qatlib (`systemctl start qat`)
        usable
        ");
}

#[test]
fn every_id_of_a_qat_device_and_of_its_virtual_function_is_known() {
    let physical = ["0435", "37c8", "19e2", "6f54", "4940", "4942", "4944", "4946", "4948"];
    let tree = Tree::new();
    for (slot, id) in physical.iter().enumerate() {
        tree.device(&format!("0000:{slot:02x}:00.0"), &format!("0x{id}"), None, &[]);
        // Each virtual function's id is the next one, but for the oldest family.
        let virtual_id = if *id == "0435" { 0x0443 } else { u16::from_str_radix(id, 16).unwrap() + 1 };
        tree.device(&format!("0000:{slot:02x}:01.0"), &format!("0x{virtual_id:04x}"), None, &[]);
    }
    let all = tree.all();
    assert_eq!(all.len(), 18);
    for pair in all.chunks(2) {
        assert_eq!(pair[0].model, pair[1].model);
        assert_eq!(
            (&pair[0].physical_function, pair[1].physical_function.as_deref()),
            (&None, Some("unknown"))
        );
    }
    assert!(
        summary(&all).unwrap().starts_with("1 × QAT dh895xcc (no driver), 1 × QAT dh895xcc VF (no driver), ")
    );
}

const QUEUE: [(&str, &str); 2] = [("dsa0/wq0.0/state", "enabled"), ("dsa0/wq0.0/type", "user")];

#[test]
fn what_dsa_and_iaa_lack_is_said_with_what_to_do() {
    let enabled = [&[("dsa0/state", "enabled")], &QUEUE[..]].concat();
    let of_kernel = [
        ("iax1/state", "enabled"),
        ("iax1/wq1.0/state", "enabled"),
        ("iax1/wq1.0/type", "kernel"),
        ("iax1/wq1.1/state", "disabled"),
    ];
    let cases = [
        lack_or_notes("0x0b25", None, &[]),
        lack_or_notes("0x0b25", Some("vfio-pci"), &[]),
        lack_or_notes("0x0b25", Some("idxd"), &[]),
        lack_or_notes(
            "0x11fb",
            Some("idxd"),
            &[("dsa2/state", "disabled"), ("dsa2/wq2.0/state", "disabled")],
        ),
        lack_or_notes("0x0cfe", Some("idxd"), &[("iax1/state", "enabled"), ("iax1/wq1.0/state", "disabled")]),
        lack_or_notes("0x0cfe", Some("idxd"), &of_kernel),
        lack_or_notes("0x0b25", Some("idxd"), &enabled),
    ];
    insta::assert_snapshot!(cases.join("\n"), @"
        no driver is bound to it: `modprobe idxd`
        vfio-pci holds it for a guest or another program: bind it to idxd instead
        the driver could not set it up: look for 0000:6b:00.0 in the kernel's log
        it is disabled: configure a work queue with accel-config, then `accel-config enable-device dsa2` and `accel-config enable-wq dsa2/wq2.0`
        no work queue is enabled: `accel-config enable-wq iax1/wq1.0`, once it is configured
        usable; its queues belong to the kernel: programs need one of type `user`
        usable
        ");
    let tree = Tree::new();
    tree.device("0000:6a:01.0", "0x0b25", Some("idxd"), &enabled);
    let found = tree.one();
    assert_eq!((found.kind, found.services), (AcceleratorKind::Dsa, vec!["wq0.0 user".to_owned()]));
    assert_eq!(summary(&tree.all()).unwrap(), "1 × DSA spr (enabled, wq0.0 user)");
}

#[test]
fn other_devices_and_no_tree_at_all_are_nothing() {
    let tree = Tree::new();
    assert_eq!(tree.all(), []);
    tree.device("0000:00:01.0", "0x1533", Some("igb"), &[]);
    tree.device("0000:00:02.0", "no number", None, &[]);
    let other = tree.device("0000:00:03.0", "0x4940", None, &[]);
    fs::write(other.join("vendor"), "0x1af4\n").unwrap();
    assert_eq!(tree.all(), []);
    assert_eq!(summary(&[]), None);
    assert_eq!(accelerators_in(Path::new("/nowhere")), []);
}

#[test]
fn devices_of_this_machine_are_described_and_survive_json() {
    let devices = accelerators();
    let json = serde_json::to_string(&devices).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Accelerator>>(&json).unwrap(), devices);
}
