//! Messages between source and destination on the control connection: one JSON object a line.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use plumb_codec::{CodecCounters, CodecSettings};

/// The most regions in which a memory is hashed.
pub const REGIONS_MAX: u64 = 4096;
/// The longest line of a source.
pub const SOURCE_LINE_BYTES_MAX: usize = 4096;
/// The longest line of a destination: the digests of all regions, of 32 digits each.
pub const DESTINATION_LINE_BYTES_MAX: usize = 64 * REGIONS_MAX as usize;

/// The form of the pages on the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carry {
    /// Packets.
    Packets,
    /// Memory without any protocol, in equal parts on all channels. This is the most that the two processes can move.
    Stream,
}

/// A message of a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum FromSource {
    /// Begins a migration.
    Setup {
        /// Names the migration in its channels' hellos.
        token: u64,
        /// The size of the memory in bytes.
        memory_bytes: u64,
        /// The number of channels.
        channels: u8,
        /// The codec that compresses the pages.
        codec: CodecSettings,
        /// The form of the pages on the channels.
        carry: Carry,
        /// Whether all pages of the memory must exist before the destination is ready.
        prefault: bool,
    },
    /// Everything was sent, and the guest is to run at the destination.
    Complete,
    /// Asks for the hashes of the memory.
    Compare {
        /// The hash's key.
        key: u64,
        /// The size of a region.
        region_bytes: u64,
    },
    /// The destination may free the memory.
    Release,
}

/// A message of a destination.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "say")]
pub enum FromDestination {
    /// The channels may connect.
    Ready {
        /// The time that it took to make the memory's pages, in ns.
        prefault_ns: u64,
    },
    /// Everything has arrived, and the guest runs here.
    Running {
        /// The work of this side.
        report: Received,
    },
    /// The hash of every region, in hexadecimal.
    Digests {
        /// A hash for each region.
        digests: Vec<String>,
    },
    /// The destination cannot go on.
    Failed {
        /// The reason, which completes "failed to …".
        reason: String,
    },
}

/// The work of a destination in one migration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// CPU time in user mode.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel.
    pub cpu_system_ns: u64,
    /// Bytes from the channels' sockets, by the kernel's count.
    pub wire_bytes: u64,
    /// Packets by channel.
    pub packets: Vec<u64>,
    /// Pages with content.
    pub pages: u64,
    /// Pages of zeros.
    pub zero_pages: u64,
    /// Packets that were compressed.
    pub compressed_packets: u64,
    /// Packets whose content was not compressed.
    pub raw_packets: u64,
    /// The counters of the codec that restored the compressed ones.
    pub codec: CodecCounters,
    /// The number of channels by their kind of encryption, in words.
    pub channels: BTreeMap<String, u64>,
}

/// Writes one message.
///
/// # Errors
/// When the connection is closed or broken.
pub fn write<T: Serialize>(stream: &mut impl Write, message: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// Reads messages.
#[derive(Debug)]
pub struct Messages<R> {
    reader: BufReader<R>,
    /// The part of a line that has arrived.
    line: Vec<u8>,
    line_bytes_max: usize,
}

impl<R: Read> Messages<R> {
    /// Reads the messages of a connection, whose lines have at most this many bytes.
    pub fn new(stream: R, line_bytes_max: usize) -> Self {
        Self { reader: BufReader::new(stream), line: Vec::new(), line_bytes_max }
    }

    /// The next message; `None` at the end of the connection. After a timeout of the connection, reading goes on where it stopped.
    ///
    /// # Errors
    /// When the connection breaks, or a line is not a message.
    pub fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let room = self.line_bytes_max.saturating_sub(self.line.len());
        self.reader.by_ref().take(room as u64).read_until(b'\n', &mut self.line)?;
        let line = std::mem::take(&mut self.line);
        if line.last() != Some(&b'\n') {
            return match line.len() {
                0 => Ok(None),
                bytes if bytes >= self.line_bytes_max => {
                    Err(io::Error::other(format!("a line is longer than {bytes} bytes")))
                }
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        serde_json::from_slice(&line).map(Some).map_err(io::Error::other)
    }
}
