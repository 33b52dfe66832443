//! Responses that are nearly right, one after the other on a connection.
//!
//! The first byte says whether they answer HEAD. However they are split, and whatever head was seen before, the outcome must be the same.

use plumb_fuzz::Target;

use super::*;

const WORDS: [&str; 14] = [
    "\r\n",
    "\r\n\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 18446744073709551615\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.0 304 \r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "5;a=b\r\nhello\r\n",
    "0\r\n\r\n",
    "ffffffffffffffff\r\n",
];

/// The responses of a connection, up to the first that is wrong or not complete.
fn connection(
    known: &mut KnownHead,
    answers_head: bool,
    mut bytes: &[u8],
    piece: usize,
) -> Result<Vec<Outcome>, ParseError> {
    let mut outcomes = Vec::new();
    while !bytes.is_empty() {
        let pieces: Vec<&[u8]> = bytes.chunks(piece).collect();
        let outcome = parse_knowing(known, answers_head, &pieces)?;
        assert!(outcome.body.len() <= bytes.len() - outcome.left, "no body is longer than what came");
        bytes = &bytes[bytes.len() - outcome.left..];
        outcomes.push(outcome);
        // A client that cannot go on closes.
        if outcomes.last().is_some_and(|last| !last.is_complete || !last.keeps_alive) {
            break;
        }
    }
    Ok(outcomes)
}

/// A response that says the same in the plainest way.
fn written(outcome: &Outcome) -> Vec<u8> {
    let alive = if outcome.keeps_alive { "keep-alive" } else { "close" };
    let length = outcome.body.len();
    let head =
        format!("HTTP/1.1 {} x\r\ncontent-length: {length}\r\nconnection: {alive}\r\n\r\n", outcome.status);
    [head.as_bytes(), &outcome.body].concat()
}

#[test]
fn fuzz_http_answers() {
    let seeds = responses().into_iter().map(|(text, _)| format!("\0{text}"));
    let pairs = responses().into_iter().map(|(text, _)| format!("\0{text}{text}"));
    let heads = ["\x01HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\nHTTP/1.1 404\r\n\r\n"];
    let target = Target::new("fuzz_http_answers").seeds(seeds).seeds(pairs).seeds(heads).with_words(WORDS);
    let mut known_for_long = KnownHead::default();
    target.run(|bytes| {
        let Some((first, rest)) = bytes.split_first() else { return (Ok(Vec::new()), 0) };
        let answers_head = first & 1 == 1;
        let connect = |known: &mut KnownHead, piece| connection(known, answers_head, rest, piece);
        let whole = connect(&mut KnownHead::default(), usize::MAX);
        assert_eq!(
            connect(&mut KnownHead::default(), 1 + rest.len() % 23),
            whole,
            "the pieces change the outcome"
        );
        assert_eq!(
            connect(&mut known_for_long, usize::MAX),
            whole,
            "what was seen before changes the outcome"
        );
        let complete = whole.iter().flatten().filter(|outcome| outcome.is_complete && !answers_head);
        for outcome in complete.filter(|outcome| !matches!(outcome.status, 204 | 304)) {
            let expected = Outcome { interims: Vec::new(), left: 0, ..outcome.clone() };
            assert_eq!(parse(false, &[&written(outcome)]), Ok(expected), "what is written is read back");
        }
        let shape = |outcome: &Outcome| (outcome.status / 100, outcome.keeps_alive, outcome.is_complete);
        let count = whole.as_ref().map_or(0, Vec::len);
        let whole = whole.map(|outcomes| outcomes.iter().take(2).map(shape).collect::<Vec<_>>());
        (whole.map_err(|error| std::mem::discriminant(&error)), count)
    });
}
