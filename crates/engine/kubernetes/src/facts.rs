//! Facts about a cluster, as far as the account may see them.

use serde_json::Value;

use crate::api::Cluster;
use crate::error::Error;

impl Cluster {
    /// The cluster in lines, the most important first. A line says so if the account may not see a fact.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let line = |name: &str, value: String| (name.to_owned(), value);
        let version = self.get("/version").map(|version| text(&version["gitVersion"]));
        let with_policy = |one: &Value| node(one, self.cpu_manager(one).as_deref());
        let nodes = self.get("/api/v1/nodes").map(|list| said_of(&list, with_policy));
        let classes = self.get("/apis/storage.k8s.io/v1/storageclasses").map(|list| said_of(&list, class));
        vec![
            line("server", self.server().to_owned()),
            line("version", seen(version)),
            line("namespace", self.namespace().to_owned()),
            line("image", if self.image().is_empty() { "none".to_owned() } else { self.image().to_owned() }),
            line("nodes", seen(nodes)),
            line("storage classes", seen(classes)),
        ]
    }

    /// A node's CPU manager policy, as its kubelet reports it. `static` gives whole CPUs to pods that ask for
    /// them.
    fn cpu_manager(&self, node: &Value) -> Option<String> {
        let path = format!("/api/v1/nodes/{}/proxy/configz", node["metadata"]["name"].as_str()?);
        let settings = self.get(&path).ok()?;
        settings["kubeletconfig"]["cpuManagerPolicy"].as_str().map(str::to_owned)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn seen(answer: Result<String, Error>) -> String {
    match answer {
        Ok(text) if text.is_empty() => "none".to_owned(),
        Ok(text) => text,
        Err(Error::Refused { code: 403, .. }) => "this account may not see them".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn said_of(list: &Value, say: impl Fn(&Value) -> String) -> String {
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().map(say).collect::<Vec<_>>().join("; ")
}

/// A node in words, with its CPUs and the vendor devices that pods can request.
fn node(node: &Value, cpu_manager: Option<&str>) -> String {
    let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_ready = conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True");
    let room = &node["status"]["allocatable"];
    let devices = room.as_object().into_iter().flatten().filter(|(name, _)| name.contains('/'));
    let devices: String = devices.map(|(name, count)| format!(", {} {name}", text(count))).collect();
    let state = if is_ready { "" } else { ", not ready" };
    let policy = cpu_manager.map(|policy| format!(" (CPU manager {policy})")).unwrap_or_default();
    format!("{}: {} CPUs{policy}{devices}{state}", text(&node["metadata"]["name"]), text(&room["cpu"]))
}

fn class(class: &Value) -> String {
    format!("{} ({})", text(&class["metadata"]["name"]), text(&class["provisioner"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_said_with_its_devices() {
        let list = json!({ "items": [{
            "metadata": { "name": "n1" },
            "status": {
                "allocatable": { "cpu": "4", "memory": "1Gi", "qat.intel.com/cy": "2" },
                "conditions": [{ "type": "Ready", "status": "False" }],
            },
        }] });
        let said = |policy| said_of(&list, |one| node(one, policy));
        assert_eq!(said(None), "n1: 4 CPUs, 2 qat.intel.com/cy, not ready");
        assert_eq!(said(Some("static")), "n1: 4 CPUs (CPU manager static), 2 qat.intel.com/cy, not ready");
    }
}
