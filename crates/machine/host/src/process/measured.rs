//! One run of a program from just before its start to its end: how long it took, what it used and what it wrote.
//!
//! The clock starts right before the program is started, and stops when the kernel reports its end, before it is reaped. What
//! it writes comes through pipes whose other ends stay open here: were the program's the last, closing them would wake this
//! process while the program is still ending.

use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::ioctl_fionbio;
use rustix::pipe::{PipeFlags, pipe_with};

use super::child::wait_readable;
use super::{Child, Command, Exit, Stream, Usage};
use crate::Error;
use crate::time::monotonic_ns;

/// How much is read at a time: what a pipe holds.
const READ_BYTES: usize = 1 << 16;
/// How often a pipe is read after the program's end. A descendant that lives on could write for ever.
const LAST_READS_MAX: usize = 64;
/// How often the caller is called while the program runs.
const TICK: Duration = Duration::from_millis(250);

/// The part of a stream that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: the stream leads nowhere.
    Nothing,
    /// The last bytes, this many.
    Tail(usize),
    /// The first bytes, this many.
    Head(usize),
}

/// The bytes that a program wrote to a stream, as far as they were kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether there were more.
    pub is_cut: bool,
}

/// How much a run wrote, with the descendants that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenBytes {
    /// All bytes that it handed to the kernel: to files, pipes, sockets and devices such as `/dev/null`.
    pub all: u64,
    /// Those that go to disks. A file in memory has none.
    pub to_disk: u64,
}

impl WrittenBytes {
    /// The bytes written so far by a process that has not been reaped; `None` where the kernel does not count it.
    fn by_process(pid: u32) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let number = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": ")?.parse().ok())
        };
        let to_disk = number("write_bytes")?.saturating_sub(number("cancelled_write_bytes")?);
        Some(Self { all: number("wchar")?, to_disk })
    }
}

/// A run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub exit: Exit,
    /// Whether it was killed, because its time was up or `while_running` ended it.
    pub is_overdue: bool,
    /// How long it took, in ns.
    pub wall_ns: u64,
    /// The resources that it used.
    pub usage: Usage,
    /// How much it wrote; `None` where that is not known.
    pub wrote: Option<WrittenBytes>,
    /// The standard output.
    pub stdout: Written,
    /// The standard error.
    pub stderr: Written,
}

/// Runs a program to its end in a separate process group, of which nothing is left afterwards. `while_running` is called some
/// times a second with its pid, and ends the program with `Break`.
///
/// # Errors
///
/// When it cannot be started, or the kernel refuses to tell of its end. A program that does not end within `timeout`, or that
/// `while_running` ends, is killed, which is not an error.
pub fn run_measured(
    command: Command,
    (stdout, stderr): (Keep, Keep),
    timeout: Duration,
    while_running: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Finished, Error> {
    let captures = [stdout, stderr].map(Capture::new);
    let [mut stdout, mut stderr] = captures;
    let command = command.stdout(stdout.stream()?).stderr(stderr.stream()?);
    let mut child = command.own_group().spawn_unlogged()?;
    let ended_ns = follow(&child, [&mut stdout, &mut stderr], timeout, while_running)?;
    let wrote = ended_ns.and_then(|_| WrittenBytes::by_process(child.pid()));
    let exit = if ended_ns.is_some() { child.wait()? } else { child.kill()? };
    let wall_ns = ended_ns.unwrap_or_else(monotonic_ns).saturating_sub(child.started_ns());
    Ok(Finished {
        exit,
        is_overdue: ended_ns.is_none(),
        wall_ns,
        usage: child.usage().unwrap_or_default(),
        wrote,
        stdout: stdout.finish()?,
        stderr: stderr.finish()?,
    })
}

/// Reads what the child writes until it ends, and returns that moment; `None` if it is to be killed before.
fn follow(
    child: &Child,
    mut captures: [&mut Capture; 2],
    timeout: Duration,
    while_running: &mut dyn FnMut(u32) -> ControlFlow<()>,
) -> Result<Option<u64>, Error> {
    let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
    let deadline_ns = child.started_ns().saturating_add(timeout_ns);
    loop {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns());
        if left_ns == 0 {
            return Ok(None);
        }
        let pipes = captures.iter().filter_map(|capture| capture.pipe.as_ref());
        let descriptors = std::iter::once(child.end_event()).chain(pipes.map(|pipe| pipe.reader.as_fd()));
        let mut polled: Vec<PollFd<'_>> =
            descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        wait_readable(&mut polled, Duration::from_nanos(left_ns).min(TICK))
            .map_err(|cause| Error::Wait { pid: child.pid(), cause })?;
        if !polled[0].revents().is_empty() {
            return Ok(Some(monotonic_ns()));
        }
        drop(polled);
        for capture in &mut captures {
            capture.take_written(1)?;
        }
        if while_running(child.pid()).is_break() {
            return Ok(None);
        }
    }
}

/// A stream of the child, as far as it is kept.
struct Capture {
    keep: Keep,
    pipe: Option<Pipe>,
    written: Written,
}

struct Pipe {
    /// It does not block.
    reader: File,
    /// See the module.
    _writer: OwnedFd,
}

impl Capture {
    fn new(keep: Keep) -> Self {
        Self { keep, pipe: None, written: Written::default() }
    }

