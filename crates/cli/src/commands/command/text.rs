//! The results of commands as text: one command's times, and one sentence for each comparison.

use plumb_command::metrics::{
    CONTEXT_SWITCHES, MAJOR_PAGE_FAULTS, MEMORY_MAX, METRICS, PAGE_FAULTS, SYSTEM_TIME, USER_TIME, WALL_TIME,
    WALL_TIME_SD,
};
use plumb_model::{
    ClaimVerdict, Evidence, Judgement, Measurement, Metric, MetricInfo, Plan, Statistic, Unit, Verdict,
};
use plumb_report::figures;

use super::experiment::Contest;

/// One command's measurement. `metrics` has its own after those of every command.
pub fn of_one(measurement: &Measurement, metrics: &[MetricInfo], evidence: &[Evidence]) -> String {
    let number = |metric: &Metric, statistic| {
        measurement.readings.get(metric.name).and_then(|reading| reading.number(statistic, metric.unit))
    };
    let trend = |metric: &Metric, statistic| number(metric, Some(statistic)).unwrap_or(f64::NAN);
    let scale = Scale::for_mean(trend(&WALL_TIME, Statistic::Avg));
    let time = |metric: &Metric, statistic| scale.time_in_words(trend(metric, statistic));
    let cpu = |metric: &Metric| figures::value(trend(metric, Statistic::Avg), metric.unit);
    let spread =
        number(&WALL_TIME_SD, None).map_or("–".to_owned(), |spread| scale.finer().time_in_words(spread));
    let gauge =
        |metric: &Metric| number(metric, None).map_or("–".to_owned(), |it| figures::value(it, metric.unit));
    let major = number(&MAJOR_PAGE_FAULTS, None).filter(|faults| *faults > 0.0);
    let from_disk = major.map_or(String::new(), |faults| {
        format!(", {} of them from a disk", figures::value(faults, Unit::Count))
    });
    let mut lines = vec![
        ("runs".to_owned(), runs(measurement)),
        (
            "wall time".to_owned(),
            format!("{} ± {spread} (mean ± σ of the runs)", time(&WALL_TIME, Statistic::Avg)),
        ),
        (
            "range".to_owned(),
            format!(
                "{} … {}, median {}",
                time(&WALL_TIME, Statistic::Min),
                time(&WALL_TIME, Statistic::Max),
                time(&WALL_TIME, Statistic::Med)
            ),
        ),
        ("CPU time".to_owned(), format!("user {}, system {}", cpu(&USER_TIME), cpu(&SYSTEM_TIME))),
        ("peak memory".to_owned(), gauge(&MEMORY_MAX)),
        (
            "per run".to_owned(),
            format!(
                "{} context switches, {} page faults{from_disk}",
                gauge(&CONTEXT_SWITCHES),
                gauge(&PAGE_FAULTS)
            ),
        ),
    ];
    let own = metrics.iter().filter(|metric| METRICS.iter().all(|known| known.name != metric.name));
    let system = metrics.iter().filter(|metric| metric.name == plumb_model::metric::CPU_SYSTEM.name);
    lines.extend(system.chain(own).filter_map(|metric| {
        let value = measurement.readings.get(&metric.name)?.number(None, metric.unit)?;
        Some((metric.name.clone(), figures::value(value, metric.unit)))
    }));
    let programs = measurement.values_of("program");
    lines.extend(programs.map(|(program, _)| ("program".to_owned(), program.to_owned())));
    laid_out(&lines, measurement, evidence)
}

/// `59 of 60 succeeded, in 3.01 s`.
fn runs(measurement: &Measurement) -> String {
    let tried = measurement.attempts.tried;
    let window = figures::time_ns(measurement.window_ns as f64);
    match measurement.attempts.failed {
        0 => format!("{} in {window}", figures::count(tried as f64)),
        failed => format!("{} of {} succeeded, in {window}", tried - failed, figures::count(tried as f64)),
    }
}

