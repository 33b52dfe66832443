//! `plumb gate`: is one build worse than another, by more than a margin, on this machine?
//!
//! It checks out and builds two revisions, measures the machine's noise first, plans as many blocks as the budget has room for,
//! and runs them as any other experiment. Its claims ask that the head be not worse by more than the margin.

mod directory;
mod made;
mod subject;
#[cfg(test)]
mod tests;
mod trees;

use std::path::{Path, PathBuf};
use std::time::Duration;

use plumb_experiment::Experiment;
use plumb_host::signals::Interrupts;
use plumb_host::time::monotonic_ns;
use plumb_judge::judge;
use plumb_model::{Blocks, Judgement, Operand, Plan, PlannedVariant, Run, Span, Variant, Verdict};
use plumb_places::{HostClock, Hosts, Patience};
use plumb_report::{figures, plural};
use plumb_runner::{Planned, prepare};
use plumb_stats::{Level, Looks, blocks_to_detect, detectable};

use self::made::Made;
use self::subject::Subject;
use crate::args::{BLOCKS_MAX, Format, GateArguments};
use crate::commands::report::{print, write_all};
use crate::commands::run::{raise_limits, session};
use crate::exit::{self, Failure, INTERRUPTED, Outcome};
use crate::output;
use crate::progress::Progress;

/// How many blocks the noise is taken from: eight slots of the base.
const NOISE_BLOCKS: u32 = 2;
/// A verdict takes this many blocks.
const BLOCKS_MIN: u32 = 6;
/// More blocks than this gain little.
const BLOCKS_ENOUGH: u32 = 60;

/// Compares two builds.
pub fn gate(arguments: &GateArguments) -> Outcome {
    let interrupts = Interrupts::install().map_err(Failure::harness)?;
    judged(arguments, &interrupts)
}

/// Compares two builds for a command that waits for Ctrl-C itself.
pub fn judged(arguments: &GateArguments, interrupts: &Interrupts) -> Outcome {
    let made = Made::prepare(arguments.output.as_deref())?;
    let directory = made.path().to_owned();
    let subject = Subject::prepare(arguments, &directory, interrupts)?;
    let gate = Gate { arguments, subject, directory, interrupts, began_ns: monotonic_ns() };
    let noise = gate.noise()?;
    let run = gate.measure(&noise)?;
    gate.conclude(&run, &noise)
}

struct Gate<'a> {
    arguments: &'a GateArguments,
    subject: Subject,
    directory: PathBuf,
    interrupts: &'a Interrupts,
    began_ns: u64,
}

/// The noise of the machine in the first slots, and the number of blocks that fit into the budget.
struct Noise {
    /// The standard deviation of a block's log ratio, by the noisiest metric that is claimed.
    s: f64,
    /// How long a block takes, in seconds.
    block_s: f64,
    /// How many blocks of each cell the rest of the budget has room for.
    blocks: u32,
    cells: usize,
    alpha: f64,
}

impl Noise {
    fn level(&self, blocks: u32) -> Level {
        let looks = Looks::Planned { first: BLOCKS_MIN as usize, last: blocks as usize };
        Level { alpha: self.alpha, looks }
    }

    /// The smallest difference that will probably be found, as a share.
    fn detectable(&self) -> f64 {
        detectable(self.s, self.level(self.blocks), self.blocks as usize).exp_m1()
    }

    /// The budget that would probably show a difference of `share`, or equality within it.
    fn budget_s(&self, share: f64) -> Option<f64> {
        let range = (BLOCKS_MIN as usize, BLOCKS_MAX as usize);
        let blocks = blocks_to_detect(share.ln_1p(), self.s, self.alpha, range)?;
        Some((blocks as f64 * self.cells as f64 + f64::from(NOISE_BLOCKS)) * self.block_s)
    }
}

