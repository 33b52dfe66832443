//! Secrets in what a person wrote: `${env:NAME}` and `${file:PATH}` stand for values that only the moment of use needs.
//!
//! A command gets them in its environment, because everybody may read its arguments. Whatever it prints is searched for
//! the values, and shows the references in their place.

use std::ops::Range;
use std::path::Path;
use std::sync::Mutex;

use crate::{Error, named_file};

/// A secret longer than this is none, in bytes.
const LONG_SECRET: u64 = 64 << 10;

/// Where a secret comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source<'t> {
    /// A variable of the environment.
    Environment(&'t str),
    /// A file.
    File(&'t str),
}

/// A reference in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reference<'t> {
    /// Where it stands.
    place: Range<usize>,
    source: Source<'t>,
}

/// The references of a text, in their order. What only looks like one is text.
fn references(text: &str) -> Vec<Reference<'_>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(begin) = text[at..].find("${").map(|offset| at + offset) {
        at = begin + 2;
        let Some(length) = text[at..].find('}') else { break };
        let source = match text[at..at + length].split_once(':') {
            Some(("env", name)) if !name.is_empty() => Source::Environment(name),
            Some(("file", path)) if path.starts_with('/') => Source::File(path),
            _ => continue,
        };
        at += length + 1;
        found.push(Reference { place: begin..at, source });
    }
    found
}

/// Whether a text refers to secrets.
#[must_use]
pub fn has_secrets(text: &str) -> bool {
    !references(text).is_empty()
}

/// The first thing in a text that was meant to be a reference, and is none.
#[must_use]
pub fn malformed(text: &str) -> Option<&str> {
    let found = references(text);
    let begins = ["${env:", "${file:"].into_iter().flat_map(|begin| text.match_indices(begin));
    let mut wrong = begins.filter(|(at, _)| found.iter().all(|it| it.place.start != *at));
    let (at, _) = wrong.next()?;
    let length = text[at..].find(['}', '\n']).map_or(text.len() - at, |length| length + 1);
    Some(text[at..at + length].trim_end())
}

/// The first reference of a command line in which the shell would not fill it in, because it stands in single quotes.
#[must_use]
pub fn in_single_quotes(text: &str) -> Option<&str> {
    let is_quoted = |place: &Range<usize>| {
        let (mut single, mut double, mut escaped) = (false, false, false);
        for character in text[..place.start].chars() {
            match character {
                _ if escaped => escaped = false,
                '\\' if !single => escaped = true,
                '\'' if !double => single = !single,
                '"' if !single => double = !double,
                _ => {}
            }
        }
        single
    };
    references(text).into_iter().find(|it| is_quoted(&it.place)).map(|it| &text[it.place])
}

impl std::fmt::Display for Source<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(name) => write!(formatter, "${{env:{name}}}"),
            Self::File(path) => write!(formatter, "${{file:{path}}}"),
        }
    }
}

impl Source<'_> {
    fn value(&self) -> Result<String, Error> {
        let failed = |cause: std::io::Error, path: &str| Error::Read { path: path.into(), cause };
        let value = match self {
            Self::Environment(name) => std::env::var_os(name)
                .ok_or("this environment variable is not set")
                // The standard library's own message would show the value.
                .and_then(|value| value.into_string().map_err(|_| "its value is not UTF-8"))
                .map_err(|reason| failed(std::io::Error::other(reason), &self.to_string()))?,
            Self::File(path) => {
                let text = named_file::text_at_most(Path::new(path), LONG_SECRET)?;
                text.strip_suffix('\n').unwrap_or(&text).to_owned()
            }
        };
        if value.is_empty() {
            return Err(failed(std::io::Error::other("the secret is empty"), &self.to_string()));
        }
        Ok(value)
    }
}

/// Values that must not be shown, each with the reference that is shown in its place.
#[derive(Default)]
pub struct Secrets(Mutex<Vec<(String, String)>>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("secrets")
    }
}

impl Secrets {
    /// The text with its secrets filled in. They are not shown from now on.
    ///
    /// # Errors
    /// When a variable is not set, or a file cannot be read.
    pub fn filled_in(&self, text: &str) -> Result<String, Error> {
        let mut filled = String::new();
        let mut rest = 0;
        for reference in references(text) {
            filled += &text[rest..reference.place.start];
            filled += &self.learned(&text[reference.place.clone()], &reference.source)?;
            rest = reference.place.end;
        }
        Ok(filled + &text[rest..])
    }

