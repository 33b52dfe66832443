//! Unidirectional streams: RFC 9114, sections 6.2 and 7.2, and RFC 9204, sections 4.2 to 4.4.

use super::requests::RESERVED;
use super::*;

fn control(section: &'static str, side: Side, frames: &[Vec<u8>], fault: PeerFault, code: ErrorCode) -> Case {
    let parts = [&[begins(StreamKind::Control), settings(&[])], frames].concat();
    unidirectional((9114, section), side, &[&parts], fault, code)
}

fn frame_unexpected(section: &'static str, side: Side, kind: FrameKind) -> Case {
    control(section, side, &[frame(kind, &[0])], PeerFault::OnControlStream(kind), ErrorCode::FrameUnexpected)
}

/// A frame with an id.
fn id(kind: FrameKind, id: u64) -> Vec<u8> {
    frame(kind, &number(id))
}

/// Cases that both sides can receive.
pub fn either(side: Side) -> Vec<Case> {
    let first = |frame| {
        let parts = [begins(StreamKind::Control), frame];
        let (fault, code) = (PeerFault::SettingsNotFirst, ErrorCode::MissingSettings);
        unidirectional((9114, "6.2.1"), side, &[&parts], fault, code)
    };
    let length = |section, kind, payload: &[u8]| {
        control(section, side, &[frame(kind, payload)], PeerFault::FrameLength(kind), ErrorCode::Frame)
    };
    let go_aways = [id(FrameKind::GoAway, 4), id(FrameKind::GoAway, 8)];
    let twice = [settings(&[])];
    let mut cases = vec![
        first(id(FrameKind::GoAway, 0)),
        first(frame(FrameKind::Unknown(0x21), &[])),
        first(data(1)),
        first(frame(RESERVED[1], &[0; 8])),
        control("7.2.4", side, &twice, PeerFault::SettingsTwice, ErrorCode::FrameUnexpected),
        control("5.2", side, &go_aways, PeerFault::GoAwayRises, ErrorCode::Id),
        control("7.2.3", side, &[id(FrameKind::CancelPush, 0)], PeerFault::CancelPush, ErrorCode::Id),
        length("7.1", FrameKind::GoAway, &[]),
        length("7.1", FrameKind::GoAway, &[0x40]),
        length("7.1", FrameKind::GoAway, &[0, 0]),
        length("7.1", FrameKind::CancelPush, &[]),
        length("7.1", FrameKind::CancelPush, &[0, 0]),
        control(
            "10.5",
            side,
            &[frame(FrameKind::GoAway, &[0; 5000])],
            PeerFault::ControlFrameTooLong(FrameKind::GoAway),
            ErrorCode::ExcessiveLoad,
        ),
        frame_unexpected("7.2.1", side, FrameKind::Data),
        frame_unexpected("7.2.2", side, FrameKind::Headers),
        frame_unexpected("7.2.5", side, FrameKind::PushPromise),
    ];
    cases.extend(RESERVED.map(|kind| frame_unexpected("7.2.8", side, kind)));
    cases.extend(critical(side));
    cases.extend(instructions(side));
    cases
}

/// Streams of which there is one for the whole connection.
fn critical(side: Side) -> Vec<Case> {
    let kinds = [
        ("6.2.1", StreamKind::Control),
        ("4.2", StreamKind::QpackEncoder),
        ("4.2", StreamKind::QpackDecoder),
    ];
    let cases = kinds.into_iter().flat_map(|(section, kind)| {
        let section = (if kind == StreamKind::Control { 9114 } else { 9204 }, section);
        let begun = [begins(kind)];
        let fault = PeerFault::StreamTwice(kind);
        let twice = unidirectional(section, side, &[&begun, &begun], fault, ErrorCode::StreamCreation);
        let parts = [begins(kind), vec![]];
        let code = ErrorCode::ClosedCriticalStream;
        let mut ended = unidirectional(section, side, &[&parts], PeerFault::StreamEnded(kind), code);
        ended.streams[0].ends = true;
        [twice, ended]
    });
    cases.collect()
}

