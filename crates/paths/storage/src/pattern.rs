//! Data to write: bytes that neither compress nor dedupe, as storage that does either would otherwise measure its
//! own cleverness; and, to be checked later, patterns that say where and when they were written.

use std::fs::File;
use std::io::{self, Write};

use plumb_model::SplitMix;
use twox_hash::XxHash3_64;

/// Storage that dedupes does so by blocks of this size or larger.
const SECTOR_BYTES: usize = 512;
/// Compressible parts are spread in pieces of this size, so that every compressor's unit has its share.
const CHUNK_BYTES: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"plumbln1");
/// Magic, offset, generation, length, checksum.
pub const HEADER_BYTES: usize = 40;

/// A file is filled in pieces of this size.
pub const FILL_BYTES: usize = 1 << 20;

/// Fills a block with random bytes, and the last `compressible` (0 to 1) of every chunk with zeros.
pub fn fill(block: &mut [u8], compressible: f64, seed: u64) {
    let mut random = SplitMix::new(seed);
    for chunk in block.chunks_mut(CHUNK_BYTES) {
        let filled = (chunk.len() as f64 * (1.0 - compressible.clamp(0.0, 1.0))).round() as usize;
        let (filled, zeros) = chunk.split_at_mut(filled);
        for bytes in filled.chunks_mut(8) {
            bytes.copy_from_slice(&random.draw().to_le_bytes()[..bytes.len()]);
        }
        zeros.fill(0);
    }
}

/// Makes a filled block unlike every other: a number that is never used again goes into each sector that is not all
/// zeros, so that it costs little.
pub fn make_unique(block: &mut [u8], compressible: f64, number: &mut u64) {
    for chunk in block.chunks_mut(CHUNK_BYTES) {
        for sector in chunk.chunks_mut(SECTOR_BYTES) {
            *number = number.wrapping_add(1);
            let stamp = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
            if let Some(head) = sector.get_mut(..8) {
                head.copy_from_slice(&stamp);
            }
            if compressible > 0.0 {
                // The zeros are to stay zeros; one stamp makes the chunk unlike others.
                break;
            }
        }
    }
}

/// Why a block is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mismatch {
    /// It holds no pattern at all.
    NoPattern,
    /// It was written for another place.
    OtherPlace,
    /// The bytes were changed.
    Changed,
    /// It is an older one than the last that was confirmed.
    Stale,
}

impl Mismatch {
    /// In words, for people.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::NoPattern => "verify: no pattern where one was written",
            Self::OtherPlace => "verify: the pattern of another place",
            Self::Changed => "verify: a pattern whose bytes were changed",
            Self::Stale => "verify: an older pattern than the last one written",
        }
    }
}

/// Writes the pattern of a place and a generation over a whole block.
pub fn write(block: &mut [u8], compressible: f64, offset: u64, generation: u64) {
    let seed = SplitMix::new(offset ^ generation.rotate_left(32)).draw();
    let length = block.len() as u64;
    let (header, body) = block.split_at_mut(HEADER_BYTES);
    fill(body, compressible, seed);
    let fields = [MAGIC, offset, generation, length, checksum(offset, generation, body)];
    for (place, field) in header.chunks_mut(8).zip(fields) {
        place.copy_from_slice(&field.to_le_bytes());
    }
}

/// The generation of the pattern that a block holds.
///
/// # Errors
/// When it does not hold a whole pattern of that place.
pub fn generation_in(block: &[u8], offset: u64) -> Result<u64, Mismatch> {
    let (header, body) = block.split_at(HEADER_BYTES);
    let mut fields =
        header.chunks(8).map(|bytes| bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    let mut field = || fields.next().unwrap_or(0);
    let (magic, place, generation, length, sum) = (field(), field(), field(), field(), field());
    if magic != MAGIC {
        return Err(Mismatch::NoPattern);
    }
    if length != block.len() as u64 || sum != checksum(place, generation, body) {
        return Err(Mismatch::Changed);
    }
    if place == offset { Ok(generation) } else { Err(Mismatch::OtherPlace) }
}

fn checksum(offset: u64, generation: u64, body: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(offset ^ generation.rotate_left(32), body)
}

/// Writes `bytes` of data that neither compresses nor dedupes, and waits until they are stored.
///
/// # Errors
/// When the kernel cannot store them.
pub fn write_data(mut file: &File, bytes: u64, compressible: f64) -> io::Result<()> {
    let mut piece = vec![0; FILL_BYTES];
    let mut number = plumb_host::time::monotonic_ns();
    fill(&mut piece, compressible, number);
    let mut left = bytes;
    while left > 0 {
        make_unique(&mut piece, compressible, &mut number);
        let length = usize::try_from(left).unwrap_or(FILL_BYTES).min(FILL_BYTES);
        file.write_all(&piece[..length])?;
        left -= length as u64;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn data_holds_its_compressible_share_in_every_chunk_and_no_sector_twice() {
        let mut block = vec![0; 64 << 10];
        fill(&mut block, 0.25, 3);
        for chunk in block.chunks(CHUNK_BYTES) {
            let zeros = chunk.iter().rev().take_while(|byte| **byte == 0).count();
            assert!((1024..1030).contains(&zeros), "{zeros}");
        }
        fill(&mut block, 0.0, 3);
        let mut number = 0;
        let mut sectors = std::collections::BTreeSet::new();
        for _ in 0..4 {
            make_unique(&mut block, 0.0, &mut number);
            assert!(block.chunks(SECTOR_BYTES).all(|sector| sectors.insert(sector.to_vec())));
        }
    }

    #[test]
    fn what_a_pattern_is_not_is_told_apart() {
        let mut block = vec![0; 4096];
        assert_eq!(generation_in(&block, 0), Err(Mismatch::NoPattern));
        write(&mut block, 0.0, 8192, 5);
        assert_eq!(generation_in(&block, 8192), Ok(5));
        assert_eq!(generation_in(&block, 4096), Err(Mismatch::OtherPlace));
        // A longer block that begins with it.
        block.resize(8192, 0);
        assert_eq!(generation_in(&block, 8192), Err(Mismatch::Changed));
    }

    proptest! {
        #[test]
        fn a_pattern_is_read_back_and_one_flipped_bit_is_seen(
            sectors in 1..20_usize, offset: u64, generation: u64, compressible in 0.0..=1.0_f64, flip: prop::sample::Index,
        ) {
            let mut block = vec![0; sectors * SECTOR_BYTES];
            write(&mut block, compressible, offset, generation);
            prop_assert_eq!(generation_in(&block, offset), Ok(generation));
            let bit = flip.index(block.len() * 8);
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(generation_in(&block, offset).is_err());
        }
    }
}
