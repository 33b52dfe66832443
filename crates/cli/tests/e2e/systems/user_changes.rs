//! A tuning and changes that users define, through the program: made in the slots of their variant alone, proven in every slot,
//! undone at the end, on Ctrl-C and after a kill; and secrets, which nothing shows.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use crate::common::measured_slots;
use crate::common::{
    code, plumb, signal, skip_unprivileged, slots_on_disk, stderr, stdout, wait, wait_until, write,
};

/// How many processes are killed where nobody asks for more.
const KILLS: usize = 4;

/// Slots and blocks of a run that has to end by itself, and of one that something is done to meanwhile.
const SHORT: (&str, u32) = ("100 ms", 2);
const LONG: (&str, u32) = ("200 ms", 10);

const CONF: &str = "# app\nmode slow\n";
const SECRET: &str = "correct-horse-battery";

/// A tree of files that stands for the machine, and a file that commands change.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        for (path, text) in [
            ("root/etc/app.conf", CONF),
            ("root/proc/sys/vm/swappiness", "60\n"),
            ("root/proc/sys/net/core/busy_read", "0\n"),
            ("root/proc/sys/net/core/busy_poll", "0\n"),
            ("state", "off\n"),
        ] {
            let path = bench.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        bench
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }

    fn is_as_it_was(&self) -> bool {
        self.text("root/etc/app.conf") == CONF
            && self.text("root/proc/sys/vm/swappiness").trim() == "60"
            && self.text("root/proc/sys/net/core/busy_read").trim() == "0"
            && self.text("state").trim() == "off"
            && !self.path("root/etc/new.conf").exists()
            && !self.path("journals/tunings-of-a-run.jsonl").exists()
    }

    fn is_changed(&self) -> bool {
        self.text("root/etc/app.conf").contains("fast")
            && self.text("state").trim() == "on"
            && self.text("root/proc/sys/net/core/busy_read").trim() == "50"
    }

    /// A tuning, and changes of every kind that needs no service.
    fn changes(&self) -> String {
        let state = self.path("state").display().to_string();
        let log = self.path("log").display().to_string();
        format!(
            "host: {{ tunings: [busy-read] }}, changes: [{{ file: {{ path: /etc/app.conf, replace: '^mode', with: mode fast, mode: '0600', reload: 'echo reload >> {log}' }} }}, \
             {{ file: {{ path: /etc/new.conf, contents: \"a\\nb\\n\" }} }}, {{ sysctl: {{ vm.swappiness: 7, place: load }} }}, \
             {{ command: {{ apply: 'echo on > {state}', revert: 'echo off > {state}', verify: 'cat {state}', expect: \"on\", timeout: 5 s }} }}]"
        )
    }

    /// An experiment in whose slots the host is changed, and whatever else a variant is to have.
    fn experiment(&self, variant: &str, (took, blocks): (&str, u32), more: &str) -> PathBuf {
        let text = format!(
            "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: changed }}\nspec:\n  path: null\n  \
             load: {{ duration: {took}, real_time: true }}\n  baseline: plain\n  variants:\n    plain: {{}}\n    \
             changed: {{ {variant} }}\n{more}  blocks: {{ min: {blocks}, max: {blocks} }}\n"
        );
        write(self.0.path(), "changed.yaml", text)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = plumb();
        command.args(arguments);
        command.env("PLUMB_HOST_ROOT", self.path("root")).env("PLUMB_STATE_DIR", self.path("journals"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// A command change whose revert waits, and says so in the file `begun`, for as long as there is a file `gate`.
    fn gated(&self) -> String {
        let file = |name: &str| self.path(name).display().to_string();
        let (state, begun, gate) = (file("state"), file("begun"), file("gate"));
        format!(
            "{{ command: {{ apply: 'echo on > {state}', revert: 'while test -e {gate}; do touch {begun}; sleep 0.01; done; echo off > {state}', \
             verify: 'cat {state}', expect: \"on\" }} }}"
        )
    }

    /// Starts a run with these changes, and returns while their undoing waits at the gate.
    fn gated_run(&self, changes: &str) -> std::process::Child {
        let experiment = self.experiment(changes, LONG, "");
        let mut command = self.command(&["run", experiment.to_str().unwrap(), "--output"]);
        let child =
            command.arg(self.path("run")).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("a changed slot", || self.text("state") == "on\n" && slots_on_disk(&self.path("run")) > 0);
        fs::write(self.path("gate"), "").unwrap();
        child
    }

    /// Starts a run with long slots, and returns while a change is in effect.
    fn changed_run(&self) -> (std::process::Child, PathBuf) {
        let file = self.experiment(&self.changes(), LONG, "");
        let run = self.path("run");
        let mut command = self.command(&["run", file.to_str().unwrap(), "--seed", "1", "--output"]);
        let child = command.arg(&run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("a changed slot", || self.is_changed() && slots_on_disk(&run) > 0);
        (child, run)
    }
}

/// The evidence of each slot on disk: the variant, and each line of `host: `.
fn evidence(run: &Path) -> Vec<(String, Vec<String>)> {
    let slots = fs::read_to_string(run.join("slots.jsonl")).unwrap();
    let of_slot = |line: &str| {
        let slot: serde_json::Value = serde_json::from_str(line).unwrap();
        let slot = &slot["slot"];
        let found = slot.pointer("/outcome/measured/evidence").and_then(serde_json::Value::as_array);
        let lines = found.unwrap_or_else(|| panic!("no evidence in {line:.300}")).iter();
        let lines = lines.filter(|it| it["what"].as_str().unwrap().starts_with("host: "));
        let lines = lines.map(|it| format!("{} {}", it["observed"].as_str().unwrap(), it["holds"]));
        (slot["variant"].as_str().unwrap().to_owned(), lines.collect())
    };
    slots.lines().map(of_slot).collect()
}

/// A slot that searches for a capacity has a window for each rate, and is changed once for all of them.
#[test]
fn a_change_lasts_through_all_trials_of_a_slot() {
    let bench = Bench::new();
    let (state, log) = (bench.path("state").display().to_string(), bench.path("log").display().to_string());
    let changes = format!(
        "changes: [{{ command: {{ apply: 'echo on > {state}; echo on >> {log}', revert: 'echo off > {state}', \
         verify: 'cat {state}', expect: \"on\" }} }}]"
    );
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: changed }}\nspec:\n  path: null\n  \
         load: {{ real_time: true, capacity: {{ objective: [med < 10 ms], trials: 3, trial: 20 ms }} }}\n  baseline: plain\n  \
         variants:\n    plain: {{}}\n    changed: {{ {changes} }}\n  blocks: {{ min: 2, max: 2 }}\n"
    );
    let (file, run) = (write(bench.0.path(), "changed.yaml", text), bench.path("run"));
    let output = bench.run(&["run", file.to_str().unwrap(), "--output", run.to_str().unwrap()]);
    let slots = measured_slots(&run);
    let changed: Vec<_> = slots.iter().filter(|slot| slot["variant"] == "changed").collect();
    assert!(!changed.is_empty(), "{}", stderr(&output));
    let mut trials = 0;
    for slot in &changed {
        let result = &slot["outcome"]["measured"];
        let search = result["measurement"]["search"]["trials"].as_array().unwrap();
        trials += search.iter().filter(|trial| trial["kind"] == "search").count();
        let evidence = result["evidence"].as_array().unwrap();
        assert!(evidence.len() > 1 && evidence.iter().all(|one| one["holds"] == true), "{evidence:?}");
    }
    assert_eq!(trials, 3 * changed.len());
    // Before the run, for the trial of the variant, and for its four slots, each of which may be measured twice.
    let applied = bench.text("log").lines().count();
    assert!((4..=10).contains(&applied), "{applied}");
    assert_eq!(bench.text("state"), "off\n");
}

