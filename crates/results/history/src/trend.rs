//! Level shifts of a series, graded by certainty, with the shifts that users accepted set apart.

use plumb_model::Better;
use plumb_stats::Shifts;

use crate::types::{Mark, MarkKind, Point};

/// How many points are judged: the last ones of a longer series. Finding shifts takes time quadratic in their
/// number.
pub const TREND_POINTS_MAX: usize = 1000;

/// How many runs a mark may lie from the shift that it accepts. A suspected shift may move as runs are added,
/// and an accepted one as runs are recorded late.
const NEAR: usize = 5;

/// How certain a level shift is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// A test of the whole series finds it likely. Many tests of a series that never changed find some such
    /// shifts.
    Suspected,
    /// The confidence sequences before and after it exclude each other. Chance rarely causes that, however
    /// often the series is tested.
    Confirmed,
    /// A user accepted it.
    Accepted,
}

impl Grade {
    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Suspected => "suspected",
            Self::Confirmed => "confirmed",
            Self::Accepted => "accepted",
        }
    }
}

/// A shift of the level.
#[derive(Debug, Clone, PartialEq)]
pub struct GradedShift {
    /// How certain it is.
    pub grade: Grade,
    /// The index of the first point of the new level.
    pub at: usize,
    /// The key of that point's run.
    pub run: String,
    /// The level before, in the series' unit: a geometric mean where all values are above 0.
    pub from_level: f64,
    /// The level after.
    pub to_level: f64,
    /// `to_level` over `from_level`; not finite if `from_level` is 0.
    pub ratio: f64,
    /// Whether the new level is worse; `None` if neither direction is.
    pub worse: Option<bool>,
    /// Whether later confirmed shifts reversed more than half of it.
    pub undone: bool,
    /// The index of the point that confirmed it; `None` if it was only suspected.
    pub seen_at: Option<usize>,
    /// Why it was accepted.
    pub note: String,
    /// The person who accepted it.
    pub author: String,
}

impl GradedShift {
    /// Whether it is a lasting change for the worse that nobody accepted.
    #[must_use]
    pub fn is_open_worsening(&self) -> bool {
        self.grade != Grade::Accepted && self.worse == Some(true) && !self.undone
    }
}

/// The level of a series and its shifts, judged from its points.
#[derive(Debug, Clone, PartialEq)]
pub struct Trend {
    /// The shifts, the oldest first.
    pub shifts: Vec<GradedShift>,
    /// Why a shift could not be confirmed, or why nothing could be judged, in a sentence.
    pub unjudged: Option<String>,
    /// The level since the last shift, in the series' unit; `None` without points.
    pub level: Option<f64>,
    /// The index of the first point that was judged.
    pub judged_from: usize,
}

impl Trend {
    /// Whether a confirmed change for the worse is neither accepted nor reversed.
    #[must_use]
    pub fn alarm(&self) -> bool {
        self.shifts.iter().any(|shift| shift.grade == Grade::Confirmed && shift.is_open_worsening())
    }

    /// Whether something is open: a change for the worse, or a shift that could not be judged.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.unjudged.is_some() || self.shifts.iter().any(GradedShift::is_open_worsening)
    }
}

/// Finds the shifts among points, which must be in order of time. If all values are above 0, changes count as
/// factors.
#[must_use]
pub fn trend(better: Better, points: &[Point], marks: &[Mark]) -> Trend {
    let judged_from = points.len().saturating_sub(TREND_POINTS_MAX);
    let values: Vec<f64> = points[judged_from..].iter().map(|point| point.value).collect();
    let scale = Scale::for_values(&values);
    let scaled: Vec<f64> = values.iter().map(|value| scale.scaled(*value)).collect();
    let found = match plumb_stats::shifts(&scaled) {
        Ok(found) => found,
        Err(unusable) => return unusable_series(&unusable, judged_from),
    };
    let mut shifts = graded(&found, scale, better);
    for shift in &mut shifts {
        shift.at += judged_from;
        shift.seen_at = shift.seen_at.map(|at| at + judged_from);
        shift.run = points.get(shift.at).map(|point| point.run.clone()).unwrap_or_default();
    }
    accept(&mut shifts, points, marks);
    let accepted = |at: usize| {
        shifts.iter().any(|shift| shift.grade == Grade::Accepted && shift.at.abs_diff(at) <= NEAR)
    };
    let unjudged = found.judgeable.err().filter(|not| !accepted(not.at + judged_from)).map(|not| {
        format!(
            "the level may have shifted {} ago, but each run is too much like the one before to tell (correlation {:.2})",
            runs(values.len() - not.at.min(values.len())),
            not.correlation
        )
    });
    let last = shifts.last().map_or(judged_from, |shift| shift.at);
    let level = plumb_stats::median(&points[last..].iter().map(|point| point.value).collect::<Vec<_>>());
    Trend { shifts, unjudged, level, judged_from }
}

