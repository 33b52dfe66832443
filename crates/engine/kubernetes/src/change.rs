//! A reversible change of a cluster object.
//!
//! The object itself stores its original state: one request patches it and writes its old fields into an
//! annotation. A changed object therefore always carries its way back. Any later run that finds the
//! annotation restores the object first.

use std::time::Duration;

use plumb_host::time::{monotonic_ns, sleep};
use plumb_model::user_change::KubernetesChange;
use serde_json::{Map, Value, json};

use crate::api::Cluster;
use crate::error::Error;
use crate::pod::Status;
use crate::rollout::{self, Rollout};

/// The annotation that stores an object's original fields and labels.
const ORIGINAL: &str = "plumbline.dev/original";
/// How often an object is read while the runner waits for it.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a rollout may take if the change sets no limit.
const ROLLOUT_NS: u64 = 120_000_000_000;
/// How many times a restore is tried while others change the same object.
const TRIES: usize = 5;
const CONFLICT: u16 = 409;
/// API versions of common kinds, for changes that do not name theirs.
const GROUPS: [(&str, &str); 17] = [
    ("ConfigMap", "v1"),
    ("Namespace", "v1"),
    ("Node", "v1"),
    ("PersistentVolumeClaim", "v1"),
    ("Pod", "v1"),
    ("Secret", "v1"),
    ("Service", "v1"),
    ("DaemonSet", "apps/v1"),
    ("Deployment", "apps/v1"),
    ("StatefulSet", "apps/v1"),
    ("Ingress", "networking.k8s.io/v1"),
    ("NetworkPolicy", "networking.k8s.io/v1"),
    ("Gateway", "gateway.networking.k8s.io/v1"),
    ("HTTPRoute", "gateway.networking.k8s.io/v1"),
    ("IngressController", "operator.openshift.io/v1"),
    ("Route", "route.openshift.io/v1"),
    ("StorageClass", "storage.k8s.io/v1"),
];

/// The object that a change applies to.
#[derive(Debug, Clone)]
pub struct ChangedObject {
    cluster: Cluster,
    change: KubernetesChange,
    path: String,
    /// Whether the kind is built into Kubernetes, which merges list items of such kinds by name.
    is_built_in: bool,
    /// The fields that users set: before any change, and as changed.
    original: Value,
    applied: Option<Value>,
}

impl ChangedObject {
    /// Finds the kind of the object, and puts the object back where an earlier run left it changed.
    ///
    /// # Errors
    /// When no such kind or object exists, or it cannot be put back.
    pub fn find(cluster: &Cluster, change: &KubernetesChange) -> Result<Self, Error> {
        let group = match &change.api_version {
            Some(group) => group.as_str(),
            None => {
                GROUPS.iter().find(|(kind, _)| *kind == change.kind).map(|(_, group)| *group).ok_or_else(
                    || refused(change, "this kind is not a common one: give its `apiVersion`".to_owned()),
                )?
            }
        };
        let base = if group.contains('/') { format!("/apis/{group}") } else { format!("/api/{group}") };
        let kinds = cluster.get(&base)?;
        let kinds = kinds["resources"].as_array().map_or(&[][..], Vec::as_slice);
        let is_kind = |kind: &&Value| {
            kind["kind"] == change.kind.as_str() && !kind["name"].as_str().unwrap_or("/").contains('/')
        };
        let kind = kinds
            .iter()
            .find(is_kind)
            .ok_or_else(|| refused(change, format!("the cluster has no {} in {group}", change.kind)))?;
        let plural = kind["name"].as_str().unwrap_or_default();
        let path = if kind["namespaced"] == true {
            let namespace = change.namespace.as_deref().unwrap_or(cluster.namespace());
            format!("{base}/namespaces/{namespace}/{plural}/{}", change.name)
        } else {
            format!("{base}/{plural}/{}", change.name)
        };
        let is_built_in = GROUPS.iter().any(|(_, known)| *known == group)
            && !group.contains("gateway")
            && !group.contains("openshift");
        let (cluster, change) = (cluster.clone(), change.clone());
        let mut target = Self { cluster, change, path, is_built_in, original: Value::Null, applied: None };
        target.restore()?;
        target.original = fields(&target.cluster.get(&target.path)?);
        Ok(target)
    }

