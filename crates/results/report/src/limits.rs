//! Sentences on the limiters of a run.

use plumb_model::finding::Limit;
use plumb_model::{Bytes, Unit};

use crate::figures;
use crate::view::View;

/// The sentence on one limit.
pub fn sentence(view: &View<'_>, limit: &Limit) -> String {
    let label = view.cell_label(limit.cell);
    let place = if label.is_empty() { String::new() } else { format!(" at {label}") };
    format!("{}{place} {}.", view.name(limit.variant), limit_in_words(limit))
}

/// The rest of a sentence that begins with the variant's name.
fn limit_in_words(limit: &Limit) -> String {
    let (rate, policy) = (figures::count(limit.rate), figures::count(limit.policy));
    let share = figures::share(limit.share);
    let found = if limit.charged_as > 1.0 {
        // Sizes of operations are powers of two.
        let size = Bytes(limit.charged_bytes.round() as u64);
        format!(
            "let {rate} operations through in a second where the policy has {policy}: each was charged as {} of {size}",
            figures::count(limit.charged_as)
        )
    } else if limit.is_as_said {
        format!("let {rate} operations through in a second, as its policy says ({policy}, {share} of it)")
    } else {
        format!("let {rate} operations through in a second, and its policy says {policy}: {share} of it")
    };
    let burst = if limit.has_burst {
        format!(
            "; {} more had been saved up, which is {} of it",
            figures::count(limit.burst.round()),
            figures::duration_s(limit.burst / limit.rate)
        )
    } else {
        "; nothing had been saved up".to_owned()
    };
    format!("{found}{burst}{}", latency_words(limit))
}

fn latency_words(limit: &Limit) -> String {
    let Some((latency_us, by_limit_us)) = limit.latency_us else { return String::new() };
    let show = |time_us: f64| figures::value(time_us, Unit::Microseconds);
    format!(
        ". Of its mean latency of {} the limit explains {} (in flight over rate, Little's law), and {} are the rest",
        show(latency_us),
        show(by_limit_us),
        show(latency_us - by_limit_us)
    )
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
                result.measurement.tables.insert("limiter".to_owned(), table.clone());
            }
        }
        let findings = plumb_judge::findings(&run.header.plan, &run.slots, &judgement);
        (run, Judgement { findings, ..judgement })
    }

    fn sentences(values: &[(&str, f64)]) -> String {
        let (run, judgement) = run(values);
        let view = View::new(&run, &judgement);
        let limits = judgement.findings.limits.iter();
        let found: Vec<String> = limits.map(|limit| sentence(&view, limit)).collect();
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
