//! Errors of an experiment file: one report with every place, the text there, and what would be right.
//!
//! Mistakes that can be found together are shown together, since a user who mistypes one key often mistypes
//! two. The text of the file is untrusted: its control characters never reach the terminal, and a line of a
//! megabyte is shown only around the mistake.

use std::fmt;

use miette::{
    Diagnostic, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};

use plumb_path::tree::{Location, Mistake, printable};

/// The length above which a line is shown only in part, in bytes.
const LONG_LINE: usize = 300;

/// How much of a long line is shown before and after the start of the mistake, in bytes.
const EXCERPT: usize = 60;

/// The mistakes in an experiment file.
///
/// As a [`Diagnostic`] it shows the lines. [`FileError::plain`] gives one line per mistake.
#[derive(Debug)]
pub struct FileError {
    name: String,
    source: Source,
    mistakes: Vec<Mistake>,
}

impl FileError {
    /// `mistakes` must not be empty; `text` is the file's text, or empty if the file has none.
    pub(super) fn new(name: &str, text: &str, mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| mistake.span.offset);
        let name = printable(name);
        Self { source: Source::new(&name, text), name, mistakes }
    }

    /// Every mistake, in the order of the file.
    #[must_use]
    pub fn mistakes(&self) -> &[Mistake] {
        &self.mistakes
    }

    /// One line for each mistake: `file:line:column: message`.
    #[must_use]
    pub fn plain(&self) -> String {
        let line = |mistake: &Mistake| {
            let Mistake { message, span, help, also } = mistake;
            let also =
                also.as_deref().map(|(at, message)| format!("; {message} ({}:{})", at.line, at.column));
            let help = help.as_ref().map(|help| format!("; {help}"));
            let more = [also, help].map(Option::unwrap_or_default).concat();
            format!("{}:{}:{}: {message}{more}", self.name, span.line, span.column)
        };
        self.mistakes.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mistakes.as_slice() {
            // Without a text there is no snippet, and so no header with the place.
            [one] if self.source.text.is_empty() => {
                write!(formatter, "{}:{}:{}: {}", self.name, one.span.line, one.span.column, one.message)
            }
            [one] => formatter.write_str(&one.message),
            all => write!(formatter, "{} mistakes in {}", all.len(), self.name),
        }
    }
}

impl std::error::Error for FileError {}

impl Diagnostic for FileError {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        match self.mistakes.as_slice() {
            [one] => one.help.as_ref().map(|help| Box::new(help) as Box<dyn fmt::Display>),
            // Of several mistakes, each label has its own help.
            _ => None,
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.source.text.is_empty()).then_some(&self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let several = self.mistakes.len() > 1;
        Some(Box::new(self.mistakes.iter().flat_map(move |mistake| {
            let help = mistake.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
            let text = several.then(|| format!("{}{help}", mistake.message));
            let main = LabeledSpan::new_primary_with_span(text, place(mistake.span));
            let also = mistake.also.as_deref().into_iter();
            let also = also.map(|(span, text)| LabeledSpan::new_with_span(Some(text.clone()), place(*span)));
            std::iter::once(main).chain(also)
        })))
    }
}

fn place(span: Location) -> SourceSpan {
    (span.offset, span.length).into()
}

/// The file's text, safe to show and of the same length in bytes as the original.
#[derive(Debug)]
struct Source {
    name: String,
    text: String,
}

impl Source {
    fn new(name: &str, text: &str) -> Self {
        let shown = |character: char| match (plumb_model::is_unprintable(character), character.len_utf8()) {
            (false, _) if character == '\r' => ' ',
            (false, _) => character,
            (true, 1) => '?',
            (true, 2) => '¿',
            (true, _) => '\u{fffd}',
        };
        Self { name: name.to_owned(), text: text.chars().map(shown).collect() }
    }

    /// The nearest character boundary at or before `offset`.
    fn boundary(&self, offset: usize) -> usize {
        self.text.floor_char_boundary(offset)
    }

    fn line_start(&self, offset: usize, before: usize) -> usize {
        let mut breaks = self.text[..offset].rmatch_indices('\n').map(|(at, _)| at + 1);
        breaks.nth(before).unwrap_or(0)
    }

    fn line_end(&self, offset: usize, after: usize) -> usize {
        let mut breaks = self.text[offset..].match_indices('\n').map(|(at, _)| offset + at + 1);
        breaks.nth(after).unwrap_or(self.text.len())
    }

    /// The range to show for `from..to`: whole lines with their neighbours, or a part of a line that is too
    /// long.
    fn range(&self, from: usize, to: usize, before: usize, after: usize) -> (usize, usize) {
        let (start, end) = (self.line_start(from, before), self.line_end(to, after));
        if self.text[start..end].lines().all(|line| line.len() <= LONG_LINE) {
            return (start, end);
        }
        let line = (self.line_start(from, 0), self.line_end(from, 0));
        (line.0.max(self.boundary(from.saturating_sub(EXCERPT))), line.1.min(self.boundary(from + EXCERPT)))
    }
}

impl SourceCode for Source {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let from = self.boundary(span.offset());
        let to = self.boundary(span.offset() + span.len());
        let whole_lines = before + after > 0;
        let (start, end) = if whole_lines { self.range(from, to, before, after) } else { (from, to) };
        let line = self.text[..start].matches('\n').count();
        // A call without neighbours asks for the place of the span. Columns count characters here, not bytes.
        let column = self.text[self.line_start(start, 0)..start].chars().count();
        let column = if whole_lines { 0 } else { column };
        let shown = &self.text[start..end];
        Ok(Box::new(MietteSpanContents::new_named(
            self.name.clone(),
            shown.as_bytes(),
            (start, shown.len()).into(),
            line,
            column,
            shown.lines().count(),
        )))
    }
}