    /// The child's end.
    fn stream(&mut self) -> Result<Stream, Error> {
        if self.keep == Keep::Nothing {
            return Ok(Stream::Null);
        }
        let open = || -> io::Result<(OwnedFd, OwnedFd, OwnedFd)> {
            let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
            ioctl_fionbio(&reader, true)?;
            let childs = writer.try_clone()?;
            Ok((reader, writer, childs))
        };
        let failed = |cause| Error::System { what: "make a pipe for a child process", cause };
        let (reader, writer, childs) = open().map_err(failed)?;
        self.pipe = Some(Pipe { reader: reader.into(), _writer: writer });
        Ok(Stream::File(childs.into()))
    }

    /// Takes what there is, in at most this many readings.
    fn take_written(&mut self, readings_max: usize) -> Result<(), Error> {
        let Some(Pipe { reader, .. }) = &mut self.pipe else { return Ok(()) };
        let mut buffer = [0; READ_BYTES];
        for _ in 0..readings_max {
            match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.written.add(&buffer[..count], self.keep),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => break,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::System { what: "read from a child process", cause }),
            }
        }
        Ok(())
    }

    /// What is still in the pipe belongs to the run, too.
    fn finish(mut self) -> Result<Written, Error> {
        self.take_written(LAST_READS_MAX)?;
        if let Keep::Tail(bytes_max) = self.keep {
            let surplus = self.written.bytes.len().saturating_sub(bytes_max);
            self.written.bytes.drain(..surplus);
            self.written.is_cut |= surplus > 0;
        }
        Ok(self.written)
    }
}

impl Written {
    fn add(&mut self, bytes: &[u8], keep: Keep) {
        match keep {
            Keep::Nothing => {}
            Keep::Head(bytes_max) => {
                let room = bytes_max.saturating_sub(self.bytes.len()).min(bytes.len());
                self.bytes.extend_from_slice(&bytes[..room]);
                self.is_cut |= room < bytes.len();
            }
            Keep::Tail(bytes_max) => {
                self.bytes.extend_from_slice(bytes);
                // Some at a time, because moving the rest to the front takes time as well.
                if self.bytes.len() > 2 * bytes_max + READ_BYTES {
                    self.bytes.drain(..self.bytes.len() - bytes_max);
                    self.is_cut = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::which;

    const LONG: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Command {
        Command::new(which("sh").unwrap()).args(["-c", script])
    }

    fn run(script: &str, keep: (Keep, Keep)) -> Finished {
        run_measured(shell(script), keep, LONG, &mut |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn a_run_is_timed_and_its_exit_and_streams_are_known() {
        let keep = (Keep::Head(100), Keep::Tail(100));
        let finished = run("echo out; echo err >&2; sleep 0.02; exit 7", keep);
        assert_eq!(finished.exit, Exit::Code(7));
        assert!(finished.wall_ns >= 20_000_000 && !finished.is_overdue, "{finished:?}");
        assert_eq!((&finished.stdout.bytes[..], &finished.stderr.bytes[..]), (&b"out\n"[..], &b"err\n"[..]));
        assert!(!finished.stdout.is_cut && !finished.stderr.is_cut);
        assert!(finished.usage.page_faults > 0);
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("file");
        let script = format!(
            "head -c 100000 /dev/zero | cat > {}; head -c 50000 /dev/zero > /dev/null",
            file.display()
        );
        if let Some(wrote) = run(&script, (Keep::Nothing, Keep::Nothing)).wrote {
            assert!((250_000..260_000).contains(&wrote.all) && wrote.to_disk <= wrote.all, "{wrote:?}");
        }
        assert_eq!(run("echo out", (Keep::Nothing, Keep::Nothing)).stdout, Written::default());
    }

    #[test]
    fn of_much_output_the_head_or_the_tail_is_kept() {
        let script = "seq 1 200000; seq 1 200000 >&2";
        let finished = run(script, (Keep::Head(1000), Keep::Tail(1000)));
        assert!(finished.stdout.bytes.starts_with(b"1\n2\n3\n") && finished.stdout.is_cut);
        assert!(finished.stderr.bytes.ends_with(b"199999\n200000\n") && finished.stderr.is_cut);
        assert_eq!((finished.stdout.bytes.len(), finished.stderr.bytes.len()), (1000, 1000));
        let whole = run("seq 1 20000", (Keep::Head(1 << 20), Keep::Nothing));
        assert!(whole.stdout.bytes.ends_with(b"20000\n") && !whole.stdout.is_cut);
    }

    #[test]
    fn a_run_that_may_not_go_on_is_killed_with_its_group() {
        let mut ticks = 0;
        let keep = (Keep::Head(100), Keep::Nothing);
        let mut while_running = |_| {
            ticks += 1;
            if ticks < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let finished =
            run_measured(shell("sleep 600 & echo $!; wait"), keep, LONG, &mut while_running).unwrap();
        assert_eq!((finished.exit, finished.is_overdue), (Exit::Signal(libc::SIGKILL), true));
        assert_eq!(ticks, 3);
        let pid: u32 = String::from_utf8(finished.stdout.bytes).unwrap().trim().parse().unwrap();
        let is_there = || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
            status.is_ok_and(|status| !status.contains("State:\tZ"))
        };
        while is_there() {
            crate::time::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_run_that_does_not_end_in_time_is_killed() {
        let keep = (Keep::Nothing, Keep::Nothing);
        let timeout = Duration::from_millis(50);
        let finished =
            run_measured(shell("sleep 600"), keep, timeout, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((finished.exit, finished.is_overdue), (Exit::Signal(libc::SIGKILL), true));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let command = Command::new("/no/such/program");
        let failed =
            run_measured(command, (Keep::Nothing, Keep::Nothing), LONG, &mut |_| ControlFlow::Continue(()));
        assert!(failed.unwrap_err().to_string().starts_with("start /no/such/program: "));
    }
}
