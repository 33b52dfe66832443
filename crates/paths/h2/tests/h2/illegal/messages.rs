//! Fields that no message has, and messages of the wrong length: section 8.

use plumb_h2::frame::Flags;
use plumb_h2::{Fault, MessageFault};

use super::*;

/// Fields that no message may have, with their section and fault.
const FIELDS: [(&str, (&str, &str), MessageFault); 16] = [
    ("8.2", ("X-Mine", "a"), MessageFault::UpperCaseName),
    ("8.2.1", ("x mine", "a"), MessageFault::FieldName),
    ("8.2.1", ("x:mine", "a"), MessageFault::FieldName),
    ("8.2.1", ("", "a"), MessageFault::FieldName),
    ("8.2.1", ("x\u{fc}", "a"), MessageFault::FieldName),
    ("8.2.1", ("x", "a\0"), MessageFault::FieldValue),
    ("8.2.1", ("x", "a\r\nb: c"), MessageFault::FieldValue),
    ("8.2.1", ("x", "a\nb"), MessageFault::FieldValue),
    ("8.2.1", ("x", " a"), MessageFault::FieldValue),
    ("8.2.1", ("x", "a\t"), MessageFault::FieldValue),
    ("8.2.2", ("connection", "close"), MessageFault::ConnectionField),
    ("8.2.2", ("keep-alive", "5"), MessageFault::ConnectionField),
    ("8.2.2", ("proxy-connection", "close"), MessageFault::ConnectionField),
    ("8.2.2", ("transfer-encoding", "chunked"), MessageFault::ConnectionField),
    ("8.2.2", ("upgrade", "h2c"), MessageFault::ConnectionField),
    ("8.3", (":unknown", "a"), MessageFault::PseudoUnknown),
];

/// Cases of servers.
pub fn requests() -> Vec<Case> {
    let request = |section, fields: &[(&str, &str)], fault| {
        to_server(section, &[headers(1, Flags::END_STREAM, fields)], ends_stream(fault))
    };
    let get_with = |section, field, fault| request(section, &with(&GET, &[field]), fault);
    let changed = |at: usize, value, fault| {
        let mut fields = GET;
        fields[at].1 = value;
        request("8.3.1", &fields, fault)
    };
    let fields = FIELDS.into_iter().filter(|field| !field.1.0.starts_with(':'));
    let mut cases: Vec<Case> =
        fields.map(|(section, field, fault)| get_with(section, field, fault)).collect();
    cases.extend((0..3).map(|at| {
        let fields: Vec<_> =
            GET.into_iter().enumerate().filter(|field| field.0 != at).map(|field| field.1).collect();
        request("8.3.1", &fields, MessageFault::PseudoMissing)
    }));
    cases.extend([
        get_with("8.2.2", ("te", "gzip"), MessageFault::ConnectionField),
        request("8.3", &with(&[("x", "a")], &GET), MessageFault::PseudoLate),
        get_with("8.3", (":unknown", "a"), MessageFault::PseudoUnknown),
        get_with("8.3", (":status", "200"), MessageFault::PseudoUnknown),
        get_with("8.3", (":path", "/"), MessageFault::PseudoTwice),
        changed(2, "", MessageFault::PseudoValue),
        changed(2, "a", MessageFault::PseudoValue),
        changed(2, "*", MessageFault::PseudoValue),
        changed(2, "/a b", MessageFault::PseudoValue),
        changed(0, "G T", MessageFault::PseudoValue),
        changed(0, "", MessageFault::PseudoValue),
        changed(1, "", MessageFault::PseudoValue),
        changed(3, "a b", MessageFault::PseudoValue),
        get_with("8.3.1", ("host", "b"), MessageFault::HostDiffers),
        request("8.5", &[(":method", "CONNECT")], MessageFault::PseudoMissing),
        request("8.5", &with(&GET[1..], &[(":method", "CONNECT")]), MessageFault::PseudoUnknown),
    ]);
    let value = "a".repeat(10_000);
    let long = with(&GET, &[("x", &value)]);
    cases.push(to_server(
        "6.5.2",
        &[headers(1, Flags::END_STREAM, &long)],
        ends_stream(Fault::FieldsTooLong),
    ));
    cases.extend(request_bodies());
    cases
}

