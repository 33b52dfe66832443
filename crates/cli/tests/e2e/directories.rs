//! Run directories: two runs never share one, links are not followed, what is resumed is what began, and what is read may
//! have been damaged or made by somebody else.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::common::{
    code, null_experiment, plumb, processes_with_files_in, run, signal, slots_on_disk, slow_experiment,
    stderr, wait, wait_until, write,
};

/// A short run that is recorded in a directory.
fn recorded(directory: &Path) -> PathBuf {
    let text = null_experiment(
        "baseline: a\nvariants:\n  a: {}\n  b: { system: { throughput: 1500 /s } }\nload: { duration: 3 s }\n\
         blocks: { min: 2, max: 2 }\nclaims: [b.throughput >= 1.2 * a.throughput, b.throughput <= 1700 /s within 50%]",
    );
    let file = write(directory, "test.yaml", text);
    let path = directory.join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--seed", "3", "--quiet", "--output", path.to_str().unwrap()]);
    assert!(path.join("report.html").exists(), "{}", stderr(&output));
    path
}

/// A run that was interrupted after some slots.
fn interrupted(directory: &Path) -> PathBuf {
    let file = write(directory, "test.yaml", slow_experiment());
    let path = directory.join("run");
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--seed", "5", "--output"]).arg(&path);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("two slots", || slots_on_disk(&path) >= 2);
    signal(child.id(), "INT");
    assert_eq!(code(&wait(child)), 130);
    path
}

