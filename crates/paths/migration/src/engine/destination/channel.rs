//! The receiving thread of a channel. It reads pages straight into the guest's memory.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use super::super::alarm::Alarm;
use super::super::error::MigrationError;
use super::super::memory::GuestMemory;
use super::super::packet::{CHECK_PIECE_BYTES, Check, Encoding, HEADER_BYTES, Header, PacketKind, PageRun};
use super::super::wire::Incoming;
use super::super::wire::tls::Protection;
use super::arrivals::{Arrivals, Known};
use plumb_codec::{Codec, CodecCounters, UNIT_BYTES};

/// The bytes of a stream without packets that are read at once.
const STREAM_PIECE_BYTES: usize = UNIT_BYTES;

/// The traffic that one channel has received.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub packets: u64,
    pub pages: u64,
    pub zero_pages: u64,
    pub compressed_packets: u64,
    pub raw_packets: u64,
    pub codec: CodecCounters,
    pub protection: Protection,
}

/// The receiving end of one channel.
pub(super) struct Channel {
    pub index: u8,
    pub incoming: Incoming,
    pub memory: Arc<GuestMemory>,
    pub arrivals: Arc<Arrivals>,
    pub codec: Option<Box<dyn Codec>>,
    pub alarm: Arc<Alarm>,
}

/// A channel at work: its place in the stream, its counts, and its buffers.
struct Work<'c> {
    channel: &'c mut Channel,
    packet: u64,
    round: u32,
    counts: Counts,
    payload: Vec<u8>,
    scratch: Vec<u8>,
}

impl Channel {
    /// Receives packets until the last one.
    pub(super) fn receive(&mut self) -> Result<Counts, MigrationError> {
        let mut work = Work {
            channel: self,
            packet: 0,
            round: 1,
            counts: Counts::default(),
            payload: Vec::new(),
            scratch: Vec::new(),
        };
        while work.receive_packet()? {
            work.packet += 1;
        }
        let mut counts = work.counts;
        counts.protection = self.incoming.protection();
        counts.codec = self.codec.as_ref().map(|codec| codec.counters()).unwrap_or_default();
        Ok(counts)
    }

    /// Receives this channel's part of the memory as it is.
    pub(super) fn receive_stream(&mut self, part: std::ops::Range<usize>) -> Result<(), MigrationError> {
        let mut start = part.start;
        while start < part.end {
            let piece = start..part.end.min(start + STREAM_PIECE_BYTES);
            // SAFETY: each channel has its own part.
            let slice = unsafe { self.memory.claimed(&piece) };
            self.incoming.read_exact(slice).map_err(|cause| MigrationError::Receive {
                channel: self.index,
                packet: 0,
                cause,
            })?;
            start = piece.end;
        }
        Ok(())
    }
}

