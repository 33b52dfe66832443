//! Changes that users define: made, proven, undone; and refused where they could not be.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise, in its helpers as well")]

use std::fs;
use std::path::PathBuf;

use plumb_host::settings::Machine;
use plumb_host::settings::state::StateDirectory;
use plumb_model::user_change::{ServiceAction, ServiceChange, Verify};
use plumb_model::{ChangePlace, CommandChange, FileChange, Span, SysctlChange, UserChange};
use plumb_tunings::{Treatment, Tuner, TuningError, check_change, recover, resolve};

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        for (path, text) in [
            ("root/etc/app.conf", "# app\nmode slow\ncache off\n"),
            ("root/proc/sys/vm/swappiness", "60\n"),
            ("state", "off\n"),
        ] {
            let path = bench.0.path().join(path);
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

    fn machine(&self) -> Machine {
        Machine::of_files(&self.path("root"))
    }

    fn state(&self) -> StateDirectory {
        StateDirectory::at(&self.path("journals"))
    }

    fn tuner(&self, changes: &[UserChange]) -> Result<Tuner, TuningError> {
        Tuner::open(self.machine(), self.state(), &[treatment_with(changes)])
    }

    /// A command that writes down what is done, and changes the file `state`.
    fn command(&self, value: &str, expect: Option<&str>, matches: Option<&str>) -> UserChange {
        let file = |name: &str| self.path(name).display().to_string();
        let (state, log) = (file("state"), file("log"));
        UserChange::Command(CommandChange {
            apply: format!("echo apply >> {log}; echo {value} > {state}"),
            revert: format!("echo revert >> {log}; echo off > {state}"),
            verify: format!("cat {state}"),
            expect: expect.map(str::to_owned),
            matches: matches.map(str::to_owned),
            timeout: None,
            place: ChangePlace::default(),
        })
    }

    fn line(&self, replace: &str, with: &str) -> UserChange {
        UserChange::File(FileChange {
            replace: Some(replace.to_owned()),
            with: Some(with.to_owned()),
            reload: Some(format!("echo reload >> {}", self.path("log").display())),
            ..file("/etc/app.conf")
        })
    }
}

fn treatment_with(changes: &[UserChange]) -> Treatment<'_> {
    Treatment { tunings: &[], changes }
}

fn file(path: &str) -> FileChange {
    FileChange {
        path: path.to_owned(),
        contents: None,
        replace: None,
        with: None,
        mode: None,
        owner: None,
        reload: None,
        verify: None,
        timeout: None,
        place: ChangePlace::default(),
    }
}

fn whole(path: &str, contents: &str) -> UserChange {
    UserChange::File(FileChange { contents: Some(contents.to_owned()), ..file(path) })
}

fn sysctl(name: &str, value: &str) -> UserChange {
    UserChange::Sysctl(SysctlChange {
        values: [(name.to_owned(), value.to_owned())].into(),
        ..SysctlChange::default()
    })
}

#[test]
fn changes_are_made_in_order_and_undone_in_reverse() {
    let bench = Bench::new();
    let changes = [
        bench.line("^mode ", "mode fast"),
        bench.line("^cache", "cache on"),
        sysctl("vm.swappiness", "7"),
        bench.command("on", Some("on"), None),
        whole("/etc/new.conf", "made\n"),
    ];
    let mut tuner = bench.tuner(&changes).unwrap();
    let before = tuner.look();
    tuner.apply(treatment_with(&changes)).unwrap();
    assert!(
        tuner.is_still_applied(treatment_with(&changes)) && !tuner.is_still_applied(Treatment::default())
    );
    assert_eq!(bench.text("root/etc/app.conf"), "# app\nmode fast\ncache on\n");
    assert_eq!((bench.text("root/proc/sys/vm/swappiness").trim(), bench.text("state").trim()), ("7", "on"));
    assert_eq!(bench.text("root/etc/new.conf"), "made\n");
    let during = tuner.look();
    let values = [before.clone(), during.clone(), during.clone(), during];
    assert!(tuner.evidence(treatment_with(&changes), true, &values).iter().all(|evidence| evidence.holds));
    assert!(tuner.evidence(Treatment::default(), false, &values).iter().all(|evidence| !evidence.holds));
    assert_eq!(tuner.put_back().unwrap().sentences(), Vec::<String>::new());
    assert_eq!(tuner.look(), before);
    assert_eq!(bench.text("root/etc/app.conf"), "# app\nmode slow\ncache off\n");
    assert!(
        !bench.path("root/etc/new.conf").exists() && !bench.path("journals/tunings-of-a-run.jsonl").exists()
    );
    // Each reload happens where it stands, and once more when everything is back.
    assert_eq!(bench.text("log"), "reload\nreload\napply\nrevert\nreload\n");
}

