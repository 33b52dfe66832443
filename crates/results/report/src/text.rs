//! The whole report for a terminal: tables, effects with small pictures of their intervals, and the verdicts last, where the
//! reader's eye is when the prompt comes back.

use plumb_model::{Change, Comparison, Doubt, Judgement, Run, Trust, VariantState};

use crate::costs::{Costs, SideCost};
use crate::figures;
use crate::layout::{Tone, clean, left, right, shorten, widest, wrap};
use crate::load;
use crate::page::{Line, Part, Section, answers, proofs};
use crate::rows::Row;
use crate::scale::Scale;
use crate::sheet::{Sheet, TextStyle};
use crate::summary::{Headline, doubt_words, run_words, trust_words, unjudged};
use crate::view::View;

/// The longest name of a variant that is printed in full.
pub const NAME_MAX: usize = 18;

/// With more cells than this, effects are shown for the main metric and for what claims name.
const CELLS_IN_FULL: usize = 2;

/// The whole report of a run for a terminal, with a line feed at its end; [`crate::brief`] is what fits on a screen.
#[must_use]
pub fn text(run: &Run, judgement: &Judgement, style: &TextStyle) -> String {
    let view = View::new(run, judgement);
    let sheet = Sheet::new(&TextStyle { width: style.width.min(120), ..*style });
    let mut page = Page { view: &view, sheet };
    page.header();
    for cell in 0..view.plan().cells.len() {
        page.cell_title(cell);
        page.medians(cell);
        page.effects(cell);
        page.costs(cell);
    }
    for section in proofs(&view).iter().rev().chain(answers(&view).iter().rev()) {
        page.section(section);
    }
    page.headline();
    page.sheet.finish()
}

struct Page<'a> {
    view: &'a View<'a>,
    sheet: Sheet,
}