fn laid_out(lines: &[(String, String)], measurement: &Measurement, evidence: &[Evidence]) -> String {
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut text: Vec<String> =
        lines.iter().map(|(name, value)| format!("  {name:width$}  {value}")).collect();
    let marked = |sign: &'static str| move |words: String| format!("  {sign} {words}");
    let broken = evidence.iter().filter(|evidence| !evidence.holds);
    let broken = broken.map(ToString::to_string);
    let errors =
        measurement.errors.iter().map(|(kind, count)| format!("{kind}: {}", figures::count(*count as f64)));
    let mut notes: Vec<String> = broken.chain(errors).map(marked("✗")).collect();
    notes.extend(measurement.notices.iter().map(plumb_report::notice).map(marked("!")));
    if !notes.is_empty() {
        text.push(String::new());
    }
    text.extend(notes);
    text.join("\n") + "\n"
}

/// The unit and the digits of times that stand beside each other.
#[derive(Debug, Clone, Copy)]
struct Scale {
    per_ms: f64,
    symbol: &'static str,
    decimals: usize,
}

impl Scale {
    /// Three digits of the mean, which is what distributions keep.
    fn for_mean(mean_ms: f64) -> Self {
        let (per_ms, symbol) = match mean_ms {
            1000.0.. => (1e-3, "s"),
            1.0.. => (1.0, "ms"),
            _ => (1e3, "µs"),
        };
        let decimals = match mean_ms * per_ms {
            100.0.. => 0,
            10.0.. => 1,
            _ => 2,
        };
        Self { per_ms, symbol, decimals }
    }

    /// With one digit more.
    fn finer(self) -> Self {
        Self { decimals: self.decimals + 1, ..self }
    }

    fn time_in_words(self, time_ms: f64) -> String {
        if !time_ms.is_finite() {
            return "–".to_owned();
        }
        format!("{:.*} {}", self.decimals, time_ms * self.per_ms, self.symbol)
    }
}

/// One sentence for each command that was compared with the first.
pub fn sentences(plan: &Plan, judgement: &Judgement, contest: &Contest) -> String {
    let words = |name: &str| {
        let found = contest.commands.iter().find(|(known, _)| known == name);
        found.map_or_else(|| name.to_owned(), |(_, words)| words.clone())
    };
    let baseline = words(plan.baseline_name());
    let sentence = |found: &ClaimVerdict| {
        let variant = words(&plan.claims[found.claim].left.variant);
        let cell = plan.cells[found.cell].label().replace("load.parameters.", "");
        let cell = if cell.is_empty() { cell } else { format!("With {cell}: ") };
        let doubt = if found.different_work { " They did different work: see above." } else { "" };
        format!("{cell}{}{doubt}\n", sentence(&variant, &baseline, found))
    };
    judgement.claims.iter().map(sentence).collect()
}