#[test]
fn a_change_that_fails_half_way_undoes_what_was_done() {
    let bench = Bench::new();
    let changes = [bench.line("^mode ", "mode fast"), bench.command("half", Some("on"), None)];
    let mut tuner = bench.tuner(&changes).unwrap();
    let error = tuner.apply(treatment_with(&changes)).unwrap_err().to_string();
    assert!(error.contains("prints \"half\", and should print \"on\"; all of it is put back"), "{error}");
    assert_eq!(
        (bench.text("root/etc/app.conf").as_str(), bench.text("state").trim()),
        ("# app\nmode slow\ncache off\n", "off")
    );
    assert_eq!(bench.text("log"), "reload\napply\nrevert\nreload\n");
    let UserChange::Command(command) = bench.command("on", Some("on"), None) else { unreachable!() };
    let fails = [UserChange::Command(CommandChange { apply: "echo no >&2; exit 3".to_owned(), ..command })];
    let error = bench_after(tuner, &bench, &fails);
    assert_eq!(
        error,
        "apply command `echo no >&2; exit 3`: failed to run `apply` (`echo no >&2; exit 3`): exit code 3: no; all of it is put back"
    );
}

fn bench_after(tuner: Tuner, bench: &Bench, changes: &[UserChange]) -> String {
    drop(tuner);
    bench.tuner(changes).unwrap().apply(treatment_with(changes)).unwrap_err().to_string()
}

/// A file whose reader answers with its mode, once `reload` has it read the file.
fn read_by(bench: &Bench, reload: &str, within: Span, verify: Verify) -> UserChange {
    let UserChange::File(line) = bench.line("^mode ", "mode fast") else { unreachable!() };
    fs::write(bench.path("state"), "mode slow\n").unwrap();
    let (conf, state) = (bench.path("root/etc/app.conf"), bench.path("state"));
    let reload = reload.replace("CONF", &conf.display().to_string());
    let reload = Some(reload.replace("STATE", &state.display().to_string()));
    UserChange::File(FileChange { reload, verify: Some(verify), timeout: Some(within), ..line })
}

fn prints(command: String, text: &str) -> Verify {
    Verify { command: Some(command), expect: Some(text.to_owned()), ..Verify::default() }
}

#[test]
fn a_reader_of_a_file_shows_that_it_uses_the_change() {
    let bench = Bench::new();
    let cat = format!("cat {}", bench.path("state").display());
    // As with a web server, the command returns before the reader has read the file.
    let late = "setsid sh -c 'touch STATE.begun; sleep 0.1; grep mode CONF > STATE' > /dev/null 2>&1 & \
                while ! test -e STATE.begun; do sleep 0.01; done; rm STATE.begun";
    let changes = [read_by(&bench, late, Span(30_000_000_000), prints(cat.clone(), "mode fast"))];
    let mut tuner = bench.tuner(&changes).unwrap();
    let before = tuner.look();
    tuner.apply(treatment_with(&changes)).unwrap();
    let during = tuner.look();
    let values = [before.clone(), during.clone(), during.clone(), during];
    let evidence = tuner.evidence(treatment_with(&changes), true, &values);
    assert_eq!(
        evidence.iter().map(|it| (it.observed.contains("mode fast during"), it.holds)).collect::<Vec<_>>(),
        [(false, true), (true, true)]
    );
    assert!(tuner.evidence(Treatment::default(), false, &values).iter().all(|it| !it.holds));
    assert_eq!(tuner.put_back().unwrap().sentences(), Vec::<String>::new());
    assert_eq!(tuner.look(), before, "the next slot begins once the reader is back as well");
    drop(tuner);

    // The reload succeeds, and the reader keeps its old configuration.
    let changes = [read_by(&bench, "true", Span(1_000_000_000), prints(cat.clone(), "mode fast"))];
    let mut tuner = bench.tuner(&changes).unwrap();
    let error = tuner.apply(treatment_with(&changes)).unwrap_err().to_string();
    assert!(
        error.contains("shows \"mode slow\", and should show \"mode fast\": the change is not used; all"),
        "{error}"
    );
    assert!(bench.text("root/etc/app.conf").contains("mode slow"));

    let vain = [read_by(&bench, "true", Span(1_000_000_000), prints(cat, "mode slow"))];
    let resolved = resolve(treatment_with(&vain), &bench.machine()).unwrap();
    let vain = resolved[0].proven_before(&bench.machine()).unwrap();
    assert!(vain.contains("already shows \"mode slow\" without the change"), "{vain}");
}

