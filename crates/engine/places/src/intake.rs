//! Limits on what other processes send: the length of a line, and the bytes that wait for a reader.
//!
//! An agent or another host may be damaged or hostile. It must not fill the memory of the process that reads its
//! lines. So reading stops at the first excess, and the link reports that excess as the reason.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::string::FromUtf8Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The longest line that is read. The longest legitimate line carries a slot's measurement, and a run directory
/// accepts at most 16 MiB for a slot (`plumb_store`).
pub(super) const LINE_BYTES_MAX: usize = 16 << 20;
/// The longest prefix that a keeper puts before an agent's line.
pub(super) const PREFIX_BYTES_MAX: usize = 16;
/// The most bytes that may wait for a reader: four of the longest lines.
const WAITING_BYTES_MAX: usize = 4 * LINE_BYTES_MAX;
/// An upper bound on the memory that a waiting line takes besides its bytes.
const BYTES_PER_LINE: usize = 256;

/// The limit that a process exceeded. Its text completes "it …".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// A line is too long.
    Line,
    /// Too many bytes wait for a reader.
    Waiting,
}

impl fmt::Display for Excess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line => write!(formatter, "sent a line of more than {} MiB", LINE_BYTES_MAX >> 20),
            Self::Waiting => {
                write!(formatter, "sent more than {} MiB without being asked", WAITING_BYTES_MAX >> 20)
            }
        }
    }
}

#[derive(Debug, Default)]
struct Counts {
    waiting_bytes: AtomicUsize,
    excess: OnceLock<Excess>,
}

/// The limits on one process's output, shared by the thread that reads it and the link.
#[derive(Debug, Clone, Default)]
pub(super) struct Intake(Arc<Counts>);

impl Intake {
    /// The lines of an output without their line breaks. They end with the output or at a line that is too long.
    pub(super) fn lines<R: Read>(
        &self,
        output: R,
        bytes_max: usize,
    ) -> impl Iterator<Item = String> + use<R> {
        let (mut reader, intake) = (BufReader::new(output), self.clone());
        std::iter::from_fn(move || {
            let mut line = Vec::new();
            let read = (&mut reader).take(bytes_max as u64 + 1).read_until(b'\n', &mut line);
            if read.ok()? == 0 {
                return None;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if line.len() > bytes_max {
                intake.refuse(Excess::Line);
                return None;
            }
            let lossy = |error: FromUtf8Error| String::from_utf8_lossy(error.as_bytes()).into_owned();
            Some(String::from_utf8(line).unwrap_or_else(lossy))
        })
    }

    /// Counts a line as waiting until the result is dropped; `None` if too much waits already.
    pub(super) fn hold(&self, line: &str) -> Option<Held> {
        let bytes = line.len() + BYTES_PER_LINE;
        let held = Held { bytes, counts: Arc::clone(&self.0) };
        let before = self.0.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before + bytes <= WAITING_BYTES_MAX {
            return Some(held);
        }
        self.refuse(Excess::Waiting);
        None
    }

    /// Why the reading ended, if the process sent too much.
    pub(super) fn excess(&self) -> Option<Excess> {
        self.0.excess.get().copied()
    }

    fn refuse(&self, excess: Excess) {
        // Only the first excess counts, because it ended the reading.
        let _ = self.0.excess.set(excess);
    }
}

/// The count of one waiting line; dropping it ends the wait.
#[derive(Debug)]
pub(super) struct Held {
    bytes: usize,
    counts: Arc<Counts>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.counts.waiting_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Endless output that counts the bytes read from it.
    struct Endless<'c>(&'c AtomicUsize);

    impl Read for Endless<'_> {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            bytes.fill(b'x');
            self.0.fetch_add(bytes.len(), Ordering::Relaxed);
            Ok(bytes.len())
        }
    }

    #[test]
    fn an_endless_line_ends_the_reading_at_the_limit() {
        let (intake, read) = (Intake::default(), AtomicUsize::new(0));
        assert_eq!(intake.lines(Endless(&read), LINE_BYTES_MAX).next(), None);
        assert_eq!(intake.excess().unwrap().to_string(), "sent a line of more than 16 MiB");
        assert!(read.load(Ordering::Relaxed) < LINE_BYTES_MAX + (64 << 10));
    }

    #[test]
    fn a_line_of_the_longest_length_is_whole() {
        let intake = Intake::default();
        let lines: Vec<String> = intake.lines(&b"12345\n\n\xff\n123"[..], 5).collect();
        assert_eq!(lines, ["12345", "", "\u{fffd}", "123"]);
        assert_eq!(intake.excess(), None);
        assert_eq!(intake.lines(&b"1\n123456\n2\n"[..], 5).collect::<Vec<_>>(), ["1"]);
        assert_eq!(intake.excess(), Some(Excess::Line));
    }

    #[test]
    fn lines_that_nobody_takes_are_too_many_at_some_point() {
        let (intake, line) = (Intake::default(), "x".repeat(1 << 20));
        for _ in 0..200 {
            assert!(intake.hold(&line).is_some(), "each is taken at once");
        }
        let held: Vec<Held> = std::iter::from_fn(|| intake.hold(&line)).collect();
        assert_eq!(held.len(), 63);
        assert_eq!(intake.excess().unwrap().to_string(), "sent more than 64 MiB without being asked");
    }
}
