//! What only a process shows of the commands that measure nothing: a full disk, a closed pipe, and programs that are not started.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use crate::common::{code, plumb, run, stderr, write};

#[test]
fn a_result_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let path = path.to_str().unwrap();
    let measured =
        run(&["run", "null", "--quick", "--only", "faster", "--seed", "5", "--quiet", "--output", path]);
    assert_eq!(code(&measured), 0, "{}", stderr(&measured));
    let second = directory.path().join("second");
    let second = second.to_str().unwrap();
    let commands: [&[&str]; 16] = [
        &["--help"],
        &["run", "--help"],
        &["--version"],
        &["version"],
        &["list"],
        &["list", "--json"],
        &["list", "--show", "null"],
        &["check", "null"],
        &["check", "null", "--json"],
        &["schema"],
        &["completions", "bash"],
        &["host"],
        &["report", path],
        &["report", path, "--full"],
        &["report", path, "--format", "html"],
        &["run", "null", "--quick", "--only", "faster", "--seed", "5", "--quiet", "--output", second],
    ];
    for arguments in commands {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = plumb().args(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(code(&output), 5, "{arguments:?}: {}", stderr(&output));
        let expected = "error: failed to write to standard output: No space left on device";
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    }
    assert!(Path::new(second).join("report.html").exists(), "the run's own files are written all the same");
    for arguments in [&["report", path, "--full"][..], &["schema"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = plumb().args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn the_list_starts_no_program() {
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("started");
    for program in ["haproxy", "nginx", "openssl", "qemu-system-x86_64", "ovs-vsctl"] {
        let script = format!("#!/bin/sh\ntouch {}\n", mark.display());
        let path = write(directory.path(), program, script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = plumb().arg("list").env("PATH", directory.path()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(!mark.exists(), "a program was started");
}
