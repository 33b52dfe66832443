//! Volumes under policies as the system of an experiment, served by NBD and enforced by the kernel, and what is left of them
//! when everything is killed.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::common::{code, measured_slots, plumb, processes_with_files_in, run, stderr, wait_until, write};

/// Two sizes under a fixed policy, one under an adaptive one.
fn experiment(directory: &Path, layer: &str, duration: &str) -> PathBuf {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: qos }}\nspec:\n  path: storage\n  \
         noise: {{ others_max: 100% }}\n  \
         system:\n    kind: volumes\n    volume: {{ size: 10 GB, filled: 4 MiB, layer: {layer} }}\n  \
         load: {{ depth: 4, size: 4 MiB, duration: {duration}, warmup: 100 ms }}\n  \
         baseline: small\n  variants:\n    \
         small: {{ system: {{ volume: {{ policy: {{ fixed: {{ max_iops: 300 IOPS }} }} }} }} }}\n    \
         large: {{ system: {{ volume: {{ size: 20 GB, policy: {{ fixed: {{ max_iops: 300 IOPS }} }} }} }} }}\n    \
         adaptive:\n      system:\n        volume:\n          policy:\n            \
         adaptive: {{ peak_iops: 20 IOPS/GB, peak_iops_allocation: allocated-space }}\n    \
         unlimited: {{}}\n  blocks: {{ min: 2, max: 2 }}\n"
    );
    write(directory, "qos.yaml", text)
}

fn evidence<'a>(slot: &'a Value, what: &str) -> &'a Value {
    let evidence = slot["outcome"]["measured"]["evidence"].as_array().unwrap();
    let found = evidence.iter().find(|one| one["what"].as_str().unwrap().contains(what));
    found.unwrap_or_else(|| panic!("no evidence of {what}: {slot}"))
}

/// Runs the experiment and looks at what proves that the policies were in effect. Whether a limit was the binding one is left
/// to tests that are given the time: other programs may keep the load below it.
fn policies_are_in_effect(layer: &str, enforcer: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), layer, "300 ms");
    let output = directory.path().join("run");
    let done = run(&["run", file.to_str().unwrap(), "--quiet", "--output", output.to_str().unwrap()]);
    assert!([0, 4].contains(&code(&done)), "{}", stderr(&done));
    let limit = format!("limit on operations, read back from {enforcer}");
    for slot in measured_slots(&output) {
        let (size, iops) = match slot["variant"].as_str().unwrap() {
            "small" => ("10 GB", Some(300)),
            "large" => ("20 GB", Some(300)),
            "adaptive" => ("10 GB", Some(200)),
            _ => ("10 GB", None),
        };
        let size_found = evidence(&slot, "size of the volume");
        assert!(size_found["holds"] == true && size_found["expected"] == size, "{size_found}");
        let read_back = evidence(&slot, &limit);
        let expected = iops.map_or_else(|| "none".to_owned(), |iops| format!("{iops} IOPS"));
        assert!(read_back["holds"] == true && read_back["observed"] == expected, "{read_back}");
        // A limiter may be late, and is never early: some more than in the window's time, for its depth and its borders.
        let measured = &slot["outcome"]["measured"]["measurement"];
        let window_s = measured["window_ns"].as_u64().unwrap() as f64 / 1e9;
        let most = iops.map_or(f64::MAX, |iops| f64::from(iops) * (window_s + 0.2));
        assert!(measured["work"].as_f64().unwrap() <= most, "{slot}");
    }
    assert_eq!(processes_with_files_in(directory.path()), Vec::<u32>::new());
}

#[test]
fn policies_are_in_effect_on_volumes_that_are_served_by_nbd() {
    policies_are_in_effect("nbd", "the NBD server");
}

fn can_make_devices() -> bool {
    let root = std::fs::File::options().write(true).open("/dev/loop-control").is_ok();
    let groups = block_groups().is_some();
    if !(root && groups) {
        crate::common::skip_unprivileged("make loop devices and control groups of block devices");
    }
    root && groups
}

/// The directory in which the kernel layer makes its groups.
fn block_groups() -> Option<PathBuf> {
    let version_2 = std::fs::read_to_string("/sys/fs/cgroup/cgroup.controllers");
    if version_2.is_ok_and(|names| names.split_whitespace().any(|name| name == "io")) {
        return Some(PathBuf::from("/sys/fs/cgroup"));
    }
    Some(PathBuf::from("/sys/fs/cgroup/blkio")).filter(|path| path.join("cgroup.procs").exists())
}

fn groups() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(block_groups().unwrap()).unwrap().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("plumb-io-"))
        .collect()
}

/// Loop devices over files below a directory.
fn devices_over(directory: &Path) -> usize {
    let entries = std::fs::read_dir("/sys/block").unwrap().flatten();
    let backing =
        entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok());
    let directory = directory.canonicalize().unwrap();
    backing.filter(|path| Path::new(path.trim()).starts_with(&directory)).count()
}

#[test]
fn policies_are_in_effect_on_volumes_that_the_kernel_limits_and_nothing_is_left_after_kill_9() {
    if !can_make_devices() {
        return;
    }
    policies_are_in_effect("kernel", "the kernel");
    nothing_is_left_after_kill_9();
}

fn nothing_is_left_after_kill_9() {
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), "kernel", "2 s");
    let text = std::fs::read_to_string(&file).unwrap();
    let home = format!("kind: volumes\n    path: {}\n", directory.path().display());
    let file = write(directory.path(), "qos.yaml", text.replace("kind: volumes\n", &home));
    let output = directory.path().join("run");
    let mut child = plumb()
        .args(["run", file.to_str().unwrap(), "--quiet", "--output", output.to_str().unwrap()])
        .spawn()
        .unwrap();
    let is_measuring = |group: &PathBuf| {
        std::fs::read_to_string(group.join("cgroup.procs")).is_ok_and(|pids| !pids.trim().is_empty())
    };
    wait_until("a load in a control group", || groups().iter().any(is_measuring));
    assert!(devices_over(directory.path()) > 0);
    let agents = processes_with_files_in(directory.path());
    // Everything at once, so that nobody can put anything back.
    for pid in agents.iter().chain([&child.id()]) {
        let _ = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    }
    child.wait().unwrap();
    let is_of_agent = |group: &PathBuf| {
        let name = group.file_name().unwrap().to_string_lossy().into_owned();
        agents.iter().any(|pid| name.starts_with(&format!("plumb-io-{pid}-")))
    };
    let left: Vec<PathBuf> = groups().into_iter().filter(is_of_agent).collect();
    assert!(!left.is_empty(), "{agents:?} did not make {:?}", groups());
    wait_until("the devices to go with their users", || devices_over(directory.path()) == 0);
    // The next run removes the groups that were left.
    let again = experiment(directory.path(), "kernel", "100 ms");
    let done = run(&[
        "run",
        again.to_str().unwrap(),
        "--quiet",
        "--output",
        directory.path().join("again").to_str().unwrap(),
    ]);
    // So short a window may leave a verdict open or void; the run itself must not fail.
    assert!(matches!(code(&done), 0 | 3 | 4), "{}: {}", code(&done), stderr(&done));
    assert_eq!(groups().into_iter().filter(is_of_agent).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}
