//! The streams of a connection of HTTP/3, as far as both sides treat them in the same way.

use bytes::Bytes;
use plumb_h3::peer::{self, Peer};
use plumb_h3::{ErrorCode, PeerFault, Settings, Side, StreamKind};
use quinn_proto::{Connection, Dir, ReadError, StreamId};

/// The end of reading a stream for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamState {
    /// More may come.
    Open,
    /// The peer ended the stream in order.
    Ended,
    /// The peer reset the stream.
    Reset(ErrorCode),
    /// The peer broke a rule.
    Illegal(PeerFault),
}

/// Reads a stream as far as it has arrived, but at most `bytes_max` bytes, and hands each piece on.
pub fn read_stream(
    connection: &mut Connection,
    id: StreamId,
    bytes_max: usize,
    mut take: impl FnMut(Bytes) -> Result<(), PeerFault>,
) -> StreamState {
    let mut stream = connection.recv_stream(id);
    let Ok(mut chunks) = stream.read(true) else { return StreamState::Open };
    let mut room = bytes_max;
    let end = loop {
        if room == 0 {
            break StreamState::Open;
        }
        match chunks.next(room) {
            Ok(Some(chunk)) => {
                room -= chunk.bytes.len();
                if let Err(fault) = take(chunk.bytes) {
                    break StreamState::Illegal(fault);
                }
            }
            Ok(None) => break StreamState::Ended,
            Err(ReadError::Blocked) => break StreamState::Open,
            Err(ReadError::Reset(code)) => {
                break StreamState::Reset(ErrorCode::from_number(code.into_inner()));
            }
        }
    };
    // The window update that this queues leaves with the next packet.
    let _ = chunks.finalize();
    end
}

/// Opens this side's control stream, which begins with the settings. `None` if the peer gives it no room: peers give room for three
/// streams of some bytes (RFC 9114, section 6.2).
pub fn open_control(connection: &mut Connection, settings: &Settings) -> Option<StreamId> {
    let id = connection.streams().open(Dir::Uni)?;
    let mut bytes = Vec::new();
    StreamKind::Control.encode(&mut bytes);
    settings.encode(&mut bytes);
    let written = connection.send_stream(id).write(&bytes);
    (written == Ok(bytes.len())).then_some(id)
}

/// The peer's unidirectional streams.
#[derive(Debug)]
pub struct Unidirectional {
    peer: Peer,
    streams: Vec<(StreamId, peer::Stream)>,
}

impl Unidirectional {
    /// The streams of the peer of this side, before it has opened any.
    #[must_use]
    pub fn new(side: Side) -> Self {
        Self { peer: Peer::new(side), streams: Vec::new() }
    }

    /// Takes the streams that the peer has opened, and what arrived on them. Each event is handed on.
    ///
    /// # Errors
    /// When the peer broke a rule. The connection has to end.
    pub fn accept(
        &mut self,
        connection: &mut Connection,
        mut each: impl FnMut(peer::Event),
    ) -> Result<(), PeerFault> {
        while let Some(id) = connection.streams().accept(Dir::Uni) {
            self.streams.push((id, peer::Stream::default()));
            self.take(connection, id, &mut each)?;
        }
        Ok(())
    }

    /// Takes what arrived on a stream, and hands each event on.
    ///
    /// # Errors
    /// As [`Self::accept`].
    pub fn take(
        &mut self,
        connection: &mut Connection,
        id: StreamId,
        mut each: impl FnMut(peer::Event),
    ) -> Result<(), PeerFault> {
        let Some(at) = self.streams.iter().position(|(other, _)| *other == id) else { return Ok(()) };
        let (peer, stream) = (&mut self.peer, &mut self.streams[at].1);
        let end = read_stream(connection, id, usize::MAX, |bytes| {
            let mut bytes = &bytes[..];
            while let Some(event) = peer.receive(stream, &mut bytes)? {
                each(event);
            }
            Ok(())
        });
        match end {
            StreamState::Open => Ok(()),
            StreamState::Ended | StreamState::Reset(_) => self.peer.end(&self.streams.swap_remove(at).1),
            StreamState::Illegal(fault) => Err(fault),
        }
    }
}
