//! A slot that searches for a capacity: a window for each rate that it tries.
//!
//! Trials go up and down around the variant's own estimate, never around one that variants share, which would pull their ratio
//! towards 1. After a trial that failed, the system has to meet the objectives at half the rate before the next one, so that no
//! trial is measured on a system that still works off the last one.

use std::collections::BTreeMap;

use plumb_model::measurement::per_second;
use plumb_model::metric::{CAPACITY, CAPACITY_RECOVERY, CPU_SYSTEM};
use plumb_model::{
    Evidence, LoadHealth, LoadLimit, Measurement, Noise, Notice, NoticeKind, Reading, Search, Shortage,
    SlotResult, Span, SplitMix, Strain, Trial, TrialKind, Unit,
};
use plumb_path::{Capacity, Window};
use plumb_places::{Patience, SlotError};
use plumb_stats::{Pilot, Spent, Staircase};

use crate::executor::{Measured, Searching};

/// How many answers have to be above a percentile.
const ANSWERS_ABOVE: f64 = 10.0;
/// The same for a trial of the pilot, which only says where to look: the p99 of an exponential tail then scatters by a tenth.
const ANSWERS_ABOVE_IN_PILOT: f64 = 5.0;
/// If a load falls behind its schedule while no others use the CPUs, and it is busy for at least this share of the time, its own work
/// is the reason.
const OWN_WORK: f64 = 0.25;
/// A pilot goes down as long as its trials are at most this many times as long as asked for, and its probes have as many answers.
const PILOT_TRIAL_MAX: f64 = 4.0;
const PROBE_ANSWERS: f64 = 20.0;
/// How often a trial that the load or other processes spoiled is measured.
const ATTEMPTS: u32 = 3;
/// The length of a probe for recovery: this many times the limit, and at least 200 ms.
const PROBE_PER_LIMIT: f64 = 20.0;
const PROBE_NS_MIN: f64 = 200e6;
/// The longest trial that is made longer than asked for: 60 s.
const TRIAL_NS_MAX: u64 = 60_000_000_000;
/// No load sends more in a second.
const RATE_MAX: f64 = 1e8;
/// A trial settles for this many relaxation times before its window opens.
const RELAXATIONS: u64 = 3;
/// The longest settling time: 10 s.
const SETTLE_NS_MAX: u64 = 10_000_000_000;
/// Probes of a pilot after which they go on at half the rate: what the pilot starts from may be far too high.
const PROBES_AT_A_RATE: u32 = 3;
/// Where the load itself is the limit from the start on, this many rates are tried below, each this share of the one before.
const BOUNDS_MAX: u32 = 6;
const BOUND_STEP: f64 = 0.8;
/// All other probes stay at their first rate for this long. What had met the objectives may be spent, as the credits of a volume.
const PROBES_AT_HALF: u32 = 15;
/// How often a search starts anew because its trials were not around the capacity.
const PILOTS_MAX: u32 = 2;
/// Probes after which the system counts as one that does not recover.
const PROBES_MAX: u32 = 30;

/// A search in progress.
pub(crate) struct Trials<'a, 'm> {
    searching: Searching<'a>,
    window: Window,
    patience: Patience<'a>,
    /// Measures one window.
    measure: &'m mut dyn FnMut(Window) -> Result<Measured, SlotError>,
    seen: Vec<Trial>,
    kept: Kept,
    /// The longest recovery from a trial of the search.
    recovery_ns: Option<u64>,
    /// How long the last recovery took, or has taken so far.
    waited_ns: u64,
    /// The rate at which the system had last recovered.
    recovered_at: f64,
    /// Whether no rate of this pilot has met the objectives yet.
    is_descending: bool,
    /// The time for which a trial settles.
    settle_ns: u64,
    /// Whether others kept using the CPUs during all attempts of a trial: then another attempt is of no use.
    is_never_quiet: bool,
    end: Option<End>,
}

/// The parts of the trials that become the result of the slot.
#[derive(Default)]
struct Kept {
    /// The trial of the highest rate that met the objectives, or else the last trial.
    best: Option<(f64, Measured)>,
    /// The evidence of the trials, each statement as it was where it did not hold.
    evidence: Vec<Evidence>,
    /// When the first window opened.
    opened: Option<(u64, String)>,
    /// The noise of the trial in which others did most.
    noise: Option<(Noise, BTreeMap<String, Noise>)>,
    /// The length of the shortest trial of the search.
    shortest_ns: Option<u64>,
    /// A trial's notice of a pool that is too small: no other trial says so once the system is fast enough.
    pool: Option<Notice>,
}

/// The reason for which a search ended early.
enum End {
    /// The load was the limit.
    Load(LoadHealth),
    /// The system did not recover.
    Sick,
}

