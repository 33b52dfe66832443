//! A section of the report on a page: its sentences, tables and figures.

use maud::{Markup, html};
use plumb_model::{ClaimVerdict, Operand, Relation, VariantState};

use super::chart::{name, percent, prose};
use super::{break_even, capacity, front};
use crate::figures;
use crate::layout::Tone;
use crate::page::{CellKind, Figure, Line, Look, Part, Section, Table, TableCell, effect_words};
use crate::scale::Scale;
use crate::view::View;

/// The class that colours a tone.
pub fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Doubt => "doubt",
        Tone::Quiet | Tone::Title => "quiet",
    }
}

/// The section under its heading.
pub fn section(view: &View<'_>, section: &Section<'_>) -> Markup {
    html! {
        section id=(section.id) {
            h2 { (section.title) }
            @if !section.about.is_empty() { p.note { (section.about) } }
            @for part in &section.parts { @match part {
                Part::Lines(lines) => (self::lines(lines)),
                Part::Table(table, _) => (self::table(view, table)),
                Part::Figure(Figure::BreakEven(found)) => (break_even::figures(view, found)),
                Part::Figure(Figure::Capacity(curves)) => (capacity::figures(view, curves)),
                Part::Figure(Figure::Choice(choice)) => (front::figure(view, choice)),
            } }
        }
    }
}

fn lines(lines: &[Line]) -> Markup {
    match lines {
        [] => html! {},
        [Line { sign: "", tone: Some(tone), text, .. }] => html! { p class=(class(*tone)) { (prose(text)) } },
        lines => html! { ul.warnings { @for line in lines { li {
            @if !line.sign.is_empty() { b class=[line.tone.map(class)] { (line.sign) " " } }
            (prose(&line.text))
        } } } },
    }
}

fn table(view: &View<'_>, table: &Table<'_>) -> Markup {
    let look = match table.look {
        Look::Columns => "",
        Look::Cards => "cards",
        Look::SignedCards => "cards signed",
    };
    let drawn = html! {
        div.scroll tabindex="0" role="group" aria-label=(table.label) { table class=(look) {
            thead { tr { @for (at, head) in table.heads.iter().enumerate() {
                th class=[is_of_numbers(table, at).then_some("number")] scope="col" { (self::head(view, head)) }
            } } }
            tbody { @for row in &table.rows { tr {
                @for (at, (cell, head)) in row.iter().zip(&table.heads).enumerate() { (self::cell(view, table, at, cell, head)) }
            } } }
        } }
    };
    if table.caption.is_empty() {
        return drawn;
    }
    html! { figure { figcaption { (prose(&table.caption)) } (drawn) } }
}

fn is_of_numbers(table: &Table<'_>, at: usize) -> bool {
    table.rows.iter().any(|row| row.get(at).is_some_and(is_number))
}

/// A text shorter than this does not set the width of its column.
const SHORT: usize = 16;

fn is_number(cell: &TableCell<'_>) -> bool {
    matches!(cell.kind, CellKind::Number(_))
}

fn head(view: &View<'_>, head: &TableCell<'_>) -> Markup {
    match &head.kind {
        CellKind::Variant(variant, _) => name(view, *variant),
        CellKind::Text(text) if text.is_empty() => html! { span.unseen { "Mark" } },
        _ => html! { (head.plain_text(view)) },
    }
}

/// A cell says on a narrow screen what it is, unless a reader sees it.
fn cell(view: &View<'_>, table: &Table<'_>, at: usize, cell: &TableCell<'_>, head: &TableCell<'_>) -> Markup {
    let tone = cell.tone.map(class).unwrap_or_default();
    let label = head.plain_text(view).to_lowercase();
    let label = (table.look != Look::Columns
        && (is_number(cell) || ["expected", "observed"].contains(&label.as_str())))
    .then_some(label);
    let content = match &cell.kind {
        CellKind::Sign(sign) => return html! { td class={ "sign " (tone) } { (sign) } },
        CellKind::Variant(variant, cells) => html! { (name(view, *variant)) (cells) },
        CellKind::Code(text) => html! { code { (text) } },
        CellKind::Text(text) | CellKind::Number(text) => prose(text),
        CellKind::Share(share) => self::share(*share),
        CellKind::Effect(found) => ratio(view, found),
    };
    if at == 0 || matches!(cell.kind, CellKind::Variant(..)) {
        return html! { th scope="row" { (content) } };
    }
    let kind = match &cell.kind {
        CellKind::Number(_) => "number ",
        _ if table.look == Look::Columns => "seen ",
        CellKind::Text(text) if text.chars().count() < SHORT => "",
        CellKind::Text(_) | CellKind::Code(_) => "text ",
        _ => "",
    };
    html! { td class=[Some(format!("{kind}{tone}")).filter(|class| !class.is_empty())] data-label=[label] { (content) } }
}

