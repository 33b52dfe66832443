//! Frames that are wrong by themselves or at their place: sections 3, 4, 6 and 10.

use plumb_h2::coding::CodingFault;
use plumb_h2::connection::{Limits, Side};
use plumb_h2::frame::{Flags, FrameKind};
use plumb_h2::{PREFACE, PeerFault};

use super::*;

/// Cases that only servers can receive.
pub fn server() -> Vec<Case> {
    let limits = Limits::default();
    let raw = |bytes: &[u8], fault: PeerFault| Case {
        section: "3.4",
        side: Side::Server,
        bytes: bytes.to_vec(),
        error: ends_connection(fault),
    };
    let rapid =
        (0..=limits.resets_max).flat_map(|at| [get(2 * at + 1), reset(2 * at + 1)]).collect::<Vec<_>>();
    let padded =
        |kind, payload: &[u8]| [post(1), frame(kind, Flags::PADDED | Flags::END_HEADERS, 1, payload)];
    vec![
        raw(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", PeerFault::NoPreface),
        raw(b"PRI * HTTP/2.0\r\n\r\nSN", PeerFault::NoPreface),
        raw(
            &[&PREFACE[..], &frame(FrameKind::Ping, Flags::NONE, 0, &[0; 8])].concat(),
            PeerFault::SettingsNotFirst,
        ),
        raw(
            &[&PREFACE[..], &frame(FrameKind::Settings, Flags::ACK, 0, &[])].concat(),
            PeerFault::SettingsNotFirst,
        ),
        to_server("4.2", &[post(1), data(1, (1 << 14) + 1)], ends_connection(PeerFault::FrameTooLarge)),
        to_server(
            "6.1",
            &padded(FrameKind::Data, &[]),
            ends_connection(PeerFault::FrameLength(FrameKind::Data)),
        ),
        to_server("6.1", &padded(FrameKind::Data, &[3, 0, 0]), ends_connection(PeerFault::Padding)),
        to_server("6.2", &padded(FrameKind::Headers, &[2, 0]), ends_connection(PeerFault::Padding)),
        to_server(
            "6.2",
            &[frame(FrameKind::Headers, Flags::PADDED | Flags::PRIORITY, 1, &[1, 0, 0, 0, 0, 0])],
            ends_connection(PeerFault::Padding),
        ),
        to_server("6.5.2", &[settings(2, 2)], ends_connection(PeerFault::EnablePush)),
        to_server(
            "8.4",
            &[get(1), frame(FrameKind::PushPromise, Flags::END_HEADERS, 1, &[0, 0, 0, 2, 0x82])],
            ends_connection(PeerFault::Push),
        ),
        to_server("10.5", &rapid, ends_connection(PeerFault::Flood(FrameKind::RstStream))),
        to_server(
            "10.5",
            &[vec![post(1)], vec![data(1, 0); limits.idle_frames_max as usize + 1]].concat(),
            ends_connection(PeerFault::Flood(FrameKind::Data)),
        ),
    ]
}

/// Cases that both sides can receive. A client has a stream 1, and a server gets one where that matters.
pub fn either() -> Vec<Case> {
    [Side::Server, Side::Client]
        .into_iter()
        .flat_map(|side| [sizes(side), places(side), blocks(side), values(side), windows(side), floods(side)])
        .flatten()
        .collect()
}

/// A stream 1 that is open on the side that receives.
fn stream(side: Side) -> Vec<u8> {
    if side == Side::Server { post(1) } else { Vec::new() }
}

/// Lengths that a kind of frame cannot have.
fn sizes(side: Side) -> Vec<Case> {
    let wrong = |section, kind, stream_id, length: usize| {
        let frame = frame(kind, Flags::NONE, stream_id, &vec![0; length]);
        case(section, side, &[stream(side), frame], ends_connection(PeerFault::FrameLength(kind)))
    };
    let priority = |length: usize| {
        let frame = frame(FrameKind::Priority, Flags::NONE, 1, &vec![0; length]);
        case("6.3", side, &[stream(side), frame], ends_stream(PeerFault::FrameLength(FrameKind::Priority)))
    };
    let short = frame(FrameKind::Headers, Flags::PRIORITY | Flags::END_HEADERS, 1, &[0; 4]);
    let ack = frame(FrameKind::Settings, Flags::ACK, 0, &[0; 6]);
    let large = frame(FrameKind::Unknown(99), Flags::NONE, 0, &vec![0; (1 << 14) + 1]);
    vec![
        case("4.2", side, &[large], ends_connection(PeerFault::FrameTooLarge)),
        case("6.2", side, &[short], ends_connection(PeerFault::FrameLength(FrameKind::Headers))),
        priority(4),
        priority(6),
        wrong("6.4", FrameKind::RstStream, 1, 3),
        wrong("6.4", FrameKind::RstStream, 1, 5),
        case("6.5", side, &[ack], ends_connection(PeerFault::FrameLength(FrameKind::Settings))),
        wrong("6.5", FrameKind::Settings, 0, 5),
        wrong("6.7", FrameKind::Ping, 0, 7),
        wrong("6.7", FrameKind::Ping, 0, 9),
        wrong("6.8", FrameKind::GoAway, 0, 7),
        wrong("6.9", FrameKind::WindowUpdate, 0, 3),
        wrong("6.9", FrameKind::WindowUpdate, 1, 5),
    ]
}

/// Frames of streams on stream 0, and the reverse.
fn places(side: Side) -> Vec<Case> {
    let on_zero = |section, kind, payload: &[u8]| {
        let frame = frame(kind, Flags::END_HEADERS, 0, payload);
        case(section, side, &[frame], ends_connection(PeerFault::OnStreamZero(kind)))
    };
    let on_one = |section, kind, payload: &[u8]| {
        let frame = frame(kind, Flags::NONE, 1, payload);
        case(section, side, &[stream(side), frame], ends_connection(PeerFault::NotOnStreamZero(kind)))
    };
    vec![
        on_zero("6.1", FrameKind::Data, b"x"),
        on_zero("6.2", FrameKind::Headers, &[0x82]),
        on_zero("6.3", FrameKind::Priority, &[0; 5]),
        on_zero("6.4", FrameKind::RstStream, &[0; 4]),
        on_zero("6.6", FrameKind::PushPromise, &[0, 0, 0, 2]),
        on_one("6.5", FrameKind::Settings, &[]),
        on_one("6.7", FrameKind::Ping, &[0; 8]),
        on_one("6.8", FrameKind::GoAway, &[0; 8]),
    ]
}

/// Field blocks: their order and their coding.
fn blocks(side: Side) -> Vec<Case> {
    let begun = || frame(FrameKind::Headers, Flags::NONE, 1, &[]);
    let within = |frame: Vec<u8>| {
        case("4.3", side, &[begun(), frame], ends_connection(PeerFault::ContinuationMissing))
    };
    let coded = |block: &[u8], fault| {
        let headers = frame(FrameKind::Headers, Flags::END_HEADERS, 1, block);
        case("4.3", side, &[headers], ends_connection(fault))
    };
    let continuation = |stream| frame(FrameKind::Continuation, Flags::NONE, stream, &[]);
    let pieces = vec![continuation(1); Limits::default().block_frames_max as usize];
    let whole = frame(FrameKind::Continuation, Flags::NONE, 1, &[0; 1 << 14]);
    vec![
        within(frame(FrameKind::Ping, Flags::NONE, 0, &[0; 8])),
        within(frame(FrameKind::Unknown(99), Flags::NONE, 1, &[])),
        within(get(3)),
        within(begun()),
        within(continuation(3)),
        within(data(1, 1)),
        case("6.10", side, &[continuation(1)], ends_connection(PeerFault::ContinuationUnexpected)),
        case("6.10", side, &[continuation(0)], ends_connection(PeerFault::ContinuationUnexpected)),
        coded(&[0x80], PeerFault::NoSuchIndex),
        coded(&[0xff, 0x80, 0x80, 0x80, 0x80, 0x80, 0], CodingFault::Integer.into()),
        coded(&[0x82, 0x41, 5, b'a'], CodingFault::Truncated.into()),
        coded(&[0x41, 0x81, 0xff], CodingFault::Huffman.into()),
        coded(&[0x3f, 0xe2, 0x1f], PeerFault::TableSizeTooLarge),
        coded(&[0x82, 0x20], PeerFault::TableSizeLate),
        case("10.5.1", side, &[vec![begun()], pieces].concat(), ends_connection(PeerFault::BlockTooLong)),
        case(
            "10.5.1",
            side,
            &[vec![begun()], vec![whole; 5]].concat(),
            ends_connection(PeerFault::BlockTooLong),
        ),
    ]
}

/// Values of settings and of GOAWAY.
fn values(side: Side) -> Vec<Case> {
    let go_away =
        |last: u32| frame(FrameKind::GoAway, Flags::NONE, 0, &[last.to_be_bytes(), [0; 4]].concat());
    let ack = frame(FrameKind::Settings, Flags::ACK, 0, &[]);
    vec![
        case("6.5", side, &[ack], ends_connection(PeerFault::AckUnexpected)),
        case("6.5.2", side, &[settings(4, 1 << 31)], ends_connection(PeerFault::InitialWindowTooLarge)),
        case("6.5.2", side, &[settings(5, (1 << 14) - 1)], ends_connection(PeerFault::MaxFrameSize)),
        case("6.5.2", side, &[settings(5, 1 << 24)], ends_connection(PeerFault::MaxFrameSize)),
        case("6.8", side, &[go_away(1), go_away(3)], ends_connection(PeerFault::GoAwayRises)),
    ]
}

fn windows(side: Side) -> Vec<Case> {
    let max = (1 << 31) - 1;
    let grown = [stream(side), window_update(1, max - 65_535), settings(4, 65_536)];
    vec![
        case("6.9", side, &[window_update(0, 0)], ends_connection(PeerFault::ZeroIncrement)),
        case("6.9", side, &[stream(side), window_update(1, 0)], ends_stream(PeerFault::ZeroIncrement)),
        case("6.9.1", side, &[window_update(0, max)], ends_connection(PeerFault::WindowTooLarge)),
        case("6.9.1", side, &[stream(side), window_update(1, max)], ends_stream(PeerFault::WindowTooLarge)),
        case("6.9.2", side, &grown, ends_connection(PeerFault::WindowTooLarge)),
    ]
}

/// Frames that are legal one by one.
fn floods(side: Side) -> Vec<Case> {
    let count = Limits::default().idle_frames_max as usize;
    let flood = |kind, frame: Vec<u8>| {
        // The two SETTINGS of the beginning count too.
        let frames = [vec![stream(side)], vec![frame; count + 1]].concat();
        let frames = if side == Side::Server { frames } else { frames[..count].to_vec() };
        case("10.5", side, &frames, ends_connection(PeerFault::Flood(kind)))
    };
    vec![
        flood(FrameKind::Ping, frame(FrameKind::Ping, Flags::NONE, 0, &[0; 8])),
        flood(FrameKind::Settings, settings(3, 100)),
        flood(FrameKind::Priority, frame(FrameKind::Priority, Flags::NONE, 1, &[0; 5])),
        flood(FrameKind::WindowUpdate, window_update(0, 1)),
        flood(FrameKind::RstStream, reset(1)),
        flood(FrameKind::Unknown(99), frame(FrameKind::Unknown(99), Flags::NONE, 0, &[])),
    ]
}
