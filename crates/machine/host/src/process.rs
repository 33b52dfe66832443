//! Child processes: started in one way, and never left behind.
//!
//! Every child is a [`Child`]: dropping it kills it, with its process group and its descendants, and
//! reaps it. It is known to the kernel by a pidfd, not by a number that another process may get later.

mod capabilities;
mod child;
mod command;
mod detached;
mod environment;
mod exit;
mod inside;
mod mappings;
mod measured;
mod nobody;
mod output;
mod tree;
mod usage;

pub use capabilities::forgo_new_privileges;
pub use child::Child;
pub use command::{Command, Stream, start_no_more};
pub use detached::Detached;
pub use exit::Exit;
pub use inside::{Memory, TcpCounters, TcpSocket, TcpSockets};
pub use mappings::mapped_files;
pub use measured::{Finished, Keep, Written, WrittenBytes, run_measured};
pub use nobody::{can_run_as_nobody, give_to_nobody, make_private};
pub use output::{Output, output_of, run_for_output, which, which_in};
pub use rustix::process::Signal;
pub use tree::{descendants, has_open, has_words, kill_tree, named, pid_namespace};
pub use usage::Usage;

use rustix::process::Pid;

/// Whether this process runs as root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Ends this process with SIGKILL, as if somebody else had done it.
pub fn kill_this_process() {
    // The kernel lets every process kill itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
}

/// A shell with these words on its command line, which waits for a line.
#[cfg(test)]
fn waiting_shell(words: &str) -> Child {
    use std::io::Read;
    let script = format!("echo; read line; : {words}");
    let shell = Command::new("sh").args(["-c", &script]).stdin(Stream::Piped).stdout(Stream::Piped);
    let mut shell = shell.spawn().unwrap();
    // The parent may go on before the kernel has set the child's command line and its stack.
    shell.take_stdout().unwrap().read_exact(&mut [0]).unwrap();
    shell
}

/// A pid as the system calls take it; `None` for 0 and for what is not a pid.
fn kernel_pid(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}
