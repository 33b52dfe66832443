//! When a packet leaves a link, and which packets never do. It reads no clock and draws from a seed, so the same arrivals always have
//! the same fates.

/// How long packets may wait for the rate; those that would wait longer are dropped.
const WAIT_NS_MAX: u64 = 50_000_000;

/// The effects of a link on the packets of both directions. With the same seed, the link loses, varies and reorders the same ones by
/// their numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkTerms {
    /// The time from the end of a packet's transmission to its arrival, in ns.
    pub delay_ns: u64,
    /// Each packet draws a delay that differs from `delay_ns` by at most this much, evenly spread. It never overtakes, so in dense
    /// traffic most packets wait for one before them, and the mean is nearly `delay_ns + jitter_ns`.
    pub jitter_ns: u64,
    /// The share of packets that are lost, before they take any of the rate.
    pub loss: f64,
    /// The share of packets that arrive without the delay and so overtake others.
    pub reordering: f64,
    /// Bytes of Ethernet frames per second, if there is a limit. Packets wait up to 50 ms for it; others are dropped.
    pub rate_bytes_per_s: Option<u64>,
    /// The seed of all draws.
    pub seed: u64,
}

impl LinkTerms {
    /// The time by which a packet may be late and still count as on time: 0.2 ms, or a twentieth of the delay if that is more.
    #[must_use]
    pub fn late_ns(&self) -> u64 {
        const LATE_NS_MIN: u64 = 200_000;
        LATE_NS_MIN.max(self.delay_ns / 20)
    }

    /// The least time that a packet with the delay spends on the link.
    #[must_use]
    pub fn least_ns(&self) -> u64 {
        self.delay_ns.saturating_sub(self.jitter_ns)
    }
}

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is lost.
    Lost,
    /// Too many packets wait for the rate.
    NoRoom,
    /// It leaves with the others, in their order.
    Delayed {
        /// When.
        at_ns: u64,
    },
    /// It leaves without the delay.
    Early {
        /// When.
        at_ns: u64,
    },
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Schedule {
    pub(super) terms: LinkTerms,
    draws: Draws,
    /// When the last packet has been transmitted, and the part of a nanosecond beyond it, in units of 1/rate ns.
    free_ns: u64,
    remainder: u64,
    /// When the last delayed packet leaves.
    last_ns: u64,
}

impl Schedule {
    /// Of the two directions, each has its own draws.
    pub(super) fn new(terms: LinkTerms, direction: u64) -> Self {
        // The number of a stream must not be near a seed that a user would write.
        let seed = Draws(terms.seed).next().wrapping_add(direction << 32);
        Self { terms, draws: Draws(seed), free_ns: 0, remainder: 0, last_ns: 0 }
    }

    /// Decides about a frame of this many bytes that arrives now.
    pub(super) fn arrive(&mut self, now_ns: u64, bytes: usize) -> Fate {
        let terms = self.terms;
        // Every packet takes all three, so that none of them moves the others when it is turned on.
        let [loss, reordering, jitter] = [(); 3].map(|()| self.draws.next_unit());
        if loss < terms.loss {
            return Fate::Lost;
        }
        let Some(sent_ns) = self.transmit(now_ns, bytes as u64) else { return Fate::NoRoom };
        if reordering < terms.reordering {
            return Fate::Early { at_ns: sent_ns };
        }
        let varied = terms.delay_ns + (2.0 * jitter * terms.jitter_ns as f64) as u64;
        let at_ns = (sent_ns + varied.saturating_sub(terms.jitter_ns)).max(self.last_ns);
        self.last_ns = at_ns;
        Fate::Delayed { at_ns }
    }

