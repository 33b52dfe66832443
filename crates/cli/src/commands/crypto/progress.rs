//! Progress of `plumb crypto` on standard error: a live line on a terminal, a line for each algorithm elsewhere.

use plumb_crypto::measure::{Algorithm, Point, Source};
use plumb_host::time::monotonic_ns;
use plumb_model::Span;

use crate::live::LiveLine;
use crate::output;

/// `openssl speed` measures the inverse operation too, except for blocks and exchanges.
const SPEED_HALVES: f64 = 2.1;
/// Warm-ups, keys and known answers, beside what is measured.
const BESIDE: f64 = 1.15;

/// The progress line of a measurement.
#[derive(Debug)]
pub struct Progress {
    quiet: bool,
    live: LiveLine,
    begun_ns: u64,
    expected_s: f64,
    algorithm: Option<Algorithm>,
}

impl Progress {
    /// Of a command that has just begun.
    pub fn new(quiet: bool) -> Self {
        Self { quiet, live: LiveLine::new(quiet), begun_ns: monotonic_ns(), expected_s: 0.0, algorithm: None }
    }

    /// Says how much there is to do.
    pub fn expect(&mut self, points: &[Point], duration: Span, rounds: u32) {
        let whole_s = duration.seconds().ceil().max(1.0);
        let seconds = |point: &Point| match (point.source, point.work.algorithm) {
            (Source::Device(_), _) => duration.seconds(),
            (Source::OpensslSpeed, algorithm) if algorithm.signature().is_some() => whole_s * SPEED_HALVES,
            (Source::OpensslSpeed, _) => whole_s,
        };
        self.expected_s = points.iter().map(seconds).sum::<f64>() * BESIDE;
        let (rows, time) = (points.len(), self.expected_s.ceil());
        self.line(&format!(
            "plumb {} · {rows} rows in {rounds} rounds · about {time:.0} s",
            env!("CARGO_PKG_VERSION")
        ));
    }

    /// A window is about to be measured.
    pub fn window(&mut self, point: &Point, round: u32, rounds: u32) {
        let algorithm = point.work.algorithm;
        if !self.live.is_shown() && self.algorithm.replace(algorithm) != Some(algorithm) {
            self.line(&format!("measuring {algorithm}"));
        }
        self.show(&format!("{algorithm}, round {round} of {rounds}: {}", point.source.name()));
    }

    /// Shows the present step.
    pub fn show(&self, text: &str) {
        let elapsed_s = Span(monotonic_ns().saturating_sub(self.begun_ns)).seconds();
        let left = (self.expected_s - elapsed_s).max(0.0);
        let left = if left >= 1.0 { format!(" · about {left:.0} s left") } else { String::new() };
        self.live.show(&format!("{text}{left}"));
    }

    /// A line that stays.
    pub fn line(&self, text: &str) {
        if !self.quiet {
            self.live.clear();
            output::message(text);
        }
    }

    /// Nothing more is to come.
    pub fn finish(&self) {
        self.live.clear();
    }
}
