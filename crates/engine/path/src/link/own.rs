//! Plumbline's own link: its effects, its counters, and the evidence of them.
//!
//! It takes CPU time that a real link would not, and it has a ceiling. Both are evidence: a load above the ceiling
//! counts for nothing, and the machine may make it late in few slots only.

use plumb_host::network::{LinkCounts, LinkTerms, TunLink};
use plumb_host::time::monotonic_ns;
use plumb_model::{ByteRate, CpuCost, Evidence, Percent, Span, facts, statements};

use super::shape::LinkShape;
use crate::family::Snapshot;

statements! {
    MADE = "link-made": "Plumbline's own link", "{asked}", "{seen}";
    CARRIED = "link-carried": "packets that the link forwarded", "at least {least:.0}, with at least {least_bytes:.0} B",
        "{forwarded:.0}, with {bytes:.0} B";
    REORDERED = "link-reordered": "packets that took no delay", "{share} of {forwarded:.0}", "{reordered:.0}";
    DELAYED = "link-delayed": "packets that spent less time on the link than the delay", "0", "{too_soon:.0} of {forwarded:.0}";
    LOST = "link-lost": "packets that the link lost", "{share} of {entered:.0}", "{lost:.0}; the rate limit dropped {crowded_out:.0} more";
    ON_TIME = "link-on-time": "packets that the link forwarded late",
        "at most {late_max:%} by more than {late_ns:ns}, and none dropped for want of room",
        "{late:.0} of {forwarded:.0}, by up to {latest_us:.0 us} since the link was made; {refused:.0} dropped";
    CPU = "link-cpu": "CPU time of the link's busier thread", "at most {busy_max:%} of the window, with {cpus} CPUs", "{busy:.1%}; both took {cpu_ms:.0 ms}";
}

/// The share of packets that may be late.
const LATE_MAX: f64 = 0.01;
/// The share of the window that a thread of the link may be on a CPU, and the share where the two ends and both threads of the link do not
/// have a CPU each: its threads run first, and more would be felt by the ends.
const BUSY_MAX: f64 = 0.9;
const BUSY_MAX_SHARED: f64 = 0.5;
const CPUS: u64 = 4;
/// How many standard deviations the count of lost packets may be from its mean, and how many packets more. Where next to none are lost,
/// the count is not a normal variable.
const DEVIATIONS_MAX: f64 = 5.0;
const FEW: f64 = 3.0;

/// Counters of the link.
const ENTERED: &str = "own link: entered";
const FORWARDED: &str = "own link: forwarded";
const FORWARDED_BYTES: &str = "own link: forwarded bytes";
const TOO_SOON: &str = "own link: too soon";
const OVERTAKING: &str = "own link: reordered";
const LOST_PACKETS: &str = "own link: lost";
const CROWDED_OUT: &str = "own link: crowded out";
const REFUSED: &str = "own link: refused";
const LATE: &str = "own link: late";
const LATEST_NS: &str = "own link: latest in ns";
const CPU_NS: [&str; 2] = ["own link: CPU time there in ns", "own link: CPU time back in ns"];
const CLOCK_NS: &str = "own link: clock in ns";
/// CPUs on which its threads may run.
const ON_CPUS: &str = "own link: CPUs";
/// The states that say its effects, and the seed of its draws.
const EFFECTS: &str = "own link";
const SEED: &str = "own link's seed";

/// The effects that the settings ask of Plumbline's own link. Without a seed in the settings, each call draws another one.
#[must_use]
pub fn link_terms(link: &LinkShape) -> LinkTerms {
    let drawn = || monotonic_ns() ^ (u64::from(std::process::id()) << 32);
    asked(link, link.seed.unwrap_or_else(drawn))
}

fn asked(link: &LinkShape, seed: u64) -> LinkTerms {
    LinkTerms {
        delay_ns: link.delay.map_or(0, |delay| delay.0),
        jitter_ns: link.jitter.map_or(0, |jitter| jitter.0),
        loss: link.loss.map_or(0.0, |loss| loss.0),
        reordering: link.reordering.map_or(0.0, |share| share.0),
        rate_bytes_per_s: link.rate.map(|rate| rate.0 as u64),
        seed,
    }
}

