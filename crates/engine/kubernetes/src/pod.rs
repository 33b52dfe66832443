//! A pod's manifest for the API server: restricted, unless its place says otherwise.

use plumb_model::PodPlace;
use serde_json::{Map, Value, json};

/// The only container.
pub(crate) const CONTAINER: &str = "plumb";
/// The container's command: a shell that waits until it is told to end, and reaps orphans. Agents start by
/// exec.
const WAIT: &str = "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done";
/// The name of a pod's own volume, whether it is mounted or a block device.
const VOLUME: &str = "volume";
/// The name of the volume that is a node's root directory.
const NODE: &str = "node";
/// Where a pod that reads its node's counters sees the node's root directory.
pub const NODE_ROOT: &str = "/node";
/// The user ID of the container, any but root. Its files are in a directory that every user may write to.
const ACCOUNT: u32 = 65532;

/// The labels of every object that a run creates.
pub(crate) fn labels() -> Value {
    json!({ "app.kubernetes.io/name": "plumb", "app.kubernetes.io/managed-by": "plumb" })
}

/// A pod with the labels of its run, belonging to the owner.
pub(crate) fn pod(name: &str, (run, owner): (&str, &Value), image: &str, place: &PodPlace) -> Value {
    let mut labels = labels();
    labels["plumbline.dev/run"] = json!(run);
    labels["plumbline.dev/pod"] = json!(name);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "labels": labels, "ownerReferences": owner },
        "spec": spec(image, place),
    })
}

/// The specification of a pod.
pub(crate) fn spec(image: &str, place: &PodPlace) -> Value {
    let mut container = json!({
        "name": CONTAINER,
        "image": place.image.as_deref().unwrap_or(image),
        "command": ["/bin/sh", "-c", WAIT],
        "env": [{ "name": "HOME", "value": "/tmp" }, { "name": "TMPDIR", "value": "/tmp" }],
        "volumeMounts": [{ "name": "tmp", "mountPath": "/tmp" }],
        "securityContext": security(place),
    });
    if let Some(resources) = &place.resources {
        container["resources"] = json!({ "limits": resources.limits, "requests": resources.requests });
    }
    let mut spec = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 2,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "securityContext": { "seccompProfile": { "type": "RuntimeDefault" } },
        "volumes": [{ "name": "tmp", "emptyDir": {} }],
        "containers": [container],
    });
    if let Some(claim) = &place.volume_claim {
        add_volume(&mut spec, json!(claim));
    }
    if place.sees_node {
        show_node(&mut spec);
    }
    if let Some(spec) = spec.as_object_mut() {
        placement(spec, place);
    }
    spec
}

/// Mounts the node's root directory into a pod, with whatever is mounted below it when the pod starts.
fn show_node(spec: &mut Value) {
    let shown = json!({ "name": NODE, "mountPath": NODE_ROOT, "readOnly": true });
    add(&mut spec["volumes"], json!({ "name": NODE, "hostPath": { "path": "/" } }));
    add(&mut spec["containers"][0]["volumeMounts"], shown);
}

fn add(list: &mut Value, item: Value) {
    match list.as_array_mut() {
        Some(items) => items.push(item),
        None => *list = json!([item]),
    }
}

/// Gives a pod a volume that Kubernetes creates and deletes with it.
fn add_volume(spec: &mut Value, mut claim: Value) {
    if claim["accessModes"].is_null() {
        claim["accessModes"] = json!(["ReadWriteOnce"]);
    }
    let path = format!("/{VOLUME}");
    let (key, shown) = if claim["volumeMode"] == "Block" {
        ("volumeDevices", json!({ "name": VOLUME, "devicePath": path }))
    } else {
        // Lets the container's user write to it.
        spec["securityContext"]["fsGroup"] = json!(ACCOUNT);
        ("volumeMounts", json!({ "name": VOLUME, "mountPath": path }))
    };
    let template = json!({ "metadata": { "labels": labels() }, "spec": claim });
    add(&mut spec["volumes"], json!({ "name": VOLUME, "ephemeral": { "volumeClaimTemplate": template } }));
    add(&mut spec["containers"][0][key], shown);
}

/// The name of the claim of a pod's own volume, which Kubernetes forms from the pod's and the volume's names.
pub(crate) fn claim_of(pod: &Value) -> Option<String> {
    let volumes = pod["spec"]["volumes"].as_array()?;
    volumes.iter().find(|volume| volume["name"] == VOLUME)?;
    Some(format!("{}-{VOLUME}", pod["metadata"]["name"].as_str()?))
}