/// A share with its bar.
fn share(share: f64) -> Markup {
    html! {
        (figures::share(share))
        svg.range width="150" height="12" aria-hidden="true" {
            rect.band width="100%" height="12" {}
            rect.bob width=(percent(share.max(0.0))) height="12" {}
        }
    }
}

/// The interval as a picture, over the ratios that the claim allows.
fn ratio(view: &View<'_>, found: &ClaimVerdict) -> Markup {
    let effect = found.ratio.zip(found.low).zip(effect_words(found));
    let Some(((ratio, low), text)) = effect else { return html! { "–" } };
    let allowed = view.plan().claims.get(found.claim).and_then(|claim| allowed(claim.relation, &claim.right));
    let Some((least, most)) = allowed else { return html! { (text) } };
    let points =
        [Some(ratio), Some(low).filter(|low| *low > 0.0), found.high, least, most].into_iter().flatten();
    let scale = Scale::of_points(points.filter(|point| (ratio / 8.0..=ratio * 8.0).contains(point)));
    let place = |bound: Option<f64>, open: f64| bound.map_or(open, |bound| scale.place(bound));
    let (from, to) = (place(least, 0.0), place(most, 1.0));
    let high = place(found.high, 1.0);
    html! {
        span.effect { (text) }
        svg.range width="150" height="16" aria-hidden="true" {
            rect.side x=(percent(from)) width=(percent((to - from).max(0.0))) y="0" height="16" {}
            @for bound in [least, most].into_iter().flatten() {
                @let x = percent(scale.place(bound));
                line.frame x1=(x) x2=(x) y1="0" y2="16" {}
            }
            line.plumb x1=(percent(scale.place(1.0))) x2=(percent(scale.place(1.0))) y1="0" y2="16" {}
            g class={ "v0" } {
                line.stroke x1=(percent(scale.place(low))) x2=(percent(high)) y1="8" y2="8" {}
                circle.mark cx=(percent(scale.place(ratio))) cy="8" r="4" {}
            }
        }
    }
}

/// The least and the greatest ratio that a claim allows; `None` where it is not about a ratio.
pub fn allowed(relation: Relation, right: &Operand) -> Option<(Option<f64>, Option<f64>)> {
    let factor = match right {
        Operand::Term { factor, .. } => *factor,
        Operand::Value(_) => 1.0,
        Operand::Cap { .. } => return None,
    };
    Some(match relation {
        Relation::AtLeast | Relation::Above => (Some(factor), None),
        Relation::AtMost | Relation::Below => (None, Some(factor)),
        Relation::EqualWithin(share) => (Some(factor / (1.0 + share)), Some(factor * (1.0 + share))),
        Relation::KnownWithin(_) | Relation::KnownWithinOrApart(_) => return None,
    })
}

/// The medians of one cell, a column per variant.
pub fn medians(view: &View<'_>, cell: usize) -> Markup {
    let shown: Vec<usize> =
        (0..view.variants().len()).filter(|variant| view.results(cell, *variant).next().is_some()).collect();
    if shown.is_empty() {
        return html! {};
    }
    let class = |variant: usize| {
        let is_void = matches!(view.state(cell, variant), VariantState::Void { .. });
        if is_void || view.failed_share(cell, variant).is_some() { "number void-column" } else { "number" }
    };
    html! {
        figure {
            figcaption { h3 { "Medians over slots" } "Shares are those of all slots together. Variants that are void, or that failed too often, are in italics." }
            div.scroll tabindex="0" role="group" aria-label="medians" { table {
                thead { tr { th scope="col" { "Metric" } @for variant in &shown { th class=(class(*variant)) scope="col" { (name(view, *variant)) } } } }
                tbody { @for row in view.rows() {
                    tr {
                        th scope="row" title=(row.metric.about) { code { (row.label()) } }
                        @for variant in &shown {
                            td class=(class(*variant)) { (view.typical(cell, *variant, *row).map_or("–".to_owned(), |value| row.show(value))) }
                        }
                    }
                } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_allows_what_it_says() {
        let right = Operand::Value(200.0);
        assert_eq!(allowed(Relation::Below, &right), Some((None, Some(1.0))));
        let (least, most) = allowed(Relation::EqualWithin(0.25), &right).unwrap();
        assert_eq!((least, most), (Some(0.8), Some(1.25)));
        assert_eq!(allowed(Relation::AtMost, &Operand::Cap { value: 500.0, tolerance: 0.01 }), None);
    }
}
