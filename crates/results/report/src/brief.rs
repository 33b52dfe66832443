//! The report for a terminal that fits on a screen: the question, the answer, what cannot be trusted, the claims, the effects
//! that they use, and where the rest is.
//!
//! Nothing that could change the reader's mind is left out without a word: what does not fit is counted, and of many
//! claims those that do not hold come first.

use plumb_model::{Change, ClaimVerdict, Comparison, Judgement, Run, Verdict};

use crate::figures;
use crate::layout::{Paint, Tone, clean, fitted, left, limited, shorten, widest};
use crate::page::{
    Line, VOID, claim_line, effect_words, error_lines, outliers, unusable_lines, verdict_tone, warnings,
};
use crate::rows::{Row, terms};
use crate::scale::Scale;
use crate::sheet::TextStyle;
use crate::summary::{Headline, run_words, trust_words, unjudged};
use crate::text::{NAME_MAX, change_words, interval_picture, trust_tone};
use crate::view::{View, quoted};

/// The most lines that are printed.
pub const LINES_MAX: usize = 30;
/// The longest key of a metric that is printed in full.
const KEY_MAX: usize = 36;
/// Lines of a void variant, at most, unless its remedy needs more.
const VOID_LINES: usize = 3;
/// Lines above the sections, unless more are needed to say what is void.
const HEAD_MAX: usize = 14;

/// The report of a run in at most [`LINES_MAX`] lines, with a line feed at its end.
#[must_use]
pub fn brief(run: &Run, judgement: &Judgement, style: &TextStyle) -> String {
    let view = View::new(run, judgement);
    let page = Page { view: &view, paint: Paint { colour: style.colour }, width: style.width.clamp(60, 120) };
    let (mut lines, foot) = (page.head(), page.foot());
    let mut sections = [page.claims(), page.effects(), page.caveats()];
    share(&mut sections, LINES_MAX - lines.len() - foot.len());
    lines.extend(sections.iter().flat_map(|section| page.shown(section)));
    lines.extend(foot);
    lines.join("\n") + "\n"
}

/// The lines under a title: whole where there is room, else on one line.
struct Entry {
    /// Entries are shown in this order where all of them are.
    order: usize,
    short: Vec<String>,
    whole: Vec<String>,
    /// Without a limit, for lines that no section needs.
    full: Vec<String>,
}

impl Entry {
    /// An entry is never shortened to more lines than it has.
    fn new(order: usize, forms: [Vec<String>; 3]) -> Self {
        let [short, whole, full] = forms;
        let short = if short.len() < whole.len() { short } else { whole.clone() };
        Self { order, short, whole, full }
    }
}

/// A title and its entries, those that matter most first.
struct Section {
    title: String,
    entries: Vec<Entry>,
    /// For how many lines of entries there is room.
    room: usize,
    /// How much of the room it gets, against the others.
    weight: usize,
}

impl Section {
    fn new(title: String, entries: Vec<Entry>, weight: usize) -> Self {
        Self { title, entries, room: 0, weight }
    }

    fn wanted(&self) -> usize {
        self.entries.iter().map(|entry| entry.whole.len()).sum()
    }

    /// The lines that fit, and how many entries do not. The first entries are whole as long as there is room for the
    /// short form of each of the others.
    fn fitting(&self) -> (Vec<String>, usize) {
        let short = |count: usize| self.entries[..count].iter().map(|entry| entry.short.len()).sum::<usize>();
        let all = self.entries.len();
        // Where some are left out, a line says how many.
        let fits = |count: &usize| short(*count) + usize::from(*count < all) <= self.room;
        let shown = (0..=all).rev().find(fits).unwrap_or(0);
        let mut spare = self.room.saturating_sub(short(shown) + usize::from(shown < all));
        let mut kept: Vec<(usize, &Vec<String>)> = Vec::new();
        for entry in &self.entries[..shown] {
            let more = entry.whole.len().saturating_sub(entry.short.len());
            let is_whole = more <= spare;
            spare -= if is_whole { more } else { 0 };
            kept.push((entry.order, if is_whole { &entry.whole } else { &entry.short }));
        }
        if shown == all {
            kept.sort_by_key(|(order, _)| *order);
        }
        (kept.into_iter().flat_map(|(_, lines)| lines.clone()).collect(), all - shown)
    }
}