impl<'a, 'm> Trials<'a, 'm> {
    /// Searches, with one window after another, and returns the slot's result.
    ///
    /// # Errors
    /// When a window cannot be measured.
    pub(crate) fn run(
        searching: Searching<'a>,
        (window, patience): (Window, Patience<'a>),
        measure: &'m mut dyn FnMut(Window) -> Result<Measured, SlotError>,
    ) -> Result<Measured, SlotError> {
        let (seen, kept) = (Vec::new(), Kept::default());
        let mut trials = Self {
            searching,
            window,
            patience,
            measure,
            seen,
            kept,
            recovery_ns: None,
            waited_ns: 0,
            recovered_at: 0.0,
            is_descending: false,
            settle_ns: 0,
            is_never_quiet: false,
            end: None,
        };
        let start = match searching.start {
            Some(start) => Some(start),
            None => trials.first_pilot()?,
        };
        let Some(mut start) = start else { return trials.result(None) };
        for pilots_left in (0..=PILOTS_MAX).rev() {
            let (staircase, guess) = trials.staircase(start, pilots_left == 0)?;
            let Some(from) = guess else { return trials.result(staircase.estimate()) };
            if pilots_left == 0 {
                return Err(SlotError::Harness(format!(
                    "find the capacity: the search began anew {PILOTS_MAX} times, and the last trials, which ended at {from:.0}/s, were all on \
                     one side of it"
                )));
            }
            trials.forget();
            let Some(found) = trials.pilot(from)? else { break };
            start = found;
        }
        trials.result(None)
    }

    /// Takes all trials so far for those of a pilot: they say only where to look.
    fn forget(&mut self) {
        let searched = self.seen.iter_mut().filter(|trial| trial.kind == TrialKind::Search);
        searched.for_each(|trial| trial.kind = TrialKind::Pilot);
        self.kept.best = None;
        self.recovery_ns = None;
    }

    /// Makes the trials around a rate. If they were not around the capacity, it also returns the rate from which to look for another.
    /// All of the last ones are made.
    fn staircase(&mut self, start: f64, is_last: bool) -> Result<(Staircase, Option<f64>), SlotError> {
        let mut staircase = Staircase::new(start, self.searching.capacity.step);
        for _ in 0..self.searching.capacity.trials {
            let rate = staircase.rate();
            let Some(is_met) = self.trial(TrialKind::Search, rate)? else { break };
            staircase.note(is_met);
            // The probes went far down, and so does the search.
            if !is_met && !is_last && self.end.is_none() && self.recovered_at < rate / 2.0 {
                return Ok((staircase, Some(self.recovered_at)));
            }
        }
        let is_off = self.end.is_none() && (self.is_one_sided() || staircase.is_sinking());
        let guess = is_off.then(|| staircase.rate());
        Ok((staircase, guess))
    }

    /// Whether all trials of a search had the same outcome: then the capacity is beyond them.
    fn is_one_sided(&self) -> bool {
        let mut judged = self.seen.iter().filter(|trial| trial.kind == TrialKind::Search);
        let first = judged.next().map(|trial| trial.is_met);
        judged.all(|trial| Some(trial.is_met) == first)
    }

    /// Finds the first estimate, from the throughput of a closed loop on.
    fn first_pilot(&mut self) -> Result<Option<f64>, SlotError> {
        for _ in 0..ATTEMPTS {
            let measured = self.window(None, self.window.window_ns, self.window.warmup_ns)?;
            let guess = done_per_s(&measured.result.measurement);
            self.note(TrialKind::Pilot, None, measured);
            if guess > 0.0 {
                return self.pilot(guess);
            }
            // The system may still work off what was sent before this search.
        }
        Ok(None)
    }

    fn pilot(&mut self, guess: f64) -> Result<Option<f64>, SlotError> {
        let from = |guess: f64| Pilot::new(guess.min(RATE_MAX), self.searching.capacity.step, RATE_MAX);
        let mut pilot = from(guess);
        self.is_descending = true;
        while let Some(rate) = pilot.rate() {
            match self.trial(TrialKind::Pilot, rate)? {
                // The probes went far down, and so does the pilot.
                Some(false) if self.is_descending && self.recovered_at < rate / 2.0 => {
                    pilot = from(self.recovered_at);
                }
                Some(is_met) => {
                    self.is_descending &= !is_met;
                    pilot.note(is_met);
                }
                None => break,
            }
        }
        self.is_descending = false;
        Ok(pilot.estimate().filter(|_| self.end.is_none()))
    }

    /// Tries a rate, and waits until the system has recovered from it. Returns whether it met the objectives; `None` once the search
    /// has ended.
    fn trial(&mut self, kind: TrialKind, rate: f64) -> Result<Option<bool>, SlotError> {
        if self.end.is_some() {
            return Ok(None);
        }
        let measured = self.attempted(kind, rate)?;
        let health = measured.result.measurement.health.clone();
        if let Some(limit) = health.limit()
            && self.is_own(limit, &measured)
        {
            self.note(TrialKind::Pilot, Some(rate), measured);
            if self.bounds().0.is_none() {
                self.bound_below(rate)?;
            }
            self.end = Some(End::Load(health));
            return Ok(None);
        }
        if let Some(why) = spoilt_by(&measured) {
            return Err(disturbed(rate, &why));
        }
        let is_met = self.note(kind, Some(rate), measured);
        if !is_met {
            match self.recovery_ns(kind, rate / 2.0)? {
                Some(took_ns) if kind == TrialKind::Search && self.recovered_at >= rate / 2.0 => {
                    self.recovery_ns = self.recovery_ns.max(Some(took_ns));
                }
                Some(_) => {}
                None => self.end = Some(End::Sick),
            }
        }
        Ok(Some(is_met))
    }

    /// Goes down from a rate that the load itself cannot send, until one meets the objectives: a lower bound of the capacity.
    fn bound_below(&mut self, mut rate: f64) -> Result<(), SlotError> {
        for _ in 0..BOUNDS_MAX {
            rate *= BOUND_STEP;
            let Ok(window_ns) = self.window_ns(TrialKind::Pilot, rate) else { break };
            let measured = self.window(Some(rate), window_ns, self.window.warmup_ns)?;
            if measured.doubt.is_none() && self.note(TrialKind::Pilot, Some(rate), measured) {
                break;
            }
        }
        Ok(())
    }

    /// Measures a rate, and again if the load was kept from it or others used the CPUs.
    fn attempted(&mut self, kind: TrialKind, rate: f64) -> Result<Measured, SlotError> {
        let window_ns = self.window_ns(kind, rate)?;
        let warmup_ns = self.window.warmup_ns.max(self.settle_ns);
        let (mut attempts, mut beside_others) = (0, 0);
        loop {
            let measured = self.window(Some(rate), window_ns, warmup_ns)?;
            attempts += 1;
            let is_beside_others = self.is_beside_others(&measured);
            beside_others += u32::from(is_beside_others);
            let is_quiet = self.is_never_quiet || !is_beside_others;
            if attempts == ATTEMPTS || (is_quiet && spoilt_by(&measured).is_none()) {
                self.is_never_quiet |= beside_others == ATTEMPTS;
                return Ok(measured);
            }
            // The next attempt must not be measured on a system that still works off this one.
            let is_met = objectives_met(self.searching.capacity, &measured.result.measurement).1;
            if !is_met && self.recovery_ns(TrialKind::Pilot, rate / 2.0)?.is_none() {
                return Ok(measured);
            }
        }
    }

    /// Whether a load that is the limit is so by itself, and not because others had its CPUs.
    fn is_own(&self, limit: LoadLimit, measured: &Measured) -> bool {
        let demand = measured.result.measurement.health.demand();
        match limit {
            LoadLimit::Busy | LoadLimit::Starved(Shortage::Quota) => true,
            LoadLimit::Late => demand >= OWN_WORK && !self.is_beside_others(measured),
            LoadLimit::Starved(_) => false,
        }
    }

    /// Whether other processes, or other guests of the hypervisor, had more of the CPUs than the experiment allows.
    fn is_beside_others(&self, measured: &Measured) -> bool {
        let Noise { others, steal, .. } = measured.result.noise;
        others.max(steal) > self.searching.others_max
    }

    /// Measures until the system meets the objectives at a rate, which is far below the last one. Returns how long that took; `None`
    /// if it did not.
    fn recovery_ns(&mut self, kind: TrialKind, half: f64) -> Result<Option<u64>, SlotError> {
        let (mut rate, mut met_at) = (half, None);
        let began_ns = self.patience.clock.monotonic_ns();
        // The reason in the last probe, as long as all probes had one.
        let mut disturbed_by = Some(String::new());
        let limit_ns = self.searching.capacity.limit_ns().unwrap_or(0.0);
        let probe_ns = (limit_ns * PROBE_PER_LIMIT).max(PROBE_NS_MIN) as u64;
        // Below this, a probe has too few answers, or the next trial takes too long.
        let longest_ns = PILOT_TRIAL_MAX * self.window.window_ns as f64;
        let least = (PROBE_ANSWERS / probe_ns as f64).max(self.answers(TrialKind::Pilot) / longest_ns) * 1e9;
        for probes in 1..=PROBES_MAX {
            let sick_ns = self.patience.clock.monotonic_ns().saturating_sub(began_ns);
            let measured = self.window(Some(rate), probe_ns, self.window.warmup_ns)?;
            disturbed_by = disturbed_by.and_then(|_| spoilt_by(&measured));
            // If this probe meets the objectives, the system had recovered when its window opened.
            self.waited_ns = measured.opened_ns.saturating_sub(began_ns);
            let is_met = self.note(TrialKind::Probe, Some(rate), measured);
            if is_met && rate < half && !self.is_descending && met_at.is_none() {
                // If the system was only slow to recover, it now does half the rate, too.
                (met_at, rate) = (Some(rate), half);
                continue;
            }
            if is_met || met_at.is_some() {
                self.recovered_at = met_at.filter(|_| !is_met).unwrap_or(rate);
                let settle_ns = sick_ns.saturating_mul(RELAXATIONS).min(SETTLE_NS_MAX);
                // Once for all: a trial that settles for longer overloads the system for longer.
                if probes > 1 && kind == TrialKind::Search && is_met && self.settle_ns == 0 {
                    self.settle_ns = settle_ns;
                }
                return Ok(Some(self.waited_ns));
            }
            let at_half = if self.is_descending { PROBES_AT_A_RATE } else { PROBES_AT_HALF };
            if probes >= at_half && probes % PROBES_AT_A_RATE == 0 && rate / 2.0 >= least {
                rate /= 2.0;
            }
        }
        match met_at {
            Some(rate) => {
                self.recovered_at = rate;
                Ok(Some(self.waited_ns))
            }
            None => disturbed_by.map_or(Ok(None), |why| Err(disturbed(rate, &why))),
        }
    }

    /// How many answers a trial needs, for enough of them above every percentile.
    fn answers(&self, kind: TrialKind) -> f64 {
        let quantiles =
            self.searching.capacity.objectives.iter().filter_map(|objective| objective.statistic?.quantile());
        quantiles.map(|quantile| answers_above(kind) / (1.0 - quantile)).fold(0.0, f64::max)
    }

    /// The length of a trial at a rate: long enough for enough answers.
    fn window_ns(&self, kind: TrialKind, rate: f64) -> Result<u64, SlotError> {
        let least_ns = (self.answers(kind) / rate * 1e9) as u64;
        if least_ns > TRIAL_NS_MAX.max(self.window.window_ns) {
            return Err(SlotError::Failed(format!(
                "meet the objectives at {rate:.2}/s or above, where a trial needs {} for {} answers above the percentile",
                Span(least_ns),
                answers_above(kind)
            )));
        }
        Ok(self.window.window_ns.max(least_ns))
    }

    fn window(
        &mut self,
        rate_per_s: Option<f64>,
        window_ns: u64,
        warmup_ns: u64,
    ) -> Result<Measured, SlotError> {
        self.patience.go_on()?;
        let seed = SplitMix::seed_of(self.window.seed, self.seen.len() as u64);
        let late_ns = self.searching.capacity.late_ns();
        (self.measure)(Window { rate_per_s, window_ns, warmup_ns, seed, late_ns, ..self.window })
    }

    /// Records a trial, and returns whether it met the objectives. A trial in which the load was the limit never does.
    fn note(&mut self, kind: TrialKind, rate_per_s: Option<f64>, measured: Measured) -> bool {
        let measurement = &measured.result.measurement;
        let (values, is_met) = objectives_met(self.searching.capacity, measurement);
        let is_of_load =
            kind != TrialKind::Probe && rate_per_s.is_some() && measurement.health.is_load_bound();
        let is_met = is_met && !is_of_load;
        let cpu_system = measurement.readings.get(CPU_SYSTEM.name);
        let trial = Trial {
            kind,
            rate_per_s,
            done_per_s: done_per_s(measurement),
            values,
            is_met,
            cpu_system_us: cpu_system.and_then(|reading| reading.number(None, Unit::Microseconds)),
            strain: (!is_met && rate_per_s.is_some()).then(|| strain(&measured.result)),
        };
        (self.searching.watch)(&trial);
        self.seen.push(trial);
        let rank = rate_per_s.filter(|_| is_met && kind == TrialKind::Search);
        self.kept.keep(rank.unwrap_or(0.0), kind, measured);
        is_met
    }

    /// The signs of a spent burst in the trials.
    fn spent(&self) -> Option<Notice> {
        let is_of_system = |trial: &&Trial| {
            trial.kind != TrialKind::Probe && !trial.strain.as_ref().is_some_and(|strain| strain.is_load)
        };
        let tried = self.seen.iter().filter(is_of_system);
        let trials: Vec<(f64, bool)> =
            tried.filter_map(|trial| Some((trial.rate_per_s?, trial.is_met))).collect();
        if let Some(Spent { at_first, since }) = Spent::find(self.searching.start, &trials) {
            return Some(NoticeKind::BurstSpent.with([at_first, since]));
        }
        // The closed loop alone may have spent it.
        let (first, later) = self.seen.split_first().filter(|(first, _)| first.rate_per_s.is_none())?;
        let most = later.iter().map(|trial| trial.done_per_s).reduce(f64::max)?;
        let is_of_load = matches!(self.end, Some(End::Load(_)));
        (first.done_per_s > Spent::RATIO_MIN * most && !is_of_load)
            .then(|| NoticeKind::FasterAtFirst.with([first.done_per_s, most]))
    }

    /// The highest rate that met the objectives below all that failed, and the lowest that failed.
    fn bounds(&self) -> (Option<f64>, Option<f64>) {
        let tried = || self.seen.iter().filter(|trial| trial.kind != TrialKind::Probe);
        let rates =
            |is_met| tried().filter(move |trial| trial.is_met == is_met).filter_map(|trial| trial.rate_per_s);
        let lowest_failed = rates(false).reduce(f64::min);
        let below = |rate: &f64| lowest_failed.is_none_or(|failed| *rate < failed);
        (rates(true).filter(below).reduce(f64::max), lowest_failed)
    }

    fn result(self, estimate: Option<f64>) -> Result<Measured, SlotError> {
        let (highest_met, lowest_failed) = self.bounds();
        let spent = self.spent();
        let Some((rank, mut measured)) = self.kept.best else {
            return Err(SlotError::Harness("measure: the search had no trial".to_owned()));
        };
        let measurement = &mut measured.result.measurement;
        if rank == 0.0 {
            // No trial of the search met the objectives, so nothing that was measured is of a capacity.
            measurement.readings.clear();
            measurement.windows.clear();
        }
        let capacity = match self.end {
            Some(End::Load(health)) => {
                measurement.health = health;
                measurement.notices.extend(highest_met.map(|rate| NoticeKind::LoadsOwnLimit.with([rate])));
                highest_met
            }
            Some(End::Sick) => {
                measurement.notices.push(NoticeKind::NotRecovered.with([self.waited_ns as f64]));
                // Without a trial that met the objectives, the estimate is a mean of rates that are too high.
                estimate.filter(|_| rank > 0.0).or(highest_met)
            }
            None if estimate.is_some() => estimate,
            None => {
                let why = match (highest_met, lowest_failed) {
                    (Some(met), None) => NoticeKind::NoRateFailed.with([met]),
                    (_, Some(failed)) => NoticeKind::NoRateMet.with([failed]),
                    (None, None) => NoticeKind::NoAnswer.into(),
                };
                measurement.notices.push(why);
                None
            }
        };
        measurement.notices.retain(|notice| notice.kind != NoticeKind::FewConnections);
        measurement.notices.extend(self.kept.pool);
        let trial_ns = self.kept.shortest_ns.unwrap_or(self.window.window_ns);
        measurement.notices.extend(self.searching.capacity.short_trials(trial_ns).into_iter().chain(spent));
        let gauges = [(CAPACITY, capacity), (CAPACITY_RECOVERY, self.recovery_ns.map(|ns| ns as f64 / 1e6))];
        for (metric, value) in gauges {
            measurement.readings.extend(value.map(|value| (metric.name.to_owned(), Reading::Gauge(value))));
        }
        if !self.kept.evidence.is_empty() {
            measured.result.evidence = self.kept.evidence;
        }
        if let Some((noise, by_host)) = self.kept.noise {
            (measured.result.noise, measured.result.noise_by_host) = (noise, by_host);
        }
        if let Some((opened_ns, opened_at)) = self.kept.opened {
            (measured.opened_ns, measured.opened_at) = (opened_ns, opened_at);
        }
        let objectives = self.searching.capacity.objectives.clone();
        measured.result.measurement.search = Some(Search { objectives, trials: self.seen });
        Ok(measured)
    }
}

impl Kept {
    fn keep(&mut self, rank: f64, kind: TrialKind, measured: Measured) {
        self.opened.get_or_insert_with(|| (measured.opened_ns, measured.opened_at.clone()));
        let evidence = measured.result.evidence.iter().filter(|_| kind == TrialKind::Search);
        evidence.for_each(|evidence| evidence.add_to(&mut self.evidence));
        let SlotResult { noise, noise_by_host, measurement, .. } = &measured.result;
        if kind == TrialKind::Search {
            let window_ns = measurement.window_ns;
            self.shortest_ns = Some(self.shortest_ns.map_or(window_ns, |known_ns| known_ns.min(window_ns)));
            let is_of_pool = |notice: &&Notice| notice.kind == NoticeKind::FewConnections;
            self.pool = self.pool.take().or_else(|| measurement.notices.iter().find(is_of_pool).cloned());
        }
        if self
            .noise
            .as_ref()
            .is_none_or(|(worst, _)| noise.others + noise.steal > worst.others + worst.steal)
        {
            self.noise = Some((noise.clone(), noise_by_host.clone()));
        }
        if self.best.as_ref().is_none_or(|(best, _)| rank >= *best) {
            self.best = Some((rank, measured));
        }
    }
}

/// The value of each objective's metric, and whether all objectives are met.
fn objectives_met(capacity: &Capacity, measurement: &Measurement) -> (Vec<Option<f64>>, bool) {
    let values = capacity.objectives.iter().map(|objective| measurement.value_of(objective));
    let values: Vec<Option<f64>> = values.collect();
    let is_met = capacity.objectives.iter().zip(&values).all(|(objective, value)| objective.is_met(*value));
    (values, is_met)
}

fn answers_above(kind: TrialKind) -> f64 {
    if kind == TrialKind::Pilot { ANSWERS_ABOVE_IN_PILOT } else { ANSWERS_ABOVE }
}

const OTHERS: &str = "other programs or the hypervisor may have had the CPUs";

/// Why a window says nothing about the system, if so.
fn spoilt_by(measured: &Measured) -> Option<String> {
    let health = &measured.result.measurement.health;
    let of_load = health.limit().map(|limit| match limit {
        LoadLimit::Late => {
            let (share, lag_ms) = (100.0 * health.late_share, health.lag_ns_max as f64 / 1e6);
            format!(
                "the load could not send on time: {share:.1}% of the requests left late, by up to {lag_ms:.1} ms; {OTHERS}"
            )
        }
        LoadLimit::Starved(shortage) => {
            let waited = 100.0 * health.waited;
            format!("a thread of the load waited {waited:.0}% of the time for a CPU: {}", shortage.clause())
        }
        LoadLimit::Busy => "a thread of the load was busy all the time".to_owned(),
    });
    of_load.or_else(|| measured.doubt.as_ref().map(|doubt| format!("plumb could not {doubt}; {OTHERS}")))
}

/// A window's load on everything that can limit a system.
fn strain(result: &SlotResult) -> Strain {
    let SlotResult { measurement, placement, .. } = result;
    Strain {
        is_load: measurement.health.is_load_bound(),
        is_pool: measurement.notices.iter().any(|notice| notice.kind == NoticeKind::FewConnections),
        failed: measurement.attempts.failed_share().unwrap_or(0.0),
        failure: Measurement::most_frequent_failure(std::iter::once(measurement)),
        system_cpus: result.system_cpus(),
        system_cpus_allowed: placement.as_ref().and_then(|placement| placement.allowed.len().try_into().ok()),
    }
}

/// Neither side failed: other processes, or the hypervisor, had the CPUs.
fn disturbed(rate: f64, why: &str) -> SlotError {
    SlotError::Harness(format!("measure at {rate:.0}/s undisturbed: in the last attempt, {why}"))
}

fn done_per_s(measurement: &Measurement) -> f64 {
    per_second(measurement.work, measurement.window_ns)
}

#[cfg(test)]
mod tests {
    use plumb_path::null::NULL;
    use serde_json::json;

