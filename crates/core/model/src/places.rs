//! Where the two sides of a run are.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::Json;

/// The hosts of a run. Without any, both sides are on the host that runs plumb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Places {
    /// The cluster in which pods run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<ClusterPlace>,
    /// Where the system is built, or from where one that exists is watched.
    #[serde(default)]
    pub system: PlaceOf,
    /// Where the load comes from. Of several hosts, each drives its share.
    #[serde(default)]
    pub load: Vec<PlaceOf>,
}

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterPlace {
    /// The context of the kubeconfig; its current one if absent, and the pod's own account where plumb runs in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The namespace of everything that a run makes; the context's if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The image of pods, which they need. It has the programs that the experiment needs, and a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Privileged pods that read what the nodes of the run's pods count; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readers: Option<Readers>,
    /// The storage array behind the volumes of pods, which is asked for their policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayPlace>,
}

/// The counters to read on each node that has a pod of the run, by a privileged pod there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Readers {
    /// Counters of the node's QAT devices (`fw_counters`).
    #[serde(default, skip_serializing_if = "is_false")]
    pub fw_counters: bool,
    /// Counters of the node's tunnels, their features, and how many rules its packet filters have.
    #[serde(default, skip_serializing_if = "is_false")]
    pub network: bool,
    /// Further settings of the reading pods, such as `tolerations` or `serviceAccountName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodPlace>,
}

/// A storage array (NetApp ONTAP, or what has its REST interface). It is asked by the host that runs plumb.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArrayPlace {
    /// The management address, such as `https://cluster1`.
    pub url: String,
    /// The SVM of volumes whose PersistentVolume does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub svm: Option<String>,
    /// The name of an environment variable that holds `user:password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_env: Option<String>,
    /// A file whose first line is `user:password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_file: Option<PathBuf>,
    /// A Secret of the namespace with the keys `username` and `password`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// Certificates in PEM that the array's must be signed by; the system's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    /// Do not check the array's certificate at all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub insecure: bool,
}

impl ArrayPlace {
    /// Checks what no single key can.
    ///
    /// # Errors
    /// The key, and what is wrong with it.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let credentials =
            [self.credentials_env.is_some(), self.credentials_file.is_some(), self.secret.is_some()];
        if !self.url.starts_with("https://") {
            return Err(("url", "must be the array's management address, such as `https://cluster1`"));
        }
        if credentials.into_iter().filter(|is_given| *is_given).count() != 1 {
            return Err((
                "array",
                "an array needs credentials by one of `credentials_env`, `credentials_file` and `secret`",
            ));
        }
        if self.insecure && self.certificate.is_some() {
            return Err(("insecure", "it cannot go with `certificate`, which is always checked"));
        }
        Ok(())
    }
}

/// A volume of an array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArrayVolume {
    /// The SVM that it belongs to.
    pub svm: String,
    /// The name on the array.
    pub name: String,
}

/// One side's place on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlaceOf {
    /// The host as `ssh` is given it: a name from its configuration, `user@host`, or `ssh://user@host:port`. The host that runs
    /// plumb if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<String>,
    /// A pod of the cluster, which is made for the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodPlace>,
    /// The CPUs of the side, such as `2-7`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// The address by which loads on other hosts reach the system; the one that the host has for ssh if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
}

/// A pod. Keys are those of Kubernetes' own specification of pods, and mean the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct PodPlace {
    /// The name in messages. Places of the same name are the same pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The image; the cluster's of the places if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The node that it has to run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Labels of nodes that it may run on.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Which nodes and neighbours it is to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Json>,
    /// Taints of nodes that do not matter to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<Json>,
    /// How pods are spread over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Json>,
    /// Whether it has the network of its node.
    #[serde(default, skip_serializing_if = "is_false")]
    pub host_network: bool,
    /// Whether loads reach the system in it through a Service, and not at the pod's own address.
    #[serde(default, skip_serializing_if = "is_false")]
    pub service: bool,
    /// CPU, memory, and devices such as `qat.intel.com/generic`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<PodResources>,
    /// A separate volume at `/volume`, which goes with the pod: what the specification of a PersistentVolumeClaim says, such as
    /// `storageClassName`, `resources`, `accessModes` (`ReadWriteOnce` if absent) and `volumeMode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim: Option<Json>,
    /// The container runtime's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime_class_name: Option<String>,
    /// The account of its processes in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Secrets with which its image is fetched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Rights of its container beyond Pod Security's level `restricted`, such as `privileged: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<Json>,
    /// Whether it sees its node's files, which no file asks for: it is for the pods that read what a node counts.
    #[serde(skip)]
    pub sees_node: bool,
}

