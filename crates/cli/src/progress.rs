//! Progress of a run on standard error: one live line on a terminal, plain lines elsewhere.

use std::collections::BTreeSet;

use plumb_model::event::{PuttingBack, TimeLeft};
use plumb_model::{ClaimVerdict, Event, Plan, SlotOutcome, Verdict, failure_kind};

use crate::live::{LiveLine, pace};
use crate::output;

/// The work that an interrupted measurement finishes before it ends. A single measurement has one system, whose name tells nothing.
pub fn putting_back(what: &PuttingBack, is_single: bool) -> String {
    match what {
        PuttingBack::System { name, at_most } => {
            let of = if is_single { String::new() } else { format!(" of {name}") };
            format!("interrupted; stopping the system{of}, which may take {at_most}")
        }
        PuttingBack::Changes(changes) => format!("interrupted; putting back {}", changes.join(", ")),
    }
}

/// Draws progress from events.
pub struct Progress<'a> {
    quiet: bool,
    live: LiveLine,
    /// Takes a line that stays.
    say: &'a dyn Fn(&str),
    title: String,
    cells: Vec<String>,
    blocks_max: u32,
    marks: String,
    /// The slot that is measured: what stands before and after its pace, and its work and time so far.
    slot: (String, String),
    done: (u64, u64),
    /// Failures that were reported already, by variant and reason without its digits.
    said: BTreeSet<(String, String)>,
}

impl<'a> Progress<'a> {
    /// Progress of that plan on standard error.
    pub fn new(plan: &Plan, quiet: bool) -> Self {
        Self { quiet, ..Self::told(plan, LiveLine::new(quiet), &output::message) }
    }

    /// Progress of that plan, whose lines that stay go to `say`.
    pub fn told(plan: &Plan, live: LiveLine, say: &'a dyn Fn(&str)) -> Self {
        Self {
            quiet: false,
            live,
            say,
            title: plan.title.clone(),
            cells: plan.cells.iter().map(plumb_model::Cell::label).collect(),
            blocks_max: plan.blocks.max,
            marks: "?".repeat(plan.claims.len()),
            slot: (String::new(), String::new()),
            done: (0, 0),
            said: BTreeSet::new(),
        }
    }

    /// Shows one event.
    pub fn show(&mut self, event: &Event) {
        if self.quiet {
            return;
        }
        match event {
            Event::RunStarted { directory, seed, resumed_slots } => {
                self.started(directory, *seed, *resumed_slots)
            }
            Event::VariantSkipped { variant, reason } => self.line(&format!("skipped {variant}: {reason}")),
            Event::SlotStarted { cell, block, position, of, variant, left_s } => {
                self.slot(*cell, *block, (*position, *of), variant, *left_s);
            }
            Event::WindowAgreed { .. } => {}
            Event::SlotProgress { work, elapsed_ns, in_flight } => {
                self.progress((*work, *elapsed_ns), *in_flight);
            }
            Event::VariantTried { cell, position, of, variant } => {
                self.tried(*cell, *position, *of, variant);
            }
            Event::TrialFailed { variant, reason, is_lasting } => self.failed(
                variant,
                reason,
                match is_lasting {
                    true => "; retrying cannot help: the variant is void and is not measured",
                    false => "; the run measures it anyway, and each failed slot counts against its claims",
                },
            ),
            Event::CellGivenUp { cell, reason } => {
                self.line(&format!(
                    "{}given up after its first block: failed to measure {reason}",
                    self.cell(*cell)
                ));
            }
            Event::SlotRetried { variant, reason } => {
                self.line(&format!(
                    "measuring again, because the cause lies outside the run: {variant} failed to {reason}"
                ));
            }
            Event::SlotFinished { slot } => {
                if let SlotOutcome::Failed { reason, .. } = &slot.outcome {
                    self.failed(&slot.variant, reason, "; the slot counts as failed");
                }
            }
            Event::BlockJudged { cell, blocks, verdicts } => self.judged(*cell, *blocks, verdicts),
            Event::PuttingBack(what) => self.line(&putting_back(what, false)),
            Event::RunFinished { interrupted } => {
                self.live.clear();
                if *interrupted {
                    (self.say)("interrupted; the report rests on the slots so far");
                }
            }
        }
    }

    fn started(&self, directory: &str, seed: u64, resumed: usize) {
        let slots = plumb_report::plural(resumed, "slot");
        let again = if resumed > 0 { format!(", {slots} from before") } else { String::new() };
        self.line(&format!("{} · seed {seed} · {directory}{again}", self.title));
    }

    /// Says once why a variant fails, however often it does.
    fn failed(&mut self, variant: &str, reason: &str, consequence: &str) {
        if self.said.insert((variant.to_owned(), failure_kind(reason))) {
            self.line(&format!("{variant} failed to {reason}{consequence}"));
        }
    }

