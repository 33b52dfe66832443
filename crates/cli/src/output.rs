//! The two standard streams: results on one, messages on the other.

use std::io::{IsTerminal, Write};

/// Writes a result to standard output; a closed pipe ends the matter silently.
pub fn result(text: &str) {
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = output.write_all(b"\n");
    }
    let _ = output.flush();
}

/// Writes a line to standard error.
pub fn message(text: &str) {
    let mut output = std::io::stderr().lock();
    let _ = writeln!(output, "{text}");
}

/// Whether colours are wanted on standard output.
pub fn colour_on_stdout() -> bool {
    std::io::stdout().is_terminal() && colours_allowed()
}

/// Whether colours are wanted on standard error.
pub fn colour_on_stderr() -> bool {
    std::io::stderr().is_terminal() && colours_allowed()
}

fn colours_allowed() -> bool {
    let unset = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    unset && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The width of the terminal, at most `limit`; 100 where there is none.
pub fn width(limit: usize) -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.map_or(100, |size| usize::from(size.ws_col)).clamp(60, limit)
}
