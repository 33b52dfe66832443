//! Codecs side by side on the same data: ratio, speed and CPU cost, in the units of a migration and as a whole.
//!
//! Codecs take turns in rounds, so that what disturbs the machine for a while disturbs all of them. In each turn all data
//! is compressed, then all of it restored, as the libraries' own benchmarks do, and then compared: a codec that is fast
//! and wrong is an error.

use plumb_host::cpu::current_thread_cpu_ns;
use plumb_host::time::monotonic_ns;

use super::{Codec, CodecCounters, CodecError, CodecSettings, UNIT_BYTES};

/// A turn lasts so long at least: small data is gone through as often as that takes.
const TURN_NS_MIN: u64 = 20_000_000;

/// In what pieces data is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Units of 128 pages, as a migration sends them.
    Unit,
    /// All at once.
    Whole,
}

impl Form {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Unit, Self::Whole];

    fn bytes(self, data: &[u8]) -> usize {
        match self {
            Self::Unit => UNIT_BYTES,
            Self::Whole => data.len().max(1),
        }
    }
}

/// Why codecs could not be measured; the message completes "failed to …".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeasureError {
    /// A library failed.
    #[error("measure {codec}: failed to {cause}")]
    Codec {
        /// Which.
        codec: CodecSettings,
        /// The codec's error.
        cause: CodecError,
    },
    /// The restored bytes differ from the original.
    #[error("restore what {codec} compressed: the byte at {at} differs")]
    Mismatch {
        /// Which.
        codec: CodecSettings,
        /// The place of the first byte that differs.
        at: usize,
    },
    /// Somebody stopped it.
    #[error("finish: it was interrupted")]
    Interrupted,
}

/// Time that one direction took in one turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Bytes of data that were compressed or restored.
    pub bytes: u64,
    /// Time on the wall.
    pub wall_ns: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
}

/// One turn of a codec.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Turn {
    /// Compression.
    pub compress: Spent,
    /// Restoration.
    pub decompress: Spent,
}

/// The result of a codec in a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which codec.
    pub codec: CodecSettings,
    /// In what pieces.
    pub form: Form,
    /// The size of everything compressed, in bytes.
    pub compressed_bytes: u64,
    /// The turns, one a round.
    pub turns: Vec<Turn>,
    /// The codec's counters.
    pub counters: CodecCounters,
}

/// A codec that is being measured.
struct Entry {
    finding: Finding,
    worker: Box<dyn Codec>,
}

/// The memory that all codecs of a form write to in turn. It is written once before anything is timed, because the first access
/// to memory costs time.
struct Room {
    unit: usize,
    forms: Vec<Vec<u8>>,
}

impl Room {
    fn new(data: &[u8], form: Form) -> Self {
        let unit = form.bytes(data);
        let forms = data.chunks(unit).map(|unit| {
            // More than the bound of any codec here.
            let mut room = vec![0xa5; unit.len() + unit.len() / 6 + 4096];
            room.clear();
            room
        });
        Self { unit, forms: forms.collect() }
    }

    fn compress(&mut self, worker: &mut dyn Codec, data: &[u8]) -> Result<(), CodecError> {
        let units = data.chunks(self.unit).zip(&mut self.forms);
        units.into_iter().try_for_each(|(unit, form)| worker.compress(unit, form))
    }

    fn decompress(&self, worker: &mut dyn Codec, restored: &mut [u8]) -> Result<(), CodecError> {
        let units = self.forms.iter().zip(restored.chunks_mut(self.unit));
        units.into_iter().try_for_each(|(form, unit)| worker.decompress(form, unit))
    }
}

/// Measures each codec in each form, round after round, until `duration_ns` are over; at least one round.
///
/// `heed` is told which turn comes next and how many there were, and says whether to go on.
///
/// # Errors
/// When a library fails, when what it restores differs from the data, and when `heed` says so.
pub fn measure(
    data: &[u8],
    codecs: &[CodecSettings],
    forms: &[Form],
    duration_ns: u64,
    heed: &mut dyn FnMut(&Finding, usize) -> bool,
) -> Result<Vec<Finding>, MeasureError> {
    let mut entries = Vec::new();
    for codec in codecs {
        for form in forms {
            let worker = codec.build().map_err(|cause| MeasureError::Codec { codec: *codec, cause })?;
            entries.push(Entry::new(*codec, *form, worker));
        }
    }
    run(data, &mut entries, duration_ns, heed)?;
    Ok(entries.into_iter().map(|entry| entry.finding).collect())
}

fn run(
    data: &[u8],
    entries: &mut [Entry],
    duration_ns: u64,
    heed: &mut dyn FnMut(&Finding, usize) -> bool,
) -> Result<(), MeasureError> {
    let mut restored = vec![0xa5; data.len()];
    let mut rooms = Form::ALL.map(|form| {
        let is_asked = entries.iter().any(|entry| entry.finding.form == form);
        Room::new(if is_asked { data } else { &[] }, form)
    });
    let begun_ns = monotonic_ns();
    let mut round = 0;
    while round == 0 || monotonic_ns() - begun_ns < duration_ns {
        let count = entries.len().max(1);
        for place in 0..entries.len() {
            // Each round begins with another codec, so that none always follows the same one.
            let entry = &mut entries[(place + round) % count];
            if !heed(&entry.finding, round * count + place) {
                return Err(MeasureError::Interrupted);
            }
            let room = &mut rooms[entry.finding.form as usize];
            entry.turn(data, room, &mut restored)?;
        }
        round += 1;
    }
    Ok(())
}

