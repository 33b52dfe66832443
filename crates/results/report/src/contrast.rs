//! Two runs side by side: in what they differ, and how their effects differ.

use std::collections::BTreeMap;

use plumb_model::{Bounded, Contrast, Evidence, Plan, PlannedVariant, Run, Shift, metric_key};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::figures;
use crate::json::pretty;
use crate::layout::Tone;
use crate::sheet::{Sheet, TextStyle};

/// The name and version of the format.
pub const COMPARE_FORMAT: &str = "plumbline.compare/1";

/// Two runs held against each other.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "plumbline.compare/1", deny_unknown_fields)]
pub struct CompareDocument {
    /// Always `plumbline.compare/1`.
    #[schemars(extend("const" = COMPARE_FORMAT))]
    pub format: String,
    /// The first run.
    pub first: RunLine,
    /// The second run.
    pub second: RunLine,
    /// In what they differ, as far as their directories show it.
    pub differences: Vec<Difference>,
    /// How their effects differ, where the comparison is fair.
    pub effects: Vec<ShiftDocument>,
    /// The comparisons that were not made, with the reasons, in sentences.
    pub refusals: Vec<String>,
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct RunLine {
    /// The directory, as it was given.
    pub directory: String,
    /// The experiment's name.
    pub experiment: String,
    /// When it began, RFC 3339.
    pub started_at: String,
}

/// Something in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Difference {
    /// The part that differs: `plumb`, `host`, `plan`, `content`, or the name of a variant.
    pub of: String,
    /// The name of the difference: `kernel`, `system.ingress.threads`.
    pub what: String,
    /// In the first run; `null` where it has no such thing.
    pub first: Option<String>,
    /// In the second run.
    pub second: Option<String>,
}

/// One metric of a variant in both runs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ShiftDocument {
    /// The values of the matrix' keys; empty without a matrix.
    pub cell: BTreeMap<String, String>,
    /// The variant of the first run, and its counterpart in the second.
    pub variants: [String; 2],
    /// Whether both have the same settings.
    pub same_treatment: bool,
    /// Metric and statistic, such as `http_req_duration.p95`.
    pub metric: String,
    /// Variant over baseline in the first run.
    pub first: Bounded,
    /// Variant over baseline in the second run.
    pub second: Bounded,
    /// The second ratio over the first.
    pub change: Bounded,
}

/// Two runs side by side as JSON text, indented, with a line feed at its end.
#[must_use]
pub fn contrast_json(runs: [&Run; 2], contrast: &Contrast) -> String {
    let line = |run: &Run| RunLine {
        directory: run.directory.clone(),
        experiment: run.header.plan.name.clone(),
        started_at: run.header.started_at.clone(),
    };
    let document = CompareDocument {
        format: COMPARE_FORMAT.to_owned(),
        first: line(runs[0]),
        second: line(runs[1]),
        differences: differences(runs),
        effects: contrast.shifts.iter().map(|shift| shift_document(runs, shift)).collect(),
        refusals: contrast.refusals.clone(),
    };
    pretty(&document)
}

pub(crate) fn names(runs: [&Run; 2], shift: &Shift) -> [String; 2] {
    [0, 1].map(|at| runs[at].header.plan.variants[shift.variants[at]].name.clone())
}

fn shift_document(runs: [&Run; 2], shift: &Shift) -> ShiftDocument {
    let [first, second] = shift.effects;
    ShiftDocument {
        cell: runs[0].header.plan.cells[shift.cells[0]].values.clone(),
        variants: names(runs, shift),
        same_treatment: shift.is_same_treatment,
        metric: shift.metric.clone(),
        first,
        second,
        change: shift.change,
    }
}