/// A container's share of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodResources {
    /// The most that it gets, by resource. Whole CPUs that are requested as well are its own where the node's CPU manager is static.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
    /// The reserved amounts, by resource; as the limits if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

impl Places {
    /// Whether both sides are on the host that runs plumb.
    #[must_use]
    pub fn are_here(&self) -> bool {
        self.system.is_here() && self.load.iter().all(PlaceOf::is_here)
    }

    /// Whether a load is on another host than the system.
    #[must_use]
    pub fn are_apart(&self) -> bool {
        self.load.iter().any(|place| place.host() != self.system.host())
    }

    /// A place on each of the other hosts.
    #[must_use]
    pub fn others(&self) -> Vec<&PlaceOf> {
        let mut others: Vec<&PlaceOf> = Vec::new();
        for place in std::iter::once(&self.system).chain(&self.load) {
            if !place.is_here() && others.iter().all(|other| other.host() != place.host()) {
                others.push(place);
            }
        }
        others
    }

    /// Names every pod that has no name.
    pub fn name_pods(&mut self) {
        let name = |place: &mut PlaceOf, name: &dyn Fn() -> String| {
            if let Some(pod) = &mut place.pod {
                pod.name.get_or_insert_with(name);
            }
        };
        name(&mut self.system, &|| "system".to_owned());
        let is_one = self.load.len() == 1;
        for (number, place) in self.load.iter_mut().enumerate() {
            name(place, &|| if is_one { "load".to_owned() } else { format!("load-{}", number + 1) });
        }
    }
}

/// A variant's settings of its pods beyond the places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PodSides {
    /// Of the system's pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<PodPlace>,
    /// Of every pod of the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<PodPlace>,
}

impl PodSides {
    /// Whether nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.system.is_none() && self.load.is_none()
    }
}

impl PodPlace {
    /// The same with another one's settings over it: labels of nodes and resources are added, whatever else it has replaces.
    #[must_use]
    pub fn under(&self, over: &Self) -> Self {
        fn json(over: &Option<Json>, base: &Option<Json>) -> Option<Json> {
            over.clone().or_else(|| base.clone())
        }
        fn text(over: &Option<String>, base: &Option<String>) -> Option<String> {
            over.clone().or_else(|| base.clone())
        }
        let resources = match (&self.resources, &over.resources) {
            (Some(base), Some(over)) => Some(base.under(over)),
            (base, over) => over.clone().or_else(|| base.clone()),
        };
        let secrets = if over.image_pull_secrets.is_empty() { self } else { over };
        Self {
            name: text(&over.name, &self.name),
            image: text(&over.image, &self.image),
            node_name: text(&over.node_name, &self.node_name),
            node_selector: both(&self.node_selector, &over.node_selector),
            affinity: json(&over.affinity, &self.affinity),
            tolerations: json(&over.tolerations, &self.tolerations),
            topology_spread_constraints: json(
                &over.topology_spread_constraints,
                &self.topology_spread_constraints,
            ),
            host_network: over.host_network || self.host_network,
            service: over.service || self.service,
            resources,
            volume_claim: json(&over.volume_claim, &self.volume_claim),
            runtime_class_name: text(&over.runtime_class_name, &self.runtime_class_name),
            service_account_name: text(&over.service_account_name, &self.service_account_name),
            image_pull_secrets: secrets.image_pull_secrets.clone(),
            security_context: json(&over.security_context, &self.security_context),
            sees_node: self.sees_node || over.sees_node,
        }
    }

    /// Whether another pod would be the same but for its name.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        Self { name: None, ..self.clone() } == Self { name: None, ..other.clone() }
    }
}

impl PodResources {
    fn under(&self, over: &Self) -> Self {
        Self { limits: both(&self.limits, &over.limits), requests: both(&self.requests, &over.requests) }
    }
}