    use super::*;
    use plumb_places::SimulatedClock;

    /// A search around 1000/s in which every trial does this much and has this health.
    fn searched(work: u64, health: &LoadHealth) -> (Result<Measured, SlotError>, usize) {
        searched_with(|_| work, health)
    }

    /// The same, with as much work as a function says of the rate.
    fn searched_with(work: impl Fn(f64) -> u64, health: &LoadHealth) -> (Result<Measured, SlotError>, usize) {
        let (found, windows) =
            searched_beside(|window| work(window.rate_per_s.unwrap_or(0.0)), health, |_| 0.0);
        (found, windows.len())
    }

    /// The same, while others use this share of the CPUs in each window. Returns the windows, too. A window takes its time.
    fn searched_beside(
        work: impl Fn(Window) -> u64,
        health: &LoadHealth,
        others: impl Fn(usize) -> f64,
    ) -> (Result<Measured, SlotError>, Vec<Window>) {
        searched_from((Some(1000.0), 0.1), work, health, others)
    }

    /// The same from any start, or from a closed loop, where others may use any share.
    fn searched_from(
        (start, others_max): (Option<f64>, f64),
        work: impl Fn(Window) -> u64,
        health: &LoadHealth,
        others: impl Fn(usize) -> f64,
    ) -> (Result<Measured, SlotError>, Vec<Window>) {
        let settings =
            NULL.decode(&json!({"load": {"capacity": {"objective": ["throughput > 900/s"]}}})).unwrap();
        let capacity = settings.facts().load.capacity.unwrap();
        let searching = Searching { capacity: &capacity, start, others_max, watch: &|_| () };
        let clock = SimulatedClock::default();
        let mut windows = Vec::new();
        let mut measure = |window: Window| {
            let noise = Noise { others: others(windows.len()), ..Noise::default() };
            windows.push(window);
            clock.advance(std::time::Duration::from_nanos(window.warmup_ns + window.window_ns));
            let work = work(window);
            let readings = [("throughput".to_owned(), Reading::rate(work, window.window_ns))].into();
            let window_ns = window.window_ns;
            let can_send = window.rate_per_s.is_some_and(|rate| rate < CAN_SEND);
            let health = if can_send { LoadHealth::default() } else { health.clone() };
            let measurement = Measurement { work, window_ns, readings, health, ..Measurement::default() };
            let result = SlotResult { measurement, noise, ..SlotResult::default() };
            let opened_ns = plumb_places::Clock::monotonic_ns(&clock).saturating_sub(window.window_ns);
            Ok(Measured { result, opened_ns, opened_at: String::new(), doubt: None })
        };
        let patience = Patience { clock: &clock, interrupted: &|| false };
        let window = Window::at_once(0, 1_000_000_000, 1);
        (Trials::run(searching, (window, patience), &mut measure), windows)
    }

