//! The message that a peer sends on a request stream: which frames are allowed when (RFC 9114, sections 4.1 and 7.2).

use plumb_h2::connection::Side;
use plumb_h2::message::{Content, Part, check};
use plumb_h2::{Fields, Head, MessageFault};

use crate::error::PeerFault;
use crate::frame::{FrameKind, Piece, Reader};
use crate::qpack;

/// Bounds on the peer's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest field block before it is decoded, in bytes.
    pub block_bytes_max: usize,
    /// The largest list of fields, as SETTINGS_MAX_FIELD_SECTION_SIZE counts it, in bytes.
    pub fields_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { block_bytes_max: 64 << 10, fields_bytes_max: 256 << 10 }
    }
}

/// Reads the field blocks of all streams of one connection, or of many. It keeps its storage from block to block.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    qpack: qpack::Decoder,
    fields: Fields,
    /// Storage for blocks that arrive in pieces.
    spare: Vec<Vec<u8>>,
}

impl Decoder {
    /// A decoder with these bounds.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// The fields of the last [`Event::Head`], [`Event::Interim`] or [`Event::Trailers`].
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    fn decode(&mut self, block: &[u8], part: Part) -> Result<Head, PeerFault> {
        let Self { limits, qpack, fields, .. } = self;
        fields.clear();
        qpack.decode(block, limits.fields_bytes_max, |field| fields.push(field.name, field.value))?;
        let head = check(fields, part)?;
        if part == Part::Request {
            check_authority(fields)?;
        }
        Ok(head)
    }
}

/// Requests for `http` and `https` name a host (RFC 9114, section 4.3.1).
fn check_authority(fields: &Fields) -> Result<(), MessageFault> {
    let needs_host = matches!(fields.get(b":scheme"), Some(b"http" | b"https"));
    let names = [&b":authority"[..], b"host"].map(|name| fields.get(name));
    if needs_host && names == [None, None] {
        return Err(MessageFault::PseudoMissing);
    }
    if names.contains(&Some(b"")) { Err(MessageFault::PseudoValue) } else { Ok(()) }
}

/// Something that arrived on a request stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'b> {
    /// The fields of a request or a final response, which [`Decoder::fields`] has until the next block.
    Head(Head),
    /// An interim response with this status, with its fields in [`Decoder::fields`].
    Interim(u16),
    /// Content, never empty.
    Data(&'b [u8]),
    /// Trailers, with their fields in [`Decoder::fields`].
    Trailers,
}

/// The part of the message that the peer sends next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    Head,
    Body,
    /// Trailers have arrived, so that only the end may follow.
    End,
}

/// The state of one request stream. A new one allocates nothing; storage for a block in pieces comes from the [`Decoder`].
#[derive(Debug)]
pub struct Exchange {
    side: Side,
    /// Whether the response answers HEAD, and so has no content whatever length it states.
    to_head: bool,
    awaits: Awaits,
    content: Content,
    reader: Reader,
    /// The first part of a field block.
    block: Vec<u8>,
}

impl Exchange {
    /// A stream on which a client receives the response to its request, or a server the request.
    #[must_use]
    pub fn new(side: Side, to_head: bool) -> Self {
        let (awaits, content, reader) = (Awaits::Head, Content::default(), Reader::default());
        Self { side, to_head, awaits, content, reader, block: Vec::new() }
    }

    /// Takes bytes of the stream from the front of `bytes` up to an event. `None` means that `bytes` has been used up.
    ///
    /// # Errors
    ///
    /// When the peer broke a rule; [`PeerFault::scope`] says whether the connection has to end. The stream must not be read further.
    pub fn receive<'b>(
        &mut self,
        bytes: &mut &'b [u8],
        decoder: &mut Decoder,
    ) -> Result<Option<Event<'b>>, PeerFault> {
        while let Some(piece) = self.reader.next(bytes) {
            match piece {
                Piece::Header { kind, length } => self.begin(kind, length, decoder)?,
                Piece::Payload { kind: FrameKind::Data, bytes: data, .. } if !data.is_empty() => {
                    return Ok(Some(Event::Data(data)));
                }
                Piece::Payload { kind: FrameKind::Headers, bytes: piece, ends } => {
                    if let Some(event) = self.gather(piece, ends, decoder)? {
                        return Ok(Some(event));
                    }
                }
                Piece::Payload { .. } => {}
            }
        }
        Ok(None)
    }

    /// The peer's side of the stream ended in order.
    ///
    /// # Errors
    ///
    /// When the message is not complete.
    pub fn end(&self) -> Result<(), PeerFault> {
        if !self.reader.is_between_frames() {
            return Err(PeerFault::FrameCutOff);
        }
        if self.awaits == Awaits::Head {
            return Err(match self.side {
                Side::Client => PeerFault::ResponseMissing,
                Side::Server => PeerFault::RequestMissing,
            });
        }
        Ok(self.content.end()?)
    }

    /// Checks that a frame may begin here.
    fn begin(&mut self, kind: FrameKind, length: u64, decoder: &Decoder) -> Result<(), PeerFault> {
        match (kind, self.awaits, self.side) {
            (FrameKind::Unknown(_), ..) => Ok(()),
            (FrameKind::PushPromise, _, Side::Client) => Err(PeerFault::Push),
            (FrameKind::Data | FrameKind::Headers, Awaits::End, _) => Err(PeerFault::AfterTrailers(kind)),
            (FrameKind::Data, Awaits::Head, _) => Err(PeerFault::DataBeforeFields),
            (FrameKind::Data, Awaits::Body, _) => Ok(self.content.take(length)?),
            (FrameKind::Headers, ..) if length > decoder.limits.block_bytes_max as u64 => {
                Err(PeerFault::BlockTooLong)
            }
            (FrameKind::Headers, ..) => Ok(()),
            _ => Err(PeerFault::OnRequestStream(kind)),
        }
    }

    /// Takes the next piece of a field block, and decodes the block once it is whole.
    fn gather(
        &mut self,
        piece: &[u8],
        ends: bool,
        decoder: &mut Decoder,
    ) -> Result<Option<Event<'static>>, PeerFault> {
        if ends && self.block.is_empty() {
            return self.take_block(piece, decoder).map(Some);
        }
        if self.block.capacity() == 0 {
            self.block = decoder.spare.pop().unwrap_or_default();
        }
        self.block.extend_from_slice(piece);
        if !ends {
            return Ok(None);
        }
        let mut block = std::mem::take(&mut self.block);
        let event = self.take_block(&block, decoder);
        block.clear();
        decoder.spare.push(block);
        event.map(Some)
    }

    fn take_block(&mut self, block: &[u8], decoder: &mut Decoder) -> Result<Event<'static>, PeerFault> {
        let part = match (self.awaits, self.side) {
            (Awaits::Head, Side::Client) => Part::Response,
            (Awaits::Head, Side::Server) => Part::Request,
            (Awaits::Body | Awaits::End, _) => Part::Trailers,
        };
        let head = decoder.decode(block, part)?;
        if part == Part::Trailers {
            self.content.end()?;
            self.awaits = Awaits::End;
            return Ok(Event::Trailers);
        }
        if (100..200).contains(&head.status) {
            return Ok(Event::Interim(head.status));
        }
        self.content = Content::after(head, self.to_head);
        self.awaits = Awaits::Body;
        Ok(Event::Head(head))
    }
}
