//! The report as one HTML file that needs nothing else: no network, no script, no extra font.
//!
//! The content security policy in its head forbids all of those, so that a text of the experiment that slipped through the
//! escaping could still do nothing. Figures are SVG, their numbers are repeated in tables, and whatever a pointer tells
//! is said elsewhere too.

mod blocks;
mod break_even;
mod capacity;
pub mod chart;
mod contrast;
mod cpu;
mod forest;
mod front;
mod narrowing;
pub mod parts;
mod percentiles;
mod plan;
mod section;
mod slots;
mod timeline;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plumb_model::{Ending, Judgement, Run, Verdict};

use crate::figures;
use crate::page::{Section, answers, proofs, verdict_tone};
use crate::summary::{
    Headline, Piece, blocks_words, mark, quick_words, slots_words, trust_words, unjudged, verdict_count,
};
use crate::text::trust_tone;
use crate::view::View;
use chart::Look;

const STYLE: &str = include_str!("html/style.css");
/// With more variants than this, two figures side by side would be too small.
const PAIR_MAX: usize = 6;
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The report of a run as one HTML document.
#[must_use]
pub fn html(run: &Run, judgement: &Judgement) -> String {
    let view = &View::new(run, judgement);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content={ "plumb " (run.header.program_version) };
                title { (view.plan().title) " – Plumbline" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (top(view))
                (navigation(view))
                main { (body(view)) }
                footer {
                    "Made by plumb " (run.header.program_version) " from " code { (run.directory) } ". "
                    "Intervals are right at every look that was planned: watching a run does not make them wrong."
                }
            }
        }
    };
    plumb_model::printable_lines(&page.into_string()).into_owned()
}

fn top(view: &View<'_>) -> Markup {
    let headline = Headline::from_view(view);
    let tone = section::class(trust_tone(headline.trust));
    html! {
        header {
            p.brand { (bob()) span { "Plumbline · " (view.plan().name) } }
            h1 { (view.plan().title) }
            @if let Some(text) = unjudged(view) { p.trust { b.bad { (text) "." } } }
            p.headline {
                @for piece in &headline.pieces {
                    @match piece {
                        Piece::Text(_) | Piece::Further(_) => (piece.plain_text(view)),
                        Piece::Variant(variant) => b class={ "ink " (Look::of_variant(view, *variant).class) } { (view.name(*variant)) },
                    }
                }
                "."
            }
            p.trust { b class=(tone) { (trust_words(headline.trust)) } ": " (headline.trust_reasons) "." }
            (badges(view))
            (facts(view))
        }
    }
}

/// The mark of the house: a line with a bob.
fn bob() -> Markup {
    html! {
        svg width="12" height="44" viewBox="-6 0 12 44" aria-hidden="true" {
            line x1="0" x2="0" y1="0" y2="26" stroke-width="1.2" {}
            path d="M-4 25h8l1 5L0 43-5 30z" stroke="none" {}
        }
    }
}

fn badges(view: &View<'_>) -> Markup {
    let verdicts = [
        (Verdict::Holds, "holds", "hold"),
        (Verdict::Refuted, "is refuted", "are refuted"),
        (Verdict::Undecided, "is undecided", "are undecided"),
        (Verdict::Void, "is void", "are void"),
        (Verdict::Skipped, "is skipped", "are skipped"),
    ];
    let ending = match view.run.ending {
        Some(Ending::Complete) => None,
        Some(Ending::Interrupted) => Some("interrupted"),
        Some(Ending::Failed) => Some("the harness failed"),
        None => Some("not ended"),
    };
    let warnings = view.warnings().len();
    html! {
        ul.badges {
            @for (verdict, one, several) in verdicts {
                @let count = verdict_count(view, verdict);
                @if count > 0 {
                    li class=(section::class(verdict_tone(verdict))) { (mark(verdict)) " " (figures::plural(count, "claim")) " " (if count == 1 { one } else { several }) }
                }
            }
            @if let Some(quick) = quick_words(view) { li.doubt { (quick) } }
            @if let Some(ending) = ending { li.doubt { (ending) } }
            @if warnings > 0 { li.doubt { "! " (figures::plural(warnings, "warning")) } }
        }
    }
}

fn facts(view: &View<'_>) -> Markup {
    let run = view.run;
    let own = [
        ("blocks", blocks_words(view)),
        ("slots", slots_words(view)),
        ("took", run.took_s.map_or("–".to_owned(), figures::duration_s)),
        ("started", run.header.started_at.clone()),
        ("seed", view.plan().seed.to_string()),
        ("digest", view.digest()),
    ];
    html! {
        dl.facts {
            @for (name, value) in own { div { dt { (name) } dd { (value) } } }
            @for (name, value) in run.header.host.iter().take(4) { div { dt { (name) } dd { (value) } } }
        }
    }
}

fn navigation(view: &View<'_>) -> Markup {
    let cells = &view.plan().cells;
    html! {
        nav aria-label="Contents" { ul {
            (links(&answers(view)))
            @if cells.len() == 1 { li { a href="#cell-0" { "Effects" } } }
            @else { @for at in 0..cells.len() { li { a href={ "#cell-" (at) } { (view.short_label(at)) } } } }
            (links(&proofs(view)))
            li { a href="#plan" { "Plan" } }
            li { a href="#host" { "Host" } }
            li { a href="#experiment" { "Experiment" } }
        } }
    }
}