fn runs(count: usize) -> String {
    if count == 1 { "1 run".to_owned() } else { format!("{count} runs") }
}

fn unusable_series(unusable: &plumb_stats::Unusable, judged_from: usize) -> Trend {
    let unjudged = Some(format!("nothing can be judged: {unusable}"));
    Trend { shifts: Vec::new(), unjudged, level: None, judged_from }
}

/// The scale on which a series is judged.
#[derive(Clone, Copy)]
enum Scale {
    Log,
    Plain,
}

impl Scale {
    fn for_values(values: &[f64]) -> Self {
        if values.iter().all(|value| *value > 0.0) { Self::Log } else { Self::Plain }
    }

    fn scaled(self, value: f64) -> f64 {
        match self {
            Self::Log => value.ln(),
            Self::Plain => value,
        }
    }

    fn unscaled(self, scaled: f64) -> f64 {
        match self {
            Self::Log => scaled.exp(),
            Self::Plain => scaled,
        }
    }
}

fn graded(found: &Shifts, scale: Scale, better: Better) -> Vec<GradedShift> {
    let shift = |grade, at: usize, (before, after): (f64, f64), seen_at| {
        let (from_level, to_level) = (scale.unscaled(before), scale.unscaled(after));
        GradedShift {
            grade,
            at,
            run: String::new(),
            from_level,
            to_level,
            ratio: to_level / from_level,
            worse: match better {
                Better::Higher => Some(after < before),
                Better::Lower => Some(after > before),
                Better::Neither => None,
            },
            undone: false,
            seen_at,
            note: String::new(),
            author: String::new(),
        }
    };
    let levels: Vec<(f64, f64)> =
        found.confirmed.iter().map(|found| (found.before.estimate, found.after.estimate)).collect();
    let mut shifts: Vec<GradedShift> = Vec::new();
    for (at, found) in found.confirmed.iter().enumerate() {
        let mut confirmed = shift(Grade::Confirmed, found.at, levels[at], Some(found.seen));
        confirmed.undone = levels[at + 1..].last().is_some_and(|(_, now)| is_undone(levels[at], *now));
        shifts.push(confirmed);
    }
    let suspected = found.suspected.iter().map(|found| (found.at, (found.before, found.after)));
    shifts.extend(suspected.map(|(at, levels)| shift(Grade::Suspected, at, levels, None)));
    shifts.sort_by_key(|shift| shift.at);
    shifts
}

/// Whether the level is back on the earlier side of the midpoint between the levels before and after a shift.
fn is_undone((before, after): (f64, f64), now: f64) -> bool {
    let middle = f64::midpoint(before, after);
    (now < middle) == (before < middle)
}

