//! Nearly valid answers end requests in the same way, however the bytes are split. Memory per request and per connection has bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use plumb_fuzz::Target;
use plumb_h2::frame::{Flags, FrameKind, HEADER_BYTES, encode};
use plumb_h2::hpack::{Field, replayable};
use plumb_h2::{ErrorCode, Settings};
use plumb_model::{Bytes, LoadWindow};
use plumb_pace::Frame;

use super::receive::UNREAD_BYTES_MAX;
use super::*;
use crate::load::beginnings::Beginnings;
use crate::load::checks::Checks;
use crate::load::core::RequestSettings;
use crate::load::tally::Tally;
use crate::load::transport::Security;

/// The outcome of three requests: failures by kind, answers by status, the bytes that the client queued, and the repeats.
type Outcome = (BTreeMap<String, u64>, Vec<(usize, u64)>, Vec<u8>, usize);

fn core() -> Core<Shared> {
    core_of(&LoadSettings::default())
}

fn core_of(spec: &LoadSettings) -> Core<Shared> {
    let spec = LoadSettings { streams: 3, ..spec.clone() };
    let url = Url::parse("http://127.0.0.1/").unwrap();
    let request_settings = RequestSettings {
        address: "127.0.0.1:80".parse().unwrap(),
        checks: Checks::new(Vec::new()),
        reuse: Reuse::KeepAlive,
        timeout_ns: 1,
        is_auto: false,
        netns: None,
    };
    let shared = H2::shared(&spec, &url);
    Core::new(
        Arc::new(request_settings),
        shared,
        Security::Plain,
        Beginnings::new(&spec, 1),
        Tally::default(),
    )
    .unwrap()
}

/// Opens three streams, and gives the client the server's bytes in pieces of this length.
fn outcome(core: &mut Core<Shared>, bytes: &[u8], piece: usize) -> Outcome {
    core.tally = Tally::new(Frame::new(0, 0, 1_000_000_000), false, 0);
    core.again.clear();
    let mut client = H2::new(&core.shared);
    (0..3).for_each(|_| client.take(Due::new(0, 0)));
    client.open_streams(core, 0);
    client.wire.out.clear();
    let mut failed = Ok(());
    for piece in bytes.chunks(piece) {
        failed = client.take_bytes(core, piece);
        if failed.is_err() {
            break;
        }
    }
    if let Err(failure) = failed {
        client.streams.iter_mut().for_each(|stream| stream.fail(core, &failure, 0));
        client.reset();
    }
    let statuses = core.tally.statuses.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
    let ended = core.again.len() + core.tally.recorder.attempts.tried as usize;
    assert_eq!(ended + client.streams.len(), 3, "every request ends once, or is under way");
    (core.tally.recorder.errors.clone(), statuses, client.wire.out, core.again.len())
}

fn frames(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    Settings { max_concurrent_streams: 3, header_table_size: 100, ..Settings::default() }.encode(&mut out);
    write(&mut out);
    out
}

fn seeds() -> Vec<Vec<u8>> {
    let ok = replayable([Field::new(b":status", b"200"), Field::new(b"content-length", b"2")]);
    vec![
        frames(|out| {
            encode::headers(1, &ok, false, 1 << 14, out);
            encode::data(1, b"ok", true, out);
            encode::headers(3, &[0x88], true, 1 << 14, out);
        }),
        frames(|out| {
            encode::headers(5, &replayable([Field::new(b":status", b"103")]), false, 1, out);
            encode::headers(5, &ok, false, 4, out);
            encode::frame(FrameKind::Data, Flags::PADDED, 5, &[1, b'o', b'k', 0], out);
            encode::headers(5, &replayable([Field::new(b"a", b"b")]), true, 1 << 14, out);
        }),
        // DATA that is taken in pieces.
        frames(|out| {
            encode::headers(1, &[0x88], false, 1 << 14, out);
            encode::data(1, &[b'x'; (1 << 14) + 1], true, out);
            encode::headers(3, &[0x88], true, 1 << 14, out);
        }),
        frames(|out| {
            encode::settings_ack(out);
            encode::ping([1; 8], false, out);
            encode::window_update(0, 9, out);
            encode::window_update(3, 9, out);
            encode::rst_stream(3, ErrorCode::RefusedStream, out);
            encode::go_away(1, ErrorCode::NoError, b"x", out);
            encode::headers(1, &ok, false, 1 << 14, out);
        }),
    ]
}

#[test]
fn fuzz_http2_answers() {
    let mut core = core_of(&LoadSettings { max_frame: Bytes(1 << 20), ..LoadSettings::default() });
    Target::new("fuzz_http2_answers").seeds(seeds()).run(|bytes| {
        let whole = outcome(&mut core, bytes, usize::MAX);
        let pieces = outcome(&mut core, bytes, 1 + bytes.len() % 23);
        assert_eq!(pieces, whole, "the pieces change the outcome");
        let (errors, statuses, _, again) = whole;
        (errors.into_keys().collect::<Vec<_>>(), statuses, again)
    });
}

