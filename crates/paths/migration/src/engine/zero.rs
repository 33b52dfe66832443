//! Finding pages of zeros.
//!
//! The test is written once, over words, and compiled three times: for AVX-512, for AVX2, and for the target's baseline. The CPU decides which
//! of them runs. The first block usually shows that a page has content, so most of the time is spent on pages of zeros.

use plumb_codec::PAGE_BYTES;

/// The bytes of a page that are tested before each decision.
const BLOCK_BYTES: usize = 256;

/// A test for pages of zeros, in the widest form that this CPU has.
#[derive(Debug, Clone, Copy)]
pub struct ZeroTest {
    width: Width,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Width {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Words,
}

impl ZeroTest {
    /// The test for this CPU.
    #[must_use]
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                return Self { width: Width::Avx512 };
            }
            if std::arch::is_x86_feature_detected!("avx2") {
                return Self { width: Width::Avx2 };
            }
        }
        Self { width: Width::Words }
    }

    /// The name, for reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self.width {
            #[cfg(target_arch = "x86_64")]
            Width::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Width::Avx2 => "AVX2",
            Width::Words => "words",
        }
    }

    /// Whether a page, or a piece of one, has only zeros. Bytes after the last whole word are tested, too.
    #[must_use]
    pub fn is_zero(self, page: &[u8]) -> bool {
        match self.width {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` found the feature on this CPU.
            Width::Avx512 => unsafe { is_zero_avx512(page) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `detect` found the feature on this CPU.
            Width::Avx2 => unsafe { is_zero_avx2(page) },
            Width::Words => is_zero_words(page),
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn is_zero_avx512(page: &[u8]) -> bool {
    is_zero_words(page)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn is_zero_avx2(page: &[u8]) -> bool {
    is_zero_words(page)
}

/// The one text of the test; it is inlined, so that each caller's instructions are used.
#[inline(always)]
fn is_zero_words(page: &[u8]) -> bool {
    let (blocks, rest) = page.as_chunks::<BLOCK_BYTES>();
    blocks.iter().all(|block| union(block) == 0) && rest.iter().all(|byte| *byte == 0)
}

#[inline(always)]
fn union(block: &[u8; BLOCK_BYTES]) -> u64 {
    let (words, _) = block.as_chunks::<8>();
    words.iter().fold(0, |union, word| union | u64::from_ne_bytes(*word))
}

/// The speed at which pages of zeros are recognised, in bytes per second, from memory and not from a cache.
#[must_use]
pub fn speed(test: ZeroTest, bytes: usize) -> f64 {
    let memory = vec![0_u8; bytes.next_multiple_of(PAGE_BYTES)];
    let before_ns = plumb_host::time::monotonic_ns();
    let zero =
        memory.chunks_exact(PAGE_BYTES).filter(|page| test.is_zero(std::hint::black_box(page))).count();
    let elapsed_ns = plumb_host::time::monotonic_ns().saturating_sub(before_ns).max(1);
    (zero * PAGE_BYTES) as f64 / elapsed_ns as f64 * 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn every_width() -> Vec<ZeroTest> {
        let mut all = vec![ZeroTest { width: Width::Words }];
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx2") {
                all.push(ZeroTest { width: Width::Avx2 });
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                all.push(ZeroTest { width: Width::Avx512 });
            }
        }
        all
    }

    #[test]
    fn one_bit_anywhere_is_content() {
        for test in every_width() {
            let mut page = vec![0_u8; PAGE_BYTES];
            assert!(test.is_zero(&page), "{}", test.name());
            for at in 0..PAGE_BYTES {
                page[at] = 0x80;
                assert!(!test.is_zero(&page), "{} at {at}", test.name());
                page[at] = 0;
            }
        }
    }

    proptest! {
        #[test]
        fn every_width_and_length_agrees_with_the_plain_test(length in 0_usize..1000, at in 0_usize..1000, set: bool) {
            let mut bytes = vec![0_u8; length];
            if let (true, Some(byte)) = (set, bytes.get_mut(at)) {
                *byte = 1;
            }
            let plain = bytes.iter().all(|byte| *byte == 0);
            for test in every_width() {
                prop_assert_eq!(test.is_zero(&bytes), plain, "{}", test.name());
            }
        }
    }
}