#[test]
fn an_answer_by_http_is_asked_for_by_keys() {
    let service = |verify: Verify| {
        let (name, action) = ("nginx".to_owned(), ServiceAction::Reload);
        let (verify, timeout, place) = (Some(verify), None, ChangePlace::default());
        UserChange::Service(ServiceChange { name, action, verify, timeout, place })
    };
    let url = Some("https://localhost/".to_owned());
    let status = Verify { url: url.clone(), status: Some(404), insecure: true, ..Verify::default() };
    assert_eq!(check_change(&service(status.clone())), Ok(()));
    let said = |verify: Verify| {
        let (key, message) = check_change(&service(verify)).unwrap_err();
        format!("{key}: {message}")
    };
    let both = "verify: it needs either `command` with `expect` or `matches`, or `url` with at least one of";
    assert!(said(Verify { url: url.clone(), ..Verify::default() }).starts_with(both));
    assert!(said(Verify { command: url.clone(), ..status.clone() }).starts_with(both));
    assert!(said(Verify { expect: url.clone(), ..status.clone() }).starts_with(both));
    let unclear = Verify { command: url, ..Verify::default() };
    assert!(said(unclear).starts_with("command: nothing says what `command` prints"));
    let header = |header: &str| said(Verify { header: Some(header.to_owned()), ..status.clone() });
    assert!(header("Server").starts_with("header: `Server` is not a header"));
    assert!(header("a;b: c").starts_with("header: "));
    let url = |url: &str| said(Verify { url: Some(url.to_owned()), ..status.clone() });
    assert!(url("localhost").starts_with("url: `localhost` is not an address"));
    assert!(url("http://h/'; reboot").starts_with("url: ") && url("http://h/\n").starts_with("url: "));
    assert!(url("http://h/${env:TOKEN}").starts_with("url: a secret cannot be part"));
}

#[test]
fn a_regular_expression_matches_what_a_command_prints() {
    let bench = Bench::new();
    let changes = [bench.command("flows=17", None, Some("^flows=[0-9]+$"))];
    let mut tuner = bench.tuner(&changes).unwrap();
    let before = tuner.look();
    tuner.apply(treatment_with(&changes)).unwrap();
    let during = tuner.look();
    let evidence =
        tuner.evidence(treatment_with(&changes), true, &[before, during.clone(), during.clone(), during]);
    assert_eq!(evidence[0].expected, "what matches `^flows=[0-9]+$`");
    assert_eq!((evidence[0].observed.as_str(), evidence[0].holds), ("flows=17 during", true));
    tuner.put_back().unwrap();
    assert_eq!(bench.text("state").trim(), "off");
}

#[test]
fn a_change_that_does_not_last_until_the_window_closes_is_no_evidence() {
    let bench = Bench::new();
    let changes = [bench.command("on", Some("on"), None)];
    let mut tuner = bench.tuner(&changes).unwrap();
    let before = tuner.look();
    tuner.apply(treatment_with(&changes)).unwrap();
    let opened = tuner.look();
    // Something else on the host undoes it while the window is open.
    fs::write(bench.path("state"), "off\n").unwrap();
    let closed = tuner.look();
    tuner.put_back().unwrap();
    let evidence = tuner.evidence(treatment_with(&changes), false, &[before, opened, closed, tuner.look()]);
    assert_eq!(
        (evidence[0].observed.as_str(), evidence[0].holds),
        ("off before, on when the window opened, off when it closed, off afterwards", false)
    );
}

