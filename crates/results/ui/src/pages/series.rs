//! One series: its values over the runs, its level shifts with the changes at each, and the form that accepts
//! a shift.

use maud::{Markup, html};
use plumb_history::{
    Database, Grade, GradedShift, Point, RunRow, SeriesFilter, SeriesIdentity, SeriesRow, Trend, trend,
};
use plumb_host::time::wall_clock_us;
use plumb_model::Better;
use plumb_report::figures::digits;
use plumb_report::{Scale, centred, level as level_line, path, percent, pixels, plural, quoted};

use super::history::{moment, open};
use super::layout::{Part, form_token, page};
use crate::asked::Asked;
use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::site::Site;

const HEIGHT: f64 = 260.0;
/// How many of the newest runs the table lists. The figure shows older ones.
const ROWS: usize = 200;
const NOTE_CHARACTERS_MAX: usize = 500;
/// How many of the newest runs a figure can show. The second number is the default.
const SPANS: [usize; 2] = [100, 1_000];

/// A series with its points and its trend.
struct Known {
    row: SeriesRow,
    points: Vec<Point>,
    trend: Trend,
}

/// The page.
///
/// # Errors
/// When no such series exists, or the history cannot be read.
pub fn series(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let (mut history, known) = find(site, asked)?;
    let of = &known.row.identity;
    let title = format!("{} of {}", of.metric_key(), of.sides());
    let count = match asked.query.get("last") {
        None => SPANS[1],
        Some(text) => text.parse().ok().filter(|count| *count > 0).ok_or_else(|| {
            RequestError::bad("A figure shows a number of the newest runs, such as `last=100`.")
        })?,
    };
    let mut shifts = Vec::new();
    for shift in known.trend.shifts.iter().rev() {
        shifts.push((shift, changes(&mut history, &known, shift)?));
    }
    let content = html! {
        h1 { (of.metric_key()) " of " (of.sides()) }
        p { a href={ "/history?experiment=" (crate::asked::encoded(&of.experiment)) } { "History of " (of.experiment) } }
        p.lead { (summary(&known)) }
        (figure(&known, count))
        h2 { "Level shifts" }
        @if let Some(reason) = &known.trend.unjudged { p.note { "Not judgeable: " (reason) "." } }
        @if shifts.is_empty() { p { "No shift of the level was found." } }
        @for (shift, changes) in &shifts { (one_shift(site, &known, shift, changes)) }
        (table(&known))
    };
    Ok(page(site, Part::History, &format!("{title}, {}", plural(shifts.len(), "shift")), &content))
}

/// Accepts a shift, so that it is not reported again.
///
/// # Errors
/// When the series has no such run, or the history cannot be written.
pub fn accept(site: &Site, asked: &Asked) -> Result<PageResponse, RequestError> {
    let (mut history, known) = find(site, asked)?;
    let run = asked.form.get("run").ok_or_else(|| RequestError::bad("The form names no run."))?;
    let note: String = asked.form.get("note").unwrap_or_default().chars().take(NOTE_CHARACTERS_MAX).collect();
    if !known.points.iter().any(|point| point.run == run) {
        return Err(RequestError::missing("The series has no value of this run."));
    }
    history.accept(known.row.id, run, "", &note, wall_clock_us()).map_err(RequestError::broken)?;
    Ok(PageResponse::see(format!("/series/{}", known.row.id)))
}

fn find(site: &Site, asked: &Asked) -> Result<(Database, Known), RequestError> {
    let missing = || RequestError::missing("The history has no such series.");
    let id: i64 = asked.path.split('/').nth(2).and_then(|id| id.parse().ok()).ok_or_else(missing)?;
    let mut history = open(site)?.ok_or_else(missing)?;
    let filter = SeriesFilter { id: Some(id), ..SeriesFilter::default() };
    let row = history.series(&filter).map_err(RequestError::broken)?.pop().ok_or_else(missing)?;
    let points = history.points(id).map_err(RequestError::broken)?;
    let marks = history.marks(id).map_err(RequestError::broken)?;
    let trend = trend(row.identity.better, &points, &marks);
    Ok((history, Known { row, points, trend }))
}

