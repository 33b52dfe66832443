//! HTTP as a data path.

use std::borrow::Cow;

use plumb_model::{Endpoint, Evidence, Question, Statistic};
use plumb_path::{
    About, AnyError, DataPath, Facts, LinkMaker, Load, LoadFacts, PathError, PathSettings, Place, Portion,
    Remark, SeenWindow, Settings, SettingsFault, Sides, System, SystemFacts, Timing, read_target,
};
use serde_json::Value;

use crate::settings::{HttpSettings, IngressKind, LoadSettings, Reuse};
use crate::target::Target;
use crate::{check, evidence, load, metrics, share, system};

/// The data path `http`.
pub const HTTP: DataPath = DataPath::with_settings::<HttpSettings>(About {
    units: "requests",
    threads_key: Some("load.threads"),
    questions: &[Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("connections")]) }],
    load_is_unprivileged: true,
    ..About::new("http", metrics::METRICS)
});

impl Settings for HttpSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        check::check(self)
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        if at.load {
            load::feasible(self.load.driver, &self.system.ingress)?;
        }
        if at.system { system::feasible(&self.system) } else { Ok(()) }
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, SettingsFault> {
        let load = share::share(&self.load, Portion { number, of })?;
        load::check(&load)?;
        Ok(PathSettings::new(Self { load, system: self.system.clone() }))
    }

    fn facts(&self) -> Facts {
        let ingress = &self.system.ingress;
        Facts {
            system: SystemFacts {
                foreign: (ingress.kind == IngressKind::External).then(|| system::foreign(ingress)),
                object: ingress.cluster_objects().pop(),
                needs_namespaces: !self.system.link.is_empty(),
                server: system::installed(ingress.kind),
                ..SystemFacts::default()
            },
            load: LoadFacts {
                in_flight: self.load.in_flight(),
                // A script of k6 says itself how much it sends.
                weight: self.load.script.is_none().then(|| self.load.connections.into()),
                threads: self.load.threads,
                spans_hosts: check::check_spans_hosts(&self.system).map_err(Into::into),
                saving: self.saving().map(|(without, saving)| (PathSettings::new(without), saving)),
                ..LoadFacts::searching(self.load.searches().ok().flatten())
            },
        }
    }

    fn timing(&mut self) -> Timing<'_> {
        let LoadSettings { duration, warmup, capacity, .. } = &mut self.load;
        Timing { capacity: capacity.as_mut(), ..Timing::new(duration, warmup) }
    }

    fn remark(&self, metric: &str, statistic: Option<Statistic>) -> Option<Remark> {
        if let Some(reason) = load::lacks(self.load.driver, metric, statistic) {
            return Some(Remark::Lacks(reason));
        }
        // At a fixed rate the duration begins at a request's scheduled time.
        let is_partial = metric == metrics::HTTP_REQ_SERVICE.name
            || metric == metrics::HTTP_REQ_DURATION.name && self.load.is_closed_loop();
        (is_partial && self.load.reuse == Reuse::None).then(|| {
            Remark::Note(format!(
                "{metric} excludes connecting and TLS, which `reuse: none` needs for every request. A wait that moves into the \
                 handshake looks like a gain. iteration_duration includes all of it"
            ))
        })
    }

    fn link_maker(&self) -> Option<LinkMaker> {
        (!self.system.link.is_empty()).then_some(LinkMaker::Plumbline)
    }

    fn lead_to(&mut self, endpoint: &Endpoint) {
        self.system.ingress.lead_to(endpoint);
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        match seen.measurement {
            Some(measurement) => evidence::evidence(self, seen, measurement),
            None => evidence::of_system(self, seen),
        }
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::http_system(&self.system, place)
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        let target: Target = read_target(target)?;
        match load::driven_load(&self.load, &target, place.scratch.clone())? {
            Some(driven) => Ok(driven),
            None => load::http_load(&self.load, &target),
        }
    }
}