    #[test]
    fn a_load_that_was_kept_from_sending_on_time_fails_the_slot_after_three_attempts() {
        let late = LoadHealth { late_share: 0.2, busiest_thread: 0.1, ..LoadHealth::default() };
        let (failed, windows) = searched(1000, &late);
        let Err(SlotError::Harness(reason)) = failed else { panic!("{failed:?}") };
        assert!(
            reason.starts_with(
                "measure at 1000/s undisturbed: in the last attempt, the load could not send on time: 20.0%"
            ),
            "{reason}"
        );
        assert_eq!(windows, 3);
    }

    /// Below this rate, the load is never the limit.
    const CAN_SEND: f64 = 700.0;

    #[test]
    fn a_load_that_is_busy_or_late_by_itself_makes_the_capacity_a_lower_bound() {
        let busy = LoadHealth { busiest_thread: 0.95, ..LoadHealth::default() };
        let late = LoadHealth { late_share: 0.02, busiest_thread: 0.5, ..LoadHealth::default() };
        for health in [busy, late] {
            let (found, windows) = searched(1000, &health);
            let measurement = found.unwrap().result.measurement;
            // Three attempts, and two lower rates.
            assert!(measurement.health.is_load_bound() && windows == 5, "{windows}");
            let capacity = measurement.readings[CAPACITY.name].number(None, CAPACITY.unit).unwrap();
            assert!((capacity / 640.0 - 1.0).abs() < 1e-9, "{capacity}");
        }
    }

