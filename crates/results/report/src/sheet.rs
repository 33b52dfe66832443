//! A page for a terminal: blocks of lines with an empty line between them, among them tables in columns.

use crate::layout::{Paint, clean, columns, left, wrap};

pub use crate::layout::Tone;

/// How a text may look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextStyle {
    /// Whether the terminal shows ANSI colours.
    pub colour: bool,
    /// Columns of the terminal. At least 60 are used; the report of a run uses at most 120.
    pub width: usize,
}

impl Default for TextStyle {
    fn default() -> Self {
        Self { colour: false, width: 100 }
    }
}

/// A page that is being written.
#[derive(Debug)]
pub struct Sheet {
    pub(crate) paint: Paint,
    pub(crate) width: usize,
    blocks: Vec<Vec<String>>,
}

impl Sheet {
    /// An empty page.
    #[must_use]
    pub fn new(style: &TextStyle) -> Self {
        Self { paint: Paint { colour: style.colour }, width: style.width.max(60), blocks: vec![Vec::new()] }
    }

    /// Begins a new block, unless the present one is empty.
    pub fn block(&mut self) {
        if self.blocks.last().is_some_and(|block| !block.is_empty()) {
            self.blocks.push(Vec::new());
        }
    }

    /// A line whose text is clean and whose colours are in it.
    pub(crate) fn push(&mut self, line: String) {
        if let Some(block) = self.blocks.last_mut() {
            block.push(line);
        }
    }

    /// The same in a tone.
    pub(crate) fn toned(&mut self, tone: Tone, line: &str) {
        self.push(self.paint.on(tone, line));
    }

    /// One line, as it is.
    pub fn line(&mut self, text: &str) {
        self.push(clean(text));
    }

    /// The heading of a new block.
    pub fn title(&mut self, text: &str) {
        self.block();
        self.text(Tone::Title, text);
    }

    /// A text over as many lines as it takes, each in the same tone.
    pub fn text(&mut self, tone: Tone, text: &str) {
        for line in wrap(text, self.width) {
            self.toned(tone, &line);
        }
    }

    /// A sign, a label that is padded to `label_width`, and a text; its further lines begin below its first.
    pub fn signed(&mut self, tone: Tone, sign: &str, (label, label_width): (&str, usize), text: &str) {
        let label = match label_width {
            0 => String::new(),
            _ => left(&clean(label), label_width) + "  ",
        };
        self.hanging(&format!("{sign} "), Some(tone), &label, text);
    }

    /// A text after a lead in a tone and a label; its further lines begin below its first.
    pub(crate) fn hanging(&mut self, lead: &str, tone: Option<Tone>, label: &str, text: &str) {
        let indent = lead.chars().count() + label.chars().count();
        let lead = tone.map_or(lead.to_owned(), |tone| self.paint.on(tone, lead)) + label;
        for (at, line) in wrap(text, self.width.saturating_sub(indent)).into_iter().enumerate() {
            self.push(if at == 0 { lead.clone() } else { " ".repeat(indent) } + &line);
        }
    }

    /// A table: the first and the last column to the left, the others, which are numbers, to the right.
    pub fn columns(&mut self, indent: usize, head: &[&str], rows: &[Vec<String>]) {
        columns(self.paint, indent, head, rows).into_iter().for_each(|line| self.push(line));
    }

    /// The page, with a line feed at its end.
    #[must_use]
    pub fn finish(self) -> String {
        let blocks = self.blocks.iter().filter(|block| !block.is_empty());
        blocks.map(|block| block.join("\n")).collect::<Vec<String>>().join("\n\n") + "\n"
    }
}
