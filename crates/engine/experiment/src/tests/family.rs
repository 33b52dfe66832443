//! A data path that is only read: settings with every kind of type that a real one has.

use std::collections::BTreeMap;

use plumb_model::{Better, Bytes, Evidence, Metric, MetricKind, Rate, RequiredSaving, Span, Unit};
use plumb_path::{
    About, DataPath, Facts, Load, LoadFacts, PathError, PathSettings, Place, SeenWindow, Settings,
    SettingsFault, System, Timing,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TestSettings {
    system: SystemSettings,
    load: LoadSettings,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct SystemSettings {
    ingress: IngressSettings,
    origin: OriginSettings,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct IngressSettings {
    kind: Kinds,
    tls: Tls,
    key: String,
    offload: Offload,
    url: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Kinds {
    #[default]
    Embedded,
    Haproxy,
    Nginx,
    External,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
enum Tls {
    #[serde(rename = "none")]
    None,
    #[serde(rename = "1.2")]
    V12,
    #[default]
    #[serde(rename = "1.3")]
    V13,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Offload {
    #[default]
    None,
    Threads,
    Engine(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct OriginSettings {
    kind: Kinds,
    body: Bytes,
}

impl Default for OriginSettings {
    fn default() -> Self {
        Self { kind: Kinds::default(), body: Bytes(612) }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Reuse {
    #[default]
    KeepAlive,
    None,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct LoadSettings {
    connections: u32,
    threads: u32,
    reuse: Reuse,
    duration: Span,
    warmup: Span,
    requests: Option<u64>,
    rate: Option<Rate>,
    insecure: bool,
    share: f64,
    headers: BTreeMap<String, String>,
    checks: Vec<String>,
}

impl Default for LoadSettings {
    fn default() -> Self {
        Self {
            connections: 10,
            threads: 1,
            reuse: Reuse::default(),
            duration: Span(5_000_000_000),
            warmup: Span(250_000_000),
            requests: None,
            rate: None,
            insecure: false,
            share: 0.0,
            headers: BTreeMap::new(),
            checks: Vec::new(),
        }
    }
}

impl Settings for TestSettings {
    fn check(&self) -> Result<(), SettingsFault> {
        let ingress = &self.system.ingress;
        if ingress.kind == Kinds::External && ingress.url.is_none() {
            return Err(SettingsFault::new("system.ingress.url", "`kind: external` needs a `url`"));
        }
        if ingress.offload == Offload::Threads && ingress.kind != Kinds::Embedded {
            return Err(SettingsFault::new(
                "system.ingress.offload",
                "`offload` goes with `kind: embedded` only",
            ));
        }
        for (at, check) in self.load.checks.iter().enumerate() {
            if !check.starts_with("status ") && !check.starts_with("duration ") {
                let message = format!("`{check}` is not a check; `status == 200` would be one");
                return Err(SettingsFault::new(format!("load.checks.{at}"), message));
            }
        }
        Ok(())
    }

    fn feasible(&self, _: plumb_path::Sides) -> Result<(), plumb_path::AnyError> {
        Ok(())
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing::new(&mut self.load.duration, &mut self.load.warmup)
    }

    fn facts(&self) -> Facts {
        let mut without = self.clone();
        without.system.ingress.offload = Offload::None;
        let text = String::new;
        let saving = RequiredSaving {
            what: text(),
            component: text(),
            per: (text(), text()),
            than: None,
            unless: text(),
            hint: None,
        };
        let is_treated = self.system.ingress.offload != Offload::None;
        let saving = is_treated.then(|| (PathSettings::new(without), saving));
        Facts { load: LoadFacts { saving, ..LoadFacts::default() }, ..Facts::default() }
    }

    fn evidence(&self, _: SeenWindow<'_>) -> Vec<Evidence> {
        Vec::new()
    }

    fn system(&self, _: &Place) -> Result<Box<dyn System>, PathError> {
        Err(PathError::new("these settings are only read"))
    }

    fn load(&self, _: &serde_json::Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
        Err(PathError::new("these settings are only read"))
    }
}

const fn metric(name: &'static str, unit: Unit, kind: MetricKind) -> Metric {
    Metric { name, unit, better: Better::Higher, kind, about: "" }
}

/// The data path with these settings.
pub const TEST: DataPath = DataPath::with_settings::<TestSettings>(About::new(
    "http",
    &[
        metric("http_reqs", Unit::PerSecond, MetricKind::Rate),
        metric("http_req_duration", Unit::Milliseconds, MetricKind::Trend),
        metric("http_req_failed", Unit::Share, MetricKind::Share),
    ],
));
