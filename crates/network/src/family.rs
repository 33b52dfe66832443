//! The network as a data path.

use std::borrow::Cow;

use plumb_host::service::Service;
use plumb_model::{ClusterObject, Endpoint, Evidence, Measurement, Metric, Question, Statistic};
use plumb_path::{
    AnyError, Family, Fault, Load, PathError, Place, Portion, Settings, Sides, Snapshot, System, Timing,
    read_target,
};
use serde_json::Value;

use crate::settings::{NetworkSettings, SystemKind, Target};
use crate::{check, evidence, far, load, metrics, share, system, tools};

/// The family `network`.
#[derive(Debug, Clone, Copy)]
pub struct Network;

impl Family for Network {
    type Settings = NetworkSettings;

    const NAME: &'static str = "network";

    const THREADS_KEY: Option<&'static str> = Some("load.flows");

    const QUESTIONS: &'static [Question] =
        &[Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("flows")]) }];

    const METRICS: &'static [Metric] = metrics::METRICS;

    fn system(settings: &NetworkSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::start(&check::serving(settings), place)
    }

    fn spans_hosts(settings: &NetworkSettings) -> Result<(), AnyError> {
        Ok(system::may_span_hosts(&settings.system)?)
    }

    fn needs_namespaces(settings: &NetworkSettings) -> bool {
        !matches!(settings.system.kind, SystemKind::Loopback | SystemKind::External)
    }

    fn load(settings: &NetworkSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        check::check_own_load(settings)?;
        let target: Target = read_target(target)?;
        match &target.apart {
            Some(apart) => Ok(Box::new(far::far_load(settings, &target, apart, place.number)?)),
            None => load::any_load(&settings.load, &target),
        }
    }
}

impl Settings for NetworkSettings {
    fn check(&self) -> Result<(), Fault> {
        check::check(self)
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        tools::feasible(check::serving(self).load.driver)?;
        match at {
            Sides::BOTH => system::feasible(&self.system)?,
            _ => system::feasible_half(&self.system)?,
        }
        Ok(())
    }

    fn weight(&self) -> Option<f64> {
        Some(self.load.flows.into())
    }

    fn threads(&self) -> u32 {
        self.load.flows
    }

    fn share(&self, number: u32, of: u32) -> Result<Self, Fault> {
        let load = share::share(&self.load, Portion { number, of })?;
        load::check(&load)?;
        Ok(Self { load, system: self.system.clone() })
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing { window: &mut self.load.duration, warmup: &mut self.load.warmup, data: None }
    }

    fn has_foreign_system(&self) -> bool {
        self.system.kind == SystemKind::External
    }

    fn service(&self) -> Option<Service> {
        system::service(self)
    }

    fn cluster_object(&self) -> Option<ClusterObject> {
        self.system.cluster_object()
    }

    fn lead_to(&mut self, endpoint: &Endpoint) {
        self.system.address = Some(endpoint.address());
    }

    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String> {
        tools::lacks(self.load.driver, metric, statistic)
    }

    fn lends(&self) -> Result<(), Fault> {
        check::check_lends(&self.system)
    }

    fn system_evidence(&self, before: &Snapshot, after: &Snapshot) -> Vec<Evidence> {
        system::evidence(self, before, after, &Measurement::default())
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        evidence::evidence(self, before, after, measurement)
    }
}
