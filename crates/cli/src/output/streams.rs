//! The standard streams of this process.

use std::io::{IsTerminal, Result, Write};

pub fn to_stdout(parts: &[&[u8]]) -> Result<()> {
    let mut output = std::io::stdout().lock();
    parts.iter().try_for_each(|part| output.write_all(part))?;
    output.flush()
}

pub fn to_stderr(text: &[u8]) -> Result<()> {
    let mut output = std::io::stderr().lock();
    output.write_all(text)?;
    output.flush()
}

pub fn stdout_is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

/// The width of the terminal on standard output.
pub fn columns() -> Option<usize> {
    rustix::termios::tcgetwinsize(std::io::stdout()).map(|size| usize::from(size.ws_col)).ok()
}