impl Page<'_> {
    fn name(&self, variant: usize) -> String {
        shorten(&clean(self.view.name(variant)), NAME_MAX)
    }

    fn header(&mut self) {
        let (view, run) = (self.view, self.view.run);
        if let Some(text) = unjudged(view) {
            self.sheet.hanging("! ", Some(Tone::Bad), "", &format!("{text}."));
        }
        self.sheet.text(Tone::Title, &view.plan().title);
        let mut parts = run_words(view);
        let facts = run.header.host.iter().take(4).map(|(name, value)| format!("{name} {value}"));
        parts.push(facts.collect::<Vec<String>>().join(", "));
        parts.extend(view.skew_words());
        parts.retain(|part| !part.is_empty());
        self.sheet.hanging("", None, "", &parts.join(" · "));
        for doubt in view.doubts().iter().filter(|doubt| matches!(doubt, Doubt::WorkFailed { .. })) {
            let text = format!("{}: do not use its rates and times", doubt_words(view, doubt));
            self.sheet.hanging("! ", Some(Tone::Bad), "", &text);
        }
    }

    fn cell_title(&mut self, cell: usize) {
        let label = self.view.plan().cells[cell].label();
        if !label.is_empty() {
            self.sheet.title(&format!("{label}  ({})", figures::plural(self.view.blocks(cell), "block")));
        }
    }

    /// A table of medians, a column per variant, in as many parts as the width demands.
    fn medians(&mut self, cell: usize) {
        let rows = self.view.rows();
        let variants: Vec<usize> = (0..self.view.variants().len())
            .filter(|variant| self.view.results(cell, *variant).next().is_some())
            .collect();
        if rows.is_empty() || variants.is_empty() {
            return;
        }
        let keys: Vec<String> = rows.iter().map(Row::label).collect();
        let label_width = widest(keys.iter().map(String::as_str)).max("median over slots".len());
        let columns: Vec<Vec<String>> =
            variants.iter().map(|variant| self.column(cell, *variant, rows)).collect();
        let widths: Vec<usize> =
            columns.iter().map(|column| widest(column.iter().map(String::as_str))).collect();
        let mut first = 0;
        while first < columns.len() {
            let mut used = label_width + 2;
            let mut end = first;
            while end < columns.len() && (end == first || used + widths[end] + 2 <= self.sheet.width) {
                used += widths[end] + 2;
                end += 1;
            }
            self.table(&keys, label_width, &columns[first..end], &widths[first..end]);
            first = end;
        }
    }

    /// Name, state, and the median of each row.
    fn column(&self, cell: usize, variant: usize, rows: &[Row<'_>]) -> Vec<String> {
        let view = self.view;
        let state = match view.state(cell, variant) {
            VariantState::Void { .. } => "void".to_owned(),
            _ if view.failed_share(cell, variant).is_some() => "failing".to_owned(),
            _ if variant == view.plan().baseline => "baseline".to_owned(),
            _ if view.variants()[variant].control => "control".to_owned(),
            _ => match view.summary(cell, variant) {
                Some(found) if found.load_bound > 0 => {
                    format!("load-bound {}/{}", found.load_bound, found.slots)
                }
                Some(found) if found.crowded > 0 => format!("shared CPU {}/{}", found.crowded, found.slots),
                _ => String::new(),
            },
        };
        let cells = rows
            .iter()
            .map(|row| view.typical(cell, variant, *row).map_or("–".to_owned(), |value| row.show(value)));
        [self.name(variant), state].into_iter().chain(cells).collect()
    }

    fn table(&mut self, keys: &[String], label_width: usize, columns: &[Vec<String>], widths: &[usize]) {
        self.sheet.block();
        let labels = ["median over slots", ""].into_iter().chain(keys.iter().map(String::as_str));
        for (at, label) in labels.enumerate() {
            let cells: String = columns
                .iter()
                .zip(widths)
                .map(|(column, width)| format!("  {}", right(&column[at], *width)))
                .collect();
            if at == 1 && cells.trim().is_empty() {
                continue;
            }
            let line = format!("{}  {}", left(label, label_width), cells.trim_end()).trim_end().to_owned();
            match at {
                0 => self.sheet.toned(Tone::Title, &line),
                1 => self.sheet.toned(Tone::Quiet, &line),
                _ => self.sheet.push(line),
            }
        }
    }

    fn effects(&mut self, cell: usize) {
        let mut rows = self.view.main_effect_rows();
        if self.view.plan().cells.len() > CELLS_IN_FULL {
            let main = self.view.main_row();
            rows.retain(|row| Some(*row) == main || self.view.is_claimed(*row));
        }
        let of_cell = |row: &Row<'_>| -> Vec<(usize, &Comparison)> {
            let others = self.view.others();
            others.filter_map(|variant| Some((variant, self.view.comparison(cell, variant, *row)?))).collect()
        };
        let found: Vec<(Row<'_>, Vec<(usize, &Comparison)>)> =
            rows.iter().map(|row| (*row, of_cell(row))).filter(|(_, found)| !found.is_empty()).collect();
        if found.is_empty() {
            return;
        }
        let scale = Scale::of_ratios(
            found.iter().flat_map(|(_, found)| found.iter().map(|(_, comparison)| *comparison)),
        );
        self.sheet.title(&format!(
            "Effect against {}, {} interval",
            self.view.plan().baseline_name(),
            self.view.plan().confidence_words()
        ));
        for (row, comparisons) in found {
            let heading = self.sheet.paint.on(Tone::Quiet, &format!("({})", row.direction()));
            self.sheet.push(format!("{} {heading}", row.key()));
            for (variant, comparison) in comparisons {
                let line = self.effect_line(cell, variant, row, comparison, &scale);
                self.sheet.push(line);
            }
        }
        self.axis(&scale);
    }

    /// Columns of an effect with its interval, before a picture and without one.
    const EFFECT_WIDE: usize = 26;
    const EFFECT_NARROW: usize = 24;
    const EFFECT_LEAD: usize = 2 + NAME_MAX + 1 + Self::EFFECT_WIDE + 16;

    fn effect_line(
        &self,
        cell: usize,
        variant: usize,
        row: Row<'_>,
        found: &Comparison,
        scale: &Scale,
    ) -> String {
        let change = Change::shown_by(found, row.metric.better);
        let (word, tone) = change_words(self.view, cell, variant, change);
        let effect = figures::effect(found.ratio, found.low, found.high);
        let picture = interval_picture(found, scale, self.sheet.width.saturating_sub(Self::EFFECT_LEAD));
        format!(
            "  {} {}{}{}",
            left(&self.name(variant), NAME_MAX),
            left(&effect, if picture.is_empty() { Self::EFFECT_NARROW } else { Self::EFFECT_WIDE }),
            self.sheet.paint.on(tone, &if picture.is_empty() { word.to_owned() } else { left(word, 16) }),
            self.sheet.paint.on(tone, &picture)
        )
    }

    /// The axis below the pictures: the values at their ends and at the line of no change.
    fn axis(&mut self, scale: &Scale) {
        let width = self.sheet.width.saturating_sub(Self::EFFECT_LEAD);
        if width < 20 {
            return;
        }
        let mut line = vec![' '; width];
        let labels = [
            (0, figures::ratio(scale.low, scale.low, None)),
            (width, figures::ratio(scale.high, scale.high, None)),
        ];
        for (at, label) in labels.into_iter().chain([(column(scale, 1.0, width) + 1, "×1".to_owned())]) {
            let start = at.saturating_sub(label.chars().count()).min(width);
            let end = (start + label.chars().count()).min(width);
            if line[start.saturating_sub(1)..end].iter().all(|character| *character == ' ') {
                label.chars().zip(&mut line[start..end]).for_each(|(from, to)| *to = from);
            }
        }
        let line: String = line.into_iter().collect();
        let text = format!("{}{}", " ".repeat(Self::EFFECT_LEAD), line.trim_end());
        self.sheet.toned(Tone::Quiet, &text);
    }

    fn costs(&mut self, cell: usize) {
        let all: Vec<(usize, Costs)> = (0..self.view.variants().len())
            .filter_map(|variant| Some((variant, Costs::of_variant(self.view, cell, variant)?)))
            .collect();
        if all.is_empty() {
            return;
        }
        self.sheet.title("CPU time per unit of work");
        let heading = format!("{}{:>10}{:>10}{:>10}", left("", NAME_MAX + 10), "total", "user", "system");
        self.sheet.toned(Tone::Quiet, &heading);
        for (variant, costs) in all {
            let name = left(&self.name(variant), NAME_MAX + 2);
            let system = costs.system.as_ref();
            let busy = load::of_variant(&costs.health);
            self.cost_line(&name, "system", system, &costs.system_words().join(", "));
            self.cost_line(&left("", NAME_MAX + 2), "load", Some(&costs.load), &busy);
        }
    }

    /// Where fewer columns are left beside the numbers, a remark goes below them.
    const REMARK_MIN: usize = 18;

    fn cost_line(&mut self, name: &str, side: &str, cost: Option<&SideCost>, remark: &str) {
        let numbers: String =
            [SideCost::total_us, |cost: &SideCost| cost.user_us, |cost: &SideCost| cost.system_us]
                .map(|part: fn(&SideCost) -> f64| {
                    let time = cost.map_or("–".to_owned(), |cost| figures::time_ns(part(cost) * 1e3));
                    right(&time, 10)
                })
                .concat();
        let lead = format!("{name}{}{numbers}  ", left(side, 8));
        let is_narrow = lead.chars().count() + Self::REMARK_MIN > self.sheet.width;
        let width = if is_narrow { NAME_MAX + 2 } else { lead.chars().count() };
        let mut remarks = wrap(remark, self.sheet.width.saturating_sub(width)).into_iter();
        let first = if is_narrow { String::new() } else { remarks.next().unwrap_or_default() };
        let first = self.sheet.paint.on(Tone::Quiet, &first);
        self.sheet.push(format!("{lead}{first}").trim_end().to_owned());
        for remark in remarks {
            let remark = self.sheet.paint.on(Tone::Quiet, &remark);
            self.sheet.push(format!("{}{remark}", " ".repeat(width)));
        }
    }

    /// A section without its tables: the lines that stand for them are shorter.
    fn section(&mut self, section: &Section<'_>) {
        let lines: Vec<&Line> = section.parts.iter().flat_map(Part::lines).collect();
        if !lines.is_empty() {
            self.sheet.title(&section.title);
        }
        for Line { sign, tone, text, below } in lines {
            let lead = if sign.is_empty() { "  ".to_owned() } else { format!("  {sign} ") };
            self.sheet.hanging(&lead, *tone, "", text);
            self.sheet.hanging("    ", None, "", below);
        }
    }

    fn headline(&mut self) {
        let headline = Headline::from_view(self.view);
        self.sheet.block();
        let sentence = headline.sentence(self.view);
        self.sheet.text(Tone::Title, &format!("{sentence}."));
        let words = format!("{}: {}.", trust_words(headline.trust), headline.trust_reasons);
        self.sheet.text(trust_tone(headline.trust), &words);
    }
}

