//! Tunings of the host through the program: on a tree of files that stands for the machine, and on harmless settings of this
//! machine itself. `user_changes` has what becomes of them when the program is killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::common::{code, plumb, skip_unprivileged, stderr, stdout, write};

const FILES: [(&str, &str); 7] = [
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/net/core/busy_read", "0\n"),
    ("proc/sys/net/core/busy_poll", "0\n"),
    ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
    ("proc/sys/kernel/numa_balancing", "1\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("proc/cpuinfo", "processor : 0\nflags : fpu popcnt sse4_2\n"),
];

struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        for (path, text) in FILES {
            let path = tree.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        tree
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join("root").join(path)
    }

    fn value(&self, path: &str) -> String {
        let text = fs::read_to_string(self.path(path)).unwrap();
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map_or_else(
            || text.split_whitespace().collect::<Vec<_>>().join(" "),
            |(chosen, _)| chosen.to_owned(),
        )
    }

    fn is_as_it_was(&self) -> bool {
        let before = Self::new();
        FILES.iter().all(|(path, _)| self.value(path) == before.value(path))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plumb();
        command.args(arguments);
        command.env("PLUMB_HOST_ROOT", self.path("")).env("PLUMB_STATE_DIR", self.0.path().join("state"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn journals(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path().join("state")).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        names.filter(|name| !name.ends_with(".lock")).collect()
    }
}

const ALL: &str = "[busy-read, \"sysctl=net.ipv4.tcp_rmem=4096 87380 16777216\", network-latency]";

fn experiment(directory: &Path) -> PathBuf {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: tuned }}\nspec:\n  path: null\n  \
         load: {{ duration: 10 ms, real_time: true }}\n  baseline: plain\n  variants:\n    plain: {{}}\n    \
         tuned: {{ host: {{ tunings: {ALL} }} }}\n    governor: {{ host: {{ tunings: [governor] }} }}\n    \
         same: {{ host: {{ tunings: [huge-pages=madvise] }} }}\n  blocks: {{ min: 2, max: 2 }}\n"
    );
    write(directory, "tuned.yaml", text)
}

