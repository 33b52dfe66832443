//! Two runs side by side.

use std::sync::{Arc, Mutex, PoisonError};

use maud::{Markup, html};
use plumb_judge::contrast;

use super::layout::{Part, made, page};
use crate::asked::Asked;
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::shelf::{Listing, Opened, State, Summary};
use crate::site::Site;

/// How many of the newest runs the form offers.
const CHOICES: usize = 200;

/// The comparison of two runs, or a form that asks for them.
///
/// # Errors
/// When the request names more than two runs or one run twice, or a run cannot be read.
pub fn compare(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let ids: Vec<&str> = asked.query.all("run").filter(|id| !id.is_empty()).collect();
    match ids[..] {
        [first, second] if first == second => Err(RequestError::bad("Choose two different runs to compare.")),
        [first, second] => both(site, [first, second]),
        [] | [_] => Ok(choose(site, ids.first().copied())),
        _ => Err(RequestError::bad(format!("{} runs are selected. Two can be compared.", ids.len()))),
    }
}

fn both(site: &Site, ids: [&str; 2]) -> Result<PageResponse, RequestError> {
    let (first, second) = (opened(site, ids[0])?, opened(site, ids[1])?);
    // Locks one run at a time, and copies it. Two requests that hold the runs in different orders would
    // deadlock.
    let run = |of: &Arc<Mutex<Opened>>| of.lock().unwrap_or_else(PoisonError::into_inner).run().clone();
    let (first, second) = (run(&first), run(&second));
    let found = contrast(&first, &second);
    let differing = found.shifts.iter().filter(|shift| shift.change.excludes_one()).count();
    let name = &first.header.plan.name;
    let content = html! {
        h1 { "Two runs of " (name) @if second.header.plan.name != *name { " and " (second.header.plan.name) } }
        p.note { "The first run is " a href={ "/runs/" (ids[0]) } { (first.header.started_at) } ", the second " a href={ "/runs/" (ids[1]) } { (second.header.started_at) } ". "
            a href={ "/compare?run=" (ids[1]) "&run=" (ids[0]) } { "The other way round" } }
        (made(&plumb_report::html_contrast([&first, &second], &found)))
    };
    let title = format!("{name}, two runs, {differing} of {} effects differ", found.shifts.len());
    Ok(page(site, Part::Compare, &title, &content))
}

/// A run by its id.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn opened(site: &Site, id: &str) -> Result<Arc<Mutex<Opened>>, RequestError> {
    match site.shelf.open(id) {
        None => Err(RequestError::missing(
            "There is no such run below the served directories. It may have been moved.",
        )),
        Some(Err(error)) => Err(RequestError::broken(error.to_string())),
        Some(Ok(run)) => Ok(run),
    }
}

fn choose(site: &Site, chosen: Option<&str>) -> PageResponse {
    let Listing { mut runs, .. } = site.shelf.list();
    runs.retain(|run| run.state != State::Unreadable);
    runs.sort_by(|one, other| other.started_at.cmp(&one.started_at));
    runs.truncate(CHOICES);
    let content = html! {
        h1 { "Compare two runs" }
        p.lead { "What differs in their settings, builds and hosts, and how their effects differ." }
        @if runs.len() < 2 { p { "There are not two runs to compare yet." } }
        @else {
            form.stack method="get" action="/compare" {
                (choice("first", "First run", &runs, chosen.or(runs.get(1).map(|run| run.id.as_str()))))
                (choice("second", "Second run", &runs, runs.first().map(|run| run.id.as_str())))
                button { "Compare" }
            }
        }
    };
    page(site, Part::Compare, "Compare", &content)
}

fn choice(id: &str, label: &str, runs: &[Arc<Summary>], chosen: Option<&str>) -> Markup {
    html! {
        label for=(id) { (label) }
        select id=(id) name="run" {
            @for run in runs {
                option value=(run.id) selected[chosen == Some(run.id.as_str())] { (run.started_at) " · " (run.name) " · " (run.state.word()) }
            }
        }
    }
}
