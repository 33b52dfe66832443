//! All runs: searched, filtered, sorted, and a page of them at a time.

use std::cmp::Ordering;
use std::sync::Arc;

use maud::{Markup, html};
use plumb_model::Verdict;
use plumb_report::{figures, plural};

use super::layout::{Part, page, state, time, verdicts};
use crate::asked::{Asked, Fields};
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::shelf::{Listing, State, Summary};
use crate::site::Site;

const ROWS: usize = 50;

/// The columns by which the table can be sorted: their name in addresses, their heading, and whether the
/// largest comes first.
const ORDERS: [(&str, &str, bool); 5] = [
    ("name", "Run", false),
    ("started", "Started", true),
    ("state", "State", false),
    ("slots", "Slots", true),
    ("took", "Took", true),
];

/// The page.
///
/// # Errors
/// When a field of the query makes no sense.
pub fn runs(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let Listing { runs, unread } = site.shelf.list();
    let all = runs.len();
    let mut found = filtered(runs, &asked.query)?;
    let (order, is_descending) = order(&asked.query);
    found.sort_by(|one, other| {
        let by = compare(one, other, order);
        let by = if is_descending { by.reverse() } else { by };
        by.then_with(|| one.path.cmp(&other.path))
    });
    let pages = found.len().div_ceil(ROWS).max(1);
    let at = match asked.query.get("page") {
        None => 1,
        // Later pages fill while runs are being read.
        Some(text) if unread > 0 => text.parse().ok().filter(|at| *at > 0).unwrap_or(1),
        Some(text) => text.parse().ok().filter(|at| (1..=pages).contains(at)).ok_or_else(|| {
            RequestError::missing(format!("There is no page {text}: the list has {}.", plural(pages, "page")))
        })?,
    };
    let shown: Vec<&Arc<Summary>> = found.iter().skip((at - 1).saturating_mul(ROWS)).take(ROWS).collect();
    let running = found.iter().filter(|run| run.state == State::Running).count();
    let title = if running > 0 { format!("Runs, {running} running") } else { "Runs".to_owned() };
    let content = html! {
        h1 { "Runs" }
        (search(&asked.query))
        div #list data-unread=[(unread > 0).then_some(unread)] {
            p.note role="status" { (count(all, found.len(), unread)) }
            @if shown.is_empty() && unread > 0 { p { "The runs of this page are still being read." } }
            @else if shown.is_empty() { (nothing(site, all)) }
            @else { (table(&shown, &asked.query, (order, is_descending))) (paging(&asked.query, at, pages)) }
        }
    };
    Ok(page(site, Part::Runs, &title, &content))
}

fn count(all: usize, found: usize, unread: usize) -> String {
    let mut words =
        if found == all { plural(all, "run") } else { format!("{found} of {}", plural(all, "run")) };
    if unread > 0 {
        let are = if unread == 1 { "is" } else { "are" };
        words.push_str(&format!("; {unread} more {are} being read"));
    }
    words
}

fn nothing(site: &Site, all: usize) -> Markup {
    html! {
        @if all > 0 { p { "No run matches. " a href="/" { "Show all runs" } } }
        @else {
            p { "There is no run here yet. " code { "plumb run EXPERIMENT" } " makes one in " code { "plumb-runs" } ", or " a href="/start" { "start one" } " from here." }
            p.note { "This page looks for runs in: " @for root in site.shelf.roots() { code { (root.display()) } " " } }
        }
    }
}

fn filtered(mut runs: Vec<Arc<Summary>>, query: &Fields) -> Result<Vec<Arc<Summary>>, RequestError> {
    if let Some(words) = query.get("q") {
        runs.retain(|run| run.has(words));
    }
    if let Some(word) = query.get("state") {
        let state = State::ALL.into_iter().find(|state| state.word() == word);
        let state = state.ok_or_else(|| RequestError::bad(format!("A run is never “{word}”.")))?;
        runs.retain(|run| run.state == state);
    }
    if let Some(word) = query.get("verdict") {
        let at = Verdict::ALL.iter().position(|verdict| verdict.word() == word);
        let at = at.ok_or_else(|| RequestError::bad(format!("A claim is never “{word}”.")))?;
        runs.retain(|run| run.verdicts[at] > 0);
    }
    if let Some(host) = query.get("host") {
        runs.retain(|run| run.host == host);
    }
    if let Some(name) = query.get("experiment") {
        runs.retain(|run| run.name == name);
    }
    Ok(runs)
}

fn order(query: &Fields) -> (&'static str, bool) {
    let asked = query.get("sort").unwrap_or("-started");
    let (name, is_descending) = asked.strip_prefix('-').map_or((asked, false), |name| (name, true));
    let known = ORDERS.iter().find(|(known, ..)| *known == name);
    known.map_or(("started", true), |(known, ..)| (known, is_descending))
}