#[test]
fn what_a_kill_left_is_undone_at_the_next_start() {
    let bench = Bench::new();
    let changes = [
        bench.line("^mode ", "mode fast"),
        bench.command("on", Some("on"), None),
        whole("/etc/new.conf", "made\n"),
    ];
    let mut tuner = bench.tuner(&changes).unwrap();
    tuner.apply(treatment_with(&changes)).unwrap();
    // A kill runs no destructor. The journal is the same with a lock or without.
    let journal = bench.text("journals/tunings-of-a-run.jsonl");
    drop(tuner);
    fs::write(bench.path("journals/tunings-of-a-run.jsonl"), &journal).unwrap();
    fs::write(bench.path("state"), "between\n").unwrap();
    fs::write(bench.path("root/etc/app.conf"), "# app\nmode fast\ncache off\n").unwrap();
    fs::write(bench.path("root/etc/new.conf"), "made\n").unwrap();
    fs::write(bench.path("root/etc/.app.conf.plumb-new"), "half").unwrap();
    let done = recover(&bench.machine(), &bench.state()).unwrap();
    assert_eq!(done.sentences(), Vec::<String>::new());
    assert_eq!(
        (bench.text("root/etc/app.conf").as_str(), bench.text("state").trim()),
        ("# app\nmode slow\ncache off\n", "off")
    );
    let left: Vec<_> =
        fs::read_dir(bench.path("root/etc")).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["app.conf"]);
    assert!(!bench.path("journals/tunings-of-a-run.jsonl").exists());
    // Files outlive a boot, and values of the kernel's do not.
    let boot = "\"boot\":\"";
    let at = journal.find(boot).unwrap() + boot.len();
    let earlier = format!("{}0{}", &journal[..at], &journal[at + 1..]);
    fs::write(
        bench.path("journals/tunings-of-a-run.jsonl"),
        earlier.replace("\"boot\":\"00", "\"boot\":\"01"),
    )
    .unwrap();
    fs::write(bench.path("root/etc/new.conf"), "made\n").unwrap();
    recover(&bench.machine(), &bench.state()).unwrap();
    assert!(!bench.path("root/etc/new.conf").exists());
}

#[test]
fn a_change_whose_verify_fails_afterwards_is_undone_all_the_same() {
    let bench = Bench::new();
    let broken = bench.path("broken");
    let UserChange::Command(command) = bench.command("on", Some("on"), None) else { unreachable!() };
    let verify = format!("{}; test ! -e {}", command.verify, broken.display());
    let revert = format!("{}; rm -f {}", command.revert, broken.display());
    let changes = [UserChange::Command(CommandChange { verify, revert, ..command })];
    let mut tuner = bench.tuner(&changes).unwrap();
    tuner.apply(treatment_with(&changes)).unwrap();
    fs::write(&broken, "").unwrap();
    let done = tuner.put_back().unwrap();
    assert_eq!((done.restored.len(), done.sentences()), (1, Vec::new()));
    assert_eq!(bench.text("state"), "off\n");
}

#[test]
fn a_verify_that_never_prints_the_same_is_refused_before_anything_is_changed() {
    let bench = Bench::new();
    let UserChange::Command(command) = bench.command("on", Some("on"), None) else { unreachable!() };
    let verify = format!("cat {}; date +%N", bench.path("state").display());
    let changes = [UserChange::Command(CommandChange { verify, ..command })];
    let error = bench.tuner(&changes).unwrap_err().to_string();
    assert!(error.contains("though nothing was changed: make its output stable"), "{error}");
    assert_eq!(bench.text("log"), "");
}

/// Such a `verify` may well print the same twice in a row, such as one with the time in seconds.
#[test]
fn a_verify_whose_output_changes_by_itself_keeps_no_change_due() {
    let bench = Bench::new();
    let file = bench.path("changing");
    let UserChange::Command(command) = bench.command("on", None, Some("^on")) else { unreachable!() };
    let verify = format!("{}; test ! -e {} || date +%N", command.verify, file.display());
    let changes = [UserChange::Command(CommandChange { verify, ..command })];
    let mut tuner = bench.tuner(&changes).unwrap();
    tuner.apply(treatment_with(&changes)).unwrap();
    fs::write(&file, "").unwrap();
    let done = tuner.put_back().unwrap();
    let [sentence] = &done.sentences()[..] else { panic!("{:?}", done.sentences()) };
    assert!(sentence.contains("prints something else each time"), "{sentence}");
    assert_eq!((bench.text("state"), tuner.trouble()), ("off\n".to_owned(), &[][..]));
    assert_eq!(recover(&bench.machine(), &bench.state()).unwrap().sentences(), [""; 0]);
}

