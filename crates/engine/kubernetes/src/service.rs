//! The Service in front of a pod.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::pod;

/// A Service that leads to one pod.
pub(crate) fn service(pod: &str, (run, owner): (&str, &Value), ports: &[Value]) -> Value {
    let mut labels = pod::labels();
    labels["plumbline.dev/run"] = json!(run);
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": pod, "labels": labels, "ownerReferences": owner },
        "spec": { "selector": { "plumbline.dev/pod": pod }, "ports": ports },
    })
}

/// Ports in the form of a Service's specification, each for TCP and UDP.
pub(crate) fn ports(ports: &BTreeSet<u16>) -> Vec<Value> {
    let port = |port: u16, protocol: &str| json!({ "name": format!("{}-{port}", protocol.to_lowercase()), "port": port, "protocol": protocol });
    ports.iter().flat_map(|number| [port(*number, "TCP"), port(*number, "UDP")]).collect()
}

/// Whether a Service has exactly these ports.
pub(crate) fn has(service: &Value, ports: &[Value]) -> bool {
    let name = |port: &Value| port["name"].clone();
    let there = service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
    there.iter().map(name).eq(ports.iter().map(name))
}
