//! The sentence on top: what changed, by how much, and whether it can be trusted.
//!
//! A reader who stops after it must not be misled, so it speaks of measured variants only, gives each change with its
//! interval, and names every reason for doubt that the run recorded.

use plumb_model::metric::{CPU_SYSTEM, MEMORY_SYSTEM};
use plumb_model::{
    Change, ClaimVerdict, Comparison, Doubt, SlotOutcome, Statistic, Trust, VariantSummary, Verdict,
};

use crate::layout::clean;
use crate::rows::Row;
use crate::view::View;
use crate::{cautions, figures};

/// More variants than this are a table and not a sentence.
const VARIANTS_MAX: usize = 3;
/// Costs below this factor stay out of the headline.
const COST_MIN: f64 = 1.1;

/// A piece of the sentence on top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// The name of the variant with that index in the plan.
    Variant(usize),
    /// How many variants the sentence leaves out.
    Further(usize),
}

impl Piece {
    /// The text.
    pub fn plain_text(&self, view: &View<'_>) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Variant(variant) => view.name(*variant).to_owned(),
            Self::Further(count) => format!("; {} below", figures::plural(*count, "more variant")),
        }
    }
}

/// The words before the reasons.
pub fn trust_words(trust: Trust) -> &'static str {
    match trust {
        Trust::Sound => "Trusted",
        Trust::Caution => "With caution",
        Trust::Unsound => "Not all of it can be trusted",
        Trust::Empty => "No result",
    }
}

/// The sentence on top: what changed, and whether to believe it.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Without a full stop.
    pub pieces: Vec<Piece>,
    pub trust: Trust,
    /// Why, in one sentence without a full stop.
    pub trust_reasons: String,
}

impl Headline {
    pub fn from_view(view: &View<'_>) -> Self {
        let doubts = view.doubts();
        let mut reasons: Vec<String> = doubts.iter().map(|doubt| doubt_words(view, doubt)).collect();
        if reasons.is_empty() {
            let slots = figures::plural(view.run.slots.len(), "slot");
            reasons.push(format!("evidence held in all {slots}, none failed, the load was never the limit"));
        }
        Self { pieces: pieces(view), trust: Trust::despite(&doubts), trust_reasons: reasons.join("; ") }
    }

    /// The change, as one sentence without a full stop.
    pub fn sentence(&self, view: &View<'_>) -> String {
        self.pieces.iter().map(|piece| piece.plain_text(view)).collect()
    }

    /// The same without the count of the variants that it leaves out.
    pub fn without_count(&self, view: &View<'_>) -> String {
        let pieces = self.pieces.iter().filter(|piece| !matches!(piece, Piece::Further(_)));
        pieces.map(|piece| piece.plain_text(view)).collect()
    }
}

fn pieces(view: &View<'_>) -> Vec<Piece> {
    let text = |text: &str| Piece::Text(text.to_owned());
    let found = findings(view);
    let baseline = Piece::Variant(view.plan().baseline);
    let Some(row) = view.main_row().filter(|_| !found.is_empty()) else {
        return vec![text("No effect can be stated")];
    };
    let is_open = |(_, comparisons): &(usize, Vec<&Comparison>)| {
        comparisons.iter().all(|found| Change::shown_by(found, row.metric.better) == Change::Open)
    };
    let nothing_decided = found.iter().all(is_open);
    let mut pieces = if nothing_decided {
        vec![text(&format!("No effect on {} is decided yet: against ", row.key())), baseline, text(", ")]
    } else {
        vec![text("Against "), baseline, text(", ")]
    };
    let alone = found.len() == 1;
    for (at, (variant, comparisons)) in found.iter().take(VARIANTS_MAX).enumerate() {
        let phrase = match comparisons.as_slice() {
            [only] if nothing_decided => so_far(only),
            [only] if alone => phrases(view, *variant, only, row),
            [only] => phrase(view, only, row) + &strongest_cost(view, *variant, only.cell, row),
            several => range(several, row),
        };
        let bound = match doubtful_slots(view, *variant) {
            (0, false) => "",
            (0, true) => " (on a shared CPU)",
            _ => " (load-bound)",
        };
        pieces.push(text(if at > 0 { "; " } else { "" }));
        pieces.push(Piece::Variant(*variant));
        pieces.push(Piece::Text(format!(" {phrase}{bound}")));
    }
    let further = found.len().saturating_sub(VARIANTS_MAX);
    if further > 0 {
        pieces.push(Piece::Further(further));
    }
    pieces
}

