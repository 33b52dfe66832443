//! The control protocol: one JSON object a line over a TCP connection that began with a hello.
//!
//! Everything in it was written by another program, so a line has a length at most, and what is in it is checked before it
//! is used.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::options::Receive;
use crate::placement::SharedCpus;
use crate::settings::Test;

/// No line is longer.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A client's request to a server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub enum Request {
    /// Make ready for a test.
    Begin(Terms),
    /// Say when all flows are there.
    Join,
    /// Say the counters of now.
    Sample,
    /// The client sends no more: say what came when nothing more comes.
    Finish,
}

/// The terms of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Which one.
    pub test: Test,
    /// Bytes in a message.
    pub msg_size: u32,
    /// How many flows.
    pub flows: u32,
    /// How many messages are handed over at once.
    pub batch: u32,
    /// How a receiver waits for data that goes one way.
    pub receive: Receive,
    /// The CPUs that both ends share; each end is wherever it may if absent.
    #[serde(default)]
    pub shared_cpus: Option<SharedCpus>,
    /// Of each of the server's sockets.
    pub options: SocketTerms,
}

/// How sockets are to be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketTerms {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// SO_BUSY_POLL in microseconds; 0 leaves it alone.
    pub busy_poll_us: u32,
    /// SO_SNDBUF in bytes.
    pub send_buffer: Option<u32>,
    /// SO_RCVBUF in bytes.
    pub receive_buffer: Option<u32>,
}

/// A server's answer, one for each request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub enum Reply {
    /// Ready: flows may come under this token.
    Ready {
        /// It names the test in the flows' hellos.
        token: u64,
    },
    /// All flows are there.
    Joined,
    /// The counters of now.
    Counters(Counters),
    /// Everything that came, and how it was.
    Finished(Totals),
    /// It cannot be done.
    Refused {
        /// Why, as it completes "failed to …".
        reason: String,
        /// Whether somebody has to ask for something else, and nothing is broken.
        #[serde(default)]
        is_usage: bool,
    },
}

/// The server's counters at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// The moment on the server's own clock.
    pub at_ns: u64,
    /// Messages received.
    pub messages: u64,
    /// Bytes received.
    pub bytes: u64,
    /// CPU time of the server's process in user mode.
    pub cpu_user_ns: u64,
    /// CPU time of the server's process in the kernel.
    pub cpu_system_ns: u64,
    /// Softirq time of the server's host, all CPUs together.
    pub softirq_ns: u64,
}

/// The counts of a server in a whole test.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    /// Messages.
    pub messages: u64,
    /// Bytes.
    pub bytes: u64,
    /// Datagrams that came after one that was sent later; `None` where they carry no number.
    pub reordered: Option<u64>,
    /// Interarrival jitter in ns (RFC 3550, 6.4.1); `None` where datagrams carry no time.
    pub jitter_ns: Option<f64>,
    /// The smallest and the largest message.
    pub sizes: Option<(u64, u64)>,
    /// The options read back of the sockets, by property and value.
    pub observed: BTreeMap<String, BTreeMap<String, u64>>,
    /// The errors, by kind.
    pub errors: BTreeMap<String, u64>,
}

/// Writes a line.
///
/// # Errors
/// When the other end is gone.
pub fn write_line(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads a line; `None` at the end of the connection.
///
/// # Errors
/// When the connection fails, or the line is too long or none of this protocol.
pub fn read_line<T: DeserializeOwned>(from: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    let mut limited = io::Read::take(from, LINE_BYTES_MAX);
    limited.read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.last() != Some(&b'\n') {
        let what = if line.len() as u64 == LINE_BYTES_MAX { "too long a line" } else { "half a line" };
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    let message = serde_json::from_slice(&line);
    message.map(Some).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn terms() -> Terms {
        let options = SocketTerms { nodelay: true, receive_buffer: Some(4096), ..SocketTerms::default() };
        let shared_cpus = Some(SharedCpus { boot: "1f".to_owned(), cpus: vec![1] });
        Terms {
            test: Test::UdpBw,
            msg_size: 64,
            flows: 2,
            batch: 1,
            receive: Receive::Poll,
            shared_cpus,
            options,
        }
    }

    #[test]
    fn a_request_is_one_line_and_is_read_back() {
        let mut bytes = Vec::new();
        write_line(&mut bytes, &Request::Begin(terms())).unwrap();
        write_line(&mut bytes, &Request::Finish).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), 2);
        let mut reader = &bytes[..];
        assert_eq!(read_line(&mut reader).unwrap(), Some(Request::Begin(terms())));
        assert_eq!(read_line(&mut reader).unwrap(), Some(Request::Finish));
        assert_eq!(read_line::<Request>(&mut reader).unwrap(), None);
    }

    #[test]
    fn what_is_too_long_or_half_is_refused() {
        let mut long = vec![b' '; LINE_BYTES_MAX as usize + 9];
        assert_eq!(read_line::<Request>(&mut &long[..]).unwrap_err().to_string(), "too long a line");
        long.truncate(5);
        assert_eq!(read_line::<Request>(&mut &long[..]).unwrap_err().to_string(), "half a line");
    }

    proptest! {
        #[test]
        fn foreign_lines_are_errors_and_nothing_else(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = &bytes[..];
            // Every line is taken off, so that this ends.
            while let Ok(Some(_)) = read_line::<Request>(&mut reader) {}
            let mut reader = &bytes[..];
            while let Ok(Some(_)) = read_line::<Reply>(&mut reader) {}
        }

        #[test]
        fn a_changed_line_does_no_harm(at in 0..150_usize, to: u8) {
            let mut bytes = Vec::new();
            write_line(&mut bytes, &Request::Begin(terms())).unwrap();
            let at = at % bytes.len();
            bytes[at] = to;
            let _ = read_line::<Request>(&mut &bytes[..]);
        }
    }
}
