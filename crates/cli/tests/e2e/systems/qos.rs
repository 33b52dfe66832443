//! Volumes under policies as the system of an experiment, served by NBD and enforced by the kernel, and what is left of them
//! when everything is killed.

use std::path::{Path, PathBuf};

use crate::common::{code, plumb, processes_with_files_in, run, stderr, stdout, wait_until, write};

/// Two sizes under a fixed policy, one under an adaptive one. The claims have room for seconds that other tests cut short for the
/// load: what was late is in the next second.
fn experiment(directory: &Path, layer: &str, duration: &str) -> PathBuf {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: qos }}\nspec:\n  path: storage\n  \
         system:\n    kind: volumes\n    volume: {{ size: 10 GB, filled: 4 MiB, layer: {layer} }}\n  \
         load: {{ depth: 4, size: 4 MiB, duration: {duration}, warmup: 100 ms }}\n  \
         baseline: small\n  variants:\n    \
         small: {{ system: {{ volume: {{ policy: {{ fixed: {{ max_iops: 300 IOPS }} }} }} }} }}\n    \
         large: {{ system: {{ volume: {{ size: 20 GB, policy: {{ fixed: {{ max_iops: 300 IOPS }} }} }} }} }}\n    \
         adaptive:\n      system:\n        volume:\n          policy:\n            \
         adaptive: {{ peak_iops: 20 IOPS/GB, peak_iops_allocation: allocated-space }}\n    \
         unlimited: {{}}\n  \
         blocks: {{ min: 2, max: 2 }}\n  claims:\n    - small.read_iops <= 300 IOPS within 25%\n    \
         - large.read_iops <= 300 IOPS within 25%\n    - adaptive.read_iops <= 200 IOPS within 25%\n"
    );
    write(directory, "qos.yaml", text)
}

fn evidence<'a>(run: &'a serde_json::Value, variant: &str, what: &str) -> &'a serde_json::Value {
    let variants = run["variants"].as_array().unwrap();
    let found = variants.iter().find(|one| one["name"] == variant).unwrap();
    let evidence = found["evidence"].as_array().unwrap();
    evidence
        .iter()
        .find(|one| one["what"].as_str().unwrap().contains(what))
        .unwrap_or_else(|| panic!("{variant} has no evidence of {what}: {found}"))
}

/// Runs the experiment and looks at what proves that the policies were in effect.
fn policies_are_in_effect(layer: &str, enforcer: &str) {
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), layer, "1 s");
    let measure = |attempt: usize| -> serde_json::Value {
        let output = directory.path().join(format!("run-{attempt}"));
        let done =
            run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", output.to_str().unwrap()]);
        serde_json::from_str(&stdout(&done)).unwrap_or_else(|_| panic!("{}", stderr(&done)))
    };
    let is_void = |found: &serde_json::Value| {
        found["claims"].as_array().unwrap().iter().any(|claim| claim["verdict"] == "void")
    };
    // Other tests may keep the load from its limit; the policy is not proven then, and the claims are rightly void.
    let found = (0..4).map(measure).find(|found| !is_void(found)).expect("a run whose load is at its limit");
    let limit = format!("limit on operations, read back from {enforcer}");
    for (variant, size, iops) in [
        ("small", "10 GB", "300 IOPS"),
        ("large", "20 GB", "300 IOPS"),
        ("adaptive", "10 GB", "200 IOPS"),
        ("unlimited", "10 GB", "none"),
    ] {
        let size_found = &evidence(&found, variant, "size of the volume");
        assert!(size_found["holds"] == true && size_found["expected"] == size, "{variant}: {size_found}");
        let read_back = evidence(&found, variant, &limit);
        assert!(read_back["holds"] == true && read_back["observed"] == iops, "{variant}: {read_back}");
    }
    for claim in found["claims"].as_array().unwrap() {
        assert_eq!(claim["verdict"], "holds", "{claim}");
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

#[test]
fn a_policy_that_cannot_be_enforced_is_an_error_that_names_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(experiment(directory.path(), "kernel", "1 s")).unwrap();
    for (from, to, message) in [
        ("max_iops: 300 IOPS", "max_iops: 300 MB", "is an amount of data"),
        ("max_iops: 300 IOPS", "max_iops: 0 IOPS", "from 1 to 10^15"),
        ("depth: 4", "access: randrw, depth: 4", "reads and writes separately"),
        (
            "adaptive: {",
            "fixed: { max_iops: 9 IOPS }\n            adaptive: {",
            "either `fixed` or `adaptive`",
        ),
        ("filled: 4 MiB", "filled: 40 GB", "more than the volume holds"),
        ("20 IOPS/GB", "0 IOPS/GB", "needs a peak above 0"),
    ] {
        let file = write(directory.path(), "wrong.yaml", text.replace(from, to));
        let checked = run(&["check", file.to_str().unwrap()]);
        let said = stderr(&checked);
        assert_eq!(code(&checked), 2, "{to}: {said}");
        assert!(said.contains(message), "{to}: {said}");
    }
}
