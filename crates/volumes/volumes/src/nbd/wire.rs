//! The bytes of the transmission phase: requests in, replies out. Everything is big-endian.

use crate::volume::VolumeError;

/// The largest read or write: what clients may assume where nothing else was negotiated.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
pub(super) const REQUEST_BYTES: usize = 28;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Flags of a request.
pub(super) mod flag {
    /// Reply only when it is on disk.
    pub const FUA: u16 = 1;
    /// Zeroes must keep their space.
    pub const NO_HOLE: u16 = 1 << 1;
    /// A read's reply in one piece.
    pub const DF: u16 = 1 << 2;
}

/// The number of an error on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Io = 5,
    NoMemory = 12,
    Invalid = 22,
    NoSpace = 28,
    Overflow = 75,
    NotSupported = 95,
    Shutdown = 108,
}

impl From<&std::io::Error> for Refusal {
    fn from(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Self::NoSpace,
            std::io::ErrorKind::OutOfMemory => Self::NoMemory,
            std::io::ErrorKind::Unsupported => Self::NotSupported,
            _ => Self::Io,
        }
    }
}

impl Refusal {
    /// The number for a volume's error in the reply to a read, or to any other command.
    pub(super) fn from_fault(fault: &VolumeError, is_read: bool) -> Self {
        match fault {
            VolumeError::Offline => Self::Shutdown,
            VolumeError::Outside if is_read => Self::Invalid,
            VolumeError::Outside => Self::NoSpace,
            VolumeError::File(error) => Self::from(error),
        }
    }
}

/// The command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    /// Any other number.
    Unknown(u16),
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub command: Command,
    pub flags: u16,
    /// The client's name for it, sent back as it is.
    pub cookie: [u8; 8],
    pub offset: u64,
    pub length: u32,
}

impl Request {
    /// Reads a request; `None` where its magic is wrong, after which nothing on the connection can be trusted.
    pub(super) fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<4>()?;
        let (flags, rest) = rest.split_first_chunk::<2>()?;
        let (command, rest) = rest.split_first_chunk::<2>()?;
        let (cookie, rest) = rest.split_first_chunk::<8>()?;
        let (offset, rest) = rest.split_first_chunk::<8>()?;
        let length = rest.first_chunk::<4>()?;
        if u32::from_be_bytes(*magic) != REQUEST_MAGIC {
            return None;
        }
        let command = match u16::from_be_bytes(*command) {
            0 => Command::Read,
            1 => Command::Write,
            2 => Command::Disconnect,
            3 => Command::Flush,
            4 => Command::Trim,
            6 => Command::WriteZeroes,
            other => Command::Unknown(other),
        };
        Some(Self {
            command,
            flags: u16::from_be_bytes(*flags),
            cookie: *cookie,
            offset: u64::from_be_bytes(*offset),
            length: u32::from_be_bytes(*length),
        })
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// The head of a reply without data, for both forms of reply: at most 30 bytes and how many of them count.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    bytes: [u8; 32],
    length: usize,
}

impl Head {
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn joined(parts: &[&[u8]]) -> Self {
        let mut head = Self { bytes: [0; 32], length: 0 };
        for part in parts {
            head.bytes[head.length..head.length + part.len()].copy_from_slice(part);
            head.length += part.len();
        }
        head
    }

    /// A simple reply; data of a read follows it.
    pub(super) fn simple(cookie: [u8; 8], refusal: Option<Refusal>) -> Self {
        let code = refusal.map_or(0, |refusal| refusal as u32);
        Self::joined(&[&SIMPLE_REPLY_MAGIC.to_be_bytes(), &code.to_be_bytes(), &cookie])
    }

    fn chunk(flags: u16, kind: u16, cookie: [u8; 8], length: u32, payload: &[u8]) -> Self {
        let magic = STRUCTURED_REPLY_MAGIC.to_be_bytes();
        Self::joined(&[
            &magic,
            &flags.to_be_bytes(),
            &kind.to_be_bytes(),
            &cookie,
            &length.to_be_bytes(),
            payload,
        ])
    }

    /// The head of a chunk of data; `length` bytes from `offset` on follow it.
    pub(super) fn data(cookie: [u8; 8], offset: u64, length: u32, is_last: bool) -> Self {
        Self::chunk(u16::from(is_last), 1, cookie, length + 8, &offset.to_be_bytes())
    }

    /// The end of a structured reply to a read: nothing more, or an error.
    pub(super) fn end(cookie: [u8; 8], refusal: Option<Refusal>) -> Self {
        match refusal {
            None => Self::chunk(1, 0, cookie, 0, &[]),
            Some(refusal) => {
                let [a, b, c, d] = (refusal as u32).to_be_bytes();
                // No message: its length is 0.
                Self::chunk(1, 0x8001, cookie, 6, &[a, b, c, d, 0, 0])
            }
        }
    }
}