    #[test]
    fn a_search_that_never_fails_has_no_capacity_and_says_so() {
        let (found, _) = searched(1000, &LoadHealth::default());
        let measurement = found.unwrap().result.measurement;
        assert!(measurement.readings.is_empty(), "{:?}", measurement.readings);
        let kinds: Vec<NoticeKind> = measurement.notices.iter().map(|notice| notice.kind).collect();
        assert_eq!(kinds, [NoticeKind::NoRateFailed]);
        let trials = measurement.search.unwrap().trials;
        assert!(trials.iter().all(|trial| trial.kind == TrialKind::Pilot), "none is judged");
    }

    #[test]
    fn a_search_whose_start_is_far_off_looks_for_another() {
        // The system does 5000/s, and the search begins at 1000/s.
        let (found, _) = searched_with(|rate| if rate < 5000.0 { 1000 } else { 0 }, &LoadHealth::default());
        let measurement = found.unwrap().result.measurement;
        let capacity = measurement.readings[CAPACITY.name].number(None, CAPACITY.unit).unwrap();
        assert!((4500.0..5500.0).contains(&capacity), "{capacity}");
        let search = measurement.search.unwrap();
        assert_eq!(search.trials.iter().filter(|trial| trial.kind == TrialKind::Search).count(), 8);
    }

