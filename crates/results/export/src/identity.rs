//! Identifiers of a run and of its parts, derived from the run alone: a run has the same identifiers in every
//! export.
//!
//! An identifier uses only facts that are known before the first slot, so it stays the same until the run
//! ends.

use plumb_model::Run;
use twox_hash::{XxHash3_64, XxHash3_128};

/// A run's identifier: its trace in OpenTelemetry, and the column `run` of slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunId(u128);

impl RunId {
    pub(crate) fn of_run(run: &Run) -> Self {
        let header = &run.header;
        let mut text = Vec::new();
        let mut add = |part: &str| {
            text.extend((part.len() as u64).to_le_bytes());
            text.extend(part.as_bytes());
        };
        add(&header.started_at);
        add(&header.plan.name);
        add(&header.plan.seed.to_string());
        add(&header.program_version);
        add(&run.experiment_text);
        for (name, value) in &header.host {
            add(name);
            add(value);
        }
        // OpenTelemetry treats 0 as a missing identifier.
        Self(XxHash3_128::oneshot(&text).max(1))
    }

    /// 32 hexadecimal digits.
    pub(crate) fn hex(self) -> String {
        format!("{:032x}", self.0)
    }

    /// The identifier of a part of the run, as 16 hexadecimal digits.
    pub(crate) fn part(self, name: &str) -> String {
        let text = format!("{}/{name}", self.hex());
        format!("{:016x}", XxHash3_64::oneshot(text.as_bytes()).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_run_keeps_its_identifier_as_it_goes_on_and_shares_it_with_no_other() {
        let (whole, _) = fixture::run();
        let begun = Run { slots: Vec::new(), ending: None, took_s: None, ..whole.clone() };
        assert_eq!(RunId::of_run(&whole), RunId::of_run(&begun));
        let mut other = whole.clone();
        other.header.plan.seed += 1;
        assert_ne!(RunId::of_run(&whole), RunId::of_run(&other));
        let mut moved = whole.clone();
        moved.header.host.push(("kernel".to_owned(), "6.1".to_owned()));
        assert_ne!(RunId::of_run(&whole), RunId::of_run(&moved));
        let id = RunId::of_run(&whole);
        assert_ne!(id.part("slot 1"), id.part("slot 2"));
        assert_eq!((id.hex().len(), id.part("run").len()), (32, 16));
    }
}