    /// Applies the change and waits for its rollout, if it asks for one.
    ///
    /// # Errors
    /// When the object cannot be changed or does not roll out. The object is then restored, if possible.
    pub fn apply(&mut self) -> Result<(), Error> {
        let object = self.cluster.get(&self.path)?;
        let mut patch = self.patch(&object)?;
        // An object that this variant changed earlier already stores its state before the first change.
        if remembered(&object).is_none() {
            let original = json!({ "fields": fields(&object), "labels": object["metadata"]["labels"] });
            merge(&mut patch, json!({ "metadata": { "annotations": { ORIGINAL: original.to_string() } } }));
        }
        let words = self.object_in_words();
        let patched = if self.is_built_in {
            self.cluster.strategic(&self.path, &patch, &words)
        } else {
            self.cluster.merge(&self.path, &patch, &words)
        };
        let waited = patched.and_then(|patched| {
            self.applied = Some(fields(&patched));
            self.wait()
        });
        waited.inspect_err(|_| {
            // The first failure is the one to report.
            let _ = self.restore();
        })
    }

    /// Restores the object if it is changed, and waits as after the change.
    ///
    /// # Errors
    /// When the object cannot be restored or does not roll out.
    pub fn restore(&mut self) -> Result<(), Error> {
        self.applied = None;
        for _ in 0..TRIES {
            let mut object = self.cluster.get(&self.path)?;
            let Some(original) = remembered(&object) else { return Ok(()) };
            put_back(&mut object, &original);
            match self.cluster.replace(&self.path, &object, &self.object_in_words()) {
                Err(Error::Refused { code: CONFLICT, .. }) => sleep(PAUSE),
                Err(error) => return Err(error),
                Ok(_) => return self.wait(),
            }
        }
        Err(refused(
            &self.change,
            "it could not be restored, because another client kept changing it".to_owned(),
        ))
    }

    /// The expected and the observed state of the object, in words.
    #[must_use]
    pub fn look(&self) -> (String, String) {
        let rolled_out = if self.change.wait.is_some() { ", rolled out" } else { "" };
        let (expected, ours) = match &self.applied {
            Some(applied) => ("changed", applied),
            None => ("as it was", &self.original),
        };
        let object = match self.cluster.get(&self.path) {
            Ok(object) => object,
            Err(error) => return (format!("{expected}{rolled_out}"), error.to_string()),
        };
        let state = if fields(&object) == *ours { expected } else { "changed by somebody else" };
        let rollout = match rollout::state(&object) {
            _ if self.change.wait.is_none() => String::new(),
            Rollout::Complete => rolled_out.to_owned(),
            Rollout::UnderWay => format!(", {}", rollout::shortfall(&object)),
            Rollout::GivenUp(reason) => format!(", {reason}"),
        };
        (format!("{expected}{rolled_out}"), format!("{state}{rollout}"))
    }

    /// An identifier that tells the object from others.
    #[must_use]
    pub fn object(&self) -> &str {
        &self.path
    }

    /// The object in few words, such as `Deployment router`.
    #[must_use]
    pub fn object_in_words(&self) -> String {
        format!("{} {}", self.change.kind, self.change.name)
    }

    fn wait(&self) -> Result<(), Error> {
        if self.change.wait.is_none() {
            return Ok(());
        }
        let patience_ns = self.change.timeout.map_or(ROLLOUT_NS, |span| span.0);
        let last_ns = monotonic_ns() + patience_ns;
        loop {
            let object = self.cluster.get(&self.path)?;
            match rollout::state(&object) {
                Rollout::Complete => return Ok(()),
                Rollout::GivenUp(reason) => return Err(refused(&self.change, reason)),
                Rollout::UnderWay if monotonic_ns() >= last_ns => {
                    let reason = self.trouble(&object).unwrap_or_else(|| rollout::shortfall(&object));
                    let seconds = patience_ns / 1_000_000_000;
                    return Err(refused(&self.change, format!("not rolled out after {seconds} s: {reason}")));
                }
                Rollout::UnderWay => sleep(PAUSE),
            }
        }
    }

