//! The load of one data path against a system of another, as commands run against any system that lends
//! itself to it.
//!
//! The two data paths do not know each other. Each reads its own settings, `system.path` names the data path
//! of the system, and the load gets the system's target unchanged.

use plumb_host::service::Service;
use plumb_model::{ClusterObject, Endpoint, Evidence, Measurement, MetricInfo, RequiredSaving, Statistic};
use serde_json::{Map, Value, json};

use crate::erased::{AnySettings, PathSettings};
use crate::family::{AnyError, Fault, Load, PathError, Place, Sides, Snapshot, System, Timing};
use crate::tree::Node;

/// The key in `system` that names the system's data path.
const PATH: &str = "path";
const SYSTEM: &str = "system";
const LOAD: &str = "load";

/// The settings of a load with the system of another data path.
struct Joined {
    /// The data path of the system.
    of: &'static str,
    system: PathSettings,
    load: PathSettings,
}

/// Settings that name their system's data path, split into parts.
pub(crate) struct Parts<P, T> {
    /// The name of the data path.
    pub(crate) path: P,
    /// The settings of the system, as its data path reads them.
    pub(crate) system: T,
    /// The settings of the load.
    pub(crate) load: T,
}

/// The parts of a tree; `None` if the system is the data path's own.
pub(crate) fn parts(tree: &Node) -> Option<Parts<&Node, Node>> {
    let (key, system) = tree.entry(SYSTEM)?;
    let path = system.get(PATH)?;
    let without = |node: &Node, left_out: &str| {
        Node::mapping(node.entries().iter().filter(|(key, _)| key.text != left_out).cloned().collect())
    };
    let of_system = Node::mapping(vec![(key.clone(), without(system, PATH))]);
    Some(Parts { path, system: of_system, load: without(tree, SYSTEM) })
}

/// The parts of the output of [`AnySettings::to_json`]; `None` if the system is the data path's own.
pub(crate) fn json_parts(json: &Value) -> Option<Parts<&str, Value>> {
    let path = json[SYSTEM].get(PATH)?.as_str()?;
    let mut system = json[SYSTEM].clone();
    system.as_object_mut()?.remove(PATH);
    Some(Parts { path, system: json!({ SYSTEM: system }), load: json!({ LOAD: json[LOAD] }) })
}

/// Joins the load of one data path with a system of the data path `of`.
pub(crate) fn join(of: &'static str, system: PathSettings, load: PathSettings) -> PathSettings {
    PathSettings::new(Joined { of, system, load })
}

/// The schema of settings whose system may also belong to one of `others`, given as name and schema.
pub(crate) fn schema(mut own: Value, others: Vec<(&str, Value)>) -> Value {
    if others.is_empty() {
        return own;
    }
    let of_others = others.into_iter().map(|(name, mut schema)| {
        let mut system = schema["properties"][SYSTEM].take();
        system["properties"][PATH] = json!({ "const": name });
        system
    });
    let systems: Vec<Value> = [own["properties"][SYSTEM].take()].into_iter().chain(of_others).collect();
    own["properties"][SYSTEM] = json!({ "anyOf": systems });
    own
}