/// Gives the lines out in turn, so that a long section cannot crowd out a short one. First each section gets room for its first
/// entry and the count of the others. A title costs two lines.
fn share(sections: &mut [Section], lines: usize) {
    let titles = 2 * sections.iter().filter(|section| section.wanted() > 0).count();
    let mut left = lines.saturating_sub(titles);
    for section in sections.iter_mut() {
        let first = section.entries.first().map_or(0, |entry| entry.short.len() + 1);
        section.room = first.min(section.wanted()).min(left);
        left -= section.room;
    }
    let mut before = usize::MAX;
    while left > 0 && left < before {
        before = left;
        for section in sections.iter_mut() {
            let more = section.weight.min(section.wanted() - section.room).min(left);
            section.room += more;
            left -= more;
        }
    }
    for section in sections.iter_mut() {
        for entry in &mut section.entries {
            let more = entry.full.len().saturating_sub(entry.whole.len());
            if more <= left {
                entry.whole.clone_from(&entry.full);
                section.room += more;
                left -= more;
            }
        }
    }
}

struct Page<'a> {
    view: &'a View<'a>,
    paint: Paint,
    width: usize,
}

impl Page<'_> {
    fn painted(&self, tone: Tone, lines: Vec<String>) -> impl Iterator<Item = String> {
        lines.into_iter().map(move |line| self.paint.on(tone, &line))
    }

    /// A text after a sign, over at most this many lines unless its remedy needs more, those after the first indented as
    /// deep.
    fn entry(&self, sign: &str, tone: Tone, text: &str, most: usize) -> Vec<String> {
        let lines = fitted(text, self.width - 4, most);
        let lead =
            |at: usize| if at == 0 { self.paint.on(tone, sign) } else { " ".repeat(sign.chars().count()) };
        lines.into_iter().enumerate().map(|(at, line)| format!("  {} {line}", lead(at))).collect()
    }

    fn name(&self, variant: usize) -> String {
        shorten(&clean(self.view.name(variant)), NAME_MAX)
    }

    /// The question, the answer, whether to believe it, and which variants must not be used.
    fn head(&self) -> Vec<String> {
        let (view, headline) = (self.view, Headline::from_view(self.view));
        // The effects below count what they leave out.
        let answer = format!("{}.", headline.without_count(view));
        let trust = format!("{}: {}.", trust_words(headline.trust), headline.trust_reasons);
        let unjudged = unjudged(view).map(|text| (Tone::Bad, clean(&format!("{text}.")), 3));
        let texts = [
            (Tone::Title, view.plan().title.clone(), 2),
            (Tone::Quiet, run_words(view).join(" · "), 2),
            (Tone::Title, answer, 4),
            (trust_tone(headline.trust), trust, 3),
        ];
        let mut lines: Vec<String> = Vec::new();
        for (tone, text, most) in unjudged.into_iter().chain(texts) {
            lines.extend(self.painted(tone, limited(&text, self.width, most)));
        }
        let room = HEAD_MAX.saturating_sub(lines.len());
        lines.extend(self.void(room));
        lines
    }

    /// The void variants, in this many lines or in the few that the first and the count of the others take.
    fn void(&self, room: usize) -> Vec<String> {
        let void = unusable_lines(self.view).into_iter().filter(|line| line.sign == VOID);
        let entries: Vec<Entry> = void
            .enumerate()
            .map(|(order, line)| {
                let short = limited(&line.text, self.width - 4, 1).concat();
                let whole = self.entry(VOID, Tone::Bad, &line.text, VOID_LINES);
                Entry::new(order, [self.entry(VOID, Tone::Bad, &short, 1), whole.clone(), whole])
            })
            .collect();
        let least = entries.len().min(2);
        let section = Section { title: String::new(), entries, room: room.max(least), weight: 0 };
        let (mut lines, missing) = section.fitting();
        if missing > 0 {
            lines.push(format!("  ∅ {} void, too", figures::plural(missing, "more variant")));
        }
        lines
    }

    /// Where the rest is. A command or a path to copy is on one line, however long it is.
    fn foot(&self) -> Vec<String> {
        let directory = &self.view.run.directory;
        let mut lines = vec![format!("All of it: plumb report {} --full", quoted(&clean(directory)))];
        if self.view.run.ending.is_some() {
            lines.push(format!("As a page: {}/report.html", clean(directory)));
        }
        std::iter::once(String::new()).chain(self.painted(Tone::Quiet, lines)).collect()
    }

    fn shown(&self, section: &Section) -> Vec<String> {
        if section.entries.is_empty() {
            return Vec::new();
        }
        let (fitting, missing) = section.fitting();
        let mut lines = vec![String::new(), self.paint.on(Tone::Title, &section.title)];
        lines.extend(fitting);
        if missing > 0 && section.room > 0 {
            lines.push(self.paint.on(Tone::Quiet, &format!("  … {missing} more")));
        }
        lines
    }

    fn claims(&self) -> Section {
        const WEIGHT: usize = 3;
        let found = &self.view.judgement.claims;
        let mut by_verdict: Vec<(usize, &ClaimVerdict)> = found.iter().enumerate().collect();
        by_verdict.sort_by_key(|(_, found)| rank(found.verdict));
        let mut counts: Vec<(Verdict, usize)> = Vec::new();
        for (_, found) in &by_verdict {
            match counts.iter_mut().find(|(verdict, _)| *verdict == found.verdict) {
                Some((_, count)) => *count += 1,
                None => counts.push((found.verdict, 1)),
            }
        }
        let words = |(verdict, count): &(Verdict, usize)| match verdict {
            Verdict::Holds if *count > 1 => format!("{count} hold"),
            other => format!("{count} {}", other.word()),
        };
        let counts: Vec<String> = counts.iter().map(words).collect();
        let title = format!("{}: {}", figures::plural(found.len(), "claim"), counts.join(", "));
        let entries = by_verdict.into_iter().map(|(order, found)| self.claim(order, found)).collect();
        Section::new(title, entries, WEIGHT)
    }

    /// The claim and the reason for its verdict, on one line where it fits.
    fn claim(&self, order: usize, found: &ClaimVerdict) -> Entry {
        let Line { sign, text, below, .. } = claim_line(self.view, found);
        let (text, reason, tone) = (clean(&text), clean(&below), verdict_tone(found.verdict));
        let short =
            match effect_words(found).map(|ratio| format!("{text} · {} {ratio}", found.verdict.word())) {
                Some(short) if short.chars().count() + 4 <= self.width => short,
                _ => {
                    let verdict = format!(" · {}", found.verdict.word());
                    let room = self.width.saturating_sub(4 + verdict.chars().count());
                    limited(&text, room, 1).concat() + &verdict
                }
            };
        let short = self.entry(sign, tone, &short, 1);
        let lines = |most| {
            if text.chars().count() + reason.chars().count() + 7 <= self.width {
                return self.entry(sign, tone, &format!("{text} · {reason}"), 1);
            }
            let mut lines = self.entry(sign, tone, &text, most);
            lines.extend(self.entry(" ", tone, &reason, most));
            lines
        };
        Entry::new(order, [short, lines(2), lines(LINES_MAX)])
    }

    /// The comparisons with the baseline that claims are about; without claims, those of the main metric.
    fn effects(&self) -> Section {
        const WEIGHT: usize = 2;
        let view = self.view;
        let pairs = self.claimed_pairs();
        let found: Vec<(usize, Row<'_>, usize, &Comparison)> = (0..view.plan().cells.len())
            .flat_map(|cell| pairs.iter().map(move |(row, variant)| (cell, *row, *variant)))
            .filter_map(|(cell, row, variant)| {
                Some((cell, row, variant, view.comparison(cell, variant, row)?))
            })
            .collect();
        let scale = Scale::of_ratios(found.iter().map(|(.., comparison)| *comparison));
        let labels: Vec<[String; 4]> = found.iter().map(|found| self.effect_words(*found)).collect();
        let widths = [0, 1, 2, 3].map(|at| widest(labels.iter().map(|label| label[at].as_str())));
        let used: usize =
            2 + widths.iter().map(|width| if *width > 0 { width + 2 } else { 0 }).sum::<usize>();
        let line = |(label, (cell, row, variant, comparison)): (
            &[String; 4],
            &(usize, Row<'_>, usize, &Comparison),
        )| {
            let change = Change::shown_by(comparison, row.metric.better);
            let (_, tone) = change_words(view, *cell, *variant, change);
            let mut line = "  ".to_owned();
            for (at, part) in label.iter().enumerate().filter(|(at, _)| widths[*at] > 0) {
                let part = format!("{}  ", left(part, widths[at]));
                line.push_str(&if at == 3 { self.paint.on(tone, &part) } else { part });
            }
            let picture = interval_picture(comparison, &scale, self.width.saturating_sub(used).min(40));
            let line = (line + &self.paint.on(tone, &picture)).trim_end().to_owned();
            if used <= self.width + 2 {
                line
            } else {
                let parts: Vec<&str> =
                    label.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
                shorten(&format!("  {}", parts.join("  ")), self.width)
            }
        };
        let entry = |(order, found)| {
            let line = vec![line(found)];
            Entry::new(order, [line.clone(), line.clone(), line])
        };
        let entries = labels.iter().zip(&found).enumerate().map(entry).collect();
        let title = format!(
            "effects against {}, {} intervals",
            self.name(view.plan().baseline),
            view.plan().confidence_words()
        );
        Section::new(title, entries, WEIGHT)
    }

    /// Every metric and variant of a claim, each pair once, in the order of the claims.
    fn claimed_pairs(&self) -> Vec<(Row<'_>, usize)> {
        let view = self.view;
        let mut pairs: Vec<(Row<'_>, usize)> = Vec::new();
        for term in terms(view.plan()) {
            let metric = view.plan().metric(&term.metric);
            let variant = view.others().find(|variant| view.name(*variant) == term.variant);
            let Some((metric, variant)) = metric.zip(variant) else { continue };
            let pair = (Row { metric, statistic: term.statistic }, variant);
            if !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        if view.plan().claims.is_empty() {
            pairs.extend(view.main_row().iter().flat_map(|row| view.others().map(|variant| (*row, variant))));
        }
        pairs
    }

    /// The cell where there are several, the metric with the variant, the effect, and the word for it.
    fn effect_words(&self, (cell, row, variant, found): (usize, Row<'_>, usize, &Comparison)) -> [String; 4] {
        let change = Change::shown_by(found, row.metric.better);
        let (word, _) = change_words(self.view, cell, variant, change);
        let place =
            if self.view.plan().cells.len() > 1 { self.view.short_label(cell) } else { String::new() };
        [
            shorten(&clean(&place), NAME_MAX),
            format!("{} {}", self.name(variant), shorten(&clean(&row.key()), KEY_MAX)),
            figures::effect(found.ratio, found.low, found.high),
            word.to_owned(),
        ]
    }

    /// The caveats to read before the numbers are used: warnings, failures, and variants that were left out.
    fn caveats(&self) -> Section {
        const WEIGHT: usize = 2;
        let view = self.view;
        let unusable = unusable_lines(view).into_iter().filter(|line| line.sign != VOID);
        let caveats =
            [warnings(view), outliers(view), error_lines(view)].into_iter().flatten().chain(unusable);
        let entry = |(order, line): (usize, Line)| {
            let tone = line.tone.unwrap_or(Tone::Quiet);
            let lines = |most| self.entry(line.sign, tone, &line.text, most);
            Entry::new(order, [lines(1), lines(2), lines(LINES_MAX)])
        };
        let entries = caveats.enumerate().map(entry).collect();
        Section::new("caveats".to_owned(), entries, WEIGHT)
    }
}

/// The rank of a claim for a reader when not all are shown: lower ones come first.
fn rank(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Refuted => 0,
        Verdict::Void => 1,
        Verdict::Undecided => 2,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};
    use plumb_model::{Caution, VariantState};

    fn plain((run, judgement): &(Run, Judgement), width: usize) -> String {
        brief(run, judgement, &TextStyle { colour: false, width })
    }

    #[test]
    fn a_run_fits_on_a_screen() {
        for width in [60, 80, 100, 120] {
            insta::assert_snapshot!(format!("run_{width}"), plain(&Scenario::tls_offload().run(), width));
        }
    }

    #[test]
    fn many_claims_are_counted_and_those_that_do_not_hold_come_first() {
        insta::assert_snapshot!("troubled", plain(&fixture::troubled(), 100));
        insta::assert_snapshot!("crowded", plain(&fixture::crowded(3), 100));
    }

    #[test]
    fn a_run_without_slots_says_so() {
        insta::assert_snapshot!("interrupted", plain(&fixture::interrupted_at_once(), 80));
    }

    #[test]
    fn no_run_takes_more_lines_or_columns_than_there_are() {
        let mut many = Scenario::tls_offload().run();
        let text = |at| format!("warning {} {}", "w".repeat(at), "x ".repeat(200));
        many.1.cautions = (0..40).map(|at| fixture::noticed(&text(at))).collect();
        many.0.header.plan.title = "why ".repeat(400);
        many.0.directory = "d/".repeat(300);
        let all = [
            Scenario::tls_offload().run(),
            fixture::crowded(3),
            fixture::crowded(1),
            fixture::troubled(),
            fixture::hostile(),
            fixture::one_block(),
            fixture::interrupted_at_once(),
            many,
        ];
        for fixture in &all {
            for width in [60, 80, 100, 120] {
                let report = plain(fixture, width);
                assert!(report.lines().count() <= LINES_MAX, "{width}: {report}");
                let is_to_copy =
                    |line: &str| line.starts_with("All of it: ") || line.starts_with("As a page: ");
                let wrapped = report.lines().filter(|line| !is_to_copy(line));
                let longest = wrapped.max_by_key(|line| line.chars().count()).unwrap();
                assert!(longest.chars().count() <= width, "{width}: {longest}");
            }
        }
    }

    #[test]
    fn a_caveat_keeps_its_remedy_and_a_command_its_line() {
        let (mut run, mut judgement) = Scenario::tls_offload().run();
        judgement.cautions.push(Caution::SystemWaited {
            cell: String::new(),
            variant: "threads".to_owned(),
            baseline: "software".to_owned(),
            variant_share: 0.36,
            baseline_share: 0.006,
            shared: std::collections::BTreeSet::new(),
        });
        run.directory = format!("runs/{}", "long-name".repeat(9));
        for width in [60, 80, 120] {
            let report = plain(&(run.clone(), judgement.clone()), width);
            assert!(report.contains("give each side its own CPUs\n"), "{report}");
            let command = format!("plumb report {} --full\n", run.directory);
            assert!(report.contains(&command), "{report}");
        }
    }

    #[test]
    fn every_void_variant_is_named_or_counted() {
        for width in [60, 80, 120] {
            let (mut run, mut judgement) = Scenario::tls_offload().run();
            run.header.plan.title = "why is it so ".repeat(11);
            let all = judgement.variants.len();
            for summary in &mut judgement.variants {
                let reason = format!("{}; it counted nothing that is of use", "nothing proves it ".repeat(9));
                summary.state = VariantState::Void { reason };
            }
            let report = plain(&(run.clone(), judgement.clone()), width);
            let named = report.lines().filter(|line| line.contains(" is void: ")).count();
            let rest = all - named;
            let is_counted = |line: &str| line.contains(&format!("∅ {rest} more variant"));
            assert!(named > 0 && (rest == 0 || report.lines().any(is_counted)), "{report}");
            let view = View::new(&run, &judgement);
            let page = Page { view: &view, paint: Paint { colour: false }, width };
            let few = page.void(0);
            assert!(few.len() == 2 && few[0].ends_with('…'), "{few:?}");
            assert_eq!(few[1], format!("  ∅ {} more variants void, too", all - 1));
        }
    }

    #[test]
    fn no_caveat_is_shortened_while_lines_are_unused() {
        let (run, mut judgement) = Scenario::tls_offload().run();
        let long = "verdicts were allowed from 2 blocks on; below 6 a disturbance in step with the blocks can pass for an effect";
        judgement.cautions =
            vec![Caution::Synthetic { path: "null".to_owned() }, Caution::FewBlocks { blocks: 2 }];
        judgement.comparisons.clear();
        judgement.claims.clear();
        let report = plain(&(run, judgement), 60);
        let words: Vec<&str> = report.split_whitespace().collect();
        assert!(words.join(" ").contains(&format!("nothing was measured ! {long}")), "{report}");
    }

    #[test]
    fn what_is_left_out_is_counted_once() {
        let report = plain(&fixture::crowded(3), 100);
        assert!(report.contains(" more\n") && !report.contains("below"), "{report}");
    }

    #[test]
    fn what_is_void_stands_above_the_claims() {
        let report = plain(&Scenario::tls_offload().run(), 100);
        let (void, claims) = (report.find("engine is void").unwrap(), report.find("5 claims").unwrap());
        assert!(void < claims, "{report}");
    }

    #[test]
    fn colours_change_nothing_but_colour() {
        for (run, judgement) in [Scenario::tls_offload().run(), fixture::hostile()] {
            let mut bare = brief(&run, &judgement, &TextStyle { colour: true, width: 100 });
            for code in ["0", "1", "2", "31", "32", "33"] {
                bare = bare.replace(&format!("\u{1b}[{code}m"), "");
            }
            assert_eq!(bare, brief(&run, &judgement, &TextStyle { colour: false, width: 100 }));
        }
    }
}
