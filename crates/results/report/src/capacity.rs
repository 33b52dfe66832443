//! A search for a capacity in words: its trials, its bounds and what it rests on.

use plumb_model::finding::CapacityInterval;
use plumb_model::metric::{CAPACITY, CAPACITY_RECOVERY};
use plumb_model::{
    Measurement, Objective, Relation, Search, SlotResult, Strain, Trial, TrialKind, Unit, metric_key,
};
use plumb_stats::median;

use crate::figures;
use crate::layout::{Paint, Tone, clean, wrap};
use crate::view::View;

/// Half of a bar: it ends at the limit.
const BAR_TO_LIMIT: usize = 10;

/// One trial on a line, with a bar for the first objective.
#[must_use]
pub fn trial_line(objectives: &[Objective], trial: &Trial, colour: bool) -> String {
    let paint = Paint { colour };
    let kind = match trial.kind {
        TrialKind::Pilot => "pilot",
        TrialKind::Search => "trial",
        TrialKind::Probe => "probe",
    };
    let rate = match trial.rate_per_s {
        Some(rate) => figures::value(rate, Unit::PerSecond),
        None => format!("{} closed loop", figures::value(trial.done_per_s, Unit::PerSecond)),
    };
    let (sign, tone) = match (trial.rate_per_s, trial.is_met) {
        (None, _) => (" ", Tone::Quiet),
        (_, true) => ("✔", Tone::Good),
        (_, false) => ("✗", Tone::Bad),
    };
    let first = objectives.first().zip(trial.values.first());
    let bar = first.map(|(objective, value)| bar(objective, *value)).unwrap_or_default();
    let values: Vec<String> = objectives
        .iter()
        .zip(&trial.values)
        .map(|(objective, value)| value_words(objective, *value))
        .collect();
    format!("  {} {kind} {rate:<20} {} {}", paint.on(tone, sign), paint.on(tone, &bar), values.join(", "))
}

/// A value beside its limit, which the bar reaches in the middle.
fn bar(objective: &Objective, value: Option<f64>) -> String {
    let ratio = match (value, is_upper(objective)) {
        (Some(value), true) => value / objective.limit,
        (Some(value), false) => objective.limit / value,
        (None, _) => f64::INFINITY,
    };
    let filled = ((ratio * BAR_TO_LIMIT as f64).round() as usize).min(2 * BAR_TO_LIMIT);
    let cell = |at: usize| match at {
        _ if at < filled => '█',
        BAR_TO_LIMIT => '│',
        _ => '·',
    };
    (0..2 * BAR_TO_LIMIT).map(cell).collect()
}

/// The most lines for the trials of a variant.
const RATES_MAX: usize = 6;

/// The trials of a variant from the lowest rate to the highest, as lines with a bar for the first objective.
pub fn lines_by_rate(curve: &Curve<'_>) -> Vec<String> {
    let Some(objective) = curve.objectives().first() else { return Vec::new() };
    let mut trials: Vec<(f64, &Trial)> =
        curve.trials().filter_map(|trial| Some((trial.rate_per_s?.ln(), trial))).collect();
    trials.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let [Some((lowest, _)), Some((highest, _))] = [trials.first(), trials.last()] else { return Vec::new() };
    let width = ((highest - lowest) / RATES_MAX as f64).max(f64::MIN_POSITIVE);
    let range = |rate: f64| (((rate - lowest) / width) as usize).min(RATES_MAX - 1);
    let alike = trials.chunk_by(|(one, _), (other, _)| range(*one) == range(*other));
    alike.map(|trials| line_of_rates(objective, trials)).collect()
}

