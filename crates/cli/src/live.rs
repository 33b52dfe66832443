//! One line on standard error that is written over again and again, on a terminal only.

use std::io::{IsTerminal, Write};

use plumb_model::printable;

use crate::output;

/// The line, or nothing where nobody watches.
#[derive(Debug)]
pub struct LiveLine {
    is_shown: bool,
}

impl LiveLine {
    /// A line that is shown on a terminal, unless somebody wants quiet.
    pub fn new(quiet: bool) -> Self {
        let is_terminal =
            std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { is_shown: is_terminal && !quiet }
    }

    /// Whether anybody sees it.
    pub fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// Writes it anew, as far as the terminal is wide.
    pub fn show(&self, text: &str) {
        let fitting: String = printable(text).chars().take(output::width(200).saturating_sub(1)).collect();
        self.write(&fitting);
    }

    /// Takes it away.
    pub fn clear(&self) {
        self.write("");
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            let mut error = std::io::stderr().lock();
            let _ = write!(error, "\r\x1b[K{text}");
            let _ = error.flush();
        }
    }
}
