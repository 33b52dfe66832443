//! Reads frames.

use super::{Flags, Frame, FrameKind, HEADER_BYTES, Header, Pairs};
use crate::error::{Error, PeerFault};

/// The bits of a stream's id, without the reserved one.
const ID_MASK: u32 = (1 << 31) - 1;

impl Header {
    /// Reads a header from the front of `bytes`. Returns `None` if it is incomplete.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let &[a, b, c, kind, flags, e, f, g, h] = bytes.first_chunk::<HEADER_BYTES>()?;
        Some(Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: FrameKind::from_number(kind),
            flags: Flags(flags),
            stream: u32::from_be_bytes([e, f, g, h]) & ID_MASK,
        })
    }

    /// Checks the length, before the payload has arrived.
    ///
    /// # Errors
    ///
    /// When the payload is longer than `payload_bytes_max`, this side's SETTINGS_MAX_FRAME_SIZE.
    pub fn check_size(&self, payload_bytes_max: u32) -> Result<(), Error> {
        // Section 4.2 lets a receiver end one stream only if the frame changes no other state, so it would have to skip
        // the payload. Ending the connection is allowed for every frame.
        if self.length > payload_bytes_max { Err(PeerFault::FrameTooLarge.on_connection()) } else { Ok(()) }
    }

    /// Checks that a frame of this kind may be on stream 0, or on another.
    pub(crate) fn check_stream(&self) -> Result<(), Error> {
        let Self { kind, stream, .. } = *self;
        let fault = match kind {
            FrameKind::Settings | FrameKind::Ping | FrameKind::GoAway if stream != 0 => {
                PeerFault::NotOnStreamZero(kind)
            }
            FrameKind::Settings
            | FrameKind::Ping
            | FrameKind::GoAway
            | FrameKind::WindowUpdate
            | FrameKind::Unknown(_) => return Ok(()),
            _ if stream == 0 => PeerFault::OnStreamZero(kind),
            _ => return Ok(()),
        };
        Err(fault.on_connection())
    }
}

impl<'a> Frame<'a> {
    /// Reads a frame from the front of `bytes`. Returns it with its length in bytes, or `None` if it is incomplete.
    ///
    /// # Errors
    ///
    /// When its payload is longer than `payload_bytes_max`, and those of [`Frame::parse`].
    pub fn first_in(bytes: &'a [u8], payload_bytes_max: u32) -> Result<Option<(Self, usize)>, Error> {
        let Some(header) = Header::parse(bytes) else { return Ok(None) };
        header.check_size(payload_bytes_max)?;
        let length = HEADER_BYTES + header.length as usize;
        let Some(payload) = bytes.get(HEADER_BYTES..length) else { return Ok(None) };
        Ok(Some((Self::parse(header, payload)?, length)))
    }

    /// Reads the payload that belongs to a header. `payload` must have the header's length.
    ///
    /// # Errors
    ///
    /// When the kind of the frame forbids its length, its padding or its stream. Errors of PRIORITY and WINDOW_UPDATE
    /// frames can end their stream only.
    pub fn parse(header: Header, payload: &'a [u8]) -> Result<Self, Error> {
        let Header { kind, flags, stream, .. } = header;
        header.check_stream()?;
        match kind {
            FrameKind::Data => {
                let (data, ends_stream) = (unpad(flags, payload, kind)?, flags.has(Flags::END_STREAM));
                Ok(Self::Data { stream, data, flow_bytes: payload.len(), ends_stream })
            }
            FrameKind::Headers => headers(header, payload),
            FrameKind::Priority if payload.len() == 5 => Ok(Self::Priority { stream }),
            FrameKind::Priority => Err(PeerFault::FrameLength(kind).on_stream(stream)),
            FrameKind::RstStream => Ok(Self::RstStream { stream, code: number(payload, kind)? }),
            FrameKind::Settings => settings(flags, payload),
            FrameKind::PushPromise => push_promise(header, payload),
            FrameKind::Ping => {
                let payload = payload.try_into().map_err(|_| length_fault(kind))?;
                Ok(Self::Ping { payload, is_ack: flags.has(Flags::ACK) })
            }
            FrameKind::GoAway => go_away(payload),
            FrameKind::WindowUpdate => window_update(stream, payload),
            FrameKind::Continuation => Ok(Self::Continuation {
                stream,
                fragment: payload,
                ends_block: flags.has(Flags::END_HEADERS),
            }),
            FrameKind::Unknown(_) => Ok(Self::Unknown(header)),
        }
    }
}

