//! Field blocks, frames and streams that are nearly right, in each direction.

use crate::illegal::{self, GET, OK, begins, data, frame, headers, number, settings};
use plumb_fuzz::Target;
use plumb_h2::hpack::{Field, Indexing};
use plumb_h3::frame::{FrameKind, Piece, Reader, encode};
use plumb_h3::peer::{self, Peer, Stream};
use plumb_h3::{Decoder, Event, Exchange, PeerFault, Settings, Side, StreamKind, qpack};

type List = Vec<(Vec<u8>, Vec<u8>, Indexing)>;

fn decoded(block: &[u8]) -> (List, Result<(), PeerFault>) {
    let mut list = List::new();
    let outcome = qpack::Decoder::default().decode(block, 1 << 16, |field| {
        list.push((field.name.to_vec(), field.value.to_vec(), field.indexing));
    });
    (list, outcome)
}

/// What is read is written, and read again.
#[test]
fn fuzz_qpack_blocks() {
    let blocks = illegal::all().into_iter().filter_map(|case| {
        let is_block = case.section.0 == 9204 && case.streams[0].is_request;
        is_block.then(|| case.streams[0].bytes[2..].to_vec())
    });
    let legal = [&GET[..], &[("x-mine", "a"), ("~", "^")]].map(|fields| headers(fields)[2..].to_vec());
    Target::new("fuzz_qpack_blocks").seeds(blocks.chain(legal)).run(|block| {
        let (list, outcome) = decoded(block);
        let fields = list.iter().map(|(name, value, indexing)| Field { name, value, indexing: *indexing });
        let mut written = Vec::new();
        qpack::encode(fields, &mut written);
        assert_eq!(decoded(&written), (list.clone(), Ok(())));
        (outcome, list.len())
    });
}

/// The frames of a stream, each with its payload, and whether the last one is whole.
fn frames(bytes: &[u8], piece_bytes: usize) -> (Vec<(FrameKind, Vec<u8>)>, bool) {
    let (mut reader, mut frames) = (Reader::default(), Vec::new());
    for mut piece in bytes.chunks(piece_bytes) {
        while let Some(found) = reader.next(&mut piece) {
            match found {
                Piece::Header { kind, .. } => frames.push((kind, Vec::new())),
                Piece::Payload { bytes, .. } => frames.last_mut().unwrap().1.extend_from_slice(bytes),
            }
        }
        assert_eq!(piece, b"");
    }
    (frames, reader.is_between_frames())
}

/// Frames do not depend on the cuts, and are read as they were written.
#[test]
fn fuzz_h3_frames() {
    Target::new("fuzz_h3_frames").seeds(streams(Side::Client, true)).with_words(format_words()).run(
        |input| {
            let (whole, is_whole) = frames(input, usize::MAX);
            assert_eq!(frames(input, 1), (whole.clone(), is_whole));
            let mut written = Vec::new();
            for (kind, payload) in &whole {
                encode::frame(*kind, payload, &mut written);
            }
            assert_eq!(frames(&written, 3), (whole.clone(), true));
            (whole.iter().map(|frame| frame.0).collect::<Vec<_>>(), is_whole)
        },
    );
}

/// The events of a message, with its content joined, and how it ends.
fn message(side: Side, input: &[u8], piece_bytes: usize) -> (Vec<String>, usize, Result<(), PeerFault>) {
    let (mut exchange, mut decoder) = (Exchange::new(side, false), Decoder::default());
    let (mut events, mut content_bytes) = (Vec::new(), 0);
    let mut take = || {
        for mut piece in input.chunks(piece_bytes) {
            while let Some(event) = exchange.receive(&mut piece, &mut decoder)? {
                match event {
                    Event::Data(data) => content_bytes += data.len(),
                    other => events.push(format!("{other:?} {}", decoder.fields().iter().count())),
                }
            }
            assert_eq!(piece, b"");
        }
        exchange.end()
    };
    let outcome = take();
    assert!(content_bytes <= input.len());
    (events, content_bytes, outcome)
}

fn fuzz_messages(name: &'static str, side: Side) {
    Target::new(name).seeds(streams(side, true)).with_words(format_words()).run(|input| {
        let whole = message(side, input, usize::MAX);
        assert_eq!(message(side, input, 1), whole);
        (whole.0.len(), whole.1 > 0, whole.2)
    });
}

#[test]
fn fuzz_h3_messages_of_servers() {
    fuzz_messages("fuzz_h3_messages_of_servers", Side::Server);
}

