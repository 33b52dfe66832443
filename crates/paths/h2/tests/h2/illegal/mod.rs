//! Input that no peer may send, by section of RFC 9113, with the error that it must give.
//!
//! The table uses only the crate's public parts, so that tests of a client can include it by its path and send the bytes over a socket.

mod fields;
mod frames;
mod messages;
mod streams;

use fields::{GET, OK};
use plumb_h2::connection::Side;
use plumb_h2::frame::{Flags, FrameKind, encode};
use plumb_h2::hpack::{Field, replayable};
use plumb_h2::{Error, PREFACE, PeerFault, Settings};

/// Something that one side receives and must answer by an error.
#[derive(Debug)]
pub struct Case {
    /// The section of RFC 9113.
    pub section: &'static str,
    /// The side that receives it. A client has asked for `GET /` on stream 1 before.
    pub side: Side,
    /// All that the peer sends. The last frame is the one that is illegal.
    pub bytes: Vec<u8>,
    /// The error that it must give.
    pub error: Error,
}

/// The settings of the side that receives.
pub const SETTINGS: Settings = Settings {
    header_table_size: 4096,
    enable_push: false,
    max_concurrent_streams: 2,
    initial_window_size: 40_000,
    max_frame_size: 1 << 14,
    max_header_list_size: 10_000,
};

/// All cases.
pub fn all() -> Vec<Case> {
    [
        frames::server(),
        frames::either(),
        streams::server(),
        streams::client(),
        messages::requests(),
        messages::responses(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The first bytes of a peer that does everything right.
fn beginning(side: Side) -> Vec<u8> {
    let mut bytes = if side == Side::Server { PREFACE.to_vec() } else { Vec::new() };
    encode::settings(&[], &mut bytes);
    encode::settings_ack(&mut bytes);
    bytes
}

fn case(section: &'static str, side: Side, sent: &[Vec<u8>], error: Error) -> Case {
    Case { section, side, bytes: [beginning(side), sent.concat()].concat(), error }
}

/// A case of a server.
fn to_server(section: &'static str, sent: &[Vec<u8>], error: Error) -> Case {
    case(section, Side::Server, sent, error)
}

/// A case of a client.
fn to_client(section: &'static str, sent: &[Vec<u8>], error: Error) -> Case {
    case(section, Side::Client, sent, error)
}

fn ends_connection(fault: PeerFault) -> Error {
    fault.on_connection()
}

fn ends_stream(fault: impl Into<PeerFault>) -> Error {
    fault.into().on_stream(1)
}

fn frame(kind: FrameKind, flags: Flags, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode::frame(kind, flags, stream, payload, &mut out);
    out
}

fn data(stream: u32, length: usize) -> Vec<u8> {
    frame(FrameKind::Data, Flags::NONE, stream, &vec![0; length])
}

fn last_data(stream: u32, length: usize) -> Vec<u8> {
    frame(FrameKind::Data, Flags::END_STREAM, stream, &vec![0; length])
}

fn window_update(stream: u32, increment: u32) -> Vec<u8> {
    frame(FrameKind::WindowUpdate, Flags::NONE, stream, &increment.to_be_bytes())
}

fn settings(id: u16, value: u32) -> Vec<u8> {
    let mut out = Vec::new();
    encode::settings(&[(id, value)], &mut out);
    out
}

fn reset(stream: u32) -> Vec<u8> {
    frame(FrameKind::RstStream, Flags::NONE, stream, &8_u32.to_be_bytes())
}

/// HEADERS with a field block of these names and values.
fn headers(stream: u32, flags: Flags, fields: &[(&str, &str)]) -> Vec<u8> {
    let fields = fields.iter().map(|(name, value)| Field::new(name.as_bytes(), value.as_bytes()));
    frame(FrameKind::Headers, flags | Flags::END_HEADERS, stream, &replayable(fields))
}

const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":path", "/"), (":authority", "a")];

/// A whole request.
fn get(stream: u32) -> Vec<u8> {
    headers(stream, Flags::END_STREAM, &GET)
}

/// The fields of a request with content.
fn post(stream: u32) -> Vec<u8> {
    headers(stream, Flags::NONE, &POST)
}

/// The fields of a response with content, on stream 1.
fn ok() -> Vec<u8> {
    headers(1, Flags::NONE, &OK)
}

/// These fields and more.
fn with<'f>(fields: &[(&'f str, &'f str)], more: &[(&'f str, &'f str)]) -> Vec<(&'f str, &'f str)> {
    [fields, more].concat()
}
