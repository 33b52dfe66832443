//! The content of guest memory: zero pages, pages that do not compress, and pages of a corpus.
//!
//! The content is a function of the settings and a seed alone, so that every variant moves the same memory,
//! whichever program fills it and with however many threads.

mod builtin;
mod corpus;
mod error;
mod layout;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use plumb_host::signals::was_asked_to_stop;
use plumb_model::Percent;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::error::ContentError;

use self::builtin::Builtin;
use self::builtin::random::Random;
use self::corpus::Corpus;
use self::layout::{Layout, Sort};
use crate::PAGE_BYTES;

/// The size after which the built-in corpus has had every kind of data in its proportion.
pub const BUILTIN_BYTES: usize = builtin::DECK_BYTES;

/// Memory is the same in every slot, for every variant and every system, and in every run.
pub const CONTENT_SEED: u64 = 0x706c_756d_6221;

/// The content of guest memory: pages of a corpus, but for the shares that are zero or do not compress.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ContentSettings {
    /// The share of all pages that are zero.
    pub zero: Percent,
    /// The share of all pages that are random and do not compress.
    pub incompressible: Percent,
    /// A file that the rest is made of, over and over; the built-in corpus if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// A directory whose files the rest is made of, in the order of their paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
}

impl Default for ContentSettings {
    fn default() -> Self {
        Self { zero: Percent(0.0), incompressible: Percent(0.0), file: None, directory: None }
    }
}

impl ContentSettings {
    /// Checks what no single field can.
    ///
    /// # Errors
    /// When the shares are more than the whole, or there are two corpora.
    pub fn check(&self) -> Result<(), ContentError> {
        let (zero, random) = (self.zero.0, self.incompressible.0);
        if !(zero >= 0.0 && random >= 0.0 && zero + random <= 1.0 + 1e-9) {
            return Err(ContentError::Shares);
        }
        if self.file.is_some() && self.directory.is_some() {
            return Err(ContentError::TwoCorpora);
        }
        Ok(())
    }

    /// The content of that seed, ready to fill memory.
    ///
    /// # Errors
    /// As [`ContentSettings::check`], and when the corpus cannot be read or is too small.
    pub fn open(&self, seed: u64) -> Result<Content, ContentError> {
        self.check()?;
        let source = match (&self.file, &self.directory) {
            (Some(file), _) => Source::Files(Corpus::of_file(file)?),
            (None, Some(directory)) => Source::Files(Corpus::of_directory(directory)?),
            (None, None) => Source::Builtin(Builtin::new(seed)),
        };
        Ok(Content { layout: Layout::new(self.zero.0, self.incompressible.0, seed), source, seed })
    }

    /// Fills memory with the content of that seed, on all CPUs.
    ///
    /// # Errors
    /// As [`ContentSettings::open`], and when the memory is not a whole number of pages.
    pub fn fill(&self, memory: &mut [u8], seed: u64) -> Result<(), ContentError> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        self.open(seed)?.fill_parallel(0, memory, threads)
    }
}

/// The bytes of a file, or of all files below a directory in the order of their paths, up to this many.
///
/// # Errors
/// When something cannot be read or is not a regular file, or there is nothing in it.
pub fn read_path(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ContentError> {
    Corpus::read_path(path, bytes_max)
}

#[derive(Debug)]
enum Source {
    Builtin(Builtin),
    Files(Corpus),
}

/// Content that is ready to fill memory: page by page, in any order, by any thread.
#[derive(Debug)]
pub struct Content {
    layout: Layout,
    source: Source,
    seed: u64,
}

impl Content {
    /// How many bytes the corpus holds before it repeats; `None` for the built-in one, which never does.
    #[must_use]
    pub fn corpus_bytes(&self) -> Option<u64> {
        match &self.source {
            Source::Builtin(_) => None,
            Source::Files(corpus) => Some(corpus.bytes()),
        }
    }

    /// Fills memory whose first page has that number.
    ///
    /// # Errors
    /// When the memory is not a whole number of pages, a file can no longer be read, or this process is asked to stop.
    pub fn fill(&self, first_page: u64, memory: &mut [u8]) -> Result<(), ContentError> {
        if !memory.len().is_multiple_of(PAGE_BYTES) {
            return Err(ContentError::NotPages { bytes: memory.len() });
        }
        let mut reader = match &self.source {
            Source::Files(corpus) => Some(corpus.reader()),
            Source::Builtin(_) => None,
        };
        for (number, page) in (first_page..).zip(memory.chunks_exact_mut(PAGE_BYTES)) {
            // A large memory takes many seconds.
            if was_asked_to_stop() {
                return Err(ContentError::Interrupted);
            }
            match (self.layout.sort(number), &self.source, &mut reader) {
                (Sort::Zero, ..) => clear(page),
                (Sort::Random, ..) => {
                    let seed = !self.seed ^ (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    Random::new(seed).fill(page);
                }
                (Sort::Corpus, Source::Builtin(corpus), _) => corpus.fill(number, page),
                (Sort::Corpus, Source::Files(_), Some(reader)) => reader.page(number, page)?,
                (Sort::Corpus, Source::Files(_), None) => {}
            }
        }
        Ok(())
    }

    /// As [`Content::fill`], on this many threads; the content is the same whatever their number.
    ///
    /// # Errors
    /// As [`Content::fill`].
    pub fn fill_parallel(
        &self,
        first_page: u64,
        memory: &mut [u8],
        threads: usize,
    ) -> Result<(), ContentError> {
        if !memory.len().is_multiple_of(PAGE_BYTES) {
            return Err(ContentError::NotPages { bytes: memory.len() });
        }
        let pages = (memory.len() / PAGE_BYTES).div_ceil(threads.max(1)).max(1);
        let parts = memory.chunks_mut(pages * PAGE_BYTES).zip((first_page..).step_by(pages));
        std::thread::scope(|scope| {
            let fillers: Vec<_> =
                parts.map(|(part, first)| scope.spawn(move || self.fill(first, part))).collect();
            fillers.into_iter().try_for_each(|filler| match filler.join() {
                Ok(filled) => filled,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }
}

/// Makes a page zero, without writing to one that is: memory that was never written takes no memory.
fn clear(page: &mut [u8]) {
    if page.iter().fold(0, |all, byte| all | byte) != 0 {
        page.fill(0);
    }
}