/// The main metric's comparisons in all cells of every variant that may be used. Variants that claims speak of come first:
/// they are what the experiment was made for.
fn findings<'a>(view: &View<'a>) -> Vec<(usize, Vec<&'a Comparison>)> {
    let Some(row) = view.main_row() else { return Vec::new() };
    let claimed = |variant: &usize| {
        view.plan().claims.iter().any(|claim| claim.variants().contains(&view.name(*variant)))
    };
    let (first, rest): (Vec<usize>, Vec<usize>) =
        view.others().filter(|variant| !view.variants()[*variant].control).partition(claimed);
    let usable = |cell: usize, variant: usize| {
        view.is_measured(cell, variant) && view.is_measured(cell, view.plan().baseline)
    };
    let comparisons = |variant: usize| -> Vec<&'a Comparison> {
        let cells = (0..view.plan().cells.len()).filter(|cell| usable(*cell, variant));
        cells.filter_map(|cell| view.comparison(cell, variant, row)).collect()
    };
    let all = first.into_iter().chain(rest).map(|variant| (variant, comparisons(variant)));
    all.filter(|(_, comparisons)| !comparisons.is_empty()).collect()
}

/// In how many slots of a variant the load was the limit, and whether neighbours used the CPU in half of them in a cell.
fn doubtful_slots(view: &View<'_>, variant: usize) -> (u32, bool) {
    let own = || view.judgement.variants.iter().filter(|summary| summary.variant == variant);
    (own().map(|summary| summary.load_bound).sum(), own().any(VariantSummary::is_crowded))
}

/// `has ×1.41 after 1 block`.
fn so_far(comparison: &Comparison) -> String {
    let blocks = figures::plural(comparison.blocks as usize, "block");
    let missing = match comparison.missing {
        0 => String::new(),
        1 => " (1 more has no value)".to_owned(),
        missing => format!(" ({missing} more have no value)"),
    };
    format!("has {} after {blocks}{missing}", figures::ratio(comparison.ratio, comparison.low, None))
}

/// The only variant's effects on the main metric, on the tail of the latency, and on the system's CPU time: gain and cost.
fn phrases(view: &View<'_>, variant: usize, main: &Comparison, row: Row<'_>) -> String {
    let mut parts = vec![phrase(view, main, row)];
    let trends = view.drawn_trends();
    let tail = trends.first().map(|metric| Row { metric, statistic: Some(Statistic::P95) });
    let cpu = view.plan().metric(CPU_SYSTEM.name).map(|metric| Row { metric, statistic: None });
    for other in [tail, cpu].into_iter().flatten().filter(|other| *other != row) {
        parts.extend(view.comparison(main.cell, variant, other).map(|found| phrase(view, found, other)));
    }
    match parts.pop() {
        Some(last) if !parts.is_empty() => format!("{} and {last}", parts.join(", ")),
        Some(only) => only,
        None => String::new(),
    }
}

/// The largest cost of a variant beside its main effect, if it is more than a little.
fn strongest_cost<'a>(view: &View<'a>, variant: usize, cell: usize, main: Row<'a>) -> String {
    let of_row = |row: Row<'a>| {
        let found = view.comparison(cell, variant, row)?;
        let is_cost = [CPU_SYSTEM.name, MEMORY_SYSTEM.name].contains(&row.metric.name.as_str());
        let is_worse = Change::shown_by(found, row.metric.better) == Change::Worse && found.low >= COST_MIN;
        (is_cost && is_worse && row != main).then_some((found, row))
    };
    let worst = view.effect_rows().into_iter().filter_map(of_row);
    let worst = worst.max_by(|(one, _), (other, _)| one.ratio.total_cmp(&other.ratio));
    worst.map(|(found, row)| format!(" and {}", phrase(view, found, row))).unwrap_or_default()
}

