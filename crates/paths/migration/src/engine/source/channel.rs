//! The sending thread of a channel. It takes pages from a round, leaves out those of zeros, compresses the others if that makes them
//! smaller, and sends packets.

use std::ops::Range;
use std::sync::Arc;

use super::super::bitmap::PageRange;
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use super::super::packet::{Check, Encoding, Header, PacketKind, PageRun, encode_table};
use super::super::wire::Outgoing;
use super::super::wire::tls::Protection;
use super::super::zero::ZeroTest;
use super::round::Round;
use plumb_codec::{Codec, CodecCounters, PAGE_BYTES, UNIT_BYTES};
use plumb_model::merged;

merged! {
    /// The traffic that one channel has sent.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub struct Sent {
        /// Packets with pages.
        pub packets: u64,
        /// Pages with content.
        pub pages: u64,
        /// Pages of zeros.
        pub zero_pages: u64,
        /// Packets that were compressed.
        pub compressed_packets: u64,
        /// Packets whose content was not compressed.
        pub raw_packets: u64,
        /// Bytes of content before compression.
        pub payload_bytes: u64,
        /// The codec's counters.
        pub codec: CodecCounters,
    }
}

/// The sending end of one channel.
pub(super) struct Channel {
    index: u8,
    outgoing: Outgoing,
    memory: Arc<GuestMemory>,
    codec: Option<Box<dyn Codec>>,
    zero: Option<ZeroTest>,
    packet: u64,
    sent: Sent,
    ranges: Vec<PageRange>,
    runs: Vec<PageRun>,
    table: Vec<u8>,
    /// Pages that were copied out of memory, one after the other.
    gathered: Vec<u8>,
    compressed: Vec<u8>,
}

/// The place of a packet's content.
enum Content {
    /// In memory, in the ranges of the runs; the guest stands still.
    InPlace,
    /// In `gathered`, this many bytes.
    Gathered(usize),
}

impl Channel {
    pub(super) fn new(
        index: u8,
        outgoing: Outgoing,
        memory: Arc<GuestMemory>,
        codec: Option<Box<dyn Codec>>,
        zero: Option<ZeroTest>,
    ) -> Self {
        Self {
            index,
            outgoing,
            memory,
            codec,
            zero,
            packet: 0,
            sent: Sent::default(),
            ranges: Vec::new(),
            runs: Vec::new(),
            table: Vec::new(),
            gathered: vec![0; UNIT_BYTES],
            compressed: Vec::new(),
        }
    }

    /// The protection of the connection, once something was sent.
    pub(super) fn protection(&self) -> Protection {
        self.outgoing.protection()
    }

    pub(super) fn index(&self) -> u8 {
        self.index
    }

    /// Sends this channel's part of a round, and the mark of its end.
    pub(super) fn send_round(&mut self, round: &Round) -> Result<Sent, MigrationError> {
        loop {
            let mut ranges = std::mem::take(&mut self.ranges);
            round.take(&mut ranges);
            let is_empty = ranges.is_empty();
            let sent = if is_empty { Ok(()) } else { self.send_pages(&ranges, round) };
            self.ranges = ranges;
            sent?;
            if is_empty {
                break;
            }
        }
        self.send_mark(PacketKind::Sync, round.number)?;
        Ok(self.sent_so_far())
    }

    /// Sends the last packet, after `rounds` rounds.
    pub(super) fn send_end(&mut self, rounds: u32) -> Result<Sent, MigrationError> {
        self.send_mark(PacketKind::End, rounds + 1)?;
        Ok(self.sent_so_far())
    }

    /// Sends a part of the memory as it is, by plain writes, as a program without a protocol would.
    pub(super) fn send_stream(&mut self, part: &Range<usize>) -> Result<(), MigrationError> {
        let mut start = part.start;
        while start < part.end {
            let piece = start..part.end.min(start + UNIT_BYTES);
            // SAFETY: the guest stands still while the stream is measured.
            let bytes = unsafe { self.memory.quiet(&piece) };
            self.outgoing.send_bytes(bytes).map_err(|cause| self.broken(cause))?;
            start = piece.end;
        }
        Ok(())
    }

