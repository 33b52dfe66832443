//! `plumb check`: checks an experiment and shows its plan: cells, variants, what would be skipped and why.

use std::fmt::Write;

use plumb_model::{Claim, Plan, RequiredSaving};
use plumb_runner::{Planned, at_most_s};

use crate::args::CheckArguments;
use crate::commands::{connecting, planning};
use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Prints the plan.
pub fn check(arguments: &CheckArguments) -> Outcome {
    let hosts = || connecting::hosts(&arguments.places);
    let planned = planning::on(&arguments.experiment, &arguments.plan, hosts)?;
    if arguments.json {
        output::json(planned.plan())?;
    } else {
        output::result(&described(&planned))?;
    }
    Ok(HOLDS)
}

/// The plan as text.
pub fn described(planned: &Planned) -> String {
    describe(planned.plan(), planned.hopeless().as_deref())
}

/// The plan as text. `hopeless` is why it cannot run here, if so.
fn describe(plan: &Plan, hopeless: Option<&str>) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{} — {}", plan.name, plan.title);
    let (least, most) = (plan.blocks.min, plumb_report::plural(plan.blocks.max as usize, "block"));
    let blocks = if least == plan.blocks.max { most } else { format!("{least} to {most}") };
    let _ = writeln!(
        text,
        "data path {}, seed {}, {blocks}, window {:.2} s after {:.2} s of warm-up",
        plan.path,
        plan.seed,
        seconds(plan.window_ns),
        seconds(plan.warmup_ns)
    );
    for (index, cell) in plan.cells.iter().enumerate() {
        if !cell.values.is_empty() {
            let _ = writeln!(text, "\ncell {}: {}", index + 1, cell.label());
        } else {
            let _ = writeln!(text);
        }
        let width = plan.variants.iter().map(|variant| variant.name.len()).max().unwrap_or(0);
        for planned in &cell.variants {
            let variant = &plan.variants[planned.variant];
            let role = if planned.variant == plan.baseline { " (baseline)" } else { "" };
            let _ = match &planned.skipped {
                Some(reason) => writeln!(text, "  - {:width$}  skipped: {reason}{role}", variant.name),
                None => writeln!(text, "  + {:width$}  {}{role}", variant.name, variant.treatment),
            };
            if let (None, Some(proof)) = (&planned.skipped, &planned.saving) {
                let _ = writeln!(text, "    {:width$}  {}", "", proof_words(plan, proof));
            }
        }
    }
    let _ = writeln!(text);
    for claim in &plan.claims {
        let _ = match skipped_in(plan, claim) {
            Some(variant) => writeln!(text, "  – {} · skipped, as {variant} is", claim.text),
            None => writeln!(text, "  ? {}", claim.text),
        };
        if let Some(note) = &claim.note {
            let _ = writeln!(text, "    {note}");
        }
    }
    let _ = match hopeless {
        Some(reason) => writeln!(text, "\nIt cannot run here: {reason}."),
        None => writeln!(text, "\n{}", duration_words(plan)),
    };
    text
}

/// The variant because of which a claim cannot be judged: it is skipped in every cell.
fn skipped_in<'a>(plan: &Plan, claim: &'a Claim) -> Option<&'a str> {
    claim.variants().into_iter().find(|name| {
        plan.cells
            .iter()
            .flat_map(|cell| &cell.variants)
            .all(|planned| planned.skipped.is_some() || plan.variants[planned.variant].name != *name)
    })
}

/// How long a run would take.
fn duration_words(plan: &Plan) -> String {
    let slots = plan.cells.iter().map(|cell| {
        let running = cell.variants.iter().filter(|variant| variant.skipped.is_none()).count();
        2 * u64::try_from(running).unwrap_or(u64::MAX)
    });
    let slots_in_a_round: u64 = slots.sum();
    let slot_ns = plan.window_ns + plan.warmup_ns;
    let all_s = |blocks: u32| seconds(slot_ns.saturating_mul(slots_in_a_round * u64::from(blocks)));
    let at_least_s = all_s(plan.blocks.min);
    let at_most_s = at_most_s(plan, at_least_s, all_s(plan.blocks.max));
    format!("It would take {} to {}.", minutes(at_least_s), minutes(at_most_s))
}

/// What has to prove a treatment that may have no counter.
fn proof_words(plan: &Plan, saving: &RequiredSaving) -> String {
    match saving.than {
        Some(than) => format!(
            "needs proof: a device's counters, or less {} than {}",
            saving.what, plan.variants[than].name
        ),
        None => "needs proof: a device's counters; nothing else can prove it, because no variant is \
                 the same without the treatment"
            .to_owned(),
    }
}

fn seconds(span_ns: u64) -> f64 {
    span_ns as f64 / 1e9
}

fn minutes(total_s: f64) -> String {
    if total_s < 120.0 { format!("{total_s:.0} s") } else { format!("{:.0} min", total_s / 60.0) }
}