/// One comparison as the rest of a sentence that begins with the variant's name.
fn phrase(view: &View<'_>, comparison: &Comparison, row: Row<'_>) -> String {
    let (key, ratio, low) = (row.key(), comparison.ratio, comparison.low);
    let decided = Some(comparison).filter(|found| Change::shown_by(found, row.metric.better) != Change::Open);
    let Some(high) = decided.and_then(|found| found.high).filter(|_| low > 0.0) else {
        return format!("{} on {key}, not yet decided", so_far(comparison));
    };
    if Change::shown_by(comparison, row.metric.better) == Change::Unclear {
        return format!("shows no clear change of {key} ({})", figures::effect(ratio, low, Some(high)));
    }
    let from_to = from_to(view, comparison, row);
    if ratio >= 2.0 {
        let text = figures::effect(ratio, low, Some(high));
        return format!("multiplies {key} by {}{from_to}", text.trim_start_matches('×'));
    }
    let width = 100.0 * (high - low);
    let decimals = usize::from(width < 10.0) + usize::from(width < 1.0);
    let percent = |share: f64| format!("{:.decimals$}%", 100.0 * share);
    if ratio < 0.5 {
        return format!("cuts {key} to {} [{}, {}]{from_to}", percent(ratio), percent(low), percent(high));
    }
    let (verb, size, from, to) = if ratio >= 1.0 {
        ("raises", ratio - 1.0, low - 1.0, high - 1.0)
    } else {
        ("lowers", 1.0 - ratio, 1.0 - high, 1.0 - low)
    };
    format!("{verb} {key} by {} [{}, {}]{from_to}", percent(size), percent(from), percent(to))
}

/// The medians of the baseline and of the variant, as they follow an effect: ` (105 µs → 941 µs)`.
fn from_to(view: &View<'_>, comparison: &Comparison, row: Row<'_>) -> String {
    let median = |variant| {
        view.median(comparison.cell, variant, row).map(|median| figures::value(median, row.metric.unit))
    };
    match (median(view.plan().baseline), median(comparison.variant)) {
        (Some(before), Some(after)) => format!(" ({before} → {after})"),
        _ => String::new(),
    }
}

/// The comparisons of several cells as the rest of a sentence.
fn range(comparisons: &[&Comparison], row: Row<'_>) -> String {
    let ratios = comparisons.iter().map(|comparison| comparison.ratio);
    let (low, high) = (ratios.clone().fold(f64::INFINITY, f64::min), ratios.fold(0.0, f64::max));
    let count = |change: Change| {
        comparisons
            .iter()
            .filter(|comparison| Change::shown_by(comparison, row.metric.better) == change)
            .count()
    };
    let parts: Vec<String> =
        [Change::Better, Change::Worse, Change::Different, Change::Unclear, Change::Open]
            .into_iter()
            .filter(|change| count(*change) > 0)
            .map(|change| format!("{} in {}", change.word(), count(change)))
            .collect();
    format!(
        "has {} to {} the {} over {} ({})",
        figures::ratio(low, low, Some(high)),
        figures::ratio(high, low, Some(high)),
        row.key(),
        figures::plural(comparisons.len(), "cell"),
        parts.join(", ")
    )
}

/// The facts about the run that stand below its title.
pub fn run_words(view: &View<'_>) -> Vec<String> {
    let mut words = vec![view.plan().name.clone()];
    words.extend(quick_words(view).map(str::to_owned));
    words.extend([blocks_words(view), slots_words(view)]);
    words.extend(view.run.took_s.map(|seconds| format!("took {}", figures::duration_s(seconds))));
    words.push(format!("seed {}", view.plan().seed));
    // `plumb history` names a run by as many digits.
    words.push(format!("digest {:.8}", view.digest()));
    words
}

