//! `plumb storage`: on files, on loop devices where the test may make some, and on another program's NBD server.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{code, measured_slots, plumb, run, signal, stderr, stdout, wait, write};

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

fn storage(target: &str, arguments: &str) -> Output {
    let mut all = vec!["storage", target];
    all.extend(arguments.split_whitespace());
    run(&all)
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

#[test]
fn every_engine_reads_and_writes_and_finds_its_patterns_again() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ["io_uring", "libaio", "psync"] {
        let target = path(directory.path(), engine);
        let arguments = "-s 16MiB --rw randrw -n 3000 -c 8 --verify --json --engine";
        let output = storage(&target, &format!("{arguments} {engine}"));
        assert_eq!(code(&output), 0, "{engine}: {}", stderr(&output));
        let found = json(&output);
        assert_eq!(found["work"], 3000, "{engine}");
        let verified = &found["metrics"]["verified"];
        assert_eq!(verified["no"], 0, "{engine}");
        assert!(verified["yes"].as_u64().unwrap() >= 1000, "{engine}: {verified}");
        let count = |metric: &str| found["metrics"][metric]["count"].as_u64().unwrap();
        assert_eq!(count("read_iops") + count("write_iops"), 3000);
        assert_eq!(count("read_latency"), count("read_iops"));
        assert_eq!(count("write_bw"), count("write_iops") * 4096);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{engine} left something");
    }
}

#[test]
fn what_another_run_wrote_is_checked_and_is_destroyed_only_where_that_is_allowed() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("blocks");
    std::fs::File::create(&file).unwrap().set_len(1 << 20).unwrap();
    let target = file.to_str().unwrap();
    let written = storage(target, "--rw write -n 256 --verify --json");
    assert_eq!(code(&written), 0, "{}", stderr(&written));
    let read = storage(target, "--rw randread -n 256 --verify --json");
    assert_eq!((code(&read), &json(&read)["metrics"]["verified"]["yes"]), (0, &256.into()));

    let mut bytes = std::fs::read(&file).unwrap();
    bytes[5 * 4096 + 1000] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let read = storage(target, "--rw randread -n 256 --verify --json");
    assert_eq!((code(&read), &json(&read)["metrics"]["verified"]["no"]), (1, &1.into()));
    assert_eq!(json(&read)["errors"]["verify: a pattern whose bytes were changed"], 1);

    let refused = storage(target, "--rw randwrite -q -n 10");
    assert_eq!((code(&refused), stderr(&refused).contains("it is not empty")), (2, true), "{refused:?}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let destroyed = storage(target, "--rw randwrite -n 100 -q --destroy-data");
    assert_eq!(code(&destroyed), 0, "{}", stderr(&destroyed));
    assert_ne!(std::fs::read(&file).unwrap(), bytes);
}

/// Runs an experiment of two variants on a file that it makes, and gives its slots that were measured.
fn experiment(directory: &Path, name: &str, load: &str, other: &str) -> Vec<Value> {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: {name} }}\nspec:\n  path: storage\n  \
         noise: {{ others_max: 100% }}\n  system: {{ kind: file, size: 8 MiB }}\n  load: {{ {load} }}\n  baseline: one\n  \
         variants: {{ one: {{}}, other: {{ load: {{ {other} }} }} }}\n  blocks: {{ min: 2, max: 2 }}\n"
    );
    let file = write(directory, name, text);
    let into = directory.join("run");
    let output = run(&["run", file.to_str().unwrap(), "--quiet", "--output", into.to_str().unwrap()]);
    assert!(into.join("report.json").exists(), "{}", stderr(&output));
    let slots = measured_slots(&into);
    std::fs::remove_dir_all(into).unwrap();
    slots.into_iter().map(|mut slot| slot["outcome"]["measured"].take()).collect()
}

const IN_FLIGHT: &str = "reads and writes in flight";

/// What a slot's evidence is about. All of it holds, but for a depth that a busy machine need not keep.
fn proven(slot: &Value) -> Vec<&str> {
    let evidence = slot["evidence"].as_array().unwrap();
    assert!(evidence.iter().all(|one| one["holds"] == true || one["what"] == IN_FLIGHT), "{evidence:?}");
    evidence.iter().map(|one| one["what"].as_str().unwrap()).collect()
}

