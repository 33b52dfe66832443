//! Unidirectional streams of a peer that does everything right.

use crate::illegal::{begins, frame, number, settings};
use plumb_h3::frame::{FrameKind, encode};
use plumb_h3::peer::{Event, Peer, Stream};
use plumb_h3::{ErrorCode, PeerFault, Settings, Side, StreamKind};

/// The events of a stream that arrives byte by byte.
fn take(peer: &mut Peer, stream: &mut Stream, bytes: &[u8]) -> Vec<Event> {
    let mut events = Vec::new();
    for mut piece in bytes.chunks(1) {
        while let Some(event) = peer.receive(stream, &mut piece).unwrap() {
            events.push(event);
        }
    }
    events
}

#[test]
fn a_control_stream_gives_settings_and_ids() {
    let sent = Settings { max_field_section_size: Some(1 << 20), ..Settings::default() };
    let mut bytes = begins(StreamKind::Control);
    sent.encode(&mut bytes);
    bytes.extend(frame(FrameKind::Unknown(0x21), &[7; 5000]));
    encode::go_away(8, &mut bytes);
    encode::go_away(8, &mut bytes);
    let mut peer = Peer::new(Side::Client);
    assert_eq!(peer.settings(), None);
    let events = take(&mut peer, &mut Stream::default(), &bytes);
    let expected =
        [Event::Opened(StreamKind::Control), Event::Settings(sent), Event::GoAway(8), Event::GoAway(8)];
    assert_eq!(events, expected);
    assert_eq!(peer.settings(), Some(sent));
}

#[test]
fn a_client_may_send_the_ids_of_pushes() {
    let go_away = |id| {
        let mut out = Vec::new();
        encode::go_away(id, &mut out);
        out
    };
    let parts =
        [begins(StreamKind::Control), settings(&[]), frame(FrameKind::MaxPushId, &number(3)), go_away(5)];
    let events = take(&mut Peer::new(Side::Server), &mut Stream::default(), &parts.concat());
    assert_eq!(events[2..], [Event::MaxPushId(3), Event::GoAway(5)]);
}

#[test]
fn qpack_streams_may_say_what_needs_no_table() {
    let mut peer = Peer::new(Side::Client);
    let (mut encoder, mut decoder) = (Stream::default(), Stream::default());
    let opened = |kind| vec![Event::Opened(kind)];
    let bytes = [begins(StreamKind::QpackEncoder), vec![0x20, 0x20]].concat();
    assert_eq!(take(&mut peer, &mut encoder, &bytes), opened(StreamKind::QpackEncoder));
    // The largest id, after one of a byte: 62 bits are the 63 of the prefix and nine bytes.
    let huge = [&[0x7f, 0xc0][..], &[0xff; 7], &[0x3f]].concat();
    let bytes = [begins(StreamKind::QpackDecoder), vec![0x44], huge].concat();
    assert_eq!(take(&mut peer, &mut decoder, &bytes), opened(StreamKind::QpackDecoder));
}

#[test]
fn streams_of_unknown_kinds_may_come_and_go() {
    let mut peer = Peer::new(Side::Server);
    for _ in 0..2 {
        let mut stream = Stream::default();
        let kind = StreamKind::Unknown(0x1f * 77 + 0x21);
        let bytes = [begins(kind), vec![1, 2, 3]].concat();
        assert_eq!(take(&mut peer, &mut stream, &bytes), [Event::Opened(kind)]);
        assert_eq!(peer.end(&stream), Ok(()));
    }
    // A stream may end before it says of which kind it is.
    let mut stream = Stream::default();
    assert_eq!(take(&mut peer, &mut stream, &[0x40]), []);
    assert_eq!(peer.end(&stream), Ok(()));
}

#[test]
fn settings_that_are_unknown_are_ignored_and_defaults_are_not_sent() {
    let mut out = Vec::new();
    Settings::default().encode(&mut out);
    assert_eq!(out, [4, 0]);
    assert_eq!(Settings::decode(&[]), Ok(Settings::default()));
    let all = Settings {
        qpack_max_table_capacity: 4096,
        max_field_section_size: Some(0),
        qpack_blocked_streams: 16,
    };
    out.clear();
    all.encode(&mut out);
    assert_eq!(out, [4, 7, 1, 0x50, 0, 6, 0, 7, 16]);
    let with_unknown = [&out[2..], &[0x21, 9, 8, 9]].concat();
    assert_eq!(Settings::decode(&with_unknown), Ok(all));
}

#[test]
fn numbers_of_codes_and_kinds_are_those_of_the_registries() {
    for (code, number, name) in ErrorCode::ALL {
        assert_eq!((ErrorCode::from_number(number), code.number(), code.name()), (code, number, Some(name)));
    }
    // RFC 9114, section 11.2.3, and RFC 9204, section 8.3.
    let registered = [
        (0x100, "H3_NO_ERROR"),
        (0x105, "H3_FRAME_UNEXPECTED"),
        (0x109, "H3_SETTINGS_ERROR"),
        (0x10a, "H3_MISSING_SETTINGS"),
        (0x10b, "H3_REQUEST_REJECTED"),
        (0x10c, "H3_REQUEST_CANCELLED"),
        (0x110, "H3_VERSION_FALLBACK"),
        (0x200, "QPACK_DECOMPRESSION_FAILED"),
        (0x202, "QPACK_DECODER_STREAM_ERROR"),
    ];
    for (number, name) in registered {
        assert_eq!(ErrorCode::from_number(number).name(), Some(name));
    }
    let streams = [StreamKind::Control, StreamKind::Push, StreamKind::QpackEncoder, StreamKind::QpackDecoder];
    assert_eq!(streams.map(StreamKind::number), [0, 1, 2, 3]);
    let unknown = ErrorCode::Unknown(0x21);
    assert_eq!((ErrorCode::from_number(0x21), unknown.number(), unknown.name()), (unknown, 0x21, None));
    for number in 0..20 {
        assert_eq!(FrameKind::from_number(number).number(), number);
        assert_eq!(StreamKind::from_number(number).number(), number);
    }
    let kinds = [0, 1, 3, 4, 5, 7, 13].map(|number| FrameKind::from_number(number).to_string());
    assert_eq!(kinds.join(" "), "DATA HEADERS CANCEL_PUSH SETTINGS PUSH_PROMISE GOAWAY MAX_PUSH_ID");
    assert_eq!(
        PeerFault::OnControlStream(FrameKind::from_number(6)).to_string(),
        "a PING (HTTP/2) frame on the control stream"
    );
}