impl Entry {
    fn new(codec: CodecSettings, form: Form, worker: Box<dyn Codec>) -> Self {
        let counters = CodecCounters::default();
        let finding = Finding { codec, form, compressed_bytes: 0, turns: Vec::new(), counters };
        Self { finding, worker }
    }

    fn turn(&mut self, data: &[u8], room: &mut Room, restored: &mut [u8]) -> Result<(), MeasureError> {
        let codec = self.finding.codec;
        let failed = |cause| MeasureError::Codec { codec, cause };
        let worker = &mut *self.worker;
        if self.finding.turns.is_empty() {
            // Contexts grow with the first unit, which no later one makes them do.
            let first = &data[..data.len().min(UNIT_BYTES)];
            worker.compress(first, &mut Vec::new()).map_err(failed)?;
        }
        let compress = repeat(data.len(), || room.compress(worker, data)).map_err(failed)?;
        restored.fill(0xa5);
        let decompress = repeat(data.len(), || room.decompress(worker, restored)).map_err(failed)?;
        if restored != data {
            let at = restored.iter().zip(data).position(|(a, b)| a != b).unwrap_or(0);
            return Err(MeasureError::Mismatch { codec, at });
        }
        self.finding.turns.push(Turn { compress, decompress });
        self.finding.compressed_bytes = room.forms.iter().map(|form| form.len() as u64).sum();
        self.finding.counters = self.worker.counters();
        Ok(())
    }
}

/// Does something with this many bytes once, and again until a turn's least time is over.
fn repeat(bytes: usize, mut once: impl FnMut() -> Result<(), CodecError>) -> Result<Spent, CodecError> {
    let mut spent = Spent::default();
    let (begun_ns, begun_cpu_ns) = (monotonic_ns(), current_thread_cpu_ns());
    while spent.bytes == 0 || spent.wall_ns < TURN_NS_MIN {
        once()?;
        spent.bytes += bytes.max(1) as u64;
        spent.wall_ns = monotonic_ns() - begun_ns;
    }
    spent.cpu_ns = current_thread_cpu_ns() - begun_cpu_ns;
    Ok(spent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CodecKind;
    use crate::content::ContentSettings;

    fn data() -> Vec<u8> {
        let mut data = vec![0; UNIT_BYTES + 3 * crate::PAGE_BYTES];
        ContentSettings::default().fill(&mut data, 3).unwrap();
        data.truncate(data.len() - 5);
        data
    }

    #[test]
    fn every_codec_has_a_turn_in_every_form_and_round() {
        let data = data();
        let codecs = [CodecKind::None, CodecKind::Zstd].map(CodecSettings::at_default_level);
        let mut turns = Vec::new();
        let findings = measure(&data, &codecs, &Form::ALL, 100_000_000, &mut |finding, turn| {
            turns.push((finding.codec, finding.form));
            assert_eq!(turn, turns.len() - 1);
            true
        });
        let findings = findings.unwrap();
        assert_eq!(findings.len(), 4);
        let rounds = findings[0].turns.len();
        assert!(rounds >= 1 && findings.iter().all(|finding| finding.turns.len() == rounds));
        assert_eq!(turns.len(), 4 * rounds);
        assert_eq!(findings[0].compressed_bytes, data.len() as u64);
        let zstd = &findings[2..];
        assert!(zstd.iter().all(|finding| finding.compressed_bytes < data.len() as u64 / 3 * 2));
        assert!(zstd[0].compressed_bytes != zstd[1].compressed_bytes, "two units are not one");
        assert!(zstd.iter().all(|finding| finding.counters.software_frames > 0));
        let turn = zstd[0].turns[0];
        assert_eq!(turn.compress.bytes % data.len() as u64, 0);
        assert!(turn.compress.wall_ns >= TURN_NS_MIN && turn.decompress.cpu_ns > 0);
    }

    #[test]
    fn who_stops_it_stops_it() {
        let stopped = measure(&data(), &[CodecSettings::default()], &Form::ALL, 0, &mut |_, turn| turn == 0);
        assert_eq!(stopped, Err(MeasureError::Interrupted));
    }

    /// Restores everything but one byte.
    struct Wrong;

    impl Codec for Wrong {
        fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
            out.clear();
            out.extend_from_slice(input);
            Ok(())
        }

        fn decompress(&mut self, input: &[u8], out: &mut [u8]) -> Result<(), CodecError> {
            out.copy_from_slice(input);
            out[7] ^= 1;
            Ok(())
        }

        fn counters(&self) -> CodecCounters {
            CodecCounters::default()
        }
    }

    #[test]
    fn a_codec_that_is_wrong_is_an_error() {
        let mut entries = [Entry::new(CodecSettings::default(), Form::Whole, Box::new(Wrong))];
        let error = run(&data(), &mut entries, 0, &mut |_, _| true).unwrap_err();
        assert_eq!(error.to_string(), "restore what none compressed: the byte at 7 differs");
    }
}
