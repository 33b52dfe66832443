//! Pieces of the report for pages of another layout: a page that serves runs has its own head, and links the stylesheet.
//!
//! Each is HTML whose foreign texts are escaped, without a style or a script in it.

use maud::html;
use plumb_model::{Contrast, Judgement, Run, Trust};

pub use super::narrowing::PastLook;
use super::{contrast, narrowing, slots, timeline};
use crate::summary::{Headline, trust_words};
use crate::view::View;

/// The stylesheet that all of them need.
#[must_use]
pub fn html_style() -> &'static str {
    super::STYLE
}

/// The whole report as the inside of a page, from its heading of the first level on.
#[must_use]
pub fn html_report(run: &Run, judgement: &Judgement) -> String {
    let view = &View::new(run, judgement);
    let content =
        html! { (super::top(view)) (super::navigation(view)) div.report-body { (super::body(view)) } };
    printable(content)
}

/// The change so far, in one sentence without a full stop. Of a run that cannot be trusted it says only why not.
#[must_use]
pub fn headline(run: &Run, judgement: &Judgement) -> String {
    let view = View::new(run, judgement);
    let headline = Headline::from_view(&view);
    match headline.trust {
        Trust::Sound | Trust::Caution => headline.sentence(&view),
        Trust::Unsound | Trust::Empty => {
            format!("{}: {}", trust_words(headline.trust), headline.trust_reasons)
        }
    }
}

/// How the interval of each claim narrowed from look to look, a figure with its table for each.
#[must_use]
pub fn html_narrowing(run: &Run, judgement: &Judgement, looks: &[PastLook]) -> String {
    printable(narrowing::narrowing(&View::new(run, judgement), looks))
}

/// The slots of one cell over time, with what else the host did, and a table of the same.
#[must_use]
pub fn html_slots(run: &Run, judgement: &Judgement, cell: usize) -> String {
    let view = &View::new(run, judgement);
    let content = html! { (timeline::timeline(view, cell)) (slots::slots(view, cell)) };
    printable(content)
}

/// Two runs side by side.
#[must_use]
pub fn html_contrast(runs: [&Run; 2], found: &Contrast) -> String {
    printable(contrast::contrast(runs, found))
}

fn printable(content: maud::Markup) -> String {
    plumb_model::printable_lines(&content.into_string()).into_owned()
}
