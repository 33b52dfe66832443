//! Both ends of a connection: illegal input, and two ends together.

use crate::illegal;
use plumb_h2::connection::{Blocked, Connection, Event, Limits, Sent, Side};
use plumb_h2::frame::{Frame, encode};
use plumb_h2::hpack::Field;
use plumb_h2::{Error, ErrorCode, PeerFault, Scope, Settings};

/// One side, with all that it wrote.
struct End {
    connection: Connection,
    out: Vec<u8>,
}

impl End {
    fn new(side: Side, settings: Settings) -> Self {
        let mut out = Vec::new();
        let connection = Connection::begin(side, settings, 65_535, Limits::default(), &mut out);
        Self { connection, out }
    }

    /// The illegal frame must be the last one; its error.
    fn error_of(&mut self, mut bytes: &[u8]) -> Option<Error> {
        loop {
            match self.connection.receive(bytes, &mut self.out) {
                Ok(Some((Event::Refused(error), length))) => {
                    return (bytes.len() == length).then_some(error);
                }
                Ok(Some((_, length))) => bytes = &bytes[length..],
                Ok(None) => return None,
                Err(error) => {
                    self.connection.fail(error, &mut self.out);
                    // A frame that is too large, or no frame at all, is refused before it is there in full.
                    let is_last = Frame::first_in(bytes, u32::MAX)
                        .is_ok_and(|read| read.is_none_or(|(_, length)| length == bytes.len()));
                    return (is_last || Frame::first_in(bytes, u32::MAX).is_err()).then_some(error);
                }
            }
        }
    }
}

fn request(path: &str) -> [Field<'_>; 4] {
    [
        Field::new(b":method", b"GET"),
        Field::new(b":scheme", b"http"),
        Field::new(b":path", path.as_bytes()),
        Field::new(b":authority", b"a"),
    ]
}

#[test]
fn what_is_illegal_gives_the_error_that_it_must_give() {
    let cases = illegal::all();
    assert!(cases.len() >= 80, "{}", cases.len());
    for case in cases {
        let mut end = End::new(case.side, illegal::SETTINGS);
        if case.side == Side::Client {
            let stream = end.connection.open(false).unwrap();
            end.connection.send_fields(stream, request("/"), true, &mut end.out);
        }
        let shown = |bytes: &[u8]| bytes[..bytes.len().min(200)].escape_ascii().to_string();
        assert_eq!(
            end.error_of(&case.bytes),
            Some(case.error),
            "{} {:?}: {}",
            case.section,
            case.side,
            shown(&case.bytes)
        );
        // The peer is told: by the last frame that was written, which has the code.
        let (mut rest, mut last) = (&end.out[..], None);
        if case.side == Side::Client {
            rest = &rest[plumb_h2::PREFACE.len()..];
        }
        while let Some((frame, length)) = Frame::first_in(rest, u32::MAX).unwrap() {
            (last, rest) = (Some(frame), &rest[length..]);
        }
        let told = match (last, case.error.scope) {
            (Some(Frame::GoAway { code, .. }), Scope::Connection) => code,
            (Some(Frame::RstStream { stream, code }), Scope::Stream(refused)) if stream == refused => code,
            (other, _) => panic!("{}: the last frame is {other:?}", case.section),
        };
        assert_eq!(ErrorCode::from_number(told), case.error.code);
    }
}

/// Two ends of a connection.
struct Pair {
    client: End,
    server: End,
}

impl Pair {
    fn new(client: Settings, server: Settings) -> Self {
        let mut pair =
            Self { client: End::new(Side::Client, client), server: End::new(Side::Server, server) };
        pair.exchange();
        pair
    }

