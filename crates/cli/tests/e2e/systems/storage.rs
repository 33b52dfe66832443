//! `plumb storage`: on files, on loop devices where the test may make some, and on targets that cannot be used.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{code, plumb, run, signal, stderr, stdout, wait, write};

fn path(directory: &Path, name: &str) -> String {
    directory.join(name).to_str().unwrap().to_owned()
}

fn storage(target: &str, arguments: &str) -> Output {
    let mut all = vec!["storage", target];
    all.extend(arguments.split_whitespace());
    run(&all)
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_str(&stdout(output)).unwrap_or_else(|error| panic!("{error}: {}", stderr(output)))
}

/// A file with data in it.
fn file_of(directory: &Path, name: &str, bytes: usize) -> PathBuf {
    let data: Vec<u8> = (0..bytes).map(|index| ((index * 2_654_435_761) >> 13) as u8 | 1).collect();
    write(directory, name, data)
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
fn what_another_run_wrote_is_checked_and_a_changed_block_is_found() {
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
    std::fs::write(&file, bytes).unwrap();
    let read = storage(target, "--rw randread -n 256 --verify --json");
    assert_eq!((code(&read), &json(&read)["metrics"]["verified"]["no"]), (1, &1.into()));
    assert_eq!(json(&read)["errors"]["verify: a pattern whose bytes were changed"], 1);
}

#[test]
fn what_cannot_be_used_is_refused_with_one_message() {
    let directory = tempfile::tempdir().unwrap();
    let full = file_of(directory.path(), "full", 64 << 10);
    let full = full.to_str().unwrap();
    let before = std::fs::read(full).unwrap();
    let missing = path(directory.path(), "missing");
    for (target, arguments, message) in [
        (missing.as_str(), "", "there is no such file"),
        (directory.path().to_str().unwrap(), "", "it is a directory"),
        ("/dev/null", "", "it is a character device"),
        (full, "--rw randwrite", "it is not empty"),
        (full, "--suite dbench", "it is not empty"),
        (full, "--offset 60KiB --size 8KiB", "ends at 69632 B, and it has only 65536 B"),
        (full, "-b 128KiB", "no block of"),
        (full, "-c 0", "--depth: a job has 1 to 4096"),
        (full, "-t 0", "--jobs: a load has 1 to 1024 jobs"),
        (full, "-b 0B", "--block-size: a block has"),
        (full, "-b 64B --verify", "--verify"),
        ("/nowhere/at/all", "-s 1MiB", "No such file or directory"),
    ] {
        let number = if arguments.contains("suite") { "" } else { "-n 10" };
        let output = storage(target, &format!("{arguments} -q {number}"));
        let said = stderr(&output);
        assert_eq!(code(&output), 2, "{target} {arguments}: {said}");
        assert!(said.contains(message) && said.trim().lines().count() == 1, "{target} {arguments}: {said}");
    }
    assert_eq!(std::fs::read(full).unwrap(), before);
    let destroyed = storage(full, "--rw randwrite -n 100 -q --destroy-data");
    assert_eq!(code(&destroyed), 0, "{}", stderr(&destroyed));
    assert_ne!(std::fs::read(full).unwrap(), before);
}

#[test]
fn direct_io_takes_whole_sectors_only_and_the_page_cache_takes_all() {
    let directory = tempfile::tempdir().unwrap();
    let file = file_of(directory.path(), "full", 64 << 10);
    let file = file.to_str().unwrap();
    let direct = storage(file, "-b 1000B -n 10 --json");
    let is_direct = code(&direct) == 2;
    assert!(!is_direct || stderr(&direct).contains("takes multiples of"), "{}", stderr(&direct));
    // Where the file system has no direct I/O, the measurement says so.
    assert!(is_direct || json(&direct)["observed"]["direct"]["no"] == 1, "{}", stdout(&direct));
    let buffered = storage(file, "-b 1000B -n 10 --json --buffered");
    assert_eq!((code(&buffered), &json(&buffered)["observed"]["direct"]["no"]), (0, &1.into()));
}

#[test]
fn a_fixed_rate_is_held_and_timed_from_the_intended_start() {
    let output = storage("null:", "-R 500/s -d 1s --json");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let metrics = &json(&output)["metrics"];
    let count = |name: &str| metrics[name]["count"].as_u64().unwrap();
    assert_eq!((count("read_latency"), count("read_service")), (500, 500));
}

#[test]
fn dbench_prints_its_summary_of_nine_jobs() {
    let directory = tempfile::tempdir().unwrap();
    let target = path(directory.path(), "blocks");
    let output = storage(&target, "--suite dbench -s 64MiB -d 100ms --warmup 0s");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    let begin = "==================\n= Dbench Summary =\n==================\nRandom Read/Write IOPS: ";
    assert!(text.starts_with(begin), "{text}");
    for line in [
        ". BW: ",
        "\nAverage Latency (usec) Read/Write: ",
        "\nSequential Read/Write: ",
        "\nMixed Random Read/Write IOPS: ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains(": 0/") && !text.contains("/0\n"), "{text}");
    assert!(!text.contains(": -") && !text.contains("/-"), "no figure is missing: {text}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn dbenchs_jobs_are_a_load_of_an_experiment() {
    let directory = tempfile::tempdir().unwrap();
    let text = "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: suite }\nspec:\n  path: storage\n  \
                noise: { others_max: 100% }\n  system: { kind: file, size: 32 MiB }\n  \
                load: { suite: dbench, duration: 900 ms, warmup: 90 ms }\n  baseline: one\n  \
                variants: { one: {}, other: { load: { compressible: 50% } } }\n  blocks: { min: 2, max: 2 }\n";
    let file = write(directory.path(), "suite.yaml", text);
    let into = path(directory.path(), "run");
    let output = run(&["run", file.to_str().unwrap(), "--output", &into]);
    let report = std::fs::read_to_string(format!("{into}/report.json"));
    let report: serde_json::Value =
        serde_json::from_str(&report.unwrap_or_else(|_| panic!("{}", stderr(&output)))).unwrap();
    for slot in crate::lab::places::slots(Path::new(&into)) {
        let measured = &slot["outcome"]["measured"];
        let readings = &measured["measurement"]["readings"];
        for metric in [
            "read_iops",
            "write_iops",
            "read_bw",
            "write_bw",
            "read_seq",
            "write_seq",
            "rw_mix_read_iops",
            "rw_mix_write_iops",
        ] {
            // On a slow disk a job may end before the first of its operations does.
            assert!(readings[metric]["rate"].is_object(), "{metric}: {readings}");
        }
        assert!(readings["read_latency"].is_object() && readings["write_latency"].is_object(), "{readings}");
        // The window has all jobs, and what comes between them.
        assert!(measured["measurement"]["window_ns"].as_u64().unwrap() >= 900_000_000, "{measured}");
        let evidence = measured["evidence"].as_array().unwrap();
        assert!(evidence.iter().all(|one| one["holds"] == true), "{evidence:?}");
    }
    assert_eq!(report["variants"][0]["state"], "measured", "{report}");
    let refused =
        write(directory.path(), "refused.yaml", text.replace("suite: dbench", "suite: dbench, verify: true"));
    let output = run(&["check", refused.to_str().unwrap()]);
    assert!(
        code(&output) == 2 && stderr(&output).contains("the suite does not check what it reads"),
        "{}",
        stderr(&output)
    );
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

#[test]
fn a_file_for_which_there_is_no_space_is_one_message_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let target = path(directory.path(), "blocks");
    // More than any file may have, so that no real disk has to be filled.
    let output = storage(&target, "-s 8000000TiB --rw randwrite -q -n 10");
    let said = stderr(&output);
    assert_eq!(code(&output), 5, "{said}");
    assert!(said.contains("fill") && said.trim().lines().count() == 1, "{said}");
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
    let failing = storage(&device.0, "-d 1s -q");
    // Nothing could be read, or too much failed beside the few reads of what is left.
    let said = stderr(&failing) + &stdout(&failing);
    assert!([1, 5].contains(&code(&failing)), "{said}");
    assert!(said.contains("read: Input/output error"), "{said}");
}

#[test]
fn an_experiment_compares_depths_on_a_file_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let text = "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: depths }\nspec:\n  path: storage\n  \
        system: { kind: file, size: 8 MiB }\n  load: { depth: 1, duration: 100 ms, warmup: 0 s }\n  baseline: shallow\n  \
        variants: { shallow: {}, deep: { load: { depth: 16 } } }\n  blocks: { min: 2, max: 2 }\n  \
        claims: [\"deep.read_iops > 0.01 * shallow.read_iops\"]\n";
    let file = write(directory.path(), "depths.yaml", text);
    let runs = path(directory.path(), "run");
    let output = run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", &runs]);
    let found = json(&output);
    for variant in found["variants"].as_array().unwrap() {
        let evidence = variant["evidence"].as_array().unwrap();
        let named: Vec<&str> = evidence.iter().map(|one| one["what"].as_str().unwrap()).collect();
        assert!(named.contains(&"direct I/O") && named.contains(&"reads and writes in flight"), "{variant}");
        assert!(variant["metrics"]["read_iops"]["median"].as_f64().unwrap() > 0.0, "{variant}");
    }
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

/// The line is shown on a terminal only, which `script` provides.
#[test]
fn the_progress_line_of_a_run_has_the_rate_and_the_time_of_each() {
    let directory = tempfile::tempdir().unwrap();
    let target = write(directory.path(), "target", vec![1; 16 << 20]);
    let experiment = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: x, title: x }}\nspec:\n  path: storage\n  \
         system: {{ kind: external, path: {} }}\n  load: {{ direct: off, depth: 4, duration: 2100 ms, warmup: 0 s }}\n  \
         baseline: a\n  variants: {{ a: {{}}, b: {{ load: {{ depth: 8 }} }} }}\n  blocks: 2\n",
        target.display()
    );
    let file = write(directory.path(), "x.yaml", experiment);
    let run = format!(
        "stty cols 120 && {} run {} --output {}",
        env!("CARGO_BIN_EXE_plumb"),
        file.display(),
        directory.path().join("run").display()
    );
    let output =
        Command::new("script").args(["-qec", &run, "/dev/null"]).env("TERM", "xterm").output().unwrap();
    let shown = stdout(&output);
    let line = shown.split('\r').find(|line| line.contains(" ms each")).unwrap_or_else(|| panic!("{shown}"));
    assert!(line.contains("block 1 of 2, slot ") && line.contains("/s, about "), "{line}");
    assert!(line.contains(" left, "), "{line}");
}
