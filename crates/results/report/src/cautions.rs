//! Cautions as sentences.

mod counted;

use std::collections::BTreeSet;

use plumb_model::{Caution, SteadyRate, Unit, WorkDifference};

use crate::figures::{self, in_cell};

/// The reason, and what would help.
pub fn sentence(caution: &Caution) -> String {
    match caution {
        Caution::DifferentWork { cell, variant, baseline, differences } => {
            let place = in_cell(cell);
            let differences: Vec<String> =
                differences.iter().map(|difference| work_words(difference, variant, baseline)).collect();
            format!(
                "{variant} did different work from {baseline}{place}: {}; rates, times and costs of different work cannot be compared",
                differences.join("; ")
            )
        }
        Caution::Redirects { cell, variant, share } => format!(
            "{} of the answers of {variant}{} are redirects, which count as success and are not followed; give the address that they lead to",
            figures::share(*share),
            in_cell(cell)
        ),
        Caution::SystemWaited { cell, variant, baseline, variant_share, baseline_share, shared } => format!(
            "with {variant}{}, {variant_share:.2} of the system's threads were waiting for a CPU on average, and {baseline_share:.2} with \
             {baseline}: {}, and rates and times include the wait; give each side its own CPUs",
            in_cell(cell),
            why_waited(if variant_share > baseline_share { variant } else { baseline }, shared)
        ),
        Caution::Limiter {
            cell,
            variant,
            units,
            rate_per_s,
            in_flight,
            mean_ns,
            fastest_ns,
            system_cpus,
        } => {
            let idle =
                system_cpus.map_or_else(String::new, |cpus| format!(" while the system used {cpus:.2} CPUs"));
            format!(
                "{variant}{} completed {} {units} in every second of every slot{idle}; {}",
                in_cell(cell),
                figures::count(*rate_per_s),
                waits(*in_flight, *mean_ns, *fastest_ns)
            )
        }
        Caution::UnseenParts { variant } => format!(
            "{variant} runs a pipeline in `sh`, which does not tell how its earlier parts ended: they may all have failed; install bash"
        ),
        Caution::UseUnproven { variant, changed } => format!(
            "{variant} changed {}, and nothing shows that it is used; add `verify`, which asks the program that reads it",
            changed.join(" and ")
        ),
        Caution::AfterEffect { cell, variant, after, metric, ratio, p, fades, lasts_s } => {
            let place = in_cell(cell);
            let what = match fades {
                true => format!("the rate of {variant}{place} in the first second"),
                false => format!("{metric} of {variant}{place}"),
            };
            let cooldown = match lasts_s {
                Some(seconds) => {
                    format!("it fades within {seconds} s: add `cooldown: {seconds} s` to `spec`")
                }
                None => "add a `cooldown` to `spec` that is longer than it lasts".to_owned(),
            };
            format!(
                "after-effect: right after {after}, {what} is {} (by chance in one of {} runs); {after} disturbs the slot that follows \
                 it, so do not rely on a comparison of the two; {cooldown}",
                figures::ratio(*ratio, *ratio, None),
                runs(*p)
            )
        }
        _ => counted::sentence(caution),
    }
}

/// The reason in a few words, for the line on top.
pub fn short_form(caution: &Caution) -> String {
    match caution {
        Caution::DifferentWork { variant, baseline, differences, .. } => {
            let first = differences.first().map(|first| work_words(first, variant, baseline));
            let rest = match differences.len() {
                0 | 1 => String::new(),
                count => format!(" and {} more", count - 1),
            };
            format!("different work: {}{rest}", first.unwrap_or_default())
        }
        Caution::InFlight { variant, baseline, variant_in_flight, baseline_in_flight, .. } => {
            format!("{variant} kept {variant_in_flight:.0} in flight, and {baseline} {baseline_in_flight:.0}")
        }
        Caution::Redirects { variant, share, .. } => {
            format!("{} of {variant}'s answers are redirects", figures::share(*share))
        }
        Caution::SystemWaited { variant, baseline, variant_share, baseline_share, .. } => format!(
            "{variant_share:.2} of the system's threads were waiting for a CPU with {variant}, {baseline_share:.2} with {baseline}"
        ),
        Caution::Limiter { variant, rate_per_s, units, .. } => format!(
            "{variant}'s rate was as steady as under a limiter ({} {units} in every second)",
            figures::count(*rate_per_s)
        ),
        Caution::UnseenParts { variant } => {
            format!("nothing shows how earlier parts of {variant}'s pipeline ended")
        }
        Caution::UseUnproven { variant, .. } => {
            format!("nothing shows that what {variant} changed is used")
        }
        Caution::AfterEffect { variant, after, .. } => format!("{after} has an after-effect on {variant}"),
        _ => counted::sentence(caution),
    }
}