/// One reason not to rely on the run, in a few words.
pub fn doubt_words(view: &View<'_>, doubt: &Doubt) -> String {
    let slots = |count: &usize| figures::plural(*count, "slot");
    match doubt {
        Doubt::NothingMeasured => "nothing was measured".to_owned(),
        Doubt::EverySlotFailed => "every slot failed".to_owned(),
        Doubt::Void(variants) => {
            let names: Vec<&str> = variants.iter().map(|variant| view.name(*variant)).collect();
            let why = if let [only] = variants[..] { why_void(view, only) } else { String::new() };
            format!("no proof or no data for {}{why}", names.join(", "))
        }
        Doubt::WorkFailed { variant, share, reason } => {
            let (share, units) = (figures::share(*share), &view.plan().units);
            let most = reason.as_ref().map(|reason| format!(" (most often `{}`)", clean(reason)));
            format!("{share} of the {units} of {} failed{}", view.name(*variant), most.unwrap_or_default())
        }
        Doubt::VoidClaims(claims) => format!("{} void", figures::plural(*claims, "claim")),
        Doubt::HarnessFailed => "the harness failed".to_owned(),
        Doubt::Interrupted => "the run was interrupted".to_owned(),
        Doubt::NotEnded => "the run has not ended".to_owned(),
        Doubt::NoClaimJudged => "no claim was judged".to_owned(),
        Doubt::LoadBound(count) => format!("the load was the limit in {}", slots(count)),
        Doubt::FailedSlots(count) => format!("{} failed", slots(count)),
        Doubt::IdleSlots(count) => format!("no {} completed in {}", view.plan().units, slots(count)),
        Doubt::TooFewBlocks => "too few blocks for an interval".to_owned(),
        Doubt::Caution(caution) => cautions::short_form(caution),
        Doubt::Warnings(count) => figures::plural(*count, "warning"),
    }
}

/// That no claim was judged, and why, where every claim of the run was skipped. The exit code does not tell it.
pub fn unjudged(view: &View<'_>) -> Option<String> {
    let claims = &view.judgement.claims;
    if claims.is_empty() || verdict_count(view, Verdict::Skipped) < claims.len() {
        return None;
    }
    let mut reasons: Vec<&str> = Vec::new();
    for claim in claims {
        if !reasons.contains(&claim.reason.as_str()) {
            reasons.push(&claim.reason);
        }
    }
    Some(format!("No claim was judged: {}", reasons.join("; ")))
}

/// Why a variant of which every slot failed has no data, as it follows its name.
fn why_void(view: &View<'_>, variant: usize) -> String {
    let mut slots = view.run.slots.iter().filter(|slot| slot.variant == view.name(variant));
    let Some(SlotOutcome::Failed { reason, .. }) = slots.clone().next_back().map(|slot| &slot.outcome) else {
        return String::new();
    };
    if slots.all(|slot| slot.result().is_none()) {
        format!(", which failed to {reason}")
    } else {
        String::new()
    }
}

/// How many claims of a run have a verdict.
pub fn verdict_count(view: &View<'_>, verdict: Verdict) -> usize {
    view.judgement.claims.iter().filter(|claim| claim.verdict == verdict).count()
}

/// The sign of a verdict.
pub fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "✔",
        Verdict::Refuted => "✘",
        Verdict::Undecided => "?",
        Verdict::Void => "∅",
        Verdict::Skipped => "–",
    }
}

/// The verdict, with what puts a decided one in doubt.
pub fn verdict_words(claim: &ClaimVerdict) -> String {
    let word = claim.verdict.word();
    let is_decided = matches!(claim.verdict, Verdict::Holds | Verdict::Refuted);
    if claim.different_work && is_decided {
        format!("{word}, but the work differed")
    } else {
        word.to_owned()
    }
}

