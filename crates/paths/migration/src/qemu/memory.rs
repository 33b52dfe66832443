//! The guest's memory inside a QEMU. It is written into the source before the first migration, and compared afterwards.

use plumb_host::process::Memory;
use plumb_path::PathError;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_128;

use crate::engine::MigrationError;
use plumb_codec::PAGE_BYTES;
use plumb_codec::content::{CONTENT_SEED, ContentError, ContentSettings};

/// The size of the regions in which memory is hashed, so that a difference has a place.
pub(super) const REGION_BYTES: usize = 16 << 20;
/// The size of a read, which fits a core's own cache.
const CHUNK_BYTES: usize = 1 << 20;

/// A keyed hash of each region of a memory, in halves, because not every reader of JSON has numbers of 128 bits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Digests(pub Vec<[u64; 2]>);

impl Digests {
    /// The offset of the first region that differs.
    pub(super) fn first_difference(&self, other: &Self) -> Option<usize> {
        let longer = self.0.len().max(other.0.len());
        (0..longer).find(|at| self.0.get(*at) != other.0.get(*at)).map(|at| at * REGION_BYTES)
    }
}

/// The memory of a guest, in the process of its QEMU.
#[derive(Debug)]
pub(super) struct GuestMemory {
    pub process: Memory,
    /// The address of the memory in the process.
    pub begin: u64,
    pub bytes: usize,
}

impl GuestMemory {
    /// Fills the memory, which is all zero, with this many threads.
    pub(super) fn fill(&self, content: &ContentSettings, threads: usize) -> Result<(), PathError> {
        let failed = |error: ContentError| PathError::from(MigrationError::from(error));
        let content = content.open(CONTENT_SEED).map_err(failed)?;
        let mut region = vec![0; REGION_BYTES.min(self.bytes)];
        let mut at = 0;
        while at < self.bytes {
            let length = region.len().min(self.bytes - at);
            let region = &mut region[..length];
            content.fill_parallel((at / PAGE_BYTES) as u64, region, threads).map_err(failed)?;
            self.process.write(self.begin + at as u64, region)?;
            at += length;
        }
        Ok(())
    }

    /// Hashes the memory with this many threads.
    pub(super) fn digests(&self, key: u64, threads: usize) -> Result<Digests, PathError> {
        let count = self.bytes.div_ceil(REGION_BYTES);
        let regions: Vec<usize> = (0..count).collect();
        let share = count.div_ceil(threads.max(1)).max(1);
        let parts: Vec<Result<Vec<[u64; 2]>, PathError>> = std::thread::scope(|scope| {
            let hash = |regions: &[usize]| regions.iter().map(|region| self.digest(*region, key)).collect();
            let workers: Vec<_> =
                regions.chunks(share).map(|regions| scope.spawn(move || hash(regions))).collect();
            let ended = |_| Err(PathError::new("hash the guest's memory: a thread has ended"));
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(ended)).collect()
        });
        Ok(Digests(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat()))
    }

    fn digest(&self, region: usize, key: u64) -> Result<[u64; 2], PathError> {
        let mut hasher = XxHash3_128::with_seed(key);
        let mut chunk = vec![0; CHUNK_BYTES];
        let (mut at, end) = (region * REGION_BYTES, ((region + 1) * REGION_BYTES).min(self.bytes));
        while at < end {
            let length = CHUNK_BYTES.min(end - at);
            self.process.read_at(self.begin + at as u64, &mut chunk[..length])?;
            hasher.write(&chunk[..length]);
            at += length;
        }
        let hash = hasher.finish_128();
        Ok([(hash >> 64) as u64, hash as u64])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_region_that_differs_is_found() {
        let digests = |values: &[u64]| Digests(values.iter().map(|value| [7, *value]).collect());
        assert_eq!(digests(&[1, 2, 3]).first_difference(&digests(&[1, 2, 3])), None);
        assert_eq!(digests(&[1, 2, 3]).first_difference(&digests(&[1, 9, 9])), Some(REGION_BYTES));
        assert_eq!(digests(&[1]).first_difference(&digests(&[1, 2])), Some(REGION_BYTES));
    }
}