/// Trials of nearly the same rate, with the median of the first objective's metric. The bar comes first, so that all bars begin in one
/// column.
fn line_of_rates(objective: &Objective, trials: &[(f64, &Trial)]) -> String {
    // A trial without a value fails an upper limit and a lower one alike.
    let missing = if is_upper(objective) { f64::INFINITY } else { f64::NEG_INFINITY };
    let value = |(_, trial): &(f64, &Trial)| trial.values.first().copied().flatten().unwrap_or(missing);
    let mut values: Vec<f64> = trials.iter().map(value).collect();
    values.sort_by(f64::total_cmp);
    let middle = Some(values[values.len() / 2]).filter(|value| value.is_finite());
    let rates = trials.first().zip(trials.last()).map(|((low, _), (high, _))| (low.exp(), high.exp()));
    let met = trials.iter().filter(|(_, trial)| trial.is_met).count();
    let (bar, value, all) = (bar(objective, middle), value_words(objective, middle), trials.len());
    format!("{bar} {}: {value}, {met} of {all} met", range_words(rates))
}

/// The metric, or its statistic alone, with a value.
fn value_words(objective: &Objective, value: Option<f64>) -> String {
    let name = metric_key(&objective.metric, objective.statistic);
    let value = value.map_or(above_all(objective).to_owned(), |value| figures::value(value, objective.unit));
    format!("{name} {value}")
}

/// A value that is missing, because too many answers are, or because nothing has one.
fn above_all(objective: &Objective) -> &'static str {
    if is_upper(objective) && objective.is_of_all { "above every limit" } else { "none" }
}

/// Whether greater values fail.
fn is_upper(objective: &Objective) -> bool {
    matches!(objective.relation, Relation::Below | Relation::AtMost)
}

/// Which arrivals a capacity is of.
pub const ARRIVALS: &str =
    "arrivals were even, at equal intervals; under random arrivals a system carries less";

/// The line above the rest of a measurement.
const OF_BEST_TRIAL: &str = "at the highest rate that met the objectives:";

/// The objectives of each trial.
pub fn objectives_words(objectives: &[Objective]) -> String {
    let texts: Vec<&str> = objectives.iter().map(|objective| objective.text.as_str()).collect();
    texts.join(" and ")
}

/// The result of a search, as lines for a terminal above the rest of the measurement, which is of one of its trials.
pub fn lines(measurement: &Measurement, paint: Paint, width: usize) -> Vec<String> {
    let Some(search) = &measurement.search else { return Vec::new() };
    let capacity = measurement.readings.get(CAPACITY.name).and_then(|it| it.number(None, CAPACITY.unit));
    let capacity = capacity.map_or("none".to_owned(), |capacity| figures::value(capacity, CAPACITY.unit));
    let headline = format!("capacity under {}: {capacity}", clean(&objectives_words(&search.objectives)));
    let mut lines = vec![format!("  {}", paint.on(Tone::Title, &headline))];
    for sentence in sentences(measurement) {
        lines.extend(wrap(&clean(&sentence), width - 4).into_iter().map(|line| format!("    {line}")));
    }
    if measurement.readings.len() > 2 {
        lines.extend([String::new(), format!("  {}", paint.on(Tone::Quiet, OF_BEST_TRIAL))]);
    }
    lines
}

/// The bounds and the limit that an unfinished search has found, as lines for a terminal; none before its first trial.
#[must_use]
pub fn search_so_far(search: &Search, width: usize) -> Vec<String> {
    let sentences = bounds(search).into_iter().chain(limit(search));
    sentences.flat_map(|sentence| wrap(&clean(&sentence), width)).collect()
}

/// The result of a search, as sentences: its bounds with the reason why the upper one failed, and their basis.
fn sentences(measurement: &Measurement) -> Vec<String> {
    let Some(search) = &measurement.search else { return Vec::new() };
    let rate = |rate: f64| figures::value(rate, Unit::PerSecond);
    let bounds_known = search.lower_bound().zip(search.upper_bound());
    let named = bounds_known.zip(search.conditional_throughput()).map(|((lower, upper), throughput)| {
        format!(
            "in the words of RFC 9971: relevant lower bound {}, relevant upper bound {}, conditional throughput {}",
            rate(lower),
            rate(upper),
            rate(throughput)
        )
    });
    let first = bounds(search).unwrap_or_else(|| "the pilot ended the search".to_owned());
    [Some(first), limit(search), Some(ARRIVALS.to_owned()), named].into_iter().flatten().collect()
}

