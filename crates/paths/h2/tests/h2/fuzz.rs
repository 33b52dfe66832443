//! Field blocks and frames that are nearly right, in each direction.

use crate::illegal;
use plumb_fuzz::Target;
use plumb_h2::connection::{Connection, Event, Limits, Side};
use plumb_h2::frame::{Flags, Frame, FrameKind, HEADER_BYTES, encode};
use plumb_h2::hpack::{Decoder, Encoder, Field, Indexing, replayable};
use plumb_h2::{Error, PREFACE, PeerFault};

fn fields() -> Vec<Field<'static>> {
    vec![
        Field::new(b":method", b"GET"),
        Field::new(b":path", b"/index.html"),
        Field::new(b"user-agent", b"plumbline"),
        Field { indexing: Indexing::Never, ..Field::new(b"authorization", b"Basic abc") },
    ]
}

/// An input is blocks, each with its length in two bytes.
fn blocks(input: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = input;
    std::iter::from_fn(move || {
        let (length, after) = rest.split_first_chunk::<2>()?;
        let (block, after) = after.split_at(after.len().min(usize::from(u16::from_be_bytes(*length))));
        rest = after;
        Some(block)
    })
}

#[test]
fn fuzz_hpack_blocks() {
    let mut seed = Vec::new();
    let mut encoder = Encoder::new();
    for _ in 0..3 {
        let mut block = Vec::new();
        encoder.encode(fields(), &mut block);
        seed.extend_from_slice(&(block.len() as u16).to_be_bytes());
        seed.extend_from_slice(&block);
    }
    let words =
        [&[0x20][..], &[0x3f, 0xe1, 0x1f], &[0xbe], &[0x82], &[0x40, 1, b'a', 1, b'b'], &[0xff, 0xff, 0x7f]];
    Target::new("fuzz_hpack_blocks").seeds([seed]).with_words(words).run(|input| {
        let (mut decoder, mut encoder, mut other) = (Decoder::new(), Encoder::new(), Decoder::new());
        let mut outcome = Vec::new();
        for block in blocks(input) {
            let mut list = Vec::new();
            let decoded = decoder.decode(block, 1 << 16, |field| {
                list.push((field.name.to_vec(), field.value.to_vec(), field.indexing));
            });
            // What was read is written, and read again.
            let mut written = Vec::new();
            let fields =
                || list.iter().map(|(name, value, indexing)| Field { name, value, indexing: *indexing });
            encoder.encode(fields(), &mut written);
            let mut again = Vec::new();
            let read = other
                .decode(&written, 1 << 16, |field| again.push((field.name.to_vec(), field.value.to_vec())));
            assert_eq!(read, Ok(()));
            assert!(
                again
                    .iter()
                    .map(|(name, value)| (name, value))
                    .eq(list.iter().map(|(name, value, _)| (name, value)))
            );
            outcome.push((decoded, list.len()));
            if !matches!(outcome.last(), Some((Ok(()) | Err(PeerFault::FieldsTooLong), _))) {
                break;
            }
        }
        outcome
    });
}

/// Frames that are read are those that were written.
#[test]
fn fuzz_h2_frames() {
    let seeds =
        illegal::all().into_iter().filter(|case| case.side == Side::Client && case.bytes.len() < 1000);
    Target::new("fuzz_h2_frames").seeds(seeds.map(|case| case.bytes)).run(|input| {
        let mut rest = input;
        let mut outcome = Vec::new();
        loop {
            match Frame::first_in(rest, 1 << 14) {
                Ok(Some((frame, length))) => {
                    check_written(&frame, &rest[..length]);
                    outcome.push(Ok(rest[3]));
                    rest = &rest[length..];
                }
                Ok(None) => break,
                Err(error) => {
                    outcome.push(Err(error.fault));
                    break;
                }
            }
        }
        outcome
    });
}

