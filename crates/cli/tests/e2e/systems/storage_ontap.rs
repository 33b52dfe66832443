//! Experiments on a volume of an array, which is here our own server with the same interface: the policy is proved by what the array
//! says, and the volume is left as it was, whatever ends the run.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::json;

use crate::common::{
    measured_slots, plumb, processes_with_files_in, slots_on_disk, stderr, wait_until, write,
};
use crate::systems::volumes_rest::{
    POLICIES, Serving, VOLUMES, get, has_curl, send, state_with_user, volumes,
};

/// An array with a volume of 64 MiB under a policy `gold`.
struct Array {
    directory: tempfile::TempDir,
    serving: Serving,
}

impl Array {
    fn start() -> Self {
        let directory = state_with_user();
        volumes(directory.path(), &["policy", "create", "gold", "--max-iops", "900 IOPS"]);
        volumes(directory.path(), &["create", "vol1", "--size", "64MiB", "--policy", "gold"]);
        let serving = Serving::start(directory.path());
        Self { directory, serving }
    }

    fn experiment(&self, blocks: u32) -> PathBuf {
        let text = format!(
            "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: array }}\nspec:\n  path: storage\n  \
             system:\n    kind: ontap\n    path: {uri}\n    ontap: {{ url: 'https://{address}', svm: nfs_svm, volume: vol1, \
             certificate: '{certificate}', credentials_env: {TEST_ARRAY} }}\n  \
             noise: {{ others_max: 100% }}\n  \
             load: {{ access: randread, block_size: 64 KiB, depth: 4, warmup: 100 ms, duration: 300 ms }}\n  \
             baseline: free\n  variants:\n    free: {{}}\n    capped: {{ system: {{ ontap: {{ policy: {{ max_iops: 200 IOPS }} }} }} }}\n  \
             blocks: {{ min: {blocks}, max: {blocks} }}\n",
            uri = self.uri(),
            address = self.serving.address,
            certificate = self.serving.certificate.display(),
        );
        write(self.directory.path(), "array.yaml", text)
    }

    fn uri(&self) -> String {
        let path = format!("{VOLUMES}?name=vol1&fields=plumbline.nbd");
        get(&self.serving, &path)["records"][0]["plumbline"]["nbd"].as_str().unwrap().to_owned()
    }

    /// The policy that the volume is under, and how many there are.
    fn policies(&self) -> (String, u64) {
        let volume = get(&self.serving, &format!("{VOLUMES}?name=vol1&fields=qos"))["records"][0].clone();
        let name = volume["qos"]["policy"]["name"].as_str().unwrap_or("none").to_owned();
        (name, get(&self.serving, POLICIES)["num_records"].as_u64().unwrap())
    }

    fn run_directory(&self) -> PathBuf {
        self.directory.path().join("run")
    }
}

fn as_it_was() -> (String, u64) {
    ("gold".to_owned(), 1)
}

const TEST_ARRAY: &str = "PLUMB_TEST_ARRAY";

fn start(array: &Array, blocks: u32) -> std::process::Command {
    let mut command = plumb();
    let file = array.experiment(blocks);
    command.env(TEST_ARRAY, "admin:Netapp1!").arg("run").arg(file);
    command.args(["--json", "--output"]).arg(array.run_directory());
    command
}

#[test]
fn a_policy_is_proved_by_what_the_array_says_and_the_old_one_comes_back_whatever_ends_the_run() {
    if !has_curl() {
        return;
    }
    let array = Array::start();
    // What a run that was killed with all its processes left behind.
    let left = "plumb_0x0_of_vol1_was_gold";
    let body = json!({ "name": left, "svm": { "name": "nfs_svm" }, "fixed": { "max_throughput_iops": 7 } });
    assert_eq!(send(&array.serving, "POST", POLICIES, &body).0, 202);
    volumes(array.directory.path(), &["assign", "vol1", left]);
    let output = start(&array, 2).output().unwrap();
    assert_eq!(array.policies(), as_it_was(), "{}", stderr(&output));
    for slot in measured_slots(&array.run_directory()) {
        let measured = &slot["outcome"]["measured"];
        let (is_capped, evidence) = (slot["variant"] == "capped", measured["evidence"].as_array().unwrap());
        let expected =
            if is_capped { "fixed: capacity_shared false, max_throughput_iops 200" } else { "no policy" };
        let policy = evidence.iter().find(|line| line["what"].as_str().unwrap().contains("read back"));
        let policy = policy.unwrap_or_else(|| panic!("{evidence:?}"));
        let found = (&policy["expected"], &policy["observed"], &policy["holds"]);
        assert_eq!(found, (&json!(expected), &json!(expected), &json!(true)));
    }
    assert!(!holds_text(&array.run_directory(), b"Netapp1!"), "the password is in the run directory");
    std::fs::remove_dir_all(array.run_directory()).unwrap();
    a_run_that_is_killed_leaves_the_volume_as_it_was(&array);
}

fn a_run_that_is_killed_leaves_the_volume_as_it_was(array: &Array) {
    let mut child = start(array, 100).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a slot under another policy", || {
        slots_on_disk(&array.run_directory()) > 0 && array.policies() != as_it_was()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("the agents to end", || processes_with_files_in(&array.run_directory()).is_empty());
    assert_eq!(array.policies(), as_it_was());
}

/// Whether any file below a directory holds a text.
fn holds_text(directory: &Path, text: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().flatten().any(|entry| {
        let path = entry.path();
        if path.is_dir() {
            return holds_text(&path, text);
        }
        std::fs::read(&path).unwrap_or_default().windows(text.len()).any(|part| part == text)
    })
}