/// The tone of the sentence on trust.
pub fn trust_tone(trust: Trust) -> Tone {
    match trust {
        Trust::Sound => Tone::Good,
        Trust::Caution => Tone::Doubt,
        Trust::Unsound | Trust::Empty => Tone::Bad,
    }
}

/// The word for a change of a variant and its tone: without proof it is void, and with too many failures no change counts.
pub fn change_words(view: &View<'_>, cell: usize, variant: usize, change: Change) -> (&'static str, Tone) {
    match change {
        _ if view.failed_share(cell, variant).is_some() => ("failing", Tone::Bad),
        _ if !view.is_measured(cell, variant) => ("void", Tone::Quiet),
        Change::Better => ("better", Tone::Good),
        Change::Worse => ("worse", Tone::Bad),
        other => (other.word(), Tone::Doubt),
    }
}

fn column(scale: &Scale, ratio: f64, width: usize) -> usize {
    (scale.place(ratio) * (width.saturating_sub(1)) as f64).round() as usize
}

/// `┈┈┈┈│┈┈├━●━┤┈┈`: the interval, its middle, and the line of no change; arrows where it goes on beyond the picture.
pub fn interval_picture(found: &Comparison, scale: &Scale, width: usize) -> String {
    if width < 20 {
        return String::new();
    }
    let mut cells = vec!['┈'; width];
    let high = found.high.unwrap_or(f64::INFINITY);
    let (from, to) = (column(scale, found.low, width), column(scale, high, width));
    cells[from..=to].fill('━');
    cells[column(scale, 1.0, width)] = if (found.low..=high).contains(&1.0) { '┿' } else { '│' };
    cells[from] = if scale.holds(found.low) { '├' } else { '◀' };
    cells[to] = if scale.holds(high) { '┤' } else { '▶' };
    cells[column(scale, found.ratio, width)] = '●';
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};

    fn plain((run, judgement): &(Run, Judgement), width: usize) -> String {
        text(run, judgement, &TextStyle { colour: false, width })
    }

    #[test]
    fn a_run_reads_from_its_numbers_to_its_verdicts() {
        for width in [60, 80, 100, 120] {
            insta::assert_snapshot!(format!("run_{width}"), plain(&Scenario::tls_offload().run(), width));
        }
    }

    #[test]
    fn a_quick_run_says_so_in_every_form() {
        let (mut run, judgement) = Scenario::tls_offload().run();
        let forms = |run: &Run| {
            let style = TextStyle::default();
            [text(run, &judgement, &style), crate::html(run, &judgement), crate::markdown(run, &judgement)]
        };
        let words = "quick: the first cell in short slots";
        assert!(forms(&run).iter().all(|form| !form.contains("quick")));
        run.header.plan.quick = true;
        for form in forms(&run) {
            assert!(form.contains(words), "{form}");
        }
        let [_, html, markdown] = forms(&run);
        let again = "plumb run tls-offload.yaml --quick --seed 42";
        assert!(html.contains(again) && markdown.contains(again));
    }

    #[test]
    fn the_command_to_reproduce_a_run_has_all_that_changed_it() {
        let (mut run, judgement) = Scenario::tls_offload().run();
        let commands = |run: &Run| [crate::html(run, &judgement), crate::markdown(run, &judgement)];
        for form in commands(&run) {
            assert!(form.contains("plumb run tls-offload.yaml --seed 42"), "{form}");
        }
        run.header.plan.blocks_asked = Some(8);
        run.header.plan.only = vec!["threads".to_owned(), "two-words".to_owned()];
        run.header.plan.quick = true;
        let again = "plumb run tls-offload.yaml --quick --blocks 8 --only threads --only two-words --seed 42";
        for form in commands(&run) {
            assert!(form.contains(again), "{form}");
        }
    }

    #[test]
    fn one_block_decides_nothing_and_says_so() {
        let mut scenario = Scenario::tls_offload();
        scenario.behaviours.truncate(2);
        scenario.claims.truncate(1);
        scenario.blocks = 1;
        insta::assert_snapshot!("one_block", plain(&scenario.run(), 100));
    }

    #[test]
    fn an_interrupted_run_without_slots_still_reports() {
        insta::assert_snapshot!(plain(&fixture::interrupted_at_once(), 80), @r"
        Does offloading TLS handshakes help an ingress?
        tls-offload · 0 blocks · 0 slots · took 0.200 s · seed 42 · digest 0b9dd7e7 ·
        cpu AMD EPYC 9R14, cpus 2, memory 8.2 GB, kernel Linux 6.1.0-18-amd64

        Errors
          Nothing failed.

        Evidence
          No evidence was recorded.

        Variants
          – software is pending: it has no slot yet
          – threads is pending: it has no slot yet
          – plain is pending: it has no slot yet
          – haproxy is pending: it has no slot yet
          – engine is pending: it has no slot yet
          – qat was skipped: no device /dev/qat_adf_ctl on this host; it needs an Intel
            QuickAssist card

        Warnings
          ! the run was interrupted before its first slot

        Claims
          ∅ threads.http_reqs >= 1.2 * software.http_reqs
            void: there is no proof that `software` was in effect
          ∅ threads.http_req_duration.p95 < software.http_req_duration.p95
            void: there is no proof that `software` was in effect
          ∅ haproxy.http_reqs >= 1.1 * software.http_reqs
            void: there is no proof that `software` was in effect
          ∅ haproxy.http_reqs == software.http_reqs within 1%
            void: there is no proof that `software` was in effect
          ∅ engine.http_reqs >= 1.1 * software.http_reqs
            void: there is no proof that `software` was in effect

        No effect can be stated.
        No result: nothing was measured.
        ");
    }

    #[test]
    fn lines_keep_the_width_whatever_is_in_them() {
        for fixture in [fixture::crowded(3), fixture::troubled(), fixture::hostile(), fixture::one_block()] {
            for width in [60, 80, 100, 120] {
                let report = plain(&fixture, width);
                let widest = report.lines().max_by_key(|line| line.chars().count()).unwrap();
                assert!(widest.chars().count() <= width, "{width}: {widest}");
                assert!(!report.contains('\u{1b}'));
            }
        }
    }

    #[test]
    fn colours_change_nothing_but_colour() {
        let (run, judgement) = Scenario::tls_offload().run();
        let coloured = text(&run, &judgement, &TextStyle { colour: true, width: 100 });
        let mut bare = coloured.clone();
        for code in ["0", "1", "2", "31", "32", "33"] {
            bare = bare.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_ne!(bare, coloured);
        assert_eq!(bare, text(&run, &judgement, &TextStyle { colour: false, width: 100 }));
    }
}