#[test]
fn every_slot_of_every_variant_proves_what_was_changed() {
    let bench = Bench::new();
    let none = "    met: { changes: [{ command: { apply: 'true', revert: 'true', verify: echo on, matches: o } }] }\n    \
                none: { changes: [{ file: { path: /etc/app.conf, replace: '^nothing', with: x } }] }\n    \
                same: { changes: [{ file: { path: /etc/app.conf, replace: '^mode', with: mode slow } }] }\n    \
                unproven: { changes: [{ file: { path: /etc/app.conf, replace: '^mode', with: mode fast } }, \
                { command: { apply: 'true', revert: 'true', verify: echo alive, expect: alive } }] }\n";
    let file = bench.experiment(&bench.changes(), SHORT, none);
    let run = bench.path("run");
    let output =
        bench.run(&["run", file.to_str().unwrap(), "--seed", "1", "--output", run.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(bench.is_as_it_was());
    for reason in [
        "is not possible here: no line of /etc/app.conf matches `^nothing`",
        "this machine already has all values of file /etc/app.conf: `mode slow`, so the baseline `plain` has them too",
        "`echo on` already prints \"on\" without the change, so it cannot prove the change (expected \"what matches `o`\")",
        "`echo alive` already prints \"alive\" without the change, so it cannot prove the change (expected \"alive\")",
    ] {
        assert!(stderr(&output).contains(reason), "{reason} in {}", stderr(&output));
    }
    let slots = evidence(&run);
    assert_eq!(slots.len(), 8);
    for (variant, lines) in slots {
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert!(lines.iter().all(|line| line.ends_with("true")), "{variant}: {lines:?}");
        let parts = match variant.as_str() {
            "plain" => [
                "mode 0644",
                "60 before, during and after",
                "0 before, during and after",
                "off before, during and after",
                "absent before",
            ],
            _ => ["mode 0600", "7 during", "50 during", "on during", "4 bytes of hash"],
        };
        for part in parts {
            assert!(lines.iter().any(|line| line.contains(part)), "{variant}: {part} in {lines:?}");
        }
    }
    // Once for the whole run, once for the trial, and for each row of slots; each is followed by one after the revert.
    assert!(bench.text("log").lines().count().is_multiple_of(2));
    let shown = stdout(&bench.run(&["check", file.to_str().unwrap()]));
    assert!(
        shown.contains("file /etc/app.conf: `mode fast`, file /etc/new.conf, sysctl vm.swappiness=7"),
        "{shown}"
    );
}

#[test]
fn ctrl_c_undoes_everything() {
    let bench = Bench::new();
    let (child, _) = bench.changed_run();
    let second = bench.run(&["tune", "apply", "busy-poll"]);
    assert_eq!(code(&second), 5);
    assert!(stderr(&second).contains("another plumb (process"), "{}", stderr(&second));
    // The next slot may have come meanwhile, of which nothing is in effect.
    wait_until("a look into a changed slot", || {
        let said = stdout(&bench.run(&["tune", "status"]));
        assert!(!said.contains("mode fast"), "a file is shown by its hash: {said}");
        said.contains("changed by a run: vm.swappiness: 60 → 7")
    });
    signal(child.id(), "INT");
    assert_eq!(code(&wait(child)), 130);
    assert!(bench.is_as_it_was());
}

#[test]
fn a_second_ctrl_c_during_a_slow_revert_says_what_is_left_and_the_next_plumb_undoes_it() {
    let bench = Bench::new();
    let mut child = bench.gated_run(&format!("changes: [{}]", bench.gated()));
    wait_until("the revert", || bench.path("begun").exists());
    // Two that come at once may be one to the kernel.
    wait_until("an end at the second", || {
        signal(child.id(), "INT");
        child.try_wait().unwrap().is_some()
    });
    let output = wait(child);
    assert_eq!(code(&output), 130);
    let said = stderr(&output);
    let last = "ended before this host was restored; the next plumb command, or `plumb tune revert`, will restore it\n";
    assert!(said.ends_with(last), "{said}");
    fs::remove_file(bench.path("gate")).unwrap();
    assert_eq!((code(&bench.run(&["tune", "revert"])), bench.text("state").as_str()), (0, "off\n"));
}

#[test]
fn a_file_that_somebody_else_changed_meanwhile_is_named_at_the_end_with_its_old_text() {
    let bench = Bench::new();
    let line = "{ file: { path: /etc/app.conf, replace: '^mode', with: mode fast } }";
    let child = bench.gated_run(&format!("changes: [{line}, {}]", bench.gated()));
    // What was changed last is undone first, so the file is still as the run made it.
    wait_until("the revert", || bench.path("begun").exists());
    assert!(bench.text("root/etc/app.conf").contains("fast"));
    fs::write(bench.path("root/etc/app.conf"), "mode theirs\n").unwrap();
    fs::remove_file(bench.path("gate")).unwrap();
    let output = wait(child);
    let kept = bench.path("journals/kept/app.conf.1");
    assert_eq!(code(&output), 5, "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("{} has what it was", kept.display())), "{}", stderr(&output));
    let theirs = bench.text("root/etc/app.conf");
    assert_eq!((fs::read_to_string(kept).unwrap().as_str(), theirs.as_str()), (CONF, "mode theirs\n"));
}

/// Waits for one of four moments of a run: the first change is noted, everything is changed for the trial, a slot is measured
/// with the changes, and a slot is measured without them.
fn wait_for_moment(moment: usize, bench: &Bench, run: &Path) {
    wait_until("a moment to kill", || match moment {
        0 => bench.path("journals/tunings-of-a-run.jsonl").exists(),
        1 => bench.is_changed(),
        2 => bench.is_changed() && slots_on_disk(run) > 0,
        _ => !bench.is_changed() && slots_on_disk(run) > 1,
    });
}

#[test]
fn after_a_kill_at_any_moment_everything_is_undone() {
    let kills = std::env::var("PLUMB_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    for round in 0..kills {
        let bench = Bench::new();
        let file = bench.experiment(&bench.changes(), LONG, "");
        let run = bench.path("run");
        let mut command = bench.command(&["run", file.to_str().unwrap(), "--output"]);
        let mut child = command.arg(&run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_for_moment(round % KILLS, &bench, &run);
        std::thread::sleep(Duration::from_millis((round / KILLS * 7 % 50) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        let was_changed = bench.is_changed();
        let output = bench.run(&["tune", "revert"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let said = stderr(&output);
        assert!(
            !was_changed || said.contains("vm.swappiness: 7 → 60") && said.contains("mode 0600"),
            "{said}"
        );
        assert!(!said.contains("mode fast"), "a file is shown by its hash: {said}");
        assert!(bench.is_as_it_was(), "after kill {round}: {said}");
        let left: Vec<_> =
            fs::read_dir(bench.path("root/etc")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, ["app.conf"], "after kill {round}");
    }
    the_next_run_undoes_what_a_kill_left();
}

fn the_next_run_undoes_what_a_kill_left() {
    let bench = Bench::new();
    let (mut child, run) = bench.changed_run();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!bench.is_as_it_was());
    let output = bench.run(&["run", "--resume", run.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stderr(&output).contains("undoing them"), "{}", stderr(&output));
    assert!(bench.is_as_it_was());
}

#[test]
fn nothing_is_measured_on_a_host_that_could_not_be_put_back() {
    let bench = Bench::new();
    let file = |name: &str| bench.path(name).display().to_string();
    let (state, gate) = (file("state"), file("gate"));
    let changes = format!(
        "changes: [{{ command: {{ apply: 'echo on > {state}', revert: 'test -e {gate} && echo off > {state}', verify: 'cat {state}', \
         expect: \"on\" }} }}]"
    );
    let experiment = bench.experiment(&changes, SHORT, "");
    let run = |name: &str| bench.run(&["run", experiment.to_str().unwrap(), "--output", &file(name)]);
    let output = run("first");
    assert_eq!(code(&output), 5, "{}", stdout(&output));
    assert!(
        stderr(&output).contains("could not be put back to \"off\": run `revert`"),
        "{}",
        stderr(&output)
    );
    let output = run("second");
    assert_eq!(code(&output), 5, "{}", stdout(&output));
    assert!(stderr(&output).contains("so nothing is measured on it"), "{}", stderr(&output));
    assert!(!bench.path("second").exists());
    assert_eq!(code(&bench.run(&["tune", "revert"])), 5);
    assert!(stdout(&bench.run(&["tune", "status"])).contains(": off → on"));
    fs::write(&gate, "").unwrap();
    assert_eq!(code(&bench.run(&["tune", "revert"])), 0);
    assert!(bench.is_as_it_was());
}

#[test]
fn secrets_appear_in_nothing_that_a_run_leaves() {
    let bench = Bench::new();
    let state = bench.path("state").display().to_string();
    fs::write(bench.path("key"), format!("{SECRET}\n")).unwrap();
    let reference = format!("${{file:{}}}", bench.path("key").display());
    let changes = format!(
        "changes: [{{ file: {{ path: /etc/app.conf, contents: \"password ${{env:PLUMB_TEST_PASSWORD}}\\n\" }} }}, \
         {{ command: {{ apply: 'echo {reference} > {state}; echo {reference} >&2', revert: 'echo off > {state}', verify: 'cat {state}', expect: '{reference}' }} }}, \
         {{ sysctl: {{ vm.swappiness: 7, place: load }} }}]"
    );
    let file = bench.experiment(&changes, SHORT, "");
    let run = bench.path("run");
    let with_secret = |arguments: &[&str]| {
        let mut command = bench.command(arguments);
        command.env("PLUMB_TEST_PASSWORD", SECRET.to_uppercase()).env("PLUMB_LOG", "trace").output().unwrap()
    };
    let output = with_secret(&["run", file.to_str().unwrap(), "--json", "--output", run.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(bench.is_as_it_was());
    let mut texts = vec![stdout(&output), stderr(&output)];
    assert!(texts[1].contains("runner: changed a setting") && run.join("log.jsonl").exists(), "{}", texts[1]);
    assert!(texts[0].contains("text with a secret"), "{}", texts[0]);
    for format in ["text", "html", "markdown", "json"] {
        texts.push(stdout(&bench.run(&["report", run.to_str().unwrap(), "--format", format])));
    }
    texts.push(stdout(&with_secret(&["check", file.to_str().unwrap(), "--json"])));
    for entry in fs::read_dir(&run).unwrap() {
        let path = entry.unwrap().path();
        texts.push(String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned());
    }
    assert!(texts.len() > 9, "{}", texts.len());
    for text in &texts {
        assert!(!text.to_lowercase().contains(SECRET), "{text}");
    }
    // A failing command shows the reference as well.
    let fails = format!(
        "changes: [{{ command: {{ apply: 'echo wrong {reference} >&2; exit 1', revert: 'true', verify: 'cat {state}', expect: \"on\" }} }}]"
    );
    let file = bench.experiment(&fails, SHORT, "");
    let output =
        bench.run(&["run", file.to_str().unwrap(), "--output", bench.path("run2").to_str().unwrap()]);
    let all = format!("{}{}", stdout(&output), stderr(&output));
    assert!(all.contains("exit code 1: wrong ${file:") && !all.contains(SECRET), "{all}");
}

/// A service whose manager writes down what it is told. `kind` is `init` or `systemd`.
const MANAGER: &str = r#"#!/bin/sh
# In place of systemctl, or as a script of /etc/init.d; its state is in the directory of the test.
state=@STATE@
case " $* " in
    *" show "*) echo "ActiveState=$(test -e $state/up && echo active || echo inactive)"; echo "InvocationID=$(cat $state/runs | wc -l)" ;;
    *" status "*) test -e $state/up ;;
    *" restart "*) echo restart >> $state/log; echo run >> $state/runs ;;
    *" reload "*) echo reload >> $state/log ;;
    *) exit 1 ;;
esac
"#;

#[test]
fn a_service_notices_the_change_and_its_end() {
    let may_mount = Command::new("unshare").args(["--mount", "true"]).status();
    if !may_mount.is_ok_and(|status| status.success()) {
        return skip_unprivileged("make mount namespaces");
    }
    for (manager, action) in [("init", "reload"), ("systemd", "restart")] {
        let bench = Bench::new();
        let state = bench.path("service");
        fs::create_dir_all(&state).unwrap();
        fs::write(state.join("up"), "").unwrap();
        fs::write(state.join("runs"), "").unwrap();
        let script = MANAGER.replace("@STATE@", state.to_str().unwrap());
        let script = write(bench.0.path(), "manager", script);
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let changes = format!(
            "changes: [{{ sysctl: {{ vm.swappiness: 7, place: load }} }}, {{ service: {{ name: plumb-test, action: {action} }} }}]"
        );
        let file = bench.experiment(&changes, SHORT, "");
        let run = bench.path("run");
        // Nobody else sees these mounts, and they end with the process.
        let set_up = match manager {
            "init" => {
                "test ! -d /run/systemd || mount -t tmpfs none /run/systemd; mount -t tmpfs none /etc/init.d; cp \"$0\" /etc/init.d/plumb-test"
            }
            _ => {
                "mount -t tmpfs none /run; mkdir -p /run/systemd/system; mount --bind \"$0\" \"$(command -v systemctl)\""
            }
        };
        if manager == "systemd"
            && Command::new("systemctl").arg("--version").stdout(Stdio::null()).status().is_err()
        {
            continue;
        }
        let line = format!("set -e; mount --make-rprivate /; {set_up}; exec \"$@\"");
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "sh",
            "-c",
            &line,
            script.to_str().unwrap(),
            env!("CARGO_BIN_EXE_plumb"),
            "run",
        ]);
        command.args([file.to_str().unwrap(), "--seed", "1", "--output", run.to_str().unwrap()]);
        command.env("PLUMB_HOST_ROOT", bench.path("root")).env("PLUMB_STATE_DIR", bench.path("journals"));
        let output = command.output().unwrap();
        assert_eq!(code(&output), 0, "{manager}: {}{}", stdout(&output), stderr(&output));
        assert!(bench.is_as_it_was());
        let done = fs::read_to_string(state.join("log")).unwrap();
        // Each time after the change, and once more after the old value was back.
        assert!(done.lines().count() >= 4 && done.lines().count().is_multiple_of(2), "{manager}: {done}");
        assert!(done.lines().all(|line| line == action), "{manager}: {done}");
        for (variant, lines) in evidence(&run) {
            assert!(lines.iter().any(|line| line.starts_with("running ")), "{variant}: {lines:?}");
            assert!(lines.iter().all(|line| line.ends_with("true")), "{variant}: {lines:?}");
        }
    }
}