/// Two runs side by side for a terminal, with a line feed at its end.
#[must_use]
pub fn contrast_text(runs: [&Run; 2], contrast: &Contrast, style: &TextStyle) -> String {
    let mut sheet = Sheet::new(style);
    for (run, name) in runs.into_iter().zip(["first", "second"]) {
        let header = &run.header;
        let slots = figures::plural(run.slots.len(), "slot");
        sheet.line(&format!(
            "{name:<8}{}  {} · {slots} · {}",
            run.directory, header.plan.name, header.started_at
        ));
    }
    differences_block(&mut sheet, runs);
    let mut last = None;
    for shift in contrast.shifts.iter().filter(|shift| is_shown(runs[0], shift)) {
        let place = (shift.cells, shift.variants);
        if last.replace(place) != Some(place) {
            shifts_block(&mut sheet, runs, contrast, shift);
        }
    }
    sheet.block();
    for refusal in &contrast.refusals {
        sheet.signed(Tone::Doubt, "!", ("", 0), &format!("not compared: {refusal}"));
    }
    if !contrast.shifts.is_empty() {
        sheet.block();
        sheet.text(
            Tone::Quiet,
            "Each ratio is variant / baseline within one run. The two intervals and the one of their quotient are right \
             together with a probability of 95%. Absolute values are not compared: everything may have changed between two runs.",
        );
    }
    sheet.finish()
}

fn differences_block(sheet: &mut Sheet, runs: [&Run; 2]) {
    sheet.block();
    let found = differences(runs);
    if found.is_empty() {
        sheet.line("Their settings, builds and hosts do not differ.");
        return;
    }
    sheet.title("What differs");
    let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "–".to_owned());
    for Difference { of, what, first, second } in &found {
        sheet.line(&format!("{of}: {what}: {} → {}", value(first), value(second)));
    }
}

/// The metrics of the claims, or all where there are none; JSON has all.
pub(crate) fn is_shown(run: &Run, shift: &Shift) -> bool {
    let plan = &run.header.plan;
    let mut terms = crate::rows::terms(plan).peekable();
    terms.peek().is_none() || terms.any(|term| metric_key(&term.metric, term.statistic) == shift.metric)
}

fn shifts_block(sheet: &mut Sheet, runs: [&Run; 2], contrast: &Contrast, of: &Shift) {
    let plan = &runs[0].header.plan;
    let [first, second] = names(runs, of);
    let name = if first == second { first } else { format!("{first}, and {second} in the second run,") };
    let kind = if of.is_same_treatment { "the same settings in both runs" } else { "different settings" };
    let cell = Some(plan.cells[of.cells[0]].label()).filter(|label| !label.is_empty());
    let cell = cell.map(|label| format!(" at {label}")).unwrap_or_default();
    sheet.title(&format!("{name} / {}{cell}: {kind}", plan.baseline_name()));
    let of_pair = contrast
        .shifts
        .iter()
        .filter(|shift| (shift.cells, shift.variants) == (of.cells, of.variants) && is_shown(runs[0], shift));
    let shown = |bounds: Bounded| figures::effect(bounds.ratio, bounds.low, bounds.high);
    let rows: Vec<Vec<String>> = of_pair
        .map(|shift| {
            let [first, second] = shift.effects;
            let word = if shift.change.excludes_one() { "they differ" } else { "no difference shown" };
            vec![shift.metric.clone(), shown(first), shown(second), shown(shift.change), word.to_owned()]
        })
        .collect();
    sheet.columns(0, &["", "first", "second", "second / first", ""], &rows);
}

/// In what two runs differ, as far as their directories show it.
pub(crate) fn differences(runs: [&Run; 2]) -> Vec<Difference> {
    let [first, second] = runs.map(facts);
    let mut keys: Vec<&(String, String)> = first.iter().map(|(key, _)| key).collect();
    for (key, _) in &second {
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    let value = |facts: &[((String, String), String)], key: &(String, String)| {
        facts.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone())
    };
    let all = keys.into_iter().map(|key| {
        let (of, what) = key.clone();
        Difference { of, what, first: value(&first, key), second: value(&second, key) }
    });
    let mut found: Vec<Difference> = all.filter(|found| found.first != found.second).collect();
    // A variant that one run lacks would differ in every fact.
    let plans = runs.map(|run| &run.header.plan);
    for one in &mut found {
        let name = one.of.split(" at ").next().unwrap_or(&one.of);
        let sides = plans.map(|plan| plan.variants.iter().any(|variant| variant.name == name));
        if sides[0] != sides[1] {
            let there = |is_there: bool| is_there.then(|| "measured".to_owned());
            (one.what, one.first, one.second) = ("variant".to_owned(), there(sides[0]), there(sides[1]));
            one.of = name.to_owned();
        }
    }
    let mut told: Vec<Difference> = Vec::new();
    for one in found {
        if !told.contains(&one) {
            told.push(one);
        }
    }
    if runs[0].began_with(runs[1]) {
        let [first, second] = runs.map(|run| Some(plumb_digest::of_run(run)));
        if first != second {
            let what = "digest; one run is an edited or extended copy of the other".to_owned();
            told.push(Difference { of: "content".to_owned(), what, first, second });
        }
    }
    told
}

