//! Reasons why a migration failed.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use plumb_path::PathError;

use super::packet::PacketError;
use plumb_codec::CodecError;
use plumb_codec::content::ContentError;

/// The reason why a migration failed. Each message completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// There is not enough memory.
    #[error("map {bytes} bytes of guest memory: {cause}")]
    Memory {
        /// The size.
        bytes: u64,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The content could not be made.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// No port is free.
    #[error("listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        cause: io::Error,
    },
    /// The destination cannot be reached.
    #[error("connect to the destination at {address}: {cause}")]
    Connect {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        cause: io::Error,
    },
    /// Encryption could not be set up.
    #[error("set up TLS: {0}")]
    Tls(String),
    /// The destination refuses this guest.
    #[error("take in the guest: {0}")]
    Refused(String),
    /// The codec could not be built.
    #[error("build the codec {name}: {cause}")]
    Build {
        /// The codec.
        name: String,
        /// Why.
        cause: CodecError,
    },
    /// A channel broke while sending.
    #[error("send packet {packet} on channel {channel}: {cause}")]
    Send {
        /// The channel, from 0.
        channel: u8,
        /// The packet, from 0.
        packet: u64,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A channel broke while receiving.
    #[error("receive packet {packet} on channel {channel}: {cause}")]
    Receive {
        /// The channel, from 0.
        channel: u8,
        /// The packet, from 0.
        packet: u64,
        /// The kernel's error.
        cause: io::Error,
    },
    /// A packet differs from the one that was sent.
    #[error("accept packet {packet} on channel {channel}: {cause}")]
    Packet {
        /// The channel, from 0.
        channel: u8,
        /// The packet, from 0.
        packet: u64,
        /// The mistake.
        cause: PacketError,
    },
    /// A packet is out of order, or arrives twice.
    #[error("accept packet {packet} on channel {channel}: {what}")]
    Order {
        /// The channel, from 0.
        channel: u8,
        /// The packet, from 0.
        packet: u64,
        /// The mistake.
        what: String,
    },
    /// The codec refuses a packet.
    #[error("code packet {packet} on channel {channel}: {cause}")]
    Code {
        /// The channel, from 0.
        channel: u8,
        /// The packet, from 0.
        packet: u64,
        /// The codec's error.
        cause: CodecError,
    },
    /// The control connection broke.
    #[error("talk to the {peer}: {reason}")]
    Control {
        /// `source` or `destination`.
        peer: &'static str,
        /// The way in which it broke.
        reason: String,
    },
    /// The other side gave up and said why.
    #[error("go on: the {peer} failed to {reason}")]
    Peer {
        /// `source` or `destination`.
        peer: &'static str,
        /// The peer's reason.
        reason: String,
    },
    /// The other side is gone.
    #[error("go on: the {peer} is gone")]
    Gone {
        /// `source` or `destination`.
        peer: &'static str,
    },
    /// This process was asked to stop.
    #[error("go on: it was interrupted")]
    Interrupted,
    /// An expected message did not arrive in time.
    #[error("go on: {what} did not come within {seconds} s")]
    Late {
        /// The expected message.
        what: String,
        /// The time limit.
        seconds: u64,
    },
    /// The other side is connected, but silent.
    #[error("go on: nothing came from the {peer} for {} s", silence.as_secs_f64())]
    Silent {
        /// `source` or `destination`.
        peer: &'static str,
        /// The length of the silence.
        silence: Duration,
    },
    /// The destination's memory differs from the source's.
    #[error(
        "move the memory: {wrong} of {regions} regions differ at the destination, the first from {first:#x} on"
    )]
    Mismatch {
        /// The number of regions that differ.
        wrong: usize,
        /// The number of regions.
        regions: usize,
        /// The offset of the first one that differs.
        first: u64,
    },
    /// The kernel refuses something that has no separate variant.
    #[error("{what}: {cause}")]
    Kernel {
        /// The refused action.
        what: &'static str,
        /// The kernel's error.
        cause: io::Error,
    },
    /// See [`plumb_host::Error`].
    #[error(transparent)]
    Host(#[from] plumb_host::Error),
}

impl MigrationError {
    pub(super) fn kernel(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::Kernel { what, cause }
    }
}

impl From<MigrationError> for PathError {
    fn from(error: MigrationError) -> Self {
        // The user names the content of memory.
        let is_usage =
            matches!(&error, MigrationError::Content(content) if *content != ContentError::Interrupted);
        if is_usage { Self::usage(error.to_string()) } else { Self::new(error.to_string()) }
    }
}
