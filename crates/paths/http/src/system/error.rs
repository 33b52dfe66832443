//! Why a configuration of nginx cannot be a template.

use std::path::PathBuf;

use super::config::LONG_TEMPLATE;

/// The user's alternatives; ends a refusal.
pub(super) const WAYS_OUT: &str = "; measure the running server with `plumb init --external` and `changes` to its file, or remove this directive from a copy of the file";

/// Why a configuration of nginx cannot be a template. Begins with the place, as `FILE:LINE`, where there is one.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// A file cannot be read.
    #[error("failed to {_0}")]
    Unreadable(plumb_host::Error),
    /// A text is not nginx's language.
    #[error("{at}: {why}")]
    Syntax {
        /// The place.
        at: String,
        /// The fault there.
        why: Syntax,
    },
    /// An included file cannot be part of a template.
    #[error("{at}: `include`: {cause}")]
    Included {
        /// The place that includes it.
        at: String,
        /// Why.
        cause: Box<Self>,
    },
    /// An `include` has a pattern that plumb does not expand.
    #[error("`{pattern}` is not supported; a path may have one `*`, in its last part")]
    Pattern {
        /// The pattern.
        pattern: String,
    },
    /// Files include each other too deep.
    #[error("{}: files include each other more than {depth_max} levels deep", file.display())]
    Deep {
        /// The file at which reading stopped.
        file: PathBuf,
        /// The limit.
        depth_max: usize,
    },
    /// The files are too many or too large.
    #[error(
        "{}: with this file, the configuration exceeds {files_max} files or {} KiB",
        file.display(),
        LONG_TEMPLATE >> 10
    )]
    Large {
        /// The file at which reading stopped.
        file: PathBuf,
        /// The limit.
        files_max: usize,
    },
    /// It has no `http` block.
    #[error("{}: there is no `http` block in it", file.display())]
    NoHttp {
        /// The configuration.
        file: PathBuf,
    },
    /// It has no server that passes requests on.
    #[error(
        "{}: no `server` in it passes requests on with `proxy_pass`; measure a server as it runs with `plumb init --external`",
        file.display()
    )]
    NoServer {
        /// The configuration.
        file: PathBuf,
    },
    /// A directive cannot be part of a template.
    #[error("{at}: `{directive}` {why}{WAYS_OUT}")]
    Refused {
        /// The place.
        at: String,
        /// The directive's words.
        directive: String,
        /// Why.
        why: Refusal,
    },
}

/// Why a text is not nginx's language.
#[derive(Debug, thiserror::Error)]
pub enum Syntax {
    /// A `;` ends nothing.
    #[error("a directive is missing before `;`")]
    Empty,
    /// A block has another language.
    #[error("`{name}` contains Lua, which plumb cannot read")]
    Lua {
        /// The directive.
        name: String,
    },
    /// Blocks are nested too deep.
    #[error("blocks are nested too deep")]
    Deep,
    /// A directive has no end.
    #[error("`{words}` does not end with `;`")]
    Unended {
        /// The directive's words.
        words: String,
    },
    /// A `}` is not the end of a block.
    #[error("a `}}` closes nothing")]
    Closes,
    /// A block has no end.
    #[error("a `{{` is not closed")]
    Open,
    /// A text in quotes has no end.
    #[error("the closing quote of a text is missing")]
    Quote,
}

/// Why a directive cannot be part of a template.
#[derive(Debug, Clone, Copy, thiserror::Error)]
pub enum Refusal {
    /// A relative path, which would change its meaning.
    #[error("is relative to nginx's own directory, and plumb gives nginx another one")]
    Relative,
    /// A target that is known only for a request.
    #[error("has a variable in its target, which is not supported")]
    Variable,
    /// A target that cannot be replaced.
    #[error("has a target of a form that is not supported")]
    Form,
    /// It sends requests to another server.
    #[error("passes requests to another server")]
    Passes,
    /// It might send requests to another server.
    #[error("is unknown to plumb and might send requests elsewhere")]
    Unknown,
    /// The same in an `upstream`.
    #[error("is unknown to plumb in an `upstream` and might send requests elsewhere")]
    UnknownInUpstream,
    /// A target that was not replaced.
    #[error("does not lead to plumb's origin")]
    Elsewhere,
}
