//! The report as a README: what was compared, each variant's summary in the lines that k6 prints, how they compare, and
//! how to do it again.
//!
//! This is the form in which people publish such results today, one measurement under another; the comparison and the
//! verdicts are what their documents lack.

use plumb_model::{Change, Judgement, MetricInfo, Run};

use crate::figures;
use crate::layout::{clean, widest};
use crate::measurement::{dotted, reading_words};
use crate::page::{CellKind, Line, Part, Section, TableCell, answers, proofs};
use crate::rows::{Row, is_none};
use crate::summary::{Headline, blocks_words, quick_words, slots_words, trust_words, unjudged};
use crate::view::View;

/// The report of a run in Markdown, with a line feed at its end.
#[must_use]
pub fn markdown(run: &Run, judgement: &Judgement) -> String {
    let view = &View::new(run, judgement);
    let mut parts = vec![heading(view), configuration(view)];
    for cell in 0..view.plan().cells.len() {
        parts.push(results(view, cell));
        parts.push(comparison(view, cell));
    }
    parts.extend(answers(view).iter().chain(&proofs(view)).map(|section| self::section(view, section)));
    parts.extend([host(view), reproduction(view)]);
    parts.retain(|part| !part.is_empty());
    plumb_model::printable_lines(&(parts.join("\n\n") + "\n")).into_owned()
}

/// A text inside a paragraph or a table: no markup, no cell's end, no HTML. Underscores within words and brackets that
/// make no link mean nothing in GitHub's Markdown and stay readable.
fn plain(text: &str) -> String {
    let characters: Vec<char> = clean(text).chars().collect();
    let is_letter =
        |at: Option<usize>| at.and_then(|at| characters.get(at)).is_some_and(|c| c.is_alphanumeric());
    let mut out = String::new();
    for (at, character) in characters.iter().copied().enumerate() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '`' | '*' | '\\' | '~' => out.extend(['\\', character]),
            '_' if !(is_letter(at.checked_sub(1)) && is_letter(Some(at + 1))) => out.push_str("\\_"),
            ']' if characters.get(at + 1).is_some_and(|next| "([:".contains(*next)) => out.push_str("\\]"),
            other => out.push(other),
        }
    }
    out
}

/// A sentence of the report's own, with what stands between backticks in code type.
fn prose(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces.map(|(at, piece)| if at % 2 == 1 { code(piece) } else { plain(piece) }).collect()
}

/// A text in code type, also inside a table.
fn code(text: &str) -> String {
    let text = clean(text).replace('`', "'").replace('|', "\\|");
    if text.trim().is_empty() { String::new() } else { format!("`{text}`") }
}

fn table<'a>(heads: impl IntoIterator<Item = &'a str>, rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let heads: Vec<String> = heads.into_iter().map(str::to_owned).collect();
    let mut lines = vec![line(&heads), format!("|{}", ":---|".repeat(heads.len()))];
    lines.extend(rows.iter().map(|row| line(row)));
    lines.join("\n")
}

fn heading(view: &View<'_>) -> String {
    let headline = Headline::from_view(view);
    let sentence = plain(&headline.sentence(view));
    let trust = plain(&headline.trust_reasons);
    let unjudged = unjudged(view).map(|text| format!("**{}.**\n\n", plain(&text))).unwrap_or_default();
    let title = plain(&view.plan().title);
    format!("# {title}\n\n{unjudged}**{sentence}.**\n{}: {trust}.", trust_words(headline.trust))
}

