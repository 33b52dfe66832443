//! A run that is under way: where it is, its claims with their narrowing intervals, its slots over time with
//! their noise.
//!
//! The page is complete without a script. The script replaces the parts that change when a slot ends.

use std::collections::BTreeMap;
use std::path::Path;

use maud::{Markup, html};
use plumb_host::time::{rfc3339_of, unix_ms};
use plumb_model::{Ending, Plan, Run, Slot, Verdict};
use plumb_report::figures::duration_s;
use plumb_report::{plural, quoted};
use plumb_store::{Now, Phase};

use super::layout::{made, state};
use crate::shelf::{Opened, State};

/// The parts of a page that change while a run is under way.
pub struct Parts {
    /// The page's title.
    pub title: String,
    /// HTML by the id of the element that it fills.
    pub pieces: BTreeMap<&'static str, String>,
}

/// Makes all parts.
pub fn parts(id: &str, opened: &mut Opened, now: Option<&Now>) -> Parts {
    let cell = current_cell(opened.run(), now);
    let looks = opened.looks().to_vec();
    let (run, judgement) = (opened.run(), opened.judgement());
    let state = opened.state();
    let warnings = html! {
        @if judgement.cautions.is_empty() { p.quiet { "None so far." } }
        @else { ul.warnings { @for caution in &judgement.cautions { li { (plumb_report::caution(caution)) } } } }
    };
    let pieces = BTreeMap::from([
        ("part-now", printable(&where_it_is(id, run, state, now))),
        ("part-claims", plumb_report::html_narrowing(run, judgement, &looks)),
        ("part-slots", plumb_report::html_slots(run, judgement, cell)),
        ("part-warnings", printable(&warnings)),
    ]);
    Parts { title: title(opened, state), pieces }
}

/// `2 of 3 decided, running: NAME`.
fn title(opened: &Opened, state: State) -> String {
    let claims = &opened.judgement().claims;
    let decided =
        claims.iter().filter(|claim| !matches!(claim.verdict, Verdict::Undecided | Verdict::Skipped)).count();
    let name = &opened.run().header.plan.name;
    match claims.len() {
        0 => format!("{}: {name}", state.word()),
        all => format!("{decided} of {all} decided, {}: {name}", state.word()),
    }
}

/// The title and the inside of the page.
pub fn content(id: &str, opened: &mut Opened, now: Option<&Now>) -> (String, Markup) {
    let Parts { title, pieces } = parts(id, opened, now);
    let run = opened.run();
    let plan = &run.header.plan;
    let content = html! {
        article.live data-events={ "/runs/" (id) "/events?after=" (run.slots.len()) } {
            h1 { (plan.title) }
            p.note { (plan.name) " · started " (run.header.started_at) " · " code { (run.directory) } }
            div #part-now { (made(&pieces["part-now"])) }
            p #said .unseen role="status" {}
            p #link .note { noscript { "This page shows the run as it was when it was loaded. Load it again to see more." } }
            section #claims { h2 { "Claims" } div #part-claims { (made(&pieces["part-claims"])) } }
            section #slots { h2 { "Slots and noise" } div #part-slots { (made(&pieces["part-slots"])) } }
            section #warnings { h2 { "Warnings" } div #part-warnings { (made(&pieces["part-warnings"])) } }
        }
    };
    (title, content)
}

/// The cell of the slot that is being measured, or of the last slot.
fn current_cell(run: &Run, now: Option<&Now>) -> usize {
    let cells = run.header.plan.cells.len();
    let last = run.slots.last().map(|slot| slot.cell);
    now.map(|now| now.cell).or(last).filter(|cell| *cell < cells).unwrap_or(0)
}

fn where_it_is(id: &str, run: &Run, state_now: State, now: Option<&Now>) -> Markup {
    let plan = &run.header.plan;
    html! {
        div.now {
            p.state-line { (state(state_now)) " " (doing(plan, state_now, now)) }
            @if state_now == State::Running {
                @if let Some(now) = now { (facts(run, now)) }
                p.act { a.button.danger href={ "/runs/" (id) "/stop" } { "Stop this run…" } }
            } @else {
                p { (ended(run, state_now)) " " a href={ "/runs/" (id) } { "Open the report" } }
            }
        }
    }
}