/// The container's rights: Pod Security's level `restricted`, overridden by the place's own settings.
fn security(place: &PodPlace) -> Value {
    let mut context = json!({
        "runAsNonRoot": true,
        "runAsUser": ACCOUNT,
        "runAsGroup": ACCOUNT,
        "allowPrivilegeEscalation": false,
        "capabilities": { "drop": ["ALL"] },
    });
    let asked = json!(place.security_context);
    let Some(asked) = asked.as_object() else { return context };
    // Root contradicts `runAsNonRoot`, and the API server refuses a privileged container that may not
    // escalate.
    if asked.get("privileged") == Some(&Value::Bool(true)) || asked.get("runAsUser") == Some(&json!(0)) {
        context = json!({ "runAsUser": 0 });
    }
    for (key, value) in asked {
        context[key] = value.clone();
    }
    context
}

/// Sets the keys of the specification that select the pod's node.
fn placement(spec: &mut Map<String, Value>, place: &PodPlace) {
    let mut put = |key: &str, value: Value| {
        let is_empty = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
            _ => false,
        };
        if !is_empty {
            spec.insert(key.to_owned(), value);
        }
    };
    let secrets: Vec<_> = place.image_pull_secrets.iter().map(|name| json!({ "name": name })).collect();
    put("nodeSelector", json!(place.node_selector));
    put("affinity", affinity(json!(place.affinity), place.node_name.as_deref()));
    put("tolerations", json!(place.tolerations));
    put("topologySpreadConstraints", json!(place.topology_spread_constraints));
    put("hostNetwork", json!(place.host_network));
    put("runtimeClassName", json!(place.runtime_class_name));
    put("serviceAccountName", json!(place.service_account_name));
    put("imagePullSecrets", json!(secrets));
}

/// The affinity, with the required node added. Kubernetes' own `nodeName` would bypass the scheduler, which
/// checks whether that node has what the pod asks for.
fn affinity(mut affinity: Value, node: Option<&str>) -> Value {
    let Some(node) = node else { return affinity };
    if affinity.is_null() {
        affinity = json!({});
    }
    let required = &mut affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    if required.is_null() {
        *required = json!({ "nodeSelectorTerms": [{}] });
    }
    let is_it = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    // Kubernetes needs only one of several terms to match, so each has to name the node.
    for term in required["nodeSelectorTerms"].as_array_mut().into_iter().flatten() {
        match term["matchFields"].as_array_mut() {
            Some(fields) => fields.push(is_it.clone()),
            None => term["matchFields"] = json!([is_it]),
        }
    }
    affinity
}

/// The facts in a pod's status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub phase: String,
    pub address: Option<String>,
    pub node: String,
    pub quality: String,
    pub restarts: u64,
    /// The devices that it holds, such as `qat.intel.com/generic: 1`.
    pub devices: Vec<String>,
    /// Why it does not run, in Kubernetes' words, and whether waiting may help.
    pub trouble: Option<(String, bool)>,
}

/// Waiting reasons of containers for which waiting does not help.
const HOPELESS: [&str; 5] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "InvalidImageName",
    "RunContainerError",
];

impl Status {
    pub fn from_pod(pod: &Value) -> Self {
        let text = |at: &str| pod.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
        let container = &pod["status"]["containerStatuses"][0];
        Self {
            phase: text("/status/phase"),
            address: pod.pointer("/status/podIP").and_then(Value::as_str).map(str::to_owned),
            node: text("/spec/nodeName"),
            quality: text("/status/qosClass"),
            restarts: container["restartCount"].as_u64().unwrap_or(0),
            devices: devices(&pod["spec"]["containers"][0]["resources"]["limits"]),
            trouble: trouble(pod),
        }
    }

    /// Whether its container runs and has an address.
    pub fn is_ready(&self) -> bool {
        self.phase == "Running" && self.address.is_some()
    }
}

/// Resources with the name of a vendor.
fn devices(limits: &Value) -> Vec<String> {
    let of_vendors = limits.as_object().into_iter().flatten().filter(|(name, _)| name.contains('/'));
    of_vendors.map(|(name, count)| format!("{name}: {}", count.as_str().unwrap_or_default())).collect()
}

fn trouble(pod: &Value) -> Option<(String, bool)> {
    let containers = pod["status"]["containerStatuses"].as_array().map_or(&[][..], Vec::as_slice);
    if let Some(trouble) = containers.iter().find_map(|container| trouble_of(&container["state"])) {
        return Some(trouble);
    }
    if pod["status"]["phase"] == "Failed" {
        let text = |key: &str| pod["status"][key].as_str().unwrap_or_default();
        return Some((with_message(text("reason"), text("message")), false));
    }
    let conditions = pod["status"]["conditions"].as_array()?;
    let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled")?;
    let text = |key: &str| scheduled[key].as_str().unwrap_or_default();
    (scheduled["status"] == "False").then(|| (with_message(text("reason"), text("message")), true))
}

/// Why a container does not run, by its state, and whether waiting may help.
fn trouble_of(state: &Value) -> Option<(String, bool)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (waiting, ended) = (&state["waiting"], &state["terminated"]);
    if !ended.is_null() {
        let code = ended["exitCode"].as_i64().unwrap_or(0);
        return Some((format!("its container ended with code {code} ({})", text(&ended["reason"])), false));
    }
    let reason = text(&waiting["reason"]);
    if waiting.is_null() || reason == "ContainerCreating" {
        return None;
    }
    Some((with_message(&reason, &text(&waiting["message"])), !HOPELESS.contains(&reason.as_str())))
}