    fn sent_so_far(&self) -> Sent {
        let codec = self.codec.as_ref().map(|codec| codec.counters()).unwrap_or_default();
        Sent { codec, ..self.sent }
    }

    fn send_pages(&mut self, ranges: &[PageRange], round: &Round) -> Result<(), MigrationError> {
        self.runs.clear();
        let content = if round.is_quiet { self.look(ranges) } else { self.copy(ranges) };
        let content_bytes: usize =
            self.runs.iter().filter(|run| !run.is_zero).map(|run| run.bytes().len()).sum();
        encode_table(&self.runs, &mut self.table);
        let is_compressed = content_bytes > 0 && self.compress(&content)?;
        let payload_bytes = if is_compressed { self.compressed.len() } else { content_bytes };
        let check = self.check(&content, is_compressed).value();
        let header = Header {
            kind: PacketKind::Pages,
            encoding: if is_compressed { Encoding::Compressed } else { Encoding::Raw },
            channel: self.index,
            packet: self.packet,
            round: round.number,
            runs: u16::try_from(self.runs.len()).unwrap_or(u16::MAX),
            payload_bytes: u32::try_from(payload_bytes).unwrap_or(u32::MAX),
            content_bytes: u32::try_from(content_bytes).unwrap_or(u32::MAX),
            first: self.runs.first().copied(),
            check,
        };
        self.send(&header, &content, is_compressed)?;
        self.count(content_bytes, payload_bytes, is_compressed);
        Ok(())
    }

    fn count(&mut self, content_bytes: usize, payload_bytes: usize, is_compressed: bool) {
        let pages: u64 = self.runs.iter().map(|run| run.range.count).sum();
        let with_content = (content_bytes / PAGE_BYTES) as u64;
        self.packet += 1;
        self.sent.packets += 1;
        self.sent.pages += with_content;
        self.sent.zero_pages += pages - with_content;
        self.sent.payload_bytes += payload_bytes as u64;
        self.sent.compressed_packets += u64::from(is_compressed);
        self.sent.raw_packets += u64::from(content_bytes > 0 && !is_compressed);
    }

    /// Finds pages of zeros in the guest's memory, only while the guest is paused.
    fn look(&mut self, ranges: &[PageRange]) -> Content {
        for range in ranges {
            for page in range.first..range.first + range.count {
                let one = PageRun { range: PageRange { first: page, count: 1 }, is_zero: false };
                // SAFETY: the round is a quiet one.
                let bytes = unsafe { self.memory.quiet(&one.bytes()) };
                let is_zero = self.zero.is_some_and(|test| test.is_zero(bytes));
                extend(&mut self.runs, PageRun { is_zero, ..one });
            }
        }
        Content::InPlace
    }

    /// Copies pages out of memory while the guest runs, and finds those of zeros among the copies. The content must not change between
    /// this check and the socket.
    fn copy(&mut self, ranges: &[PageRange]) -> Content {
        let mut filled = 0;
        for range in ranges {
            for page in range.first..range.first + range.count {
                let one = PageRun { range: PageRange { first: page, count: 1 }, is_zero: false };
                let room = &mut self.gathered[filled..filled + PAGE_BYTES];
                self.memory.copy_out(&one.bytes(), room);
                let is_zero = self.zero.is_some_and(|test| test.is_zero(room));
                filled += if is_zero { 0 } else { PAGE_BYTES };
                extend(&mut self.runs, PageRun { is_zero, ..one });
            }
        }
        Content::Gathered(filled)
    }