    #[test]
    fn a_burst_that_is_spent_is_told_and_the_capacity_is_what_remains() {
        // The earlier slots found 1000/s. The system does 300/s for ever, and more as long as its credits last.
        let credits = std::cell::Cell::new(2500.0);
        let meets = |window: Window| {
            let took_s = (window.warmup_ns + window.window_ns) as f64 / 1e9;
            let left = credits.get() + (300.0 - window.rate_per_s.unwrap_or(0.0)) * took_s;
            credits.set(left.clamp(0.0, 2500.0));
            if left >= 0.0 { window.window_ns / 1_000_000 } else { 0 }
        };
        let (found, _) = searched_beside(meets, &LoadHealth::default(), |_| 0.0);
        let measurement = found.unwrap().result.measurement;
        let capacity = measurement.readings[CAPACITY.name].number(None, CAPACITY.unit).unwrap();
        assert!((290.0..350.0).contains(&capacity), "{capacity}");
        let [notice] = &measurement.notices[..] else { panic!("{:?}", measurement.notices) };
        assert_eq!(notice.kind, NoticeKind::BurstSpent);
        assert!((1000.0..1200.0).contains(&notice.figures[0].most), "{notice:?}");
        assert!((290.0..400.0).contains(&notice.figures[1].most), "{notice:?}");
        let search = measurement.search.unwrap();
        assert!(search.upper_bound().unwrap() < 400.0, "the trials of the burst have no part in the bounds");
    }

