//! Trees as the kernel shows them, with devices in every state that a person has to do something about.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::libraries::{Places, Wanted, parse_cache, parse_directory};
use super::*;
use crate::facts::HostFacts;
use crate::scratch::Scratch;

/// A made-up /sys.
struct Tree(Scratch);

impl Tree {
    fn new() -> Self {
        Self(Scratch::create(&std::env::temp_dir(), "accelerators").unwrap())
    }

    fn device(&self, address: &str, id: &str, driver: Option<&str>, files: &[(&str, &str)]) -> PathBuf {
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

    fn all(&self) -> Vec<Accelerator> {
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

/// What is missing of one device, or what is noted of it.
fn words(id: &str, driver: Option<&str>, files: &[(&str, &str)]) -> String {
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
        words("0x4940", None, &[]),
        words("0x4946", None, &[]),
        words("0x6f54", None, &[]),
        words("0x4944", Some("4xxx"), &down),
        words("0x4948", Some("6xxx"), &unconfigured),
        words("0x4940", Some("4xxx"), &up_for_nothing),
        words("0x4942", Some("4xxx"), &[("qat/state", "resetting")]),
        words("0x4940", Some("4xxx"), &compressing),
        words("0x37c8", Some("vfio-pci"), &[]),
        words("0x37c8", Some("c6xx"), &[("sriov_totalvfs", "0")]),
        words("0x37c9", None, &[]),
        words("0x4941", None, &[]),
        words("0x0443", Some("dh895xccvf"), &[]),
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
        words("0x0b25", None, &[]),
        words("0x0b25", Some("vfio-pci"), &[]),
        words("0x0b25", Some("idxd"), &[]),
        words("0x11fb", Some("idxd"), &[("dsa2/state", "disabled"), ("dsa2/wq2.0/state", "disabled")]),
        words("0x0cfe", Some("idxd"), &[("iax1/state", "enabled"), ("iax1/wq1.0/state", "disabled")]),
        words("0x0cfe", Some("idxd"), &of_kernel),
        words("0x0b25", Some("idxd"), &enabled),
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

fn with_qat(services: &str) -> HostFacts {
    let tree = Tree::new();
    tree.device(
        "0000:6b:00.0",
        "0x4940",
        Some("4xxx"),
        &[("qat/state", "up"), ("qat/cfg_services", services)],
    );
    HostFacts { accelerators: tree.all(), ..HostFacts::default() }
}

#[test]
fn a_library_is_judged_by_its_file_by_whether_it_loads_and_by_what_it_can_reach() {
    let files = Scratch::create(&std::env::temp_dir(), "libraries").unwrap();
    for file in ["qatengine.so", "qatprovider.so"] {
        fs::write(files.path().join(file), "").unwrap();
    }
    let everywhere = Places {
        engines: Some(files.path().to_owned()),
        modules: Some(files.path().to_owned()),
        libraries: vec!["/lib/libqatzip.so.3".into(), "/lib/libqpl.so.1".into()],
    };
    let tried = Cell::new(0);
    let verdict = |wanted: Wanted, places: &Places, facts: &HostFacts, complaint: Option<&str>| {
        let library = wanted.judge(places, facts, &|_, _| {
            tried.set(tried.get() + 1);
            complaint.map(str::to_owned)
        });
        assert_eq!(library.file.is_some(), places.engines.is_some());
        format!("{}: {}", library.name, library.missing.unwrap_or_else(|| "usable".to_owned()))
    };
    let intel = HostFacts {
        cpu_vendor: Some("GenuineIntel".to_owned()),
        cpu_flags: vec!["avx512ifma".to_owned()],
        ..HostFacts::default()
    };
    let (nothing, nowhere) = (HostFacts::default(), Places::default());
    let mut lines: Vec<String> = Wanted::ALL.map(|wanted| verdict(wanted, &nowhere, &nothing, None)).into();
    assert_eq!(tried.get(), 0, "what is not there is not loaded");
    lines.push(verdict(Wanted::Qatengine, &everywhere, &intel, Some("libqat.so.4: no such file")));
    lines.extend(Wanted::ALL.map(|wanted| verdict(wanted, &everywhere, &nothing, None)));
    lines.push(verdict(Wanted::Qatengine, &everywhere, &intel, None));
    lines.push(verdict(Wanted::Qatprovider, &everywhere, &with_qat("asym"), None));
    lines.push(verdict(Wanted::Qatzip, &everywhere, &with_qat("sym;dc"), None));
    insta::assert_snapshot!(lines.join("\n"), @"
        qatengine: it is not installed: install the package qatengine (Debian 13), or build github.com/intel/QAT_Engine
        qatprovider: it is not installed: install the package openssl-provider-qat, or build github.com/intel/QAT_Engine with --enable-qat_provider
        QATzip: it is not installed: install the package libqatzip3 (Debian 13), or build github.com/intel/QATzip
        QPL: it is not installed: build github.com/intel/qpl
        qatengine: it cannot be loaded: libqat.so.4: no such file
        qatengine: it loads, and there is nothing for it to use: it takes a QAT device with the service `asym`, or an Intel CPU with AVX-512 IFMA; without either it leaves everything to OpenSSL and does not say so
        qatprovider: it loads, and there is nothing for it to use: it takes a QAT device with the service `asym`, or an Intel CPU with AVX-512 IFMA; without either it leaves everything to OpenSSL and does not say so
        QATzip: it loads, and there is no QAT device with the service `dc`: it would compress in software and not say so
        QPL: it loads, and there is no IAA device with an enabled work queue of type `user`: only its software path is left
        qatengine: usable
        qatprovider: usable
        QATzip: usable
        ");
}

#[test]
fn what_openssl_and_ldconfig_say_is_read() {
    let openssl = "ENGINESDIR: \"/usr/lib/engines-3\"\nMODULESDIR: \"/usr/lib/ossl-modules\"\n";
    assert_eq!(parse_directory(openssl, "ENGINESDIR"), Some("/usr/lib/engines-3".into()));
    assert_eq!(parse_directory(openssl, "MODULESDIR"), Some("/usr/lib/ossl-modules".into()));
    assert_eq!(
        (parse_directory("", "ENGINESDIR"), parse_directory("ENGINESDIR: N/A", "ENGINESDIR")),
        (None, None)
    );
    let cache =
        "2 libs found in cache `/etc/ld.so.cache'\n\tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1\n\tbroken\n";
    assert_eq!(parse_cache(cache), [PathBuf::from("/lib/libz.so.1")]);
}

/// Libraries that every machine has stand in for those that few have.
#[test]
fn a_library_is_loaded_by_a_child_that_says_when_it_cannot() {
    let files = Scratch::create(&std::env::temp_dir(), "libraries").unwrap();
    let garbage = files.path().join("libqpl.so.1");
    fs::write(&garbage, "no library").unwrap();
    let places = Places { libraries: vec![garbage.clone()], ..Places::default() };
    let library = Wanted::Qpl.judge(&places, &HostFacts::default(), &libraries::complaint);
    assert!(library.missing.unwrap().starts_with("it cannot be loaded: "), "{garbage:?}");
    let Some(libc) = fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .filter_map(|line| line.split_ascii_whitespace().last())
        .find(|path| path.contains("/libc.so") || path.contains("/libc-"))
        .map(PathBuf::from)
    else {
        // A program that is linked with all its libraries has none to show.
        return;
    };
    assert_eq!(libraries::complaint(Wanted::Qpl, &libc), None);
}

#[test]
fn cpu_features_are_those_of_the_architecture() {
    let mut facts = HostFacts { architecture: "x86_64".to_owned(), ..HostFacts::default() };
    facts.cpu_flags = ["avx512ifma", "sha_ni"].map(str::to_owned).into();
    let present: Vec<&str> =
        cpu_features(&facts).iter().filter(|feature| feature.present).map(|feature| feature.name).collect();
    assert_eq!((present, cpu_features(&facts).len()), (vec!["AVX-512 IFMA", "SHA"], 5));
    facts.architecture = "aarch64".to_owned();
    assert_eq!(cpu_features(&facts), []);
}