#[test]
fn experiments_measure_dbenchs_jobs_and_a_depth_on_files_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let load = "suite: dbench, duration: 450 ms, warmup: 45 ms";
    for slot in experiment(directory.path(), "suite", load, "compressible: 50%") {
        assert!(proven(&slot).contains(&"direct I/O"), "{slot}");
        let readings = &slot["measurement"]["readings"];
        let rates = ["read_iops", "write_iops", "read_bw", "write_bw", "read_seq", "write_seq"];
        for metric in rates.iter().chain(&["rw_mix_read_iops", "rw_mix_write_iops"]) {
            // On a slow disk a job may end before the first of its operations does.
            assert!(readings[metric]["rate"].is_object(), "{metric}: {readings}");
        }
        assert!(readings["read_latency"].is_object() && readings["write_latency"].is_object(), "{readings}");
        // The window has all jobs, and what comes between them.
        assert!(slot["measurement"]["window_ns"].as_u64().unwrap() >= 450_000_000, "{slot}");
    }
    let load = "depth: 1, duration: 100 ms, warmup: 50 ms";
    for slot in experiment(directory.path(), "depths", load, "depth: 16") {
        let proven = proven(&slot);
        assert!(proven.contains(&"direct I/O") && proven.contains(&IN_FLIGHT), "{slot}");
        assert!(slot["measurement"]["readings"]["read_iops"]["rate"].is_object(), "{slot}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "the two experiments alone are left");
}

#[test]
fn a_load_that_is_killed_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let target = path(directory.path(), "blocks");
    let child = plumb()
        .args(["storage", &target, "-s", "4MiB", "-d", "60s", "--rw", "randrw"])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    crate::common::wait_until("the file's name to be gone and the file to be open", || {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
        let mut links = files.filter_map(|file| std::fs::read_link(file.path()).ok());
        links.any(|link| link.to_string_lossy().ends_with("blocks (deleted)"))
    });
    signal(pid, "KILL");
    wait(child);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// A loop device over a file, gone with this value.
struct LoopDevice(String);

impl LoopDevice {
    /// `None`, and said why, where this user or this machine cannot make one.
    fn over(file: &Path) -> Option<Self> {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        match output {
            Ok(output) if output.status.success() => Some(Self(stdout(&output).trim().to_owned())),
            _ => {
                crate::common::skip_unprivileged("make loop devices");
                None
            }
        }
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_that_holds_data_or_is_in_use_is_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("device");
    std::fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
    let Some(device) = LoopDevice::over(&file) else { return };
    let empty = storage(&device.0, "--rw randwrite -n 200 --verify --json");
    assert_eq!(code(&empty), 0, "{}", stderr(&empty));
    assert_eq!(json(&empty)["observed"]["direct"]["yes"], 1);
    let used = storage(&device.0, "--rw randwrite -n 200 -q");
    assert_eq!(code(&used), 2);
    assert!(stderr(&used).contains("it is not empty"), "{}", stderr(&used));
    let allowed = storage(&device.0, "--rw randwrite -n 200 -q --destroy-data");
    assert_eq!(code(&allowed), 0, "{}", stderr(&allowed));

    // A device that loses most of what is behind it fails what is beyond.
    std::fs::File::options().write(true).open(&file).unwrap().set_len(64 << 10).unwrap();
    let failing = storage(&device.0, "-d 200ms -q");
    // Nothing could be read, or too much failed beside the few reads of what is left.
    let said = stderr(&failing) + &stdout(&failing);
    assert!([1, 5].contains(&code(&failing)), "{said}");
    assert!(said.contains("read: Input/output error"), "{said}");
}

/// A server of someone else's over a file, gone with this value.
struct NbdServer(std::process::Child, String);

impl NbdServer {
    fn over(file: &Path) -> Option<Self> {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("qemu-nbd");
        command.args([
            "--persistent",
            "--shared=4",
            "--bind=127.0.0.1",
            "--format=raw",
            "--export-name=blocks",
        ]);
        let child = command.arg(format!("--port={port}")).arg(file).spawn();
        let Ok(child) = child else {
            crate::common::skip("qemu-nbd is not installed");
            return None;
        };
        let server = Self(child, format!("nbd://127.0.0.1:{port}/blocks"));
        crate::common::wait_until("qemu-nbd to listen", || {
            std::net::TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(server)
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_export_of_qemu_nbd_is_written_and_checked_over_several_connections() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("blocks");
    std::fs::File::create(&file).unwrap().set_len(8 << 20).unwrap();
    let Some(server) = NbdServer::over(&file) else { return };
    let written = storage(&server.1, "--rw randrw -n 2000 -c 16 -t 2 --verify --json");
    assert_eq!(code(&written), 0, "{}", stderr(&written));
    let found = json(&written);
    assert_eq!((&found["work"], &found["metrics"]["verified"]["no"]), (&2000.into(), &0.into()));
    assert_eq!(found["observed"]["engine"]["nbd"], 2);
    let refused = storage(&server.1, "--rw randwrite -n 100 -q");
    assert_eq!(
        (code(&refused), stderr(&refused).contains("it is not empty")),
        (2, true),
        "{}",
        stderr(&refused)
    );
    assert!(std::fs::read(&file).unwrap().iter().any(|byte| *byte != 0));
    let wrong = storage(&server.1.replace("blocks", "nothing"), "-n 100 -q");
    assert_eq!(
        (code(&wrong), stderr(&wrong).contains("refuses the export `nothing`")),
        (5, true),
        "{}",
        stderr(&wrong)
    );
    let gone = server.1.clone();
    drop(server);
    let nobody = storage(&gone, "-n 100 -q");
    assert_eq!(
        (code(&nobody), stderr(&nobody).contains("does not answer")),
        (5, true),
        "{}",
        stderr(&nobody)
    );
}