/// The entries of both, and that of `over` where both have one.
fn both(base: &BTreeMap<String, String>, over: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    base.iter().chain(over).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The identity of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host<'p> {
    /// The host that runs plumb.
    Here,
    /// One that ssh reaches by this name.
    Ssh(&'p str),
    /// The pod of this name.
    Pod(&'p str),
}

impl PlaceOf {
    /// The name in messages.
    #[must_use]
    pub fn name(&self) -> &str {
        match self.host() {
            Host::Here => "here",
            Host::Ssh(host) => host.strip_prefix("ssh://").unwrap_or(host),
            Host::Pod(name) => name,
        }
    }

    /// The host that it is on.
    #[must_use]
    pub fn host(&self) -> Host<'_> {
        match (&self.ssh, &self.pod) {
            (_, Some(pod)) => Host::Pod(pod.name.as_deref().unwrap_or("pod")),
            (Some(host), None) => Host::Ssh(host),
            (None, None) => Host::Here,
        }
    }

    /// Whether it is on the host that runs plumb.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.host() == Host::Here
    }

    /// A place from a word on the command line: `here`, or a host as in [`PlaceOf::ssh`].
    ///
    /// # Errors
    /// When no host can have that name.
    pub fn parse(word: &str) -> Result<Self, NotHost> {
        let word = word.trim();
        if word.is_empty() || word.starts_with('-') || word.chars().any(char::is_whitespace) {
            return Err(NotHost(word.to_owned()));
        }
        let ssh = (word != "here").then(|| word.to_owned());
        Ok(Self { ssh, ..Self::default() })
    }
}

/// A text that cannot be the name of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{_0}` is not a host; write `ssh://user@host`, a name that ssh knows, or `here`")]
pub struct NotHost(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_counted_once() {
        let at = |word: &str| PlaceOf::parse(word).unwrap();
        let places =
            Places { system: at("ssh://a"), load: vec![at("b"), at("here"), at("b")], ..Places::default() };
        assert_eq!(places.others(), [&at("ssh://a"), &at("b")]);
        assert!(places.are_apart() && !places.are_here());
        assert_eq!((places.system.name(), places.load[1].name()), ("a", "here"));
        assert!(Places::default().are_here() && !Places::default().are_apart());
        assert!(!Places { system: at("a"), load: vec![at("a")], ..Places::default() }.are_apart());
    }

    #[test]
    fn pods_without_a_name_are_apart() {
        let pod = |name: Option<&str>| PlaceOf {
            pod: Some(PodPlace { name: name.map(str::to_owned), ..PodPlace::default() }),
            ..PlaceOf::default()
        };
        let mut places = Places { system: pod(None), load: vec![pod(None), pod(None)], ..Places::default() };
        places.name_pods();
        assert_eq!(
            places.others().iter().map(|place| place.name()).collect::<Vec<_>>(),
            ["system", "load-1", "load-2"]
        );
        let mut places = Places { system: pod(Some("both")), load: vec![pod(Some("both"))], ..places };
        places.name_pods();
        assert!(!places.are_apart() && !places.are_here());
    }

    #[test]
    fn what_a_variant_asks_of_a_pod_lies_over_its_place() {
        let limits = |pairs: &[(&str, &str)]| {
            let limits = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            Some(PodResources { limits: limits.collect(), ..PodResources::default() })
        };
        let base = PodPlace {
            name: Some("a".to_owned()),
            resources: limits(&[("cpu", "2")]),
            ..PodPlace::default()
        };
        let over = PodPlace { resources: limits(&[("qat", "1")]), host_network: true, ..PodPlace::default() };
        let both = base.under(&over);
        assert_eq!(both.resources, limits(&[("cpu", "2"), ("qat", "1")]));
        assert!(both.host_network && both.name == base.name);
        assert!(!both.is_like(&base) && base.is_like(&PodPlace { name: None, ..base.clone() }));
    }

    #[test]
    fn an_option_of_ssh_is_no_host() {
        for word in ["-oProxyCommand=reboot", "", "a b"] {
            assert!(PlaceOf::parse(word).is_err(), "{word}");
        }
    }
}