fn links(sections: &[Section<'_>]) -> Markup {
    html! { @for section in sections { li { a href={ "#" (section.id) } { (section.title) } } } }
}

fn body(view: &View<'_>) -> Markup {
    html! {
        @for section in &answers(view) { (section::section(view, section)) }
        @for cell in 0..view.plan().cells.len() { (self::cell(view, cell)) }
        @for section in &proofs(view) { (section::section(view, section)) }
        section id="plan" { h2 { "Plan" } (plan::plan(view)) }
        section id="host" { h2 { "Host" } (plan::host(view)) }
        section id="experiment" { h2 { "How to reproduce it" } (plan::reproduction(view)) }
    }
}

/// Everything about one cell of the matrix.
fn cell(view: &View<'_>, cell: usize) -> Markup {
    let label = view.plan().cells[cell].label();
    let measured = view.cell_slots(cell).next().is_some();
    html! {
        section id={ "cell-" (cell) } {
            h2 { @if label.is_empty() { "Effects" } @else { (label) } }
            @if measured {
                (forest::forest(view, cell))
                div class=(if view.variants().len() > PAIR_MAX { "" } else { "pair" }) {
                    div { @for metric in view.drawn_trends() { (percentiles::percentiles(view, cell, metric)) } }
                    (cpu::cpu(view, cell))
                }
                (timeline::timeline(view, cell))
                (blocks::blocks(view, cell))
                (section::medians(view, cell))
            } @else {
                p.quiet { "No slot was measured here." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Scenario};

    fn all() -> Vec<String> {
        let fixtures = [
            Scenario::tls_offload().run(),
            fixture::interrupted_at_once(),
            fixture::one_block(),
            fixture::troubled(),
            fixture::several_agents(),
            fixture::crowded(2),
            fixture::hostile(),
        ];
        fixtures.iter().map(|(run, judgement)| html(run, judgement)).collect()
    }

    /// Every tag that is opened is closed, in order; what has no end is known.
    fn assert_balanced(page: &str) {
        let mut open: Vec<&str> = Vec::new();
        for piece in page.split('<').skip(1) {
            let tag = piece.split('>').next().unwrap();
            let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(closed), "…{piece}");
            } else if !tag.starts_with('!') && name != "meta" {
                open.push(name);
            }
        }
        assert_eq!(open, Vec::<&str>::new());
    }

    #[test]
    fn pages_are_well_formed_and_draw_no_number_that_is_none() {
        for page in all() {
            assert_balanced(&page);
            for wrong in ["NaN", "inf%", "\"inf\"", "-inf"] {
                assert!(!page.contains(wrong), "{wrong}");
            }
        }
    }

    #[test]
    fn pages_need_no_network_and_run_no_script() {
        for page in all() {
            for wrong in ["src=", "url(", "@import", "<link", "<script", "http://", "https://"] {
                assert!(!page.contains(wrong), "{wrong}");
            }
        }
    }

    #[test]
    fn places_stay_within_their_figures() {
        for page in all() {
            for attribute in [" x=\"", " x1=\"", " x2=\"", " cx=\""] {
                for value in page.split(attribute).skip(1).filter_map(|rest| rest.split('"').next()) {
                    if let Some(share) = value.strip_suffix('%') {
                        let share: f64 = share.parse().unwrap();
                        assert!((0.0..=100.0).contains(&share), "{attribute}{value}");
                    }
                }
            }
        }
    }

    #[test]
    fn hostile_texts_stay_texts() {
        let (run, judgement) = fixture::hostile();
        let page = html(&run, &judgement);
        assert!(page.matches("&lt;script&gt;alert('x')&lt;/script&gt;&amp;&quot;").count() > 10);
        assert!(!page.contains("alert('x')</"));
    }

    #[test]
    fn every_section_is_there_for_a_full_run_and_for_an_empty_one() {
        for page in [all().swap_remove(0), all().swap_remove(1)] {
            for id in ["claims", "cell-0", "evidence", "plan", "host", "experiment"] {
                assert!(
                    page.contains(&format!("id=\"{id}\"")) && page.contains(&format!("href=\"#{id}\"")),
                    "{id}"
                );
            }
        }
        let (run, judgement) = Scenario::tls_offload().run();
        let page = html(&run, &judgement);
        for words in [
            "What changed, against software",
            "Latency by percentile",
            "Slots over time",
            "What it costs",
            "Block by block",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn effects_that_are_in_doubt_look_so() {
        let (run, mut judgement) = fixture::troubled();
        let of_plain = "better<span class=\"doubt\">, load-bound</span>";
        assert!(html(&run, &judgement).contains(of_plain));
        assert!(crate::markdown(&run, &judgement).contains("better, load-bound"));
        let differs = "doubt\">holds, but the work differed";
        assert!(!html(&run, &judgement).contains(differs));
        judgement.claims[0].verdict = plumb_model::Verdict::Holds;
        judgement.claims[0].different_work = true;
        assert!(html(&run, &judgement).contains(differs));
        judgement.claims[0].verdict = plumb_model::Verdict::Void;
        assert!(!html(&run, &judgement).contains("void, but the work differed"), "nothing to doubt is said");
    }

    #[test]
    fn undecided_effects_are_open_to_both_sides() {
        let (run, judgement) = fixture::one_block();
        let page = html(&run, &judgement);
        assert!(page.contains("not yet decided") && page.contains("class=\"arrow v1\""));
    }
}