/// Adds what the link counted so far and its effects. `overflowed` are packets that its devices dropped before it saw them.
pub fn observe_link(link: &TunLink, overflowed: u64, snapshot: &mut Snapshot) {
    let terms = link.terms();
    snapshot.states.insert(EFFECTS.to_owned(), effects(&terms));
    snapshot.states.insert(SEED.to_owned(), terms.seed.to_string());
    let counts = link.counts();
    let sum = |of: fn(&LinkCounts) -> u64| counts.iter().map(of).sum::<u64>();
    let counters = [
        (ENTERED, sum(|it| it.entered)),
        (FORWARDED, sum(|it| it.forwarded)),
        (FORWARDED_BYTES, sum(|it| it.forwarded_bytes)),
        (TOO_SOON, sum(|it| it.too_soon)),
        (OVERTAKING, sum(|it| it.reordered)),
        (LOST_PACKETS, sum(|it| it.lost)),
        (CROWDED_OUT, sum(|it| it.crowded_out)),
        (REFUSED, sum(|it| it.refused) + overflowed),
        (LATE, sum(|it| it.late)),
        (LATEST_NS, counts.iter().map(|it| it.latest_ns).max().unwrap_or(0)),
        (CPU_NS[0], counts[0].cpu_ns),
        (CPU_NS[1], counts[1].cpu_ns),
        (CLOCK_NS, monotonic_ns()),
        (ON_CPUS, link.cpus() as u64),
    ];
    snapshot.counters.extend(counters.map(|(name, count)| (name.to_owned(), count)));
}

/// CPU time of a link's threads, in ns.
#[must_use]
pub fn link_cpu_ns(link: &TunLink) -> u64 {
    link.counts().iter().map(|it| it.cpu_ns).sum()
}

/// CPU time of the link's threads between two snapshots of the system, in ns; 0 if Plumbline made no link.
#[must_use]
pub fn link_cpu_between(before: &Snapshot, after: &Snapshot) -> u64 {
    CPU_NS.iter().filter_map(|counter| after.moved(before, counter)).sum()
}

/// Subtracts the CPU time of a link's threads from that of their process: from system time first, and the rest from user time, because
/// the kernel only estimates that split.
pub fn subtract_link_cpu(cost: &mut CpuCost, link_ns: u64) {
    let of_system_ns = link_ns.min(cost.system_ns);
    cost.system_ns -= of_system_ns;
    cost.user_ns = cost.user_ns.saturating_sub(link_ns - of_system_ns);
}

fn effects(terms: &LinkTerms) -> String {
    let rate = terms.rate_bytes_per_s.map(|rate| format!(", {}", ByteRate(rate as f64)));
    format!(
        "delay {} ± {}, loss {}, reordering {}{}",
        Span(terms.delay_ns),
        Span(terms.jitter_ns),
        Percent(terms.loss),
        Percent(terms.reordering),
        rate.unwrap_or_default()
    )
}

/// Whether the link of a slot was, or had to be, Plumbline's own.
#[must_use]
pub fn is_own(link: &LinkShape, seen: &Snapshot) -> bool {
    link.needs_own() || seen.states.contains_key(EFFECTS)
}

/// Whether this count is plausible if each of `of` packets was drawn with this probability.
fn is_share(count: f64, of: f64, share: f64) -> bool {
    let deviation = (of * share * (1.0 - share)).sqrt();
    let allowed = if share == 0.0 { 0.0 } else { FEW + DEVIATIONS_MAX * deviation };
    (count - of * share).abs() <= allowed
}

