//! Asking a program a question: `haproxy -vv`, `nginx -V`.

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Access, access};

use super::child::wait_readable;
use super::{Command, Exit, Signal, Stream};
use crate::Error;
use crate::time::monotonic_ns;

/// The bound on each of the two streams: far more than any version text.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Where servers are, although the PATH of a user who is not root often lacks these.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// The executable file of a program, looked up on PATH and then in the system administrator's
/// directories. A program with a slash in it is a path already and is only checked.
#[must_use]
pub fn which(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let program = Path::new(program.as_ref());
    if program.components().count() != 1 || program.is_absolute() {
        return is_executable(program).then(|| program.to_owned());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    which_in(program, &path).or_else(|| {
        let directories = SYSTEM_DIRECTORIES.iter().map(Path::new);
        directories.map(|directory| directory.join(program)).find(|file| is_executable(file))
    })
}

/// The executable file of that name in the directories of `path`, a list as in the variable PATH.
#[must_use]
pub fn which_in(name: impl AsRef<Path>, path: &OsStr) -> Option<PathBuf> {
    // An empty part of PATH means the working directory; no server is meant to be run from there.
    let directories = env::split_paths(path).filter(|directory| directory.is_absolute());
    directories.map(|directory| directory.join(&name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// The output of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub exit: Exit,
    /// The standard output; what is not UTF-8 is replaced.
    pub stdout: String,
    /// The standard error; what is not UTF-8 is replaced.
    pub stderr: String,
}

/// Runs a program to its end, without input, and takes what it writes.
///
/// That it ends with another code than 0 is not a failure here. It is killed when this process dies.
///
/// # Errors
///
/// When it cannot be started, does not end within `timeout`, or writes more than 1 MiB to one of
/// its streams. It is killed then.
pub fn run_for_output<A: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    arguments: impl IntoIterator<Item = A>,
    timeout: Duration,
) -> Result<Output, Error> {
    let name = program.as_ref().to_string_lossy().into_owned();
    output_of(Command::new(&program).args(arguments), &name, timeout)
}

/// Runs what was prepared to its end, as [`run_for_output`] does; `name` is what errors call it.
///
/// # Errors
///
/// As [`run_for_output`].
pub fn output_of(command: Command, name: &str, timeout: Duration) -> Result<Output, Error> {
    let command = command.stdout(Stream::Piped).stderr(Stream::Piped);
    let program = || name.to_owned();
    // This thread waits for it, so that the child cannot outlive the thread that started it.
    let mut child = command.own_group().dies_with_parent(Signal::KILL).spawn()?;
    let mut streams = [Captured::from(child.take_stdout()), Captured::from(child.take_stderr())];
    let deadline_ns = monotonic_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    let exit = loop {
        let exit = child.try_wait()?;
        if let (Some(exit), true) = (exit, streams.iter().all(Captured::is_at_end)) {
            break exit;
        }
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Err(Error::NoAnswer { program: program(), timeout });
        }
        let running = exit.is_none().then(|| child.end_event());
        capture_more(&mut streams, running, Duration::from_nanos(left_ns))
            .map_err(|cause| Error::System { what: "read from a child process", cause })?;
        if streams.iter().any(|stream| stream.bytes.len() > OUTPUT_BYTES_MAX) {
            return Err(Error::TooMuchOutput { program: program(), bytes_max: OUTPUT_BYTES_MAX });
        }
    };
    let [stdout, stderr] = streams.map(|stream| String::from_utf8_lossy(&stream.bytes).into_owned());
    Ok(Output { exit, stdout, stderr })
}

/// One stream of a child: what came out of it, and its open end until it ends.
struct Captured {
    pipe: Option<File>,
    bytes: Vec<u8>,
}

impl Captured {
    fn from(pipe: Option<impl Into<OwnedFd>>) -> Self {
        Self { pipe: pipe.map(|pipe| File::from(pipe.into())), bytes: Vec::new() }
    }

    fn is_at_end(&self) -> bool {
        self.pipe.is_none()
    }

    /// Takes what there is; blocks when there is nothing.
    fn read_some(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Ok(()) };
        let mut buffer = [0; 1 << 14];
        match pipe.read(&mut buffer) {
            Ok(0) => self.pipe = None,
            Ok(count) => self.bytes.extend_from_slice(&buffer[..count]),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
        Ok(())
    }
}

/// Waits for output, for the end of a stream, or for the end of the child while it is `running`.
fn capture_more(
    streams: &mut [Captured],
    running: Option<BorrowedFd<'_>>,
    timeout: Duration,
) -> io::Result<()> {
    let pipes = streams.iter().filter_map(|stream| Some(stream.pipe.as_ref()?.as_fd()));
    let mut polled: Vec<PollFd<'_>> =
        pipes.chain(running).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    wait_readable(&mut polled, timeout)?;
    let is_ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
    let open = streams.iter_mut().filter(|stream| !stream.is_at_end());
    open.zip(is_ready).filter(|&(_, is_ready)| is_ready).try_for_each(|(stream, _)| stream.read_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn answer(script: &str, timeout: Duration) -> Result<Output, Error> {
        run_for_output("sh", ["-c", script], timeout)
    }

    #[test]
    fn both_streams_and_the_code_are_taken() {
        let output = answer("echo out; echo err >&2; exit 2", LONG).unwrap();
        let expected = Output { exit: Exit::Code(2), stdout: "out\n".to_owned(), stderr: "err\n".to_owned() };
        assert_eq!(output, expected);
    }

    #[test]
    fn more_than_a_pipe_holds_is_taken_whole() {
        let output = answer("head -c 300000 /dev/zero; head -c 200000 /dev/zero >&2", LONG).unwrap();
        assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 200_000));
    }

    #[test]
    fn what_a_program_leaves_in_its_group_does_not_delay_the_answer() {
        assert_eq!(answer("sleep 600 & echo done", LONG).unwrap().stdout, "done\n");
    }

    #[test]
    fn silence_and_floods_are_errors() {
        let timeout = Duration::from_millis(20);
        let message = answer("sleep 600", timeout).unwrap_err().to_string();
        assert_eq!(message, "get an answer from sh within 20ms");
        let message = answer("cat /dev/zero", LONG).unwrap_err().to_string();
        assert_eq!(message, "read the answer of sh: it wrote more than 1048576 bytes");
    }

    #[test]
    fn programs_are_found_by_name_and_by_path() {
        let sh = which("sh").unwrap();
        assert!(sh.is_absolute());
        assert_eq!(which(&sh), Some(sh));
        assert_eq!(which("no-such-program"), None);
        assert_eq!(which("/etc/passwd"), None);
        assert_eq!(which("/tmp"), None);
        assert_eq!(which(""), None);
    }
}
