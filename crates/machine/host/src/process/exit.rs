//! How a process ended, in values and in words.

use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};
use signal_hook::low_level::signal_name;

/// How a process ended. Printed it completes "nginx …": "ended with code 1", "was killed by SIGSEGV".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// By itself, with this exit code.
    Code(i32),
    /// By the signal of this number.
    Signal(i32),
}

impl Exit {
    /// Whether it ended by itself with code 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }

    /// Whether only another process, the terminal or the kernel can have ended it: by a signal that a program's own faults do
    /// not raise, as SIGSEGV and SIGABRT are.
    #[must_use]
    pub fn is_from_outside(self) -> bool {
        let Self::Signal(number) = self else { return false };
        [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT].contains(&number)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        // A process that was waited for without WUNTRACED has one or the other.
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or(0)), Self::Code)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "ended with code {code}"),
            Self::Signal(number) => match signal_name(number) {
                Some(name) => write!(f, "was killed by {name}"),
                None => write!(f, "was killed by signal {number}"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_of_the_program_is_not_from_outside() {
        let is_from_outside = |raw| Exit::from(ExitStatus::from_raw(raw)).is_from_outside();
        assert!(is_from_outside(libc::SIGKILL) && is_from_outside(libc::SIGTERM));
        assert!(!is_from_outside(libc::SIGSEGV | 0x80) && !is_from_outside(libc::SIGABRT));
        assert!(!is_from_outside(0) && !is_from_outside(libc::SIGKILL << 8));
    }

    #[test]
    fn endings_are_put_in_words() {
        let words = |raw| Exit::from(ExitStatus::from_raw(raw)).to_string();
        assert_eq!(words(0), "ended with code 0");
        assert_eq!(words(3 << 8), "ended with code 3");
        assert_eq!(words(libc::SIGKILL), "was killed by SIGKILL");
        assert_eq!(words(libc::SIGSEGV | 0x80), "was killed by SIGSEGV");
        assert_eq!(words(40), "was killed by signal 40");
    }
}