/// The rate of a single measurement that shows a limiter, see [`SteadyRate::alone`].
pub fn steady(found: &SteadyRate) -> String {
    let rate = figures::count(found.rate_per_s);
    let waits = waits(found.in_flight(), found.mean_ns, found.fastest_ns);
    format!("the rate was as steady as under a limiter, {rate} in every second; {waits}")
}

/// Explains the waits at a steady rate.
fn waits(in_flight: f64, mean_ns: f64, fastest_ns: f64) -> String {
    format!(
        "with {in_flight:.0} in flight each took {} on average, and the fastest took {}: a limiter, and not the \
         system's capacity, may set the rate and the times",
        figures::time_ns(mean_ns),
        figures::time_ns(fastest_ns)
    )
}

/// Why threads of the system waited for CPUs with a variant, given those on which they were seen and the load may run.
fn why_waited(waiter: &str, shared: &BTreeSet<u32>) -> String {
    if shared.is_empty() {
        return "they may share CPUs with the load or with other programs".to_owned();
    }
    format!("with {waiter} they were seen on {}, on which the load may run too", figures::cpus(shared))
}

/// A size, which has no parts of a byte.
fn bytes(size: f64) -> String {
    if size < 1e3 { format!("{size:.0} B") } else { figures::value(size, Unit::Bytes) }
}

/// One difference in figures.
fn work_words(difference: &WorkDifference, variant: &str, baseline: &str) -> String {
    match difference {
        WorkDifference::Share { property, value, variant: ours, baseline: theirs } => format!(
            "{} {value}: {} of {variant}, {} of {baseline}",
            property.replace('_', " "),
            figures::share(*ours),
            figures::share(*theirs)
        ),
        WorkDifference::PerWork { what, variant: ours, baseline: theirs } => {
            format!("{ours:.2} {what} per request with {variant}, {theirs:.2} with {baseline}")
        }
        WorkDifference::Size { what, variant_bytes, baseline_bytes } => {
            let (ours, theirs) = (bytes(*variant_bytes), bytes(*baseline_bytes));
            match what.starts_with("written") {
                true => {
                    format!("{ours} {what} in a run of {variant} and {theirs} in one of {baseline} (medians)")
                }
                false => format!("a {what} of {ours} with {variant} and {theirs} with {baseline} (medians)"),
            }
        }
    }
}

