//! The bytes of streams in the packets of a connection.
//!
//! The QUIC library keeps bytes back for its own reasons, and does not tell which bytes of a stream have left. So they are read from
//! each packet right before it is encrypted. This is exact, also for bytes of many streams in one packet. Bytes that are sent again come
//! from below the end that was noted before, so they change nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use plumb_h3::varint;
use quinn_proto::crypto::{CryptoError, PacketKey};
use quinn_proto::{StreamId, VarInt};

/// The token of a stateless reset (RFC 9000, section 10.3).
const RESET_TOKEN_BYTES: u64 = 16;
/// The data of a challenge of a path (RFC 9000, section 19.17).
const CHALLENGE_BYTES: u64 = 8;

/// Part of a stream that is in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure {
    /// The stream.
    pub id: StreamId,
    /// The offset after its last byte in the packet.
    pub end: u64,
}

/// The parts of streams in a connection's packets, in their order. Only one thread uses them; QUIC's keys must be able to change threads.
#[derive(Debug, Default)]
pub struct Departures(Mutex<Vec<Departure>>);

impl Departures {
    /// Moves all of them to the end of `into`.
    pub fn take(&self, into: &mut Vec<Departure>) {
        into.append(&mut self.all());
    }

    /// Parts that follow each other in a stream are one.
    fn note(&self, part: Departure) {
        let mut all = self.all();
        match all.last_mut() {
            Some(last) if last.id == part.id => last.end = last.end.max(part.end),
            _ => all.push(part),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Departure>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key that notes the parts of streams in each packet before it encrypts that.
pub(crate) struct NotingKey {
    pub key: Box<dyn PacketKey>,
    pub departures: Arc<Departures>,
}

impl PacketKey for NotingKey {
    fn encrypt(&self, packet: u64, buffer: &mut [u8], header_bytes: usize) {
        let payload = &buffer[header_bytes..buffer.len() - self.tag_len()];
        let noted = note_streams(payload, |part| self.departures.note(part));
        debug_assert!(noted.is_some(), "the QUIC library sends frames that are not known here");
        self.key.encrypt(packet, buffer, header_bytes);
    }

    fn decrypt(&self, packet: u64, header: &[u8], payload: &mut BytesMut) -> Result<(), CryptoError> {
        self.key.decrypt(packet, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.key.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.key.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.key.integrity_limit()
    }
}

/// Notes the parts of streams among the frames of a packet (RFC 9000, section 19); `None` if a frame is not known, or cut off.
fn note_streams(mut payload: &[u8], mut note: impl FnMut(Departure)) -> Option<()> {
    let rest = &mut payload;
    while !rest.is_empty() {
        match varint::decode(rest)? {
            // PADDING, PING, HANDSHAKE_DONE, IMMEDIATE_ACK.
            0x00 | 0x01 | 0x1e | 0x1f => {}
            kind @ (0x02 | 0x03) => pass_ack(rest, kind == 0x03)?,
            // RESET_STREAM.
            0x04 => pass_numbers(rest, 3)?,
            // STOP_SENDING, MAX_STREAM_DATA, STREAM_DATA_BLOCKED.
            0x05 | 0x11 | 0x15 => pass_numbers(rest, 2)?,
            // CRYPTO, and CONNECTION_CLOSE by HTTP/3.
            0x06 | 0x1d => pass_numbers(rest, 1).and_then(|()| pass_text(rest))?,
            // NEW_TOKEN.
            0x07 => pass_text(rest)?,
            kind @ 0x08..=0x0f => note(take_stream(rest, kind)?),
            // MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID.
            0x10 | 0x12..=0x14 | 0x16 | 0x17 | 0x19 => pass_numbers(rest, 1)?,
            0x18 => pass_new_connection_id(rest)?,
            // PATH_CHALLENGE, PATH_RESPONSE.
            0x1a | 0x1b => pass(rest, CHALLENGE_BYTES)?,
            // CONNECTION_CLOSE by QUIC.
            0x1c => pass_numbers(rest, 2).and_then(|()| pass_text(rest))?,
            _ => return None,
        }
    }
    Some(())
}

/// The rest of a STREAM frame. The lowest bits of its kind say which fields it has.
fn take_stream(rest: &mut &[u8], kind: u64) -> Option<Departure> {
    let id = VarInt::from_u64(varint::decode(rest)?).ok()?.into();
    let offset = if kind & 0x04 == 0 { 0 } else { varint::decode(rest)? };
    let bytes = if kind & 0x02 == 0 { rest.len() as u64 } else { varint::decode(rest)? };
    pass(rest, bytes)?;
    Some(Departure { id, end: offset + bytes })
}

fn pass_ack(rest: &mut &[u8], has_ecn: bool) -> Option<()> {
    pass_numbers(rest, 2)?;
    let ranges = varint::decode(rest)?;
    pass_numbers(rest, 1 + 2 * ranges + if has_ecn { 3 } else { 0 })
}

fn pass_new_connection_id(rest: &mut &[u8]) -> Option<()> {
    pass_numbers(rest, 2)?;
    let id_bytes = *rest.split_off_first()?;
    pass(rest, u64::from(id_bytes) + RESET_TOKEN_BYTES)
}

fn pass_numbers(rest: &mut &[u8], count: u64) -> Option<()> {
    (0..count).try_for_each(|_| varint::decode(rest).map(drop))
}

/// Passes a length and as many bytes.
fn pass_text(rest: &mut &[u8]) -> Option<()> {
    let bytes = varint::decode(rest)?;
    pass(rest, bytes)
}

fn pass(rest: &mut &[u8], bytes: u64) -> Option<()> {
    *rest = rest.get(usize::try_from(bytes).ok()?..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use plumb_fuzz::Target;
    use quinn_proto::{Dir, Side};

    use super::*;

    fn noted(payload: &[u8]) -> Option<Vec<Departure>> {
        let (departures, mut parts) = (Departures::default(), Vec::new());
        note_streams(payload, |part| departures.note(part))?;
        departures.take(&mut parts);
        Some(parts)
    }

    fn part(index: u64, end: u64) -> Departure {
        Departure { id: StreamId::new(Side::Client, Dir::Bi, index), end }
    }

    /// A frame of each kind but STREAM.
    fn other_frames() -> Vec<Vec<u8>> {
        let frames: &[&[u8]] = &[
            &[0x00],
            &[0x01],
            &[0x02, 0x09, 0x00, 0x02, 0x01, 0x00, 0x00, 0x01, 0x01],
            &[0x03, 0x09, 0x40, 0x80, 0x00, 0x01, 0x05, 0x00, 0x00],
            &[0x04, 0x04, 0x41, 0x0c, 0x09],
            &[0x05, 0x04, 0x41, 0x0c],
            &[0x06, 0x00, 0x02, 0x08, 0x08],
            &[0x07, 0x01, 0x08],
            &[0x10, 0x08],
            &[0x11, 0x04, 0x08],
            &[0x12, 0x08],
            &[0x13, 0x08],
            &[0x14, 0x08],
            &[0x15, 0x04, 0x08],
            &[0x16, 0x08],
            &[0x17, 0x08],
            &[[0x18, 0x01, 0x00, 0x02].as_slice(), &[8; 18]].concat(),
            &[0x19, 0x08],
            &[[0x1a].as_slice(), &[8; 8]].concat(),
            &[[0x1b].as_slice(), &[8; 8]].concat(),
            &[0x1c, 0x00, 0x08, 0x01, 0x08],
            &[0x1d, 0x41, 0x00, 0x01, 0x08],
            &[0x1e],
            &[0x1f],
        ];
        frames.iter().map(|frame| frame.to_vec()).collect()
    }

    #[test]
    fn streams_are_found_behind_every_other_frame() {
        for frame in other_frames() {
            let payload = [&frame[..], &[0x0a, 0x04, 0x03, 0x08, 0x08, 0x08]].concat();
            assert_eq!(noted(&payload), Some(vec![part(1, 3)]), "{frame:02x?}");
        }
    }

    #[test]
    fn parts_have_an_offset_and_a_length_or_fill_the_packet() {
        let first = [0x0b, 0x00, 0x02, 0x08, 0x08];
        let later = [0x0f, 0x00, 0x05, 0x01, 0x08];
        let last = [0x0d, 0x08, 0x44, 0x00, 0x08, 0x08, 0x08];
        assert_eq!(noted(&[first, later].concat()), Some(vec![part(0, 6)]));
        assert_eq!(noted(&[&first[..], &last].concat()), Some(vec![part(0, 2), part(2, 1027)]));
        // Bytes that are sent again end before those that were sent first.
        assert_eq!(noted(&[later, first].concat()), Some(vec![part(0, 6)]));
    }

    #[test]
    fn a_frame_that_is_not_known_or_cut_off_ends_the_search() {
        for payload in [[0x21].as_slice(), &[0x0a, 0x04, 0x03, 0x08], &[0x40]] {
            assert_eq!(noted(payload), None, "{payload:02x?}");
        }
    }

    /// The parts of a packet before those that follow each other are joined, and whether every frame is known.
    fn parts_of(payload: &[u8]) -> (Vec<Departure>, bool) {
        let mut parts = Vec::new();
        let is_whole = note_streams(payload, |part| parts.push(part)).is_some();
        (parts, is_whole)
    }

    #[test]
    fn a_part_without_a_length_goes_to_the_end_of_its_packet() {
        let end = |payload: &[u8]| parts_of(payload).0[0].end;
        assert_eq!(end(&[0x08, 0x04, 7, 7, 7]), 3);
        assert_eq!(end(&[0x0c, 0x04, 0x10, 7, 7]), 0x12);
        assert_eq!(end(&[0x0d, 0x04, 0x10]), 0x10);
    }

    /// STREAM frames without bytes that end where the parts do.
    fn frames_of(parts: &[Departure]) -> Vec<u8> {
        let mut frames = Vec::new();
        for part in parts {
            for number in [0x0e, u64::from(part.id), part.end, 0] {
                varint::encode(number, &mut frames);
            }
        }
        frames
    }

    /// The parts as a connection has them: those of one stream in a row are one.
    fn joined(parts: &[Departure]) -> Vec<Departure> {
        let runs = parts.chunk_by(|one, next| one.id == next.id);
        let end = |run: &[Departure]| run.iter().map(|part| part.end).max().unwrap();
        runs.map(|run| Departure { id: run[0].id, end: end(run) }).collect()
    }

    /// A cut at the end of a packet changes no part but the last, whose bytes may have filled the packet.
    fn check_cut(parts: &[Departure], payload: &[u8], bytes: usize) {
        let (cut, _) = parts_of(&payload[..bytes]);
        let Some((last, before)) = cut.split_last() else { return };
        assert_eq!(before, &parts[..before.len()]);
        let whole = parts[before.len()];
        assert!(last.id == whole.id && last.end <= whole.end, "{last:?} of {whole:?}");
    }

    /// Parts do not depend on what follows them, are joined in their order, and are read as they were written.
    #[test]
    fn fuzz_quic_departures() {
        let streams = [
            &[0x08, 0x04, 0x07][..],
            &[0x0a, 0x04, 0x01, 0x07],
            &[0x0b, 0x08, 0x00],
            &[0x0e, 0x04, 0x44, 0x00, 0x02, 0x07, 0x07],
            &[0x0f, 0x00, 0xbf, 0xff, 0xff, 0xff, 0x00],
        ];
        let frames = [other_frames(), streams.map(<[u8]>::to_vec).to_vec()].concat();
        let behind =
            |stream: &[u8]| frames.iter().map(|frame| [&frame[..], stream].concat()).collect::<Vec<_>>();
        let seeds = streams.into_iter().flat_map(behind).collect::<Vec<_>>();
        Target::new("fuzz_quic_departures").seeds(seeds).with_words(frames).run(|payload| {
            let (parts, is_whole) = parts_of(payload);
            check_cut(&parts, payload, payload.len() / 2);
            check_cut(&parts, payload, payload.len().saturating_sub(1));
            assert_eq!(noted(payload), is_whole.then(|| joined(&parts)));
            if parts.iter().all(|part| part.end <= varint::VALUE_MAX) {
                assert_eq!(parts_of(&frames_of(&parts)), (parts.clone(), true));
            }
            (is_whole, parts.len().min(8))
        });
    }
}
