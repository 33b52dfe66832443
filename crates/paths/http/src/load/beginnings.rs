//! How each new connection is to begin.

use plumb_pace::Proportion;

use crate::settings::LoadSettings;

/// How a connection is to begin, if the load has a session that allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// With a full handshake.
    Full,
    /// With a handshake that resumes a session.
    Resume,
    /// With requests, together with a handshake that resumes a session.
    ZeroRtt,
}

impl Begin {
    /// Whether a session is to be resumed.
    #[must_use]
    pub fn resumes(self) -> bool {
        self != Self::Full
    }
}

/// Choices in exact proportions.
#[derive(Debug, Clone, Copy)]
pub struct Beginnings {
    resumption: Proportion,
    /// Of those that resume.
    zero_rtt: Proportion,
}

impl Beginnings {
    /// The proportions of a load. Threads with different seeds do not choose in step.
    #[must_use]
    pub fn new(spec: &LoadSettings, seed: u64) -> Self {
        let (resumed, zero_rtt) = (spec.resumption.0, spec.zero_rtt.0);
        let of_resumed = if resumed > 0.0 { zero_rtt / resumed } else { 0.0 };
        Self { resumption: Proportion::new(resumed, seed), zero_rtt: Proportion::new(of_resumed, seed) }
    }

    /// How the next connection is to begin.
    pub fn choose(&mut self) -> Begin {
        if !self.resumption.choose() {
            return Begin::Full;
        }
        if self.zero_rtt.choose() { Begin::ZeroRtt } else { Begin::Resume }
    }
}

#[cfg(test)]
mod tests {
    use plumb_model::Percent;

    use super::*;

    #[test]
    fn each_kind_has_its_share() {
        for (resumption, zero_rtt, expected) in [
            (0.0, 0.0, [1000, 0, 0]),
            (0.5, 0.0, [500, 500, 0]),
            (0.8, 0.2, [200, 600, 200]),
            (1.0, 1.0, [0, 0, 1000]),
        ] {
            let spec = LoadSettings {
                resumption: Percent(resumption),
                zero_rtt: Percent(zero_rtt),
                ..LoadSettings::default()
            };
            let mut beginnings = Beginnings::new(&spec, 7);
            let mut counts = [0_i32; 3];
            (0..1000).for_each(|_| counts[beginnings.choose() as usize] += 1);
            let is_near = counts.iter().zip(expected).all(|(count, expected)| (count - expected).abs() <= 1);
            assert!(is_near, "{counts:?}, not {expected:?}");
        }
    }
}
