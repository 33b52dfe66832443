//! Reads a file, compressed or not, as a whole or line by line.

use std::io::{BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;

use crate::door::decoded;
use crate::error::ReadError;
use crate::figure::Unreadable;
use crate::format::{format_named, read_as, read_runs};
use crate::k6;
use crate::mapped::{Column, read_mapped};
use crate::tool_run::ToolRun;

/// The largest output that is read into memory, uncompressed, in bytes.
pub const WHOLE_BYTES_MAX: u64 = 512 << 20;
/// How much of a file decides how to read it.
const HEAD_BYTES: u64 = 64 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// How a file is to be read.
#[derive(Debug, Clone, Copy)]
pub enum Way<'w> {
    /// By what it looks like.
    Recognised,
    /// As the format of this name.
    Named(&'w str),
    /// By these columns of it.
    Columns(&'w [Column]),
}

/// Reads the runs of a file, which may be compressed by gzip. k6's points are read line by line, whatever their size.
///
/// # Errors
/// When it cannot be read, is too large, or is not what it should be.
pub fn read_from(input: impl Read, way: Way<'_>) -> Result<Vec<ToolRun>, ReadError> {
    let unreadable = |error: std::io::Error| ReadError::Unreadable(error.to_string());
    let mut packed = BufReader::new(input);
    let is_packed = packed.fill_buf().map_err(unreadable)?.starts_with(&GZIP);
    if is_packed {
        read_plain(BufReader::new(MultiGzDecoder::new(packed)), way)
    } else {
        read_plain(packed, way)
    }
}

/// Decompresses gzip; other bytes stay as they are.
///
/// # Errors
/// When the data is damaged, or larger than `bytes_max`.
pub fn unpacked(bytes: Vec<u8>, bytes_max: u64) -> Result<Vec<u8>, ReadError> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes);
    }
    let mut all = Vec::new();
    let read = MultiGzDecoder::new(bytes.as_slice()).take(bytes_max + 1).read_to_end(&mut all);
    read.map_err(|error| ReadError::Unreadable(format!("it cannot be decompressed: {error}")))?;
    if all.len() as u64 > bytes_max {
        return Err(ReadError::Unreadable(format!("it decompresses to more than {} MiB", bytes_max >> 20)));
    }
    Ok(all)
}

fn read_plain(mut input: impl BufRead, way: Way<'_>) -> Result<Vec<ToolRun>, ReadError> {
    let unreadable = |error: std::io::Error| ReadError::Unreadable(error.to_string());
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES).read_to_end(&mut head).map_err(unreadable)?;
    if let Some(lines) = lines_of_k6(&head, way) {
        let read = lines.read;
        let read = read(&mut BufReader::new(head.as_slice().chain(input)));
        let mut runs =
            read.map_err(|fault| ReadError::Malformed { format: lines.name, reason: fault.in_words("", 1) })?;
        runs.iter_mut().for_each(|run| run.open_end = Some("k6's points"));
        return Ok(runs);
    }
    input.take(WHOLE_BYTES_MAX).read_to_end(&mut head).map_err(unreadable)?;
    if head.len() as u64 > WHOLE_BYTES_MAX {
        let most = WHOLE_BYTES_MAX >> 20;
        return Err(ReadError::Unreadable(format!(
            "it has more than {most} MiB; import a summary of the tool instead"
        )));
    }
    let text = decoded(head);
    match way {
        Way::Recognised => read_runs(&text),
        Way::Named(name) => match format_named(name) {
            Some(format) => read_as(format, &text),
            None => Err(ReadError::Unreadable(format!("no format is named `{name}`"))),
        },
        Way::Columns(columns) => read_mapped(&text, columns).map(|run| vec![run]),
    }
}

/// A format that is read line by line.
struct Lines {
    name: &'static str,
    read: fn(&mut dyn BufRead) -> Result<Vec<ToolRun>, Unreadable<'static>>,
}

/// `None` for all but k6's points as k6 wrote them.
fn lines_of_k6(head: &[u8], way: Way<'_>) -> Option<Lines> {
    let head = String::from_utf8_lossy(head);
    let is_asked_for = |name: &str| match way {
        Way::Recognised => true,
        Way::Named(named) => named == name,
        Way::Columns(_) => false,
    };
    let known = [
        (Lines { name: "k6-points", read: k6::read_lines }, k6::is_points as fn(&str) -> bool),
        (Lines { name: "k6-csv", read: k6::read_csv_rows }, k6::is_csv),
    ];
    let is_bare = head.starts_with(['{', 'm']);
    let found = known.into_iter().find(|(lines, is)| is_bare && is_asked_for(lines.name) && is(&head));
    found.map(|(lines, _)| lines)
}