#[test]
fn a_file_that_somebody_else_alters_or_removes_is_left_with_its_old_text_kept() {
    let bench = Bench::new();
    let changes = [bench.line("^mode ", "mode fast")];
    for (number, theirs) in [(1, Some("mode theirs\n")), (2, None)] {
        fs::write(bench.path("root/etc/app.conf"), "mode slow\n").unwrap();
        let mut tuner = bench.tuner(&changes).unwrap();
        tuner.apply(treatment_with(&changes)).unwrap();
        match theirs {
            Some(text) => fs::write(bench.path("root/etc/app.conf"), text).unwrap(),
            None => fs::remove_file(bench.path("root/etc/app.conf")).unwrap(),
        }
        let said = tuner.put_back().unwrap().sentences();
        let kept = format!("journals/kept/app.conf.{number}");
        assert!(
            said.len() == 1 && said[0].contains(&format!("{} has what it was", bench.path(&kept).display())),
            "{said:?}"
        );
        assert_eq!(
            (bench.text(&kept).as_str(), bench.text("root/etc/app.conf").as_str()),
            ("mode slow\n", theirs.unwrap_or(""))
        );
    }
}

#[test]
fn of_two_changes_to_a_file_the_text_from_before_both_is_kept() {
    let bench = Bench::new();
    let changes = [bench.line("^mode ", "mode fast"), bench.line("^cache ", "cache on")];
    let mut tuner = bench.tuner(&changes).unwrap();
    tuner.apply(treatment_with(&changes)).unwrap();
    fs::write(bench.path("root/etc/app.conf"), "theirs\n").unwrap();
    let done = tuner.put_back().unwrap();
    assert_eq!((done.overwritten.len(), tuner.overwritten()), (1, &done.overwritten[..]));
    assert_eq!(bench.text("journals/kept/app.conf.1"), "# app\nmode slow\ncache off\n");
    assert!(!bench.path("journals/kept/app.conf.2").exists());
}

#[test]
fn a_reload_that_fails_is_tried_again_once() {
    let bench = Bench::new();
    let UserChange::File(line) = bench.line("^mode ", "mode fast") else { unreachable!() };
    let gate = bench.path("gate");
    fs::write(&gate, "").unwrap();
    let reload = Some(format!("test -e {}", gate.display()));
    let changes = [UserChange::File(FileChange { reload, ..line })];
    let mut tuner = bench.tuner(&changes).unwrap();
    tuner.apply(treatment_with(&changes)).unwrap();
    fs::remove_file(&gate).unwrap();
    let done = tuner.put_back().unwrap();
    assert!(done.failed[0].starts_with("all is back, but the `test -e "), "{done:?}");
    assert_eq!(bench.text("root/etc/app.conf"), "# app\nmode slow\ncache off\n");
    let done = tuner.put_back().unwrap();
    assert_eq!((done.failed.len(), done.sentences().len()), (0, 1), "{done:?}");
    assert!(!bench.path("journals/tunings-of-a-run.jsonl").exists());
}

#[test]
fn secrets_are_in_the_file_and_in_nothing_else() {
    let bench = Bench::new();
    let key = bench.path("key");
    fs::write(&key, "hunter2hunter2\n").unwrap();
    let reference = format!("${{file:{}}}", key.display());
    let changes = [
        whole("/etc/app.conf", &format!("password {reference}\n")),
        UserChange::Command(CommandChange {
            apply: format!("echo {reference} > {}", bench.path("state").display()),
            revert: format!("echo off > {}", bench.path("state").display()),
            verify: format!("cat {}", bench.path("state").display()),
            expect: Some(reference.clone()),
            matches: None,
            timeout: None,
            place: ChangePlace::default(),
        }),
    ];
    let mut tuner = bench.tuner(&changes).unwrap();
    let before = tuner.look();
    tuner.apply(treatment_with(&changes)).unwrap();
    assert_eq!(
        (bench.text("root/etc/app.conf").as_str(), bench.text("state").trim()),
        ("password hunter2hunter2\n", "hunter2hunter2")
    );
    let journal = bench.path("journals/tunings-of-a-run.jsonl");
    let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(&journal).unwrap());
    assert_eq!(mode & 0o777, 0o600);
    let during = tuner.look();
    let evidence =
        tuner.evidence(treatment_with(&changes), true, &[before, during.clone(), during.clone(), during]);
    let text = format!("{evidence:?}");
    assert!(evidence.iter().all(|evidence| evidence.holds), "{text}");
    assert!(
        !text.contains("hunter2") && text.contains("text with a secret") && text.contains(&reference),
        "{text}"
    );
}

