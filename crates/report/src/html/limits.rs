//! What limiters did: a table, and a sentence for each.

use maud::{Markup, html};
use plumb_model::Unit;
use plumb_model::finding::Limit;

use crate::figures;
use crate::limits;
use crate::view::View;

/// The section, or nothing where no limiter was met.
pub fn limits(view: &View<'_>) -> Markup {
    let found = &view.judgement.findings.limits;
    if found.is_empty() {
        return html! {};
    }
    html! {
        section id="limits" {
            h2 { (limits::HEADING) }
            div.scroll tabindex="0" role="group" aria-label="limits" {
                table.cards {
                    thead { tr {
                        th scope="col" { "variant" } th scope="col" { "policy" } th scope="col" { "let through" } th scope="col" { "saved up" } th scope="col" { "charged as" }
                        th scope="col" { "mean latency" } th scope="col" { "by the limit" } th scope="col" { "the rest" }
                    } }
                    tbody { @for limit in found { (row(view, limit)) } }
                }
            }
            ul { @for limit in found { li { (limits::sentence(view, limit)) } } }
        }
    }
}

fn row(view: &View<'_>, limit: &Limit) -> Markup {
    let label = limits::label(view, limit);
    let time = |time_us: f64| figures::value(time_us, Unit::Microseconds);
    html! {
        tr {
            td { (view.name(limit.variant)) @if !label.is_empty() { ", " (label) } }
            td { (figures::value(limit.policy, Unit::PerSecond)) }
            td { (figures::value(limit.rate, Unit::PerSecond)) }
            td { (figures::count(limit.burst.round())) }
            td { (figures::count(limit.charged_as)) }
            @match limit.latency_us {
                Some((latency_us, by_limit_us)) => {
                    td { (time(latency_us)) } td { (time(by_limit_us)) } td { (time(latency_us - by_limit_us)) }
                }
                None => { td { "–" } td { "–" } td { "–" } }
            }
        }
    }
}
