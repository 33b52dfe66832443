//! Hosts that cannot be used: one message each, which says why, and what mends it.
//!
//! What OpenSSH 9.2 itself does for `ssh -T -o BatchMode=yes -o ConnectTimeout=8 HOST COMMAND` in these cases, all on standard error:
//!
//! | case | ends with | its last line |
//! |---|---|---|
//! | a key that the host does not know; a password would be asked for; the account's shell does not exist | 255 | `root@ADDRESS: Permission denied (publickey,password,…).` |
//! | no such name | 255 | `ssh: Could not resolve hostname NAME: Name or service not known` |
//! | no host key known | 255 | `No ED25519 host key is known for ADDRESS and you have requested strict checking.`, `Host key verification failed.` |
//! | another host key | 255 | a page of warnings, and then `Host key for ADDRESS has changed …`, `Host key verification failed.` |
//! | packets are dropped, or the link is down | 255, after 8 s | `ssh: connect to host ADDRESS port 22: Connection timed out` |
//! | no host at the address | 255, after 3 s | `ssh: connect to host ADDRESS port 22: No route to host` |
//! | no sshd at the port | 255 | `ssh: connect to host ADDRESS port 23: Connection refused` |
//! | the account's shell is `/bin/false` | 1 | nothing |
//! | a start-up file of the shell exits with 7 | 7 | nothing |
//! | `sh` cannot be run | 126 | `bash: line 1: exec: /usr/bin/sh: cannot execute: Permission denied` |
//! | a full disk | the command's code | what the command says |

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::is_clean;
use crate::common::{code, plumb, stderr, stdout, wait_until, write};
use crate::lab::hosts::Hosts;

/// What `plumb host --on` says of a host that it cannot use, without what all such messages begin with.
fn complaint(hosts: &Hosts, client: &str, host: &str) -> String {
    let output = hosts.plumb().env("PLUMB_SSH", client).args(["host", "--on", host]).output().unwrap();
    assert_eq!(code(&output), 5, "{host}: {output:?}");
    let said = stderr(&output);
    assert_eq!(said.trim().lines().count(), 1, "{host}: {said}");
    said.trim().strip_prefix("error: failed to ").unwrap_or_else(|| panic!("{said}")).to_owned()
}

/// The message has all of `words`.
#[track_caller]
fn says(said: &str, words: &[&str]) {
    for words in words {
        assert!(said.contains(words), "no `{words}` in: {said}");
    }
}

#[test]
fn a_host_without_gzip_gets_the_program_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let programs = directory.path().join("bin");
    fs::create_dir(&programs).unwrap();
    for program in ["sh", "uname", "getconf", "readlink", "tr", "mktemp", "rm", "head", "cat", "chmod"] {
        let found =
            ["/bin", "/usr/bin"].map(|at| Path::new(at).join(program)).into_iter().find(|path| path.exists());
        symlink(found.unwrap(), programs.join(program)).unwrap();
    }
    // A client that runs its last argument here, with these programs alone.
    let words =
        format!("#!/bin/sh\nfor last; do :; done\nPATH={} exec sh -c \"$last\"\n", programs.display());
    let client = write(directory.path(), "client", words);
    fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
    let output = plumb().env("PLUMB_SSH", &client).args(["host", "--on", "here"]).output().unwrap();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("kernel"), "{}", stdout(&output));
}

fn is_not_reached(hosts: &Hosts, host: &str, words: &[&str]) {
    let said = complaint(hosts, &hosts.ssh(), host);
    // The client gives up a second before the runner does, which on a busy machine may come first.
    if !(said.contains("no answer within 9s") && words[0].ends_with("timed out")) {
        says(&said, words);
    }
    assert!(said.starts_with(&format!("reach {host}: ")), "{said}");
    says(&said, &[&format!("see that `{} -o BatchMode=yes {host} true` works", hosts.ssh())]);
}

#[test]
fn a_host_that_ssh_does_not_reach_is_told_with_a_command_to_try() {
    let Some(hosts) = Hosts::own(2) else { return };
    hosts.drop_packets(2);
    let cases: [(&str, &[&str]); 8] = [
        ("stranger", &["Permission denied (publickey"]),
        ("no-key@host1", &["Permission denied (publickey"]),
        ("lost-shell@host1", &["Permission denied (publickey"]),
        ("no-such-host.invalid", &["Could not resolve hostname no-such-host.invalid"]),
        ("ssh://host1:23", &["port 23: Connection refused"]),
        ("host2", &["port 22: Connection timed out"]),
        ("ssh://root@host2", &["port 22: Connection timed out"]),
        ("nowhere", &["port 22: "]),
    ];
    // They wait for most of the time.
    std::thread::scope(|scope| {
        for (host, words) in cases {
            let hosts = &hosts;
            scope.spawn(move || is_not_reached(hosts, host, words));
        }
    });
    let output = hosts.run(&["host", "--on=-oProxyCommand=reboot"]);
    assert_eq!(code(&output), 2, "{output:?}");
    says(&stderr(&output), &["`-oProxyCommand=reboot` is not a host", "ssh://user@host"]);

    // A host key that is not known, and another one than the known one.
    let directory = tempfile::tempdir().unwrap();
    let known = |name: &str, text: &str| {
        let file = write(directory.path(), name, text);
        // The last of an option of ssh does not count, so this stands before the configuration.
        format!("ssh -o UserKnownHostsFile={}{}", file.display(), hosts.ssh().trim_start_matches("ssh"))
    };
    let said = complaint(&hosts, &known("none", ""), "host1");
    says(&said, &["reach host1: No ED25519 host key is known", "Host key verification failed; see that"]);
    let address = stdout(&hosts.ssh_to("host1", "echo $SSH_CONNECTION"));
    let address = address.split(' ').nth(2).unwrap();
    let key = hosts.ssh_to("host1", "cat /etc/ssh/../../run/host/authorized_keys");
    let other = known("other", &format!("{address} {}", stdout(&key)));
    let said = complaint(&hosts, &other, "host1");
    says(&said, &["has changed and you have requested strict checking; Host key verification failed; see"]);
    assert!(!said.contains("@@@"), "{said}");
}

