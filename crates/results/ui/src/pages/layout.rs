//! The frame of all pages, and pieces that several pages use.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use plumb_model::{Verdict, printable_lines};

use crate::fault::RequestError;
use crate::page_response::PageResponse;
use crate::shelf::{State, Summary};
use crate::site::Site;

/// Where in the navigation a page belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Runs,
    Compare,
    History,
    Hosts,
    Start,
    Elsewhere,
}

const PARTS: [(Part, &str, &str); 5] = [
    (Part::Runs, "/", "Runs"),
    (Part::Compare, "/compare", "Compare"),
    (Part::History, "/history", "History"),
    (Part::Hosts, "/hosts", "Hosts"),
    (Part::Start, "/start", "Start a run"),
];

/// A whole page. The title includes the state, so that a browser tab shows it.
#[must_use]
pub fn page(site: &Site, part: Part, title: &str, content: &Markup) -> PageResponse {
    page_with(site, (part, 200), title, content)
}

/// A whole page with another status.
#[must_use]
pub fn page_with(site: &Site, (part, status): (Part, u16), title: &str, content: &Markup) -> PageResponse {
    let html = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " – Plumbline" }
                link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/assets/report.css";
                link rel="stylesheet" href="/assets/page.css";
                script src="/assets/page.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to the content" }
                header.site {
                    a.home href="/" { (bob()) span { "Plumbline" } }
                    nav aria-label="Site" { ul {
                        @for (known, href, name) in PARTS {
                            li { a href=(href) aria-current=[(known == part).then_some("page")] { (name) } }
                        }
                    } }
                }
                main #main tabindex="-1" { (content) }
                footer { p { "plumb " (site.settings.version) " · " (served(site)) } }
            }
        }
    };
    PageResponse::page(status, printable_lines(&html.into_string()).into_owned())
}

/// The page of a request that was refused or failed.
#[must_use]
pub fn fault(site: &Site, fault: &RequestError) -> PageResponse {
    let content = html! {
        h1 { (fault.heading()) }
        p.lead { (fault.words) }
        p { a href="/" { "All runs" } }
    };
    page_with(site, (Part::Elsewhere, fault.status), fault.heading(), &content)
}

fn served(site: &Site) -> String {
    let roots: Vec<String> = site.shelf.roots().iter().map(|root| root.display().to_string()).collect();
    roots.join(", ")
}

/// The logo: a plumb line with its bob.
fn bob() -> Markup {
    html! {
        svg width="12" height="30" viewBox="-6 13 12 30" aria-hidden="true" {
            line x1="0" x2="0" y1="12" y2="26" stroke-width="1.2" {}
            path d="M-4 25h8l1 5L0 43-5 30z" stroke="none" {}
        }
    }
}

/// HTML that the report made and escaped.
#[must_use]
pub fn made(html: &str) -> PreEscaped<&str> {
    PreEscaped(html)
}

/// The state of a run, as a word with its sign. A run that is complete has no sign: whether it succeeded is for its claims to say.
#[must_use]
pub fn state(state: State) -> Markup {
    let sign = match state {
        State::Running => "▶",
        State::Complete => "",
        State::Interrupted => "◼",
        State::Killed => "!",
        State::Failed | State::Unreadable => "✘",
    };
    html! { span class={ "state " (state.tone()) } { @if !sign.is_empty() { span aria-hidden="true" { (sign) " " } } (state.word()) } }
}

/// The verdicts of a run: how many of each, by sign, and by word for screen readers.
#[must_use]
pub fn verdicts(summary: &Summary) -> Markup {
    let tones = ["good", "bad", "doubt", "quiet", "quiet"];
    let found = Verdict::ALL.iter().zip(summary.verdicts).zip(tones).filter(|((_, count), _)| *count > 0);
    html! {
        @if summary.verdicts.iter().sum::<usize>() == 0 { span.quiet { "no claims" } }
        @for ((verdict, count), tone) in found {
            span class={ "verdict " (tone) } title={ (count) " " (verdict.word()) } {
                span aria-hidden="true" { (plumb_report::mark(*verdict)) } " " span.unseen { (verdict.word()) " " } (count)
            }
            " "
        }
    }
}

/// A time in RFC 3339 in readable form: to the second, in UTC.
#[must_use]
pub fn time(rfc3339: &str) -> Markup {
    let (day, clock) = rfc3339.split_once('T').unwrap_or((rfc3339, ""));
    html! { @if rfc3339.is_empty() { "–" } @else { time datetime=(rfc3339) { (day) " " (clock.get(..8).unwrap_or(clock)) } } }
}

/// The hidden field that every form has.
#[must_use]
pub fn form_token(site: &Site) -> Markup {
    html! { input type="hidden" name="form" value=(site.door.form().text()); }
}
