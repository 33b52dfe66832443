//! The peer's unidirectional streams: which it may open, and what it may say on them (RFC 9114, sections 6.2 and 7.2).

use plumb_h2::connection::Side;

use crate::begun::Begun;
use crate::error::PeerFault;
use crate::frame::{FrameKind, Piece, Reader};
use crate::qpack::{DecoderStream, check_encoder_stream};
use crate::settings::Settings;
use crate::stream_kind::StreamKind;
use crate::varint;

/// The longest payload of a frame on the control stream, in bytes. SETTINGS are the longest, and have some dozen.
const PAYLOAD_BYTES_MAX: u64 = 4096;

/// Something that arrived on a unidirectional stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The kind of the stream. The bytes of an unknown kind are dropped, so the caller may stop reading it.
    Opened(StreamKind),
    /// The peer's settings.
    Settings(Settings),
    /// The peer processes no requests, or a client no pushes, from this id on.
    GoAway(u64),
    /// The client takes pushes up to this id.
    MaxPushId(u64),
}

/// One unidirectional stream of the peer.
#[derive(Debug, Default)]
pub struct Stream(State);

#[derive(Debug)]
enum State {
    /// The kind has not arrived.
    New(Begun<8>),
    Control(Control),
    QpackEncoder,
    QpackDecoder(DecoderStream),
    /// Whatever arrives is dropped.
    Unknown,
}

impl Default for State {
    fn default() -> Self {
        Self::New(Begun::default())
    }
}

/// The frames of a control stream.
#[derive(Debug, Default)]
struct Control {
    reader: Reader,
    payload: Vec<u8>,
}

/// The facts about the peer that its unidirectional streams share.
#[derive(Debug)]
pub struct Peer {
    /// This side.
    side: Side,
    /// The critical streams that the peer has opened. It may open each only once.
    opened: Vec<StreamKind>,
    settings: Option<Settings>,
    /// The id of the last GOAWAY.
    go_away: Option<u64>,
    max_push_id: Option<u64>,
}

impl Peer {
    /// The peer of this side, before it has sent anything.
    #[must_use]
    pub fn new(side: Side) -> Self {
        Self { side, opened: Vec::new(), settings: None, go_away: None, max_push_id: None }
    }

    /// The peer's settings, once they have arrived.
    #[must_use]
    pub fn settings(&self) -> Option<Settings> {
        self.settings
    }

    /// Takes bytes of a stream from the front of `bytes` up to an event. `None` means that `bytes` has been used up.
    ///
    /// # Errors
    ///
    /// When the peer broke a rule. The connection has to end.
    pub fn receive(&mut self, stream: &mut Stream, bytes: &mut &[u8]) -> Result<Option<Event>, PeerFault> {
        match &mut stream.0 {
            State::New(begun) => {
                let Some(number) = begun.take(bytes, |mut bytes| varint::decode(&mut bytes)) else {
                    return Ok(None);
                };
                let kind = StreamKind::from_number(number);
                stream.0 = self.open(kind)?;
                Ok(Some(Event::Opened(kind)))
            }
            State::Control(control) => self.take_frames(control, bytes),
            State::QpackEncoder => check_encoder_stream(std::mem::take(bytes)).map(|()| None),
            State::QpackDecoder(decoder) => decoder.check(std::mem::take(bytes)).map(|()| None),
            State::Unknown => {
                *bytes = &[];
                Ok(None)
            }
        }
    }

    /// The peer ended or reset a stream.
    ///
    /// # Errors
    ///
    /// When the stream has to last as long as the connection.
    pub fn end(&self, stream: &Stream) -> Result<(), PeerFault> {
        let kind = match stream.0 {
            State::New(_) | State::Unknown => return Ok(()),
            State::Control(_) => StreamKind::Control,
            State::QpackEncoder => StreamKind::QpackEncoder,
            State::QpackDecoder(_) => StreamKind::QpackDecoder,
        };
        Err(PeerFault::StreamEnded(kind))
    }

