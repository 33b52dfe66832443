//! The sections that every form of the report shows, each written once: claims, warnings, variants, the answers to what a
//! data path asks of its runs, evidence, what was seen, errors. How a sentence, a table or a figure looks is the form's
//! business, and so are the numbers of each cell, which stand between the answers and the proofs.

use std::collections::BTreeSet;

use plumb_model::finding::{Limit, Spread};
use plumb_model::{ClaimVerdict, Evidence, Merge, Unit, Verdict};

use crate::break_even::{self, axis_word};
use crate::capacities;
use crate::layout::Tone;
use crate::observed::{self, Observed, checks, properties};
pub use crate::section::{CellKind, Figure, Line, Look, Part, Section, Table, TableCell, effect_words};
use crate::section::{heads, section};
use crate::summary::{mark, verdict_words};
use crate::view::View;
use crate::{choice, figures, limits, spread, waits};

/// The run's findings: they stand above the cells.
pub fn answers<'a>(view: &View<'a>) -> Vec<Section<'a>> {
    let [of_requests, of_answers] = waits::of_variants(view);
    let all = [
        claims(view),
        section("warnings", "Warnings", vec![Part::Lines(warnings(view))]),
        variants(view),
        capacities::of_variants(view),
        break_even(view),
        choices(view),
        limits(view),
        of_requests,
        of_answers,
        agents(view),
    ];
    all.into_iter().filter(has_content).collect()
}

/// The proofs of the findings: they stand below the cells.
pub fn proofs<'a>(view: &View<'a>) -> Vec<Section<'a>> {
    [evidence(view), observed(view), errors(view)].into_iter().filter(has_content).collect()
}

fn has_content(section: &Section<'_>) -> bool {
    section.parts.iter().any(|part| match part {
        Part::Lines(lines) => !lines.is_empty(),
        Part::Table(table, _) => !table.rows.is_empty(),
        Part::Figure(_) => true,
    })
}

/// Every claim in every cell with its verdict and the reason for it.
pub fn claims<'a>(view: &View<'a>) -> Section<'a> {
    let (found, several) = (&view.judgement.claims, view.plan().cells.len() > 1);
    if found.is_empty() {
        let none = Line::quiet("The experiment makes no claim: it states effects only.");
        return section("claims", "Claims", vec![Part::Lines(vec![none])]);
    }
    let row = |found: &'a ClaimVerdict| {
        let tone = verdict_tone(found.verdict);
        let verdict = if found.different_work { Tone::Doubt } else { tone };
        let cell = several.then(|| TableCell::text(view.short_label(found.cell)));
        let rest = [
            TableCell::text(verdict_words(found)).toned(verdict),
            TableCell::new(CellKind::Effect(found)),
            TableCell::text(found.reason.as_str()),
        ];
        let first = [
            TableCell::new(CellKind::Sign(mark(found.verdict))).toned(tone),
            TableCell::code(view.claim_text(found)),
        ];
        first.into_iter().chain(cell).chain(rest).collect()
    };
    let names = ["", "Claim", "Cell", "Verdict", "Ratio", "Why"];
    let names: Vec<&str> = names.into_iter().filter(|name| several || *name != "Cell").collect();
    let table = Table::new("claims", Look::SignedCards, heads(&names), found.iter().map(row).collect());
    let words = found.iter().map(|found| claim_line(view, found)).collect();
    section("claims", "Claims", vec![Part::Table(table, words)])
}

/// A claim with its cell where there are several, and below it the verdict with its reason.
pub fn claim_line(view: &View<'_>, found: &ClaimVerdict) -> Line {
    let cell = match view.plan().cells.len() > 1 {
        true => format!(" [{}]", view.short_label(found.cell)),
        false => String::new(),
    };
    Line {
        below: format!("{}: {}", verdict_words(found), found.reason),
        ..Line::signed(
            mark(found.verdict),
            verdict_tone(found.verdict),
            format!("{}{cell}", view.claim_text(found)),
        )
    }
}

/// Every reason for doubt.
pub fn warnings(view: &View<'_>) -> Vec<Line> {
    view.warnings().into_iter().map(Line::doubt).collect()
}

