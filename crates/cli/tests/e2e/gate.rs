//! `plumb gate` between two revisions of a git repository.

use std::path::Path;
use std::process::Command;

use crate::common::{code, null_experiment, plumb, stderr, stdout, write};

/// Runs git in a directory, as somebody.
fn git(directory: &Path, arguments: &[&str]) {
    let somebody = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "init.defaultBranch=main"];
    let status = Command::new("git").args(somebody).args(arguments).current_dir(directory).status().unwrap();
    assert!(status.success(), "git {arguments:?}");
}

/// A repository of two revisions that the tags `old` and `new` name.
fn repository(directory: &Path) {
    git(directory, &["init", "--quiet"]);
    for tag in ["old", "new"] {
        write(directory, "revision", tag);
        git(directory, &["add", "revision"]);
        git(directory, &["commit", "--quiet", "--message", tag]);
        git(directory, &["tag", tag]);
    }
}

#[test]
fn a_gate_builds_two_revisions_and_removes_them() {
    let directory = tempfile::tempdir().unwrap();
    repository(directory.path());
    // What is measured is made up, so that the verdict does not depend on how busy the machine is.
    let spec = "baseline: base\nvariants:\n  base: {}\n  head: { system: { throughput: 500 /s } }";
    let title = "{ name: test, title: \"Is {head} worse than {base}?\" }";
    write(directory.path(), "bench.yaml", null_experiment(spec).replace("{ name: test }", title));
    let temporary = tempfile::tempdir().unwrap();
    let gate = |base: &str, head: &str, build: &str, name: &str| {
        let output = plumb()
            .args(["gate", "--base", base, "--head", head, "--build", build, "--run", "bench.yaml"])
            .args(["--output", name])
            .env("TMPDIR", temporary.path())
            .current_dir(directory.path())
            .output()
            .unwrap();
        assert_eq!(std::fs::read_dir(temporary.path()).unwrap().count(), 0, "{}", stderr(&output));
        output
    };
    let build = "cp revision built && cat built";
    let output = gate("old", "new", build, "worse");
    assert_eq!(code(&output), 1, "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("worse: new ("), "{}", stdout(&output));
    // Branches and tags move; the commits that were compared do not.
    let page = std::fs::read_to_string(directory.path().join("worse/report.html")).unwrap();
    let commit =
        Command::new("git").args(["rev-parse", "new"]).current_dir(directory.path()).output().unwrap();
    let head = format!(" --head {} --build ", stdout(&commit).trim());
    assert!(page.contains(&head), "{head}");
    for (side, revision) in [("base", "old"), ("head", "new")] {
        let log = directory.path().join(format!("worse/build-{side}.log"));
        assert_eq!(std::fs::read_to_string(log).unwrap(), revision);
    }

    let output = gate("old", "new", "echo no compiler here; exit 7", "broken");
    assert_eq!(code(&output), 5);
    assert!(stderr(&output).contains("the command ended with code 7"), "{}", stderr(&output));
    assert!(stderr(&output).contains("no compiler here"), "{}", stderr(&output));
    let output = gate("old", "nothing", build, "unknown");
    assert_eq!(code(&output), 2);
    let missing = "`nothing` names no commit of the git repository here\n";
    assert!(stderr(&output).ends_with(missing), "{}", stderr(&output));
    // The build fails, so that nothing is measured.
    let output = gate("new", "new", "exit 7", "equal");
    assert!(stderr(&output).contains("warning: new and new are the same commit"), "{}", stderr(&output));
    let shallow = directory.path().join("shallow");
    let source = format!("file://{}", directory.path().display());
    git(directory.path(), &["clone", "--quiet", "--depth", "1", &source, shallow.to_str().unwrap()]);
    let arguments = ["gate", "--base", "HEAD~1", "--command", "true"];
    let output = plumb().args(arguments).current_dir(&shallow).output().unwrap();
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("`git fetch --unshallow` fetches the rest"), "{}", stderr(&output));
    let trees =
        Command::new("git").args(["worktree", "list"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(stdout(&trees).lines().count(), 1, "{}", stdout(&trees));
}