/// A section with its tables; figures have no form here.
fn section(view: &View<'_>, section: &Section<'_>) -> String {
    let line = |line: &Line| format!("- {}", plain(&line.text));
    let part = |part: &Part<'_>| match part {
        Part::Lines(lines) => lines.iter().map(line).collect::<Vec<String>>().join("\n"),
        Part::Table(found, _) => {
            let caption = match found.caption.as_str() {
                "" => String::new(),
                caption => prose(caption) + "\n\n",
            };
            let cells = |cells: &[TableCell<'_>]| cells.iter().map(|cell| self::cell(view, cell)).collect();
            let rows: Vec<Vec<String>> = found.rows.iter().map(|row| cells(row)).collect();
            let heads: Vec<String> = found.heads.iter().map(|head| plain(&head.plain_text(view))).collect();
            caption + &table(heads.iter().map(String::as_str), &rows)
        }
        Part::Figure(_) => String::new(),
    };
    let parts = [format!("## {}", plain(&section.title)), section.about.to_owned()];
    let mut parts: Vec<String> = parts.into_iter().chain(section.parts.iter().map(part)).collect();
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

fn cell(view: &View<'_>, cell: &TableCell<'_>) -> String {
    match &cell.kind {
        CellKind::Code(text) => code(text),
        CellKind::Variant(variant, cells) => code(view.name(*variant)) + &plain(cells),
        CellKind::Text(_)
        | CellKind::Number(_)
        | CellKind::Sign(_)
        | CellKind::Share(_)
        | CellKind::Effect(_) => plain(&cell.plain_text(view)),
    }
}

fn configuration(view: &View<'_>) -> String {
    let (run, plan) = (view.run, view.plan());
    let seconds = |time_ns: u64| figures::time_ns(time_ns as f64);
    let blocks = format!("{} (of {} to {})", blocks_words(view), plan.blocks.min, plan.blocks.max);
    let window = format!("{}, after {} of warm-up", seconds(plan.window_ns), seconds(plan.warmup_ns));
    let mut rows = vec![
        vec!["Experiment".to_owned(), code(&plan.name)],
        vec!["Data path".to_owned(), code(&plan.path)],
        vec!["Baseline".to_owned(), code(plan.baseline_name())],
        vec!["Blocks".to_owned(), blocks],
        vec!["Slots".to_owned(), slots_words(view)],
        vec!["Window of a slot".to_owned(), window],
        vec!["Seed".to_owned(), plan.seed.to_string()],
        vec!["Digest".to_owned(), view.digest()],
        vec![
            "CPUs of system and load".to_owned(),
            plain(&format!("{} and {}", run.header.system_cpus, run.header.load_cpus)),
        ],
        vec!["Started".to_owned(), plain(&run.header.started_at)],
    ];
    rows.extend(quick_words(view).map(|words| vec!["Extent".to_owned(), words.to_owned()]));
    rows.extend(run.took_s.map(|seconds| vec!["Took".to_owned(), figures::duration_s(seconds)]));
    format!("## Configuration\n\n{}", table(["Setting", "Value"], &rows))
}

fn cell_suffix(view: &View<'_>, cell: usize) -> String {
    let label = view.plan().cells[cell].label();
    if label.is_empty() { String::new() } else { format!(": {}", plain(&label)) }
}

/// Each variant's numbers over all of its slots, in the lines that k6 prints.
fn results(view: &View<'_>, cell: usize) -> String {
    let mut parts = vec![format!("## Results{}", cell_suffix(view, cell))];
    for variant in 0..view.variants().len() {
        let name = plain(view.name(variant));
        let lines = summary_lines(view, cell, variant);
        if !lines.is_empty() {
            parts.push(format!("### {name}\n\n```text\n{}\n```", lines.join("\n")));
        }
    }
    parts.join("\n\n")
}

fn summary_lines(view: &View<'_>, cell: usize, variant: usize) -> Vec<String> {
    let metrics = &view.plan().metrics;
    let width = widest(metrics.iter().map(|metric| metric.name.as_str())) + 3;
    let line = |metric: &MetricInfo| {
        let reading =
            view.together(cell, variant, metric).filter(|reading| !is_none(&metric.name, reading))?;
        Some(format!("{}: {}", dotted(&metric.name, width), reading_words(&reading, metric)))
    };
    metrics.iter().filter_map(line).collect()
}

fn comparison(view: &View<'_>, cell: usize) -> String {
    let others: Vec<usize> =
        view.others().filter(|variant| view.results(cell, *variant).next().is_some()).collect();
    let rows = view.effect_rows();
    if others.is_empty() || rows.is_empty() {
        return String::new();
    }
    let effect = |row: Row<'_>, variant: usize| match view.comparison(cell, variant, row) {
        None => "–".to_owned(),
        Some(found) => {
            let change = match Change::shown_by(found, row.metric.better) {
                _ if !view.is_measured(cell, variant) => "void",
                change => change.word(),
            };
            let mark = view.limit_mark(cell, variant, row);
            format!("{} {change}{mark}", plain(&figures::effect(found.ratio, found.low, found.high)))
        }
    };
    let body: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let head = format!("{} ({})", code(&row.key()), row.direction());
            std::iter::once(head).chain(others.iter().map(|variant| effect(*row, *variant))).collect()
        })
        .collect();
    let names: Vec<String> = others.iter().map(|variant| plain(view.name(*variant))).collect();
    let heads = std::iter::once("Metric").chain(names.iter().map(String::as_str));
    let baseline = plain(view.plan().baseline_name());
    let about = format!(
        "Each variant over {baseline}, with its {} interval ({}), right at every look that was {}.",
        view.plan().confidence_words(),
        figures::plural(view.blocks(cell), "block"),
        if view.plan().imported.is_some() { "taken" } else { "planned" }
    );
    format!("## Comparison{}\n\n{about}\n\n{}", cell_suffix(view, cell), table(heads, &body))
}

