//! What the end-to-end tests share: running the built `plumb`, experiment files, and a look at who is left behind.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The program under test.
pub fn plumb() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plumb"));
    command.stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    command
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Output {
    plumb().args(arguments).output().unwrap()
}

/// The exit code, for a process that was not killed.
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("it was killed: {output:?}"))
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A null experiment with the given lines under `spec`.
pub fn null_experiment(spec: &str) -> String {
    let indented: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: \"null\"\n{indented}"
    )
}

/// A null experiment whose slots take as long as they say.
pub fn slow_experiment() -> String {
    null_experiment(
        "load: { duration: 100 ms, real_time: true }\nbaseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 3000 /s } }\n\
         blocks: { min: 6, max: 6 }\nclaims: [b.throughput >= 2 * a.throughput]",
    )
}

/// The path of the running test, after which the test runner names its thread.
pub fn test_name() -> String {
    std::thread::current().name().expect("a test asks on its own thread").to_owned()
}

/// Says that this test cannot run here, past the test runner, which swallows what tests print.
pub fn skip(reason: &str) {
    let _ = writeln!(std::io::stderr(), "test skipped: {}: {reason}", test_name());
}

/// Says that a test cannot run because this process may not `what`. An ordinary user lacks root, which `.ci/run` has; where root may
/// not either, the machine is what is missing.
pub fn skip_unprivileged(what: &str) {
    if rustix::process::geteuid().is_root() {
        skip(&format!("hardware: this machine does not let root {what}"));
    } else {
        skip(&format!("only root may {what}"));
    }
}

/// Writes a file into a directory.
pub fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, text).unwrap();
    path
}

/// The time that tells a hang from a slow machine, which shares two CPUs among all tests.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Waits until something is so; a hang is an error, a slow machine is not.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// How many slots are on disk.
pub fn slots_on_disk(directory: &Path) -> usize {
    fs::read_to_string(directory.join("slots.jsonl")).map_or(0, |text| text.matches('\n').count())
}

/// The slots of a run that were measured. Those that a busy machine kept from it are left out; no other may have failed.
pub fn measured_slots(run: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(run.join("slots.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let slots = lines.map(|mut line| line["slot"].take()).filter(|slot| !slot.is_null());
    let is_measured = |slot: &serde_json::Value| {
        let failed = &slot["outcome"]["failed"];
        assert!(failed.is_null() || failed["cause"] == "harness", "{slot}");
        failed.is_null()
    };
    slots.filter(is_measured).collect()
}

/// Pids of living processes that have a file open below a directory: agents and what they started.
pub fn processes_with_files_in(directory: &Path) -> Vec<u32> {
    let directory = directory.canonicalize().unwrap();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target.starts_with(&directory))
    })
    .filter(|pid| *pid != std::process::id())
    .collect()
}

/// Waits for a child's end, and kills it where that takes too long.
pub fn wait(mut child: Child) -> Output {
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let out = std::thread::spawn(move || read_all(out));
    let err = std::thread::spawn(move || read_all(err));
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            panic!("it did not end within {LIMIT:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

fn read_all(stream: Option<impl std::io::Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(mut stream) = stream {
        stream.read_to_end(&mut bytes).unwrap();
    }
    bytes
}

/// Waits until a child has a second thread: a load's handler of signals is there before its first thread is.
pub fn wait_for_threads(child: &Child) {
    let threads = format!("/proc/{}/task", child.id());
    wait_until("the load to run", || fs::read_dir(&threads).is_ok_and(|tasks| tasks.count() > 1));
}

/// Sends a signal to one process.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid}");
}

/// Not a good random number, but a different one each time.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}
