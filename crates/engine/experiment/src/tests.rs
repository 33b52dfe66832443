//! Good and bad experiment files, through the whole of `read_experiment`.
//!
//! The data path here has the name and the shape of `http`, with other checks. These tests thus cover how a
//! file is read, and not the rules of one family.

mod family;
mod fuzz;
mod hostile;
mod malformed;
mod places;
mod plans;

use plumb_model::Plan;

pub(crate) use self::family::TEST;
use plumb_path::DataPath;
use plumb_path::null::NULL;

use super::{FileError, ReadOptions, read_experiment};

fn paths() -> [DataPath; 2] {
    [TEST, NULL]
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
    read_experiment("x.yaml", text.as_bytes(), options, &paths()).map(|experiment| experiment.plan)
}

fn plan(text: &str) -> Plan {
    plan_of(text, &ReadOptions::default()).unwrap_or_else(|error| panic!("{}", error.plain()))
}

/// The good file with one text in it replaced.
fn with(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    GOOD.replacen(from, to, 1)
}