/// In one of how many runs chance does that.
fn runs(p: f64) -> String {
    if p < 1e-4 { "more than 10,000".to_owned() } else { figures::count((1.0 / p).round()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cautions_say_what_is_in_doubt_and_what_helps() {
        let unproven = Caution::UseUnproven {
            variant: "b".to_owned(),
            changed: vec!["/etc/nginx/nginx.conf".to_owned()],
        };
        insta::assert_snapshot!(sentence(&unproven), @"b changed /etc/nginx/nginx.conf, and nothing shows that it is used; add `verify`, which asks the program that reads it");
        let effect = Caution::AfterEffect {
            cell: "load.connections=20".to_owned(),
            variant: "a".to_owned(),
            after: "b".to_owned(),
            metric: "iteration_duration.p95".to_owned(),
            ratio: 1.9,
            p: 0.0004,
            fades: false,
            lasts_s: None,
        };
        insta::assert_snapshot!(sentence(&effect), @"after-effect: right after b, iteration_duration.p95 of a (load.connections=20) is ×1.90 (by chance in one of 2,500 runs); b disturbs the slot that follows it, so do not rely on a comparison of the two; add a `cooldown` to `spec` that is longer than it lasts");
        insta::assert_snapshot!(short_form(&effect), @"b has an after-effect on a");
        let in_flight = Caution::InFlight {
            cell: String::new(),
            variant: "h2".to_owned(),
            baseline: "h1".to_owned(),
            units: "requests".to_owned(),
            variant_in_flight: 100.0,
            baseline_in_flight: 10.0,
        };
        insta::assert_snapshot!(sentence(&in_flight), @"h2 kept 100 requests in flight, and h1 10: an effect may come from that alone; give both the same number");
        insta::assert_snapshot!(short_form(&in_flight), @"h2 kept 100 in flight, and h1 10");
        let redirects = Caution::Redirects { cell: String::new(), variant: "b".to_owned(), share: 0.42 };
        insta::assert_snapshot!(sentence(&redirects), @"42.00% of the answers of b are redirects, which count as success and are not followed; give the address that they lead to");
        insta::assert_snapshot!(short_form(&redirects), @"42.00% of b's answers are redirects");
    }

    #[test]
    fn waits_for_cpus_are_said_in_figures() {
        let waited = Caution::SystemWaited {
            cell: String::new(),
            variant: "b".to_owned(),
            baseline: "a".to_owned(),
            variant_share: 0.36,
            baseline_share: 0.006,
            shared: [1].into(),
        };
        insta::assert_snapshot!(sentence(&waited), @"with b, 0.36 of the system's threads were waiting for a CPU on average, and 0.01 with a: with b they were seen on CPU 1, on which the load may run too, and rates and times include the wait; give each side its own CPUs");
        insta::assert_snapshot!(short_form(&waited), @"0.36 of the system's threads were waiting for a CPU with b, 0.01 with a");
    }

    #[test]
    fn a_limiter_is_said_in_figures() {
        let (rate_per_s, mean_ns, fastest_ns) = (200.0, 1e8, 2e5);
        let found = Caution::Limiter {
            cell: String::new(),
            variant: "b".to_owned(),
            units: "requests".to_owned(),
            rate_per_s,
            in_flight: 20.0,
            mean_ns,
            fastest_ns,
            system_cpus: Some(0.014),
        };
        insta::assert_snapshot!(sentence(&found), @"b completed 200 requests in every second of every slot while the system used 0.01 CPUs; with 20 in flight each took 100 ms on average, and the fastest took 200 µs: a limiter, and not the system's capacity, may set the rate and the times");
        insta::assert_snapshot!(short_form(&found), @"b's rate was as steady as under a limiter (200 requests in every second)");
        let single = SteadyRate { rate_per_s, mean_ns, fastest_ns, seconds: 30 };
        insta::assert_snapshot!(steady(&single), @"the rate was as steady as under a limiter, 200 in every second; with 20 in flight each took 100 ms on average, and the fastest took 200 µs: a limiter, and not the system's capacity, may set the rate and the times");
    }

    #[test]
    fn different_work_is_said_in_figures() {
        let share = WorkDifference::Share {
            property: "content_encoding".to_owned(),
            value: "gzip".to_owned(),
            variant: 1.0,
            baseline: 0.0,
        };
        let size =
            WorkDifference::Size { what: "body".to_owned(), variant_bytes: 32.0, baseline_bytes: 612.0 };
        let of = |differences: &[&WorkDifference]| Caution::DifferentWork {
            cell: String::new(),
            variant: "b".to_owned(),
            baseline: "a".to_owned(),
            differences: differences.iter().map(|difference| (*difference).clone()).collect(),
        };
        insta::assert_snapshot!(sentence(&of(&[&share, &size])), @"b did different work from a: content encoding gzip: 100% of b, 0% of a; a body of 32 B with b and 612 B with a (medians); rates, times and costs of different work cannot be compared");
        insta::assert_snapshot!(short_form(&of(&[&share, &size])), @"different work: content encoding gzip: 100% of b, 0% of a and 1 more");
        let new =
            WorkDifference::PerWork { what: "new connections".to_owned(), variant: 1.0, baseline: 0.002 };
        insta::assert_snapshot!(short_form(&of(&[&new])), @"different work: 1.00 new connections per request with b, 0.00 with a");
        let written = WorkDifference::Size {
            what: "written to disk".to_owned(),
            variant_bytes: 0.0,
            baseline_bytes: 2e7,
        };
        insta::assert_snapshot!(short_form(&of(&[&written])), @"different work: 0 B written to disk in a run of b and 20.0 MB in one of a (medians)");
        insta::assert_snapshot!(short_form(&of(&[&size])), @"different work: a body of 32 B with b and 612 B with a (medians)");
    }
}
