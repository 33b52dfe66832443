//! Frames on streams that cannot have them: sections 5 and 6.

use plumb_h2::PeerFault;
use plumb_h2::frame::FrameKind;

use super::*;

/// Cases of servers.
pub fn server() -> Vec<Case> {
    let idle =
        |kind, frame: Vec<u8>| to_server("5.1", &[frame], ends_connection(PeerFault::OnIdleStream(kind)));
    let chunk = || data(1, 1 << 14);
    let other = || data(3, 1 << 14);
    vec![
        idle(FrameKind::Data, data(1, 1)),
        idle(FrameKind::RstStream, reset(1)),
        idle(FrameKind::WindowUpdate, window_update(1, 1)),
        idle(FrameKind::WindowUpdate, window_update(2, 1)),
        idle(FrameKind::WindowUpdate, window_update(1, 0)),
        to_server("5.1", &[get(1), data(1, 1)], ends_stream(PeerFault::StreamIsClosed)),
        to_server("5.1", &[get(1), get(1)], ends_stream(PeerFault::StreamIsClosed)),
        to_server("5.1", &[post(1), reset(1), data(1, 1)], ends_connection(PeerFault::StreamIsClosed)),
        to_server("5.1", &[post(1), reset(1), get(1)], ends_connection(PeerFault::StreamIsClosed)),
        to_server("5.1.1", &[get(2)], ends_connection(PeerFault::StreamIdParity)),
        to_server("5.1.1", &[get(5), get(3)], ends_connection(PeerFault::StreamIdNotIncreasing)),
        to_server("5.1.2", &[get(1), get(3), get(5)], PeerFault::TooManyStreams.on_stream(5)),
        to_server("6.9.1", &[post(1), chunk(), chunk(), chunk()], ends_stream(PeerFault::DataBeyondWindow)),
        to_server(
            "6.9.1",
            &[post(1), chunk(), chunk(), post(3), other(), other()],
            ends_connection(PeerFault::DataBeyondWindow),
        ),
    ]
}

/// Cases of clients.
pub fn client() -> Vec<Case> {
    let idle =
        |kind, frame: Vec<u8>| to_client("5.1", &[frame], ends_connection(PeerFault::OnIdleStream(kind)));
    let done = || headers(1, Flags::END_STREAM, &OK);
    let push = frame(FrameKind::PushPromise, Flags::END_HEADERS, 1, &[0, 0, 0, 2, 0x82]);
    let raw = |bytes: &[u8]| Case {
        section: "3.4",
        side: Side::Client,
        bytes: bytes.to_vec(),
        error: ends_connection(PeerFault::SettingsNotFirst),
    };
    let chunk = || data(1, 1 << 14);
    vec![
        raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        raw(&frame(FrameKind::GoAway, Flags::NONE, 0, &[0; 8])),
        idle(FrameKind::Data, data(3, 1)),
        idle(FrameKind::Headers, headers(3, Flags::NONE, &OK)),
        idle(FrameKind::Headers, headers(2, Flags::NONE, &OK)),
        idle(FrameKind::RstStream, reset(3)),
        idle(FrameKind::WindowUpdate, window_update(3, 1)),
        to_client("5.1", &[done(), data(1, 1)], ends_connection(PeerFault::StreamIsClosed)),
        to_client("5.1", &[done(), done()], ends_connection(PeerFault::StreamIsClosed)),
        to_client("5.1", &[reset(1), ok()], ends_connection(PeerFault::StreamIsClosed)),
        to_client("6.5.2", &[settings(2, 1)], ends_connection(PeerFault::EnablePush)),
        to_client("6.6", &[push], ends_connection(PeerFault::Push)),
        to_client("6.9.1", &[ok(), chunk(), chunk(), chunk()], ends_stream(PeerFault::DataBeyondWindow)),
    ]
}
