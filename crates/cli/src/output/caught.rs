//! The standard streams of a unit test: its thread keeps what a command writes. They are never a terminal, wherever the tests run.

use std::cell::RefCell;
use std::io::Result;

thread_local! {
    static STREAMS: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// Takes what this thread wrote to standard output and to standard error.
pub fn take() -> [Vec<u8>; 2] {
    STREAMS.take()
}

pub fn to_stdout(parts: &[&[u8]]) -> Result<()> {
    STREAMS.with_borrow_mut(|[out, _]| parts.iter().for_each(|part| out.extend_from_slice(part)));
    Ok(())
}

pub fn to_stderr(text: &[u8]) -> Result<()> {
    STREAMS.with_borrow_mut(|[_, err]| err.extend_from_slice(text));
    Ok(())
}

pub fn stdout_is_terminal() -> bool {
    false
}

pub fn stderr_is_terminal() -> bool {
    false
}

pub fn columns() -> Option<usize> {
    None
}
