//! The parser against responses in every split, and against bytes that are none.

mod fuzz;

use proptest::prelude::*;

use super::*;

/// The result of parsing a response.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    status: u16,
    keeps_alive: bool,
    body: Vec<u8>,
    interims: Vec<u16>,
    is_complete: bool,
    /// Bytes behind the response.
    left: usize,
}

/// Feeds the pieces one after the other and then the end of the connection.
fn parse(answers_head: bool, pieces: &[&[u8]]) -> Result<Outcome, ParseError> {
    parse_knowing(&mut KnownHead::default(), answers_head, pieces)
}

/// As [`parse`], after other responses of the same server.
fn parse_knowing(known: &mut KnownHead, answers_head: bool, pieces: &[&[u8]]) -> Result<Outcome, ParseError> {
    let mut parser = Parser::new();
    parser.begin(answers_head);
    let (mut body, mut interims) = (Vec::new(), Vec::new());
    let total: usize = pieces.iter().map(|piece| piece.len()).sum();
    let mut used = 0;
    let mut is_complete = false;
    'pieces: for piece in pieces {
        let mut at = 0;
        loop {
            let (taken, progress) =
                parser.feed(&piece[at..], known, &mut |bytes| body.extend_from_slice(bytes))?;
            at += taken;
            used += taken;
            match progress {
                Progress::More => break,
                Progress::Interim(status) => interims.push(status),
                Progress::Complete => {
                    is_complete = true;
                    break 'pieces;
                }
            }
        }
    }
    let is_complete = is_complete || parser.close();
    let (status, keeps_alive) = (parser.status(), parser.keeps_alive());
    Ok(Outcome { status, keeps_alive, body, interims, is_complete, left: total - used })
}

fn whole(response: &str) -> Result<Outcome, ParseError> {
    parse(false, &[response.as_bytes()])
}

fn answer(status: u16, keeps_alive: bool, body: &str) -> Outcome {
    Outcome { status, keeps_alive, body: body.into(), interims: vec![], is_complete: true, left: 0 }
}

/// Responses that are right, each with what is to come of it.
fn responses() -> Vec<(&'static str, Outcome)> {
    let interim = |outcome: Outcome, status| Outcome { interims: vec![status], ..outcome };
    vec![
        ("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 5\r\n\r\nhello", answer(200, true, "hello")),
        ("HTTP/1.1 200\r\ncontent-LENGTH:5\r\n\r\nhello", answer(200, true, "hello")),
        ("HTTP/1.1 200 \nContent-Length : 5 \n\nhello", answer(200, true, "hello")),
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", answer(404, true, "")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok", answer(200, true, "ok")),
        ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", answer(200, false, "ok")),
        (
            "HTTP/1.1 200 OK\r\nConnection: close, keep-alive\r\nContent-Length: 2\r\n\r\nok",
            answer(200, false, "ok"),
        ),
        (
            "HTTP/1.0 200 OK\r\nConnection: close\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
            answer(200, false, "ok"),
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", answer(200, false, "ok")),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", answer(200, true, "ok")),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", answer(200, false, "until the end")),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nabc",
            answer(200, false, "abc"),
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 9\r\n\r\n\
             5;a=\"b\"\r\nhello\r\n00006 \r\n world\r\n0\r\nTrailer: x\r\n\r\n",
            answer(200, true, "hello world"),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", answer(200, true, "")),
        ("HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", answer(204, true, "")),
        ("HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", answer(304, true, "")),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nX: 1\r\n folded\r\nContent-Length: 2\r\n\r\nok",
            interim(answer(200, true, "ok"), 100),
        ),
        (
            "HTTP/1.1 103 Early Hints\r\nContent-Length: 99\r\n\r\nHTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
            interim(answer(500, true, ""), 103),
        ),
    ]
}

#[test]
fn responses_are_understood_in_one_piece_and_byte_by_byte() {
    for (text, expected) in responses() {
        assert_eq!(whole(text).as_ref(), Ok(&expected), "{text:?}");
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(parse(false, &bytes).as_ref(), Ok(&expected), "{text:?} byte by byte");
    }
}

#[test]
fn every_split_in_two_gives_the_same() {
    for (text, expected) in responses() {
        for at in 0..=text.len() {
            let (a, b) = text.as_bytes().split_at(at);
            assert_eq!(parse(false, &[a, b]).as_ref(), Ok(&expected), "{text:?} split at {at}");
        }
    }
}

#[test]
fn a_head_that_was_seen_before_means_the_same_again() {
    let mut known = KnownHead::default();
    for (text, expected) in responses() {
        for _ in 0..3 {
            let outcome = parse_knowing(&mut known, false, &[text.as_bytes()]);
            assert_eq!(outcome.as_ref(), Ok(&expected), "{text:?}");
        }
    }
}

#[test]
fn a_head_that_was_seen_before_has_no_body_in_a_response_to_head() {
    let mut known = KnownHead::default();
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    for answers_head in [false, true, false] {
        let outcome = parse_knowing(&mut known, answers_head, &[head, b"ok"]).unwrap();
        assert_eq!(outcome.body.is_empty(), answers_head);
    }
}