/// Every variant with what it changes and whether its numbers may be used.
fn variants<'a>(view: &View<'a>) -> Section<'a> {
    let unusable = view.unusable();
    let row = |variant: usize| {
        let planned = &view.variants()[variant];
        let changes = match planned.control {
            _ if variant == view.plan().baseline => TableCell::text("the baseline"),
            true => TableCell::text("nothing: a copy of the baseline that must not differ from it"),
            false => TableCell::code(planned.treatment.as_str()),
        };
        let own: Vec<_> = unusable.iter().filter(|(of, ..)| *of == variant).collect();
        let state = match own.as_slice() {
            [] => TableCell::text("measured").toned(Tone::Good),
            own => {
                let words = |(_, word, reason, cells): &&(usize, &str, String, String)| {
                    format!("{word}: {reason}{cells}")
                };
                let tone =
                    if own.iter().any(|(_, word, ..)| *word == "void") { Tone::Bad } else { Tone::Doubt };
                TableCell::text(own.iter().map(words).collect::<Vec<String>>().join("; ")).toned(tone)
            }
        };
        let [slots, failed, bound] = view.slot_counts(variant);
        let count = |count: u32, tone| TableCell::number(count.to_string()).toned_if(count > 0, tone);
        let slots = TableCell::number(slots.to_string());
        vec![
            TableCell::variant(variant),
            changes,
            state,
            slots,
            count(failed, Tone::Bad),
            count(bound, Tone::Doubt),
        ]
    };
    let mut names = heads(&["Variant", "What it changes", "State"]);
    names.extend(["Slots", "Failed", "Load-bound"].map(TableCell::number));
    let table = Table::new("variants", Look::Cards, names, (0..view.variants().len()).map(row).collect());
    let is_usable = |variant: &usize| unusable.iter().all(|(of, ..)| of != variant);
    let measured = (0..view.variants().len()).filter(is_usable).map(|variant| view.name(variant));
    let measured = measured.collect::<Vec<&str>>().join(", ");
    let mut words = unusable_lines(view);
    if !words.is_empty() && !measured.is_empty() {
        words.insert(0, Line::signed("✔", Tone::Good, format!("measured: {measured}")));
    }
    section("variants", "Variants", vec![Part::Table(table, words)])
}

/// The sign of a variant that is void.
pub const VOID: &str = "∅";

/// Every variant whose numbers must not be used, and why.
pub fn unusable_lines(view: &View<'_>) -> Vec<Line> {
    let line = |(variant, word, reason, cells): (usize, &str, String, String)| {
        let is = if word == "skipped" { "was" } else { "is" };
        let text = format!("{} {is} {word}: {reason}{cells}", view.name(variant));
        if word == "void" {
            Line::signed(VOID, Tone::Bad, text)
        } else {
            Line::signed("–", Tone::Quiet, text)
        }
    };
    view.unusable().into_iter().map(line).collect()
}

fn break_even<'a>(view: &View<'a>) -> Section<'a> {
    let Some(found) = &view.judgement.findings.break_even else { return section("break-even", "", vec![]) };
    let lines = break_even::sentences(view, found).into_iter().map(Line::plain).collect();
    let title = format!("From how many {} on it pays", axis_word(found));
    section("break-even", title, vec![Part::Lines(lines), Part::Figure(Figure::BreakEven(found))])
}

fn choices<'a>(view: &View<'a>) -> Section<'a> {
    let lines = choice::sentences(view).into_iter().map(Line::plain).collect();
    let figures = view.judgement.findings.choices.iter().map(|choice| Part::Figure(Figure::Choice(choice)));
    section("choice", "How to choose", std::iter::once(Part::Lines(lines)).chain(figures).collect())
}