fn length_fault(kind: FrameKind) -> Error {
    PeerFault::FrameLength(kind).on_connection()
}

/// Strips the padding and the byte with its length. The bytes of the padding are not checked, which section 6.1 allows.
fn unpad(flags: Flags, payload: &[u8], kind: FrameKind) -> Result<&[u8], Error> {
    if !flags.has(Flags::PADDED) {
        return Ok(payload);
    }
    let (&padding, rest) = payload.split_first().ok_or(length_fault(kind))?;
    let length = rest.len().checked_sub(usize::from(padding)).ok_or(PeerFault::Padding.on_connection())?;
    Ok(&rest[..length])
}

fn headers(header: Header, payload: &[u8]) -> Result<Frame<'_>, Error> {
    let Header { kind, flags, stream, .. } = header;
    let mut fragment = unpad(flags, payload, kind)?;
    if flags.has(Flags::PRIORITY) {
        // If the padding leaves no room for the priority, the padding is too long.
        let fault = if flags.has(Flags::PADDED) { PeerFault::Padding } else { PeerFault::FrameLength(kind) };
        fragment = fragment.get(5..).ok_or(fault.on_connection())?;
    }
    let (ends_stream, ends_block) = (flags.has(Flags::END_STREAM), flags.has(Flags::END_HEADERS));
    Ok(Frame::Headers { stream, fragment, ends_stream, ends_block })
}

fn settings(flags: Flags, payload: &[u8]) -> Result<Frame<'_>, Error> {
    match (flags.has(Flags::ACK), payload.len()) {
        (true, 0) => Ok(Frame::SettingsAck),
        (false, length) if length % 6 == 0 => Ok(Frame::Settings(Pairs(payload))),
        _ => Err(length_fault(FrameKind::Settings)),
    }
}

fn push_promise(header: Header, payload: &[u8]) -> Result<Frame<'_>, Error> {
    let Header { kind, flags, stream, .. } = header;
    let (promised, fragment) =
        unpad(flags, payload, kind)?.split_first_chunk::<4>().ok_or(length_fault(kind))?;
    let promised = u32::from_be_bytes(*promised) & ID_MASK;
    Ok(Frame::PushPromise { stream, promised, fragment, ends_block: flags.has(Flags::END_HEADERS) })
}

fn go_away(payload: &[u8]) -> Result<Frame<'_>, Error> {
    let (&[a, b, c, d, e, f, g, h], debug) =
        payload.split_first_chunk::<8>().ok_or(length_fault(FrameKind::GoAway))?;
    let last_stream = u32::from_be_bytes([a, b, c, d]) & ID_MASK;
    Ok(Frame::GoAway { last_stream, code: u32::from_be_bytes([e, f, g, h]), debug })
}

fn window_update(stream: u32, payload: &[u8]) -> Result<Frame<'_>, Error> {
    let increment = number(payload, FrameKind::WindowUpdate)? & ID_MASK;
    match (increment, stream) {
        (0, 0) => Err(PeerFault::ZeroIncrement.on_connection()),
        (0, stream) => Err(PeerFault::ZeroIncrement.on_stream(stream)),
        _ => Ok(Frame::WindowUpdate { stream, increment }),
    }
}

fn number(payload: &[u8], kind: FrameKind) -> Result<u32, Error> {
    payload.try_into().map(u32::from_be_bytes).map_err(|_| length_fault(kind))
}
