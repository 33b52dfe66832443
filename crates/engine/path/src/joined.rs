//! The load of one data path against a system of another, as commands run against any system that lends
//! itself to it.
//!
//! The two data paths do not know each other. Each reads its own settings, `system.path` names the data path
//! of the system, and the load gets the system's target unchanged.

use plumb_model::{Endpoint, Evidence, Statistic};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::family::{AnyError, Load, PathError, Place, SettingsFault, Sides, System};
use crate::settings::{Facts, LinkMaker, LoadFacts, PathSettings, Remark, SeenWindow, Settings};
use crate::timing::Timing;
use crate::tree::{Node, Value as TreeValue};

/// The key in `system` that names the system's data path.
const PATH: &str = "path";
const SYSTEM: &str = "system";
const LOAD: &str = "load";

/// The settings of a load with the system of another data path.
#[derive(Clone)]
struct Joined {
    /// The data path of the system.
    of: &'static str,
    system: PathSettings,
    load: PathSettings,
}

/// Settings that name their system's data path, split into parts.
pub(crate) struct Parts<'n> {
    /// The name of the data path.
    pub(crate) path: &'n Node,
    /// The settings of the system, as its data path reads them.
    pub(crate) system: Node,
    /// The settings of the load.
    pub(crate) load: Node,
}

/// The parts of a tree; `None` if the system is the data path's own.
pub(crate) fn parts(tree: &Node) -> Option<Parts<'_>> {
    let (key, system) = tree.entry(SYSTEM)?;
    let path = system.get(PATH).filter(|path| path.value != TreeValue::Null)?;
    let without = |node: &Node, left_out: &str| {
        Node::mapping(node.entries().iter().filter(|(key, _)| key.text != left_out).cloned().collect())
    };
    let of_system = Node::mapping(vec![(key.clone(), without(system, PATH))]);
    Some(Parts { path, system: of_system, load: without(tree, SYSTEM) })
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

/// As [`parts`] reads it.
impl Serialize for Joined {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = |side: &PathSettings| side.json().map_err(S::Error::custom);
        let mut system = json(&self.system)?[SYSTEM].take();
        if system.is_null() {
            system = json!({});
        }
        system[PATH] = json!(self.of);
        json!({ SYSTEM: system, LOAD: json(&self.load)?[LOAD].take() }).serialize(serializer)
    }
}

impl Settings for Joined {
    fn check(&self) -> Result<(), SettingsFault> {
        self.system.facts().system.lends?;
        self.system.check()?;
        self.load.check()
    }

    fn feasible(&self, at: Sides) -> Result<(), AnyError> {
        self.system.feasible(Sides { load: false, ..at })?;
        self.load.feasible(Sides { system: false, ..at })
    }

    /// Without a saving, which is stated in metrics of the system's own load.
    fn facts(&self) -> Facts {
        let load = LoadFacts { saving: None, ..self.load.facts().load };
        Facts { system: self.system.facts().system, load }
    }

    fn timing(&mut self) -> Timing<'_> {
        self.load.timing()
    }

    fn share(&self, number: u32, of: u32) -> Result<PathSettings, SettingsFault> {
        Ok(PathSettings::new(Self { load: self.load.share(number, of)?, ..self.clone() }))
    }

    fn remark(&self, metric: &str, statistic: Option<Statistic>) -> Option<Remark> {
        self.load.remark(metric, statistic)
    }

    fn link_maker(&self) -> Option<LinkMaker> {
        self.system.link_maker()
    }

    fn lead_to(&mut self, endpoint: &Endpoint) {
        self.system.lead_to(endpoint);
    }

    fn evidence(&self, seen: SeenWindow<'_>) -> Vec<Evidence> {
        let mut evidence = self.load.evidence(seen);
        evidence.extend(self.system.evidence(SeenWindow { measurement: None, ..seen }));
        evidence
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
    use crate::null::NULL;

    fn joining() -> DataPath {
        NULL.with_systems_of(|| vec![NULL])
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
        let mut timed = settings.clone();
        timed.timing().window.0 = 5;
        assert_ne!(timed.to_json().unwrap()["load"], json["load"]);
        assert_eq!(timed.to_json().unwrap()["system"], json["system"]);
        let own = json!({ "system": {}, "load": {} });
        assert_eq!(joining().decode(&own).unwrap().to_json().unwrap()["system"].get(PATH), None);
    }
}
