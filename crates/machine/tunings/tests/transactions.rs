//! Tunings on a tree of files that stands for a machine, with a card whose rings are a struct.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise, in its helpers as well")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, Mutex};

use plumb_host::settings::journal::{Entry, Journal};
use plumb_host::settings::state::StateDirectory;
use plumb_host::settings::{Calls, Machine, Ring, RingSizes, Setting};
use plumb_tunings::{SettingValues, Treatment, Tuner, apply_to_stay, find, in_effect, recover, revert};

const CPU: &str = "sys/devices/system/cpu";

/// A card with rings, of which the transmit ring takes no more than `accepts`, and which can break.
#[derive(Clone)]
struct Card {
    sizes: Arc<Mutex<RingSizes>>,
    accepts: u32,
    fault: Arc<Mutex<Injected>>,
}

/// What a card fails to do.
#[derive(Clone, Copy, PartialEq)]
enum Injected {
    None,
    /// It refuses every change of the receive ring back to its old length, and every one of the transmit ring.
    Stuck,
    /// Like `Stuck`, but takes another length instead of the old one.
    Rounds,
    /// It cannot be asked.
    Unreadable,
}

impl Calls for Card {
    fn rings(&self, interface: &str) -> io::Result<RingSizes> {
        assert_eq!(interface, "eth0");
        if *self.fault.lock().unwrap() == Injected::Unreadable {
            return Err(io::Error::from_raw_os_error(5));
        }
        Ok(*self.sizes.lock().unwrap())
    }

