//! The noise of this host during a single measurement, by the same limits as in a run.

use plumb_host::cpu::{CpuTime, tree_cpu_time};
use plumb_host::noise::Snapshot;
use plumb_host::service::Service;
use plumb_model::{Noise, Plan};
use plumb_path::Mark;
use plumb_runner::noise_between;

/// The host at the beginning and at the end of a measurement.
pub struct Surroundings {
    /// The system, where its processes run on this host. Their CPU time does not count as noise.
    service: Option<Service>,
    opened: Option<Sight>,
    closed: Option<Sight>,
}

struct Sight {
    host: Snapshot,
    /// CPU time of this program and its children.
    own: CpuTime,
    service: Option<CpuTime>,
}

impl Surroundings {
    /// Before the first look at the host.
    pub fn of(service: Option<Service>) -> Self {
        Self { service, opened: None, closed: None }
    }

    /// Looks at the host when a window opens and when it closes. Of several windows the first and the last count.
    pub fn note(&mut self, mark: Mark) {
        match mark {
            Mark::Opened if self.opened.is_none() => self.opened = self.look(),
            Mark::Closed => self.closed = self.look(),
            Mark::Agreed { .. } | Mark::Opened | Mark::Progress { .. } => {}
        }
    }

    fn look(&self) -> Option<Sight> {
        let own = tree_cpu_time(std::process::id()).ok()?;
        let service = self.service.as_ref().and_then(Service::cpu_time);
        Some(Sight { host: Snapshot::take().ok()?, own, service })
    }

    /// CPU time of the system in the window; `None` where it is not known.
    pub fn system_cpu(&self) -> Option<CpuTime> {
        let service = |sight: &Option<Sight>| sight.as_ref()?.service;
        service(&self.closed).zip(service(&self.opened)).map(|(after, before)| after.saturating_sub(before))
    }

    /// A warning for each kind of noise above its limit.
    pub fn warnings(&self) -> Vec<String> {
        let (Some(opened), Some(closed)) = (&self.opened, &self.closed) else { return Vec::new() };
        let mut own = closed.own.saturating_sub(opened.own);
        own += self.system_cpu().unwrap_or_default();
        sentences(&noise_between(&opened.host, &closed.host, own))
    }
}

/// What cannot be trusted with this noise in the window.
pub fn sentences(noise: &Noise) -> Vec<String> {
    let percent = |share: f64| format!("{:.0}%", share * 100.0);
    let mut sentences = Vec::new();
    if noise.steal > Noise::STEAL_LIMIT {
        let share = percent(noise.steal);
        sentences.push(format!("noise: the hypervisor took {share} of this host's CPU time"));
    }
    if noise.others > Plan::others_max() {
        sentences.push(format!(
            "noise: other processes used {} of this host's CPU time; rates and times are those of a shared machine",
            percent(noise.others)
        ));
    }
    if noise.throttled_ns > 0 {
        sentences.push("noise: a CPU quota stopped the control group of this program".to_owned());
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_would_warn_of_is_warned_of() {
        let quiet = Noise { others: 0.05, ..Noise::default() };
        assert_eq!(sentences(&quiet), [""; 0]);
        let shared = Noise { steal: 0.05, others: 0.45, throttled_ns: 1, ..quiet };
        assert_eq!(
            sentences(&shared),
            [
                "noise: the hypervisor took 5% of this host's CPU time",
                "noise: other processes used 45% of this host's CPU time; rates and times are those of a shared machine",
                "noise: a CPU quota stopped the control group of this program"
            ]
        );
    }
}