#[test]
fn what_this_machine_cannot_have_is_said() {
    let bench = Bench::new();
    let said = |change: UserChange| {
        let error = resolve(treatment_with(&[change]), &bench.machine()).unwrap_err().to_string();
        error.replace(&bench.0.path().display().to_string(), "")
    };
    insta::assert_snapshot!(said(bench.line("^nothing", "x")), @"apply file /etc/app.conf: `x`: no line of /etc/app.conf matches `^nothing`");
    insta::assert_snapshot!(said(bench.line("o", "x")), @"apply file /etc/app.conf: `x`: 2 lines of /etc/app.conf match `o` (2, 3); make the expression match only one");
    insta::assert_snapshot!(said(whole("/no/such/file", "x")), @"apply file /no/such/file: failed to find /no/such/file: No such file or directory (os error 2)");
    insta::assert_snapshot!(said(sysctl("no.such", "1")), @"apply sysctl no.such=1: failed to read /proc/sys/no/such: No such file or directory (os error 2)");
    insta::assert_snapshot!(said(whole("/etc/app.conf", "${env:PLUMB_NO_SUCH_VARIABLE}")), @"apply file /etc/app.conf: failed to read ${env:PLUMB_NO_SUCH_VARIABLE}: this environment variable is not set");
    let owned = FileChange {
        owner: Some("no-such-user".to_owned()),
        contents: Some(String::new()),
        ..file("/etc/app.conf")
    };
    insta::assert_snapshot!(said(UserChange::File(owned)), @"apply file /etc/app.conf: this host has no user or group no-such-user");
    let UserChange::Command(command) = bench.command("on", Some("on"), None) else { unreachable!() };
    let blind = UserChange::Command(CommandChange {
        verify: "echo no bridge >&2; exit 1".to_owned(),
        apply: "x".to_owned(),
        ..command
    });
    insta::assert_snapshot!(said(blind), @"apply command `x`: failed to run `verify` (`echo no bridge >&2; exit 1`): exit code 1: no bridge");
}

#[test]
fn what_no_machine_could_mend_is_said_with_its_key() {
    let bench = Bench::new();
    let said = |change: UserChange| {
        let (key, message) = check_change(&change).unwrap_err();
        format!("{key}: {message}")
    };
    let path = |path: &str| said(whole(path, ""));
    assert!(path("etc/x").starts_with("path: `etc/x` is not the whole path"));
    assert!(path("/proc/sys/vm/swappiness").starts_with("path: `/proc/sys/vm/swappiness` is the kernel's"));
    assert!(said(UserChange::File(file("/x"))).starts_with("path: a file needs either `contents`"));
    assert_eq!(said(bench.line("(", "x")), "replace: `(` is not a regular expression: unclosed group");
    assert!(said(bench.line("a", "x\ny")).starts_with("with: the new line has a line break"));
    assert!(said(bench.command("on", None, None)).starts_with("verify: nothing says what `verify` prints"));
    assert!(said(bench.command("on", Some("a"), Some("b"))).starts_with("matches: give only one"));
    assert!(said(bench.command("'${env:X}'", Some("a"), None)).contains("stands in single quotes"));
    assert!(said(bench.command("${file:x}", Some("a"), None)).contains("`${file:x}` names no secret"));
    assert!(said(sysctl("vm/../x", "1")).starts_with("sysctl: `vm/../x` is not the name"));
    let mode = UserChange::File(FileChange {
        contents: Some(String::new()),
        mode: Some("rw".to_owned()),
        ..file("/x")
    });
    assert!(said(mode).starts_with("mode: `rw` is not the rights"));
    assert!(check_change(&bench.command("on", Some("on"), None)).is_ok());
}
