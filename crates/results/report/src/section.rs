//! The parts of a section of the report: sentences, tables and figures, in whatever form they are shown.

use plumb_model::ClaimVerdict;
use plumb_model::finding::{BreakEven, Choice};

use crate::capacity::Curve;
use crate::figures;
use crate::layout::{Tone, bar};
use crate::view::View;

/// A heading and what stands under it.
#[derive(Debug)]
pub struct Section<'a> {
    /// The place that a link leads to.
    pub id: &'static str,
    pub title: String,
    /// A sentence on the section's content; empty where the title tells it.
    pub about: &'static str,
    pub parts: Vec<Part<'a>>,
}

#[derive(Debug)]
pub enum Part<'a> {
    Lines(Vec<Line>),
    /// A table, and the lines that a terminal shows instead.
    Table(Table<'a>, Vec<Line>),
    /// A picture, which only a page has.
    Figure(Figure<'a>),
}

impl Part<'_> {
    /// The lines that a terminal shows.
    pub fn lines(&self) -> &[Line] {
        match self {
            Self::Lines(lines) | Self::Table(_, lines) => lines,
            Self::Figure(_) => &[],
        }
    }
}

#[derive(Debug)]
pub enum Figure<'a> {
    BreakEven(&'a BreakEven),
    Choice(&'a Choice),
    Capacity(Vec<Curve<'a>>),
}

/// A sentence, after a sign if it has one.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub sign: &'static str,
    pub tone: Option<Tone>,
    pub text: String,
    /// The reason, which a terminal shows below the text.
    pub below: String,
}

impl Line {
    pub fn signed(sign: &'static str, tone: Tone, text: String) -> Self {
        Self { sign, tone: Some(tone), text, below: String::new() }
    }

    pub fn doubt(text: String) -> Self {
        Self::signed("!", Tone::Doubt, text)
    }

    pub fn quiet(text: &str) -> Self {
        Self::signed("", Tone::Quiet, text.to_owned())
    }

    pub fn plain(text: String) -> Self {
        Self { sign: "", tone: None, text, below: String::new() }
    }
}

#[derive(Debug)]
pub struct Table<'a> {
    /// The name that a screen reader says.
    pub label: &'static str,
    pub caption: String,
    pub look: Look,
    pub heads: Vec<TableCell<'a>>,
    pub rows: Vec<Vec<TableCell<'a>>>,
}

/// How a table looks on a narrow screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// As everywhere; it may be wider than the screen.
    Columns,
    /// Each row as a card.
    Cards,
    /// The same, beside the sign in its first column.
    SignedCards,
}

impl<'a> Table<'a> {
    pub fn new(
        label: &'static str,
        look: Look,
        heads: Vec<TableCell<'a>>,
        rows: Vec<Vec<TableCell<'a>>>,
    ) -> Self {
        Self { label, caption: String::new(), look, heads, rows }
    }
}

#[derive(Debug)]
pub struct TableCell<'a> {
    pub kind: CellKind<'a>,
    pub tone: Option<Tone>,
}

#[derive(Debug)]
pub enum CellKind<'a> {
    Text(String),
    Code(String),
    Number(String),
    Sign(&'static str),
    /// A share from 0 to 1 with a bar.
    Share(f64),
    /// A variant, and in which cells.
    Variant(usize, String),
    /// The effect that a claim is about.
    Effect(&'a ClaimVerdict),
}

impl<'a> TableCell<'a> {
    pub fn new(kind: CellKind<'a>) -> Self {
        Self { kind, tone: None }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Self::new(CellKind::Text(text.into()))
    }

    pub fn code(text: impl Into<String>) -> Self {
        Self::new(CellKind::Code(text.into()))
    }

    pub fn number(text: impl Into<String>) -> Self {
        Self::new(CellKind::Number(text.into()))
    }

    pub fn variant(variant: usize) -> Self {
        Self::new(CellKind::Variant(variant, String::new()))
    }

    pub fn toned(self, tone: Tone) -> Self {
        Self { tone: Some(tone), ..self }
    }

    pub fn toned_if(self, is_so: bool, tone: Tone) -> Self {
        if is_so { self.toned(tone) } else { self }
    }

    /// The cell as text alone, for forms without marks and pictures.
    pub fn plain_text(&self, view: &View<'_>) -> String {
        match &self.kind {
            CellKind::Text(text) | CellKind::Code(text) | CellKind::Number(text) => text.clone(),
            CellKind::Sign(sign) => (*sign).to_owned(),
            CellKind::Share(share) => format!("{} {}", bar(*share), figures::share(*share)),
            CellKind::Variant(variant, cells) => format!("{}{cells}", view.name(*variant)),
            CellKind::Effect(found) => effect_words(found).unwrap_or_default(),
        }
    }
}

/// The effect that a claim is about, with its interval.
pub fn effect_words(found: &ClaimVerdict) -> Option<String> {
    found.ratio.zip(found.low).map(|(ratio, low)| figures::effect(ratio, low, found.high))
}

pub fn heads<'a>(words: &[&str]) -> Vec<TableCell<'a>> {
    words.iter().map(|word| TableCell::text(*word)).collect()
}

pub fn section<'a>(id: &'static str, title: impl Into<String>, parts: Vec<Part<'a>>) -> Section<'a> {
    Section { id, title: title.into(), about: "", parts }
}