#[test]
fn an_account_without_a_shell_is_told_from_one_whose_start_up_file_talks() {
    let Some(hosts) = Hosts::own(1) else { return };
    let needs = "; the account needs `sh`, and a login shell that runs commands";
    let said = complaint(&hosts, &hosts.ssh(), "no-shell@host1");
    assert_eq!(said, format!("start a shell on no-shell@host1: ssh ended with code 1{needs}"));
    write(&hosts.path(1, "/root"), ".bashrc", "exit 7");
    let said = complaint(&hosts, &hosts.ssh(), "host1");
    assert_eq!(said, format!("start a shell on host1: ssh ended with code 7{needs}"));
    fs::remove_file(hosts.path(1, "/root/.bashrc")).unwrap();

    // What a start-up file says does no harm, and how long it takes is told.
    hosts.install(1);
    let home = hosts.path(1, "/root");
    write(&home, ".bashrc", "echo Welcome; echo careful >&2; printf 'a line without its end'");
    let output = hosts.run(&["host", "--on", "host1"]);
    assert_eq!(code(&output), 0, "{output:?}");
    says(&stdout(&output), &["kernel"]);
    write(&home, ".bashrc", "while sleep 1; do echo still there; echo not yet >&2; done");
    let said = complaint(&hosts, &hosts.ssh(), "host1");
    says(&said, &["reach host1: no answer within 9s, after `not yet", "; see that `ssh "]);
    wait_until("the host to be clean", || is_clean(&hosts, 1));
    fs::remove_file(hosts.path(1, "/root/.bashrc")).unwrap();

    // Nothing may execute what is no file of programs.
    hosts.enter(1, &["mount", "--bind", "/dev/null", "/bin/sh"]);
    let said = complaint(&hosts, &hosts.ssh(), "host1");
    says(&said, &["start a shell on host1: ", "sh: cannot execute: Permission denied", needs]);
}

#[test]
fn a_host_that_cannot_take_the_program_says_so() {
    let Some(hosts) = Hosts::own(1) else { return };
    let elsewhere = "; `TMPDIR` in that account's environment can name another directory than /tmp";
    let cases = [
        ("size=1m", "copy plumb to host1: ", "No space left on device"),
        ("size=50%,ro", "start plumb on host1: ", "Read-only file system"),
        ("rw,noexec", "start plumb on host1: ", "plumb: Permission denied"),
    ];
    for (options, begins, words) in cases {
        hosts.enter(1, &["mount", "-o", &format!("remount,{options}"), "/tmp"]);
        let said = complaint(&hosts, &hosts.ssh(), "host1");
        assert!(said.starts_with(begins), "{said}");
        says(&said, &[words, elsewhere]);
        wait_until("the host to be clean", || is_clean(&hosts, 1));
    }
}

#[test]
fn a_host_of_another_kind_or_with_another_build_is_noticed() {
    let Some(hosts) = Hosts::own(1) else { return };
    let program = |name: &str, text: &str| {
        let file = write(&hosts.path(1, "/run/host/bin"), name, format!("#!/bin/sh\n{text}\n"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    };
    let uname = program("uname", "test \"$1\" = -m && echo riscv64 || echo Linux");
    let said = complaint(&hosts, &hosts.ssh(), "host1");
    says(&said, &["use host1: it runs Linux on riscv64, and this build of plumb is for Linux on "]);
    fs::remove_file(uname).unwrap();
    // Another version is no obstacle: this one takes its place for the run.
    program("plumb", "echo another-build");
    let checked = |expected: &str| {
        let output = hosts.run(&["places", "check", "--load-on", "host1"]);
        assert_eq!(code(&output), 0, "{output:?}");
        says(&stdout(&output), &[expected]);
    };
    checked("this build, copied there");
    hosts.install(1);
    checked("this build, installed there");
    wait_until("the host to be clean", || is_clean(&hosts, 1));
}