    /// Carries bytes to and fro until there are none. Returns the events of the client and of the server.
    fn exchange(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut to_client, mut to_server) = (Vec::new(), Vec::new());
        while !(self.client.out.is_empty() && self.server.out.is_empty()) {
            let sent = std::mem::take(&mut self.client.out);
            to_server.extend(self.server.take(&sent));
            let sent = std::mem::take(&mut self.server.out);
            to_client.extend(self.client.take(&sent));
        }
        (to_client, to_server)
    }

    fn ask(&mut self, to_head: bool, ends_stream: bool) -> u32 {
        let stream = self.client.connection.open(to_head).unwrap();
        self.client.connection.send_fields(stream, request("/"), ends_stream, &mut self.client.out);
        stream
    }

    fn answer(&mut self, stream: u32, content_length: &str, ends_stream: bool) {
        let fields =
            [Field::new(b":status", b"200"), Field::new(b"content-length", content_length.as_bytes())];
        self.server.connection.send_fields(stream, fields, ends_stream, &mut self.server.out);
    }
}

impl End {
    /// Takes frames. Returns their events as text.
    fn take(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut events = Vec::new();
        while let Some((event, length)) = self.connection.receive(bytes, &mut self.out).unwrap() {
            bytes = &bytes[length..];
            events.extend(match event {
                Event::Nothing | Event::Settings => None,
                Event::Head { stream, head, ends_stream } => {
                    Some(format!("{stream}: head {} ends {ends_stream}", head.status))
                }
                Event::Data { stream, data, flow_bytes, ends_stream } => {
                    self.connection.release(stream, flow_bytes, &mut self.out);
                    Some(format!("{stream}: {} bytes ends {ends_stream}", data.len()))
                }
                other => Some(format!("{other:?}")),
            });
        }
        assert!(bytes.is_empty(), "{bytes:?}");
        events
    }
}

#[test]
fn requests_are_answered() {
    let mut pair = Pair::new(Settings::default(), Settings::default());
    let stream = pair.ask(false, true);
    assert_eq!(pair.exchange().1, ["1: head 0 ends true"]);
    assert_eq!(pair.server.connection.fields().get(b":path"), Some(&b"/"[..]));
    pair.answer(stream, "5", false);
    pair.server.connection.send_data(stream, b"hello", true, &mut pair.server.out);
    assert_eq!(pair.exchange().0, ["1: head 200 ends false", "1: 5 bytes ends true"]);
    // An answer to HEAD names a length and has no content.
    let stream = pair.ask(true, true);
    pair.exchange();
    pair.answer(stream, "5", true);
    assert_eq!(pair.exchange().0, ["3: head 200 ends true"]);
    assert_eq!((pair.client.connection.open_streams(), pair.server.connection.open_streams()), (0, 0));
}

#[test]
fn windows_and_limits_say_what_they_are() {
    let server = Settings { max_concurrent_streams: 2, initial_window_size: 10, ..Settings::default() };
    let mut pair = Pair::new(Settings::default(), server);
    let stream = pair.ask(false, false);
    let sent = pair.client.connection.send_data(stream, &[0; 30], true, &mut pair.client.out);
    assert_eq!(sent, Sent { bytes: 10, blocked: Some(Blocked::StreamWindow) });
    let (to_client, to_server) = pair.exchange();
    assert_eq!(to_server, ["1: head 0 ends false", "1: 10 bytes ends false"]);
    assert_eq!(to_client, ["Window { stream: 1 }"]);
    pair.ask(false, true);
    assert_eq!(pair.client.connection.open(false), Err(Blocked::StreamLimit));
    pair.answer(stream, "0", true);
    // The stream goes on until the client has sent its part too.
    pair.exchange();
    assert_eq!(pair.client.connection.open(false), Err(Blocked::StreamLimit));
    let sent = pair.client.connection.send_data(stream, &[0; 10], true, &mut pair.client.out);
    assert_eq!(sent, Sent { bytes: 10, blocked: None });
    pair.exchange();
    assert_eq!(pair.client.connection.can_open(), Ok(()));
    assert_eq!(pair.client.connection.room(stream), Err(Blocked::StreamEnded));
}

