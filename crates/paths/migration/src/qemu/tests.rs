//! Both sides against a real QEMU, and against programs that are none.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use plumb_model::{ByteRate, Bytes, Measurement, NoticeKind, Percent, Reading, Span};
use plumb_path::{SeenWindow, Snapshot, Window};

use super::*;
use crate::metrics;
use crate::settings::{Cap, SystemKind, SystemSettings};
use plumb_codec::content::ContentSettings;

const MIB: u64 = 1 << 20;

fn settings() -> MigrationSettings {
    let content = ContentSettings { zero: Percent(0.5), ..ContentSettings::default() };
    let system = SystemSettings {
        kind: SystemKind::Qemu,
        memory: Bytes(64 * MIB),
        content,
        ..SystemSettings::default()
    };
    MigrationSettings { system, ..MigrationSettings::default() }
}

/// A directory for each side.
struct Sides {
    system: tempfile::TempDir,
    load: tempfile::TempDir,
}

impl Sides {
    fn new() -> Self {
        Self { system: tempfile::tempdir().unwrap(), load: tempfile::tempdir().unwrap() }
    }

    fn start(&self, settings: &MigrationSettings) -> (Box<dyn System>, Box<dyn Load>) {
        let system = system(settings, &place(self.system.path())).unwrap();
        let load = load(settings, &system.target(), &place(self.load.path())).unwrap();
        (system, load)
    }
}

fn place(directory: &Path) -> Place {
    Place { scratch: directory.to_owned(), cpus: 2, address: None, number: 0 }
}

fn window(warmup_ns: u64) -> Window {
    Window::at_once(warmup_ns, 1, 7)
}

/// Whether there is a QEMU to test with.
fn is_installed(test: &str) -> bool {
    let missing = program(&settings()).err();
    if let Some(reason) = &missing {
        // Not `eprintln!`, which a test that passes hides.
        writeln!(std::io::stderr(), "test skipped: qemu::tests::{test}: {reason}").unwrap();
    }
    missing.is_none()
}

/// A program that does what a line of shell says.
fn pretender(directory: &Path, script: &str) -> String {
    let file = directory.join("pretender");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file.display().to_string()
}

fn seen<'a>(before: &'a Snapshot, after: &'a Snapshot) -> SeenWindow<'a> {
    SeenWindow { before, after, measurement: None }
}

fn gauge(measurement: &Measurement, metric: &plumb_model::Metric) -> f64 {
    measurement.readings[metric.name].number(None, metric.unit).unwrap()
}

#[test]
fn memory_moves_and_what_moved_is_proven() {
    if !is_installed("memory_moves_and_what_moved_is_proven") {
        return;
    }
    let (settings, sides) = (settings(), Sides::new());
    check(&settings).unwrap();
    feasible(&settings).unwrap();
    let (mut system, mut load) = sides.start(&settings);
    let before = system.snapshot().unwrap();
    let mut marks = Vec::new();
    let measurement = load.measure(window(1), &mut |mark| marks.push(mark)).unwrap();
    let after = system.snapshot().unwrap();
    assert_eq!(marks, [plumb_path::Mark::Opened, plumb_path::Mark::Closed]);
    for evidence in evidence(&settings, seen(&before, &after), &measurement) {
        // The migration of the warm-up was received before the window, too.
        assert!(evidence.holds || evidence.is_of_kind("memory-equal"), "{evidence:?}");
    }
    assert_eq!(measurement.work, 64 * MIB / plumb_codec::PAGE_BYTES as u64);
    let half = 32 * MIB;
    let wire = gauge(&measurement, &metrics::WIRE_BYTES);
    assert!(wire > half as f64 * 0.9 && wire < half as f64 * 1.2, "{wire}");
    let ratio = gauge(&measurement, &metrics::COMPRESSION_RATIO);
    assert!(ratio > 0.9 && ratio < 1.0, "{ratio}");
    assert!(measurement.cpu_user_ns + measurement.cpu_system_ns > 0);
    assert!(after.cpu.total_ns() > before.cpu.total_ns());
    assert_eq!(measurement.observed_count("memory", "equal"), 1);
    assert!(matches!(measurement.readings[metrics::CONVERGED.name], Reading::Share { yes: 1, no: 0 }));
    drop(load);
    system.stop().unwrap();
    assert_eq!(fs::read_dir(sides.system.path()).unwrap().filter(is_socket).count(), 0);
}

fn is_socket(entry: &std::io::Result<fs::DirEntry>) -> bool {
    use std::os::unix::fs::FileTypeExt;
    entry.as_ref().is_ok_and(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()))
}