#[test]
fn runs_that_begin_in_the_same_second_get_directories_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        "test.yaml",
        null_experiment("baseline: a\nvariants: { a: {}, b: {} }\nblocks: { min: 2, max: 2 }"),
    );
    let start = || -> Child {
        let mut command = plumb();
        command.args(["run", file.to_str().unwrap(), "--quiet"]).current_dir(directory.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let children: Vec<Child> = (0..4).map(|_| start()).collect();
    for child in children {
        let output = wait(child);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
    }
    let runs: Vec<PathBuf> = std::fs::read_dir(directory.path().join("plumb-runs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(runs.len(), 4, "{runs:?}");
    for path in &runs {
        assert_eq!(slots_on_disk(path), 8);
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_link_as_output_or_in_it_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    std::fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let output = run(&["run", "null", "--quick", "--output", link.to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("link: it is a symbolic link, which a run does not follow"),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read_dir(&real).unwrap().count(), 0);
    let victim = write(directory.path(), "victim", "precious");
    symlink(&victim, real.join("slots.jsonl")).unwrap();
    let output = run(&["run", "null", "--quick", "--output", real.to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("slots.jsonl: it is a symbolic link"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn a_run_goes_on_only_as_what_it_began() {
    let directory = tempfile::tempdir().unwrap();
    let path = interrupted(directory.path());
    let (experiment, header) = (path.join("experiment.yaml"), path.join("run.json"));
    let (text, run_json) = (slow_experiment(), std::fs::read_to_string(&header).unwrap());
    let before = slots_on_disk(&path);
    let refused = |words: &str| {
        let output = run(&["run", "--resume", path.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
        assert_eq!(slots_on_disk(&path), before);
    };

    std::fs::write(&experiment, text.replace("3000", "9000")).unwrap();
    refused("experiment.yaml was edited after the run had begun");
    let report = run(&["report", path.to_str().unwrap(), "--format", "html"]);
    let page = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(page.contains("throughput: 3000 /s") && !page.contains("9000"), "the report shows what ran");
    std::fs::write(&experiment, &text).unwrap();

    let build = |json: &str| json.split("\"build\": \"").nth(1).unwrap()[..32].to_owned();
    std::fs::write(&header, run_json.replace(&build(&run_json), &"0".repeat(32))).unwrap();
    refused("was build 00000000000000000000000000000000 and is build ");
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    std::fs::write(&header, run_json.replace(kernel.trim(), "2.4.18")).unwrap();
    refused("kernel was 2.4.18 and is ");

    std::fs::write(&header, &run_json).unwrap();
    let output = run(&["run", "--resume", path.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(slots_on_disk(&path), 24);
}

#[test]
fn a_damaged_directory_is_one_error_with_file_and_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = recorded(directory.path());
    let slots = std::fs::read_to_string(path.join("slots.jsonl")).unwrap();
    let report = || run(&["report", path.to_str().unwrap()]);
    assert_eq!(code(&report()), 0);
    let lines: Vec<&str> = slots.lines().collect();
    let huge = lines[2].replacen("\"took_s\":", "\"took_s\":1e300,\"x\":", 1);
    std::fs::write(path.join("slots.jsonl"), format!("{}\n{}\n{huge}\n", lines[0], lines[1])).unwrap();
    let output = report();
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("slots.jsonl line 3: took_s is 1e300"), "{}", stderr(&output));
    std::fs::remove_file(path.join("slots.jsonl")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(path.join("slots.jsonl")).status().unwrap();
    assert!(made.success());
    let output = report();
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("slots.jsonl: it is not a regular file"), "{}", stderr(&output));
}

#[test]
fn checking_an_experiment_runs_nothing_that_it_names() {
    let directory = tempfile::tempdir().unwrap();
    let program = write(directory.path(), "qemu", "#!/bin/sh\ntouch \"$0.was-run\"\n");
    let experiment = |program: &Path| {
        let program = program.display();
        write(
            directory.path(),
            "test.yaml",
            format!(
                "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: migration\n  \
                 system: {{ kind: qemu, memory: 64 MiB, program: \"{program}\" }}\n  baseline: a\n  \
                 variants: {{ a: {{}}, b: {{ system: {{ codec: zstd }} }} }}\n"
            ),
        )
    };
    let check = |file: PathBuf| run(&["check", file.to_str().unwrap()]);
    let output = check(experiment(&program));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(text.contains("skipped: there is no program") && text.contains("that can be executed"), "{text}");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let output = check(experiment(&program));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("skipped"), "{text}");
    assert!(!directory.path().join("qemu.was-run").exists(), "checking ran the program");
}

#[test]
fn agents_get_named_variables_of_the_environment_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", slow_experiment());
    let path = directory.path().join("run");
    let mut command = plumb();
    command.args(["run", file.to_str().unwrap(), "--output"]).arg(&path);
    command.env("A_TOKEN_OF_CI", "secret").env("PLUMB_SWITCH", "on").env("LC_ALL", "C");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("two slots", || slots_on_disk(&path) >= 2);
    let mut agents = 0;
    for pid in processes_with_files_in(directory.path()).into_iter().filter(|pid| *pid != child.id()) {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
        let environment = String::from_utf8_lossy(&environment).into_owned();
        assert!(!environment.contains("A_TOKEN_OF_CI"), "{environment}");
        assert!(environment.contains("PLUMB_SWITCH=on") && environment.contains("PATH="), "{environment}");
        agents += 1;
    }
    assert!(agents >= 3, "a load and two systems, and not {agents}");
    signal(child.id(), "INT");
    assert_eq!(code(&wait(child)), 130);
}

/// Numbers by the method of SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).unwrap()
    }
}

const EXTREMES: [&str; 16] = [
    "0",
    "-1",
    "1",
    "1e300",
    "-1e300",
    "1e-300",
    "1e18",
    "9007199254740992",
    "18446744073709551615",
    "4294967295",
    "null",
    "\"x\"",
    "[]",
    "{}",
    "1000",
    "0.5",
];

/// The places of all numbers in a JSON text.
fn numbers(text: &[u8]) -> Vec<(usize, usize)> {
    let is_part = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        if text[at].is_ascii_digit() && at > 0 && b":,[ -".contains(&text[at - 1]) {
            let end = (at..text.len()).find(|end| !is_part(text[*end])).unwrap_or(text.len());
            found.push((at, end));
            at = end;
        }
        at += 1;
    }
    found
}

fn mutated(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    let (from, length) = (random.below(text.len()), 1 + random.below(64));
    let to = (from + length).min(text.len());
    match random.below(8) {
        0 => text[from] ^= 1 << random.below(8),
        1 => drop(text.drain(from..to)),
        2 => text.extend_from_within(from..to),
        3 => text.truncate(from),
        _ => {
            let places = numbers(&text);
            let Some((from, to)) = places.get(random.below(places.len())).copied() else { return text };
            let extreme = EXTREMES[random.below(EXTREMES.len())].bytes();
            text.splice(from..to, extreme);
        }
    }
    text
}

#[test]
fn no_damage_makes_a_report_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = recorded(directory.path());
    let files: Vec<(PathBuf, Vec<u8>)> = ["run.json", "slots.jsonl", "end.json", "experiment.yaml"]
        .into_iter()
        .map(|name| (path.join(name), std::fs::read(path.join(name)).unwrap()))
        .collect();
    let mut random = Random(11);
    let mut survived = 0;
    for _ in 0..400 {
        // Slots twice as often as the others.
        let (file, text) = &files[[0, 1, 1, 2, 3][random.below(5)]];
        std::fs::write(file, mutated(text, &mut random)).unwrap();
        if let Ok(run) = plumb_store::read(&path) {
            let judgement = plumb_judge::judge(&run.header.plan, &run.slots);
            let style = plumb_report::TextStyle { colour: true, width: 100 };
            let lengths = [
                plumb_report::text(&run, &judgement, &style).len(),
                plumb_report::markdown(&run, &judgement).len(),
                plumb_report::html(&run, &judgement).len(),
                plumb_report::json(&run, &judgement).len(),
                plumb_report::junit(&run, &judgement).len(),
            ];
            assert!(lengths.iter().all(|length| *length < 16 << 20), "{lengths:?}");
            survived += 1;
        }
        std::fs::write(file, text).unwrap();
    }
    assert!(survived > 40, "only {survived} of 400 damaged runs could be read, so hardly anything was tried");
}