#[test]
fn a_response_to_head_has_no_body() {
    let outcome = parse(true, &[b"HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\n"]).unwrap();
    assert_eq!(outcome, answer(200, true, ""));
}

#[test]
fn what_follows_a_response_is_left_alone() {
    let outcome = whole("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 ").unwrap();
    assert_eq!(outcome, Outcome { left: 9, ..answer(200, true, "ok") });
}

#[test]
fn a_cut_response_is_not_complete() {
    for (text, _) in responses() {
        let head = text.len() - text.rsplit("\r\n").next().unwrap().len();
        let is_delimited_by_close = text.ends_with("until the end") || text.ends_with("abc");
        for at in 0..if is_delimited_by_close { head } else { text.len() } {
            let outcome = parse(false, &[&text.as_bytes()[..at]]).unwrap();
            assert!(!outcome.is_complete, "{text:?} cut at {at}");
        }
    }
}

#[test]
fn what_is_wrong_is_named() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let with = |rest: &str| format!("{chunked}{rest}");
    let cases = [
        ("\r\n".to_owned(), ParseError::StatusLine),
        ("HTTP/2 200\r\n".to_owned(), ParseError::StatusLine),
        ("HTTP/1.1 20\r\n".to_owned(), ParseError::StatusLine),
        ("HTTP/1.1 2000\r\n".to_owned(), ParseError::StatusLine),
        ("HTTP/1.1 099 No\r\n".to_owned(), ParseError::StatusLine),
        ("<html>\n".to_owned(), ParseError::StatusLine),
        ("HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned(), ParseError::Upgrade),
        ("HTTP/1.1 200 OK\r\nno colon\r\n".to_owned(), ParseError::Header),
        ("HTTP/1.1 200 OK\r\n: x\r\n".to_owned(), ParseError::Header),
        ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n".to_owned(), ParseError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length:\r\n".to_owned(), ParseError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n".to_owned(), ParseError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n".to_owned(), ParseError::ContentLengths),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n".to_owned(),
            ParseError::ContentLengths,
        ),
        (with("\r\n"), ParseError::ChunkSize),
        (with("5 5\r\n"), ParseError::ChunkSize),
        (with("-5\r\n"), ParseError::ChunkSize),
        (with("fffffffffffffffff\r\n"), ParseError::ChunkSize),
        (with("2\r\nabc\r\n"), ParseError::ChunkEnd),
        (with(&format!("2;{}", "x".repeat(CHUNK_LINE_BYTES_MAX))), ParseError::ChunkLineTooLong),
        (with(&format!("0\r\n{}", "a: b\r\n".repeat(HEAD_BYTES_MAX / 6 + 1))), ParseError::HeadTooLong),
        (format!("HTTP/1.1 200 {}", "x".repeat(HEAD_BYTES_MAX)), ParseError::HeadTooLong),
        (
            format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(HEAD_BYTES_MAX / 6 + 1)),
            ParseError::HeadTooLong,
        ),
    ];
    for (text, expected) in cases {
        let short: String = text.chars().take(60).collect();
        assert_eq!(whole(&text), Err(expected), "{short:?}");
    }
}

#[test]
fn the_largest_chunk_does_not_overflow() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc";
    let outcome = whole(text).unwrap();
    assert_eq!((outcome.body.as_slice(), outcome.is_complete), (&b"abc"[..], false));
}

#[test]
fn one_parser_reads_response_after_response() {
    let mut parser = Parser::new();
    for (text, expected) in responses().into_iter().filter(|(_, expected)| expected.interims.is_empty()) {
        parser.begin(false);
        let (taken, _) = parser.feed(text.as_bytes(), &mut KnownHead::default(), &mut |_| ()).unwrap();
        assert_eq!((taken, parser.status()), (text.len(), expected.status), "{text:?}");
        assert!(parser.close());
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same(which in 0..16_usize, cuts in prop::collection::vec(0..200_usize, 0..12)) {
        let (text, expected) = responses().swap_remove(which);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).chain([0, text.len()]).collect();
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text.as_bytes()[pair[0]..pair[1]]).collect();
        prop_assert_eq!(parse(false, &pieces), Ok(expected));
    }

    #[test]
    fn what_was_seen_before_changes_nothing(
        order in prop::collection::vec((0..16_usize, 0..200_usize), 1..12),
    ) {
        let mut known = KnownHead::default();
        for (which, cut) in order {
            let (text, expected) = responses().swap_remove(which);
            let (a, b) = text.as_bytes().split_at(cut.min(text.len()));
            prop_assert_eq!(parse_knowing(&mut known, false, &[a, b]), Ok(expected));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1..40_usize) {
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        drop(parse(false, &pieces));
    }

    #[test]
    fn no_damaged_response_makes_it_panic_or_depend_on_its_split(
        which in 0..16_usize,
        damage in prop::collection::vec((0..200_usize, any::<u8>()), 1..4),
        size in 1..40_usize,
    ) {
        let mut bytes = responses().swap_remove(which).0.as_bytes().to_vec();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(parse(false, &pieces), parse(false, &[bytes.as_slice()]));
    }
}