/// With 100 on a connection, each has some 280 bytes here and 60 in `plumb_h2`, in vectors for 128, and a share of the connection's
/// buffers.
#[test]
fn a_request_under_way_takes_at_most_512_bytes() {
    const CONNECTIONS: usize = 10;
    const STREAMS: usize = 100;
    let mut core = core();
    let answers = frames(|out| {
        for id in (1..2 * STREAMS as u32).step_by(2) {
            encode::headers(id, &[0x88], false, 1 << 14, out);
            encode::data(id, b"begun", false, out);
        }
    });
    let (under_way, peak_bytes) = plumb_fuzz::peak_bytes_of(|| {
        let mut clients: Vec<H2> = (0..CONNECTIONS).map(|_| H2::new(&core.shared)).collect();
        for client in &mut clients {
            (0..STREAMS).for_each(|_| client.take(Due::new(0, 0)));
            client.open_streams(&mut core, 0);
            client.wire.out.clear();
            client.take_bytes(&mut core, &answers).unwrap();
        }
        clients.iter().map(|client| client.streams.len()).sum::<usize>()
    });
    assert_eq!(under_way, CONNECTIONS * STREAMS);
    assert!(peak_bytes <= under_way * 512, "{} bytes for each", peak_bytes / under_way);
}

/// A read has up to 64 KiB. That is too much to keep for each of many connections, and so is a large frame.
#[test]
fn a_connection_keeps_no_more_of_a_read_than_a_frame() {
    const KEPT_BYTES_MAX: usize = 2 * (HEADER_BYTES + (1 << 14));
    for frame_bytes in [1 << 14, 1 << 20] {
        let mut core = core_of(&LoadSettings { max_frame: Bytes(frame_bytes), ..LoadSettings::default() });
        let content = vec![b'x'; frame_bytes as usize];
        let answer = frames(|out| {
            encode::headers(1, &[0x88], false, 1 << 14, out);
            (0..40).for_each(|_| encode::data(1, &content, false, out));
        });
        let mut client = H2::new(&core.shared);
        client.take(Due::new(0, 0));
        client.open_streams(&mut core, 0);
        for read in answer.chunks(64 << 10) {
            client.take_bytes(&mut core, read).unwrap();
            let kept_bytes = client.wire.input.capacity();
            assert!(kept_bytes <= KEPT_BYTES_MAX, "{kept_bytes} bytes");
        }
        assert_eq!(client.streams[0].answer.body_bytes, 40 * frame_bytes);
        assert!(core.shared.joined.capacity() <= 4 * KEPT_BYTES_MAX, "{}", core.shared.joined.capacity());
    }
}

/// The window of the connection is used up by two streams together, and again once its update has left.
#[test]
fn a_window_of_the_connection_that_is_used_up_is_counted_once_for_each_update() {
    let mut spec = LoadSettings::default();
    spec.windows.connection = Bytes(65_535);
    let mut core = core_of(&spec);
    core.tally = Tally::new(Frame::new(0, 0, 1_000_000_000), false, 0);
    let mut client = H2::new(&core.shared);
    (0..2).for_each(|_| client.take(Due::new(0, 0)));
    client.open_streams(&mut core, 0);
    let begin = frames(|out| {
        encode::settings_ack(out);
        encode::headers(1, &[0x88], false, 1 << 14, out);
        encode::headers(3, &[0x88], false, 1 << 14, out);
    });
    client.take_bytes(&mut core, &begin).unwrap();
    let content = vec![b'x'; 1 << 14];
    let mut whole = Vec::new();
    (0..3).for_each(|_| encode::data(1, &content, false, &mut whole));
    encode::data(3, &content[1..], false, &mut whole);
    for turn in 1..=3 {
        // However the bytes are read, the window is used up once.
        for read in whole.chunks(10_000) {
            client.take_bytes(&mut core, read).unwrap();
        }
        assert_eq!(client.wire.used_up, [(LoadWindow::Connection, client.wire.heard_ns)]);
        client.wire.open_windows(&mut core);
        let [connection, stream] = &core.tally.times.withheld;
        assert_eq!((connection.count(), stream.count()), (turn, 0));
    }
}

/// Neither the load's own frames nor those that the kernel has taken are unread answers.
#[test]
fn only_answers_that_the_server_does_not_read_are_a_flood() {
    let mut core = core();
    let ask = frames(|out| {
        encode::headers(1, &[0x88], false, 1 << 14, out);
        // DATA, since too many PINGs in a row are a flood in any case.
        for _ in 0..UNREAD_BYTES_MAX / (HEADER_BYTES + 8) {
            encode::ping([1; 8], false, out);
            encode::data(1, b"x", false, out);
        }
    });
    let more = frames(|out| encode::ping([1; 8], false, out));
    for (own_bytes, sent_bytes, is_flood) in [(0, 0, true), (100, 200, false)] {
        let mut client = H2::new(&core.shared);
        client.take(Due::new(0, 0));
        client.open_streams(&mut core, 0);
        client.wire.out = vec![0; own_bytes];
        client.take_bytes(&mut core, &ask).unwrap();
        client.wire.sent = sent_bytes;
        assert_eq!(client.take_bytes(&mut core, &more).is_err(), is_flood, "{sent_bytes} bytes were sent");
    }
}

#[test]
fn a_connection_without_ids_ends_after_its_last_answer() {
    let mut core = core();
    let mut client = H2::new(&core.shared);
    client.take(Due::new(0, 0));
    client.open_streams(&mut core, 0);
    client.take_bytes(&mut core, &frames(|_| ())).unwrap();
    assert!(client.has_room());
    // This side's GOAWAY leaves no ids, too.
    client.wire.rules.go_away(ErrorCode::NoError, &mut client.wire.out);
    assert!(!client.has_room() && client.end(&core, false).is_none());
    let mut answer = Vec::new();
    encode::headers(1, &[0x88], true, 1 << 14, &mut answer);
    client.take_bytes(&mut core, &answer).unwrap();
    assert_eq!(client.end(&core, true), Some(Then::Close));
}
