//! The network as a data path.

use std::borrow::Cow;

use plumb_model::{Endpoint, Evidence, Measurement, Question, Statistic};
use plumb_path::{
    About, AnyError, DataPath, Facts, LinkMaker, Load, LoadFacts, PathError, PathSettings, Place, Portion,
    Remark, SeenWindow, Settings, SettingsFault, Sides, System, SystemFacts, Timing, read_target,
};
use serde_json::Value;

use crate::settings::{LoadSettings, NetworkSettings, NetworkTarget, SystemKind};
use crate::{check, evidence, far, load, metrics, share, system, tool};

/// The data path `network`.
pub const NETWORK: DataPath = DataPath::with_settings::<NetworkSettings>(About {
    threads_key: Some("load.flows"),
    questions: &[Question::BreakEven { keys: Cow::Borrowed(&[Cow::Borrowed("flows")]) }],
    ..About::new("network", metrics::METRICS)
});

impl Settings for NetworkSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        check::check(self)
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        tool::feasible(check::serving(self).load.driver)?;
        match at {
            Sides::BOTH => system::feasible(&self.system)?,
            _ => system::feasible_half(&self.system)?,
        }
        Ok(())
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, SettingsFault> {
        let load = share::share(&self.load, Portion { number, of })?;
        load::check(&load)?;
        Ok(PathSettings::new(Self { load, system: self.system.clone() }))
    }

    fn facts(&self) -> Facts {
        let spec = &self.system;
        Facts {
            system: SystemFacts {
                foreign: (spec.kind == SystemKind::External).then(|| system::foreign(self)),
                object: spec.cluster_object(),
                needs_namespaces: !matches!(spec.kind, SystemKind::Loopback | SystemKind::External),
                lends: check::check_lends(spec),
                ..SystemFacts::default()
            },
            load: LoadFacts {
                weight: Some(self.load.flows.into()),
                threads: self.load.flows,
                spans_hosts: system::may_span_hosts(spec).map_err(Into::into),
                ..LoadFacts::searching(self.load.searches().ok().flatten())
            },
        }
    }

    fn timing(&mut self) -> Timing<'_> {
        let LoadSettings { duration, warmup, capacity, .. } = &mut self.load;
        Timing { capacity: capacity.as_mut(), ..Timing::new(duration, warmup) }
    }

    fn remark(&self, metric: &str, statistic: Option<Statistic>) -> Option<Remark> {
        tool::lacks(self.load.driver, metric, statistic).map(Remark::Lacks)
    }

    fn link_maker(&self) -> Option<LinkMaker> {
        system::link_maker(&self.system.link)
    }

    fn lead_to(&mut self, endpoint: &Endpoint) {
        self.system.address = Some(endpoint.address());
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        match seen.measurement {
            Some(measurement) => evidence::evidence(self, seen, measurement),
            None => system::evidence(self, seen, &Measurement::default()),
        }
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        system::start(&check::serving(self), place)
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        check::check_own_load(self)?;
        let target: NetworkTarget = read_target(target)?;
        match &target.apart {
            Some(apart) => Ok(Box::new(far::far_load(self, &target, apart, place.number)?)),
            None => load::any_load(&self.load, &target),
        }
    }
}
