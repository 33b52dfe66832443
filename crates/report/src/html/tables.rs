//! What is said in rows: claims, variants, medians, evidence, what was negotiated, errors.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};
use plumb_model::{ClaimVerdict, Merge, Operand, Relation, VariantState, Verdict};

use super::chart::{name, percent, prose};
use crate::figures;
use crate::observed::{self, Observed, checks, properties};
use crate::scale::Scale;
use crate::summary::{mark, verdict_words};
use crate::view::View;

/// The class that colours a verdict.
pub fn tone(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "good",
        Verdict::Refuted => "bad",
        Verdict::Undecided => "doubt",
        Verdict::Void | Verdict::Skipped => "quiet",
    }
}

/// Every claim in every cell with its verdict and the reason for it.
pub fn claims(view: &View<'_>) -> Markup {
    let several = view.plan().cells.len() > 1;
    if view.judgement.claims.is_empty() {
        return html! { p.quiet { "The experiment makes no claim: it states effects only." } };
    }
    html! {
        div.scroll tabindex="0" role="group" aria-label="claims" { table.cards.signed {
            thead { tr {
                th scope="col" { span.unseen { "Mark" } } th scope="col" { "Claim" }
                @if several { th scope="col" { "Cell" } }
                th scope="col" { "Verdict" } th scope="col" { "Ratio, and what it must reach" } th scope="col" { "Why" }
            } }
            tbody { @for found in &view.judgement.claims { (claim(view, found, several)) } }
        } }
    }
}

fn claim(view: &View<'_>, found: &ClaimVerdict, several: bool) -> Markup {
    let (text, _) = view.claim_words(found);
    html! {
        tr {
            td class={ "sign " (tone(found.verdict)) } aria-hidden="true" { (mark(found.verdict)) }
            td.text { code { (text) } }
            @if several { td { (view.short_label(found.cell)) } }
            td class=(if found.different_work { "doubt" } else { tone(found.verdict) }) { (verdict_words(found)) }
            td { (ratio(view, found)) }
            td.text { (prose(&found.reason)) }
        }
    }
}