fn limits<'a>(view: &View<'a>) -> Section<'a> {
    let found = &view.judgement.findings.limits;
    let time = |time_us: f64| figures::value(time_us, Unit::Microseconds);
    let row = |limit: &Limit| {
        let label = view.cell_label(limit.cell);
        let place = if label.is_empty() { String::new() } else { format!(", {label}") };
        let times = limit.latency_us.map_or_else(
            || ["–"; 3].map(str::to_owned),
            |(all, by_limit)| [all, by_limit, all - by_limit].map(time),
        );
        let rates = [limit.policy, limit.rate].map(|rate| figures::value(rate, Unit::PerSecond));
        let counts = [limit.burst.round(), limit.charged_as].map(figures::count);
        let numbers = rates.into_iter().chain(counts).chain(times).map(TableCell::number);
        std::iter::once(TableCell::new(CellKind::Variant(limit.variant, place))).chain(numbers).collect()
    };
    let numbers =
        ["Policy", "Let through", "Saved up", "Charged as", "Mean latency", "By the limit", "The rest"];
    let table = Table::new(
        "limits",
        Look::Cards,
        std::iter::once(TableCell::text("Variant")).chain(numbers.map(TableCell::number)).collect(),
        found.iter().map(row).collect(),
    );
    let lines = found.iter().map(|limit| Line::plain(limits::sentence(view, limit))).collect();
    section("limits", "What the limits did", vec![Part::Table(table, Vec::new()), Part::Lines(lines)])
}

fn agents<'a>(view: &View<'a>) -> Section<'a> {
    let found = &view.judgement.findings.spreads;
    let cells: BTreeSet<usize> = found.iter().map(|spread| spread.cell).collect();
    let of_cell = |cell: usize| found.iter().filter(|spread| spread.cell == cell).collect::<Vec<&Spread>>();
    let tables = cells.into_iter().map(|cell| agents_of_cell(view, cell, &of_cell(cell)));
    let parts = tables.chain(std::iter::once(Part::Lines(outliers(view)))).collect();
    Section { about: spread::ABOUT, ..section("agents", "Load agents", parts) }
}

/// An agent a row, a variant a column.
fn agents_of_cell<'a>(view: &View<'a>, cell: usize, spreads: &[&Spread]) -> Part<'a> {
    let longest = spreads.iter().max_by_key(|spread| spread.agents.len());
    let agents =
        longest.into_iter().flat_map(|spread| spread.agents.iter().map(|agent| agent.agent.as_str()));
    let part = |spread: &&Spread, name: &str| match spread.agents.iter().find(|part| part.agent == name) {
        None => TableCell::number("–"),
        Some(agent) if agent.outlying.is_empty() => TableCell::number(spread::part(agent)),
        Some(agent) => TableCell::number(format!("! {}", spread::part(agent))).toned(Tone::Doubt),
    };
    let row = |name: &str| {
        std::iter::once(TableCell::text(name))
            .chain(spreads.iter().map(|spread| part(spread, name)))
            .collect()
    };
    let label = view.cell_label(cell);
    let metric = spreads.iter().find_map(|spread| spread.metric.as_ref());
    let metric = metric.map(|metric| format!(", and median `{metric}`")).unwrap_or_default();
    let place = if label.is_empty() { String::new() } else { format!("{label}: ") };
    let table = Table {
        caption: format!("{place}Part of the work{metric}."),
        ..Table::new(
            "load agents",
            Look::Columns,
            std::iter::once(TableCell::text("Agent"))
                .chain(spreads.iter().map(|spread| TableCell::variant(spread.variant)))
                .collect(),
            agents.map(row).collect(),
        )
    };
    let words = |spread: &&Spread| {
        let part = |agent: &plumb_model::finding::AgentPart| {
            let sign = if agent.outlying.is_empty() { "" } else { "! " };
            format!("{sign}{} {}", agent.agent, spread::part(agent))
        };
        let parts: Vec<String> = spread.agents.iter().map(part).collect();
        let (label, range) = (spread::label(view, spread), spread::range(spread));
        Line::plain(format!("{label}: {range} ({}).", parts.join("; ")))
    };
    Part::Table(table, spreads.iter().map(words).collect())
}

/// A sentence on each load agent that differs from the others.
pub fn outliers(view: &View<'_>) -> Vec<Line> {
    let spreads = view.judgement.findings.spreads.iter();
    let all = spreads.flat_map(|spread| spread::outliers(view, spread));
    all.map(|outlier| Line::doubt(format!("{outlier}."))).collect()
}

