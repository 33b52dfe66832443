//! Frames both ways.

use proptest::prelude::*;

use super::{Flags, Frame, FrameKind, HEADER_BYTES, Header, encode};
use crate::error::{ErrorCode, PeerFault};

fn only_frame_in(bytes: &[u8]) -> Frame<'_> {
    let (frame, length) = Frame::first_in(bytes, 1 << 14).unwrap().unwrap();
    assert_eq!(length, bytes.len());
    frame
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn every_frame_is_read_as_it_was_written() {
    let bytes = written(|out| encode::data(3, b"hello", true, out));
    assert_eq!(
        only_frame_in(&bytes),
        Frame::Data { stream: 3, data: b"hello", flow_bytes: 5, ends_stream: true }
    );
    let bytes = written(|out| encode::headers(3, b"block", false, 16, out));
    let headers = Frame::Headers { stream: 3, fragment: b"block", ends_stream: false, ends_block: true };
    assert_eq!(only_frame_in(&bytes), headers);
    let bytes = written(|out| encode::rst_stream(5, ErrorCode::Cancel, out));
    assert_eq!(only_frame_in(&bytes), Frame::RstStream { stream: 5, code: 8 });
    let bytes = written(|out| encode::settings(&[(3, 100), (4, 70_000)], out));
    let Frame::Settings(pairs) = only_frame_in(&bytes) else { panic!("{bytes:?}") };
    assert_eq!(pairs.iter().collect::<Vec<_>>(), [(3, 100), (4, 70_000)]);
    assert_eq!(only_frame_in(&written(encode::settings_ack)), Frame::SettingsAck);
    let bytes = written(|out| encode::ping(*b"12345678", true, out));
    assert_eq!(only_frame_in(&bytes), Frame::Ping { payload: *b"12345678", is_ack: true });
    let bytes = written(|out| encode::go_away(7, ErrorCode::EnhanceYourCalm, b"calm", out));
    assert_eq!(only_frame_in(&bytes), Frame::GoAway { last_stream: 7, code: 11, debug: b"calm" });
    let bytes = written(|out| encode::window_update(0, 9, out));
    assert_eq!(only_frame_in(&bytes), Frame::WindowUpdate { stream: 0, increment: 9 });
    let bytes =
        written(|out| encode::frame(FrameKind::PushPromise, Flags::END_HEADERS, 1, b"\0\0\0\x02b", out));
    assert_eq!(
        only_frame_in(&bytes),
        Frame::PushPromise { stream: 1, promised: 2, fragment: b"b", ends_block: true }
    );
    let bytes = written(|out| encode::frame(FrameKind::Priority, Flags::NONE, 1, &[0; 5], out));
    assert_eq!(only_frame_in(&bytes), Frame::Priority { stream: 1 });
    let bytes = written(|out| encode::frame(FrameKind::Unknown(77), Flags(3), 1, b"x", out));
    let header = Header { length: 1, kind: FrameKind::Unknown(77), flags: Flags(3), stream: 1 };
    assert_eq!(only_frame_in(&bytes), Frame::Unknown(header));
}

#[test]
fn padding_and_priority_are_left_out() {
    let flags = Flags::PADDED | Flags::PRIORITY | Flags::END_HEADERS | Flags::END_STREAM;
    let bytes = written(|out| encode::frame(FrameKind::Headers, flags, 1, b"\x02ppppWblock\0\0", out));
    let headers = Frame::Headers { stream: 1, fragment: b"block", ends_stream: true, ends_block: true };
    assert_eq!(only_frame_in(&bytes), headers);
    let bytes = written(|out| encode::frame(FrameKind::Data, Flags::PADDED, 1, b"\x03x\0\0\0", out));
    assert_eq!(
        only_frame_in(&bytes),
        Frame::Data { stream: 1, data: b"x", flow_bytes: 5, ends_stream: false }
    );
    // The reserved bit of stream ids and of increments is ignored.
    let bytes = written(|out| encode::window_update(1 << 31 | 3, 1 << 31 | 4, out));
    assert_eq!(only_frame_in(&bytes), Frame::WindowUpdate { stream: 3, increment: 4 });
}

#[test]
fn a_frame_that_is_too_large_is_refused_before_it_is_there() {
    let bytes = written(|out| encode::data(1, &[0; 20], false, out));
    assert_eq!(Frame::first_in(&bytes[..HEADER_BYTES], 19), Err(PeerFault::FrameTooLarge.on_connection()));
    assert_eq!(Frame::first_in(&bytes[..28], 20), Ok(None));
    assert!(Frame::first_in(&bytes, 20).unwrap().is_some());
}

#[test]
fn a_long_block_is_cut_into_frames() {
    let bytes = written(|out| encode::headers(1, b"abcdefgh", true, 3, out));
    let mut rest = &bytes[..];
    let mut block = Vec::new();
    let mut ends = Vec::new();
    while let Some((frame, length)) = Frame::first_in(rest, 3).unwrap() {
        rest = &rest[length..];
        match frame {
            Frame::Headers { fragment, ends_block, ends_stream: true, .. }
            | Frame::Continuation { fragment, ends_block, .. } => {
                block.extend_from_slice(fragment);
                ends.push(ends_block);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((block, ends), (b"abcdefgh".to_vec(), vec![false, false, true]));
}

#[test]
fn numbers_and_names_belong_together() {
    for number in 0..=255 {
        assert_eq!(FrameKind::from_number(number).number(), number);
        let code = ErrorCode::from_number(u32::from(number));
        assert_eq!((code.number(), code.name().is_some()), (u32::from(number), number < 14));
    }
}

proptest! {
    #[test]
    fn headers_are_read_as_they_were_written(length in 0..1_u32 << 24, kind: u8, flags: u8, stream in 0..1_u32 << 31) {
        let header = Header { length, kind: FrameKind::from_number(kind), flags: Flags(flags), stream };
        prop_assert_eq!(Header::parse(&header.to_bytes()), Some(header));
        prop_assert_eq!(Header::parse(&header.to_bytes()[..8]), None);
    }

    #[test]
    fn random_frames_do_no_harm(kind in 0..12_u8, flags: u8, stream in 0..3_u32, payload in prop::collection::vec(any::<u8>(), 0..30)) {
        let mut bytes = Vec::new();
        encode::frame(FrameKind::from_number(kind), Flags(flags), stream, &payload, &mut bytes);
        if let Ok(Some((_, length))) = Frame::first_in(&bytes, 1 << 14) {
            prop_assert_eq!(length, bytes.len());
        }
    }
}