/// The interval as a picture, over the ratios that the claim allows.
fn ratio(view: &View<'_>, found: &ClaimVerdict) -> Markup {
    let Some((ratio, low)) = found.ratio.zip(found.low) else { return html! { "–" } };
    let text = figures::effect(ratio, low, found.high);
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

/// Every variant with what it changes and whether its numbers may be used.
pub fn variants(view: &View<'_>) -> Markup {
    let unusable = view.unusable();
    html! {
        div.scroll tabindex="0" role="group" aria-label="variants" { table.cards {
            thead { tr { th scope="col" { "Variant" } th scope="col" { "What it changes" } th scope="col" { "State" } th.number scope="col" { "Slots" } th.number scope="col" { "Failed" } th.number scope="col" { "Load-bound" } } }
            tbody { @for variant in 0..view.variants().len() {
                @let planned = &view.variants()[variant];
                @let (slots, failed, load_bound) = counts(view, variant);
                tr {
                    th scope="row" { (name(view, variant)) }
                    td.text {
                        @if variant == view.plan().baseline { "the baseline" }
                        @else if planned.control { "nothing: a copy of the baseline that must not differ from it" }
                        @else { code { (planned.treatment) } }
                    }
                    td.text { (states(&unusable, variant)) }
                    td.number data-label="slots" { (slots) }
                    td class={ "number" @if failed > 0 { " bad" } } data-label="failed" { (failed) }
                    td class={ "number" @if load_bound > 0 { " doubt" } } data-label="load-bound" { (load_bound) }
                }
            } }
        } }
    }
}

fn states(unusable: &[(usize, &'static str, String, String)], variant: usize) -> Markup {
    let own: Vec<_> = unusable.iter().filter(|entry| entry.0 == variant).collect();
    html! {
        @if own.is_empty() { span.good { "measured" } }
        @for (_, word, reason, cells) in own {
            div { span class=(if *word == "void" { "bad" } else { "doubt" }) { (word) } ": " (prose(reason)) (cells) }
        }
    }
}

fn counts(view: &View<'_>, variant: usize) -> (u32, u32, u32) {
    let own = view.judgement.variants.iter().filter(|summary| summary.variant == variant);
    own.fold((0, 0, 0), |(slots, failed, bound), found| {
        (slots + found.slots, failed + found.failed, bound + found.load_bound)
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

/// What proves that each treatment was in effect.
pub fn evidence(view: &View<'_>) -> Markup {
    let found = view.evidence();
    if found.is_empty() {
        return html! { p.quiet { "No evidence was recorded." } };
    }
    html! {
        div.scroll tabindex="0" role="group" aria-label="evidence" { table.cards.signed {
            thead { tr { th scope="col" { span.unseen { "Mark" } } th scope="col" { "Variant" } th scope="col" { "What was looked at" } th scope="col" { "Expected" } th scope="col" { "Observed" } } }
            tbody { @for (variant, evidence, cells) in found {
                tr {
                    td class={ "sign " (if evidence.holds { "good" } else { "bad" }) } { (if evidence.holds { "✔" } else { "✘" }) }
                    td { (name(view, variant)) (cells) }
                    td.text { (evidence.what) } td.text data-label="expected" { (evidence.expected) }
                    td class={ "text" @if !evidence.holds { " bad" } } data-label="observed" { (evidence.observed) }
                }
            } }
        } }
    }
}

/// What was negotiated or seen, by property, and what checks found, a column per variant.
pub fn observed(view: &View<'_>) -> Markup {
    let all: Vec<(usize, Observed)> = (0..view.variants().len())
        .map(|variant| (variant, of_variant(view, variant)))
        .filter(|(_, found)| !found.is_empty())
        .collect();
    if all.is_empty() {
        return html! { p.quiet { "Nothing was recorded." } };
    }
    let names: BTreeSet<&str> =
        all.iter().flat_map(|(_, found)| properties(found)).map(|(name, _)| name).collect();
    let checked: BTreeSet<&str> =
        all.iter().flat_map(|(_, found)| checks(found)).map(|(text, ..)| text).collect();
    html! {
        div.scroll tabindex="0" role="group" aria-label="what was negotiated" { table {
            thead { tr { th scope="col" { "Property" } @for (variant, _) in &all { th scope="col" { (name(view, *variant)) } } } }
            tbody {
                @for property in names {
                    tr { th scope="row" { code { (property) } } @for (_, found) in &all { td.seen { (seen(found.get(property))) } } }
                }
                @for text in checked {
                    tr { th scope="row" { "check " code { (text) } } @for (_, found) in &all { td.seen { (check(found, text)) } } }
                }
            }
        } }
    }
}

fn of_variant(view: &View<'_>, variant: usize) -> Observed {
    let mut found = Observed::new();
    for cell in 0..view.plan().cells.len() {
        view.results(cell, variant).for_each(|result| found.add(&result.measurement.observed));
    }
    found
}

fn seen(values: Option<&BTreeMap<String, u64>>) -> Markup {
    let Some(values) = values else { return html! { span.quiet { "–" } } };
    html! { @for (value, often) in observed::values(values) { div { (value) " " span.quiet { (often) } } } }
}

fn check(found: &Observed, text: &str) -> Markup {
    let Some((_, passed, failed)) = checks(found).into_iter().find(|(known, ..)| *known == text) else {
        return html! { span.quiet { "–" } };
    };
    let share = figures::share(passed as f64 / (passed + failed).max(1) as f64);
    html! { span class=(if failed == 0 { "good" } else { "bad" }) { (share) } " " span.quiet { (figures::count(failed as f64)) " failed" } }
}

/// Failures by kind.
pub fn errors(view: &View<'_>) -> Markup {
    let found = view.errors();
    if found.is_empty() {
        return html! { p.quiet { "No request failed." } };
    }
    html! {
        div.scroll tabindex="0" role="group" aria-label="errors" { table {
            thead { tr { th scope="col" { "Variant" } th scope="col" { "Kind" } th.number scope="col" { "How many" } } }
            tbody { @for (variant, kind, count) in found {
                tr { th scope="row" { (name(view, variant)) } td.text { (kind) } td.number { (figures::count(count as f64)) } }
            } }
        } }
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
