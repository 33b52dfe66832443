//! The noise of this host during a single measurement, by the same limits as in a run.

use plumb_host::cpu::{CpuTime, tree_cpu_time};
use plumb_host::noise::Snapshot;
use plumb_host::service::Service;
use plumb_model::{Noise, Notice, NoticeKind, Plan};
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

    /// A notice for each kind of noise above its limit.
    pub fn notices(&self) -> Vec<Notice> {
        let (Some(opened), Some(closed)) = (&self.opened, &self.closed) else { return Vec::new() };
        let mut own = closed.own.saturating_sub(opened.own);
        own += self.system_cpu().unwrap_or_default();
        notices(&noise_between(&opened.host, &closed.host, own))
    }
}

/// What cannot be trusted with this noise in the window.
pub fn notices(noise: &Noise) -> Vec<Notice> {
    let found = [
        (noise.steal > Noise::STEAL_LIMIT).then(|| NoticeKind::Stolen.with([noise.steal])),
        (noise.others > Plan::others_max()).then(|| NoticeKind::Neighbours.with([noise.others])),
        (noise.throttled_ns > 0).then(|| NoticeKind::Throttled.into()),
    ];
    found.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_run_would_warn_of_is_warned_of() {
        let quiet = Noise { others: 0.05, ..Noise::default() };
        assert_eq!(notices(&quiet), []);
        let shared = Noise { steal: 0.05, others: 0.45, throttled_ns: 1, ..quiet };
        let expected = [
            NoticeKind::Stolen.with([0.05]),
            NoticeKind::Neighbours.with([0.45]),
            NoticeKind::Throttled.into(),
        ];
        assert_eq!(notices(&shared), expected);
    }
}
