//! A corpus of files: one, or all below a directory in the order of their paths, as one row of bytes without gaps.
//!
//! It is read from the page cache straight into guest memory, so it needs no extra memory, whatever its size.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::ContentError;
use crate::{PAGE_BYTES, UNIT_BYTES};

/// A file and where it stands in the row.
#[derive(Debug)]
struct Piece {
    path: PathBuf,
    first: u64,
    bytes: u64,
}

/// The files of a corpus.
#[derive(Debug)]
pub(super) struct Corpus {
    pieces: Vec<Piece>,
    bytes: u64,
}

impl Corpus {
    /// One file.
    ///
    /// # Errors
    /// When it cannot be read, is not a regular file, or holds less than a unit.
    pub(super) fn of_file(path: &Path) -> Result<Self, ContentError> {
        let mut corpus = Self { pieces: Vec::new(), bytes: 0 };
        let bytes = regular_bytes(path)?;
        corpus.push(path.to_owned(), bytes);
        corpus.at_least_a_unit(path)
    }

    /// Every regular file below a directory; links are not followed.
    ///
    /// # Errors
    /// When something in it cannot be read, or all of it holds less than a unit.
    pub(super) fn of_directory(path: &Path) -> Result<Self, ContentError> {
        let mut corpus = Self { pieces: Vec::new(), bytes: 0 };
        corpus.gather(path)?;
        corpus.at_least_a_unit(path)
    }

    fn gather(&mut self, directory: &Path) -> Result<(), ContentError> {
        let unreadable = |error| ContentError::unreadable(directory, error);
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            paths.push((entry.path(), entry.file_type().map_err(unreadable)?));
        }
        paths.sort_by(|a, b| a.0.cmp(&b.0));
        for (path, kind) in paths {
            if kind.is_dir() {
                self.gather(&path)?;
            } else if kind.is_file() {
                let bytes = regular_bytes(&path)?;
                self.push(path, bytes);
            }
        }
        Ok(())
    }

    fn push(&mut self, path: PathBuf, bytes: u64) {
        if bytes > 0 {
            self.pieces.push(Piece { path, first: self.bytes, bytes });
            self.bytes += bytes;
        }
    }

    fn at_least_a_unit(self, path: &Path) -> Result<Self, ContentError> {
        if self.bytes < UNIT_BYTES as u64 {
            return Err(ContentError::TooSmall { path: path.to_owned(), bytes: self.bytes });
        }
        Ok(self)
    }

    /// A file, or all below a directory, up to this many bytes.
    ///
    /// # Errors
    /// When something cannot be read, or there is nothing in it.
    pub(super) fn read_path(path: &Path, bytes_max: u64) -> Result<Vec<u8>, ContentError> {
        let kind = fs::metadata(path).map_err(|error| ContentError::unreadable(path, error))?;
        let mut corpus = Self { pieces: Vec::new(), bytes: 0 };
        if kind.is_dir() {
            corpus.gather(path)?;
        } else {
            corpus.push(path.to_owned(), regular_bytes(path)?);
        }
        if corpus.bytes == 0 {
            return Err(ContentError::Empty { path: path.to_owned() });
        }
        let mut bytes = vec![0; corpus.bytes.min(bytes_max) as usize];
        corpus.reader().fill_from(0, &mut bytes)?;
        Ok(bytes)
    }

    /// How many bytes it holds.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A reader for one thread; threads do not share readers.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { corpus: self, open: None }
    }
}

/// The size of a file, once it was opened: so that one that cannot be read is found before memory is filled.
fn regular_bytes(path: &Path) -> Result<u64, ContentError> {
    let kind = fs::metadata(path).map_err(|error| ContentError::unreadable(path, error))?;
    if !kind.is_file() {
        return Err(ContentError::NoFile { path: path.to_owned() });
    }
    File::open(path).map_err(|error| ContentError::unreadable(path, error))?;
    Ok(kind.len())
}

/// Reads pages and keeps the last file open.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    corpus: &'a Corpus,
    open: Option<(usize, File)>,
}

impl Reader<'_> {
    /// Reads the page of that number; after the last whole one the first comes again.
    pub(super) fn page(&mut self, number: u64, page: &mut [u8]) -> Result<(), ContentError> {
        let pages = self.corpus.bytes / PAGE_BYTES as u64;
        self.fill_from(number % pages * PAGE_BYTES as u64, page)
    }

    fn fill_from(&mut self, mut at: u64, mut out: &mut [u8]) -> Result<(), ContentError> {
        let mut index = self.corpus.pieces.partition_point(|piece| piece.first + piece.bytes <= at);
        while !out.is_empty() {
            let Some(piece) = self.corpus.pieces.get(index) else { break };
            let within = at - piece.first;
            let (now, later) = out.split_at_mut(out.len().min((piece.bytes - within) as usize));
            let file = match &mut self.open {
                Some((open, file)) if *open == index => file,
                open => {
                    let file = File::open(&piece.path)
                        .map_err(|error| ContentError::unreadable(&piece.path, error))?;
                    &mut open.insert((index, file)).1
                }
            };
            file.read_exact_at(now, within).map_err(|error| ContentError::unreadable(&piece.path, error))?;
            at += now.len() as u64;
            out = later;
            index += 1;
        }
        Ok(())
    }
}