fn check_written(frame: &Frame<'_>, bytes: &[u8]) {
    let mut out = Vec::new();
    match *frame {
        Frame::Data { stream, data, ends_stream, .. } => encode::data(stream, data, ends_stream, &mut out),
        Frame::Headers { stream, fragment, ends_stream, ends_block: true } => {
            encode::headers(stream, fragment, ends_stream, 1 << 14, &mut out);
        }
        Frame::Ping { payload, is_ack } => encode::ping(payload, is_ack, &mut out),
        Frame::WindowUpdate { stream, increment } => encode::window_update(stream, increment, &mut out),
        Frame::Settings(pairs) => encode::settings(&pairs.iter().collect::<Vec<_>>(), &mut out),
        _ => return,
    }
    let (again, length) = Frame::first_in(&out, 1 << 14).unwrap().unwrap();
    assert_eq!(length, out.len());
    match (again, *frame) {
        // Padding is not written again.
        (Frame::Data { data, .. }, Frame::Data { data: before, .. }) => assert_eq!(data, before),
        (Frame::Settings(pairs), Frame::Settings(before)) => assert!(pairs.iter().eq(before.iter())),
        (again, before) => assert_eq!(again, before, "{bytes:?}"),
    }
}

/// The events of one side for an input. It must end in an error, or take the input up to a frame that is cut off.
fn received(side: Side, input: &[u8]) -> Vec<Result<u8, Error>> {
    let mut out = Vec::new();
    let mut connection = Connection::begin(side, illegal::SETTINGS, 65_535, Limits::default(), &mut out);
    if side == Side::Client
        && let Ok(stream) = connection.open(false)
    {
        connection.send_fields(stream, fields(), false, &mut out);
    }
    out.clear();
    let mut rest = input;
    let mut outcome = Vec::new();
    loop {
        match connection.receive(rest, &mut out) {
            Ok(Some((event, length))) => {
                rest = &rest[length..];
                outcome.push(match event {
                    Event::Refused(error) => Err(error),
                    Event::Head { stream, .. } if side == Side::Server => {
                        let ok = [Field::new(b":status", b"200")];
                        connection.send_fields(stream, ok, stream % 4 == 1, &mut out);
                        connection.send_data(stream, b"hello", true, &mut out);
                        Ok(1)
                    }
                    Event::Data { stream, flow_bytes, .. } => {
                        connection.release(stream, flow_bytes, &mut out);
                        Ok(2)
                    }
                    Event::Settings => Ok(3),
                    _ => Ok(0),
                });
            }
            Ok(None) => break,
            Err(error) => {
                outcome.push(Err(error));
                break;
            }
        }
    }
    assert!(connection.open_streams() <= 2);
    check_own(&out);
    outcome
}

/// Checks that each frame that a side writes in answer is legal by itself.
fn check_own(mut out: &[u8]) {
    while let Some((_, length)) = Frame::first_in(out, 1 << 24).unwrap() {
        out = &out[length..];
    }
    assert!(out.is_empty());
}

fn format_words() -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new(); 7];
    encode::settings_ack(&mut words[0]);
    encode::window_update(1, 1 << 30, &mut words[1]);
    encode::headers(3, &replayable(fields()), true, 1 << 14, &mut words[2]);
    encode::data(1, b"hello", false, &mut words[3]);
    encode::frame(FrameKind::Continuation, Flags::END_HEADERS, 1, &[0x82], &mut words[4]);
    encode::ping([1; HEADER_BYTES - 1], false, &mut words[5]);
    encode::settings(&[(4, 0)], &mut words[6]);
    words
}

fn fuzz(name: &'static str, side: Side) {
    let seeds = illegal::all().into_iter().filter(|case| case.side == side && case.bytes.len() < 4000);
    Target::new(name)
        .seeds(seeds.map(|case| case.bytes))
        .with_words(format_words().into_iter().chain([PREFACE.to_vec()]))
        .run(|input| received(side, input));
}

#[test]
fn fuzz_h2_connections_of_servers() {
    fuzz("fuzz_h2_connections_of_servers", Side::Server);
}

#[test]
fn fuzz_h2_connections_of_clients() {
    fuzz("fuzz_h2_connections_of_clients", Side::Client);
}