fn value(of: &SeriesIdentity, value: f64) -> String {
    of.with_unit(&digits(value))
}

fn summary(known: &Known) -> String {
    let of = &known.row.identity;
    let kind = if of.is_ratio() { "Ratios of" } else { "Medians of" };
    let now = known.trend.level.map(|level| format!(", now at {}", value(of, level))).unwrap_or_default();
    let hosts = if of.is_ratio() { String::new() } else { format!(", on {}", of.host_class) };
    let better = match of.better {
        Better::Higher => " Higher is better.",
        Better::Lower => " Lower is better.",
        Better::Neither => "",
    };
    format!("{kind} {}{now}{hosts}.{better}", plural(known.points.len(), "run"))
}

/// Links to the same page with more or fewer runs in the figure.
fn spans(known: &Known, shown: usize) -> Markup {
    let all = known.points.len();
    let choices = SPANS.into_iter().filter(|count| *count < all).chain([all]);
    let link = |count: usize| format!("/series/{}?last={count}", known.row.id);
    html! {
        @if all > SPANS[0] { p { "Shown: " @for count in choices {
            @let words = if count == all { format!("all {all}") } else { format!("the newest {count}") };
            @if count == shown { strong { (words) } } @else { a href=(link(count)) { (words) } }
            @if count < all { " · " }
        } } }
    }
}

/// The newest values with their bounds, and a line where the level shifts.
fn figure(known: &Known, count: usize) -> Markup {
    let of = &known.row.identity;
    let before = known.points.len().saturating_sub(count);
    let points = &known.points[before..];
    let shifts = || known.trend.shifts.iter().filter(|shift| shift.at >= before);
    let all = points.iter().flat_map(|point| [Some(point.value), point.low, point.high]).flatten();
    let Some(scale) = Scale::of_values(all.filter(|value| value.is_finite())) else { return html! {} };
    let x = |at: usize| (at as f64 + 0.5) / points.len() as f64;
    let y = |value: f64| HEIGHT * (1.0 - scale.place(value).clamp(0.0, 1.0));
    let line: Vec<(f64, f64)> =
        points.iter().enumerate().map(|(at, point)| (x(at), y(point.value))).collect();
    let times = axis_times(&points.iter().map(|point| point.started_at_us).collect::<Vec<_>>());
    let ends: Vec<usize> = if points.len() > 1 { vec![0, points.len() - 1] } else { vec![0] };
    html! {
        (spans(known, points.len()))
        figure {
            figcaption { "Each point is a run, the oldest on the left; the table below has their values. An upright line is a shift of the level." }
            div.chart { svg height=(HEIGHT) role="img" aria-label={ (of.metric_key()) " of " (of.sides()) " over " (plural(points.len(), "run")) } {
                @for tick in scale.ticks(6) { (level_line(y(tick), &value(of, tick))) }
                @for shift in shifts() {
                    @let place = percent((shift.at - before) as f64 / points.len() as f64);
                    line class={ "shift " (shift.grade.word()) } x1=(place) x2=(place) y1="0" y2=(pixels(HEIGHT)) { title { (sentence(known, shift)) } }
                }
                @for (at, point) in points.iter().enumerate() {
                    @if let (Some(low), Some(high)) = (point.low, point.high) {
                        line class="bounds" x1=(percent(x(at))) x2=(percent(x(at))) y1=(pixels(y(low))) y2=(pixels(y(high))) {}
                    }
                }
                (path(&line, "series", HEIGHT))
                @for (at, point) in points.iter().enumerate() {
                    circle class="point" cx=(percent(x(at))) cy=(pixels(y(point.value))) r="3" { title { (value(of, point.value)) } }
                }
                @for at in ends { (centred(x(at), HEIGHT + 18.0, &times[at])) }
            } }
        }
    }
}