/// The bounds, with the reason why the upper one failed; `None` where no trial of the search was made.
fn bounds(search: &Search) -> Option<String> {
    let rate = |rate: f64| figures::value(rate, Unit::PerSecond);
    let bounds = match (search.lower_bound(), search.upper_bound()) {
        (Some(lower), Some(upper)) => {
            format!(
                "{} met the objectives, and {} was the lowest rate that did not",
                rate(lower),
                rate(upper)
            )
        }
        (Some(lower), None) => format!("{} met the objectives, and no rate failed", rate(lower)),
        (None, Some(upper)) => {
            format!("no trial met the objectives below {}, the lowest rate that failed", rate(upper))
        }
        (None, None) => return None,
    };
    let why = search.lowest_failed().and_then(|trial| {
        let mut all = search.objectives.iter().zip(&trial.values);
        let (objective, value) = all.find(|(objective, value)| !objective.is_met(**value))?;
        let name = metric_key(&objective.metric, objective.statistic);
        let was =
            value.map_or(above_all(objective).to_owned(), |value| figures::value(value, objective.unit));
        Some(format!("`{}` failed, {name} was {was}", objective.text))
    });
    Some(why.map_or(bounds.clone(), |why| format!("{bounds}: {why}")))
}

/// The limit of the search: the load itself, or the system's bottleneck at the lowest rate that failed.
pub fn limit(search: &Search) -> Option<String> {
    let trial = search.limiting()?;
    let (rate, strain) = trial.rate_per_s.zip(trial.strain.as_ref())?;
    Some(format!("the limit at {}: {}", figures::value(rate, Unit::PerSecond), limit_words(strain)))
}

/// A share of its CPUs from which a system counts as busy.
const BUSY: f64 = 0.9;
/// Fewer failures than this explain nothing.
const FAILURES_MIN: f64 = 0.001;