#[test]
fn a_person_applies_looks_and_ends() {
    let tree = Tree::new();
    let listed = stdout(&tree.run(&["tune", "list"]));
    assert!(listed.contains("net.core.busy_read: 0 → 50"), "{listed}");
    assert!(listed.contains("not possible: this machine has no cpufreq"), "{listed}");
    let output = tree.run(&["tune", "apply", "busy-read", "huge-pages", "cpu-flags"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("the CPU has popcnt and sse4_2"), "{}", stdout(&output));
    assert_eq!(tree.value("sys/kernel/mm/transparent_hugepage/enabled"), "never");
    fs::write(tree.path("proc/sys/net/core/busy_read"), "7\n").unwrap();
    let status = stdout(&tree.run(&["tune", "status"]));
    assert!(
        status.contains("busy-read: net.core.busy_read: 0 → 50; somebody else has set it to 7"),
        "{status}"
    );
    let output = tree.run(&["tune", "revert"]);
    assert_eq!(code(&output), 0);
    assert!(stdout(&output).contains("which somebody else set: it is not changed"), "{}", stdout(&output));
    fs::write(tree.path("proc/sys/net/core/busy_read"), "0\n").unwrap();
    assert!(tree.is_as_it_was());
    assert_eq!(tree.journals(), Vec::<String>::new());
    assert_eq!(stdout(&tree.run(&["tune", "status"])), "no tunings are in effect\n");
}

#[test]
fn a_variant_is_tuned_in_its_slots_alone_and_every_slot_proves_it() {
    let tree = Tree::new();
    let file = experiment(tree.0.path());
    let run = tree.0.path().join("run");
    let arguments =
        ["run", file.to_str().unwrap(), "--seed", "1", "--json", "--output", run.to_str().unwrap()];
    let output = tree.run(&arguments);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let text = stdout(&output);
    for line in [
        "0 before, 50 during, 0 after",
        "0 before, during and after",
        "4096 131072 6291456 before, 4096 87380 16777216 during, 4096 131072 6291456 after",
        "governor is not possible here: this machine has no cpufreq",
        "this machine already has all values of huge-pages=madvise",
        "host tuning network-latency: left out on this machine",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(tree.is_as_it_was());
    assert_eq!(tree.journals(), Vec::<String>::new());
}

/// Whether this process may set sysctls; says which test is skipped where not.
fn may_set_sysctls() -> bool {
    let may = fs::OpenOptions::new().write(true).open("/proc/sys/vm/stat_interval").is_ok();
    if !may {
        skip_unprivileged("set sysctls");
    }
    may
}

#[test]
fn this_machine_takes_refuses_and_gets_back() {
    if !may_set_sysctls() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        plumb()
            .args(arguments)
            .env("PLUMB_STATE_DIR", state.path())
            .env_remove("PLUMB_HOST_ROOT")
            .output()
            .unwrap()
    };
    let path = "/proc/sys/vm/stat_interval";
    let before = fs::read_to_string(path).unwrap();
    let other = before.trim().parse::<u32>().unwrap() + 1;
    let output = run(&["tune", "apply", &format!("sysctl=vm.stat_interval={other}")]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(fs::read_to_string(path).unwrap().trim(), other.to_string());
    // Of two the second is refused, so that the first is put back as well.
    let output = run(&["tune", "apply", "sysctl=vm.stat_interval=77", "sysctl=vm.swappiness=100000"]);
    assert_eq!(code(&output), 5);
    assert!(
        stderr(&output).contains("the kernel refused \"100000\" for vm.swappiness"),
        "{}",
        stderr(&output)
    );
    assert_eq!(fs::read_to_string(path).unwrap().trim(), other.to_string());
    assert_eq!(code(&run(&["tune", "revert"])), 0);
    assert_eq!(fs::read_to_string(path).unwrap(), before);
    // The kernel sets the one of a pair to 0 when the other is written.
    let pair = || {
        ["dirty_ratio", "dirty_bytes"].map(|name| fs::read_to_string(format!("/proc/sys/vm/{name}")).unwrap())
    };
    let before = pair();
    assert_eq!(code(&run(&["tune", "apply", "sysctl=vm.dirty_bytes=2000000000"])), 0);
    assert_eq!(pair(), ["0\n", "2000000000\n"]);
    assert_eq!(code(&run(&["tune", "revert"])), 0);
    assert_eq!(pair(), before);
    a_setting_of_a_network_namespace_is_that_of_the_one_it_was_set_in();
}

fn a_setting_of_a_network_namespace_is_that_of_the_one_it_was_set_in() {
    let state = tempfile::tempdir().unwrap();
    let key = "/proc/sys/net/ipv4/tcp_fastopen";
    let before = fs::read_to_string(key).unwrap();
    let script = format!(
        "\"$0\" tune apply sysctl=net.ipv4.tcp_fastopen=519 >/dev/null && cat {key} && \"$0\" tune revert >/dev/null && cat {key}"
    );
    let program = env!("CARGO_BIN_EXE_plumb");
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", script, program]).env("PLUMB_STATE_DIR", state.path());
        command.output().unwrap()
    };
    let output = unshare(&script);
    assert_eq!(stdout(&output), "519\n1\n", "{}", stderr(&output));
    // One whose namespace is gone is not put back in another's place.
    let output = unshare("\"$0\" tune apply sysctl=net.ipv4.tcp_fastopen=519 >/dev/null");
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let output = plumb().args(["tune", "revert"]).env("PLUMB_STATE_DIR", state.path()).output().unwrap();
    assert!(stdout(&output).contains("in another network namespace"), "{}", stdout(&output));
    assert_eq!(fs::read_to_string(key).unwrap(), before);
}
