//! HTTP as a data path.

use std::borrow::Cow;

use plumb_host::service::Service;
use plumb_model::{
    ClusterObject, Endpoint, Evidence, Measurement, Metric, Question, RequiredSaving, Statistic,
};
use plumb_path::{
    AnyError, Family, Fault, Load, PathError, Place, Portion, Settings, Sides, Snapshot, System, Timing,
    read_target,
};
use serde_json::Value;

use crate::settings::{HttpSettings, IngressKind, Reuse};
use crate::target::Target;
use crate::{check, evidence, load, metrics, share, system};

/// The family `http`.
#[derive(Debug, Clone, Copy)]
pub struct Http;

impl Family for Http {
    type Settings = HttpSettings;

    const NAME: &'static str = "http";

    const UNITS: &'static str = "requests";

    const THREADS_KEY: Option<&'static str> = Some("load.threads");

    const QUESTIONS: &'static [Question] =
        &[Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("connections")]) }];

    const METRICS: &'static [Metric] = metrics::METRICS;

    const LOAD_IS_UNPRIVILEGED: bool = true;

    const SPANS_HOSTS: bool = true;

    fn system(settings: &HttpSettings, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::http_system(&settings.system, place)
    }

    fn load(settings: &HttpSettings, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let target: Target = read_target(target)?;
        match load::driven_load(&settings.load, &target, place.scratch.clone())? {
            Some(driven) => Ok(driven),
            None => load::http_load(&settings.load, &target),
        }
    }

    fn saving(settings: &HttpSettings) -> Option<(HttpSettings, RequiredSaving)> {
        settings.saving()
    }
}

impl Settings for HttpSettings {
    fn check(&self) -> Result<(), Fault> {
        check::check(self)
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        if at.load {
            load::feasible(self.load.driver, &self.system.ingress)?;
        }
        if at.system { system::feasible(&self.system) } else { Ok(()) }
    }

    fn weight(&self) -> Option<f64> {
        // A script of k6 says itself how much it sends.
        self.load.script.is_none().then(|| self.load.connections.into())
    }

    fn threads(&self) -> u32 {
        self.load.threads
    }

    fn share(&self, number: u32, of: u32) -> Result<Self, Fault> {
        let load = share::share(&self.load, Portion { number, of })?;
        load::check(&load)?;
        Ok(Self { load, system: self.system.clone() })
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing { window: &mut self.load.duration, warmup: &mut self.load.warmup, data: None }
    }

    fn in_flight(&self) -> Option<f64> {
        self.load.in_flight()
    }

    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String> {
        load::lacks(self.load.driver, metric, statistic)
    }

    fn note(&self, metric: &str) -> Option<String> {
        // At a fixed rate the duration begins when a request is due.
        let is_partial = metric == metrics::HTTP_REQ_SERVICE.name
            || metric == metrics::HTTP_REQ_DURATION.name && self.load.rate.is_none();
        (is_partial && self.load.reuse == Reuse::None).then(|| {
            format!(
                "{metric} excludes connecting and TLS, which `reuse: none` needs for every request. A wait that moves into the \
                 handshake looks like a gain. iteration_duration includes all of it"
            )
        })
    }

    fn has_foreign_system(&self) -> bool {
        self.system.ingress.kind == IngressKind::External
    }

    fn service(&self) -> Option<Service> {
        system::service(&self.system.ingress)
    }

    fn cluster_object(&self) -> Option<ClusterObject> {
        self.system.ingress.cluster_objects().pop()
    }

    fn lead_to(&mut self, endpoint: &Endpoint) {
        self.system.ingress.lead_to(endpoint);
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        evidence::evidence(self, before, after, measurement)
    }

    fn system_evidence(&self, before: &Snapshot, after: &Snapshot) -> Vec<Evidence> {
        evidence::of_system(self, before, after)
    }
}