#[test]
fn fuzz_h3_messages_of_clients() {
    fuzz_messages("fuzz_h3_messages_of_clients", Side::Client);
}

/// The events of unidirectional streams. An input is pieces, each after a byte for its stream and a byte for its length.
fn unidirectional(side: Side, mut input: &[u8], piece_bytes: usize) -> Result<Vec<peer::Event>, PeerFault> {
    let mut peer = Peer::new(side);
    let mut streams: [Stream; 8] = Default::default();
    let mut events = Vec::new();
    while let [stream, length, rest @ ..] = input {
        let (bytes, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        let stream = &mut streams[usize::from(*stream) % 8];
        for mut piece in bytes.chunks(piece_bytes) {
            while let Some(event) = peer.receive(stream, &mut piece)? {
                events.push(event);
            }
        }
        if bytes.is_empty() {
            peer.end(stream)?;
            *stream = Stream::default();
        }
        input = rest;
    }
    for event in &events {
        check_settings(event);
    }
    Ok(events)
}

/// Settings are read as they were written.
fn check_settings(event: &peer::Event) {
    let peer::Event::Settings(settings) = event else { return };
    let mut written = Vec::new();
    settings.encode(&mut written);
    let (frames, _) = frames(&written, usize::MAX);
    assert_eq!(Settings::decode(&frames[0].1), Ok(*settings));
}

/// Streams as the pieces of one input.
fn pieces(streams: &[Vec<u8>]) -> Vec<u8> {
    let piece = |(at, bytes): (usize, &Vec<u8>)| {
        let bytes = &bytes[..bytes.len().min(255)];
        [&[at as u8, bytes.len() as u8], bytes].concat()
    };
    streams.iter().enumerate().flat_map(piece).collect()
}

fn fuzz_peers(name: &'static str, side: Side) {
    let legal = [
        [begins(StreamKind::Control), settings(&[(1, 0), (6, 1000), (0x21, 5)]), go_away(8), go_away(4)]
            .concat(),
        [begins(StreamKind::QpackEncoder), vec![0x20]].concat(),
        [begins(StreamKind::QpackDecoder), vec![0x44, 0x7f, 0xff, 0x01]].concat(),
        [begins(StreamKind::Unknown(0x21)), vec![1, 2, 3]].concat(),
    ];
    let illegal = streams(side, false).map(|stream| pieces(&[stream]));
    Target::new(name).seeds(illegal.chain([pieces(&legal)])).with_words(format_words()).run(|input| {
        let whole = unidirectional(side, input, usize::MAX);
        assert_eq!(unidirectional(side, input, 1), whole);
        whole.map(|events| events.iter().map(std::mem::discriminant).collect::<Vec<_>>())
    });
}

#[test]
fn fuzz_h3_peers_of_servers() {
    fuzz_peers("fuzz_h3_peers_of_servers", Side::Server);
}

#[test]
fn fuzz_h3_peers_of_clients() {
    fuzz_peers("fuzz_h3_peers_of_clients", Side::Client);
}

/// The last streams of the illegal cases of a side, and for messages legal ones.
fn streams(side: Side, is_request: bool) -> impl Iterator<Item = Vec<u8>> {
    let cases = illegal::all().into_iter().filter(move |case| case.side == side);
    let last = cases.filter_map(|mut case| case.streams.pop());
    let illegal = last.filter(move |sent| sent.is_request == is_request && sent.bytes.len() < 4000);
    let trailers = headers(&[("x", "a")]);
    let sized = ("content-length", "5");
    let legal = match side {
        Side::Server => [headers(&[&GET[..], &[sized]].concat()), data(5), trailers].concat(),
        Side::Client => {
            [headers(&[(":status", "103")]), headers(&[OK[0], sized]), data(2), data(3), trailers].concat()
        }
    };
    illegal.map(|sent| sent.bytes).chain(is_request.then_some(legal))
}

fn go_away(id: u64) -> Vec<u8> {
    let mut out = Vec::new();
    encode::go_away(id, &mut out);
    out
}

fn format_words() -> Vec<Vec<u8>> {
    vec![
        headers(&GET),
        headers(&OK),
        headers(&[("x", "a")]),
        data(5),
        frame(FrameKind::Unknown(0x21), &[0; 3]),
        frame(FrameKind::MaxPushId, &[7]),
        settings(&[(6, 9)]),
        go_away(4),
        number((1 << 62) - 1),
        vec![0x20, 0x20],
    ]
}
