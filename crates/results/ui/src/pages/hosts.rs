//! The hosts of runs. Absolute values from different hosts are not comparable, so this page tells the hosts
//! apart.

use std::collections::BTreeMap;
use std::sync::Arc;

use maud::{Markup, html};

use super::layout::{Part, page, time};
use crate::asked::{Asked, encoded};
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::shelf::Summary;
use crate::site::Site;

/// The page.
///
/// # Errors
/// None so far.
pub fn hosts(site: &Site, _: &Asked) -> Result<PageResponse, RequestError> {
    let mut hosts: BTreeMap<String, Vec<Arc<Summary>>> = BTreeMap::new();
    for run in site.shelf.list().runs.into_iter().filter(|run| !run.facts.is_empty()) {
        hosts.entry(run.host.clone()).or_default().push(run);
    }
    let mut hosts: Vec<(String, Vec<Arc<Summary>>)> = hosts.into_iter().collect();
    for (_, runs) in &mut hosts {
        runs.sort_by(|one, other| other.started_at.cmp(&one.started_at));
    }
    hosts.sort_by(|one, other| other.1[0].started_at.cmp(&one.1[0].started_at));
    let content = html! {
        h1 { "Hosts" }
        p.lead { "Runs whose host has the same CPUs, kernel and surroundings are together. Ratios to a baseline compare across hosts; absolute values do not." }
        @if hosts.is_empty() { p { "There is no run here yet." } }
        @else { (table(&hosts)) }
    };
    Ok(page(site, Part::Hosts, &format!("Hosts, {}", hosts.len()), &content))
}

fn table(hosts: &[(String, Vec<Arc<Summary>>)]) -> Markup {
    let fact = |run: &Summary, name: &str| {
        let found = run.facts.iter().find(|(known, _)| known == name);
        found.map_or("–".to_owned(), |(_, value)| value.clone())
    };
    html! {
        div.scroll tabindex="0" role="group" aria-label="hosts" { table {
            thead { tr {
                th scope="col" { "CPU" } th scope="col" { "CPUs" } th scope="col" { "Kernel" } th scope="col" { "Runs in" }
                th.number scope="col" { "Runs" } th scope="col" { "First" } th scope="col" { "Last" }
            } }
            tbody { @for (host, runs) in hosts {
                @let newest = &runs[0];
                tr {
                    th scope="row" { (fact(newest, "cpu")) }
                    td.text { (fact(newest, "cpus")) }
                    td { (fact(newest, "kernel")) }
                    td { (fact(newest, "virtualisation")) ", " (fact(newest, "container")) }
                    td.number { a href={ "/?host=" (encoded(host)) } { (runs.len()) span.unseen { " runs" } } }
                    td.when { (time(&runs[runs.len() - 1].started_at)) }
                    td.when { (time(&newest.started_at)) }
                }
            } }
        } }
    }
}
