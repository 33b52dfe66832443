//! Being asked to stop: Ctrl-C, SIGTERM, a closed terminal.
//!
//! SIGPIPE needs nothing here: Rust's runtime ignores it, so that a closed pipe is an error of the
//! write, and children get it back as it was.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use std::{fs, io, thread};

use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::Error;
use crate::time::monotonic_ns;

/// The exit code of a program that Ctrl-C ended, as shells have it: 128 + 2.
const INTERRUPTED_CODE: i32 = 130;

/// How often a wait checks whether this process was asked to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// The flag that signals set, once they are caught. Signals are the whole process's, and so is this.
static IS_INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

fn is_interrupted() -> &'static Arc<AtomicBool> {
    IS_INTERRUPTED.get_or_init(Arc::default)
}

/// The message of a process that a second Ctrl-C ends, and whether it is to be said now.
static LAST_WORDS: OnceLock<&str> = OnceLock::new();
static HAS_LAST_WORDS: AtomicBool = AtomicBool::new(false);

/// Sets what this process writes to its standard error if a second Ctrl-C ends it at once; `None` for nothing. The first words that
/// are ever set are those of the process.
pub fn set_last_words(words: Option<&'static str>) {
    if let Some(words) = words {
        LAST_WORDS.get_or_init(|| words);
    }
    HAS_LAST_WORDS.store(words.is_some(), Ordering::SeqCst);
}

/// For a handler: it takes no lock and allocates nothing.
fn say_last_words() {
    if let Some(words) = LAST_WORDS.get().filter(|_| HAS_LAST_WORDS.load(Ordering::SeqCst)) {
        let _ = rustix::io::write(io::stderr(), words.as_bytes());
    }
}

/// Whether this process was asked to stop, for waits that nobody gave an [`Interrupts`].
#[must_use]
pub fn was_asked_to_stop() -> bool {
    is_interrupted().load(Ordering::SeqCst)
}

/// Asks this process to stop, as a signal does. An agent calls it when its runner says so.
pub fn ask_to_stop() {
    is_interrupted().store(true, Ordering::SeqCst);
}

/// Runs work that may block for long, such as resolving a name, in a separate thread.
///
/// # Errors
/// When this process is asked to stop before the work is done, which goes on in its thread, or when no thread can be started.
pub fn unless_asked_to_stop<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (sender, done) = channel();
    thread::Builder::new().name("patient".to_owned()).spawn(move || sender.send(work()))?;
    loop {
        match done.recv_timeout(GLANCE) {
            Ok(result) => return Ok(result),
            Err(RecvTimeoutError::Timeout) if !was_asked_to_stop() => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(io::Error::new(io::ErrorKind::Interrupted, "it was interrupted"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("a thread ended early")),
        }
    }
}

/// Waits for a message for at most this long. If this process is asked to stop, the wait ends early, as if the time were over.
///
/// # Errors
/// When there was no message in time, or no more can come.
pub fn receive_unless_asked_to_stop<T>(from: &Receiver<T>, timeout: Duration) -> Result<T, RecvTimeoutError> {
    let end_ns = monotonic_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX));
    while !was_asked_to_stop() {
        let left = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
        match from.recv_timeout(left.min(GLANCE)) {
            Err(RecvTimeoutError::Timeout) if left > GLANCE => {}
            received => return received,
        }
    }
    Err(RecvTimeoutError::Timeout)
}

/// Whether this process was asked to stop, from [`Interrupts::install`] to the process's end.
///
/// As a descriptor it becomes readable when it was, and stays so: event loops may watch it together
/// with everything else.
#[derive(Debug)]
pub struct Interrupts {
    is_interrupted: Arc<AtomicBool>,
    readable_when_interrupted: OwnedFd,
}

impl Interrupts {
    /// Turns SIGINT, SIGTERM and SIGHUP from ends of this process into requests to stop.
    ///
    /// A SIGINT after any of them ends the process at once with code 130: who presses Ctrl-C twice
    /// does not want to wait. A SIGHUP that was ignored from the start stays ignored, which is what
    /// `nohup` is for. There is no way back; it is meant to be called once, early in `main`.
    ///
    /// # Errors
    ///
    /// When there is no descriptor left or the kernel refuses a handler.
    pub fn install() -> Result<Self, Error> {
        Self::try_install()
            .map_err(|cause| Error::System { what: "catch the signals that end a program", cause })
    }

    fn try_install() -> io::Result<Self> {
        let is_interrupted = Arc::clone(is_interrupted());
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Before the flag's setter: handlers run in order, and the first SIGINT must not see its own flag.
        let is_second = Arc::clone(&is_interrupted);
        let leave = move || {
            if is_second.load(Ordering::SeqCst) {
                say_last_words();
                low_level::exit(INTERRUPTED_CODE);
            }
        };
        // SAFETY: the handler loads an atomic, writes and exits (_exit(2)), which handlers may do (signal-safety(7)).
        unsafe { low_level::register(SIGINT, leave) }?;
        let is_hangup_ignored =
            fs::read_to_string("/proc/self/status").is_ok_and(|status| is_ignored(&status, SIGHUP));
        let hangup = (!is_hangup_ignored).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            flag::register(signal, Arc::clone(&is_interrupted))?;
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        Ok(Self { is_interrupted, readable_when_interrupted: reader })
    }

    /// Whether this process was asked to stop.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::SeqCst)
    }
}

impl AsFd for Interrupts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.readable_when_interrupted.as_fd()
    }
}

/// Whether `signal` is in the mask of ignored signals of `/proc/PID/status` (proc_pid_status(5)).
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    // Bit 0 is signal 1.
    u32::try_from(signal - 1)
        .ok()
        .and_then(|bit| mask.checked_shr(bit))
        .is_some_and(|shifted| shifted & 1 == 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        let status = "Name:\tplumb\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(is_ignored(status, libc::SIGPIPE));
        assert!(!is_ignored(status, SIGINT));
        assert!(!is_ignored("", SIGHUP));
        assert!(!is_ignored("SigIgn:\tx\n", SIGHUP));
    }

    #[test]
    fn a_process_that_is_asked_to_stop_waits_for_nothing() {
        assert_eq!(unless_asked_to_stop(|| 7).unwrap(), 7);
        let (release, held) = channel::<()>();
        let (sender, from) = channel();
        sender.send(7).unwrap();
        assert_eq!(receive_unless_asked_to_stop(&from, Duration::ZERO), Ok(7));
        ask_to_stop();
        let received = receive_unless_asked_to_stop(&from, Duration::from_secs(600));
        assert_eq!(received, Err(RecvTimeoutError::Timeout));
        let error = unless_asked_to_stop(move || held.recv()).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::Interrupted, "it was interrupted")
        );
        drop(release);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(mask in ".*", signal: i32) {
            is_ignored(&format!("SigIgn:{mask}"), signal.max(1));
        }
    }
}