#[test]
fn the_window_of_the_connection_is_shared() {
    let server = Settings { initial_window_size: 1 << 20, ..Settings::default() };
    let mut pair = Pair::new(Settings::default(), server);
    let (first, second) = (pair.ask(false, false), pair.ask(false, false));
    let client = &mut pair.client;
    let sent = client.connection.send_data(first, &[0; 65_535], false, &mut client.out);
    assert_eq!(sent, Sent { bytes: 65_535, blocked: None });
    let sent = client.connection.send_data(second, b"x", true, &mut client.out);
    assert_eq!(sent, Sent { bytes: 0, blocked: Some(Blocked::ConnectionWindow) });
    // The end alone needs no window.
    let sent = client.connection.send_data(second, b"", true, &mut client.out);
    assert_eq!(sent, Sent { bytes: 0, blocked: None });
    let (to_client, to_server) = pair.exchange();
    assert!(to_client.contains(&"Window { stream: 0 }".to_owned()), "{to_client:?}");
    assert!(to_server.contains(&format!("{second}: 0 bytes ends true")), "{to_server:?}");
    assert!(pair.client.connection.room(first).is_ok());
}

#[test]
fn a_stream_that_was_ended_here_may_still_get_frames() {
    let mut pair = Pair::new(Settings::default(), Settings::default());
    let stream = pair.ask(false, true);
    pair.exchange();
    pair.answer(stream, "10", false);
    pair.server.connection.send_data(stream, b"hello", false, &mut pair.server.out);
    pair.client.connection.reset(stream, ErrorCode::Cancel, &mut pair.client.out);
    let (to_client, to_server) = pair.exchange();
    assert_eq!(to_client, [""; 0]);
    assert_eq!(to_server, ["Reset { stream: 1, code: Cancel }"]);
    let sent = pair.server.connection.send_data(stream, b"hello", true, &mut pair.server.out);
    assert_eq!(sent, Sent { bytes: 0, blocked: Some(Blocked::StreamEnded) });
}

#[test]
fn goaway_says_which_requests_can_be_repeated() {
    let mut pair = Pair::new(Settings::default(), Settings::default());
    let first = pair.ask(false, true);
    pair.exchange();
    pair.server.connection.go_away(ErrorCode::NoError, &mut pair.server.out);
    // The client does not know yet. The server drops its request, whose content does not use up the window.
    let late = pair.ask(false, false);
    pair.client.connection.send_data(late, &[0; 40_000], true, &mut pair.client.out);
    let (to_client, to_server) = pair.exchange();
    assert_eq!(to_client, ["GoAway { last_stream: 1, code: NoError }", "Window { stream: 0 }"]);
    assert_eq!(to_server, [""; 0]);
    pair.server.connection.go_away(ErrorCode::NoError, &mut pair.server.out);
    assert_eq!(pair.exchange().0, ["GoAway { last_stream: 1, code: NoError }"]);
    assert_eq!(pair.client.connection.open(false), Err(Blocked::GoingAway));
    pair.answer(first, "0", true);
    assert_eq!(pair.exchange().0, ["1: head 200 ends true"]);
    assert_eq!(pair.client.connection.open_streams(), 0);
}

#[test]
fn tables_follow_the_settings_of_either_side() {
    let small = Settings { header_table_size: 0, ..Settings::default() };
    let mut pair = Pair::new(small, small);
    for length in ["0", "0", "0"] {
        let stream = pair.ask(false, true);
        assert_eq!(pair.exchange().1.len(), 1);
        pair.answer(stream, length, true);
        assert_eq!(pair.exchange().0.len(), 1);
    }
}

/// A server may send by the default window before it acknowledges a smaller one, and then has no window left.
#[test]
fn a_window_that_settings_lowered_opens_again() {
    let mut client = End::new(Side::Client, Settings { initial_window_size: 1000, ..Settings::default() });
    let stream = client.connection.open(false).unwrap();
    client.connection.send_fields(stream, request("/"), true, &mut client.out);
    let mut answer = Vec::new();
    Settings::default().encode(&mut answer);
    encode::headers(stream, &[0x88], false, 1 << 14, &mut answer);
    encode::data(stream, &[0; 1 << 14], false, &mut answer);
    client.take(&answer);
    client.out.clear();
    let mut ack = Vec::new();
    encode::settings_ack(&mut ack);
    client.take(&ack);
    let (frame, _) = Frame::first_in(&client.out, 1 << 14).unwrap().unwrap();
    assert_eq!(frame, Frame::WindowUpdate { stream, increment: 1 << 14 });
}