/// The times of runs for an axis: dates, with the time of day if all are of one day, and seconds if all are of one minute.
fn axis_times(all_us: &[i64]) -> Vec<String> {
    let times: Vec<String> =
        all_us.iter().map(|at_us| plumb_host::time::rfc3339_of(*at_us as f64 / 1e6)).collect();
    let (first, last) = (times.first(), times.last());
    let is_one =
        |characters: usize| first.map(|time| &time[..characters]) == last.map(|time| &time[..characters]);
    let characters = if is_one(16) {
        19
    } else if is_one(10) {
        16
    } else {
        10
    };
    times.iter().map(|time| time.chars().take(characters).collect::<String>().replace('T', " ")).collect()
}

fn sentence(known: &Known, shift: &GradedShift) -> String {
    let of = &known.row.identity;
    let direction = match shift.worse {
        Some(true) => "worse",
        Some(false) => "better",
        None => "moved",
    };
    let (from, to) = (value(of, shift.from_level), value(of, shift.to_level));
    let certain = match shift.seen_at {
        Some(seen_at) => format!(", certain {} later", plural(seen_at.saturating_sub(shift.at), "run")),
        None => String::new(),
    };
    let undone = if shift.undone { ", taken back since" } else { "" };
    format!("{direction}, from {from} to {to}{certain}{undone}")
}

fn one_shift(
    site: &Site,
    known: &Known,
    shift: &GradedShift,
    changes: &[(String, String, String)],
) -> Markup {
    let at = known.points.get(shift.at);
    html! {
        section.shift {
            h3 { span class={ "grade " (shift.grade.word()) } { (shift.grade.word()) } ": " (sentence(known, shift)) }
            @if shift.is_open_worsening() { p { "To find the revision that made it: " code { (bisect(known, shift)) } } }
            @if let Some(point) = at { p { "Since the run of " (moment(point.started_at_us)) " (" code { (point.run.get(..8).unwrap_or(&point.run)) } ")." } }
            @if shift.grade == Grade::Accepted {
                p.note { "Accepted" @if !shift.author.is_empty() { " by " (shift.author) } @if !shift.note.is_empty() { ": " (shift.note) } }
            }
            @if changes.is_empty() { p.quiet { "Nothing that is recorded changed between the run before and this one." } }
            @else { div.scroll tabindex="0" role="group" aria-label="what changed" { table {
                caption { "What changed with this run" }
                thead { tr { th scope="col" { "What" } th scope="col" { "Before" } th scope="col" { "Since" } } }
                tbody { @for (what, before, since) in changes { tr { th scope="row" { (what) } td.text { (before) } td.text { (since) } } } }
            } } }
            @if shift.grade != Grade::Accepted {
                form.stack method="post" action={ "/series/" (known.row.id) "/accept" } {
                    (form_token(site))
                    input type="hidden" name="run" value=(shift.run);
                    label for={ "note-" (shift.at) } { "It is meant to be so, because" }
                    input id={ "note-" (shift.at) } name="note" maxlength=(NOTE_CHARACTERS_MAX) required;
                    button { "Accept this shift" }
                }
            }
        }
    }
}

/// The command that finds the revision that made a shift.
fn bisect(known: &Known, shift: &GradedShift) -> String {
    let mut words = known.row.identity.arguments();
    words.extend(["--at".to_owned(), shift.run.chars().take(8).collect()]);
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    format!("plumb history bisect {}", words.join(" "))
}

