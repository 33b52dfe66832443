//! The two standard streams: results on one, messages on the other.
//!
//! This is the only way out to a terminal, so nothing that a terminal would obey passes here, wherever it came from. A
//! result that cannot be written is an error: a script must not take an empty file for a report.

#[cfg(test)]
pub mod caught;
#[cfg(not(test))]
mod streams;

use std::io::ErrorKind;

use plumb_model::printable_lines;
use plumb_report::TextStyle;
use serde::Serialize;

#[cfg(test)]
use self::caught as streams;
use crate::exit::Failure;

/// Writes a result to standard output.
///
/// # Errors
/// When it cannot be written, as on a full disk. A closed pipe ends the matter silently.
pub fn result(text: &str) -> Result<(), Failure> {
    write(&printable_lines(text))
}

/// As [`result`], for a text whose colours are its own: its foreign parts went through `plumb_report`.
pub fn painted(text: &str) -> Result<(), Failure> {
    write(&with_colours(text))
}

/// Writes the content of a file to standard output: as it is, or fit for a terminal.
pub fn bytes(bytes: &[u8]) -> Result<(), Failure> {
    if is_terminal() { result(&String::from_utf8_lossy(bytes)) } else { write_all(&[bytes]) }
}

/// Writes a value to standard output as indented JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    write(&plumb_report::pretty(value))
}

fn write(text: &str) -> Result<(), Failure> {
    let end: &[u8] = if text.ends_with('\n') { b"" } else { b"\n" };
    write_all(&[text.as_bytes(), end])
}

fn write_all(parts: &[&[u8]]) -> Result<(), Failure> {
    match streams::to_stdout(parts) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::harness(format!("write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes lines to standard error. Where that fails, nobody is left to be told.
pub fn message(text: &str) {
    let _ = streams::to_stderr(format!("{}\n", printable_lines(text)).as_bytes());
}

/// As [`message`], at any moment: a line of progress that is shown on the terminal gives way to it.
pub fn aside(text: &str) {
    let clear = if streams::stderr_is_terminal() { "\r\x1b[K" } else { "" };
    let _ = streams::to_stderr(format!("{clear}{}\n", printable_lines(text)).as_bytes());
}

/// As [`message`], for a text whose colours are its own.
pub fn painted_message(text: &str) {
    let _ = streams::to_stderr(format!("{}\n", with_colours(text)).as_bytes());
}

/// Writes to a terminal on standard error a line that the next one overwrites.
pub fn overwritten(line: &str) {
    let _ = streams::to_stderr(format!("\r\x1b[K{line}").as_bytes());
}

/// Whether standard error is a terminal that can overwrite a line.
pub fn can_overwrite() -> bool {
    streams::stderr_is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    streams::stdout_is_terminal()
}

/// Writes why a command failed to standard error.
pub fn failure(failure: &Failure) {
    let is_laid_out = failure.message.contains('\n');
    if is_laid_out && failure.is_painted {
        painted_message(&failure.message);
    } else if is_laid_out {
        message(&failure.message);
    } else {
        message(&format!("error: {}", failure.message));
    }
}

/// The text with nothing in it that a terminal would obey but colours (ECMA-48, SGR).
fn with_colours(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split("\u{1b}[");
    out.push_str(&printable_lines(pieces.next().unwrap_or_default()));
    for piece in pieces {
        let codes = piece.find(|character: char| !character.is_ascii_digit() && character != ';');
        let is_colour = codes.is_some_and(|at| piece[at..].starts_with('m'));
        out.push_str(if is_colour { "\u{1b}[" } else { "\\u{1b}[" });
        out.push_str(&printable_lines(piece));
    }
    out
}

/// Whether colours are wanted on standard output.
pub fn colour_on_stdout() -> bool {
    streams::stdout_is_terminal() && colours_allowed()
}

/// Whether colours are wanted on standard error.
pub fn colour_on_stderr() -> bool {
    streams::stderr_is_terminal() && colours_allowed()
}

fn colours_allowed() -> bool {
    let unset = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    unset && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// How a page on standard output may look, with lines of at most `limit` characters.
pub fn style(limit: usize) -> TextStyle {
    TextStyle { colour: colour_on_stdout(), width: width(limit) }
}

/// The width of the terminal, at most `limit`; 100 where there is none.
pub fn width(limit: usize) -> usize {
    streams::columns().unwrap_or(100).clamp(60, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_terminal_obeys_only_colours_pass() {
        assert_eq!(with_colours("\u{1b}[1;31mred\u{1b}[0m\nplain"), "\u{1b}[1;31mred\u{1b}[0m\nplain");
        assert_eq!(with_colours("\u{1b}[2J\u{1b}]0;title\u{7}"), "\\u{1b}[2J\\u{1b}]0;title\\u{7}");
        assert_eq!(with_colours("\u{1b}[31"), "\\u{1b}[31");
        assert_eq!(with_colours("\u{202e}\u{9b}31m"), "\\u{202e}\\u{9b}31m");
    }
}