/// A client that takes frames of up to 1 MiB, with a request under way, and the bytes that a server answers it with.
fn large(write: impl FnOnce(u32, &mut Vec<u8>)) -> (End, Vec<u8>) {
    let windows = Settings { initial_window_size: 1 << 30, max_frame_size: 1 << 20, ..Settings::default() };
    let mut out = Vec::new();
    let connection = Connection::begin(Side::Client, windows, 1 << 30, Limits::default(), &mut out);
    let mut client = End { connection, out };
    let stream = client.connection.open(false).unwrap();
    client.connection.send_fields(stream, request("/"), true, &mut client.out);
    let mut answer = Vec::new();
    Settings::default().encode(&mut answer);
    encode::settings_ack(&mut answer);
    encode::headers(stream, &[0x88], false, 1 << 14, &mut answer);
    write(stream, &mut answer);
    client.out.clear();
    (client, answer)
}

/// Takes bytes in pieces of this length. Returns the events of DATA, the error, and the most bytes that had to be kept.
fn in_pieces(client: &mut End, bytes: &[u8], piece: usize) -> (Vec<(usize, bool)>, Option<Error>, usize) {
    let (mut kept, mut most, mut events) = (Vec::new(), 0, Vec::new());
    for piece in bytes.chunks(piece) {
        kept.extend_from_slice(piece);
        loop {
            match client.connection.receive(&kept, &mut client.out) {
                Ok(Some((event, length))) => {
                    if let Event::Data { data, ends_stream, .. } = event {
                        events.push((data.len(), ends_stream));
                    }
                    if let Event::Refused(error) = event {
                        return (events, Some(error), most);
                    }
                    kept.drain(..length);
                }
                Ok(None) => break,
                Err(error) => return (events, Some(error), most),
            }
        }
        most = most.max(kept.len());
    }
    (events, None, most)
}

#[test]
fn large_data_is_taken_as_it_arrives() {
    for ends_stream in [false, true] {
        let (mut client, answer) = large(|stream, out| {
            encode::data(stream, &vec![b'x'; 1 << 20], ends_stream, out);
            encode::ping([1; 8], false, out);
        });
        let (events, error, most) = in_pieces(&mut client, &answer, 1000);
        let last = events.last().map(|(_, ends)| *ends);
        assert_eq!((events.iter().map(|(bytes, _)| bytes).sum::<usize>(), error), (1 << 20, None));
        assert_eq!(
            (last, events.iter().filter(|(_, ends)| *ends).count()),
            (Some(ends_stream), ends_stream.into())
        );
        assert!(most <= 17, "{most} bytes were kept");
        // The frame after it is found, and answered.
        assert!(client.out.ends_with(&[1; 8]));
    }
}

#[test]
fn a_fault_of_large_data_is_that_of_the_whole_frame() {
    for stream in [0, 1, 3] {
        let (mut whole, answer) = large(|_, out| encode::data(stream, &[0; 100_000], true, out));
        let (mut pieces, _) = large(|_, _| ());
        let expected = in_pieces(&mut whole, &answer, usize::MAX).1;
        assert_eq!(in_pieces(&mut pieces, &answer, 1000).1, expected, "on stream {stream}");
        assert_eq!(expected.is_none(), stream == 1);
    }
}

/// The header of the frame is enough to refuse it.
#[test]
fn a_large_frame_has_no_field_block_above_the_limit() {
    let (mut client, mut answer) = large(|_, _| ());
    let bytes = Limits::default().block_bytes_max + 1;
    encode::headers(1, &vec![0x88; bytes], true, 1 << 20, &mut answer);
    let (_, error, most) = in_pieces(&mut client, &answer, 1000);
    assert_eq!(error, Some(PeerFault::BlockTooLong.on_connection()));
    assert!(most <= 1000, "{most} bytes were kept");
}