impl Gate<'_> {
    fn elapsed_s(&self) -> f64 {
        Duration::from_nanos(monotonic_ns() - self.began_ns).as_secs_f64()
    }

    /// Measures the base against itself.
    fn noise(&self) -> Result<Noise, Failure> {
        let plan = &self.subject.experiment.plan;
        let planned = planned(self.base_twice())?;
        self.say("measuring the noise of this machine: the base against itself");
        let run = self.run(planned, &self.directory.join("noise"))?;
        let spreads = plan
            .claims
            .iter()
            .filter_map(|claim| plumb_judge::spread(&run, &claim.left.metric, claim.left.statistic));
        let Some(s) = spreads.reduce(f64::max) else {
            return Err(Failure::usage(format!(
                "the base gave no values of {}, so nothing can be compared",
                plan.claims.first().map_or_else(String::new, |claim| claim.left.metric.clone())
            )));
        };
        let (cells, block_s) = (plan.cells.len(), run.took_s.unwrap_or_default() / f64::from(NOISE_BLOCKS));
        let left_s = seconds(self.arguments.budget) - self.elapsed_s();
        let blocks = (left_s / block_s / cells as f64).max(0.0) as u32;
        let noise = Noise { s, block_s, blocks: blocks.min(BLOCKS_ENOUGH), cells, alpha: plan.alpha_each() };
        self.foretell(&noise)?;
        Ok(noise)
    }

    /// The base and a copy of it, without a claim.
    fn base_twice(&self) -> Experiment {
        let mut experiment = self.subject.experiment.clone();
        let plan = &mut experiment.plan;
        plan.variants.truncate(1);
        plan.variants.push(Variant { control: true, ..Variant::new("control") });
        plan.claims.clear();
        plan.blocks = Blocks { min: NOISE_BLOCKS, max: NOISE_BLOCKS };
        for (cell, settings) in plan.cells.iter_mut().zip(&mut experiment.settings) {
            cell.variants.truncate(1);
            cell.variants.push(PlannedVariant { variant: 1, ..cell.variants[0].clone() });
            settings.truncate(1);
            settings.push(settings[0].clone());
        }
        experiment
    }

    /// Says what the budget can show, and refuses one that can show nothing.
    fn foretell(&self, noise: &Noise) -> Result<(), Failure> {
        if noise.blocks < BLOCKS_MIN {
            let least_s =
                noise.block_s * (f64::from(BLOCKS_MIN) * noise.cells as f64 + f64::from(NOISE_BLOCKS));
            return Err(Failure::usage(format!(
                "the budget of {} has room for {} of {} each, and a verdict takes {BLOCKS_MIN}; give --budget {:.0}s or more",
                self.arguments.budget,
                plural(noise.blocks as usize, "block"),
                figures::duration_s(noise.block_s),
                (least_s * 1.2).ceil()
            )));
        }
        self.say(&format!(
            "noise: a block's ratio varies by {}; {} fit into the budget and will probably show differences of {} or more",
            figures::share_coarse(noise.s.exp_m1()),
            plural(noise.blocks as usize, "block"),
            figures::share_coarse(noise.detectable())
        ));
        let margin = self.arguments.worse_than.0;
        if noise.detectable() > margin {
            self.say(&format!(
                "that is more than --worse-than {}: equal builds will probably stay undecided{}",
                self.arguments.worse_than,
                self.remedy(noise)
            ));
        }
        Ok(())
    }

    /// The flags that would decide more, as the end of a sentence. A margin is advised only where it is wider than the one at hand.
    fn remedy(&self, noise: &Noise) -> String {
        let (margin, budget_s) = (self.arguments.worse_than.0, seconds(self.arguments.budget));
        let wider =
            (noise.detectable() > margin).then(|| format!("--worse-than {:.1}%", noise.detectable() * 100.0));
        let longer = noise.budget_s(margin).filter(|needed_s| *needed_s > budget_s);
        let longer = longer.map(|needed_s| format!("--budget {:.0}s", (needed_s * 1.1).ceil()));
        let advice: Vec<String> = longer.into_iter().chain(wider).collect();
        if advice.is_empty() {
            let more_s = (2.0 * budget_s).ceil();
            return format!("; --budget {more_s:.0}s would say more");
        }
        format!("; {} would probably decide", advice.join(" or "))
    }

    fn measure(&self, noise: &Noise) -> Result<Run, Failure> {
        let left_s = (seconds(self.arguments.budget) - self.elapsed_s()).max(1.0);
        let mut experiment = self.subject.experiment.clone();
        experiment.plan.blocks = Blocks { min: BLOCKS_MIN, max: noise.blocks };
        let budget_ns = Duration::from_secs_f64(left_s).as_nanos().try_into().unwrap_or(u64::MAX);
        experiment.plan.budget_ns = Some(budget_ns);
        self.run(planned(experiment)?, &self.directory)
    }

    fn run(&self, planned: Planned, directory: &Path) -> Result<Run, Failure> {
        raise_limits(&planned);
        let mut progress = Progress::new(planned.plan(), self.arguments.quiet);
        let mut emit = |event: &plumb_model::Event| progress.show(event);
        let interrupted = || self.interrupts.is_interrupted();
        let build = crate::commands::version::own_build()?;
        let patience = Patience { clock: &HostClock, interrupted: &interrupted };
        let session = session(&build, &mut emit, patience)?;
        let run = session.start(planned, directory).map_err(crate::commands::run::failure)?;
        if run.ending == Some(plumb_model::Ending::Interrupted) {
            return Err(Failure { code: INTERRUPTED, ..Failure::usage("interrupted: nothing is decided") });
        }
        Ok(run)
    }

    fn conclude(&self, run: &Run, noise: &Noise) -> Outcome {
        let judgement = judge(&run.header.plan, &run.slots);
        let page = write_all(run, &judgement, &self.directory)?;
        let code = exit::of_run(run, &judgement);
        let headline = self.headline(code, run, &judgement, noise);
        match self.arguments.format {
            Format::Text => {
                print(run, &judgement, Format::Text, false)?;
                output::result(&headline)?;
            }
            Format::Markdown => {
                let report = plumb_report::markdown(run, &judgement);
                output::result(&format!(
                    "**{headline}**\n\n<details><summary>How it was measured</summary>\n\n{report}\n</details>\n"
                ))?;
            }
            other => print(run, &judgement, other, false)?,
        }
        self.say(&format!("report: {}", page.display()));
        Ok(code)
    }

    fn headline(&self, code: u8, run: &Run, judgement: &Judgement, noise: &Noise) -> String {
        let [base, head] = &self.subject.names;
        let margin = self.arguments.worse_than;
        let ratios = ratios(&run.header.plan, judgement);
        match code {
            exit::HOLDS => format!("not worse: {head} is at most {margin} worse than {base}: {ratios}"),
            exit::REFUTED => format!("worse: {head} is more than {margin} worse than {base}: {ratios}"),
            exit::UNDECIDED => format!(
                "undecided: whether {head} is more than {margin} worse than {base}: {ratios}{}",
                self.remedy(noise)
            ),
            _ => {
                let reason = judgement.claims.iter().find(|claim| claim.verdict == Verdict::Void);
                let reason = reason.map_or("see the report", |claim| claim.reason.as_str());
                format!("not comparable: {head} with {base}: {reason}")
            }
        }
    }

    fn say(&self, text: &str) {
        if !self.arguments.quiet {
            output::message(text);
        }
    }
}

fn planned(experiment: Experiment) -> Result<Planned, Failure> {
    let planned = prepare(experiment, Hosts::default()).map_err(Failure::harness)?;
    match planned.hopeless() {
        Some(reason) => Err(Failure::usage(reason)),
        None => Ok(planned),
    }
}

fn seconds(span: Span) -> f64 {
    Duration::from_nanos(span.0).as_secs_f64()
}

/// `wall_time.avg ×1.052 [1.031, 1.074]`, for each claim on a ratio.
fn ratios(plan: &Plan, judgement: &Judgement) -> String {
    let shown = judgement.claims.iter().filter_map(|found| {
        let claim = &plan.claims[found.claim];
        matches!(claim.right, Operand::Term { .. }).then_some(())?;
        let metric = plumb_model::metric_key(&claim.left.metric, claim.left.statistic);
        let effect = figures::effect(found.ratio?, found.low.unwrap_or(0.0), found.high);
        let cell = plan.cells[found.cell].label();
        Some(if cell.is_empty() {
            format!("{metric} {effect}")
        } else {
            format!("{metric} at {cell} {effect}")
        })
    });
    let mut shown: Vec<String> = shown.collect();
    shown.dedup();
    shown.join(", ")
}
