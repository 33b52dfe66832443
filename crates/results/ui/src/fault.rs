//! Requests that are refused, or that fail. Each becomes a page.

use std::fmt::Display;

/// Why a request was refused or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestError {
    /// The HTTP status.
    pub status: u16,
    /// The mistake and how to correct it, in sentences.
    pub words: String,
}

impl RequestError {
    /// The request makes no sense.
    pub fn bad(words: impl Into<String>) -> Self {
        Self { status: 400, words: words.into() }
    }

    /// The request is not allowed.
    pub fn forbidden(words: impl Into<String>) -> Self {
        Self { status: 403, words: words.into() }
    }

    /// No such page exists.
    pub fn missing(words: impl Into<String>) -> Self {
        Self { status: 404, words: words.into() }
    }

    /// The server failed. The cause completes "failed to …".
    pub fn broken(cause: impl Display) -> Self {
        Self { status: 500, words: format!("The page failed to {cause}.") }
    }

    /// The heading of its page.
    #[must_use]
    pub fn heading(&self) -> &'static str {
        match self.status {
            400 => "This request makes no sense",
            403 => "This request is not allowed",
            404 => "There is no such page",
            405 => "This page cannot do that",
            413 => "This request is too large",
            503 => "The page is busy",
            _ => "Something does not work",
        }
    }
}
