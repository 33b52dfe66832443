//! The events for a browser that follows a run. They are sent at the end of a slot, and never while a window
//! is open.
//!
//! On the measured host, the browser would take CPU time from the measurement, and so would making its page.
//! The follower therefore sleeps until an announced window has closed. A load that does not follow a clock
//! announces no window; for such a load, the follower sends only when a slot has ended.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plumb_host::time::unix_ms;
use plumb_model::{Slot, SlotOutcome, Verdict};
use plumb_store::{Now, Phase, Stamp, is_being_written, now};
use serde_json::json;

use crate::fault::RequestError;
use crate::pages::compare::opened;
use crate::pages::live::{Parts, parts};
use crate::shelf::{OpenError, Opened};
use crate::site::Site;

/// How soon after a window to look for the line of the slot, and how often to look before the next window is
/// known.
const SOON_MS: u64 = 100;
const OFTEN_MS: u64 = 250;
/// How often to look if the run does not say what it is doing.
const SELDOM_MS: u64 = 1000;
/// The longest sleep, so that the follower notices the end of a killed run.
const SLEEP_MS_MAX: u64 = 15_000;
/// A window that opens sooner than this is not announced to the browser, which would be busy with the update
/// while it opens.
const NOTICE_MS: u64 = 300;

/// A browser that follows a run.
pub struct Follower {
    id: String,
    path: PathBuf,
    run: Arc<Mutex<Opened>>,
    /// How many slots the browser has received.
    told: usize,
    seen: Stamp,
    now: Option<Now>,
    verdicts: Vec<Verdict>,
    /// Whether the browser gets everything once, whatever it has seen.
    is_behind: bool,
}

/// The next step of a follower.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// To look again.
    Look {
        /// After this time.
        after: Duration,
        /// Whether a window is open meanwhile.
        in_window: bool,
    },
    /// To stop: the run is over.
    End,
}

impl Follower {
    /// Creates a follower for a browser that knows `told` slots. A browser whose connection was cut gets the
    /// current state once.
    ///
    /// # Errors
    /// When no such run exists, or it cannot be read.
    pub fn new(site: &Site, id: &str, told: usize, is_behind: bool) -> Result<Self, RequestError> {
        let run = opened(site, id)?;
        let path = site.shelf.path(id).ok_or_else(|| RequestError::missing("There is no such run."))?;
        let (slots, verdicts) = {
            let run = run.lock().unwrap_or_else(PoisonError::into_inner);
            (run.run().slots.len(), verdicts(&run))
        };
        let told = told.min(slots);
        let is_behind = is_behind || told < slots;
        let now = now(&path);
        Ok(Self { id: id.to_owned(), path, run, told, seen: Stamp::default(), now, verdicts, is_behind })
    }

    /// The events to send now, and the next step.
    pub fn step(&mut self) -> (String, Next) {
        let (at_ms, now) = (unix_ms(), now(&self.path));
        if let Some(closes_ms) =
            now.as_ref().filter(|now| now.is_window_open(at_ms)).and_then(|now| now.window_closes_ms)
        {
            return (String::new(), look(closes_ms - at_ms + SOON_MS / 2, true));
        }
        let stamp = Stamp::of_directory(&self.path);
        let is_over = stamp.has_ended() || !is_being_written(&self.path);
        let is_grown = stamp != self.seen;
        let is_news = is_grown || self.is_behind || is_worth_telling(self.now.as_ref(), now.as_ref(), at_ms);
        let mut sent = String::new();
        if is_news || is_over {
            match self.news(now.as_ref(), is_over) {
                Ok(text) => sent = text,
                Err(error) => return (event("fault", &json!({ "words": error.to_string() })), Next::End),
            }
            (self.seen, self.now, self.is_behind) = (stamp, now.clone(), false);
        }
        if is_over {
            return (sent, Next::End);
        }
        (sent, look(pause_ms(now.as_ref(), at_ms), false))
    }

    /// All new events: each new slot with its number, then the current state.
    fn news(&mut self, now: Option<&Now>, is_over: bool) -> Result<String, OpenError> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.seen;
        run.go_on()?;
        let slots = &run.run().slots;
        // A resumed run may have lost a line that was cut short.
        self.told = self.told.min(slots.len());
        let is_first = before == Stamp::default() && !self.is_behind;
        if is_first && self.told == slots.len() && !is_over {
            return Ok(String::new());
        }
        let mut text: String = (self.told..slots.len()).map(|at| slot_event(at, &slots[at])).collect();
        self.told = slots.len();
        let verdicts_now = verdicts(&run);
        let said = changes(&run, &self.verdicts, &verdicts_now);
        self.verdicts = verdicts_now;
        let Parts { title, pieces } = parts(&self.id, &mut run, now);
        text.push_str(&event(
            if is_over { "end" } else { "view" },
            &json!({ "title": title, "parts": pieces, "said": said }),
        ));
        Ok(text)
    }
}

