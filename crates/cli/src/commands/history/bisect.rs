//! `plumb history bisect`: which revision made a level shift.
//!
//! A history only suspects: between two recorded runs, the machine may have changed and not the code. So the revisions on both sides of the
//! shift are built and compared on this machine by `plumb gate`. Only where the gate finds the difference, too, does the search go on
//! among the revisions between, along the first parents.

use std::path::{Path, PathBuf};

use plumb_history::{Database, Grade, GradedShift, Mark, MarkKind, Point, SeriesRow};
use plumb_host::signals::Interrupts;
use plumb_host::time::{monotonic_ns, wall_clock_us};
use plumb_model::{Percent, Span};
use plumb_report::plural;
use serde_json::Value;

use super::select::select;
use super::trend::with_trend;
use crate::args::history::BisectArguments;
use crate::args::{Format, GateArguments};
use crate::commands::git::git;
use crate::commands::recording::short;
use crate::commands::run::default_directory;
use crate::commands::{gate, report};
use crate::exit::{Failure, HOLDS, Outcome, REFUTED, UNDECIDED};
use crate::output;

const SECOND_NS: u64 = 1_000_000_000;
/// The least margin of a gate.
const MARGIN_MIN: f64 = 0.002;
/// The largest.
const MARGIN_MAX: f64 = 0.9;
/// Keys of a command's load that `plumb gate --command` has no option for.
const BEYOND_GATE: [&str; 5] = ["setup", "prepare", "cleanup", "directory", "runs"];

/// Searches for the revision. Exit codes are those of a gate: 1 where the revision was found, 0 where the code did not make the shift.
pub fn bisect(history: &mut Database, arguments: &BisectArguments) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    let (row, points, shift) = the_shift(history, arguments)?;
    let (before, after) = revisions(&points, shift.at)?;
    output::message(&format!(
        "{} {} shifts with run {}: {} before it, {} with it",
        row.identity.sides(),
        row.identity.metric_key(),
        short(&shift.run),
        brief(&before),
        brief(&after)
    ));
    if before == after {
        output::result("not the code: the runs on both sides of the shift are of the same revision")?;
        return Ok(HOLDS);
    }
    let between =
        git(Path::new("."), &["rev-list", "--first-parent", "--reverse", &format!("{before}..{after}")])?;
    let mut candidates: Vec<String> = between.lines().map(str::to_owned).collect();
    if candidates.last() != Some(&after) {
        // The revision is on another branch: the two can be compared, but no line leads from one to the other.
        candidates = vec![after];
    }
    let search = Search {
        arguments,
        template: template(history, arguments, &row, &shift)?,
        shift: &shift,
        interrupts: &interrupts,
    };
    let cause = match search.run(&before, candidates)? {
        Found::Cause(cause) => cause,
        other => return conclude(&other),
    };
    let note = format!("{} {}", brief(&cause), subject(&cause));
    let mark = Mark {
        kind: MarkKind::Cause,
        run: shift.run.clone(),
        author: String::new(),
        note: note.clone(),
        at_us: wall_clock_us(),
    };
    history.mark(row.id, &mark)?;
    output::result(&format!("the shift was made by {note}"))?;
    Ok(REFUTED)
}

/// The outcome of a search.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// A revision.
    Cause(String),
    /// The gate finds no difference between the revisions on both sides.
    NotTheCode,
    /// A gate came to no answer, so the revision is one of these.
    Among(Vec<String>, u8),
}

fn conclude(found: &Found) -> Outcome {
    match found {
        Found::Among(candidates, code) => {
            let (count, last) =
                (plural(candidates.len(), "revision"), candidates.last().map_or("", |last| brief(last)));
            output::result(&format!(
                "undecided: the shift was made by one of the {count} up to {last}; --budget gives gates more time"
            ))?;
            Ok(*code)
        }
        Found::NotTheCode | Found::Cause(_) => {
            output::result(
                "not the code: the gate finds no such difference between the revisions on both sides of the shift, so something else \
                 changed between the runs",
            )?;
            Ok(HOLDS)
        }
    }
}

/// The series and the shift that are meant.
fn the_shift(
    history: &mut Database,
    arguments: &BisectArguments,
) -> Result<(SeriesRow, Vec<Point>, GradedShift), Failure> {
    let chosen = select(history, &arguments.series, Some(&arguments.metric))?.chosen;
    let at = arguments.at.as_ref().map(|run| history.run(run)).transpose()?.map(|run| run.key);
    let mut found: Option<(SeriesRow, Vec<Point>, GradedShift)> = None;
    for row in chosen {
        let (row, points, trend) = with_trend(history, row)?;
        let meant = |shift: &&GradedShift| {
            at.as_ref().map_or(shift.grade != Grade::Accepted, |run| shift.run == *run)
        };
        let mut shifts: Vec<&GradedShift> = trend.shifts.iter().filter(meant).collect();
        shifts.sort_by_key(|shift| (shift.grade, shift.at));
        if let Some(shift) = shifts.last()
            && found.as_ref().is_none_or(|(_, _, known)| (shift.grade, shift.at) > (known.grade, known.at))
        {
            found = Some((row, points, (*shift).clone()));
        }
    }
    found.ok_or_else(|| {
        let at = at.as_ref().map_or(String::new(), |run| format!(" with run {}", short(run)));
        Failure::usage(format!("there is no shift of {}{at} to bisect", arguments.metric))
    })
}