fn request_bodies() -> Vec<Case> {
    let sized = |length| headers(1, Flags::NONE, &with(&POST, &[("content-length", length)]));
    let twice = with(&POST, &[("content-length", "1"), ("content-length", "2")]);
    let trailers = |flags, field| headers(1, flags, &[field]);
    vec![
        to_server("8.1.1", &[sized("5"), last_data(1, 4)], ends_stream(MessageFault::BodyLength)),
        to_server("8.1.1", &[sized("5"), data(1, 6)], ends_stream(MessageFault::BodyLength)),
        to_server(
            "8.1.1",
            &[headers(1, Flags::END_STREAM, &with(&POST, &[("content-length", "5")]))],
            ends_stream(MessageFault::BodyLength),
        ),
        to_server("8.1.1", &[sized("-5")], ends_stream(MessageFault::ContentLength)),
        to_server("8.1.1", &[sized("")], ends_stream(MessageFault::ContentLength)),
        to_server("8.1.1", &[sized("99999999999999999999")], ends_stream(MessageFault::ContentLength)),
        to_server("8.1.1", &[headers(1, Flags::NONE, &twice)], ends_stream(MessageFault::ContentLength)),
        to_server(
            "8.1.1",
            &[sized("5"), trailers(Flags::END_STREAM, ("x", "a"))],
            ends_stream(MessageFault::BodyLength),
        ),
        to_server("8.1", &[post(1), trailers(Flags::NONE, ("x", "a"))], ends_stream(Fault::TrailersGoOn)),
        to_server(
            "8.3",
            &[post(1), trailers(Flags::END_STREAM, (":path", "/"))],
            ends_stream(MessageFault::PseudoInTrailers),
        ),
    ]
}

/// Cases of clients.
pub fn responses() -> Vec<Case> {
    let response = |section, fields: &[(&str, &str)], fault| {
        to_client(section, &[headers(1, Flags::END_STREAM, fields)], ends_stream(fault))
    };
    let sized = |length| headers(1, Flags::NONE, &with(&OK, &[("content-length", length)]));
    let fields = FIELDS.into_iter().filter(|field| !field.1.0.starts_with(':'));
    let with_field = |(section, field, fault)| response(section, &with(&OK, &[field]), fault);
    let mut cases: Vec<Case> = fields.map(with_field).collect();
    cases.extend([
        response("8.3.2", &[("x", "a")], MessageFault::PseudoMissing),
        response("8.3.2", &[], MessageFault::PseudoMissing),
        response("8.3.2", &[(":status", "20")], MessageFault::PseudoValue),
        response("8.3.2", &[(":status", "2000")], MessageFault::PseudoValue),
        response("8.6", &[(":status", "101")], MessageFault::PseudoValue),
        response("8.3", &[(":status", "200"), (":status", "200")], MessageFault::PseudoTwice),
        response("8.3", &[(":status", "200"), (":path", "/")], MessageFault::PseudoUnknown),
        response("8.3", &[("x", "a"), (":status", "200")], MessageFault::PseudoLate),
        to_client(
            "8.1",
            &[headers(1, Flags::END_STREAM, &[(":status", "103")])],
            ends_stream(Fault::InterimEnds),
        ),
        to_client("8.1", &[data(1, 1)], ends_stream(Fault::DataBeforeFields)),
        to_client("8.1", &[ok(), ok()], ends_stream(Fault::TrailersGoOn)),
        to_client(
            "8.1",
            &[ok(), headers(1, Flags::END_STREAM, &OK)],
            ends_stream(MessageFault::PseudoInTrailers),
        ),
        to_client("8.1.1", &[sized("5"), last_data(1, 4)], ends_stream(MessageFault::BodyLength)),
        to_client("8.1.1", &[sized("5"), data(1, 6)], ends_stream(MessageFault::BodyLength)),
        to_client("8.1.1", &[sized("5 ")], ends_stream(MessageFault::FieldValue)),
        to_client("8.1.1", &[sized("0x5")], ends_stream(MessageFault::ContentLength)),
        response("8.1.1", &with(&OK, &[("content-length", "5")]), MessageFault::BodyLength),
        to_client(
            "6.5.2",
            &[headers(1, Flags::END_STREAM, &with(&OK, &[("x", &"a".repeat(10_000))]))],
            ends_stream(Fault::FieldsTooLong),
        ),
    ]);
    cases
}
