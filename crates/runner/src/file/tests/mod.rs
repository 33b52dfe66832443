//! Experiment files, good and bad, through the whole of `read`.
//!
//! The data path here is the real `http` settings with checks of this module's own, so that what is tested is how a
//! file is read and not what one family thinks of it.

mod hostile;
mod malformed;
mod plans;

use plumb_http::spec::{HttpSettings, IngressKind, Offload};
use plumb_model::{Better, Evidence, Kind, Measurement, Metric, Plan, Unit};
use plumb_path::{Family, Fault, Load, PathError, Place, Settings, Snapshot, System, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FileError, ReadOptions, read};
use crate::families::AnyFamily;

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
struct TestSettings(HttpSettings);

impl Settings for TestSettings {
    fn check(&self) -> Result<(), Fault> {
        let ingress = &self.0.system.ingress;
        if ingress.kind == IngressKind::External && ingress.url.is_none() {
            return Err(Fault::new("system.ingress.url", "`kind: external` needs a `url`"));
        }
        if ingress.offload == Offload::Threads && ingress.kind != IngressKind::Embedded {
            return Err(Fault::new("system.ingress.offload", "`offload` goes with `kind: embedded` only"));
        }
        for (at, check) in self.0.load.checks.iter().enumerate() {
            if !check.starts_with("status ") && !check.starts_with("duration ") {
                let message = format!("`{check}` is no check; `status == 200` would be one");
                return Err(Fault::new(format!("load.checks.{at}"), message));
            }
        }
        Ok(())
    }

    fn feasible(&self) -> Result<(), String> {
        Ok(())
    }

    fn timing(&mut self) -> Timing<'_> {
        Timing { window: &mut self.0.load.duration, warmup: &mut self.0.load.warmup }
    }

    fn evidence(&self, _: &Snapshot, _: &Snapshot, _: &Measurement) -> Vec<Evidence> {
        Vec::new()
    }
}

struct TestFamily;

const fn metric(name: &'static str, unit: Unit, kind: Kind) -> Metric {
    Metric { name, unit, better: Better::Higher, kind, about: "" }
}

impl Family for TestFamily {
    type Settings = TestSettings;

    const NAME: &'static str = "http";

    const METRICS: &'static [Metric] = &[
        metric("http_reqs", Unit::PerSecond, Kind::Rate),
        metric("http_req_duration", Unit::Milliseconds, Kind::Trend),
        metric("http_req_failed", Unit::Share, Kind::Share),
    ];

    fn system(_: &TestSettings, _: &Place) -> Result<Box<dyn System>, PathError> {
        Err(PathError::new("this family is only read"))
    }

    fn load(_: &TestSettings, _: &serde_json::Value, _: &Place) -> Result<Box<dyn Load>, PathError> {
        Err(PathError::new("this family is only read"))
    }
}

fn families() -> [AnyFamily; 2] {
    [AnyFamily::of::<TestFamily>(), AnyFamily::of::<plumb_path::null::Null>()]
}

/// The example of the design, with every kind of key.
const GOOD: &str = r#"apiVersion: plumbline.dev/v1alpha1
kind: Experiment
metadata:
  name: tls-offload
  title: Does offloading TLS handshakes help an ingress?
spec:
  path: http
  system:
    ingress: { kind: embedded, tls: 1.2, key: rsa-2048, offload: none }
    origin: { kind: embedded, body: 612 B }
  load: { connections: 20, reuse: none, duration: 5 s, checks: ["status == 200", "duration < 200 ms"] }
  baseline: software
  variants:
    plain: { system: { ingress: { tls: none } } }
    software: {}
    threads: { system: { ingress: { offload: threads } } }
  matrix: { load.connections: [20] }
  blocks: { min: 5, max: 20 }
  claims:
    - threads.http_reqs >= 1.2 * software.http_reqs
    - threads.http_req_duration.p95 < software.http_req_duration.p95
    - plain.http_reqs > software.http_reqs
"#;

fn plan_of(text: &str, options: &ReadOptions) -> Result<Plan, FileError> {
    read("x.yaml", text.as_bytes(), options, &families())
}

fn plan(text: &str) -> Plan {
    plan_of(text, &ReadOptions::default()).unwrap_or_else(|error| panic!("{}", error.plain()))
}

/// The good file with one text in it replaced.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}
