//! How far the load agents differed: a table for each cell, an agent a row and a variant a column, and a sentence for each outlier.

use maud::{Markup, html};
use plumb_model::finding::{AgentPart, Spread};

use super::chart::name;
use crate::spread;
use crate::view::View;

/// The section, or nothing where there was one load agent.
pub fn agents(view: &View<'_>) -> Markup {
    let found = &view.judgement.findings.spreads;
    if found.is_empty() {
        return html! {};
    }
    let cells = (0..view.plan().cells.len())
        .map(|cell| (cell, found.iter().filter(|spread| spread.cell == cell).collect::<Vec<&Spread>>()));
    let outliers: Vec<String> = found.iter().flat_map(|spread| spread::outliers(view, spread)).collect();
    html! {
        section id="agents" {
            h2 { (spread::HEADING) }
            p.note { (spread::ABOUT) }
            @for (cell, spreads) in cells { @if !spreads.is_empty() { (table(view, cell, &spreads)) } }
            @if !outliers.is_empty() { ul { @for outlier in outliers { li { b.doubt { "! " } (outlier) "." } } } }
        }
    }
}

fn table(view: &View<'_>, cell: usize, spreads: &[&Spread]) -> Markup {
    let label = view.plan().cells[cell].label();
    let names: Vec<&str> = spreads
        .iter()
        .max_by_key(|spread| spread.agents.len())
        .map(|spread| spread.agents.iter().map(|agent| agent.agent.as_str()).collect())
        .unwrap_or_default();
    let metric = spreads.iter().find_map(|spread| spread.metric.as_ref());
    html! {
        figure {
            figcaption {
                @if !label.is_empty() { h3 { (label) } }
                "Part of the work" @if let Some(metric) = metric { ", and median " code { (metric) } } "."
            }
            div.scroll tabindex="0" role="group" aria-label="load agents" { table {
                thead { tr { th scope="col" { "Agent" } @for spread in spreads { th.number scope="col" { (name(view, spread.variant)) } } } }
                tbody { @for agent in names {
                    tr {
                        th scope="row" { (agent) }
                        @for spread in spreads { (part(spread.agents.iter().find(|part| part.agent == agent))) }
                    }
                } }
            } }
        }
    }
}

fn part(agent: Option<&AgentPart>) -> Markup {
    let Some(agent) = agent else { return html! { td.number { "–" } } };
    let is_outlier = !agent.outlying.is_empty();
    html! {
        td class={ "number" @if is_outlier { " doubt" } } { @if is_outlier { "! " } (spread::part(agent)) }
    }
}