fn with_message(reason: &str, message: &str) -> String {
    match message.trim() {
        "" => reason.to_owned(),
        message => format!("{reason}: {message}"),
    }
}

/// A name that Kubernetes takes: lower-case letters, digits and hyphens.
pub(crate) fn name_of(run: &str, place: &str) -> String {
    let place: String = place
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' })
        .collect();
    format!("{run}-{}", place.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_restricted_unless_its_place_says_otherwise() {
        let spec = spec("plumb:1", &PodPlace::default());
        let context = &spec["containers"][0]["securityContext"];
        assert_eq!(context["runAsNonRoot"], true);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        assert!(spec.get("nodeSelector").is_none() && spec.get("hostNetwork").is_none());
        let place = PodPlace {
            security_context: serde_json::from_value(json!({ "privileged": true })).unwrap(),
            host_network: true,
            ..PodPlace::default()
        };
        let spec = super::spec("plumb:1", &place);
        assert_eq!(spec["containers"][0]["securityContext"], json!({ "runAsUser": 0, "privileged": true }));
        assert_eq!(spec["hostNetwork"], true);
    }

    #[test]
    fn a_reader_sees_its_nodes_files() {
        let reader = spec("plumb:1", &PodPlace { sees_node: true, ..PodPlace::default() });
        assert_eq!(reader["volumes"][1]["hostPath"]["path"], "/");
        let mount = &reader["containers"][0]["volumeMounts"][1];
        assert_eq!((&mount["mountPath"], &mount["readOnly"]), (&json!(NODE_ROOT), &json!(true)));
    }

    #[test]
    fn a_claim_becomes_a_volume_that_goes_with_the_pod() {
        let place = |claim: Value| PodPlace {
            volume_claim: serde_json::from_value(claim).unwrap(),
            ..PodPlace::default()
        };
        let mounted = spec("plumb:1", &place(json!({ "storageClassName": "gold" })));
        let claim = &mounted["volumes"][1]["ephemeral"]["volumeClaimTemplate"]["spec"];
        assert_eq!(claim, &json!({ "storageClassName": "gold", "accessModes": ["ReadWriteOnce"] }));
        assert_eq!(mounted["containers"][0]["volumeMounts"][1]["mountPath"], "/volume");
        assert_eq!(mounted["securityContext"]["fsGroup"], ACCOUNT);
        let device = spec("plumb:1", &place(json!({ "volumeMode": "Block" })));
        assert_eq!(device["containers"][0]["volumeDevices"][0]["devicePath"], "/volume");
        assert_eq!(device["containers"][0]["volumeMounts"].as_array().unwrap().len(), 1);
        let pod = json!({ "metadata": { "name": "a" }, "spec": mounted });
        assert_eq!(claim_of(&pod).as_deref(), Some("a-volume"));
        assert_eq!(claim_of(&json!({ "metadata": { "name": "a" }, "spec": {} })), None);
    }

    #[test]
    fn why_a_pod_does_not_run_is_said_in_kubernetes_words() {
        let pending = json!({ "status": { "phase": "Pending", "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available" }
        ] } });
        let trouble = Status::from_pod(&pending).trouble;
        assert_eq!(trouble, Some(("Unschedulable: 0/2 nodes are available".to_owned(), true)));
        let no_image = json!({ "status": { "phase": "Pending", "containerStatuses": [
            { "state": { "waiting": { "reason": "ErrImageNeverPull", "message": "no image" } } }
        ] } });
        assert_eq!(
            Status::from_pod(&no_image).trouble,
            Some(("ErrImageNeverPull: no image".to_owned(), false))
        );
        let killed = json!({ "status": { "phase": "Failed", "containerStatuses": [
            { "state": { "terminated": { "reason": "OOMKilled", "exitCode": 137 } } }
        ] } });
        let trouble = Status::from_pod(&killed).trouble;
        assert_eq!(trouble, Some(("its container ended with code 137 (OOMKilled)".to_owned(), false)));
    }

    #[test]
    fn a_node_is_asked_for_through_the_scheduler() {
        let term = |affinity: &Value| {
            let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
            required["nodeSelectorTerms"][0].clone()
        };
        let fields = json!([{ "key": "metadata.name", "operator": "In", "values": ["n1"] }]);
        assert_eq!(term(&affinity(Value::Null, Some("n1"))), json!({ "matchFields": fields }));
        let own = json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [] }]
        } } });
        assert_eq!(affinity(own.clone(), None), own);
        assert_eq!(
            term(&affinity(own, Some("n1"))),
            json!({ "matchExpressions": [], "matchFields": fields })
        );
    }

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        assert_eq!(name_of("plumb-x7", "Load_2"), "plumb-x7-load-2");
    }
}
