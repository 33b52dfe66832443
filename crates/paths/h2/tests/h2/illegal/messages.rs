//! Fields that no message has, and messages of the wrong length: section 8.

use plumb_h2::frame::Flags;
use plumb_h2::{MessageFault, PeerFault};

use super::fields::Malformed;
use super::*;

/// Cases of servers.
pub fn requests() -> Vec<Case> {
    let malformed = |Malformed { sections, fields, fault }| {
        to_server(sections.0, &[headers(1, Flags::END_STREAM, &fields)], ends_stream(fault))
    };
    let mut cases: Vec<Case> = fields::requests().into_iter().map(malformed).collect();
    let value = "a".repeat(10_000);
    let long = with(&GET, &[("x", &value)]);
    cases.push(to_server(
        "6.5.2",
        &[headers(1, Flags::END_STREAM, &long)],
        ends_stream(PeerFault::FieldsTooLong),
    ));
    cases.extend(request_bodies());
    cases
}

fn request_bodies() -> Vec<Case> {
    let sized = |length| headers(1, Flags::NONE, &with(&POST, &[("content-length", length)]));
    let trailers = |flags, field| headers(1, flags, &[field]);
    vec![
        to_server("8.1.1", &[sized("5"), last_data(1, 4)], ends_stream(MessageFault::BodyLength)),
        to_server("8.1.1", &[sized("5"), data(1, 6)], ends_stream(MessageFault::BodyLength)),
        to_server(
            "8.1.1",
            &[headers(1, Flags::END_STREAM, &with(&POST, &[("content-length", "5")]))],
            ends_stream(MessageFault::BodyLength),
        ),
        to_server(
            "8.1.1",
            &[sized("5"), trailers(Flags::END_STREAM, ("x", "a"))],
            ends_stream(MessageFault::BodyLength),
        ),
        to_server("8.1", &[post(1), trailers(Flags::NONE, ("x", "a"))], ends_stream(PeerFault::TrailersGoOn)),
        to_server(
            "8.3",
            &[post(1), trailers(Flags::END_STREAM, (":path", "/"))],
            ends_stream(MessageFault::PseudoInTrailers),
        ),
    ]
}

/// Cases of clients.
pub fn responses() -> Vec<Case> {
    let malformed = |Malformed { sections, fields, fault }| {
        to_client(sections.0, &[headers(1, Flags::END_STREAM, &fields)], ends_stream(fault))
    };
    let sized = |length| headers(1, Flags::NONE, &with(&OK, &[("content-length", length)]));
    let mut cases: Vec<Case> = fields::responses().into_iter().map(malformed).collect();
    cases.extend([
        to_client(
            "8.1",
            &[headers(1, Flags::END_STREAM, &[(":status", "103")])],
            ends_stream(PeerFault::InterimEnds),
        ),
        to_client("8.1", &[data(1, 1)], ends_stream(PeerFault::DataBeforeFields)),
        to_client("8.1", &[ok(), ok()], ends_stream(PeerFault::TrailersGoOn)),
        to_client(
            "8.1",
            &[ok(), headers(1, Flags::END_STREAM, &OK)],
            ends_stream(MessageFault::PseudoInTrailers),
        ),
        to_client("8.1.1", &[sized("5"), last_data(1, 4)], ends_stream(MessageFault::BodyLength)),
        to_client("8.1.1", &[sized("5"), data(1, 6)], ends_stream(MessageFault::BodyLength)),
        to_client(
            "8.1.1",
            &[headers(1, Flags::END_STREAM, &with(&OK, &[("content-length", "5")]))],
            ends_stream(MessageFault::BodyLength),
        ),
        to_client(
            "6.5.2",
            &[headers(1, Flags::END_STREAM, &with(&OK, &[("x", &"a".repeat(10_000))]))],
            ends_stream(PeerFault::FieldsTooLong),
        ),
    ]);
    cases
}