/// The revisions of the last run before a shift and of the first one with it that have any.
fn revisions(points: &[Point], at: usize) -> Result<(String, String), Failure> {
    let (earlier, later) = points.split_at(at.min(points.len()));
    // Anything else, as in a history that somebody else wrote, must not become an argument of git.
    let commit = |point: &Point| point.revision.clone().filter(|text| is_commit(text));
    let before = earlier.iter().rev().find_map(commit);
    let after = later.iter().find_map(commit);
    before.zip(after).ok_or_else(|| {
        Failure::usage(
            "the runs around the shift have no git revision; `plumb run --record` stores that of the work tree that the experiment is in",
        )
    })
}

fn is_commit(text: &str) -> bool {
    (7..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn brief(revision: &str) -> &str {
    revision.get(..8).unwrap_or(revision)
}

fn subject(revision: &str) -> String {
    let shown = git(Path::new("."), &["show", "--no-patch", "--format=%s", revision]);
    shown.map_or_else(|_| String::new(), |text| text.trim().to_owned())
}

/// A search among revisions.
struct Search<'a> {
    arguments: &'a BisectArguments,
    /// The arguments that all gates share.
    template: GateArguments,
    shift: &'a GradedShift,
    interrupts: &'a Interrupts,
}

impl Search<'_> {
    /// Searches among the revisions after `good` with gates that share the budget.
    fn run(&self, good: &str, candidates: Vec<String>) -> Result<Found, Failure> {
        let folder = self.arguments.output.clone().unwrap_or_else(|| default_directory("bisect"));
        let begun_ns = monotonic_ns();
        halved(good, candidates, |step| {
            let spent_ns = monotonic_ns() - begun_ns;
            let left_ns = self.arguments.budget.0.saturating_sub(spent_ns) / u64::from(step.left.max(1));
            let budget = Span((left_ns / SECOND_NS).max(1) * SECOND_NS);
            let Step { number, good, candidate, .. } = step;
            if !self.arguments.quiet {
                let (before, after) = (brief(good), brief(candidate));
                output::message(&format!("gate {number}: {before} against {after} {}", subject(candidate)));
            }
            self.gate(good, candidate, budget, &folder.join(number.to_string()))
        })
    }

    /// The exit code of a gate: 1 where the later revision has the new level. For a change for the better, it is the earlier one that is
    /// judged.
    fn gate(&self, good: &str, candidate: &str, budget: Span, directory: &Path) -> Outcome {
        let is_better = self.shift.worse == Some(false);
        let (base, head) = if is_better { (candidate, good) } else { (good, candidate) };
        let arguments = GateArguments {
            base: Some(base.to_owned()),
            head: head.to_owned(),
            budget,
            output: Some(directory.to_owned()),
            ..self.template.clone()
        };
        gate::judged(&arguments, self.interrupts)
    }
}

/// One gate of a search.
struct Step<'a> {
    /// From 1.
    number: usize,
    /// How many gates are left, with this one.
    left: u32,
    /// A revision with the old level.
    good: &'a str,
    /// The revision that is tried.
    candidate: &'a str,
}