    /// The end of a frame's transmission; `None` if too much waits for it.
    fn transmit(&mut self, now_ns: u64, bytes: u64) -> Option<u64> {
        let Some(rate) = self.terms.rate_bytes_per_s else { return Some(now_ns) };
        if self.free_ns <= now_ns {
            (self.free_ns, self.remainder) = (now_ns, 0);
        } else if self.free_ns - now_ns > WAIT_NS_MAX {
            return None;
        }
        let owed = bytes * 1_000_000_000 + self.remainder;
        self.free_ns += owed / rate;
        self.remainder = owed % rate;
        Some(self.free_ns)
    }
}

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0, and below 1.
    fn next_unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LinkTerms =
        LinkTerms { delay_ns: 0, jitter_ns: 0, loss: 0.0, reordering: 0.0, rate_bytes_per_s: None, seed: 1 };
    const MS: u64 = 1_000_000;

    /// The fates of packets of 1,000 B that arrive every 10 us.
    fn fates(terms: LinkTerms, packets: u64) -> Vec<Fate> {
        let mut schedule = Schedule::new(terms, 0);
        (0..packets).map(|number| schedule.arrive(number * 10_000, 1000)).collect()
    }

    #[test]
    fn each_packet_takes_its_time_at_the_rate_and_then_the_delay() {
        let at = |at_ns| Fate::Delayed { at_ns };
        assert_eq!(fates(LinkTerms { delay_ns: MS, ..TERMS }, 2), [at(MS), at(MS + 10_000)]);
        // 1,000 B at 75 MB/s take 13,333 and a third ns.
        let slow = LinkTerms { rate_bytes_per_s: Some(75_000_000), ..TERMS };
        assert_eq!(fates(slow, 4), [at(13_333), at(26_666), at(40_000), at(53_333)]);
        let mut schedule = Schedule::new(slow, 0);
        assert_eq!(schedule.arrive(0, 1000), at(13_333));
        assert_eq!(schedule.arrive(MS, 1000), at(MS + 13_333), "an idle link saves nothing up");
    }

    #[test]
    fn packets_wait_for_the_rate_until_there_is_no_room() {
        // 1,000 B every 10 us are 100 MB/s.
        let found = fates(LinkTerms { rate_bytes_per_s: Some(50_000_000), ..TERMS }, 20_000);
        let first = found.iter().position(|fate| *fate == Fate::NoRoom).unwrap();
        assert_eq!(first, 5_001, "each packet adds 10 us to the wait");
        let dropped = found[first..].iter().filter(|fate| **fate == Fate::NoRoom).count();
        assert_eq!(dropped, (20_000 - first).div_ceil(2));
    }

    #[test]
    fn shares_are_as_asked_and_the_same_packets_are_lost_again() {
        let terms = LinkTerms { loss: 0.01, reordering: 0.2, delay_ns: MS, ..TERMS };
        let found = fates(terms, 100_000);
        let share =
            |of: fn(&Fate) -> bool| found.iter().filter(|fate| of(fate)).count() as f64 / found.len() as f64;
        assert!((share(|fate| *fate == Fate::Lost) - 0.01).abs() < 0.001);
        assert!((share(|fate| matches!(fate, Fate::Early { .. })) - 0.2 * 0.99).abs() < 0.005);
        assert_eq!(found, fates(terms, 100_000));
        let lost = |terms: LinkTerms, direction| -> Vec<u64> {
            let mut schedule = Schedule::new(terms, direction);
            (0..1000).filter(|at| schedule.arrive(*at, 60) == Fate::Lost).collect()
        };
        assert_ne!(lost(terms, 0), lost(terms, 1), "each direction has its own draws");
        assert_ne!(lost(terms, 0), lost(LinkTerms { seed: 2, ..terms }, 0));
        let jitter = LinkTerms { jitter_ns: MS, reordering: 0.0, ..terms };
        assert_eq!(lost(terms, 0), lost(jitter, 0), "another setting does not move the losses");
        assert_eq!(lost(LinkTerms { loss: 1.0, ..terms }, 0).len(), 1000);
    }

    #[test]
    fn jitter_is_within_its_bounds_and_keeps_the_order() {
        let found = fates(LinkTerms { delay_ns: 3 * MS, jitter_ns: MS, ..TERMS }, 1000);
        let at = |fate: &Fate| match fate {
            Fate::Delayed { at_ns } => *at_ns,
            other => panic!("{other:?}"),
        };
        let times: Vec<u64> = found.iter().map(at).collect();
        assert!(times.is_sorted());
        let delays = times.iter().enumerate().map(|(number, at_ns)| at_ns - number as u64 * 10_000);
        assert!(delays.clone().all(|delay| (2 * MS..=4 * MS).contains(&delay)));
        assert!(delays.clone().max() > delays.min());
    }
}