/// Each mark accepts the nearest shift; at the same distance, a confirmed shift before a suspected one.
fn accept(shifts: &mut [GradedShift], points: &[Point], marks: &[Mark]) {
    for mark in marks.iter().filter(|mark| mark.kind == MarkKind::Accepted) {
        let Some(at) = points.iter().position(|point| point.run == mark.run) else { continue };
        let near =
            shifts.iter_mut().filter(|shift| shift.grade != Grade::Accepted && shift.at.abs_diff(at) <= NEAR);
        let nearest = near.min_by_key(|shift| (shift.at.abs_diff(at), shift.grade == Grade::Suspected));
        if let Some(shift) = nearest {
            shift.grade = Grade::Accepted;
            shift.note.clone_from(&mark.note);
            shift.author.clone_from(&mark.author);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plumb_model::SplitMix;

    /// Points around the levels, with about 1% of noise that is the same in every test.
    fn points(levels: &[(usize, f64)]) -> Vec<Point> {
        let mut dice = SplitMix::new(7);
        let mut uniform = || dice.draw() as f64 / u64::MAX as f64 - 0.5;
        let values = levels.iter().flat_map(|(count, level)| std::iter::repeat_n(*level, *count));
        let noisy: Vec<f64> = values.map(|level| level * (1.0 + 0.03 * uniform())).collect();
        let point = |(at, value): (usize, f64)| Point {
            run: format!("run{at}"),
            started_at_us: at as i64,
            revision: None,
            value,
            low: None,
            high: None,
            n: 6,
        };
        noisy.into_iter().enumerate().map(point).collect()
    }

    fn accepted(run: usize) -> Mark {
        let (author, note) = ("ann".to_owned(), "the new default".to_owned());
        Mark { kind: MarkKind::Accepted, run: format!("run{run}"), author, note, at_us: 0 }
    }

    #[test]
    fn a_shift_is_confirmed_once_and_silent_once_it_is_accepted() {
        let points = points(&[(30, 100.0), (30, 130.0)]);
        let found = trend(Better::Lower, &points, &[]);
        let [shift] = &found.shifts[..] else { panic!("{found:?}") };
        assert_eq!((shift.grade, shift.worse), (Grade::Confirmed, Some(true)));
        assert!(shift.at.abs_diff(30) <= 1 && shift.run == format!("run{}", shift.at), "{shift:?}");
        assert!((shift.ratio - 1.3).abs() < 0.02 && shift.seen_at > Some(shift.at), "{shift:?}");
        assert!((found.level.unwrap() - 130.0).abs() < 2.0 && found.alarm() && found.is_open());
        let better = trend(Better::Higher, &points, &[]);
        assert!(!better.alarm() && !better.is_open() && better.shifts.len() == 1);
        let neither = trend(Better::Neither, &points, &[]);
        assert!(!neither.alarm() && neither.shifts[0].worse.is_none());
        let silent = trend(Better::Lower, &points, &[accepted(shift.at + 2)]);
        let [shift] = &silent.shifts[..] else { panic!("{silent:?}") };
        assert_eq!(
            (shift.grade, shift.note.as_str(), shift.author.as_str()),
            (Grade::Accepted, "the new default", "ann")
        );
        assert!(!silent.alarm() && !silent.is_open());
        let elsewhere = trend(Better::Lower, &points, &[accepted(10)]);
        assert!(elsewhere.alarm());
    }

    #[test]
    fn one_mark_accepts_one_shift() {
        let points = points(&[(30, 100.0), (30, 130.0), (30, 170.0)]);
        let found = trend(Better::Lower, &points, &[accepted(30)]);
        let grades: Vec<Grade> = found.shifts.iter().map(|shift| shift.grade).collect();
        assert_eq!(grades, [Grade::Accepted, Grade::Confirmed], "{found:?}");
        assert!(found.alarm());
    }

    #[test]
    fn a_shift_that_was_taken_back_raises_no_alarm() {
        let found = trend(Better::Lower, &points(&[(30, 100.0), (30, 130.0), (30, 102.0)]), &[]);
        let undone: Vec<bool> = found.shifts.iter().map(|shift| shift.undone).collect();
        assert_eq!(undone, [true, false], "{found:?}");
        assert!(!found.alarm() && !found.is_open());
        let partly = trend(Better::Lower, &points(&[(30, 100.0), (30, 130.0), (30, 122.0)]), &[]);
        assert!(partly.alarm(), "{partly:?}");
    }

    #[test]
    fn what_never_changes_and_what_has_few_points_has_no_shift() {
        for count in [0, 1, 4, 60] {
            let found = trend(Better::Lower, &points(&[(count, 5.0)]), &[]);
            assert_eq!((found.shifts.len(), found.is_open()), (0, false), "{found:?}");
            assert_eq!(found.level.is_some(), count > 0);
        }
    }

    #[test]
    fn a_long_series_is_judged_by_its_last_points() {
        let found =
            trend(Better::Lower, &points(&[(40, 50.0), (TREND_POINTS_MAX - 20, 100.0), (20, 130.0)]), &[]);
        assert_eq!(found.judged_from, 40);
        let [shift] = &found.shifts[..] else { panic!("{found:?}") };
        assert!(
            shift.at.abs_diff(TREND_POINTS_MAX + 20) <= 1 && shift.run == format!("run{}", shift.at),
            "{shift:?}"
        );
    }

    #[test]
    fn values_that_may_be_0_are_judged_as_they_are() {
        let mut points = points(&[(30, 0.1), (30, 0.5)]);
        points[3].value = 0.0;
        let found = trend(Better::Lower, &points, &[]);
        assert!(found.alarm() && found.shifts[0].to_level > 0.4, "{found:?}");
    }
}