impl Work<'_> {
    /// Receives a packet. Returns `false` after the last one.
    fn receive_packet(&mut self) -> Result<bool, MigrationError> {
        let mut bytes = [0; HEADER_BYTES];
        self.channel.incoming.read_exact(&mut bytes).map_err(|cause| self.broken(cause))?;
        let header = Header::decode(&bytes).map_err(|cause| self.wrong(cause))?;
        if header.channel != self.channel.index || header.packet != self.packet {
            let what = format!("it says that it is packet {} on channel {}", header.packet, header.channel);
            return Err(self.disorder(what));
        }
        if header.round != self.round {
            return Err(self.disorder(format!(
                "it belongs to round {}, but came in round {}",
                header.round, self.round
            )));
        }
        match header.kind {
            PacketKind::End => return Ok(false),
            PacketKind::Sync => {
                self.round += 1;
                // Where the alarm was raised the next read fails, and says so.
                let _ = self.channel.arrivals.end_round(&self.channel.alarm);
            }
            PacketKind::Pages => self.receive_pages(&header)?,
        }
        Ok(true)
    }

    fn receive_pages(&mut self, header: &Header) -> Result<(), MigrationError> {
        let mut table = vec![0; header.table_bytes()];
        self.channel.incoming.read_exact(&mut table).map_err(|cause| self.broken(cause))?;
        let runs = header.runs(&table, self.channel.arrivals.pages()).map_err(|cause| self.wrong(cause))?;
        for run in &runs {
            self.claim(*run)?;
        }
        let check = Check::of_table(&table);
        self.counts.packets += 1;
        match header.encoding {
            Encoding::Raw => self.receive_raw(header, &runs, check),
            Encoding::Compressed => self.receive_compressed(header, &runs, check),
        }
    }

    /// Makes pages this channel's own for the round; those of zeros are cleared where they had content.
    fn claim(&mut self, run: PageRun) -> Result<(), MigrationError> {
        let known = self.channel.arrivals.claim(run.range);
        if known == Known::Twice {
            return Err(self.disorder(format!("it brings page {} twice in a round", run.range.first)));
        }
        if run.is_zero {
            self.counts.zero_pages += run.range.count;
            if known == Known::Old {
                // SAFETY: the pages were just claimed for this channel.
                unsafe { self.channel.memory.claimed(&run.bytes()) }.fill(0);
            }
        } else {
            self.counts.pages += run.range.count;
        }
        Ok(())
    }

    /// Takes content in where it belongs, and checks it piece by piece while it is in the caches.
    fn receive_raw(&mut self, header: &Header, runs: &[PageRun], check: Check) -> Result<(), MigrationError> {
        let memory = Arc::clone(&self.channel.memory);
        let ranges: Vec<Range<usize>> =
            runs.iter().filter(|run| !run.is_zero).flat_map(|run| pieces(run.bytes())).collect();
        let mut seen = check;
        let mut rest = ranges.as_slice();
        while !rest.is_empty() {
            let (now, behind) = rest.split_at(batch(rest));
            // SAFETY: the pages were claimed for this channel, and no run lies in another: each claim was the first.
            let slices = now.iter().map(|range| IoSliceMut::new(unsafe { memory.claimed(range) }));
            let mut slices: Vec<IoSliceMut<'_>> = slices.collect();
            self.channel.incoming.fill(&mut slices).map_err(|cause| self.broken(cause))?;
            drop(slices);
            // SAFETY: as above; what filled them is done.
            seen = now.iter().fold(seen, |check, range| check.and(unsafe { memory.quiet(range) }));
            rest = behind;
        }
        self.counts.raw_packets += u64::from(header.content_bytes > 0);
        self.compare(header, runs, seen)
    }

    fn receive_compressed(
        &mut self,
        header: &Header,
        runs: &[PageRun],
        check: Check,
    ) -> Result<(), MigrationError> {
        self.payload.resize(header.payload_bytes as usize, 0);
        self.channel
            .incoming
            .read_exact(&mut self.payload)
            .map_err(|cause| broken(self.channel.index, self.packet, cause))?;
        self.compare(header, runs, check.and(&self.payload))?;
        let with_content: Vec<PageRun> = runs.iter().filter(|run| !run.is_zero).copied().collect();
        let Some(codec) = &mut self.channel.codec else {
            return Err(self.disorder("it is compressed, and no codec was agreed on".to_owned()));
        };
        let (channel, packet) = (self.channel.index, self.packet);
        let refused = |cause| MigrationError::Code { channel, packet, cause };
        if let [run] = with_content.as_slice() {
            // SAFETY: the pages were claimed for this channel.
            let out = unsafe { self.channel.memory.claimed(&run.bytes()) };
            codec.decompress(&self.payload, out).map_err(refused)?;
        } else {
            self.scratch.resize(header.content_bytes as usize, 0);
            codec.decompress(&self.payload, &mut self.scratch).map_err(refused)?;
            let mut rest = self.scratch.as_slice();
            for run in &with_content {
                // SAFETY: as above.
                let out = unsafe { self.channel.memory.claimed(&run.bytes()) };
                let (content, behind) = rest.split_at(out.len());
                out.copy_from_slice(content);
                rest = behind;
            }
        }
        self.counts.compressed_packets += 1;
        Ok(())
    }

    fn compare(&self, header: &Header, runs: &[PageRun], seen: Check) -> Result<(), MigrationError> {
        if seen.value() == header.check { Ok(()) } else { Err(self.wrong(header.corrupt(runs))) }
    }

    fn broken(&self, cause: io::Error) -> MigrationError {
        broken(self.channel.index, self.packet, cause)
    }

    fn wrong(&self, cause: super::super::packet::PacketError) -> MigrationError {
        MigrationError::Packet { channel: self.channel.index, packet: self.packet, cause }
    }

    fn disorder(&self, what: String) -> MigrationError {
        MigrationError::Order { channel: self.channel.index, packet: self.packet, what }
    }
}

fn broken(channel: u8, packet: u64, cause: io::Error) -> MigrationError {
    MigrationError::Receive { channel, packet, cause }
}

/// Splits a run into the pieces that are checked one at a time.
fn pieces(run: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = run.end;
    run.step_by(CHECK_PIECE_BYTES).map(move |start| start..end.min(start + CHECK_PIECE_BYTES))
}

/// The number of ranges that are received at once, at least one.
fn batch(ranges: &[Range<usize>]) -> usize {
    let ends = ranges.iter().scan(0, |sum, range| {
        *sum += range.len();
        Some(*sum)
    });
    ends.take_while(|sum| *sum <= CHECK_PIECE_BYTES).count().max(1)
}
