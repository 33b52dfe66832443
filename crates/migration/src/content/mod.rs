//! What guest memory is filled with: zero pages, pages that do not compress, and pages of a corpus.
//!
//! The content is a function of the settings and a seed alone, so that every variant moves the same memory.

use plumb_model::Percent;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::codec::PAGE_BYTES;

/// What guest memory holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContentSpec {
    /// The share of pages that are all zero.
    pub zero: Percent,
    /// The share of the other pages that are random and do not compress.
    pub incompressible: Percent,
}

impl Default for ContentSpec {
    fn default() -> Self {
        Self { zero: Percent(0.0), incompressible: Percent(1.0) }
    }
}

/// Why memory could not be filled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContentError {
    /// Memory comes in pages.
    #[error("fill {bytes} bytes: memory comes in pages of 4 KiB")]
    NotPages {
        /// How many bytes were given.
        bytes: usize,
    },
}

impl ContentSpec {
    /// Fills memory that is all zero.
    ///
    /// # Errors
    /// When the memory is no whole number of pages.
    pub fn fill(&self, memory: &mut [u8], seed: u64) -> Result<(), ContentError> {
        if !memory.len().is_multiple_of(PAGE_BYTES) {
            return Err(ContentError::NotPages { bytes: memory.len() });
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        for page in memory.chunks_exact_mut(PAGE_BYTES) {
            if random.random::<f64>() >= self.zero.0 {
                random.fill_bytes(page);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_zero_pages_is_as_asked_and_the_rest_is_a_function_of_the_seed() {
        let spec = ContentSpec { zero: Percent(0.5), ..ContentSpec::default() };
        let fill = |seed| {
            let mut memory = vec![0_u8; 1024 * PAGE_BYTES];
            spec.fill(&mut memory, seed).unwrap();
            memory
        };
        let zero = fill(1).chunks_exact(PAGE_BYTES).filter(|page| page.iter().all(|byte| *byte == 0)).count();
        assert!((430..594).contains(&zero), "{zero}");
        assert_eq!(fill(1), fill(1));
        assert_ne!(fill(1), fill(2));
    }
}
