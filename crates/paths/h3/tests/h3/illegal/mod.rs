//! Streams that no peer may send, by section of RFC 9114 or RFC 9204, with the fault and the code that each must give.
//!
//! The table uses only the crate's public parts, so that tests of a client or a server can include it by its path.

mod blocks;
mod control;
#[path = "../../../../h2/tests/h2/illegal/fields.rs"]
mod fields;
mod messages;
mod requests;

use plumb_h2::hpack::Field;
use plumb_h3::frame::{FrameKind, encode};
use plumb_h3::{ErrorCode, PeerFault, Side, StreamKind, qpack, varint};

pub use fields::{GET, OK};

/// One stream of the peer.
#[derive(Debug, Clone)]
pub struct Sent {
    /// Whether it is the stream of a request; otherwise it is unidirectional.
    pub is_request: bool,
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Whether the peer ends the stream after them.
    pub ends: bool,
}

/// Something that one side receives and must answer by an error.
#[derive(Debug)]
pub struct Case {
    /// The RFC and the section.
    pub section: (u16, &'static str),
    /// The side that receives it.
    pub side: Side,
    /// The streams of the peer, in their order. The fault is in the last one.
    pub streams: Vec<Sent>,
    /// How many bytes at the front of the last stream are legal.
    pub legal_bytes: usize,
    /// The fault that it must give.
    pub fault: PeerFault,
    /// The code that tells the peer.
    pub code: ErrorCode,
}

/// All cases.
pub fn all() -> Vec<Case> {
    let either = [Side::Server, Side::Client].into_iter().flat_map(|side| {
        [
            requests::either(side),
            blocks::either(side),
            control::either(side),
            control::settings_payloads(side),
        ]
    });
    let one = [messages::requests(), messages::responses(), control::server(), control::client()];
    either.chain(one).flatten().collect()
}

/// A case of one stream for a message. The last frame is the one that is illegal.
fn request(
    section: &'static str,
    side: Side,
    frames: &[Vec<u8>],
    fault: impl Into<PeerFault>,
    code: ErrorCode,
) -> Case {
    let legal_bytes = frames[..frames.len() - 1].concat().len();
    let sent = Sent { is_request: true, bytes: frames.concat(), ends: false };
    Case { section: (9114, section), side, streams: vec![sent], legal_bytes, fault: fault.into(), code }
}

/// A case of one stream for a message that ends too early.
fn ended(
    section: &'static str,
    side: Side,
    frames: &[Vec<u8>],
    fault: impl Into<PeerFault>,
    code: ErrorCode,
) -> Case {
    let mut case = request(section, side, &[frames, &[vec![]]].concat(), fault, code);
    case.streams[0].ends = true;
    case
}

/// A case of unidirectional streams. The last part of the last one is illegal.
fn unidirectional(
    section: (u16, &'static str),
    side: Side,
    streams: &[&[Vec<u8>]],
    fault: PeerFault,
    code: ErrorCode,
) -> Case {
    let legal_bytes = streams.last().map_or(0, |parts| parts[..parts.len() - 1].concat().len());
    let sent = |parts: &&[Vec<u8>]| Sent { is_request: false, bytes: parts.concat(), ends: false };
    Case { section, side, streams: streams.iter().map(sent).collect(), legal_bytes, fault, code }
}

pub fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::frame(kind, payload, &mut out);
    out
}

/// HEADERS with a field block of these names and values.
pub fn headers(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    qpack::encode(
        fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes())),
        &mut block,
    );
    frame(FrameKind::Headers, &block)
}

pub fn data(length: usize) -> Vec<u8> {
    frame(FrameKind::Data, &vec![0; length])
}

/// A number in as few bytes as it needs.
pub fn number(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::encode(value, &mut out);
    out
}

/// The beginning of a unidirectional stream.
pub fn begins(kind: StreamKind) -> Vec<u8> {
    number(kind.number())
}

pub fn settings(pairs: &[(u64, u64)]) -> Vec<u8> {
    let payload: Vec<u8> =
        pairs.iter().flat_map(|&(id, value)| [number(id), number(value)].concat()).collect();
    frame(FrameKind::Settings, &payload)
}

/// The head of a legal message to this side.
pub fn head(side: Side) -> Vec<u8> {
    match side {
        Side::Server => headers(&GET),
        Side::Client => headers(&OK),
    }
}