/// Everything that a trial ran into.
fn limit_words(strain: &Strain) -> String {
    let used = strain.system_cpus.zip(strain.system_cpus_allowed.map(f64::from));
    let of_cpus = |(used, allowed): (f64, f64)| {
        let of = if allowed == 1.0 { "its CPU".to_owned() } else { format!("its {allowed} CPUs") };
        format!("the system used {used:.2} of {of}")
    };
    let failures = strain.failure.as_ref().filter(|_| strain.failed >= FAILURES_MIN);
    let found: Vec<String> = [
        strain.is_load.then(|| "the load itself".to_owned()),
        failures.map(|reason| {
            format!("{} of attempts failed, most often with `{reason}`", figures::share(strain.failed))
        }),
        strain.is_pool.then(|| "all connections of the load were in use".to_owned()),
        used.filter(|(used, allowed)| *used >= BUSY * allowed).map(|used| format!("CPU ({})", of_cpus(used))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !found.is_empty() {
        return found.join("; ");
    }
    match used {
        // A system with one busy thread cannot use more.
        Some((cpus, allowed)) if cpus >= BUSY && (cpus - cpus.round()).abs() <= 1.0 - BUSY => {
            let threads = figures::plural(cpus.round() as usize, "busy thread");
            format!("perhaps CPU ({}, as {threads} would)", of_cpus((cpus, allowed)))
        }
        Some(used) => {
            format!("no shortage of CPU ({}); look for a quota, a limiter, a lock or a disk", of_cpus(used))
        }
        None => {
            "unknown; failures do not explain it, and how much of its CPUs the system used cannot be seen"
                .to_owned()
        }
    }
}

/// The searches of one variant in a cell.
#[derive(Debug)]
pub struct Curve<'a> {
    pub cell: usize,
    pub variant: usize,
    pub searches: Vec<&'a Search>,
    /// The capacity of each slot that has one, ascending.
    pub capacities: Vec<f64>,
    /// The capacity with its interval, where there are enough blocks.
    pub interval: Option<&'a CapacityInterval>,
}

impl<'a> Curve<'a> {
    /// The objectives; those of the first slot, as all slots of a variant have the same.
    pub fn objectives(&self) -> &'a [Objective] {
        self.searches.first().map_or(&[], |search| &search.objectives)
    }

    /// The trials that were judged.
    pub fn trials(&self) -> impl Iterator<Item = &'a Trial> {
        self.searches.iter().flat_map(|search| search.trials.iter().filter(|it| it.kind == TrialKind::Search))
    }

    /// The estimate from the blocks, or else the median of the slots.
    pub fn capacity(&self) -> Option<f64> {
        self.interval.map(|interval| interval.estimate).or_else(|| median(&self.capacities))
    }

    /// The longest recovery from a rate that failed.
    pub fn recovery_ms(&self, view: &View<'_>) -> Option<f64> {
        let of_slot = |result: &SlotResult| {
            result.measurement.readings.get(CAPACITY_RECOVERY.name)?.number(None, CAPACITY_RECOVERY.unit)
        };
        view.results(self.cell, self.variant).filter_map(of_slot).reduce(f64::max)
    }

    /// The limit of the slot that ranks in the middle by the rate at which it met its limit.
    pub fn limit(&self) -> Option<String> {
        let rate =
            |search: &&Search| search.limiting().and_then(|trial| trial.rate_per_s).unwrap_or(f64::INFINITY);
        let mut searches = self.searches.clone();
        searches.sort_by(|one, other| rate(one).total_cmp(&rate(other)));
        limit(searches.get(searches.len() / 2)?)
    }

    /// The least and the greatest of what a function finds in each search.
    pub fn range(&self, of: impl Fn(&Search) -> Option<f64>) -> Option<(f64, f64)> {
        let found = || self.searches.iter().filter_map(|search| of(search));
        Some((found().reduce(f64::min)?, found().reduce(f64::max)?))
    }
}

/// Every variant that searched, in every cell.
pub fn curves<'a>(view: &View<'a>) -> Vec<Curve<'a>> {
    let each = |cell: usize| (0..view.variants().len()).map(move |variant| (cell, variant));
    let curve = |(cell, variant): (usize, usize)| {
        let measurements = || view.results(cell, variant).map(|result| &result.measurement);
        let searches: Vec<&Search> = measurements().filter_map(|it| it.search.as_ref()).collect();
        let readings = measurements().filter_map(|it| it.readings.get(CAPACITY.name));
        let mut capacities: Vec<f64> = readings.filter_map(|it| it.number(None, CAPACITY.unit)).collect();
        capacities.sort_by(f64::total_cmp);
        let is_it = |it: &&CapacityInterval| it.cell == cell && it.variant == variant;
        let interval = view.judgement.findings.capacities.iter().find(is_it);
        (!searches.is_empty()).then_some(Curve { cell, variant, searches, capacities, interval })
    };
    (0..view.plan().cells.len()).flat_map(each).filter_map(curve).collect()
}