/// Instructions of QPACK that need a dynamic table.
fn instructions(side: Side) -> Vec<Case> {
    let of = |kind, code| {
        move |section, instruction: &[u8], fault| {
            let parts = [begins(kind), instruction.to_vec()];
            unidirectional((9204, section), side, &[&parts], fault, code)
        }
    };
    let encoder = of(StreamKind::QpackEncoder, ErrorCode::QpackEncoderStream);
    let decoder = of(StreamKind::QpackDecoder, ErrorCode::QpackDecoderStream);
    let huge = [&[0x7f][..], &[0xff; 9]].concat();
    let endless = [&[0x7f][..], &[0x80; 9]].concat();
    vec![
        encoder("4.3.1", &[0x20, 0x21], PeerFault::TableCapacity),
        encoder("4.3.1", &[0x3f, 0xe1, 0x1f], PeerFault::TableCapacity),
        encoder("4.3.2", &[0xc1, 1, b'a'], PeerFault::Insertion),
        encoder("4.3.2", &[0x80, 1, b'a'], PeerFault::Insertion),
        encoder("4.3.3", &[0x41, b'a', 1, b'b'], PeerFault::Insertion),
        encoder("4.3.4", &[0x00], PeerFault::Duplicate),
        decoder("4.4.1", &[0x84], PeerFault::Acknowledgement),
        decoder("4.4.2", &huge, PeerFault::CancelledStream),
        decoder("4.4.2", &endless, PeerFault::CancelledStream),
        decoder("4.4.3", &[0x00], PeerFault::InsertCountIncrement),
        decoder("4.4.3", &[0x48, 0x01], PeerFault::InsertCountIncrement),
    ]
}

/// The payload of SETTINGS.
pub fn settings_payloads(side: Side) -> Vec<Case> {
    let case = |section, payload: Vec<u8>, fault, code| {
        let parts = [begins(StreamKind::Control), frame(FrameKind::Settings, &payload)];
        unidirectional((9114, section), side, &[&parts], fault, code)
    };
    let reserved =
        |id: u64| case("7.2.4.1", vec![id as u8, 0], PeerFault::SettingReserved(id), ErrorCode::Settings);
    let twice = |id: u64| {
        let payload = [number(id), vec![1], number(7), vec![1], number(id), vec![2]].concat();
        case("7.2.4", payload, PeerFault::SettingTwice(id), ErrorCode::Settings)
    };
    let cut = |payload: &[u8]| {
        case("7.1", payload.to_vec(), PeerFault::FrameLength(FrameKind::Settings), ErrorCode::Frame)
    };
    let kind = FrameKind::Settings;
    vec![
        reserved(2),
        reserved(3),
        reserved(4),
        reserved(5),
        twice(1),
        twice(6),
        twice(0x21),
        cut(&[6]),
        cut(&[6, 0x40]),
        cut(&[0x40]),
        cut(&[6, 1, 7]),
        case("10.5", vec![0x21; 5000], PeerFault::ControlFrameTooLong(kind), ErrorCode::ExcessiveLoad),
    ]
}

/// Cases of servers.
pub fn server() -> Vec<Case> {
    let side = Side::Server;
    let push = [begins(StreamKind::Push)];
    let falls = [id(FrameKind::MaxPushId, 9), id(FrameKind::MaxPushId, 8)];
    let length = |payload: &[u8]| {
        let kind = FrameKind::MaxPushId;
        control("7.1", side, &[frame(kind, payload)], PeerFault::FrameLength(kind), ErrorCode::Frame)
    };
    vec![
        unidirectional((9114, "6.2.2"), side, &[&push], PeerFault::PushByClient, ErrorCode::StreamCreation),
        control("7.2.7", side, &falls, PeerFault::MaxPushIdFalls, ErrorCode::Id),
        length(&[]),
        length(&[0, 0]),
    ]
}

/// Cases of clients.
pub fn client() -> Vec<Case> {
    let side = Side::Client;
    let push = [begins(StreamKind::Push)];
    let go_away =
        |last| control("7.2.6", side, &[id(FrameKind::GoAway, last)], PeerFault::GoAwayId, ErrorCode::Id);
    vec![
        unidirectional((9114, "6.2.2"), side, &[&push], PeerFault::Push, ErrorCode::Id),
        frame_unexpected("7.2.7", side, FrameKind::MaxPushId),
        go_away(1),
        go_away(2),
        go_away(3),
    ]
}