fn look(after_ms: u64, in_window: bool) -> Next {
    Next::Look { after: Duration::from_millis(after_ms.min(SLEEP_MS_MAX)), in_window }
}

/// How long nothing new can happen, in ms.
fn pause_ms(now: Option<&Now>, at_ms: u64) -> u64 {
    let Some(now) = now else { return SELDOM_MS };
    match (now.phase, now.window_opens_ms, now.window_closes_ms) {
        // The slot is written soon after its window closes. Nothing happens until the window opens.
        (Phase::Measuring, Some(opens), Some(closes)) if at_ms < opens => closes - at_ms + SOON_MS / 2,
        (Phase::Measuring, ..) => SOON_MS,
        _ => OFTEN_MS,
    }
}

/// Whether to send the run's activity although no slot has ended: its window is known, and opens late enough.
fn is_worth_telling(before: Option<&Now>, now: Option<&Now>, at_ms: u64) -> bool {
    let opens_ms = |now: Option<&Now>| now.and_then(|now| now.window_opens_ms);
    opens_ms(now) != opens_ms(before) && opens_ms(now).is_some_and(|opens| at_ms + NOTICE_MS < opens)
}

fn verdicts(run: &Opened) -> Vec<Verdict> {
    run.judgement().claims.iter().map(|claim| claim.verdict).collect()
}

/// The claims whose verdict has changed, in sentences for screen readers.
fn changes(run: &Opened, before: &[Verdict], after: &[Verdict]) -> Vec<String> {
    let claims = &run.judgement().claims;
    let changed = claims.iter().zip(before.iter().zip(after)).filter(|(_, (before, after))| before != after);
    let plan = &run.run().header.plan;
    let words = |claim: &plumb_model::ClaimVerdict| {
        let text = plan.claims.get(claim.claim).map_or("a claim", |claim| claim.text.as_str());
        format!("{}: {text}", claim.verdict.word())
    };
    changed.map(|(claim, _)| words(claim)).collect()
}

/// The event of a slot. Its id is the number of slots up to this one, so that a browser that reconnects gets
/// the slots after it.
fn slot_event(at: usize, slot: &Slot) -> String {
    let failed = match &slot.outcome {
        SlotOutcome::Failed { reason, .. } => Some(reason.as_str()),
        SlotOutcome::Measured(_) => None,
    };
    let data = json!({
        "number": at + 1, "cell": slot.cell, "block": slot.block, "position": slot.position, "variant": slot.variant,
        "failed": failed,
    });
    format!("id: {}\n{}", at + 1, event("slot", &data))
}

/// One event (HTML, "Server-sent events"). JSON contains no line feed, which would end the event's data.
fn event(name: &str, data: &serde_json::Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measuring(opens_ms: u64, closes_ms: u64) -> Now {
        Now {
            pid: 1,
            started_ticks: 1,
            cell: 0,
            block: 0,
            position: 0,
            of: 4,
            variant: "a".to_owned(),
            phase: Phase::Measuring,
            since_ms: 0,
            window_opens_ms: Some(opens_ms),
            window_closes_ms: Some(closes_ms),
            left_at_most_s: 0.0,
            left_probably_s: 0.0,
        }
    }

    #[test]
    fn nothing_is_looked_at_from_before_a_window_until_after_it() {
        let now = measuring(5_000, 9_000);
        assert!(pause_ms(Some(&now), 4_000) > 5_000);
        assert_eq!(pause_ms(Some(&now), 9_500), SOON_MS, "the slot is about to be written down");
        assert_eq!(pause_ms(None, 0), SELDOM_MS);
    }

    #[test]
    fn a_window_is_told_in_advance_or_not_at_all() {
        let now = measuring(5_000, 9_000);
        assert!(is_worth_telling(None, Some(&now), 4_000));
        assert!(!is_worth_telling(Some(&now), Some(&now), 4_000), "it was told");
        assert!(!is_worth_telling(None, Some(&now), 4_900), "it opens at once");
        assert!(!is_worth_telling(None, None, 0));
    }

    #[test]
    fn an_event_is_a_line_whatever_is_in_it() {
        let text = event("slot", &json!({ "failed": "a\nb\r\n\ndata: c" }));
        assert_eq!(text.lines().count(), 3);
        assert!(text.ends_with("\n\n"));
    }
}
