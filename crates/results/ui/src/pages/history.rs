//! The pages of recorded runs and their series.

use maud::{Markup, html};
use plumb_history::{Database, RunFilter, RunRow, SeriesFilter, SeriesRow};
use plumb_host::time::rfc3339_of;
use plumb_report::plural;

use super::layout::{Part, page, time};
use crate::asked::{Asked, Fields, encoded};
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::site::Site;

const ROWS: u32 = 50;
/// The most series that are listed at once.
const SERIES_MAX: usize = 400;

/// Opens the history; `None` if nothing has been recorded yet.
///
/// # Errors
/// When it cannot be opened.
pub fn open(site: &Site) -> Result<Option<Database>, RequestError> {
    match &site.settings.history {
        Some(location) => Database::open_existing(location).map_err(RequestError::broken),
        None => Ok(None),
    }
}

/// The page: experiments with recorded runs, or the series and runs of one.
///
/// # Errors
/// When the history cannot be read, or a field of the query makes no sense.
pub fn history(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let Some(mut history) = open(site)? else { return Ok(nothing(site)) };
    match asked.query.get("experiment") {
        Some(name) => one(site, &mut history, name, &asked.query),
        None => all(site, &mut history),
    }
}

fn nothing(site: &Site) -> PageResponse {
    let content = html! {
        h1 { "History" }
        p { "Nothing is recorded yet. " code { "plumb run EXPERIMENT --record" } " records a run, and " code { "plumb history add DIR" } " one that you have." }
        @if let Some(location) = &site.settings.history { p.note { "This page looks for the history in: " code { (location) } } }
    };
    page(site, Part::History, "History", &content)
}

fn all(site: &Site, history: &mut Database) -> Result<PageResponse, RequestError> {
    let experiments = history.experiments().map_err(RequestError::broken)?;
    let hosts = history.hosts().map_err(RequestError::broken)?;
    let content = html! {
        h1 { "History" }
        p.lead { "Recorded runs by experiment. A series follows one metric of one variant over its runs." }
        div.scroll tabindex="0" role="group" aria-label="experiments" { table.runs {
            thead { tr { th scope="col" { "Experiment" } th.number scope="col" { "Runs" } th scope="col" { "First" } th scope="col" { "Last" } } }
            tbody { @for row in &experiments { tr {
                th scope="row" { a href={ "/history?experiment=" (encoded(&row.name)) } { (row.name) } }
                td.number { (row.runs) }
                td.when { (moment(row.first_started_at_us)) }
                td.when { (moment(row.last_started_at_us)) }
            } } }
        } }
        h2 { "Hosts" }
        p.note { "Values compare within a class of hosts. Ratios to a baseline compare across classes." }
        div.scroll tabindex="0" role="group" aria-label="classes of hosts" { table {
            thead { tr { th scope="col" { "Class" } th.number scope="col" { "Runs" } th scope="col" { "Last" } } }
            tbody { @for row in &hosts { tr { th.text scope="row" { (row.class) } td.number { (row.runs) } td.when { (moment(row.last_started_at_us)) } } } }
        } }
    };
    Ok(page(site, Part::History, &format!("History, {}", plural(experiments.len(), "experiment")), &content))
}

