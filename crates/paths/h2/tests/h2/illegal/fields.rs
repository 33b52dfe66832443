//! Heads that no message may have, in HTTP/2 and HTTP/3 alike. Tests of HTTP/3 include this file by its path, so it has no frames.

use plumb_h2::MessageFault;

type Field = (&'static str, &'static str);

/// A malformed head.
pub struct Malformed {
    /// The section of RFC 9113, and that of RFC 9114.
    pub sections: (&'static str, &'static str),
    /// The fields.
    pub fields: Vec<Field>,
    /// The fault.
    pub fault: MessageFault,
}

pub const GET: [Field; 4] = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "a")];
pub const OK: [Field; 1] = [(":status", "200")];

fn malformed(sections: (&'static str, &'static str), fields: &[Field], fault: MessageFault) -> Malformed {
    Malformed { sections, fields: fields.to_vec(), fault }
}

/// Heads with fields that neither requests nor responses may have.
fn either(head: &[Field]) -> impl Iterator<Item = Malformed> {
    const FIELDS: [(&str, Field, MessageFault); 20] = [
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
        ("8.2.1", ("content-length", "5 "), MessageFault::FieldValue),
        ("8.2.2", ("connection", "close"), MessageFault::ConnectionField),
        ("8.2.2", ("keep-alive", "5"), MessageFault::ConnectionField),
        ("8.2.2", ("proxy-connection", "close"), MessageFault::ConnectionField),
        ("8.2.2", ("transfer-encoding", "chunked"), MessageFault::ConnectionField),
        ("8.2.2", ("upgrade", "h2c"), MessageFault::ConnectionField),
        ("8.1.1", ("content-length", "-5"), MessageFault::ContentLength),
        ("8.1.1", ("content-length", "0x5"), MessageFault::ContentLength),
        ("8.1.1", ("content-length", ""), MessageFault::ContentLength),
        ("8.1.1", ("content-length", "99999999999999999999"), MessageFault::ContentLength),
    ];
    let fields = FIELDS.into_iter().map(move |(section, field, fault)| {
        let other = if section == "8.1.1" { "4.1.2" } else { "4.2" };
        malformed((section, other), &[head, &[field]].concat(), fault)
    });
    let lengths = [("content-length", "1"), ("content-length", "2")];
    let twice = malformed(("8.1.1", "4.1.2"), &[head, &lengths[..]].concat(), MessageFault::ContentLength);
    fields.chain([twice])
}

/// Heads that no client may send.
pub fn requests() -> Vec<Malformed> {
    let get_with = |sections, field, fault| malformed(sections, &[&GET[..], &[field]].concat(), fault);
    let changed = |at: usize, value| {
        let mut fields = GET;
        fields[at].1 = value;
        malformed(("8.3.1", "4.3.1"), &fields, MessageFault::PseudoValue)
    };
    let without = |at| {
        let fields: Vec<_> =
            GET.into_iter().enumerate().filter(|field| field.0 != at).map(|field| field.1).collect();
        malformed(("8.3.1", "4.3.1"), &fields, MessageFault::PseudoMissing)
    };
    let connect = [(":method", "CONNECT")];
    let mut all: Vec<Malformed> = either(&GET).chain((0..3).map(without)).collect();
    all.extend([
        get_with(("8.2.2", "4.2"), ("te", "gzip"), MessageFault::ConnectionField),
        malformed(("8.3", "4.3"), &[&[("x", "a")], &GET[..]].concat(), MessageFault::PseudoLate),
        get_with(("8.3", "4.3"), (":unknown", "a"), MessageFault::PseudoUnknown),
        get_with(("8.3", "4.3"), (":status", "200"), MessageFault::PseudoUnknown),
        get_with(("8.3", "4.3"), (":path", "/"), MessageFault::PseudoTwice),
        changed(2, ""),
        changed(2, "a"),
        changed(2, "*"),
        changed(2, "/a b"),
        changed(0, "G T"),
        changed(0, ""),
        changed(1, ""),
        changed(3, "a b"),
        get_with(("8.3.1", "4.3.1"), ("host", "b"), MessageFault::HostDiffers),
        malformed(("8.5", "4.4"), &connect, MessageFault::PseudoMissing),
        malformed(("8.5", "4.4"), &[&GET[1..], &connect].concat(), MessageFault::PseudoUnknown),
    ]);
    all
}

/// Heads that no server may send.
pub fn responses() -> Vec<Malformed> {
    let mut all: Vec<Malformed> = either(&OK).collect();
    all.extend([
        malformed(("8.3.2", "4.3.2"), &[("x", "a")], MessageFault::PseudoMissing),
        malformed(("8.3.2", "4.3.2"), &[], MessageFault::PseudoMissing),
        malformed(("8.3.2", "4.3.2"), &[(":status", "20")], MessageFault::PseudoValue),
        malformed(("8.3.2", "4.3.2"), &[(":status", "2000")], MessageFault::PseudoValue),
        malformed(("8.6", "4.5"), &[(":status", "101")], MessageFault::PseudoValue),
        malformed(("8.3", "4.3"), &[OK[0], OK[0]], MessageFault::PseudoTwice),
        malformed(("8.3", "4.3"), &[OK[0], (":path", "/")], MessageFault::PseudoUnknown),
        malformed(("8.3", "4.3"), &[("x", "a"), OK[0]], MessageFault::PseudoLate),
    ]);
    all
}