    #[test]
    fn trials_that_all_failed_before_the_system_stayed_sick_give_no_capacity() {
        let trials = std::cell::Cell::new(0);
        let work = |window: Window| {
            let is_probe = window.window_ns < 1_000_000_000;
            trials.set(trials.get() + u32::from(!is_probe));
            if is_probe && trials.get() < 3 { window.window_ns / 1_000_000 } else { 0 }
        };
        let (found, _) = searched_beside(work, &LoadHealth::default(), |_| 0.0);
        let measurement = found.unwrap().result.measurement;
        assert!(measurement.notices.iter().any(|notice| notice.kind == NoticeKind::NotRecovered));
        assert!(!measurement.readings.contains_key(CAPACITY.name), "{:?}", measurement.readings);
    }

    #[test]
    fn a_closed_loop_without_an_answer_is_tried_again() {
        let tried = std::cell::Cell::new(0);
        let work = |window: Window| {
            tried.set(tried.get() + u32::from(window.rate_per_s.is_none()));
            let meets = window.rate_per_s.is_none_or(|rate| rate < 1010.0);
            if tried.get() > 2 && meets { window.window_ns / 1_000_000 } else { 0 }
        };
        let found = searched_from((None, 0.1), work, &LoadHealth::default(), |_| 0.0).0.unwrap();
        let capacity = found.result.measurement.readings[CAPACITY.name].number(None, CAPACITY.unit).unwrap();
        assert!((900.0..1100.0).contains(&capacity) && tried.get() == 3, "{capacity} {}", tried.get());
    }

