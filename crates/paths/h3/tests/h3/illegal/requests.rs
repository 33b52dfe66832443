//! Frames that request streams do not have, or not there: RFC 9114, sections 4.1 and 7.

use plumb_h2::frame::FrameKind as Http2FrameKind;

use super::*;

/// The kinds of HTTP/2 that nobody may send.
pub const RESERVED: [FrameKind; 4] = [
    FrameKind::Reserved(Http2FrameKind::Priority),
    FrameKind::Reserved(Http2FrameKind::Ping),
    FrameKind::Reserved(Http2FrameKind::WindowUpdate),
    FrameKind::Reserved(Http2FrameKind::Continuation),
];

/// Cases that both sides can receive.
pub fn either(side: Side) -> Vec<Case> {
    let unexpected = |section, kind: FrameKind| {
        let fault = PeerFault::OnRequestStream(kind);
        request(section, side, &[head(side), frame(kind, &[0])], fault, ErrorCode::FrameUnexpected)
    };
    let trailers = headers(&[("x", "a")]);
    let after_trailers = |frame: Vec<u8>, kind| {
        let (frames, fault) = ([head(side), trailers.clone(), frame], PeerFault::AfterTrailers(kind));
        request("4.1", side, &frames, fault, ErrorCode::FrameUnexpected)
    };
    let first = |frame, fault| request("4.1", side, &[frame], fault, ErrorCode::FrameUnexpected);
    let cut = |frame: Vec<u8>, at: usize| {
        ended("7.1", side, &[head(side), frame[..at].to_vec()], PeerFault::FrameCutOff, ErrorCode::Frame)
    };
    let mut cases = vec![
        unexpected("7.2.3", FrameKind::CancelPush),
        unexpected("7.2.4", FrameKind::Settings),
        unexpected("7.2.6", FrameKind::GoAway),
        unexpected("7.2.7", FrameKind::MaxPushId),
        first(data(1), PeerFault::DataBeforeFields),
        first(data(0), PeerFault::DataBeforeFields),
        first(settings(&[]), PeerFault::OnRequestStream(FrameKind::Settings)),
        after_trailers(data(1), FrameKind::Data),
        after_trailers(headers(&[("x", "a")]), FrameKind::Headers),
        cut(data(5), 1),
        cut(data(5), 2),
        cut(data(5), 6),
        cut(trailers.clone(), 3),
        cut(frame(FrameKind::Unknown(0x21), &[0; 9]), 5),
        cut(vec![0x40], 1),
        ended("7.1", side, &[head(side)[..4].to_vec()], PeerFault::FrameCutOff, ErrorCode::Frame),
    ];
    cases.extend(RESERVED.map(|kind| unexpected("7.2.8", kind)));
    let promise = match side {
        Side::Server => (PeerFault::OnRequestStream(FrameKind::PushPromise), ErrorCode::FrameUnexpected),
        Side::Client => (PeerFault::Push, ErrorCode::Id),
    };
    let frames = [head(side), frame(FrameKind::PushPromise, &[0, 0, 0])];
    cases.push(request("7.2.5", side, &frames, promise.0, promise.1));
    cases
}
