//! `plumb history trend`: charts of series, and the shifts of their levels.

use plumb_history::{Database, Grade, GradedShift, Point, SeriesIdentity, SeriesRow, Trend};
use plumb_report::figures::digits;
use plumb_report::sheet::{Sheet, Tone};
use plumb_report::{plural, quoted};

use super::chart::{chart, sign};
use super::select::select;
use super::{document, list};
use crate::args::history::TrendArguments;
use crate::commands::recording::short;
use crate::exit::{Failure, HOLDS, Outcome, REFUTED, UNDECIDED};
use crate::output;

/// The chart is not wider than this.
const WIDTH_MAX: usize = 110;

/// Shows trends. The exit code says whether a change for the worse is open.
pub fn trend(history: &mut Database, arguments: &TrendArguments) -> Outcome {
    let selected = select(history, &arguments.series, arguments.metric.as_deref())?;
    let found: Result<Vec<_>, _> = selected.chosen.into_iter().map(|row| with_trend(history, row)).collect();
    let found = found?;
    let experiment = &arguments.series.experiment;
    if arguments.json {
        output::json(&document::trend(experiment, &found, selected.others))?;
    } else {
        let style = output::style(WIDTH_MAX);
        let mut sheet = Sheet::new(&style);
        for (row, points, trend) in &found {
            show(&mut sheet, style.width, row, points, trend);
        }
        if selected.others > 0 {
            sheet.block();
            let others = selected.others;
            let hint = format!(
                "{experiment} has {others} other series; --metric, --variant, --cell and --host choose among them."
            );
            sheet.text(Tone::Quiet, &hint);
        }
        output::painted(&sheet.finish())?;
        advise(&found);
    }
    Ok(code(&found))
}

/// A series with its points and its trend.
pub fn with_trend(history: &mut Database, row: SeriesRow) -> Result<(SeriesRow, Vec<Point>, Trend), Failure> {
    let (points, marks) = (history.points(row.id)?, history.marks(row.id)?);
    let trend = plumb_history::trend(row.identity.better, &points, &marks);
    Ok((row, points, trend))
}

fn code(found: &[(SeriesRow, Vec<Point>, Trend)]) -> u8 {
    if found.iter().any(|(_, _, trend)| trend.alarm()) {
        REFUTED
    } else if found.iter().any(|(_, _, trend)| trend.is_open()) {
        UNDECIDED
    } else {
        HOLDS
    }
}

/// Says how an open change is acknowledged, or traced to its revision.
fn advise(found: &[(SeriesRow, Vec<Point>, Trend)]) {
    let Some((row, _, trend)) = found.iter().find(|(_, _, trend)| trend.alarm()) else { return };
    let mut arguments = row.identity.arguments();
    if let Some(shift) =
        trend.shifts.iter().rev().find(|shift| shift.grade == Grade::Confirmed && shift.is_open_worsening())
    {
        arguments.extend(["--at".to_owned(), short(&shift.run).to_owned()]);
    }
    let options = arguments.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    output::message(&format!("if it is meant to be so: plumb history accept {options} --note WHY"));
    output::message(&format!("what made it: plumb history bisect {options}"));
}

fn show(sheet: &mut Sheet, width: usize, row: &SeriesRow, points: &[Point], trend: &Trend) {
    let of = &row.identity;
    let unit = if of.unit.is_empty() { String::new() } else { format!(" in {}", of.unit) };
    sheet.title(&format!("{}: {}{unit}", of.sides(), of.metric_key()));
    if let (Some(first), Some(last), Some(now)) = (points.first(), points.last(), trend.level) {
        let (first, last) = (list::moment(first.started_at_us), list::moment(last.started_at_us));
        let (first, last) = (first.get(..10).unwrap_or_default(), last.get(..10).unwrap_or_default());
        let runs = plural(points.len(), "run");
        let hosts = if of.host_class.is_empty() { String::new() } else { format!(", {}", of.host_class) };
        sheet.text(
            Tone::Quiet,
            &format!("{runs} from {first} to {last}, now at {}{hosts}", of.with_unit(&digits(now))),
        );
    }
    for line in chart(points, &trend.shifts, width) {
        sheet.line(&line);
    }
    for shift in &trend.shifts {
        let tone = if shift.is_open_worsening() { Tone::Bad } else { Tone::Quiet };
        let sign = sign(shift.grade).to_string();
        sheet.signed(tone, &sign, (shift.grade.word(), 9), &sentence(of, points, shift));
    }
    if trend.shifts.is_empty() {
        sheet.text(Tone::Quiet, "no shift of its level");
    }
    if let Some(reason) = &trend.unjudged {
        sheet.text(Tone::Doubt, reason);
    }
    if trend.judged_from > 0 {
        let judged = points.len() - trend.judged_from;
        sheet.text(Tone::Quiet, &format!("shifts are looked for among the last {}", plural(judged, "run")));
    }
}

/// `worse: ×1.31, from 98 ms to 128 ms, since run 0123abcd of 2026-03-01 (revision 1a2b3c4d), certain 5 runs later`.
fn sentence(of: &SeriesIdentity, points: &[Point], shift: &GradedShift) -> String {
    let direction = match shift.worse {
        Some(true) => "worse",
        Some(false) => "better",
        None => "moved",
    };
    let ratio = if shift.ratio.is_finite() { format!("×{}, ", digits(shift.ratio)) } else { String::new() };
    let (from, to) = (of.with_unit(&digits(shift.from_level)), of.with_unit(&digits(shift.to_level)));
    let mut text = format!("{direction}: {ratio}from {from} to {to}, since run {}", short(&shift.run));
    if let Some(point) = points.get(shift.at) {
        text += &format!(" of {}", list::moment(point.started_at_us).get(..10).unwrap_or_default());
        if let Some(revision) = &point.revision {
            text += &format!(" (revision {})", revision.get(..8).unwrap_or(revision));
        }
    }
    if let Some(seen_at) = shift.seen_at {
        text += &format!(", certain {} later", plural(seen_at.saturating_sub(shift.at), "run"));
    }
    if shift.undone {
        text += ", taken back since";
    }
    if !shift.note.is_empty() || !shift.author.is_empty() {
        let author = if shift.author.is_empty() { String::new() } else { format!(" by {}", shift.author) };
        text += &format!("; accepted{author}: {}", shift.note);
    }
    text.trim_end_matches(": ").to_owned()
}