fn compare(one: &Summary, other: &Summary, order: &str) -> Ordering {
    match order {
        "name" => one.name.to_lowercase().cmp(&other.name.to_lowercase()),
        "state" => one.state.word().cmp(other.state.word()),
        "slots" => one.slots.cmp(&other.slots),
        "took" => one.took_s.unwrap_or(0.0).total_cmp(&other.took_s.unwrap_or(0.0)),
        _ => one.started_at.cmp(&other.started_at),
    }
}

fn search(query: &Fields) -> Markup {
    let field = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let others = ["host", "experiment", "sort"].map(|name| (name, field(name)));
    html! {
        form.search method="get" action="/" role="search" {
            div { label for="q" { "Search" } input #q type="search" name="q" value=(field("q")) placeholder="name, title, host, date" maxlength="200"; }
            div { label for="state" { "State" } select #state name="state" {
                option value="" { "any" }
                @for state in State::ALL { option value=(state.word()) selected[field("state") == state.word()] { (state.word()) } }
            } }
            div { label for="verdict" { "With a claim that" } select #verdict name="verdict" {
                option value="" { "is anything" }
                @for verdict in Verdict::ALL { option value=(verdict.word()) selected[field("verdict") == verdict.word()] { (claim_is(verdict)) } }
            } }
            @for (name, value) in &others { @if !value.is_empty() { input type="hidden" name=(name) value=(value); } }
            button { "Show" }
        }
        @if let Some(host) = query.get("host") { (chip("host", host, query)) }
        @if let Some(name) = query.get("experiment") { (chip("experiment", name, query)) }
    }
}

fn claim_is(verdict: Verdict) -> String {
    if verdict == Verdict::Holds { "holds".to_owned() } else { format!("is {}", verdict.word()) }
}

fn chip(name: &str, value: &str, query: &Fields) -> Markup {
    html! { p.note { "Only of the " (name) " " b { (value) } ". " a href={ "/" (query.with(name, "")) } { "Of any " (name) } } }
}

fn table(shown: &[&Arc<Summary>], query: &Fields, order: (&str, bool)) -> Markup {
    html! {
        form method="get" action="/compare" {
            div.scroll tabindex="0" role="group" aria-label="runs" { table.runs {
                thead { tr {
                    th scope="col" { span.unseen { "Compare" } }
                    (heading("name", query, order)) (heading("started", query, order)) (heading("state", query, order))
                    th scope="col" { "Claims" }
                    (heading("slots", query, order)) (heading("took", query, order))
                    th scope="col" { "Host" }
                } }
                tbody { @for run in shown { (row(run)) } }
            } }
            p.act { button { "Compare the two selected" } }
        }
    }
}

/// A column's heading, a link that sorts by it.
fn heading(column: &str, query: &Fields, (by, is_descending): (&str, bool)) -> Markup {
    let Some((_, words, largest_first)) = ORDERS.iter().find(|(known, ..)| *known == column) else {
        return html! {};
    };
    let is_current = by == column;
    let descending = if is_current { !is_descending } else { *largest_first };
    let sort = if descending { format!("-{column}") } else { column.to_owned() };
    let sorted = match (is_current, is_descending) {
        (false, _) => None,
        (true, true) => Some("descending"),
        (true, false) => Some("ascending"),
    };
    let is_number = matches!(column, "slots" | "took");
    html! {
        th class=(if is_number { "number" } else { "" }) scope="col" aria-sort=[sorted] {
            a href={ "/" (query.with("sort", &sort)) } { (words) @if is_current { span aria-hidden="true" { (if is_descending { " ↓" } else { " ↑" }) } } }
        }
    }
}

fn row(run: &Summary) -> Markup {
    let id = format!("run-{}", run.id);
    html! {
        tr {
            td { input type="checkbox" name="run" value=(run.id) id=(id) aria-label={ "compare " (run.name) " of " (run.started_at) }; }
            th scope="row" {
                a href={ "/runs/" (run.id) } { (run.name) } @if run.is_quick { " " span.tag { "quick" } }
                div.sub { (run.words) }
            }
            td.when { (time(&run.started_at)) }
            td { (state(run.state)) }
            td.verdicts { (verdicts(run)) }
            td.number { (run.slots.map_or("–".to_owned(), |slots| slots.to_string())) }
            td.number { (run.took_s.map_or("–".to_owned(), figures::duration_s)) }
            td.host { (run.host) }
        }
    }
}

fn paging(query: &Fields, at: usize, pages: usize) -> Markup {
    let link = |to: usize| format!("/{}", query.with("page", &to.to_string()));
    html! {
        @if pages > 1 {
            nav.paging aria-label="Pages" {
                @if at > 1 { a rel="prev" href=(link(at - 1)) { "← Before" } }
                span { "Page " (at) " of " (pages) }
                @if at < pages { a rel="next" href=(link(at + 1)) { "After →" } }
            }
        }
    }
}