    /// Compresses the content. Returns `false` if that does not make it smaller, or no codec is requested.
    fn compress(&mut self, content: &Content) -> Result<bool, MigrationError> {
        let Some(codec) = &mut self.codec else { return Ok(false) };
        let with_content = || self.runs.iter().filter(|run| !run.is_zero);
        let mut in_place = with_content();
        let input = match (content, in_place.next(), in_place.next()) {
            (Content::Gathered(bytes), _, _) => &self.gathered[..*bytes],
            // SAFETY: the round is a quiet one.
            (Content::InPlace, Some(only), None) => unsafe { self.memory.quiet(&only.bytes()) },
            (Content::InPlace, _, _) => {
                let mut filled = 0;
                for range in with_content().map(|run| run.bytes()) {
                    // SAFETY: as above.
                    let bytes = unsafe { self.memory.quiet(&range) };
                    self.gathered[filled..filled + bytes.len()].copy_from_slice(bytes);
                    filled += bytes.len();
                }
                &self.gathered[..filled]
            }
        };
        let (channel, packet) = (self.index, self.packet);
        codec.compress(input, &mut self.compressed).map_err(|cause| MigrationError::Code {
            channel,
            packet,
            cause,
        })?;
        Ok(self.compressed.len() < input.len())
    }

    fn check(&self, content: &Content, is_compressed: bool) -> Check {
        let check = Check::of_table(&self.table);
        if is_compressed {
            return check.and(&self.compressed);
        }
        let ranges = self.runs.iter().filter(|run| !run.is_zero).map(|run| run.bytes());
        match content {
            Content::InPlace => ranges.fold(check, |check, range| {
                // SAFETY: the round is a quiet one.
                check.and(unsafe { self.memory.quiet(&range) })
            }),
            Content::Gathered(_) => {
                let pieces = ranges.scan(0, |start, range| {
                    let piece = *start..*start + range.len();
                    *start = piece.end;
                    Some(piece)
                });
                pieces.fold(check, |check, piece| check.and(&self.gathered[piece]))
            }
        }
    }

    fn send(
        &mut self,
        header: &Header,
        content: &Content,
        is_compressed: bool,
    ) -> Result<(), MigrationError> {
        let is_last = header.payload_bytes == 0;
        let Self { outgoing, memory, runs, table, gathered, compressed, .. } = self;
        let sent = outgoing.send_front(&[&header.encode(), table], is_last).and_then(|()| match content {
            _ if is_last => Ok(()),
            _ if is_compressed => outgoing.send_bytes(compressed),
            Content::Gathered(bytes) => outgoing.send_bytes(&gathered[..*bytes]),
            Content::InPlace => {
                let ranges: Vec<Range<usize>> =
                    runs.iter().filter(|run| !run.is_zero).map(|run| run.bytes()).collect();
                // SAFETY: the round is a quiet one, and the guest does not run again before the destination says that
                // it has everything, or the migration has failed.
                unsafe { outgoing.send_quiet(memory, &ranges) }
            }
        });
        sent.map_err(|cause| self.broken(cause))
    }

    fn send_mark(&mut self, kind: PacketKind, round: u32) -> Result<(), MigrationError> {
        let header = Header {
            kind,
            encoding: Encoding::Raw,
            channel: self.index,
            packet: self.packet,
            round,
            runs: 0,
            payload_bytes: 0,
            content_bytes: 0,
            first: None,
            check: 0,
        };
        self.outgoing.send_front(&[&header.encode()], true).map_err(|cause| self.broken(cause))?;
        self.packet += 1;
        Ok(())
    }

    fn broken(&self, cause: std::io::Error) -> MigrationError {
        MigrationError::Send { channel: self.index, packet: self.packet, cause }
    }
}

/// Adds a page to the previous run if it follows that run and is of the same kind.
fn extend(runs: &mut Vec<PageRun>, page: PageRun) {
    match runs.last_mut() {
        Some(last)
            if last.is_zero == page.is_zero && last.range.first + last.range.count == page.range.first =>
        {
            last.range.count += 1;
        }
        _ => runs.push(page),
    }
}