/// `6 blocks`, or for several cells how many each has.
pub fn blocks_words(view: &View<'_>) -> String {
    let counts: Vec<usize> = (0..view.plan().cells.len()).map(|cell| view.blocks(cell)).collect();
    let (low, high) = (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    match counts.len() {
        0 | 1 => figures::plural(high, "block"),
        cells if low == high => format!("{cells} cells of {}", figures::plural(high, "block")),
        cells => format!("{cells} cells of {low} to {}", figures::plural(high, "block")),
    }
}

/// The part of the experiment that `--quick` ran, so that nobody takes it for the whole.
pub fn quick_words(view: &View<'_>) -> Option<&'static str> {
    view.plan().quick.then_some("quick: the first cell in short slots")
}

/// `60 slots`, and how many of them failed.
pub fn slots_words(view: &View<'_>) -> String {
    let failed = view.run.slots.iter().filter(|slot| slot.result().is_none()).count();
    let all = figures::plural(view.run.slots.len(), "slot");
    if failed == 0 { all } else { format!("{all} ({failed} failed)") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};
    use plumb_model::{
        Attempts, Caution, Ending, FailureCause, Judgement, Run, Slot, SlotOutcome, VariantState, Verdict,
    };

    fn headline((run, judgement): (Run, Judgement)) -> String {
        let view = View::new(&run, &judgement);
        let headline = Headline::from_view(&view);
        format!("{}.\n{}: {}.", headline.sentence(&view), trust_words(headline.trust), headline.trust_reasons)
    }

    #[test]
    fn the_headline_says_what_changed_and_whether_to_trust_it() {
        insta::assert_snapshot!(headline(Scenario::tls_offload().run()), @r"
        Against software, threads raises http_reqs by 41% [31%, 52%] (1.28k/s → 1.83k/s); haproxy shows no clear change of http_reqs (×0.99 [0.92, 1.07]); plain multiplies http_reqs by 7.18 [6.70, 7.70] (1.28k/s → 9.33k/s).
        Not all of it can be trusted: no proof or no data for engine; 1 claim void.
        ");
        insta::assert_snapshot!(headline(fixture::one_block()), @r"
        No effect on http_reqs is decided yet: against software, threads has ×1.46 after 1 block; haproxy has ×1.02 after 1 block; plain has ×7.22 after 1 block.
        Not all of it can be trusted: no proof or no data for engine; 1 claim void; too few blocks for an interval.
        ");
        insta::assert_snapshot!(headline(fixture::interrupted_at_once()), @r"
        No effect can be stated.
        No result: nothing was measured.
        ");
        insta::assert_snapshot!(headline(fixture::troubled()), @r"
        Against software, threads raises http_reqs by 41% [31%, 52%] (1.28k/s → 1.83k/s); plain multiplies http_reqs by 7.18 [6.70, 7.70] (1.28k/s → 9.33k/s) (load-bound).
        Not all of it can be trusted: no proof or no data for haproxy, engine; 4 claims void; the load was the limit in 12 slots; 12 slots failed; 1 warning.
        ");
        insta::assert_snapshot!(headline(fixture::crowded(6)), @r"
        Against software, threads-8 has ×1.504 to ×1.535 the http_reqs over 8 cells (better in 8); rsa-4096 has ×2.267 to ×2.339 the http_reqs over 8 cells (better in 8); threads-1 has ×1.121 to ×1.141 the http_reqs over 8 cells (better in 8); 7 more variants below.
        Trusted: evidence held in all 1,152 slots, none failed, the load was never the limit.
        ");
    }

    #[test]
    fn a_gain_of_nothing_at_a_cost_names_the_cost() {
        let mut scenario = Scenario::tls_offload();
        scenario.behaviours.iter_mut().find(|of| of.name == "haproxy").unwrap().cpu_ingress_us *= 2.6;
        let sentence = headline(scenario.run());
        insta::assert_snapshot!(sentence.lines().next().unwrap(), @"Against software, threads raises http_reqs by 41% [31%, 52%] (1.28k/s → 1.83k/s); haproxy shows no clear change of http_reqs (×0.99 [0.92, 1.07]) and multiplies cpu_system by 2.67 [2.47, 2.89] (633 µs → 1.68 ms); plain multiplies http_reqs by 7.18 [6.70, 7.70] (1.28k/s → 9.33k/s).");
    }

    fn sound() -> (Run, Judgement) {
        let mut scenario = Scenario::tls_offload();
        scenario.behaviours.truncate(2);
        scenario.claims.truncate(2);
        scenario.skipped.clear();
        scenario.run()
    }

    #[test]
    fn a_run_without_flaws_is_trusted() {
        insta::assert_snapshot!(headline(sound()), @r"
        Against software, threads raises http_reqs by 41% [35%, 47%] (1.33k/s → 1.86k/s), cuts http_req_duration.p95 to 49.9% [45.4%, 55.0%] (15.1 ms → 7.56 ms) and raises cpu_system by 7.8% [3.2%, 12.5%] (614 µs → 661 µs).
        Trusted: evidence held in all 24 slots, none failed, the load was never the limit.
        ");
    }

    /// A change to a sound run, and what the reader is told of it.
    type Case = (fn(&mut Run, &mut Judgement), Trust, &'static str);

    const CASES: &[Case] = &[
        (|run, _| run.slots.clear(), Trust::Empty, "nothing was measured"),
        (|run, _| run.slots.iter_mut().for_each(fail), Trust::Empty, "every slot failed"),
        (
            |_, judgement| {
                judgement.variants[1].state = VariantState::Void { reason: "no proof".to_owned() };
            },
            Trust::Unsound,
            "no proof or no data for threads",
        ),
        (
            |_, judgement| judgement.variants[1].attempts = Attempts { tried: 100, failed: 4 },
            Trust::Unsound,
            "4.00% of the units of work of threads failed (most often `reset`)",
        ),
        (|_, judgement| judgement.claims[0].verdict = Verdict::Void, Trust::Unsound, "1 claim void"),
        (|run, _| run.ending = Some(Ending::Failed), Trust::Unsound, "the harness failed"),
        (|run, _| run.ending = Some(Ending::Interrupted), Trust::Caution, "the run was interrupted"),
        (|run, _| run.ending = None, Trust::Caution, "the run has not ended"),
        (
            |_, judgement| judgement.claims.iter_mut().for_each(|claim| claim.verdict = Verdict::Skipped),
            Trust::Caution,
            "no claim was judged",
        ),
        (
            |_, judgement| judgement.variants[0].load_bound = 2,
            Trust::Caution,
            "the load was the limit in 2 slots",
        ),
        (|run, _| fail(&mut run.slots[3]), Trust::Caution, "1 slot failed"),
        (
            |_, judgement| judgement.variants[0].idle = 1,
            Trust::Caution,
            "no units of work completed in 1 slot",
        ),
        (
            |_, judgement| judgement.comparisons.iter_mut().for_each(|found| found.high = None),
            Trust::Caution,
            "too few blocks for an interval",
        ),
        (
            |_, judgement| judgement.cautions.push(Caution::UnseenParts { variant: "threads".to_owned() }),
            Trust::Caution,
            "nothing shows how earlier parts of threads's pipeline ended",
        ),
        (|_, judgement| judgement.cautions.push(fixture::noticed("odd")), Trust::Caution, "1 warning"),
    ];

    fn fail(slot: &mut Slot) {
        slot.outcome = SlotOutcome::Failed { reason: "refused".to_owned(), cause: FailureCause::System };
    }

    #[test]
    fn each_doubt_alone_takes_trust_away() {
        let trust = |(run, judgement): &(Run, Judgement)| {
            let found = Headline::from_view(&View::new(run, judgement));
            (found.trust, found.trust_reasons)
        };
        assert_eq!(trust(&sound()).0, Trust::Sound);
        for (change, left, words) in CASES {
            let (mut run, mut judgement) = sound();
            change(&mut run, &mut judgement);
            assert_eq!(trust(&(run, judgement)), (*left, (*words).to_owned()));
        }
    }

    #[test]
    fn the_gravest_doubt_comes_first() {
        let (mut run, mut judgement) = sound();
        run.ending = None;
        judgement.cautions.push(fixture::noticed("odd"));
        judgement.claims[0].verdict = Verdict::Void;
        let found = headline((run, judgement));
        insta::assert_snapshot!(found.lines().last().unwrap(), @"Not all of it can be trusted: 1 claim void; the run has not ended; 1 warning.");
    }

    /// The headline's interval and the claim's are one: two for one ratio would contradict each other.
    #[test]
    fn a_ratio_has_one_interval_in_a_report() {
        let (run, judgement) = Scenario::tls_offload().run();
        let claim = &judgement.claims[2];
        let text = figures::effect(claim.ratio.unwrap(), claim.low.unwrap(), claim.high);
        assert!(headline((run.clone(), judgement.clone())).contains(&text), "{text}");
        let forms =
            [crate::text(&run, &judgement, &crate::TextStyle::default()), crate::markdown(&run, &judgement)];
        assert!(forms.iter().all(|form| form.contains(&text) && form.contains("99%")), "{text}");
    }

    #[test]
    fn a_variant_whose_work_fails_says_so_in_the_first_lines_and_has_no_effect() {
        let (mut run, mut judgement) = Scenario::tls_offload().run();
        run.header.plan.units = "requests".to_owned();
        judgement.variants[1].attempts = plumb_model::Attempts { tried: 1000, failed: 985 };
        let words = "98.50% of the requests of threads failed";
        let top = headline((run.clone(), judgement.clone()));
        assert!(!top.contains("threads raises") && top.contains(words), "{top}");
        let text = crate::text(&run, &judgement, &crate::TextStyle::default());
        let first: Vec<&str> = text.lines().take(4).collect();
        assert!(first.iter().any(|line| line.starts_with(&format!("! {words} (most often `"))), "{first:?}");
        let markdown = crate::markdown(&run, &judgement);
        assert!(markdown.lines().take(4).any(|line| line.contains(words)), "{markdown}");
        let html = crate::html(&run, &judgement);
        assert!(html.split("</header>").next().unwrap().contains(words), "{html}");
    }

    #[test]
    fn a_block_without_a_value_leaves_the_effect_open_and_says_so() {
        let (run, mut judgement) = Scenario::tls_offload().run();
        for found in judgement.comparisons.iter_mut().filter(|found| found.variant == 1) {
            (found.low, found.missing) = (0.0, 2);
        }
        judgement.variants[1].idle = 2;
        let top = headline((run, judgement));
        assert!(
            top.contains(
                "threads has ×1.41 after 6 blocks (2 more have no value) on http_reqs, not yet decided"
            ),
            "{top}"
        );
        assert!(top.contains("no units of work completed in 2 slots"), "{top}");
    }

    #[test]
    fn a_skipped_claim_is_no_verdict_in_any_form() {
        let mut scenario = Scenario::tls_offload();
        scenario.claims = vec!["qat.http_reqs >= 1.1 * software.http_reqs"];
        let (run, judgement) = scenario.run();
        assert_eq!(judgement.claims[0].verdict, Verdict::Skipped);
        let forms = [
            (
                crate::text(&run, &judgement, &crate::TextStyle::default()),
                "skipped: qat was skipped: no device",
            ),
            (crate::markdown(&run, &judgement), "| – |"),
            (crate::html(&run, &judgement), "– 1 claim is skipped"),
            (crate::json(&run, &judgement), "\"verdict\": \"skipped\""),
            (crate::junit(&run, &judgement), "<skipped message=\"skipped: qat was skipped: no device"),
            (crate::junit(&run, &judgement), "failures=\"0\" errors=\"0\" skipped=\"1\""),
        ];
        for (form, words) in forms {
            assert!(form.contains(words), "{words}: {form}");
        }
    }
}