/// Halves the revisions after `good`, the last of which has the new level, until one is left or a gate does not decide.
fn halved(
    good: &str,
    mut candidates: Vec<String>,
    mut gate: impl FnMut(&Step<'_>) -> Outcome,
) -> Result<Found, Failure> {
    let mut good = good.to_owned();
    let mut left = 1 + steps(candidates.len());
    let mut number = 1;
    let mut probe = candidates.len() - 1;
    loop {
        match gate(&Step { number, left, good: &good, candidate: &candidates[probe] })? {
            REFUTED => candidates.truncate(probe + 1),
            HOLDS if number == 1 => return Ok(Found::NotTheCode),
            HOLDS => good = candidates.drain(..=probe).next_back().unwrap_or(good),
            other => return Ok(Found::Among(candidates, if number == 1 { other } else { UNDECIDED })),
        }
        if candidates.len() == 1 {
            return Ok(Found::Cause(candidates.remove(0)));
        }
        probe = candidates.len() / 2 - 1;
        left = steps(candidates.len());
        number += 1;
    }
}

/// How many halvings leave one candidate.
fn steps(candidates: usize) -> u32 {
    candidates.max(1).next_power_of_two().trailing_zeros()
}

/// The gate without its revisions, budget and directory.
fn template(
    history: &mut Database,
    arguments: &BisectArguments,
    row: &SeriesRow,
    shift: &GradedShift,
) -> Result<GateArguments, Failure> {
    let (command, shell) = match (&arguments.command, &arguments.run) {
        (None, None) => recorded_command(history, row, shift)?,
        (command, _) => (command.clone(), arguments.shell),
    };
    Ok(GateArguments {
        base: None,
        head: String::new(),
        build: arguments.build.clone(),
        command,
        run: arguments.run.clone(),
        base_command: None,
        head_command: None,
        shell,
        budget: arguments.budget,
        worse_than: arguments.worse_than.unwrap_or_else(|| margin(shift)),
        others_max: arguments.others_max,
        metric: vec![row.identity.metric_key()],
        output: None::<PathBuf>,
        format: Format::Text,
        seed: None,
        quiet: arguments.quiet,
    })
}

/// Half of the shift, so that both levels are clear of it.
fn margin(shift: &GradedShift) -> Percent {
    let share =
        if shift.ratio.is_finite() { (shift.ratio.max(1.0 / shift.ratio) - 1.0) / 2.0 } else { MARGIN_MAX };
    // To a tenth of a percent, as a person would write it.
    Percent(((share * 1000.0).round() / 1000.0).clamp(MARGIN_MIN, MARGIN_MAX))
}

/// The command that the variant ran, by the recorded run's directory.
fn recorded_command(
    history: &mut Database,
    row: &SeriesRow,
    shift: &GradedShift,
) -> Result<(Option<String>, bool), Failure> {
    let directory = history.run(&shift.run)?.directory;
    let unknown = |reason: &str| {
        Failure::usage(format!(
            "what to run on each revision is not known: {reason}; give --command, or --run with an experiment (see `plumb gate --help`)"
        ))
    };
    let run = report::read_run(Path::new(&directory))
        .map_err(|_| unknown(&format!("{directory} is not there any more")))?;
    let plan = &run.header.plan;
    if plan.path != "command" {
        return Err(unknown(&format!("the data path of {} is {}", plan.name, plan.path)));
    }
    let variant = plan.variants.iter().position(|variant| variant.name == row.identity.variant);
    let cell = plan.cells.iter().find(|cell| cell.label() == row.identity.cell);
    let planned = cell.and_then(|cell| cell.variants.iter().find(|planned| Some(planned.variant) == variant));
    let settings: Option<Value> = planned.and_then(|planned| serde_json::from_str(&planned.settings).ok());
    let load = settings.as_ref().map_or(&Value::Null, |settings| &settings["load"]);
    if let Some(key) = BEYOND_GATE.into_iter().find(|key| !load[key].is_null()) {
        return Err(unknown(&format!("the load has `{key}`, for which a gate's command has no place")));
    }
    let command = load["command"].as_str().ok_or_else(|| unknown("the run has no such variant"))?;
    output::message(&format!("the recorded run's command, in the directory of each revision: {command}"));
    Ok((Some(command.to_owned()), load["shell"] == "sh"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_commit_is_handed_to_git() {
        assert!(is_commit("1a2b3c4d") && is_commit(&"0".repeat(40)));
        for wrong in ["", "HEAD", "--output=x", "1a2b3c4d..", "123456"] {
            assert!(!is_commit(wrong), "{wrong}");
        }
    }

    /// Searches among this many revisions after `0`, with gates that end so.
    fn search(revisions: usize, mut gate: impl FnMut(usize, usize) -> u8) -> (Found, usize) {
        let candidates = (1..=revisions).map(|revision| revision.to_string()).collect();
        let mut gates = 0;
        let found = halved("0", candidates, |step| {
            gates += 1;
            assert_eq!(step.number, gates);
            Ok(gate(step.good.parse().unwrap(), step.candidate.parse().unwrap()))
        });
        (found.unwrap(), gates)
    }

    #[test]
    fn the_revision_that_made_a_shift_is_found_among_any_number() {
        for revisions in 1..=17 {
            for cause in 1..=revisions {
                let tells =
                    |good, candidate| if good < cause && cause <= candidate { REFUTED } else { HOLDS };
                let (found, gates) = search(revisions, tells);
                assert_eq!(found, Found::Cause(cause.to_string()), "of {revisions}");
                assert!(gates <= 1 + steps(revisions) as usize, "{gates} gates for {revisions}");
            }
        }
    }

    #[test]
    fn a_gate_that_does_not_decide_ends_the_search() {
        assert_eq!(search(4, |_, _| HOLDS), (Found::NotTheCode, 1));
        let all = Found::Among((1..=4).map(|revision| revision.to_string()).collect(), 4);
        assert_eq!(search(4, |_, _| 4), (all, 1));
        let half = Found::Among(vec!["1".to_owned(), "2".to_owned()], UNDECIDED);
        let later = |_, candidate| match candidate {
            4 | 2 => REFUTED,
            _ => 4,
        };
        assert_eq!(search(4, later), (half, 3));
    }

    #[test]
    fn halving_takes_as_many_steps_as_it_must() {
        assert_eq!([1, 2, 3, 4, 5, 8, 9].map(steps), [0, 1, 2, 2, 3, 3, 4]);
    }
}