fn host(view: &View<'_>) -> String {
    let facts = view.facts();
    if facts.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = facts.iter().map(|(name, value)| vec![plain(name), plain(value)]).collect();
    format!("## Host\n\n{}", table(["Fact", "Value"], &rows))
}

fn reproduction(view: &View<'_>) -> String {
    let commands = view.reproduction();
    let text = clean_lines(&view.run.experiment_text);
    // The fence is longer than any in the experiment, so that it ends where it should.
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(longest + 1));
    let commands: Vec<String> = commands.iter().map(|command| format!("    $ {}", clean(command))).collect();
    format!(
        "## How to reproduce\n\n{}\n\nThe experiment, with plumb {}:\n\n{fence}yaml\n{}\n{fence}",
        commands.join("\n"),
        plain(&view.run.header.program_version),
        text.trim_end()
    )
}

fn clean_lines(text: &str) -> String {
    text.lines()
        .map(|line| plumb_model::printable_lines(line).into_owned())
        .collect::<Vec<String>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};

    #[test]
    fn a_run_reads_like_the_documents_that_people_publish() {
        let (run, judgement) = Scenario::tls_offload().run();
        insta::assert_snapshot!("run", markdown(&run, &judgement));
    }

    #[test]
    fn a_run_without_slots_still_has_its_plan() {
        let (run, judgement) = fixture::interrupted_at_once();
        let text = markdown(&run, &judgement);
        assert!(
            text.contains("No result: nothing was measured.")
                && text.contains("| `threads` | `ingress.offload: threads` |")
        );
        assert!(!text.contains("## Comparison"));
    }

    #[test]
    fn hostile_texts_cannot_leave_their_cells() {
        let (run, judgement) = fixture::hostile();
        let text = markdown(&run, &judgement);
        let outside_code: String = text
            .split("## How to reproduce")
            .next()
            .unwrap()
            .replace("\\`", "")
            .split('`')
            .step_by(2)
            .collect();
        assert!(!outside_code.contains("<script") && !text.contains('\u{1b}'), "{outside_code}");
        for table in text.split("\n\n").filter(|part| part.starts_with("| ")) {
            let columns = |line: &str| line.replace("\\|", "").matches('|').count();
            let expected = columns(table.lines().next().unwrap());
            assert!(table.lines().all(|line| columns(line) == expected), "{table}");
        }
    }

    #[test]
    fn a_fence_is_longer_than_those_inside_it() {
        let (mut run, judgement) = fixture::interrupted_at_once();
        run.experiment_text = "a: |\n  ````\n".to_owned();
        assert!(markdown(&run, &judgement).ends_with("`````yaml\na: |\n  ````\n`````\n"));
    }
}
