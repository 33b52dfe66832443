//! A child started with `dies_with_parent` ends when its parent is killed with SIGKILL.
//!
//! It takes a parent that can be killed, so this program runs itself again as that parent. Hence no
//! test harness: its threads and its output would stand in between.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use plumb_host::process::{Command, Signal, Stream, descendants};

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("be-the-parent") => be_the_parent(),
        Some("--list") => list("children_die_with_a_parent_that_is_killed"),
        _ => children_die_with_a_parent_that_is_killed(),
    }
}

/// Names the only test, as a test runner asks for it: `--list`, and once more with `--ignored`.
#[expect(clippy::print_stdout, reason = "the output is how the test runner learns the name")]
fn list(name: &str) {
    if !std::env::args().any(|argument| argument == "--ignored") {
        println!("{name}: test");
    }
}

#[expect(clippy::print_stdout, reason = "the output is how the other side learns the pid")]
fn be_the_parent() {
    let child =
        Command::new("sleep").arg("600").dies_with_parent(Signal::KILL).spawn().expect("sleep starts");
    println!("{}", child.pid());
    plumb_host::time::sleep(Duration::from_secs(600));
}

fn children_die_with_a_parent_that_is_killed() {
    let this_program = std::env::current_exe().expect("a running program has a file");
    let mut parent = Command::new(this_program)
        .arg("be-the-parent")
        .stdout(Stream::Piped)
        .spawn()
        .expect("this program starts");
    let mut output = BufReader::new(parent.take_stdout().expect("it is piped"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a pipe is readable");
    let pid: u32 = line.trim().parse().expect("it prints its child's pid");
    assert_eq!(descendants(parent.pid()), [pid]);
    // `kill` would take the grandchild along; a signal reaches the parent alone.
    parent.signal(Signal::KILL).expect("a child may be signalled");
    parent.wait().expect("a child may be waited for");
    // It ends, or this test does not. A zombie has ended: whether its new parent reaps it is not our affair.
    let status = || std::fs::read_to_string(format!("/proc/{pid}/status"));
    while status().is_ok_and(|status| !status.contains("State:\tZ")) {
        plumb_host::time::sleep(Duration::from_millis(1));
    }
}