/// The proof that each treatment was in effect.
fn evidence<'a>(view: &View<'a>) -> Section<'a> {
    let found = view.evidence();
    if found.is_empty() {
        let none = Line::quiet("No evidence was recorded.");
        return section("evidence", "Evidence", vec![Part::Lines(vec![none])]);
    }
    let row = |(variant, evidence, cells): &(usize, &Evidence, String)| {
        let (sign, tone) = if evidence.holds { ("✔", Tone::Good) } else { ("✘", Tone::Bad) };
        vec![
            TableCell::new(CellKind::Sign(sign)).toned(tone),
            TableCell::new(CellKind::Variant(*variant, cells.clone())),
            TableCell::text(evidence.what.as_str()),
            TableCell::text(evidence.expected.as_str()),
            TableCell::text(evidence.observed.as_str()).toned_if(!evidence.holds, Tone::Bad),
        ]
    };
    let table = Table::new(
        "evidence",
        Look::SignedCards,
        heads(&["", "Variant", "What was looked at", "Expected", "Observed"]),
        found.iter().map(row).collect(),
    );
    let about = "The proof that each treatment was in effect: the worst observation over all slots.";
    Section {
        about,
        ..section("evidence", "Evidence", vec![Part::Table(table, evidence_lines(view, &found))])
    }
}

/// One line per variant for the evidence that holds, and one for each that does not, with the expectation.
fn evidence_lines(view: &View<'_>, found: &[(usize, &Evidence, String)]) -> Vec<Line> {
    let mut lines = Vec::new();
    for variant in 0..view.variants().len() {
        let (holding, failing): (Vec<_>, Vec<_>) =
            found.iter().filter(|(of, ..)| *of == variant).partition(|(_, evidence, _)| evidence.holds);
        for (_, Evidence { what, expected, observed, .. }, cells) in failing {
            let text = format!("{}: {what}: {observed} (expected {expected}){cells}", view.name(variant));
            lines.push(Line::signed("✘", Tone::Bad, text));
        }
        let words = |(_, evidence, cells): &&(usize, &Evidence, String)| {
            format!("{}: {}{cells}", evidence.what, evidence.observed)
        };
        if !holding.is_empty() {
            let words: Vec<String> = holding.iter().map(words).collect();
            let text = format!("{}: {}", view.name(variant), words.join(" · "));
            lines.push(Line::signed("✔", Tone::Good, text));
        }
    }
    lines
}

/// Everything that was negotiated or otherwise seen, by property, and the results of checks, a column per variant.
fn observed<'a>(view: &View<'a>) -> Section<'a> {
    let of_variant = |variant: usize| {
        let mut found = Observed::new();
        for cell in 0..view.plan().cells.len() {
            view.results(cell, variant).for_each(|result| found.add(&result.measurement.observed));
        }
        (variant, found)
    };
    let all: Vec<(usize, Observed)> =
        (0..view.variants().len()).map(of_variant).filter(|(_, found)| !found.is_empty()).collect();
    let names: BTreeSet<&str> =
        all.iter().flat_map(|(_, found)| properties(found)).map(|(name, _)| name).collect();
    let checked: BTreeSet<&str> =
        all.iter().flat_map(|(_, found)| checks(found)).map(|(text, ..)| text).collect();
    let row = |head: String, cell: &dyn Fn(&Observed) -> TableCell<'a>| {
        std::iter::once(TableCell::code(head))
            .chain(all.iter().map(|(_, found)| cell(found)))
            .collect::<Vec<_>>()
    };
    let seen = names.iter().map(|name| row((*name).to_owned(), &|found| seen(found, name)));
    let passed = checked.iter().map(|text| row(format!("check {text}"), &|found| passed(found, text)));
    let rows: Vec<Vec<TableCell<'a>>> = seen.chain(passed).collect();
    let words = |(at, (variant, _)): (usize, &(usize, Observed))| {
        let told = rows.iter().filter(|row| row[at + 1].plain_text(view) != "–");
        let told = told.map(|row| format!("{} {}", row[0].plain_text(view), row[at + 1].plain_text(view)));
        Line::plain(format!("{}: {}", view.name(*variant), told.collect::<Vec<String>>().join(" · ")))
    };
    let words = all.iter().enumerate().map(words).collect();
    let table = Table::new(
        "what was seen",
        Look::Columns,
        std::iter::once(TableCell::text("Property"))
            .chain(all.iter().map(|(variant, _)| TableCell::variant(*variant)))
            .collect(),
        rows,
    );
    section("observed", "What was seen", vec![Part::Table(table, words)])
}