fn sentence(variant: &str, baseline: &str, found: &ClaimVerdict) -> String {
    let (Some(ratio), Some(low)) = (found.ratio, found.low) else {
        return format!("'{variant}' was not compared with '{baseline}': {}.", found.reason);
    };
    if matches!(found.verdict, Verdict::Void | Verdict::Skipped) {
        return format!("'{variant}' cannot be compared with '{baseline}': {}.", found.reason);
    }
    let effect = figures::effect(ratio, low, found.high);
    let effect = effect.trim_start_matches('×');
    // Looks narrow the interval one after another, and a machine that changes in between leaves the ratio outside.
    if ratio < low || found.high.is_some_and(|high| ratio > high) {
        return format!(
            "No difference shown between '{variant}' and '{baseline}': the ratio of all blocks and the interval of earlier ones \
             contradict each other, {effect}; the machine changed during the run."
        );
    }
    match found.high {
        Some(high) if high < 1.0 => {
            let faster = figures::effect(1.0 / ratio, 1.0 / high, Some(1.0 / low).filter(|_| low > 0.0));
            format!("'{variant}' is {} times as fast as '{baseline}'.", faster.trim_start_matches('×'))
        }
        _ if low > 1.0 => format!("'{variant}' takes {effect} times as long as '{baseline}'."),
        _ => format!("No difference shown between '{variant}' and '{baseline}': the ratio is {effect}."),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use plumb_model::{Attempts, Better, Histogram, MetricKind, Notice, Reading, Unit};

    use super::*;

    fn trend(times_ns: &[u64]) -> Reading {
        let mut histogram = Histogram::new();
        times_ns.iter().for_each(|time_ns| histogram.record(*time_ns));
        Reading::Trend(histogram)
    }

    fn sample() -> Measurement {
        let readings: BTreeMap<String, Reading> = [
            ("wall_time", trend(&[50_400_000, 50_600_000, 50_800_000])),
            ("wall_time_sd", Reading::Gauge(0.2)),
            ("user_time", trend(&[400_000])),
            ("system_time", trend(&[700_000])),
            ("context_switches", Reading::Gauge(2.0)),
            ("page_faults", Reading::Gauge(88.3)),
            ("major_page_faults", Reading::Gauge(2.0)),
            ("rps", Reading::Gauge(12_345.6)),
        ]
        .map(|(name, reading)| (name.to_owned(), reading))
        .into();
        Measurement {
            window_ns: 160_000_000,
            work: 3,
            attempts: Attempts { tried: 3, failed: 0 },
            readings,
            observed: [("program".to_owned(), [("/usr/bin/sleep with hash 1f".to_owned(), 3)].into())].into(),
            notices: vec![Notice::text("memory_max is left out")],
            ..Measurement::default()
        }
    }

    #[test]
    fn one_command_has_its_mean_its_range_and_what_it_cost() {
        let rps = MetricInfo {
            name: "rps".to_owned(),
            unit: Unit::PerSecond,
            better: Better::Higher,
            kind: MetricKind::Gauge,
            about: String::new(),
        };
        let metrics: Vec<MetricInfo> = METRICS.iter().map(MetricInfo::from).chain([rps]).collect();
        insta::assert_snapshot!(of_one(&sample(), &metrics, &[]), @r"
          runs         3 in 160 ms
          wall time    50.6 ms ± 0.20 ms (mean ± σ of the runs)
          range        50.4 ms … 50.8 ms, median 50.6 ms
          CPU time     user 400 µs, system 700 µs
          peak memory  –
          per run      2 context switches, 88.3 page faults, 2 of them from a disk
          rps          12.3k/s
          program      /usr/bin/sleep with hash 1f

          ! memory_max is left out
        ");
        let failing = Measurement { attempts: Attempts { tried: 5, failed: 2 }, ..sample() };
        assert!(of_one(&failing, &metrics, &[]).starts_with("  runs         3 of 5 succeeded, in 160 ms\n"));
    }

    #[test]
    fn times_beside_each_other_have_one_unit() {
        for (mean_ms, words) in [
            (1234.5, "1.23 s"),
            (150.4, "150 ms"),
            (50.123, "50.1 ms"),
            (1.2345, "1.23 ms"),
            (0.5, "500 µs"),
            (0.05, "50.0 µs"),
        ] {
            assert_eq!(Scale::for_mean(mean_ms).time_in_words(mean_ms), words);
        }
    }

    fn found(ratio: f64, low: f64, high: f64, verdict: Verdict) -> ClaimVerdict {
        ClaimVerdict {
            claim: 0,
            cell: 0,
            verdict,
            reason: "a is void".to_owned(),
            ratio: Some(ratio),
            low: Some(low),
            high: Some(high),
            alpha: None,
            blocks_needed: None,
            different_work: false,
        }
    }

    #[test]
    fn each_comparison_is_one_sentence() {
        let said = |found: ClaimVerdict| sentence("b", "a", &found);
        insta::assert_snapshot!(said(found(1.098, 1.096, 1.1, Verdict::Holds)), @"'b' takes 1.0980 [1.0960, 1.1000] times as long as 'a'.");
        insta::assert_snapshot!(said(found(0.91, 0.9, 0.92, Verdict::Undecided)), @"'b' is 1.099 [1.087, 1.111] times as fast as 'a'.");
        insta::assert_snapshot!(said(found(1.01, 0.9, 1.13, Verdict::Undecided)), @"No difference shown between 'b' and 'a': the ratio is 1.01 [0.90, 1.13].");
        assert!(said(found(0.99, 1.01, 1.22, Verdict::Undecided)).contains("contradict each other"));
        insta::assert_snapshot!(said(found(1.5, 1.4, 1.6, Verdict::Void)), @"'b' cannot be compared with 'a': a is void.");
    }
}