impl AnySettings for Joined {
    fn checked(&self, adjust: &mut dyn FnMut(Timing<'_>)) -> Result<PathSettings, Fault> {
        self.system.lends()?;
        let system = self.system.checked(&mut |_| ())?;
        let load = self.load.checked(adjust)?;
        Ok(PathSettings::new(Self { of: self.of, system, load }))
    }

    fn to_json(&self) -> Result<Value, PathError> {
        let mut system = match self.system.to_json()?[SYSTEM].take() {
            Value::Object(settings) => settings,
            _ => Map::new(),
        };
        system.insert(PATH.to_owned(), json!(self.of));
        Ok(json!({ SYSTEM: system, LOAD: self.load.to_json()?[LOAD].take() }))
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        self.system.feasible(Sides { load: false, ..at })?;
        self.load.feasible(Sides { system: false, ..at })
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, Fault> {
        let load = self.load.share(number, of)?;
        Ok(PathSettings::new(Self { of: self.of, system: self.system.clone(), load }))
    }

    fn spans_hosts(&self) -> Result<(), AnyError> {
        self.load.spans_hosts()
    }

    fn evidence(&self, before: &Snapshot, after: &Snapshot, measurement: &Measurement) -> Vec<Evidence> {
        let mut evidence = self.load.evidence(before, after, measurement);
        evidence.extend(self.system.system_evidence(before, after));
        evidence
    }

    fn lends(&self) -> Result<(), Fault> {
        self.system.lends()
    }

    fn system_evidence(&self, before: &Snapshot, after: &Snapshot) -> Vec<Evidence> {
        self.system.system_evidence(before, after)
    }

    fn has_foreign_system(&self) -> bool {
        self.system.has_foreign_system()
    }

    fn service(&self) -> Option<Service> {
        self.system.service()
    }

    fn cluster_object(&self) -> Option<ClusterObject> {
        self.system.cluster_object()
    }

    fn leading_to(&self, endpoint: &Endpoint) -> PathSettings {
        let system = self.system.leading_to(endpoint);
        PathSettings::new(Self { of: self.of, system, load: self.load.clone() })
    }

    fn in_flight(&self) -> Option<f64> {
        self.load.in_flight()
    }

    fn threads(&self) -> u32 {
        self.load.threads()
    }

    fn lacks(&self, metric: &str, statistic: Option<Statistic>) -> Option<String> {
        self.load.lacks(metric, statistic)
    }

    fn note(&self, metric: &str) -> Option<String> {
        self.load.note(metric)
    }

    fn has_system(&self) -> bool {
        self.system.has_system()
    }

    fn runs_in_process(&self) -> bool {
        self.system.runs_in_process() && self.load.runs_in_process()
    }

    fn metrics(&self) -> Vec<MetricInfo> {
        self.load.metrics()
    }

    /// None: a saving is stated in metrics of the system's own load, which this run does not have.
    fn saving(&self) -> Option<(PathSettings, RequiredSaving)> {
        None
    }

    fn environment(&self) -> Vec<String> {
        [self.system.environment(), self.load.environment()].concat()
    }

    fn needs_namespaces(&self) -> bool {
        self.system.needs_namespaces()
    }

    fn system(&self, place: &Place) -> Result<Box<dyn System>, PathError> {
        // Agents that run commands keep the user's limits. This one runs none, and a server needs a
        // descriptor for each connection.
        plumb_host::limits::raise_open_files_limit();
        self.system.system(place)
    }

    fn load(&self, target: &Value, place: &Place) -> Result<Box<dyn Load>, PathError> {
        self.load.load(target, place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_path::DataPath;
    use crate::null::Null;

    fn joining() -> DataPath {
        DataPath::of::<Null>().with_systems_of(|| vec![DataPath::of::<Null>()])
    }

    #[test]
    fn joined_settings_are_read_back_as_they_were_written() {
        let written =
            json!({ "system": { "path": "null", "throughput": "900 /s" }, "load": { "duration": "1 s" } });
        let settings = joining().decode(&written).unwrap();
        let json = settings.to_json().unwrap();
        assert_eq!(json["system"]["path"], "null");
        let plain = joining().decode(&json!({ "system": { "path": "null" }, "load": {} })).unwrap();
        assert_ne!(plain.to_json().unwrap()["system"], json["system"]);
        assert_eq!(joining().decode(&json).unwrap().to_json().unwrap(), json);
        let checked = settings.checked(&mut |timing| timing.window.0 = 5).unwrap();
        assert_ne!(checked.to_json().unwrap()["load"], json["load"]);
        assert_eq!(checked.to_json().unwrap()["system"], json["system"]);
        let own = json!({ "system": {}, "load": {} });
        assert_eq!(joining().decode(&own).unwrap().to_json().unwrap()["system"].get(PATH), None);
    }
}