    /// Why a pod of the object does not run, if the account may see that.
    fn trouble(&self, object: &Value) -> Option<String> {
        let labels = object.pointer("/spec/selector/matchLabels")?.as_object()?;
        let pairs: Vec<String> = labels
            .iter()
            .map(|(key, value)| format!("{key}%3D{}", value.as_str().unwrap_or_default()))
            .collect();
        let namespace = object["metadata"]["namespace"].as_str()?;
        let path = format!("/api/v1/namespaces/{namespace}/pods?labelSelector={}", pairs.join("%2C"));
        let pods = self.cluster.get(&path).ok()?;
        pods["items"].as_array()?.iter().find_map(|pod| {
            let (reason, _) = Status::from_pod(pod).trouble?;
            Some(format!("pod {}: {reason}", pod["metadata"]["name"].as_str().unwrap_or_default()))
        })
    }

    /// The request's body: the patch, and the environment variables of containers.
    fn patch(&self, object: &Value) -> Result<Value, Error> {
        let KubernetesChange { patch, env, container, .. } = &self.change;
        let mut whole = patch.as_ref().map_or_else(|| json!({}), |patch| json!(patch));
        if env.is_empty() {
            return Ok(whole);
        }
        let all = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        let names = all.map_or(&[][..], Vec::as_slice).iter().filter_map(|one| one["name"].as_str());
        let chosen: Vec<&str> =
            names.filter(|name| container.as_deref().is_none_or(|only| only == *name)).collect();
        if chosen.is_empty() {
            return Err(refused(&self.change, "it has no such container for `env`".to_owned()));
        }
        let env: Vec<Value> =
            env.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let containers: Vec<Value> = chosen.iter().map(|name| json!({ "name": name, "env": env })).collect();
        merge(&mut whole, json!({ "spec": { "template": { "spec": { "containers": containers } } } }));
        Ok(whole)
    }
}

fn refused(change: &KubernetesChange, reason: String) -> Error {
    Error::Refused { what: format!("change {} {}", change.kind, change.name), reason, code: 0 }
}

/// The fields of an object that users set, without its status and the server's own metadata.
fn fields(object: &Value) -> Value {
    let kept = object.as_object().into_iter().flatten();
    let is_kept = |key: &str| !matches!(key, "apiVersion" | "kind" | "metadata" | "status");
    Value::Object(
        kept.filter(|(key, _)| is_kept(key)).map(|(key, value)| (key.clone(), value.clone())).collect(),
    )
}

/// The object before it was changed, if it is changed.
fn remembered(object: &Value) -> Option<Value> {
    serde_json::from_str(object["metadata"]["annotations"][ORIGINAL].as_str()?).ok()
}

fn put_back(object: &mut Value, original: &Value) {
    let now: Vec<String> =
        fields(object).as_object().into_iter().flatten().map(|(key, _)| key.clone()).collect();
    let Some(entries) = object.as_object_mut() else { return };
    for key in now {
        entries.remove(&key);
    }
    entries.extend(original["fields"].as_object().cloned().unwrap_or_else(Map::new));
    entries["metadata"]["labels"] = original["labels"].clone();
    if let Some(annotations) = entries["metadata"]["annotations"].as_object_mut() {
        annotations.remove(ORIGINAL);
    }
}

/// Merges one value into another like a JSON merge patch (RFC 7396), except that nulls stay.
fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_put_back_as_it_was() {
        let before = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a", "labels": { "x": "1" } },
            "spec": { "replicas": 1 }, "status": { "replicas": 1 },
        });
        let original = json!({ "fields": fields(&before), "labels": before["metadata"]["labels"] });
        let mut changed = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "a", "resourceVersion": "7", "annotations": { ORIGINAL: original.to_string(), "b": "c" } },
            "spec": { "replicas": 3, "paused": true }, "status": { "replicas": 3 }, "data": {},
        });
        let original = remembered(&changed).unwrap();
        put_back(&mut changed, &original);
        assert_eq!(changed["spec"], before["spec"]);
        assert_eq!(changed["metadata"]["labels"], before["metadata"]["labels"]);
        assert_eq!(changed["metadata"]["annotations"], json!({ "b": "c" }));
        assert_eq!((changed.get("data"), &changed["metadata"]["resourceVersion"]), (None, &json!("7")));
    }
}