fn one(
    site: &Site,
    history: &mut Database,
    name: &str,
    query: &Fields,
) -> Result<PageResponse, RequestError> {
    let filter = RunFilter {
        experiment: Some(name.to_owned()),
        text: query.get("q").map(str::to_owned),
        ..RunFilter::default()
    };
    let count = u32::try_from(history.count(&filter).map_err(RequestError::broken)?).unwrap_or(u32::MAX);
    let pages = count.div_ceil(ROWS).max(1);
    let at = match query.get("page") {
        None => 1,
        Some(text) => text.parse().ok().filter(|at| (1..=pages).contains(at)).ok_or_else(|| {
            RequestError::missing(format!(
                "There is no page {text}: the list has {}.",
                plural(pages as usize, "page")
            ))
        })?,
    };
    let shown = RunFilter { limit: Some(ROWS), offset: (at - 1) * ROWS, ..filter };
    let runs = history.runs(&shown).map_err(RequestError::broken)?;
    let series = SeriesFilter { experiment: Some(name.to_owned()), ..SeriesFilter::default() };
    let series = history.series(&series).map_err(RequestError::broken)?;
    let claimed: Vec<String> = runs.first().map(|run| run.claimed.clone()).unwrap_or_default();
    let link = |to: u32| format!("/history{}", query.with("page", &to.to_string()));
    let content = html! {
        h1 { "History of " (name) }
        p { a href="/history" { "All experiments" } }
        h2 { "Series" }
        (series_table(&series, &claimed, query.get("all").is_some(), query))
        h2 { "Runs" }
        form.search method="get" action="/history" role="search" {
            input type="hidden" name="experiment" value=(name);
            div { label for="q" { "Search" } input #q type="search" name="q" value=(query.get("q").unwrap_or_default()) placeholder="title, directory, branch, revision" maxlength="200"; }
            button { "Show" }
        }
        p.note role="status" { (plural(count as usize, "run")) }
        (runs_table(&runs))
        @if pages > 1 { nav.paging aria-label="Pages" {
            @if at > 1 { a rel="prev" href=(link(at - 1)) { "← Newer" } }
            span { "Page " (at) " of " (pages) }
            @if at < pages { a rel="next" href=(link(at + 1)) { "Older →" } }
        } }
    };
    Ok(page(site, Part::History, &format!("History of {name}"), &content))
}

/// The ratios of metrics that claims name, or all series if there are none or the request asks for all.
fn series_table(series: &[SeriesRow], claimed: &[String], is_all: bool, query: &Fields) -> Markup {
    let is_main = |row: &&SeriesRow| row.identity.is_ratio() && claimed.contains(&row.identity.metric_key());
    let main: Vec<&SeriesRow> = series.iter().filter(is_main).collect();
    let shown: Vec<&SeriesRow> =
        if is_all || main.is_empty() { series.iter().take(SERIES_MAX).collect() } else { main };
    html! {
        @if shown.is_empty() { p.quiet { "There is no series yet." } }
        @else { div.scroll tabindex="0" role="group" aria-label="series" { table {
            thead { tr { th scope="col" { "Metric" } th scope="col" { "Of" } th.number scope="col" { "Runs" } th scope="col" { "Last" } th scope="col" { "Host" } } }
            tbody { @for row in &shown { tr {
                th scope="row" { a href={ "/series/" (row.id) } { (row.identity.metric_key()) } }
                td.text { (row.identity.sides()) }
                td.number { (row.points) }
                td.when { (moment(row.last_started_at_us)) }
                td.host { @if row.identity.is_ratio() { "any" } @else { (row.identity.host_class) } }
            } } }
        } } }
        @if shown.len() < series.len() { p.note {
            (shown.len()) " of " (series.len()) " series. "
            @if !is_all { a href={ "/history" (query.with("all", "yes")) } { "Show all" } }
        } }
    }
}

fn runs_table(runs: &[RunRow]) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="recorded runs" { table.runs {
            thead { tr { th scope="col" { "Run" } th scope="col" { "Started" } th scope="col" { "Claims" } th scope="col" { "Revision" } th scope="col" { "Labels" } th scope="col" { "Host" } } }
            tbody { @for run in runs { tr {
                th scope="row" { code { (run.key.get(..8).unwrap_or(&run.key)) } @if run.quick { " " span.tag { "quick" } } div.sub { (run.directory) } }
                td.when { (moment(run.started_at_us)) }
                td.verdicts { (run.verdicts) }
                td.text { @if let Some(source) = &run.source { code { (source.revision.get(..8).unwrap_or(&source.revision)) @if source.dirty { "+" } } div.sub { (source.subject.as_deref().unwrap_or_default()) } } @else { "–" } }
                td.text { @for (name, value) in &run.labels { span.tag { (name) "=" (value) } " " } }
                td.host { (run.host_class) }
            } } }
        } }
    }
}

/// A time of the history.
pub fn moment(at_us: i64) -> Markup {
    time(&rfc3339_of(at_us as f64 / 1e6))
}