/// Two bounds, or one where they are the same.
pub fn range_words(range: Option<(f64, f64)>) -> String {
    let words = |value: f64| figures::value(value, Unit::PerSecond);
    match range {
        None => "–".to_owned(),
        Some((low, high)) if words(low) == words(high) => words(low),
        Some((low, high)) => format!("{} to {}", words(low), words(high)),
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Statistic;

    use super::*;

    fn search(trials: &[(f64, f64)]) -> Measurement {
        let objective = Objective {
            text: "p99 < 10 ms".to_owned(),
            metric: "iteration_duration".to_owned(),
            statistic: Some(Statistic::P99),
            relation: Relation::Below,
            limit: 10.0,
            unit: Unit::Milliseconds,
            is_of_all: true,
        };
        let trial = |(rate, p99): &(f64, f64)| Trial {
            kind: TrialKind::Search,
            rate_per_s: Some(*rate),
            done_per_s: rate - 1.0,
            values: vec![p99.is_finite().then_some(*p99)],
            is_met: *p99 < 10.0,
            cpu_system_us: None,
            strain: None,
        };
        let trials = trials.iter().map(trial).collect();
        Measurement { search: Some(Search { objectives: vec![objective], trials }), ..Measurement::default() }
    }

    #[test]
    fn a_trial_is_a_line_with_a_bar_that_reaches_the_limit_in_its_middle() {
        let found = search(&[(900.0, 4.2), (950.0, 10.0), (1000.0, 80.0), (2000.0, f64::INFINITY)]);
        let found = found.search.unwrap();
        let mut trials = found.trials.clone();
        trials.push(Trial { kind: TrialKind::Pilot, rate_per_s: None, ..trials[2].clone() });
        trials.push(Trial { kind: TrialKind::Probe, ..trials[0].clone() });
        let lines: Vec<String> =
            trials.iter().map(|trial| trial_line(&found.objectives, trial, false)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        ✔ trial 900/s                ████······│········· iteration_duration.p99 4.20 ms
        ✗ trial 950/s                ██████████│········· iteration_duration.p99 10.0 ms
        ✗ trial 1.00k/s              ████████████████████ iteration_duration.p99 80.0 ms
        ✗ trial 2.00k/s              ████████████████████ iteration_duration.p99 above every limit
          pilot 999/s closed loop    ████████████████████ iteration_duration.p99 80.0 ms
        ✔ probe 900/s                ████······│········· iteration_duration.p99 4.20 ms
        ");
    }

    #[test]
    fn the_limit_is_what_a_failed_trial_ran_into() {
        let calm = Strain { system_cpus: Some(0.41), system_cpus_allowed: Some(2), ..Strain::default() };
        let failing = Strain { failed: 0.12, failure: Some("status 503".to_owned()), ..calm.clone() };
        let all = [
            Strain::default(),
            Strain { system_cpus: Some(1.98), ..calm.clone() },
            Strain { system_cpus: Some(0.98), ..calm.clone() },
            Strain {
                system_cpus: Some(0.97),
                system_cpus_allowed: Some(1),
                is_pool: true,
                ..failing.clone()
            },
            Strain { is_load: true, ..calm.clone() },
            Strain { failed: 0.0005, ..failing },
            calm,
        ];
        insta::assert_snapshot!(all.iter().map(limit_words).collect::<Vec<_>>().join("\n"), @r"
        unknown; failures do not explain it, and how much of its CPUs the system used cannot be seen
        CPU (the system used 1.98 of its 2 CPUs)
        perhaps CPU (the system used 0.98 of its 2 CPUs, as 1 busy thread would)
        12.00% of attempts failed, most often with `status 503`; all connections of the load were in use; CPU (the system used 0.97 of its CPU)
        the load itself
        no shortage of CPU (the system used 0.41 of its 2 CPUs); look for a quota, a limiter, a lock or a disk
        no shortage of CPU (the system used 0.41 of its 2 CPUs); look for a quota, a limiter, a lock or a disk
        ");
    }

    #[test]
    fn a_search_that_was_cut_short_says_what_it_had_found() {
        let found = search(&[(950.0, 4.2), (1000.0, 80.0)]).search.unwrap();
        let one = Search { trials: found.trials[..1].to_vec(), ..found.clone() };
        let none = Search { trials: Vec::new(), ..found.clone() };
        let words = |search: &Search| search_so_far(search, 200).join("\n");
        insta::assert_snapshot!([found, one, none].each_ref().map(words).join("\n---\n"), @r"
        950/s met the objectives, and 1.00k/s was the lowest rate that did not: `p99 < 10 ms` failed, iteration_duration.p99 was 80.0 ms
        ---
        950/s met the objectives, and no rate failed
        ---
        ");
    }

    #[test]
    fn the_bounds_of_a_variant_are_those_of_all_its_slots() {
        let (run, judgement) = crate::fixture::searching();
        let view = View::new(&run, &judgement);
        let curves = curves(&view);
        assert_eq!(curves.len(), 5, "one variant was skipped");
        let threads = curves.iter().find(|curve| view.name(curve.variant) == "threads").unwrap();
        assert!((1300.0..1500.0).contains(&threads.capacity().unwrap()));
        let (low, _) = threads.range(Search::lower_bound).unwrap();
        let (_, high) = threads.range(Search::upper_bound).unwrap();
        assert!(low < 1300.0 && high > 1300.0, "{low} {high}");
        let drawn = crate::html(&run, &judgement);
        let trials = curves.iter().flat_map(Curve::trials).filter(|trial| !trial.is_met).count();
        assert!(trials > 0 && drawn.matches(": failed</title>").count() == 2 * trials, "in both figures");
    }

    #[test]
    fn the_text_has_the_trials_of_a_variant_by_rate() {
        let (run, judgement) = crate::fixture::searching();
        let view = View::new(&run, &judgement);
        let curves = curves(&view);
        let software = curves.iter().find(|curve| view.name(curve.variant) == "software").unwrap();
        let lines = lines_by_rate(software);
        insta::assert_snapshot!(lines.join("\n"), @r"
        ███·······│········· 905/s to 950/s: http_req_duration.p99 2.88 ms, 24 of 24 met
        ███████···│········· 998/s: http_req_duration.p99 6.91 ms, 12 of 12 met
        █████████████████··· 1.05k/s to 1.10k/s: http_req_duration.p99 16.7 ms, 2 of 24 met
        ████████████████████ 1.15k/s: http_req_duration.p99 40.0 ms, 0 of 12 met
        ████████████████████ 1.21k/s: http_req_duration.p99 71.8 ms, 0 of 12 met
        ████████████████████ 1.27k/s to 1.34k/s: http_req_duration.p99 above every limit, 0 of 24 met
        ");
        let text = crate::text(&run, &judgement, &crate::TextStyle { colour: false, width: 120 });
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        let of_one_rate = search(&[(950.0, 4.2), (950.0, 80.0), (950.0, f64::INFINITY)]).search.unwrap();
        let searches = vec![&of_one_rate];
        let curve = Curve { cell: 0, variant: 0, searches, capacities: Vec::new(), interval: None };
        insta::assert_snapshot!(
            lines_by_rate(&curve).join("\n"),
            @"████████████████████ 950/s: iteration_duration.p99 80.0 ms, 1 of 3 met"
        );
    }

    #[test]
    fn the_bounds_say_why_the_upper_one_failed() {
        let words = |trials: &[(f64, f64)]| sentences(&search(trials)).join("\n");
        insta::assert_snapshot!(words(&[(950.0, 4.2), (1000.0, 80.0)]), @r"
        950/s met the objectives, and 1.00k/s was the lowest rate that did not: `p99 < 10 ms` failed, iteration_duration.p99 was 80.0 ms
        arrivals were even, at equal intervals; under random arrivals a system carries less
        in the words of RFC 9971: relevant lower bound 950/s, relevant upper bound 1.00k/s, conditional throughput 949/s
        ");
        insta::assert_snapshot!(words(&[(950.0, 4.2)]), @r"
        950/s met the objectives, and no rate failed
        arrivals were even, at equal intervals; under random arrivals a system carries less
        ");
        insta::assert_snapshot!(words(&[(950.0, f64::INFINITY)]), @r"
        no trial met the objectives below 950/s, the lowest rate that failed: `p99 < 10 ms` failed, iteration_duration.p99 was above every limit
        arrivals were even, at equal intervals; under random arrivals a system carries less
        ");
    }
}