    #[test]
    fn a_closed_loop_that_spends_the_burst_alone_is_told() {
        // Credits for one second at 40,000/s, and then 400/s for ever.
        let work = |window: Window| match window.rate_per_s {
            None => 40_000,
            Some(rate) if rate < 400.0 => window.window_ns / 1_000_000,
            Some(_) => 0,
        };
        let notices = |health: &LoadHealth| {
            let found = searched_from((None, 0.1), work, health, |_| 0.0).0.unwrap();
            let notices = found.result.measurement.notices.into_iter();
            notices.filter(|it| it.kind == NoticeKind::FasterAtFirst).collect::<Vec<Notice>>()
        };
        let expected = NoticeKind::FasterAtFirst.with([40_000.0, 1000.0]);
        assert_eq!(notices(&LoadHealth::default()), [expected]);
        // An open loop may cost the load more than a closed one.
        assert_eq!(notices(&LoadHealth { busiest_thread: 0.95, ..LoadHealth::default() }), []);
    }

    #[test]
    fn a_system_that_is_slow_to_recover_is_not_one_that_does_less() {
        // After an overload it does nothing for 17 probes of 0.2 s.
        let sick_until = std::cell::Cell::new(0);
        let now = std::cell::Cell::new(0);
        let meets = |window: Window| {
            now.set(now.get() + 1);
            if window.rate_per_s.unwrap_or(0.0) >= 1010.0 {
                sick_until.set(now.get() + 17);
            }
            if now.get() <= sick_until.get() { 0 } else { window.window_ns / 1_000_000 }
        };
        let (found, _) = searched_beside(meets, &LoadHealth::default(), |_| 0.0);
        let measurement = found.unwrap().result.measurement;
        assert_eq!(measurement.notices, []);
        let trials = measurement.search.unwrap().trials;
        assert!(trials.iter().all(|trial| trial.kind != TrialKind::Pilot), "{trials:?}");
        let recovery = measurement.readings[CAPACITY_RECOVERY.name].number(None, CAPACITY_RECOVERY.unit);
        assert!(recovery.unwrap() >= 3400.0, "{recovery:?}");
    }

    #[test]
    fn a_trial_beside_others_is_measured_again_until_that_is_seen_to_be_of_no_use() {
        let healthy = LoadHealth::default();
        let rates =
            |windows: Vec<Window>| -> Vec<f64> { windows.iter().filter_map(|it| it.rate_per_s).collect() };
        let meets = |window: Window| if window.rate_per_s.unwrap_or(0.0) < 1010.0 { 1000 } else { 0 };
        let quiet = rates(searched_beside(meets, &healthy, |_| 0.0).1);
        let once = rates(searched_beside(meets, &healthy, |at| if at == 0 { 0.3 } else { 0.0 }).1);
        assert_eq!((once[0], &once[1..]), (quiet[0], quiet.as_slice()));
        let always = rates(searched_beside(meets, &healthy, |_| 0.3).1);
        assert_eq!((&always[..2], &always[2..]), (&[quiet[0]; 2][..], quiet.as_slice()));
        let allowed = searched_from((Some(1000.0), 0.5), meets, &healthy, |_| 0.3).1;
        assert_eq!(rates(allowed), quiet, "the experiment allows that");
    }

    #[test]
    fn a_system_recovers_before_a_trial_is_measured_again() {
        // Others spoil the first trial, which does not meet the objective.
        let meets = |window: Window| {
            let rate = window.rate_per_s.unwrap_or(0.0);
            if rate < 990.0 { window.window_ns / 1_000_000 } else { 0 }
        };
        let (_, windows) =
            searched_beside(meets, &LoadHealth::default(), |at| if at == 0 { 0.3 } else { 0.0 });
        let rates = windows.iter().take(3).filter_map(|window| window.rate_per_s);
        assert_eq!(rates.map(f64::round).collect::<Vec<_>>(), [1000.0, 500.0, 1000.0]);
    }

    #[test]
    fn trials_settle_for_three_times_as_long_as_the_system_needed_to_recover() {
        // After an overload, the system does nothing for four probes of 0.2 s.
        let sick = std::cell::Cell::new(0);
        let meets = |window: Window| {
            let is_probe = window.window_ns < 1_000_000_000;
            match (sick.get(), is_probe) {
                (0, _) if window.rate_per_s.unwrap_or(0.0) < 1010.0 => window.window_ns / 1_000_000,
                (0, _) => {
                    sick.set(4);
                    0
                }
                (left, _) => {
                    sick.set(left - 1);
                    0
                }
            }
        };
        let (found, windows) = searched_beside(meets, &LoadHealth::default(), |_| 0.0);
        let measurement = found.unwrap().result.measurement;
        let recovery = measurement.readings[CAPACITY_RECOVERY.name].number(None, CAPACITY_RECOVERY.unit);
        assert!(recovery.unwrap() >= 800.0, "{recovery:?}");
        let settled: Vec<u64> = windows.iter().map(|window| window.warmup_ns / 1_000_000).collect();
        let of = |at: usize| (windows[at].window_ns < 1_000_000_000, settled[at]);
        assert!(
            (0..windows.len()).map(of).all(|it| matches!(it, (true, 0) | (false, 0 | 2400))),
            "{settled:?}"
        );
        assert!(settled.contains(&2400), "{settled:?}");
        let strains = measurement.search.unwrap().trials;
        assert!(strains.iter().all(|trial| trial.strain.is_some() != trial.is_met), "{strains:?}");
    }
}
