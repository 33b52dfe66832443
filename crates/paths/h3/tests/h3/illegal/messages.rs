//! Malformed messages: RFC 9114, sections 4.1 to 4.5.

use plumb_h2::MessageFault;

use super::fields::{self, Malformed};
use super::*;

/// Cases of one side.
fn cases(side: Side, heads: Vec<Malformed>) -> Vec<Case> {
    let malformed = |Malformed { sections, fields, fault }| {
        request(sections.1, side, &[headers(&fields)], fault, ErrorCode::Message)
    };
    heads.into_iter().map(malformed).chain(contents(side)).collect()
}

/// Content that differs from its stated length, and trailers that are wrong.
fn contents(side: Side) -> Vec<Case> {
    let start: &[(&str, &str)] = if side == Side::Server { &GET } else { &OK };
    let sized = headers(&[start, &[("content-length", "5")]].concat());
    let trailers = |fields: &[(&str, &str)], fault: MessageFault| {
        request("4.3", side, &[head(side), headers(fields)], fault, ErrorCode::Message)
    };
    let request =
        |frames: &[Vec<u8>]| request("4.1.2", side, frames, MessageFault::BodyLength, ErrorCode::Message);
    let ended =
        |frames: &[Vec<u8>]| ended("4.1.2", side, frames, MessageFault::BodyLength, ErrorCode::Message);
    vec![
        request(&[sized.clone(), data(6)]),
        request(&[sized.clone(), data(3), data(3)]),
        request(&[sized.clone(), data(4), headers(&[("x", "a")])]),
        ended(std::slice::from_ref(&sized)),
        ended(&[sized, data(4)]),
        trailers(&[(":path", "/")], MessageFault::PseudoInTrailers),
        trailers(&[("X", "a")], MessageFault::UpperCaseName),
        // A second message.
        trailers(start, MessageFault::PseudoInTrailers),
    ]
}

/// Cases of servers.
pub fn requests() -> Vec<Case> {
    let side = Side::Server;
    let head = |fields: &[(&str, &str)], fault: MessageFault| {
        request("4.3.1", side, &[headers(fields)], fault, ErrorCode::Message)
    };
    let mut all = cases(side, fields::requests());
    all.extend([
        head(&GET[..3], MessageFault::PseudoMissing),
        head(&[&GET[..3], &[(":authority", "")]].concat(), MessageFault::PseudoValue),
        head(&[&GET[..3], &[("host", "")]].concat(), MessageFault::PseudoValue),
        ended("4.1", side, &[], PeerFault::RequestMissing, ErrorCode::RequestIncomplete),
        ended(
            "4.1",
            side,
            &[frame(FrameKind::Unknown(0x21), &[])],
            PeerFault::RequestMissing,
            ErrorCode::RequestIncomplete,
        ),
    ]);
    all
}

/// Cases of clients.
pub fn responses() -> Vec<Case> {
    let side = Side::Client;
    let interim = headers(&[(":status", "103")]);
    let mut all = cases(side, fields::responses());
    all.extend([
        ended("4.1", side, &[], PeerFault::ResponseMissing, ErrorCode::Message),
        ended("4.1", side, std::slice::from_ref(&interim), PeerFault::ResponseMissing, ErrorCode::Message),
        request("4.1", side, &[interim, data(1)], PeerFault::DataBeforeFields, ErrorCode::FrameUnexpected),
    ]);
    all
}
