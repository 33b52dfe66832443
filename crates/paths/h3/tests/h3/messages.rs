//! Messages that arrive in pieces of any size.

use crate::illegal::{frame, headers};
use plumb_fuzz::peak_bytes_of;
use plumb_h2::MessageFault;
use plumb_h3::frame::FrameKind;
use plumb_h3::{Decoder, Event, Exchange, Limits, PeerFault, Side};

fn data(content: &str) -> Vec<u8> {
    frame(FrameKind::Data, content.as_bytes())
}

fn grease() -> Vec<u8> {
    frame(FrameKind::Unknown(0x1f * 1000 + 0x21), b"ignore me")
}

/// The events of a stream that arrives in these pieces, as lines; content is joined.
fn lines<'b>(
    exchange: &mut Exchange,
    decoder: &mut Decoder,
    pieces: impl IntoIterator<Item = &'b [u8]>,
) -> Result<String, PeerFault> {
    let mut lines = String::new();
    let mut was_data = false;
    for mut piece in pieces {
        while let Some(event) = exchange.receive(&mut piece, decoder)? {
            if let Event::Data(data) = event {
                lines += if was_data { "" } else { "\ndata " };
                lines += std::str::from_utf8(data).unwrap();
                was_data = true;
                continue;
            }
            was_data = false;
            lines += &format!("\n{event:?}");
            for (name, value) in decoder.fields().iter() {
                lines += &format!(" {}={}", name.escape_ascii(), value.escape_ascii());
            }
        }
        assert_eq!(piece, b"");
    }
    exchange.end().map(|()| lines)
}

fn check_every_cut(side: Side, bytes: &[u8], expected: &str) {
    let mut decoder = Decoder::new(Limits::default());
    let mut check = |pieces: Vec<&[u8]>| {
        let lines = lines(&mut Exchange::new(side, false), &mut decoder, pieces);
        assert_eq!(lines.as_deref(), Ok(expected));
    };
    check(vec![bytes]);
    check(bytes.chunks(1).collect());
    for cut in 0..bytes.len() {
        check(vec![&bytes[..cut], &bytes[cut..]]);
    }
}

#[test]
fn a_response_is_the_same_wherever_it_is_cut() {
    let bytes = [
        grease(),
        headers(&[(":status", "103"), ("link", "</a>; rel=preload")]),
        headers(&[(":status", "200"), ("content-length", "10"), ("server", "plumbline")]),
        data("hello"),
        data(""),
        grease(),
        data("world"),
        headers(&[("x-checksum", "abc")]),
        grease(),
    ];
    let expected = "\nInterim(103) :status=103 link=</a>; rel=preload\
        \nHead(Head { status: 200, content_length: Some(10) }) :status=200 content-length=10 server=plumbline\
        \ndata helloworld\nTrailers x-checksum=abc";
    check_every_cut(Side::Client, &bytes.concat(), expected);
}

#[test]
fn a_request_is_the_same_wherever_it_is_cut() {
    let head = [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/b?c")];
    let expected = "\nHead(Head { status: 0, content_length: None }) :method=POST :scheme=https :authority=a :path=/b?c\
        \ndata hello";
    check_every_cut(Side::Server, &[headers(&head), data("hello")].concat(), expected);
}

#[test]
fn an_answer_to_head_has_no_content_whatever_its_length() {
    let head = headers(&[(":status", "200"), ("content-length", "10")]);
    for (to_head, outcome) in [(true, Ok(())), (false, Err(PeerFault::Message(MessageFault::BodyLength)))] {
        let mut exchange = Exchange::new(Side::Client, to_head);
        let lines = lines(&mut exchange, &mut Decoder::default(), [&head[..]]);
        assert_eq!(lines.map(drop), outcome);
    }
}

/// An answer that arrives in pieces finds the storage of the one before.
#[test]
fn only_the_first_answer_takes_memory() {
    let answer =
        [headers(&[(":status", "200"), ("server", "plumbline"), ("x", "~~")]), data("hello")].concat();
    let mut decoder = Decoder::default();
    let mut receive = |piece_bytes: usize| {
        let mut exchange = Exchange::new(Side::Client, false);
        for mut piece in answer.chunks(piece_bytes) {
            while exchange.receive(&mut piece, &mut decoder).unwrap().is_some() {}
        }
        exchange.end().unwrap();
    };
    receive(1);
    for piece_bytes in [1, 7, usize::MAX] {
        assert_eq!(peak_bytes_of(|| receive(piece_bytes)).1, 0, "pieces of {piece_bytes}");
    }
}