    fn open(&mut self, kind: StreamKind) -> Result<State, PeerFault> {
        let state = match (kind, self.side) {
            (StreamKind::Control, _) => State::Control(Control::default()),
            (StreamKind::QpackEncoder, _) => State::QpackEncoder,
            (StreamKind::QpackDecoder, _) => State::QpackDecoder(DecoderStream::default()),
            (StreamKind::Push, Side::Server) => return Err(PeerFault::PushByClient),
            // No MAX_PUSH_ID allowed it.
            (StreamKind::Push, Side::Client) => return Err(PeerFault::Push),
            (StreamKind::Unknown(_), _) => return Ok(State::Unknown),
        };
        if self.opened.contains(&kind) {
            return Err(PeerFault::StreamTwice(kind));
        }
        self.opened.push(kind);
        Ok(state)
    }

    fn take_frames(&mut self, control: &mut Control, bytes: &mut &[u8]) -> Result<Option<Event>, PeerFault> {
        while let Some(piece) = control.reader.next(bytes) {
            match piece {
                Piece::Header { kind, length } => {
                    self.check_control(kind, length)?;
                    control.payload.clear();
                }
                Piece::Payload { kind: FrameKind::Unknown(_), .. } => {}
                Piece::Payload { kind, bytes: piece, ends } => {
                    control.payload.extend_from_slice(piece);
                    if ends {
                        return self.take_control(kind, &control.payload).map(Some);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Checks that a frame may begin here.
    fn check_control(&self, kind: FrameKind, length: u64) -> Result<(), PeerFault> {
        match (kind, self.side) {
            (FrameKind::Settings, _) if self.settings.is_some() => return Err(PeerFault::SettingsTwice),
            (FrameKind::Settings, _) => {}
            _ if self.settings.is_none() => return Err(PeerFault::SettingsNotFirst),
            (FrameKind::Unknown(_), _) => return Ok(()),
            (FrameKind::MaxPushId, Side::Server) | (FrameKind::GoAway | FrameKind::CancelPush, _) => {}
            _ => return Err(PeerFault::OnControlStream(kind)),
        }
        if length > PAYLOAD_BYTES_MAX { Err(PeerFault::ControlFrameTooLong(kind)) } else { Ok(()) }
    }

    /// Takes a frame of the control stream that [`Self::check_control`] allowed.
    fn take_control(&mut self, kind: FrameKind, payload: &[u8]) -> Result<Event, PeerFault> {
        if kind == FrameKind::Settings {
            let settings = Settings::decode(payload)?;
            self.settings = Some(settings);
            return Ok(Event::Settings(settings));
        }
        let mut rest = payload;
        let id = varint::decode(&mut rest).filter(|_| rest.is_empty()).ok_or(PeerFault::FrameLength(kind))?;
        match kind {
            FrameKind::GoAway => self.take_go_away(id),
            FrameKind::MaxPushId => self.take_max_push_id(id),
            // This side neither promises pushes nor allows them.
            _ => Err(PeerFault::CancelPush),
        }
    }

    fn take_go_away(&mut self, id: u64) -> Result<Event, PeerFault> {
        if self.side == Side::Client && !id.is_multiple_of(4) {
            return Err(PeerFault::GoAwayId);
        }
        if self.go_away.is_some_and(|earlier| id > earlier) {
            return Err(PeerFault::GoAwayRises);
        }
        self.go_away = Some(id);
        Ok(Event::GoAway(id))
    }

    fn take_max_push_id(&mut self, id: u64) -> Result<Event, PeerFault> {
        if self.max_push_id.is_some_and(|earlier| id < earlier) {
            return Err(PeerFault::MaxPushIdFalls);
        }
        self.max_push_id = Some(id);
        Ok(Event::MaxPushId(id))
    }
}
