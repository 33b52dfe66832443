//! How the interval of a claim narrows: after each block the bounds as they were then, over the ratios that the claim allows.

use maud::{Markup, html};
use plumb_model::{ClaimVerdict, Verdict};

use super::chart::{centred, level, percent, pixels};
use super::section::{allowed, class};
use crate::figures;
use crate::page::verdict_tone;
use crate::scale::Scale;
use crate::summary::{mark, verdict_words};
use crate::view::View;

const HEIGHT: f64 = 150.0;
/// Bounds that are further than this many times from the ratios are cut off.
const FAR: f64 = 3.0;

/// All verdicts after a number of complete blocks in a cell.
#[derive(Debug, Clone, PartialEq)]
pub struct PastLook {
    /// Index of the cell.
    pub cell: usize,
    /// Complete blocks.
    pub blocks: u32,
    /// The verdicts then.
    pub verdicts: Vec<ClaimVerdict>,
}

/// A figure for each claim and cell that was looked at.
pub fn narrowing(view: &View<'_>, looks: &[PastLook]) -> Markup {
    let claims = &view.judgement.claims;
    html! {
        @if claims.is_empty() { p.quiet { "The experiment makes no claim: it states effects only." } }
        div.narrowings { @for found in claims { (figure(view, found, &history(looks, found))) } }
    }
}

/// The claim's verdicts in their order, with the number of blocks that each rests on.
fn history<'a>(looks: &'a [PastLook], of: &ClaimVerdict) -> Vec<(u32, &'a ClaimVerdict)> {
    let own = looks.iter().filter(|look| look.cell == of.cell);
    let verdict = |look: &'a PastLook| {
        let found = look.verdicts.iter().find(|found| (found.claim, found.cell) == (of.claim, of.cell))?;
        Some((look.blocks, found))
    };
    own.filter_map(verdict).collect()
}

fn figure(view: &View<'_>, found: &ClaimVerdict, history: &[(u32, &ClaimVerdict)]) -> Markup {
    let (text, cell) = (view.claim_text(found), view.cell_label(found.cell));
    html! {
        figure.narrowing {
            figcaption {
                p.claim {
                    b class=(class(verdict_tone(found.verdict))) { span aria-hidden="true" { (mark(found.verdict)) " " } (verdict_words(found)) }
                    " " code { (text) }
                    @if !cell.is_empty() { span.quiet { " at " (cell) } }
                }
            }
            @if let Some(scale) = scale(view, found, history) {
                div.chart { (plot(view, found, history, &scale)) }
                (table(found, history))
            } @else {
                p.quiet { (waiting(view, history)) }
            }
        }
    }
}

fn waiting(view: &View<'_>, history: &[(u32, &ClaimVerdict)]) -> String {
    match history.last() {
        Some((_, last)) if last.verdict != Verdict::Undecided => last.reason.clone(),
        _ => format!("The first look is after block {}.", view.plan().blocks.before_verdict()),
    }
}

/// `None` while no look has a ratio.
fn scale(view: &View<'_>, found: &ClaimVerdict, history: &[(u32, &ClaimVerdict)]) -> Option<Scale> {
    let ratios: Vec<f64> =
        history.iter().filter_map(|(_, look)| look.ratio).filter(|ratio| *ratio > 0.0).collect();
    let low = ratios.iter().copied().reduce(f64::min)? / FAR;
    let high = ratios.iter().copied().reduce(f64::max)? * FAR;
    let claim = view.plan().claims.get(found.claim);
    let (least, most) = claim.and_then(|claim| allowed(claim.relation, &claim.right)).unwrap_or((None, None));
    let bounds = history.iter().flat_map(|(_, look)| [look.low, look.high]).flatten();
    let points = bounds.chain(least).chain(most).filter(|point| (low..=high).contains(point));
    Some(Scale::of_points(points.chain(ratios.iter().copied())))
}

fn plot(view: &View<'_>, found: &ClaimVerdict, history: &[(u32, &ClaimVerdict)], scale: &Scale) -> Markup {
    let last = view.plan().blocks.max.max(history.last().map_or(1, |(blocks, _)| *blocks));
    let x = |blocks: u32| (f64::from(blocks) - 0.5) / f64::from(last);
    let y = |ratio: f64| HEIGHT * (1.0 - scale.place(ratio));
    let claim = view.plan().claims.get(found.claim);
    let range = claim.and_then(|claim| allowed(claim.relation, &claim.right));
    let every = (last / 10 + 1) as usize;
    html! {
        svg height=(HEIGHT) role="img" aria-label={ "interval of the claim after each of " (history.len()) " looks" } {
            @if let Some((least, most)) = range {
                @let (top, bottom) = (most.map_or(0.0, y), least.map_or(HEIGHT, y));
                rect.side x="0" width="100%" y=(pixels(top)) height=(pixels((bottom - top).max(0.0))) { title { "what the claim allows" } }
            }
            @for tick in scale.ticks(5) { (level(y(tick), &figures::ratio_tick(tick))) }
            line.plumb x1="0" x2="100%" y1=(pixels(y(1.0))) y2=(pixels(y(1.0))) {}
            @for block in (1..=last).step_by(every) { (centred(x(block), HEIGHT + 18.0, &block.to_string())) }
            @for (blocks, look) in history { (interval(*blocks, look, &percent(x(*blocks)), scale)) }
        }
    }
}

fn interval(blocks: u32, look: &ClaimVerdict, x: &str, scale: &Scale) -> Markup {
    let Some(ratio) = look.ratio else { return html! {} };
    let y = |value: f64| pixels(HEIGHT * (1.0 - scale.place(value)));
    let (low, high) = (look.low.unwrap_or(0.0), look.high.unwrap_or(f64::INFINITY));
    html! {
        g class=(if look.verdict == Verdict::Undecided { "v0" } else { "v1" }) {
            line class={ "stroke" @if !(scale.holds(low) && scale.holds(high)) { " open" } } x1=(x) x2=(x) y1=(y(high)) y2=(y(low)) {}
            circle.mark cx=(x) cy=(y(ratio)) r="4" {
                title { "after " (figures::plural(blocks as usize, "block")) ": " (figures::effect(ratio, low, look.high)) ", " (look.verdict.word()) }
            }
        }
    }
}

fn table(found: &ClaimVerdict, history: &[(u32, &ClaimVerdict)]) -> Markup {
    let id = format!("narrowing-{}-{}", found.cell, found.claim);
    html! {
        details id=(id) {
            summary { "These intervals as a table" }
            div.scroll tabindex="0" role="group" aria-label="intervals after each block" { table {
                caption { "Ratio of the claim's left side to its right side" }
                thead { tr {
                    th.number scope="col" { "Blocks" } th scope="col" { "Ratio with its interval" } th scope="col" { "Verdict" }
                } }
                tbody { @for (blocks, look) in history {
                    tr {
                        th.number scope="row" { (blocks) }
                        td { @match look.ratio.zip(look.low) {
                            Some((ratio, low)) => (figures::effect(ratio, low, look.high)),
                            None => "–",
                        } }
                        td class=(class(verdict_tone(look.verdict))) { (mark(look.verdict)) " " (look.verdict.word()) }
                    }
                } }
            } }
        }
    }
}