/// The activity of the run, as the rest of a sentence.
fn doing(plan: &Plan, state: State, now: Option<&Now>) -> Markup {
    let Some(now) = now.filter(|_| state == State::Running) else { return html! {} };
    let place = format!(
        "block {} of at most {}, slot {} of {}",
        now.block + 1,
        plan.blocks.max,
        now.position + 1,
        now.of
    );
    let cell = plan.cells.get(now.cell).map(plumb_model::Cell::label).filter(|label| !label.is_empty());
    html! {
        @match now.phase {
            Phase::TryingOut => { "trying out " b { (now.variant) } " before the first block" }
            Phase::Preparing => { b { (now.variant) } ", " (place) ": preparing or measuring" }
            Phase::Measuring => { b { (now.variant) } ", " (place) ": " (warming(now)) }
            Phase::Between => { "between two slots, after " b { (now.variant) } ", " (place) }
        }
        @if let Some(cell) = cell { span.quiet { " at " (cell) } }
    }
}

fn warming(now: &Now) -> &'static str {
    let at_ms = unix_ms();
    match now.window_opens_ms {
        Some(opens) if at_ms < opens => "warming up",
        _ if now.is_window_open(at_ms) => "measuring",
        _ => "measured",
    }
}

fn facts(run: &Run, now: &Now) -> Markup {
    let window = now.window_opens_ms.zip(now.window_closes_ms);
    html! {
        dl.facts {
            div { dt { "slots so far" } dd { (run.slots.len()) } }
            div { dt { "time left" } dd { "about " (duration_s(now.left_probably_s)) ", at most " (duration_s(now.left_at_most_s)) } }
            @if let Some((opens, closes)) = window { div { dt { "window" } dd { (clock(opens)) " to " (clock(closes)) } } }
            div { dt { "next update" } dd { (due(run, now)) } }
        }
    }
}

/// When the next slot ends, in words.
fn due(run: &Run, now: &Now) -> String {
    if let Some(closes) = now.window_closes_ms {
        return format!("after {}, as the window closes", clock(closes));
    }
    let recent: Vec<&Slot> = run.slots.iter().rev().take(20).collect();
    if recent.is_empty() {
        return "as the first slot ends".to_owned();
    }
    let slot_s = recent.iter().map(|slot| slot.took_s).sum::<f64>() / recent.len() as f64;
    format!("about {}, as the slot ends", clock(now.since_ms + (slot_s * 1000.0) as u64))
}

fn clock(at_ms: u64) -> String {
    let text = rfc3339_of(at_ms as f64 / 1000.0);
    text.get(11..19).map_or(text.clone(), |clock| format!("{clock} UTC"))
}

fn ended(run: &Run, state: State) -> String {
    let took = run.took_s.map(|took_s| format!(" in {}", duration_s(took_s))).unwrap_or_default();
    let slots = plural(run.slots.len(), "slot");
    match (run.ending, state) {
        (Some(Ending::Complete), _) => format!("The run has ended after {slots}{took}."),
        (Some(Ending::Interrupted), _) => format!("Somebody stopped the run after {slots}{took}."),
        (Some(Ending::Failed), _) => format!("The harness failed after {slots}{took}."),
        (None, _) => format!("The run was killed after {slots}; all of them are kept."),
    }
}

/// The command that continues a run that was killed or stopped.
#[must_use]
pub fn resume_command(path: &Path) -> String {
    format!("plumb run --resume {}", quoted(&path.display().to_string()))
}

fn printable(content: &Markup) -> String {
    plumb_model::printable_lines(&content.0).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_to_copy_has_its_path_quoted() {
        assert_eq!(resume_command(Path::new("plumb-runs/a-1")), "plumb run --resume plumb-runs/a-1");
        assert_eq!(resume_command(Path::new("a; rm 'b'")), r"plumb run --resume 'a; rm '\''b'\'''");
    }
}
