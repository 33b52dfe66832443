//! What limiters a run met: what each let through against what its policy allows, what it had saved up and charged, and the
//! latency without the part that the limit explains.
//!
//! The load says so in a table of one row, `limiter`; here stand medians over slots. Only the table's and its columns' names
//! are known: a run whose data path has no such table has no such section.

use plumb_model::{Bytes, Cell, Unit};
use plumb_stats::median;

use crate::figures;
use crate::view::View;

const TABLE: &str = "limiter";
/// Within this share of what a policy allows it is what the policy says.
const NEAR: f64 = 0.02;
/// What was saved up is worth a word from this part of a second's operations on.
const BURST: f64 = 0.01;

/// The heading of the section.
pub const HEADING: &str = "What the limits did";

/// What one variant met in one cell: medians over its slots.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit<'a> {
    pub cell: &'a Cell,
    pub variant: usize,
    /// Operations per second that were let through.
    pub rate: f64,
    /// Operations per second that the policy allows.
    pub policy: f64,
    /// Operations that had been saved up.
    pub burst: f64,
    /// How many operations each read or write was charged as, and of which size they were.
    pub charged_as: f64,
    pub charged_bytes: f64,
    /// The mean latency in us, and the part of it that the limit explains; where the limit was met in a closed loop.
    pub latency_us: Option<(f64, f64)>,
}

/// Every limit that a policy set and a load met.
pub fn limits<'a>(view: &View<'a>) -> Vec<Limit<'a>> {
    let cells = view.plan().cells.iter().enumerate();
    let variants = 0..view.variants().len();
    cells
        .flat_map(|(at, cell)| variants.clone().map(move |variant| (at, cell, variant)))
        .filter(|(at, _, variant)| view.is_measured(*at, *variant))
        .filter_map(|(at, cell, variant)| limit(view, at, cell, variant))
        .collect()
}

fn limit<'a>(view: &View<'a>, at: usize, cell: &'a Cell, variant: usize) -> Option<Limit<'a>> {
    let typical = |column: &str| {
        let tables = view.results(at, variant).filter_map(|result| result.measurement.tables.get(TABLE));
        let values = tables.filter_map(|table| {
            let index = table.columns.iter().position(|found| found.name == column)?;
            table.rows.first()?.get(index).copied()
        });
        median(&values.collect::<Vec<f64>>())
    };
    Some(Limit {
        cell,
        variant,
        rate: typical("rate")?,
        policy: typical("policy").filter(|policy| *policy > 0.0)?,
        burst: typical("burst")?,
        charged_as: typical("charged_as")?,
        charged_bytes: typical("charged_bytes")?,
        latency_us: typical("latency").zip(typical("latency_by_limit")),
    })
}

impl Limit<'_> {
    /// Whether what was let through is what the policy says.
    pub fn is_as_said(&self) -> bool {
        (self.rate * self.charged_as / self.policy - 1.0).abs() <= NEAR
    }

    /// The rest of a sentence that begins with the variant's name.
    fn words(&self) -> String {
        let (rate, policy) = (figures::count(self.rate), figures::count(self.policy));
        let share = figures::share(self.rate * self.charged_as / self.policy);
        let found = if self.charged_as > 1.0 {
            // Sizes of operations are powers of two.
            let size = Bytes(self.charged_bytes.round() as u64);
            format!(
                "let {rate} operations through in a second where the policy has {policy}: each was charged as {} of \
                 {size}",
                figures::count(self.charged_as)
            )
        } else if self.is_as_said() {
            format!("let {rate} operations through in a second, as its policy says ({policy}, {share} of it)")
        } else {
            format!("let {rate} operations through in a second, and its policy says {policy}: {share} of it")
        };
        let burst = if self.burst > (BURST * self.rate).max(2.0) {
            format!(
                "; {} more had been saved up, which is {} of it",
                figures::count(self.burst.round()),
                figures::duration_s(self.burst / self.rate)
            )
        } else {
            "; nothing had been saved up".to_owned()
        };
        format!("{found}{burst}{}", self.latency_words())
    }

    fn latency_words(&self) -> String {
        let Some((latency_us, by_limit_us)) = self.latency_us else { return String::new() };
        let show = |time_us: f64| figures::value(time_us, Unit::Microseconds);
        format!(
            ". Of its mean latency of {} the limit explains {} (in flight over rate, Little's law), and {} are the rest",
            show(latency_us),
            show(by_limit_us),
            show(latency_us - by_limit_us)
        )
    }

    /// The sentence.
    pub fn sentence(&self, view: &View<'_>) -> String {
        let label = self.cell.label();
        let place = if label.is_empty() { String::new() } else { format!(" at {label}") };
        format!("{}{place} {}.", view.name(self.variant), self.words())
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::{Column, Judgement, Run, SlotOutcome, Table};

    use super::*;
    use crate::fixture::Scenario;

    /// A run whose first treatment's load met a limiter.
    fn run(values: &[(&str, f64)]) -> (Run, Judgement) {
        let (mut run, judgement) = Scenario::tls_offload().run();
        let columns = values.iter().map(|(name, _)| Column { name: (*name).to_owned(), unit: Unit::Count });
        let row = values.iter().map(|(_, value)| *value).collect();
        let table = Table { columns: columns.collect(), rows: vec![row] };
        for slot in run.slots.iter_mut().filter(|slot| slot.variant == "threads") {
            if let SlotOutcome::Measured(result) = &mut slot.outcome {
                result.measurement.tables.insert(TABLE.to_owned(), table.clone());
            }
        }
        (run, judgement)
    }

    fn sentences(values: &[(&str, f64)]) -> String {
        let (run, judgement) = run(values);
        let view = View::new(&run, &judgement);
        let found: Vec<String> = limits(&view).iter().map(|limit| limit.sentence(&view)).collect();
        found.join("\n")
    }

    #[test]
    fn a_limit_is_held_against_its_policy() {
        let seed = [
            ("rate", 499.8),
            ("burst", 1.0),
            ("policy", 500.0),
            ("charged_as", 1.0),
            ("charged_bytes", 4096.0),
            ("latency", 8_002.64),
            ("latency_by_limit", 8_000.0),
        ];
        insta::assert_snapshot!(sentences(&seed), @"threads let 500 operations through in a second, as its policy says (500, 99.96% of it); nothing had been saved up. Of its mean latency of 8.00 ms the limit explains 8.00 ms (in flight over rate, Little's law), and 2.64 µs are the rest.");
        let mut charged = seed;
        (charged[0].1, charged[3].1, charged[4].1) = (250.0, 2.0, 65_536.0);
        insta::assert_snapshot!(sentences(&charged[..5]), @"threads let 250 operations through in a second where the policy has 500: each was charged as 2 of 64 KiB; nothing had been saved up.");
        let mut saved = seed;
        (saved[0].1, saved[1].1) = (480.0, 1_000.0);
        insta::assert_snapshot!(sentences(&saved[..5]), @"threads let 480 operations through in a second, and its policy says 500: 96.00% of it; 1,000 more had been saved up, which is 2.08 s of it.");
        assert_eq!(sentences(&[("rate", 500.0), ("burst", 0.0)]), "");
    }
}