    fn tried(&mut self, cell: usize, position: u32, of: u32, variant: &str) {
        let cell = self.cell(cell);
        if self.live.is_shown() {
            let place = format!("{cell}trying out {variant}, {} of {of}", position + 1);
            self.slot = (place, "not measured yet".to_owned());
            self.done = (0, 0);
            self.live.show(&format!("{}; {}", self.slot.0, self.slot.1));
        } else if position == 0 {
            let variants = if of == 1 { "the variant".to_owned() } else { format!("{of} variants") };
            self.line(&format!("{cell}trying out {variants} before the first block"));
        }
    }

    fn slot(&mut self, cell: usize, block: u32, (position, of): (u32, u32), variant: &str, left: TimeLeft) {
        let place = format!(
            "{}block {} of {}, slot {} of {of}: {variant}",
            self.cell(cell),
            block + 1,
            self.blocks_max,
            position + 1
        );
        self.slot = (place, rest(&self.marks, left));
        self.done = (0, 0);
        self.live.show(&format!("{} · {}", self.slot.0, self.slot.1));
    }

    /// The slot's line with the rate since the progress before, and the time of each unit where it is known.
    fn progress(&mut self, now: (u64, u64), in_flight: Option<f64>) {
        let before = std::mem::replace(&mut self.done, now);
        self.live.show(&progress_in_words(&self.slot, before, now, in_flight));
    }

    fn judged(&mut self, cell: usize, blocks: u32, verdicts: &[ClaimVerdict]) {
        self.marks = verdicts
            .iter()
            .filter(|verdict| verdict.cell == cell)
            .map(|verdict| mark(verdict.verdict))
            .collect();
        if !self.live.is_shown() {
            let counts =
                [Verdict::Holds, Verdict::Refuted, Verdict::Undecided, Verdict::Void, Verdict::Skipped].map(
                    |wanted| {
                        let count = verdicts.iter().filter(|v| v.cell == cell && v.verdict == wanted).count();
                        (count > 0).then(|| format!("{count} {}", wanted.word()))
                    },
                );
            let counts: Vec<String> = counts.into_iter().flatten().collect();
            self.line(&format!(
                "{}block {blocks} of at most {}: {}",
                self.cell(cell),
                self.blocks_max,
                if counts.is_empty() { "no claims".to_owned() } else { counts.join(", ") }
            ));
        }
    }

    fn cell(&self, cell: usize) -> String {
        match self.cells.get(cell).map(String::as_str) {
            None | Some("") => String::new(),
            Some(label) => format!("[{} of {}: {label}] ", cell + 1, self.cells.len()),
        }
    }

    fn line(&self, text: &str) {
        self.live.clear();
        (self.say)(text);
    }
}

/// The text after a slot's pace: the verdicts so far, and the time that is left.
fn rest(marks: &str, left: TimeLeft) -> String {
    let marks = if marks.is_empty() { String::new() } else { format!("{marks} · ") };
    format!("{marks}about {} left, {} at most", time(left.probably_s), time(left.at_most_s))
}

fn progress_in_words(
    (place, rest): &(String, String),
    before: (u64, u64),
    now: (u64, u64),
    in_flight: Option<f64>,
) -> String {
    let pace = pace(before, now, in_flight).unwrap_or_else(|| "0/s".to_owned());
    format!("{place} · {pace} · {rest}")
}

fn mark(verdict: Verdict) -> char {
    match verdict {
        Verdict::Holds => '✔',
        Verdict::Refuted => '✘',
        Verdict::Undecided => '?',
        Verdict::Void => '∅',
        Verdict::Skipped => '–',
    }
}

fn time(seconds: f64) -> String {
    if seconds < 100.0 {
        return format!("{seconds:.0} s");
    }
    let minutes = (seconds / 60.0).round();
    if minutes < 100.0 { format!("{minutes:.0} min") } else { format!("{:.1} h", seconds / 3600.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_shows_its_pace_within_its_line() {
        let left = TimeLeft { probably_s: 60.0, at_most_s: 120.0 };
        assert_eq!(rest("", left), "about 60 s left, 2 min at most");
        let slot = ("block 1 of 20, slot 2 of 4: a".to_owned(), rest("??", left));
        let words = |before, now| progress_in_words(&slot, before, now, Some(20.0));
        assert_eq!(
            words((0, 0), (4000, 1_000_000_000)),
            "block 1 of 20, slot 2 of 4: a · 4000/s, about 5.000 ms each · ?? · about 60 s left, 2 min at most"
        );
        assert_eq!(
            words((4000, 1_000_000_000), (4000, 2_000_000_000)),
            "block 1 of 20, slot 2 of 4: a · 0/s · ?? · about 60 s left, 2 min at most"
        );
    }
}
