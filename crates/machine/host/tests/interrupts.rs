//! Being asked to stop, by real signals.
//!
//! Handlers belong to a whole process and one of them ends it, so this program runs itself again as
//! the process that gets the signals, and needs no test harness around it.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::Duration;

use plumb_host::process::{Child, Command, Exit, Signal, Stream};
use plumb_host::signals::Interrupts;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const LONG: Duration = Duration::from_secs(60);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("be-interrupted") => return be_interrupted(),
        Some("--list") => return list("signals_interrupt_and_the_second_ends_the_process"),
        _ => {}
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        one_signal_is_a_request(signal);
    }
    a_second_ctrl_c_ends_the_process();
    nohup_is_respected();
}

/// Names the only test, as a test runner asks for it: `--list`, and once more with `--ignored`.
#[expect(clippy::print_stdout, reason = "the output is how the test runner learns the name")]
fn list(name: &str) {
    if !std::env::args().any(|argument| argument == "--ignored") {
        println!("{name}: test");
    }
}

/// Answers every line of its input with its state, and never ends by itself before the input does.
#[expect(clippy::print_stdout, reason = "the output is how the other side learns the state")]
fn be_interrupted() {
    let interrupts = Interrupts::install().expect("handlers can be installed");
    println!("ready");
    for _ in std::io::stdin().lines() {
        let mut polled = [PollFd::new(&interrupts, PollFlags::IN)];
        let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_readable = poll(&mut polled, Some(&no_wait)).expect("a pipe can be polled") == 1;
        assert!(!is_readable || interrupts.is_interrupted());
        println!("interrupted: {is_readable}");
    }
}

struct Subject {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Subject {
    fn start(command: Command) -> Self {
        let command = command.stdin(Stream::Piped).stdout(Stream::Piped).stderr(Stream::Inherit);
        let mut child = command.spawn().expect("this program starts");
        let input = child.take_stdin().expect("it is piped");
        let output = BufReader::new(child.take_stdout().expect("it is piped")).lines();
        let mut subject = Self { child, input, output };
        assert_eq!(subject.line(), "ready");
        subject
    }

    fn line(&mut self) -> String {
        self.output.next().expect("it answers").expect("a pipe is readable")
    }

    fn is_interrupted(&mut self) -> bool {
        self.input.write_all(b"\n").expect("a pipe is writable");
        self.line() == "interrupted: true"
    }

    fn signal(&self, signal: Signal) {
        self.child.signal(signal).expect("a child may be signalled");
    }

    fn end(mut self) -> Exit {
        drop(self.input);
        self.child.wait_timeout(LONG).expect("a child may be waited for").expect("it ends")
    }
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().expect("a running program has a file")
}

/// The process that gets the signals. Under `nohup` this program ignores SIGHUP, and that is inherited.
fn be_interrupted_by_all() -> Command {
    let program = this_program();
    Command::new("env").arg("--default-signal=HUP").arg(program).arg("be-interrupted")
}

fn one_signal_is_a_request(signal: Signal) {
    let mut subject = Subject::start(be_interrupted_by_all());
    assert!(!subject.is_interrupted());
    subject.signal(signal);
    while !subject.is_interrupted() {}
    assert_eq!(subject.end(), Exit::Code(0));
}

fn a_second_ctrl_c_ends_the_process() {
    let mut subject = Subject::start(be_interrupted_by_all());
    subject.signal(Signal::INT);
    while !subject.is_interrupted() {}
    subject.signal(Signal::INT);
    assert_eq!(subject.child.wait_timeout(LONG).expect("a child may be waited for"), Some(Exit::Code(130)));
}

fn nohup_is_respected() {
    let ignoring =
        Command::new("sh").args(["-c", "trap '' HUP; exec \"$0\" be-interrupted"]).arg(this_program());
    let mut subject = Subject::start(ignoring);
    subject.signal(Signal::HUP);
    assert!(!subject.is_interrupted());
    subject.signal(Signal::TERM);
    while !subject.is_interrupted() {}
    assert_eq!(subject.end(), Exit::Code(0));
}
