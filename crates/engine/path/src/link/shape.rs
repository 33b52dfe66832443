//! The settings of a link: its rate, its delay, and what happens to its packets.

use plumb_model::{ByteRate, Bytes, Percent, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::family::SettingsFault;

/// A link that is worse than the machine, in both directions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkShape {
    /// The most that goes through in each direction.
    pub rate: Option<ByteRate>,
    /// Bytes that may go at once although the rate would not allow it.
    pub burst: Option<Bytes>,
    /// How long each packet takes.
    pub delay: Option<Span>,
    /// The share of packets that are lost.
    pub loss: Option<Percent>,
    /// The most by which a packet's delay differs from `delay`. Packets keep their order.
    pub jitter: Option<Span>,
    /// The share of packets that take no delay and so overtake others.
    pub reordering: Option<Percent>,
    /// The seed by which packets are lost, reordered and delayed; if absent, each slot has another one.
    pub seed: Option<u64>,
}

impl LinkShape {
    /// Whether it has no effect.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether packets are delayed or lost, beyond a rate.
    #[must_use]
    pub fn is_impaired(&self) -> bool {
        let Self { delay, loss, jitter, reordering, .. } = self;
        delay.is_some() || loss.is_some() || jitter.is_some() || reordering.is_some()
    }

    /// Whether they ask for an effect that the kernel's netem is not told here: jitter, reordering or a seed.
    #[must_use]
    pub fn needs_own(&self) -> bool {
        self.jitter.is_some() || self.reordering.is_some() || self.seed.is_some()
    }

    /// Checks the effects of a link that Plumbline makes between a load and its system.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub fn check_between_ends(&self) -> Result<(), SettingsFault> {
        self.check()?;
        match self.burst {
            Some(_) => Err(SettingsFault::new(
                "system.link.burst",
                "the rate of `system.link` has no burst; leave it out",
            )),
            None => Ok(()),
        }
    }

    /// Checks the effects against each other. `system.link` is the key of the settings.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub fn check(&self) -> Result<(), SettingsFault> {
        let fault = |key: &str, message: &str| Err(SettingsFault::new(format!("system.link.{key}"), message));
        for (key, share) in [("loss", self.loss), ("reordering", self.reordering)] {
            if share.is_some_and(|share| !(0.0..=1.0).contains(&share.0)) {
                return fault(key, "a share is 0% to 100%");
            }
        }
        if self.rate.is_some_and(|rate| rate.0 < 1.0) {
            return fault("rate", "a rate must be above 0; leave it out for a link without one");
        }
        let delay_ns = self.delay.map_or(0, |delay| delay.0);
        if self.jitter.is_some_and(|jitter| jitter.0 > delay_ns) {
            return fault("jitter", "a delay can vary by no more than itself; give a longer `link.delay`");
        }
        if self.reordering.is_some() && delay_ns == 0 {
            return fault("reordering", "packets overtake those that are delayed; give `link.delay` too");
        }
        if self.seed.is_some() && !self.is_impaired() {
            return fault(
                "seed",
                "a rate draws nothing; a seed is for `delay`, `loss`, `jitter` and `reordering`",
            );
        }
        if self.burst.is_some() && (self.rate.is_none() || self.is_impaired()) {
            return fault(
                "burst",
                "a burst is part of a rate; give `link.rate` too, and neither a delay nor a loss",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effects_that_cannot_be_together_are_named() {
        let none = LinkShape::default();
        let delay = LinkShape { delay: Some(Span(1)), ..none.clone() };
        let cases = [
            ("", delay.clone()),
            ("system.link.loss", LinkShape { loss: Some(Percent(1.5)), ..none.clone() }),
            ("system.link.rate", LinkShape { rate: Some(ByteRate(0.0)), ..none.clone() }),
            ("system.link.burst", LinkShape { burst: Some(Bytes(1)), ..none.clone() }),
            ("system.link.jitter", LinkShape { jitter: Some(Span(2)), ..delay.clone() }),
            ("system.link.reordering", LinkShape { reordering: Some(Percent(1.1)), ..delay }),
            ("system.link.reordering", LinkShape { reordering: Some(Percent(0.1)), ..none.clone() }),
            ("system.link.seed", LinkShape { seed: Some(1), ..none }),
        ];
        for (key, link) in cases {
            let found = link.check().err().map_or(String::new(), |fault| fault.key);
            assert_eq!(found, key, "{link:?}");
        }
    }
}