    fn set_ring(&self, _: &str, ring: Ring, length: u32) -> io::Result<()> {
        let mut sizes = self.sizes.lock().unwrap();
        match (*self.fault.lock().unwrap(), ring) {
            (Injected::Stuck | Injected::Rounds, Ring::Transmit) => {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            (Injected::Stuck, Ring::Receive) if length == 255 => {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            (Injected::Rounds, Ring::Receive) if length == 255 => {
                sizes.receive = 256;
                return Ok(());
            }
            _ => {}
        }
        match ring {
            Ring::Receive => sizes.receive = length,
            Ring::Transmit => sizes.transmit = length.min(self.accepts),
        }
        Ok(())
    }

    fn daemon(&self, _: u32, _: u64) -> &'static str {
        "gone"
    }

    fn pause(&self, _: u32, _: u64, _: bool) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

struct Bench {
    directory: tempfile::TempDir,
    card: Card,
    state: StateDirectory,
}

impl Bench {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sizes = RingSizes { receive: 255, receive_max: 4096, transmit: 255, transmit_max: 4096 };
        let card = Card {
            sizes: Arc::new(Mutex::new(sizes)),
            accepts: 4096,
            fault: Arc::new(Mutex::new(Injected::None)),
        };
        let state = StateDirectory::at(&directory.path().join("state"));
        let bench = Self { directory, card, state };
        for (path, text) in [
            ("proc/sys/vm/swappiness", "60"),
            ("proc/sys/vm/dirty_ratio", "20"),
            ("proc/sys/vm/dirty_bytes", "0"),
            ("proc/sys/vm/dirty_background_ratio", "10"),
            ("proc/sys/vm/dirty_background_bytes", "0"),
            ("proc/sys/net/core/busy_read", "0"),
            ("proc/sys/net/core/busy_poll", "0"),
            ("proc/sys/net/core/somaxconn", "4096"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456"),
            ("proc/sys/kernel/numa_balancing", "1"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never"),
            ("proc/cpuinfo", "processor : 0\nflags : fpu popcnt sse4_2\n"),
        ] {
            bench.put(path, text);
        }
        for cpu in 0..2 {
            let policy = format!("{CPU}/cpufreq/policy{cpu}");
            bench.put(&format!("{policy}/scaling_governor"), "powersave");
            bench.put(&format!("{policy}/scaling_available_governors"), "performance powersave");
            for (state, latency_us) in [(0, 0), (1, 2), (2, 100)] {
                bench.put(&format!("{CPU}/cpu{cpu}/cpuidle/state{state}/latency"), &latency_us.to_string());
                bench.put(&format!("{CPU}/cpu{cpu}/cpuidle/state{state}/disable"), "0");
            }
        }
        let device = "sys/devices/pci0/virtio2";
        for (number, name) in [(37, "virtio2-config"), (38, "virtio2-input.0"), (40, "virtio2-input.1")] {
            bench.put(&format!("sys/devices/pci0/msi_irqs/{number}"), "msix");
            bench.put(&format!("sys/kernel/irq/{number}/actions"), name);
            bench.put(&format!("proc/irq/{number}/smp_affinity_list"), "0-1");
        }
        bench.put(&format!("{device}/vendor"), "0x1af4");
        fs::create_dir_all(bench.path("sys/class/net/eth0")).unwrap();
        symlink(bench.path(device), bench.path("sys/class/net/eth0/device")).unwrap();
        bench
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.directory.path().join("root").join(path)
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn get(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn break_card(&self, fault: Injected) {
        *self.card.fault.lock().unwrap() = fault;
    }

    /// Whether the journal of a run is there.
    fn has_journal(&self) -> bool {
        self.state.path().join("tunings-of-a-run.jsonl").exists()
    }

    fn machine(&self) -> Machine {
        Machine::at(&self.path(""), Box::new(self.card.clone()))
    }

    fn tuner(&self, names: &[&str]) -> Tuner {
        let names: BTreeSet<String> = owned(names).into_iter().collect();
        let names: Vec<String> = names.into_iter().collect();
        Tuner::open(self.machine(), self.state.clone(), &[tunings(&names)]).unwrap()
    }

    /// Every file and its text, and the rings: what has to be the same afterwards.
    fn all(&self) -> Vec<(String, String)> {
        fn walk(directory: &Path, found: &mut Vec<(String, String)>) {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    walk(&path, found);
                } else if path.is_file() {
                    let text = fs::read_to_string(&path).unwrap();
                    // In a tree of files a choice is written as the chosen word alone.
                    found.push((path.display().to_string(), plumb_host::settings::normal(&text)));
                }
            }
        }
        let mut found = vec![("rings".to_owned(), format!("{:?}", self.card.sizes.lock().unwrap()))];
        walk(&self.path(""), &mut found);
        found.sort();
        found
    }

    fn resolved(&self, name: &str) -> String {
        let resolved = find(name).unwrap().resolve(&self.machine()).unwrap();
        let mut text = String::new();
        for wanted in resolved.wanted {
            writeln!(text, "{} [{}] = {}", wanted.label, wanted.setting, wanted.value).unwrap();
        }
        for left_out in resolved.left_out {
            writeln!(text, "left out: {left_out}").unwrap();
        }
        text
    }
}

fn tunings(names: &[String]) -> Treatment<'_> {
    Treatment { tunings: names, changes: &[] }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn each_tuning_finds_its_settings() {
    let bench = Bench::new();
    insta::assert_snapshot!(bench.resolved("governor"), @r"
    governor of every CPU [/sys/devices/system/cpu/cpufreq/policy0/scaling_governor] = performance
    governor of every CPU [/sys/devices/system/cpu/cpufreq/policy1/scaling_governor] = performance
    ");
    insta::assert_snapshot!(bench.resolved("idle-states"), @r"
    idle states deeper than 2 µs, off [/sys/devices/system/cpu/cpu0/cpuidle/state2/disable] = 1
    idle states deeper than 2 µs, off [/sys/devices/system/cpu/cpu1/cpuidle/state2/disable] = 1
    ");
    insta::assert_snapshot!(bench.resolved("rings=eth0"), @r"
    receive ring of eth0 [receive ring of eth0] = 4096
    transmit ring of eth0 [transmit ring of eth0] = 4096
    ");
    insta::assert_snapshot!(bench.resolved("interrupt-affinity"), @r"
    CPU of interrupt 38 (virtio2-input.0) [/proc/irq/38/smp_affinity_list] = 0
    CPU of interrupt 40 (virtio2-input.1) [/proc/irq/40/smp_affinity_list] = 1
    ");
    insta::assert_snapshot!(bench.resolved("network-latency"), @r"
    idle states deeper than 2 µs, off [/sys/devices/system/cpu/cpu0/cpuidle/state2/disable] = 1
    idle states deeper than 2 µs, off [/sys/devices/system/cpu/cpu1/cpuidle/state2/disable] = 1
    governor of every CPU [/sys/devices/system/cpu/cpufreq/policy0/scaling_governor] = performance
    governor of every CPU [/sys/devices/system/cpu/cpufreq/policy1/scaling_governor] = performance
    transparent huge pages [/sys/kernel/mm/transparent_hugepage/enabled] = never
    vm.dirty_ratio or dirty_bytes [vm.dirty_ratio or dirty_bytes] = dirty_ratio=10
    vm.dirty_background_ratio or dirty_background_bytes [vm.dirty_background_ratio or dirty_background_bytes] = dirty_background_ratio=3
    vm.swappiness [vm.swappiness] = 10
    net.core.busy_read [net.core.busy_read] = 50
    net.core.busy_poll [net.core.busy_poll] = 50
    kernel.numa_balancing [kernel.numa_balancing] = 0
    left out: energy bias of every CPU: this machine has no such setting
    left out: min_perf_pct: this machine has no such setting
    left out: net.ipv4.tcp_fastopen: this machine has no such setting
    ");
    insta::assert_snapshot!(bench.resolved("network-throughput"), @r"
    governor of every CPU [/sys/devices/system/cpu/cpufreq/policy0/scaling_governor] = performance
    governor of every CPU [/sys/devices/system/cpu/cpufreq/policy1/scaling_governor] = performance
    vm.dirty_ratio or dirty_bytes [vm.dirty_ratio or dirty_bytes] = dirty_ratio=40
    vm.dirty_background_ratio or dirty_background_bytes [vm.dirty_background_ratio or dirty_background_bytes] = dirty_background_ratio=10
    vm.swappiness [vm.swappiness] = 10
    net.core.somaxconn [net.core.somaxconn] = 4096
    net.ipv4.tcp_rmem [net.ipv4.tcp_rmem] = 4096 87380 16777216
    left out: energy bias of every CPU: this machine has no such setting
    left out: min_perf_pct: this machine has no such setting
    left out: net.ipv4.tcp_wmem: this machine has no such setting
    ");
}

#[test]
fn an_installed_profile_goes_before_our_own_list() {
    let bench = Bench::new();
    bench.put(
        "usr/lib/tuned/base/tuned.conf",
        "[sysctl]\nvm.swappiness=>10\nnet.core.busy_read=7\n[cpu]\nforce_latency=5|9\n",
    );
    bench.put(
        "usr/lib/tuned/network-latency/tuned.conf",
        "[main]\ninclude=base\n[sysctl]\nnet.core.busy_read=50\n[bootloader]\ncmdline=x\n[net]\nchannels=y\n\
         [vm.arm]\ntype=vm\nuname_regex=nosuch\ntransparent_hugepages=never\n[sysfs]\n/sys/a*b=1\n[script]\nscript=${i:x}\n",
    );
    insta::assert_snapshot!(bench.resolved("network-latency"), @r"
    vm.swappiness [vm.swappiness] = 60
    net.core.busy_read [net.core.busy_read] = 50
    idle states deeper than 5 µs, off [/sys/devices/system/cpu/cpu0/cpuidle/state2/disable] = 1
    idle states deeper than 5 µs, off [/sys/devices/system/cpu/cpu1/cpuidle/state2/disable] = 1
    left out: [bootloader] cmdline: it takes effect at the next boot
    left out: [net] channels: plumb cannot read it back
    left out: /sys/a*b: it stands for several files
    left out: [script] script: its value has variables or functions of tuned's
    ");
    bench.put("etc/tuned/network-latency/tuned.conf", "[main]\ninclude=nosuch\n");
    let error = find("network-latency").unwrap().resolve(&bench.machine()).unwrap_err().to_string();
    insta::assert_snapshot!(error, @"apply network-latency: tuned's profile network-latency: it includes nosuch, which is not installed");
    insta::assert_snapshot!(find("tuned=nosuch").unwrap().resolve(&bench.machine()).unwrap_err().to_string(), @"apply tuned=nosuch: tuned's profile nosuch: no profile of that name is installed");
}

#[test]
fn everything_is_put_back_and_proven() {
    let bench = Bench::new();
    let before = bench.all();
    let names =
        ["governor", "idle-states", "rings", "network-latency", "interrupt-affinity", "busy-read=100"];
    let mut tuner = bench.tuner(&names);
    let names = owned(&names);
    let looks = |tuner: &Tuner| -> SettingValues { tuner.look() };
    let first = looks(&tuner);
    tuner.apply(tunings(&names)).unwrap();
    assert_eq!(bench.get("proc/sys/net/core/busy_read"), "100");
    assert_eq!(bench.get(&format!("{CPU}/cpufreq/policy1/scaling_governor")), "performance");
    assert_eq!(bench.get("proc/irq/40/smp_affinity_list"), "1");
    assert_eq!(bench.card.sizes.lock().unwrap().transmit, 4096);
    assert!(bench.state.path().join("tunings-of-a-run.jsonl").exists());
    let (opened, closed) = (looks(&tuner), looks(&tuner));
    assert_eq!(tuner.put_back().unwrap().sentences(), Vec::<String>::new());
    assert_eq!(bench.all(), before);
    assert!(!bench.state.path().join("tunings-of-a-run.jsonl").exists());
    let values = [first, opened, closed, looks(&tuner)];
    let evidence = tuner.evidence(tunings(&names), false, &values);
    assert!(evidence.iter().all(|evidence| evidence.holds), "{evidence:#?}");
    let lines: Vec<String> = evidence.iter().map(|it| format!("{}: {}", it.what, it.observed)).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    host: net.core.busy_read: 0 before, 100 during, 0 after
    host: governor of every CPU: powersave before, performance during, powersave after
    host: idle states deeper than 2 µs, off: 0 before, 1 during, 0 after
    host: CPU of interrupt 38 (virtio2-input.0): 0-1 before, 0 during, 0-1 after
    host: CPU of interrupt 40 (virtio2-input.1): 0-1 before, 1 during, 0-1 after
    host: transparent huge pages: madvise before, never during, madvise after
    host: vm.dirty_ratio or dirty_bytes: dirty_ratio=20 before, dirty_ratio=10 during, dirty_ratio=20 after
    host: vm.dirty_background_ratio or dirty_background_bytes: dirty_background_ratio=10 before, dirty_background_ratio=3 during, dirty_background_ratio=10 after
    host: vm.swappiness: 60 before, 10 during, 60 after
    host: net.core.busy_poll: 0 before, 50 during, 0 after
    host: kernel.numa_balancing: 1 before, 0 during, 1 after
    host: receive ring of eth0: 255 before, 4096 during, 255 after
    host: transmit ring of eth0: 255 before, 4096 during, 255 after
    ");
    // The same values prove nothing for a variant without the tunings, nor without any of them.
    let others = tuner.evidence(Treatment::default(), false, &values);
    assert!(others.iter().any(|evidence| !evidence.holds));
}

#[test]
fn a_clamped_value_puts_everything_back() {
    let mut bench = Bench::new();
    bench.card.accepts = 1000;
    let before = bench.all();
    let mut tuner = bench.tuner(&["busy-read", "rings"]);
    let error = tuner.apply(tunings(&owned(&["busy-read", "rings"]))).unwrap_err().to_string();
    insta::assert_snapshot!(error, @r#"apply rings: transmit ring of eth0 was set to "4096" and reads back "1000"; all of it is put back"#);
    tuner.put_back().unwrap();
    assert_eq!(bench.all(), before);
}

#[test]
fn what_somebody_else_has_set_meanwhile_is_left_alone() {
    let bench = Bench::new();
    let mut tuner = bench.tuner(&["busy-read", "sysctl=vm.swappiness=1"]);
    tuner.apply(tunings(&owned(&["busy-read", "sysctl=vm.swappiness=1"]))).unwrap();
    bench.put("proc/sys/net/core/busy_read", "7");
    let said = tuner.put_back().unwrap().sentences();
    insta::assert_snapshot!(said.join("\n"), @r#"net.core.busy_read is "7" now, which somebody else set: it is not changed (it was "0" before "50")"#);
    assert_eq!(bench.get("proc/sys/net/core/busy_read"), "7");
    assert_eq!(bench.get("proc/sys/vm/swappiness"), "60");
    assert_eq!(tuner.trouble(), Vec::<String>::new());
}

#[test]
fn what_a_killed_process_left_is_put_back_and_a_cut_line_does_no_harm() {
    let bench = Bench::new();
    let before = bench.all();
    let entry = |key: &str, old: &str, new: &str| Entry {
        tuning: "test".to_owned(),
        setting: Setting::sysctl(key),
        old: old.to_owned(),
        new: new.to_owned(),
    };
    fs::create_dir_all(bench.state.path()).unwrap();
    let path = bench.state.path().join("tunings-of-a-run.jsonl");
    let mut journal = Journal::create(&path).unwrap();
    journal
        .note(&[
            entry("vm.dirty_ratio", "dirty_ratio=20", "dirty_ratio=5"),
            entry("vm.swappiness", "60", "1"),
        ])
        .unwrap();
    // The write to the second setting was never made.
    bench.put("proc/sys/vm/dirty_ratio", "5");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    io::Write::write_all(&mut file, b"{\"entry\":{\"tuning\":\"te").unwrap();
    let lock = bench.state.lock().unwrap();
    assert_eq!(recover(&bench.machine(), &bench.state).unwrap(), plumb_tunings::PutBack::default());
    assert!(path.exists(), "a process that lives is left alone");
    drop(lock);
    let done = recover(&bench.machine(), &bench.state).unwrap();
    assert_eq!(done.restored.len(), 1);
    assert!(!path.exists());
    assert_eq!(bench.all(), before);
}

#[test]
fn what_is_applied_by_hand_stays_until_it_is_ended() {
    let bench = Bench::new();
    let before = bench.all();
    let machine = bench.machine();
    let ask = |names: &[&str]| names.iter().map(|name| find(name).unwrap()).collect::<Vec<_>>();
    apply_to_stay(&machine, &bench.state, &ask(&["busy-read", "numa-balancing"])).unwrap();
    apply_to_stay(&machine, &bench.state, &ask(&["busy-read=9"])).unwrap();
    assert_eq!(recover(&machine, &bench.state).unwrap().restored.len(), 0);
    let found = in_effect(&machine, &bench.state).unwrap();
    let last = found.last().unwrap();
    assert_eq!((found.len(), last.entry.old.as_str(), last.now.as_deref()), (3, "50", Some("9")));
    // A run on top of it takes back its own alone.
    let mut tuner = bench.tuner(&["busy-read=70"]);
    tuner.apply(tunings(&owned(&["busy-read=70"]))).unwrap();
    assert!(revert(&machine, &bench.state).unwrap_err().to_string().contains("another plumb"));
    drop(tuner);
    assert_eq!(bench.get("proc/sys/net/core/busy_read"), "9");
    assert_eq!(revert(&machine, &bench.state).unwrap().restored.len(), 3);
    assert_eq!(bench.all(), before);
    assert_eq!(in_effect(&machine, &bench.state).unwrap(), []);
}

#[test]
fn all_of_several_or_none() {
    let mut bench = Bench::new();
    bench.card.accepts = 255;
    let before = bench.all();
    let names = ["busy-read", "rings"].map(|name| find(name).unwrap());
    assert!(apply_to_stay(&bench.machine(), &bench.state, &names).is_err());
    assert_eq!(bench.all(), before);
    assert_eq!(in_effect(&bench.machine(), &bench.state).unwrap(), []);
}

/// A tuning that fails halfway and cannot be put back: nothing may forget it until it reads as it was.
#[test]
fn the_journal_stays_while_a_tuning_that_failed_halfway_is_still_in_effect() {
    for fault in [Injected::Stuck, Injected::Rounds] {
        let bench = Bench::new();
        let before = bench.all();
        let mut tuner = bench.tuner(&["rings"]);
        bench.break_card(fault);
        let error = tuner.apply(tunings(&owned(&["rings"]))).unwrap_err().to_string();
        assert!(error.contains("receive ring of eth0"), "what could not be put back is named: {error}");
        assert!(bench.has_journal());
        // Every way on finds it: the next slot, the end of the run, and the next start.
        assert_eq!(tuner.put_back().unwrap().failed.len(), 1);
        let refused = tuner.apply(tunings(&owned(&["rings"]))).unwrap_err().to_string();
        assert!(refused.contains("receive ring of eth0"), "{refused}");
        assert_eq!(tuner.trouble().len(), 1);
        drop(tuner);
        assert!(bench.has_journal());
        assert_eq!(recover(&bench.machine(), &bench.state).unwrap().failed.len(), 1);
        assert!(bench.has_journal());
        bench.break_card(Injected::None);
        assert_eq!(recover(&bench.machine(), &bench.state).unwrap().restored.len(), 1);
        assert_eq!((bench.all() == before, bench.has_journal()), (true, false));
    }
}

#[test]
fn a_setting_that_cannot_be_read_does_not_count_as_put_back() {
    let bench = Bench::new();
    let before = bench.all();
    let mut tuner = bench.tuner(&["rings"]);
    tuner.apply(tunings(&owned(&["rings"]))).unwrap();
    bench.break_card(Injected::Unreadable);
    assert_eq!(tuner.put_back().unwrap().failed.len(), 2);
    assert_eq!((tuner.trouble().len(), bench.has_journal()), (2, true));
    bench.break_card(Injected::None);
    assert_eq!(tuner.put_back().unwrap().restored.len(), 2);
    assert_eq!((tuner.trouble().len(), bench.has_journal()), (0, false));
    assert_eq!(bench.all(), before);
}

#[test]
fn an_earlier_change_of_a_setting_waits_for_the_later_one() {
    let bench = Bench::new();
    let before = bench.all();
    let (machine, state) = (bench.machine(), &bench.state);
    apply_to_stay(&machine, state, &[find("rings").unwrap()]).unwrap();
    // A second change of the same rings, as by a newer card: 4096 becomes 2048.
    let record = plumb_host::settings::journal::read_record(&state.path().join("tunings-that-stay.jsonl"))
        .unwrap()
        .unwrap();
    let mut journal = Journal::append(&state.path().join("tunings-that-stay.jsonl")).unwrap();
    let again: Vec<Entry> = record
        .staying
        .iter()
        .map(|entry| Entry { old: entry.new.clone(), new: "2048".to_owned(), ..entry.clone() })
        .collect();
    journal.note(&again).unwrap();
    journal.stay().unwrap();
    for ring in [Ring::Receive, Ring::Transmit] {
        bench.card.set_ring("eth0", ring, 2048).unwrap();
    }
    bench.break_card(Injected::Unreadable);
    assert_eq!(revert(&machine, state).unwrap().failed.len(), 2);
    bench.break_card(Injected::None);
    let done = revert(&machine, state).unwrap();
    assert_eq!((done.restored.len(), done.sentences()), (4, Vec::new()));
    assert_eq!(bench.all(), before);
}

#[test]
fn a_setting_that_is_gone_is_reported_and_forgotten() {
    let bench = Bench::new();
    let mut tuner = bench.tuner(&["busy-read"]);
    tuner.apply(tunings(&owned(&["busy-read"]))).unwrap();
    fs::remove_file(bench.path("proc/sys/net/core/busy_read")).unwrap();
    let done = tuner.put_back().unwrap();
    insta::assert_snapshot!(done.sentences().join("\n"), @r#"net.core.busy_read is gone, and with it the change from "0" to "50""#);
    assert_eq!((done.failed.len(), bench.has_journal()), (0, false));
}
