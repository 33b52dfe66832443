//! One mistake in a tree that a person wrote: its place, the text there, and what would be right.
//!
//! The text is untrusted: its control characters never reach the terminal.

use super::node::Location;

/// How many mistakes one report shows.
pub const MAX_MISTAKES: usize = 10;

/// The length above which a message is shortened in its middle, in characters.
const LONG_MESSAGE: usize = 600;

/// The length above which a name is never a typing error, in bytes. Comparing it with others would also take
/// long.
const LONG_NAME: usize = 80;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The mistake, and what would be right.
    pub message: String,
    /// The place.
    pub span: Location,
    /// A remedy, if the message does not give one.
    pub help: Option<String>,
    /// A second, related place.
    pub also: Option<Box<(Location, String)>>,
}

impl Mistake {
    /// A mistake at a place.
    #[must_use]
    pub fn new(span: Location, message: impl AsRef<str>) -> Self {
        Self { message: printable(message.as_ref()), span, help: None, also: None }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn help(mut self, help: impl AsRef<str>) -> Self {
        self.help = Some(printable(help.as_ref()));
        self
    }

    /// Adds a second, related place.
    #[must_use]
    pub fn also(mut self, span: Location, message: impl AsRef<str>) -> Self {
        self.also = Some(Box::new((span, printable(message.as_ref()))));
        self
    }
}

/// The mistakes of one report.
#[derive(Debug, Default)]
pub struct Mistakes(pub Vec<Mistake>);

impl Mistakes {
    /// Adds a mistake at a place.
    pub fn at(&mut self, span: Location, message: impl AsRef<str>) {
        self.extend([Mistake::new(span, message)]);
    }

    /// The value, or `None` after adding its mistakes.
    pub fn keep<T>(&mut self, found: Result<T, Vec<Mistake>>) -> Option<T> {
        found.map_err(|found| self.extend(found)).ok()
    }

    /// The value, unless there are mistakes.
    ///
    /// # Errors
    /// The mistakes.
    pub fn unless<T>(self, value: T) -> Result<T, Vec<Mistake>> {
        if self.0.is_empty() { Ok(value) } else { Err(self.0) }
    }
}

impl Extend<Mistake> for Mistakes {
    /// Adds the mistakes that are not in the list yet, up to the limit of one report.
    fn extend<T: IntoIterator<Item = Mistake>>(&mut self, found: T) {
        for mistake in found {
            let known = |other: &Mistake| other.span == mistake.span && other.message == mistake.message;
            if self.0.len() < MAX_MISTAKES && !self.0.iter().any(known) {
                self.0.push(mistake);
            }
        }
    }
}

/// The nearest known name, or a list of the known names.
pub fn hint<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let short = if wrong.len() <= LONG_NAME { wrong } else { "" };
    plumb_model::name::suggestion(short, known)
}

/// The text without control characters, shortened in its middle if it is long.
pub fn printable(text: &str) -> String {
    let clean = plumb_model::printable(text);
    let length = clean.chars().count();
    if length <= LONG_MESSAGE {
        return clean.into_owned();
    }
    let head: String = clean.chars().take(LONG_MESSAGE / 2).collect();
    let tail: String = clean.chars().skip(length - LONG_MESSAGE / 2).collect();
    format!("{head}…{tail}")
}