#[test]
fn a_codec_shrinks_what_the_sockets_carry_whatever_qemu_says_of_itself() {
    if !is_installed("a_codec_shrinks_what_the_sockets_carry_whatever_qemu_says_of_itself") {
        return;
    }
    let mut settings = settings();
    settings.system.codec = "zstd:1".parse().unwrap();
    let sides = Sides::new();
    let (mut system, mut load) = sides.start(&settings);
    let before = system.snapshot().unwrap();
    let measurement = load.measure(window(0), &mut |_| {}).unwrap();
    let evidence = evidence(&settings, seen(&before, &system.snapshot().unwrap()), &measurement);
    assert!(evidence.iter().all(|evidence| evidence.holds), "{evidence:?}");
    assert!(gauge(&measurement, &metrics::COMPRESSION_RATIO) > 1.5);
    let wire = gauge(&measurement, &metrics::WIRE_BYTES);
    let says = measurement.observed_count("qemu_says", "transferred") as f64;
    assert_eq!(
        says > wire * 1.02,
        measurement.notices.iter().any(|notice| notice.kind == NoticeKind::QemuBytesUncompressed)
    );
}

#[test]
fn a_migration_that_takes_too_long_is_given_up_and_the_next_one_is_like_the_first() {
    if !is_installed("a_migration_that_takes_too_long_is_given_up_and_the_next_one_is_like_the_first") {
        return;
    }
    let mut settings = settings();
    settings.system.cap = Cap(Some(ByteRate(20e6)));
    settings.system.downtime_limit = Span(1_000_000);
    settings.load.time_limit = Span(200_000_000);
    let sides = Sides::new();
    let (_system, mut load) = sides.start(&settings);
    for _ in 0..2 {
        let measurement = load.measure(window(0), &mut |_| {}).unwrap();
        assert!(matches!(measurement.readings[metrics::CONVERGED.name], Reading::Share { yes: 0, no: 1 }));
        assert!(gauge(&measurement, &metrics::WIRE_BYTES) < (32 * MIB) as f64);
    }
}

#[test]
fn a_destination_that_is_killed_on_the_way_is_named() {
    if !is_installed("a_destination_that_is_killed_on_the_way_is_named") {
        return;
    }
    let mut settings = settings();
    settings.system.cap = Cap(Some(ByteRate(10e6)));
    let sides = Sides::new();
    let mut system = destination(&settings, &place(sides.system.path())).unwrap();
    let mut load = load(&settings, &system.target(), &place(sides.load.path())).unwrap();
    let idle = system.snapshot().unwrap().states["pid"].clone();
    let killer = std::thread::spawn(move || {
        let mut pid = idle.clone();
        while pid == idle {
            plumb_host::time::sleep(Duration::from_millis(1));
            pid = system.snapshot().unwrap().states["pid"].clone();
        }
        // By then some of the 3.2 s are over that the migration would take.
        plumb_host::time::sleep(Duration::from_millis(700));
        plumb_host::process::kill_tree(pid.parse().unwrap());
        system
    });
    let error = load.measure(window(0), &mut |_| {}).unwrap_err().to_string();
    assert!(error.starts_with("migrate: the source QEMU failed: "), "{error}");
    assert!(error.ends_with("; the destination QEMU was killed by SIGKILL"), "{error}");
    killer.join().unwrap().stop().unwrap();
}

#[test]
fn a_destination_that_is_not_there_is_an_error_of_the_source() {
    if !is_installed("a_destination_that_is_not_there_is_an_error_of_the_source") {
        return;
    }
    let target = serde_json::json!({ "control": "/nowhere", "address": "127.0.0.1", "netns": null });
    let directory = tempfile::tempdir().unwrap();
    let error = load(&settings(), &target, &place(directory.path())).err().unwrap().to_string();
    assert_eq!(error, "reach the destination's agent in /nowhere: No such file or directory (os error 2)");
}

/// The error of starting a destination when QEMU is this line of shell.
fn fails_as(script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let mut settings = settings();
    settings.system.program = Some(pretender(directory.path(), script));
    let as_system = system(&settings, &place(directory.path())).err().unwrap().to_string();
    feasible(&settings).expect("a program that an experiment names is not run to check it");
    as_system
}

#[test]
fn a_qemu_that_does_not_start_is_quoted() {
    assert_eq!(
        fails_as("echo 'no such machine' >&2; exit 1"),
        "ask QEMU to `greet`: it has closed the connection; the source QEMU ended with code 1 and wrote: no such machine"
    );
    assert_eq!(
        fails_as("echo hello; exec sleep 60"),
        "ask QEMU to `greet`: it said \"hello\", which is not QMP"
    );
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let mut settings = settings();
    settings.system.program = Some("/nowhere/qemu".to_owned());
    assert_eq!(
        feasible(&settings).unwrap_err().to_string(),
        "there is no program /nowhere/qemu that can be executed; see `system.program`"
    );
}

#[test]
fn what_qemu_cannot_be_asked_for_is_a_fault_at_its_key() {
    let fault = |change: fn(&mut SystemSettings)| {
        let mut settings = settings();
        change(&mut settings.system);
        check(&settings).unwrap_err().key
    };
    assert_eq!(fault(|system| system.memory = Bytes(4096)), "system.memory");
    assert_eq!(fault(|system| system.tls = Tls::On), "system.tls");
    assert_eq!(fault(|system| system.dirty.rate = ByteRate(1.0)), "system.dirty.rate");
}