/// Everything that a comparison of two runs depends on: what it belongs to and what it is, with its value.
fn facts(run: &Run) -> Vec<((String, String), String)> {
    let (header, plan) = (&run.header, &run.header.plan);
    let mut facts = Vec::new();
    let mut add = |of: &str, what: &str, value: String| facts.push(((of.to_owned(), what.to_owned()), value));
    add("plumb", "version", header.program_version.clone());
    add("plumb", "build", header.build.clone().unwrap_or_else(|| "unknown".to_owned()));
    // A load is never the same twice, and the report has it.
    for (name, value) in header.host.iter().filter(|(name, _)| name != "load average") {
        add("host", name, value.clone());
    }
    add("plan", "quick", plan.quick.to_string());
    add("plan", "blocks", format!("{} to {}", plan.blocks.min, plan.blocks.max));
    add("plan", "noise.others_max", figures::share_coarse(plan.others_max));
    add("plan", "failures_max", figures::share_coarse(plan.failures_max));
    for cell in &plan.cells {
        for planned in &cell.variants {
            let name = name_in_cell(plan, &cell.label(), planned);
            for (what, value) in settings_of(planned) {
                add(&name, &what, value);
            }
        }
    }
    for (variant, what, value) in steady_evidence(run) {
        add(&variant, &what, value);
    }
    facts
}

fn name_in_cell(plan: &Plan, cell: &str, planned: &PlannedVariant) -> String {
    let name = &plan.variants[planned.variant].name;
    if cell.is_empty() { name.clone() } else { format!("{name} at {cell}") }
}

/// The settings of a variant as dotted keys, and its tunings.
fn settings_of(planned: &PlannedVariant) -> Vec<(String, String)> {
    let mut found = Vec::new();
    // What cannot be read as JSON was not written by a run; it is compared as it stands.
    let settings =
        serde_json::from_str(&planned.settings).unwrap_or_else(|_| planned.settings.clone().into());
    flatten("", &settings, &mut found);
    found.push(("host.tunings".to_owned(), planned.tunings.join(", ")));
    if !planned.changes.is_empty() {
        let changes: Vec<String> = planned.changes.iter().map(ToString::to_string).collect();
        found.push(("changes".to_owned(), changes.join(", ")));
    }
    found
}

fn flatten(key: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let key = if key.is_empty() { name.clone() } else { format!("{key}.{name}") };
                flatten(&key, value, found);
            }
        }
        Value::String(text) => found.push((key.to_owned(), text.clone())),
        other => found.push((key.to_owned(), other.to_string())),
    }
}

/// The observations that are alike in each of a variant's slots, such as a program's version: variant, statement, observation.
/// Counters vary, and say nothing about a setting.
fn steady_evidence(run: &Run) -> Vec<(String, String, String)> {
    let mut seen: Vec<(&str, &Evidence, bool, usize)> = Vec::new();
    for slot in &run.slots {
        for evidence in slot.result().into_iter().flat_map(|result| &result.evidence) {
            let known = seen
                .iter_mut()
                .find(|(variant, known, ..)| *variant == slot.variant && known.is_about_same(evidence));
            match known {
                Some((_, known, is_steady, times)) => {
                    *is_steady &= known.observed == evidence.observed;
                    *times += 1;
                }
                None => seen.push((slot.variant.as_str(), evidence, true, 1)),
            }
        }
    }
    let steady = seen.into_iter().filter(|(_, _, is_steady, times)| *is_steady && *times > 1);
    steady.map(|(variant, seen, ..)| (variant.to_owned(), seen.what.clone(), seen.observed.clone())).collect()
}