    /// A command line with variables in place of its secrets, and these variables.
    ///
    /// # Errors
    /// As [`Secrets::filled_in`].
    pub fn as_variables(&self, text: &str) -> Result<(String, Vec<(String, String)>), Error> {
        let (mut line, mut variables) = (String::new(), Vec::new());
        let mut rest = 0;
        for (number, reference) in (1..).zip(references(text)) {
            let name = format!("PLUMB_SECRET_{number}");
            line += &text[rest..reference.place.start];
            line += &format!("${{{name}}}");
            variables.push((name, self.learned(&text[reference.place.clone()], &reference.source)?));
            rest = reference.place.end;
        }
        Ok((line + &text[rest..], variables))
    }

    fn learned(&self, reference: &str, source: &Source<'_>) -> Result<String, Error> {
        let value = source.value()?;
        let mut known = self.known();
        if known.iter().all(|(it, _)| *it != value) {
            known.push((value.clone(), reference.to_owned()));
            // A secret that contains another one must go first.
            known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        }
        Ok(value)
    }

    /// The text without the secrets that were filled in anywhere so far.
    #[must_use]
    pub fn hidden(&self, text: &str) -> String {
        self.known().iter().fold(text.to_owned(), |text, (value, reference)| {
            // Values are read as words with single blanks between them, so a secret of several lines may come back so.
            let text = text.replace(value, reference);
            let words = super::normal_words(value);
            if words.is_empty() { text } else { text.replace(&words, reference) }
        })
    }

    /// Whether the text has a secret that was filled in so far.
    #[must_use]
    pub fn are_in(&self, text: &str) -> bool {
        self.known().iter().any(|(value, _)| text.contains(value))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn references_are_found_and_everything_else_is_text() {
        let found = |text| references(text).into_iter().map(|it| it.source).collect::<Vec<_>>();
        assert_eq!(
            found("a ${env:TOKEN} b ${file:/run/key}"),
            [Source::Environment("TOKEN"), Source::File("/run/key")]
        );
        for text in ["${HOME}", "$env:X", "${env:}", "${file:key}", "${env:X", "${other:x}"] {
            assert_eq!(found(text), [], "{text}");
        }
        assert_eq!(found("${ ${env:X}"), [Source::Environment("X")]);
        assert_eq!(malformed("${env:X} ${file:relative} x"), Some("${file:relative}"));
        assert_eq!(malformed("a ${env:X"), Some("${env:X"));
        assert_eq!(malformed("${env:X} ${HOME}"), None);
    }

    #[test]
    fn single_quotes_hide_a_reference_from_the_shell() {
        assert_eq!(in_single_quotes("set '${env:X}'"), Some("${env:X}"));
        assert_eq!(in_single_quotes("set \"it's ${env:X}\" 'x'"), None);
        assert_eq!(in_single_quotes(r"set \' ${env:X}"), None);
    }

    #[test]
    fn a_secret_is_filled_in_and_never_shown() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        fs::write(&path, "s3cret value\n").unwrap();
        let secrets = Secrets::default();
        let text = format!("password=${{file:{}}}", path.display());
        assert_eq!(secrets.filled_in(&text).unwrap(), "password=s3cret value");
        assert_eq!(secrets.hidden("it is s3cret value!"), format!("it is ${{file:{}}}!", path.display()));
        let (line, variables) = secrets.as_variables(&text).unwrap();
        assert_eq!(line, "password=${PLUMB_SECRET_1}");
        assert_eq!(variables, [("PLUMB_SECRET_1".to_owned(), "s3cret value".to_owned())]);
        assert!(!format!("{secrets:?}").contains("s3cret"));
        let message = secrets.filled_in("${file:/dev/null}").unwrap_err().to_string();
        assert_eq!(message, "read /dev/null: it is a character device, not a file");
        fs::write(&path, "\n").unwrap();
        let message = secrets.filled_in(&text).unwrap_err().to_string();
        assert!(message.ends_with("key}: the secret is empty"), "{message}");
        let message = secrets.filled_in("${env:PLUMB_NO_SUCH_VARIABLE}").unwrap_err().to_string();
        assert_eq!(message, "read ${env:PLUMB_NO_SUCH_VARIABLE}: this environment variable is not set");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in ".*(\\$\\{(env|file):?.*\\}?)*.*") {
            references(&text);
            let _ = malformed(&text);
            let _ = in_single_quotes(&text);
        }
    }
}
