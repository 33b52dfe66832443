//! The server's side of a connection of HTTP/2.

use std::collections::VecDeque;

use plumb_h2::frame::{Frame, HEADER_BYTES, Header, encode};
use plumb_h2::hpack::{Decoder, Field, replayable};
use plumb_h2::{PREFACE, Settings};

use super::super::server::Conversation;

/// A message of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    /// The request on a stream is complete.
    End(u32),
    /// A piece of a request's body.
    Data(u32, Vec<u8>),
    /// The client gave a stream up.
    Reset(u32),
    /// The client gives the connection up, with this code.
    GoAway(u32),
    /// The client's settings by their number.
    Settings(Vec<(u16, u32)>),
    /// The client's window for a stream, or with 0 for the connection, grows by this number of bytes.
    Window(u32, u32),
    /// Anything else.
    Other,
}

pub struct Peer<'a> {
    conversation: &'a mut Conversation,
    decoder: Decoder,
    /// Whether it acknowledges the client's settings.
    acknowledges: bool,
    heard: VecDeque<Heard>,
}

impl<'a> Peer<'a> {
    /// Reads the client's preface, and sends the server's with these settings.
    pub fn accept(conversation: &'a mut Conversation, settings: &Settings) -> Option<Self> {
        let mut peer = Self::silent(conversation)?;
        peer.acknowledges = true;
        peer.say(|out| settings.encode(out));
        Some(peer)
    }

    /// Reads the client's preface, and sends nothing.
    pub fn silent(conversation: &'a mut Conversation) -> Option<Self> {
        let preface = conversation.bytes(PREFACE.len())?;
        assert_eq!(preface, PREFACE);
        Some(Self { conversation, decoder: Decoder::new(), acknowledges: false, heard: VecDeque::new() })
    }

    /// Sends frames. If the client is gone, the next read shows it.
    pub fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.conversation.send(&out);
    }

    /// Answers with status 200 and a body, in one write.
    pub fn answer(&mut self, stream: u32, body: &[u8]) {
        let block =
            replayable([Field::new(b":status", b"200"), Field::new(b"content-type", b"text/plain; x=y")]);
        self.say(|out| {
            encode::headers(stream, &block, body.is_empty(), 1 << 14, out);
            let mut pieces = body.chunks(1 << 14).peekable();
            while let Some(piece) = pieces.next() {
                encode::data(stream, piece, pieces.peek().is_none(), out);
            }
        });
    }

    /// Waits until the client has enlarged its window for a stream by this number of bytes; `None` after it closed the connection.
    pub fn await_window(&mut self, stream: u32, mut bytes: u32) -> Option<()> {
        while bytes > 0 {
            if let Heard::Window(of, increment) = self.hear()?
                && of == stream
            {
                bytes = bytes.checked_sub(increment).unwrap();
            }
        }
        Some(())
    }

    /// The client's next message; `None` after it closed the connection.
    pub fn hear(&mut self) -> Option<Heard> {
        if let Some(heard) = self.heard.pop_front() {
            return Some(heard);
        }
        let header = Header::parse(&self.conversation.bytes(HEADER_BYTES)?).unwrap();
        let payload = self.conversation.bytes(header.length as usize)?;
        let mut ended = |stream, ends| {
            if ends {
                self.conversation.count_request();
                self.heard.push_back(Heard::End(stream));
            }
        };
        Some(match Frame::parse(header, &payload).unwrap() {
            Frame::Headers { stream, fragment, ends_stream, ends_block } => {
                assert!(ends_block, "the tests' requests fit into a frame");
                self.decoder.decode(fragment, usize::MAX, |_| ()).unwrap();
                ended(stream, ends_stream);
                Heard::Other
            }
            Frame::Data { stream, data, ends_stream, .. } => {
                ended(stream, ends_stream);
                Heard::Data(stream, data.to_vec())
            }
            Frame::RstStream { stream, .. } => Heard::Reset(stream),
            Frame::GoAway { code, .. } => Heard::GoAway(code),
            Frame::Settings(pairs) => {
                if self.acknowledges {
                    self.say(encode::settings_ack);
                }
                Heard::Settings(pairs.iter().collect())
            }
            Frame::WindowUpdate { stream, increment } => Heard::Window(stream, increment),
            _ => Heard::Other,
        })
    }
}