/// The differences between a shift's run and the run before it: name, value before, value since.
fn changes(
    history: &mut Database,
    known: &Known,
    shift: &GradedShift,
) -> Result<Vec<(String, String, String)>, RequestError> {
    let Some(before) = shift.at.checked_sub(1).and_then(|at| known.points.get(at)) else {
        return Ok(Vec::new());
    };
    let before = history.run(&before.run).map_err(RequestError::broken)?;
    let since = history.run(&shift.run).map_err(RequestError::broken)?;
    let mut pairs = facts(&before).into_iter().zip(facts(&since)).collect::<Vec<_>>();
    pairs.retain(|((_, before), (_, since))| before != since);
    let mut changed: Vec<(String, String, String)> =
        pairs.into_iter().map(|((name, before), (_, since))| (name, before, since)).collect();
    let value = |run: &RunRow, name: &str| {
        run.host.iter().find(|(known, _)| known == name).map_or("–".to_owned(), |(_, value)| value.clone())
    };
    for (name, was) in &before.host {
        let is = value(&since, name);
        // The load average differs in every run.
        if *was != is && name != "load average" {
            changed.push((name.clone(), was.clone(), is));
        }
    }
    Ok(changed)
}

fn facts(run: &RunRow) -> [(String, String); 5] {
    let revision = run.source.as_ref().map_or("–".to_owned(), |source| {
        let subject = source.subject.as_deref().unwrap_or_default();
        let dirty = if source.dirty { "+" } else { "" };
        format!("{}{dirty} {subject}", source.revision.get(..8).unwrap_or(&source.revision))
    });
    let branch = run.source.as_ref().and_then(|source| source.branch.clone()).unwrap_or("–".to_owned());
    [
        ("revision".to_owned(), revision),
        ("branch".to_owned(), branch),
        ("plumb".to_owned(), run.program_version.clone()),
        ("build of plumb".to_owned(), run.build.clone().unwrap_or("–".to_owned())),
        ("settings".to_owned(), run.settings_digest.get(..8).unwrap_or_default().to_owned()),
    ]
}

fn table(known: &Known) -> Markup {
    let of = &known.row.identity;
    let bound = |bound: Option<f64>| bound.map_or("–".to_owned(), |bound| value(of, bound));
    let (lower, upper, number) =
        if of.is_ratio() { ("Low", "High", "Blocks") } else { ("Smallest slot", "Largest slot", "Slots") };
    html! {
        details open[known.points.len() <= 30] {
            summary { "The values" }
            div.scroll tabindex="0" role="group" aria-label="values of the series" { table {
                @if known.points.len() > ROWS { caption { "The newest " (ROWS) " of " (known.points.len()) } }
                thead { tr { th scope="col" { "Run" } th scope="col" { "Started" } th scope="col" { "Revision" } th.number scope="col" { "Value" } th.number scope="col" { (lower) } th.number scope="col" { (upper) } th.number scope="col" { (number) } } }
                tbody { @for point in known.points.iter().rev().take(ROWS) { tr {
                    th scope="row" { code { (point.run.get(..8).unwrap_or(&point.run)) } }
                    td.when { (moment(point.started_at_us)) }
                    td { @if let Some(revision) = &point.revision { code { (revision.get(..8).unwrap_or(revision)) } } @else { "–" } }
                    td.number { (value(of, point.value)) }
                    td.number { (bound(point.low)) }
                    td.number { (bound(point.high)) }
                    td.number { (point.n) }
                } } }
            } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_day_are_told_apart_by_their_time() {
        const HOUR_US: i64 = 3_600_000_000;
        let noon_us = 12 * HOUR_US;
        assert_eq!(axis_times(&[noon_us, noon_us + HOUR_US]), ["1970-01-01 12:00", "1970-01-01 13:00"]);
        assert_eq!(
            axis_times(&[noon_us, noon_us + 5_000_000]),
            ["1970-01-01 12:00:00", "1970-01-01 12:00:05"]
        );
        assert_eq!(axis_times(&[noon_us, noon_us + 12 * HOUR_US]), ["1970-01-01", "1970-01-02"]);
    }
}