fn seen<'a>(found: &Observed, property: &str) -> TableCell<'a> {
    let Some(values) = found.get(property) else { return TableCell::text("–") };
    let words = observed::values(values).into_iter().map(|(value, often)| format!("{value} ({often})"));
    TableCell::text(words.collect::<Vec<String>>().join(", "))
}

fn passed<'a>(found: &Observed, check: &str) -> TableCell<'a> {
    let Some((_, passed, failed)) = checks(found).into_iter().find(|(known, ..)| *known == check) else {
        return TableCell::text("–");
    };
    let share = figures::share(passed as f64 / (passed + failed).max(1) as f64);
    let tone = if failed == 0 { Tone::Good } else { Tone::Bad };
    TableCell::text(format!("{share} ({} failed)", figures::count(failed as f64))).toned(tone)
}

/// Failures by kind.
fn errors<'a>(view: &View<'a>) -> Section<'a> {
    if view.errors().is_empty() {
        return section("errors", "Errors", vec![Part::Lines(vec![Line::quiet("Nothing failed.")])]);
    }
    let row = |(variant, kind, count): (usize, &str, u64)| {
        vec![
            TableCell::variant(variant),
            TableCell::text(kind),
            TableCell::number(figures::count(count as f64)),
        ]
    };
    let mut names = heads(&["Variant", "Kind"]);
    names.push(TableCell::number("How many"));
    let table = Table::new("errors", Look::Columns, names, view.errors().into_iter().map(row).collect());
    section("errors", "Errors", vec![Part::Table(table, error_lines(view))])
}

/// A line for each kind of failure, with its variants.
pub fn error_lines(view: &View<'_>) -> Vec<Line> {
    let mut kinds: Vec<(&str, u64, Vec<String>)> = Vec::new();
    for (variant, kind, count) in view.errors() {
        let words = format!("{} {}", view.name(variant), figures::count(count as f64));
        match kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, all, of)) => {
                *all = all.saturating_add(count);
                of.push(words);
            }
            None => kinds.push((kind, count, vec![words])),
        }
    }
    let line = |(kind, all, of): (&str, u64, Vec<String>)| {
        Line::doubt(format!("{kind}, {} in all: {}", figures::count(all as f64), of.join(", ")))
    };
    kinds.into_iter().map(line).collect()
}

/// The tone in which a verdict is shown.
pub fn verdict_tone(verdict: Verdict) -> Tone {
    match verdict {
        Verdict::Holds => Tone::Good,
        Verdict::Refuted => Tone::Bad,
        Verdict::Undecided | Verdict::Void => Tone::Doubt,
        Verdict::Skipped => Tone::Quiet,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};
    use crate::{TextStyle, html, markdown, text};

    #[test]
    fn every_section_is_in_every_form() {
        let mut quiet = Scenario::tls_offload();
        quiet.claims.clear();
        let all = [
            quiet.run(),
            fixture::troubled(),
            fixture::several_agents(),
            fixture::interrupted_at_once(),
            fixture::searching(),
            fixture::waiting(),
        ];
        for (run, judgement) in &all {
            let view = View::new(run, judgement);
            let forms =
                [text(run, judgement, &TextStyle::default()), markdown(run, judgement), html(run, judgement)];
            for section in answers(&view).iter().chain(&proofs(&view)) {
                // A terminal lists only variants that must not be used.
                let has_lines = section.parts.iter().any(|part| !part.lines().is_empty());
                let shown = forms.iter().skip(usize::from(!has_lines));
                let title = section.title.replace('<', "&lt;");
                assert!(
                    shown.clone().all(|form| form.contains(&section.title) || form.contains(&title)),
                    "{}",
                    section.title
                );
            }
        }
        let (run, judgement) = &all[0];
        assert!(text(run, judgement, &TextStyle::default()).contains("makes no claim"));
    }

    #[test]
    fn rows_are_as_long_as_their_heads() {
        for (run, judgement) in [
            fixture::several_agents(),
            fixture::crowded(3),
            fixture::hostile(),
            fixture::searching(),
            fixture::waiting(),
        ] {
            let view = View::new(&run, &judgement);
            let sections = answers(&view).into_iter().chain(proofs(&view));
            for part in sections.flat_map(|section| section.parts) {
                let Part::Table(table, _) = part else { continue };
                assert!(table.rows.iter().all(|row| row.len() == table.heads.len()), "{}", table.label);
            }
        }
    }
}