/// Evidence that the link had its effects on the slot's packets, of which there were at least this many with this many bytes, and kept up
/// with them.
#[must_use]
pub fn link_evidence(
    link: &LinkShape,
    (before, after): (&Snapshot, &Snapshot),
    (least, least_bytes): (f64, f64),
) -> Vec<Evidence> {
    let moved = |counter: &str| after.moved(before, counter).unwrap_or(0) as f64;
    let state = |of: &Snapshot, name: &str| of.states.get(name).cloned().unwrap_or_default();
    let seed = |of: &Snapshot| state(of, SEED).parse().unwrap_or_default();
    let words = |of: &LinkTerms| format!("{}, seed {}", effects(of), of.seed);
    let wanted = words(&asked(link, link.seed.unwrap_or_else(|| seed(after))));
    let [first, last] = [before, after].map(|of| format!("{}, seed {}", state(of, EFFECTS), state(of, SEED)));
    let is_made = first == wanted && last == wanted;
    let made = MADE.evidence(is_made, facts![asked = wanted, seen = last]);

    let (forwarded, bytes) = (moved(FORWARDED), moved(FORWARDED_BYTES));
    let is_carried = forwarded > 0.0 && forwarded >= least && bytes >= least_bytes;
    let carried = CARRIED.evidence(is_carried, facts![least, least_bytes, forwarded, bytes]);

    let (reordered, too_soon) = (moved(OVERTAKING), moved(TOO_SOON));
    let reordering = link.reordering.map_or(0.0, |share| share.0);
    let share = Percent(reordering).to_string();
    let holds = is_share(reordered, forwarded, reordering);
    let reordered = REORDERED.evidence(holds, facts![share, forwarded, reordered]);
    let delayed = DELAYED.evidence(too_soon == 0.0, facts![too_soon, forwarded]);

    let (entered, lost, crowded_out) = (moved(ENTERED), moved(LOST_PACKETS), moved(CROWDED_OUT));
    let loss = link.loss.map_or(0.0, |loss| loss.0);
    let (holds, share) = (is_share(lost, entered, loss), Percent(loss).to_string());
    let lost = LOST.evidence(holds, facts![share, entered, lost, crowded_out]);

    let (late, refused) = (moved(LATE), moved(REFUSED));
    let latest_us = after.counters.get(LATEST_NS).copied().unwrap_or(0) / 1000;
    let is_on_time = late <= LATE_MAX * forwarded && refused == 0.0;
    let late_facts =
        facts![late_max = LATE_MAX, late_ns = asked(link, 0).late_ns(), late, forwarded, latest_us, refused];
    // A load above the ceiling fills the link's room. If it is late with room to spare, something else had the CPU.
    let on_time = Evidence { of_slot: refused == 0.0, ..ON_TIME.evidence(is_on_time, late_facts) };

    let [there, back] = CPU_NS.map(moved);
    let busy = there.max(back) / moved(CLOCK_NS).max(1.0);
    let cpus = after.counters.get(ON_CPUS).copied().unwrap_or(0);
    let busy_max = if cpus < CPUS { BUSY_MAX_SHARED } else { BUSY_MAX };
    let cpu_ms = (there + back) / 1e6;
    let cpu = CPU.evidence(busy <= busy_max, facts![busy_max, cpus, busy, cpu_ms]);
    vec![made, carried, reordered, delayed, lost, on_time, cpu]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkShape = LinkShape {
        rate: None,
        burst: None,
        delay: Some(Span(20_000_000)),
        loss: Some(Percent(0.01)),
        jitter: None,
        reordering: None,
        seed: Some(7),
    };

    fn snapshot(counters: &[(&str, u64)], effects: &str) -> Snapshot {
        let states = [(EFFECTS, effects), (SEED, "7")];
        Snapshot {
            counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            states: states.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Snapshot::default()
        }
    }

    /// Kinds of the evidence that breaks when these counters are otherwise.
    fn broken(other: &[(&str, u64)], words: &str) -> Vec<String> {
        let mut counters = vec![
            (ENTERED, 10_000),
            (FORWARDED, 9_900),
            (FORWARDED_BYTES, 990_000),
            (LOST_PACKETS, 100),
            (CPU_NS[0], 100_000_000),
            (CPU_NS[1], 200_000_000),
            (CLOCK_NS, 1_000_000_000),
            (ON_CPUS, 4),
        ];
        counters.extend(other);
        let (before, after) = (snapshot(&[], words), snapshot(&counters, words));
        let evidence = link_evidence(&LINK, (&before, &after), (9_000.0, 900_000.0));
        evidence.into_iter().filter(|one| !one.holds).map(|one| one.kind).collect()
    }

    #[test]
    fn a_link_that_did_not_do_its_work_or_could_not_keep_up_breaks_the_evidence() {
        let words = "delay 20 ms ± 0 s, loss 1%, reordering 0%";
        assert_eq!(effects(&asked(&LINK, 7)), words);
        assert_eq!(broken(&[], words), [""; 0]);
        assert_eq!(broken(&[], "delay 2 ms ± 0 s, loss 1%, reordering 0%"), ["link-made"]);
        assert_eq!(broken(&[(FORWARDED, 8_000)], words), ["link-carried"]);
        assert_eq!(broken(&[(FORWARDED_BYTES, 800_000)], words), ["link-carried"]);
        assert_eq!(broken(&[(OVERTAKING, 1)], words), ["link-reordered"]);
        assert_eq!(broken(&[(TOO_SOON, 1)], words), ["link-delayed"]);
        // Of 10,000 packets, 100 ± 53 may be lost.
        assert_eq!(broken(&[(LOST_PACKETS, 160)], words), ["link-lost"]);
        assert_eq!(broken(&[(LATE, 100)], words), ["link-on-time"]);
        assert_eq!(broken(&[(REFUSED, 1)], words), ["link-on-time"]);
        assert_eq!(broken(&[(CPU_NS[1], 890_000_000)], words), [""; 0]);
        assert_eq!(broken(&[(CPU_NS[1], 910_000_000)], words), ["link-cpu"]);
        assert_eq!(broken(&[(CPU_NS[1], 510_000_000), (ON_CPUS, 2)], words), ["link-cpu"]);
    }

    #[test]
    fn the_cpu_time_of_the_link_is_taken_from_system_time_before_user_time() {
        let cost = |user_ns, system_ns| CpuCost {
            user_ns,
            system_ns,
            components: [("ingress".to_owned(), 70)].into(),
        };
        let without = |link_ns| {
            let mut left = cost(300, 500);
            subtract_link_cpu(&mut left, link_ns);
            left
        };
        assert_eq!(without(0), cost(300, 500));
        assert_eq!(without(200), cost(300, 300));
        assert_eq!(without(500), cost(300, 0));
        assert_eq!(without(600), cost(200, 0));
        // The link's clocks are read later than the process's.
        assert_eq!(without(801), cost(0, 0));
    }

    #[test]
    fn the_cpu_time_of_the_link_in_a_window_is_that_of_both_threads() {
        let at = |there, back| snapshot(&[(CPU_NS[0], there), (CPU_NS[1], back)], "");
        assert_eq!(link_cpu_between(&at(100, 20), &at(350, 25)), 255);
        assert_eq!(link_cpu_between(&at(100, 20), &at(100, 20)), 0);
        assert_eq!(link_cpu_between(&Snapshot::default(), &Snapshot::default()), 0, "there is no link");
    }

    #[test]
    fn a_reader_learns_what_the_link_did_and_what_it_cost() {
        let words = "delay 20 ms ± 0 s, loss 1%, reordering 0%";
        let counters = [
            (ENTERED, 10_000),
            (FORWARDED, 9_900),
            (FORWARDED_BYTES, 990_000),
            (LOST_PACKETS, 100),
            (LATE, 3),
            (LATEST_NS, 310_000),
            (CPU_NS[0], 100_000_000),
            (CPU_NS[1], 20_000_000),
            (CLOCK_NS, 1_000_000_000),
            (ON_CPUS, 4),
        ];
        let (before, after) = (snapshot(&[], words), snapshot(&counters, words));
        let lines = link_evidence(&LINK, (&before, &after), (9_000.0, 900_000.0));
        let lines: Vec<String> =
            lines.iter().map(|it| format!("{}: {} / {}", it.what, it.expected, it.observed)).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        Plumbline's own link: delay 20 ms ± 0 s, loss 1%, reordering 0%, seed 7 / delay 20 ms ± 0 s, loss 1%, reordering 0%, seed 7
        packets that the link forwarded: at least 9000, with at least 900000 B / 9900, with 990000 B
        packets that took no delay: 0% of 9900 / 0
        packets that spent less time on the link than the delay: 0 / 0 of 9900
        packets that the link lost: 1% of 10000 / 100; the rate limit dropped 0 more
        packets that the link forwarded late: at most 1% by more than 1 ms, and none dropped for want of room / 3 of 9900, by up to 310 us since the link was made; 0 dropped
        CPU time of the link's busier thread: at most 90% of the window, with 4 CPUs / 10.0%; both took 120 ms
        ");
    }
}
