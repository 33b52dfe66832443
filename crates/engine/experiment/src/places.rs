//! The places file: the hosts of an experiment's two sides.

use plumb_host::cpu::CpuSet;
use plumb_model::{ClusterPlace, PlaceOf, Places, PodPlace};
use plumb_path::tree::{Mistake, Mistakes, Node, from_node_thorough};
use schemars::JsonSchema;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::document::ApiVersion;
use super::error::FileError;
use super::parse::{decode, parse};

/// On which hosts an experiment's two sides are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Plumbline places")]
pub(super) struct PlacesDocument {
    /// The version of this format.
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    /// The kind of document.
    #[serde(rename = "kind")]
    _kind: PlacesKind,
    /// The cluster in which pods run.
    kubernetes: Option<ClusterPlace>,
    /// Where the system is built, or from where one that exists is watched; the host that runs plumb if absent.
    #[serde(default)]
    system: PlaceOf,
    /// Where the load comes from, the host that runs plumb if absent. Of several hosts, each drives its share.
    #[serde(default)]
    load: Loads,
}

/// The places of the load.
#[derive(Debug, JsonSchema)]
#[schemars(untagged)]
enum Loads {
    /// One after the other.
    Each(Vec<PlaceOf>),
    /// Pods that are alike.
    Alike(Box<Alike>),
}

/// Pods that are alike.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Alike {
    /// How many.
    pods: u32,
    /// The kind of each.
    #[serde(default)]
    pod: PodPlace,
    /// The CPUs of each, such as `2-7`.
    cpus: Option<String>,
}

impl Default for Loads {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl<'de> Deserialize<'de> for Loads {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LoadsVisitor)
    }
}

struct LoadsVisitor;

impl<'de> Visitor<'de> for LoadsVisitor {
    type Value = Loads;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a list of places, or a number of pods such as `{ pods: 4 }`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Loads, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items)).map(Loads::Each)
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Loads, A::Error> {
        Alike::deserialize(MapAccessDeserializer::new(entries)).map(|alike| Loads::Alike(Box::new(alike)))
    }
}

impl Loads {
    fn places(self) -> Vec<PlaceOf> {
        match self {
            Self::Each(places) => places,
            Self::Alike(alike) => {
                let Alike { pods, pod, cpus } = *alike;
                let numbered = |number: u32| {
                    let name = pod.name.as_ref().map(|name| format!("{name}-{number}"));
                    let pod = PodPlace { name, ..pod.clone() };
                    PlaceOf { pod: Some(pod), cpus: cpus.clone(), ..PlaceOf::default() }
                };
                (1..=pods).map(numbered).collect()
            }
        }
    }
}

/// The kinds of documents.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
enum PlacesKind {
    /// Places.
    Places,
}

/// Reads a places file.
///
/// # Errors
/// The mistakes in the file, with their places.
pub fn read_places(name_of_file: &str, bytes: &[u8]) -> Result<Places, FileError> {
    let text = decode(bytes).map_err(|mistake| FileError::new(name_of_file, "", vec![mistake]))?;
    places(text).map_err(|mistakes| FileError::new(name_of_file, text, mistakes))
}

fn places(text: &str) -> Result<Places, Vec<Mistake>> {
    let root = parse(text).map_err(|mistake| vec![mistake])?;
    let PlacesDocument { kubernetes, system, load, .. } = from_node_thorough(&root)?;
    let load = load.places();
    let mut mistakes = Mistakes::default();
    let loads = root.get("load").map_or(&[][..], Node::items);
    // Pods that are alike share one node of the tree.
    let nodes = loads.iter().map(Some).chain(std::iter::repeat(root.get("load")));
    for (place, node) in std::iter::once((&system, root.get("system"))).chain(load.iter().zip(nodes)) {
        for (key, message) in faults(place, kubernetes.as_ref()) {
            let value = node.and_then(|node| node.get(key));
            mistakes.at(value.map_or(root.span, |value| value.span), message);
        }
    }
    mistakes.extend(of_cluster(kubernetes.as_ref(), &root));
    mistakes.unless(Places { kubernetes, system, load })
}

/// The mistake in a place, with the key.
fn faults(place: &PlaceOf, cluster: Option<&ClusterPlace>) -> impl Iterator<Item = (&'static str, String)> {
    let ssh = place.ssh.as_deref().and_then(|ssh| PlaceOf::parse(ssh).err());
    let cpus = place.cpus.as_deref().and_then(|cpus| cpus.parse::<CpuSet>().err());
    let is_double = place.ssh.is_some() && place.pod.is_some();
    let double = is_double.then(|| "a place is a pod or a host of ssh, not both".to_owned());
    let is_lost = place
        .pod
        .as_ref()
        .is_some_and(|pod| cluster.is_none_or(|cluster| cluster.image.is_none() && pod.image.is_none()));
    let lost = is_lost.then(|| {
        "a pod needs a cluster and an image: add `kubernetes: { image: … }` to the places".to_owned()
    });
    let faults = [
        ("ssh", ssh.map(|error| error.to_string())),
        ("pod", double),
        ("pod", lost),
        ("cpus", cpus.map(|error| error.to_string())),
    ];
    faults.into_iter().filter_map(|(key, message)| Some((key, message?)))
}

/// The mistake in a cluster's readers or array, if there is one.
fn of_cluster(cluster: Option<&ClusterPlace>, root: &Node) -> Option<Mistake> {
    let cluster = cluster?;
    let node = root.get("kubernetes");
    let at = |part: &str, key: &str| {
        let part = node.and_then(|node| node.get(part));
        part.map_or(root.span, |part| part.get(key).map_or(part.span, |value| value.span))
    };
    if let Some(readers) = &cluster.readers {
        if !readers.fw_counters && !readers.network {
            let message = "readers read something: `fw_counters: true`, `network: true`, or both";
            return Some(Mistake::new(at("readers", "readers"), message));
        }
        let has_image = readers.pod.as_ref().is_some_and(|pod| pod.image.is_some());
        if cluster.image.is_none() && !has_image {
            let message = "readers are pods, which need an image: add `image: …` to `kubernetes`";
            return Some(Mistake::new(at("readers", "readers"), message));
        }
    }
    let (key, message) = cluster.array.as_ref()?.check().err()?;
    Some(Mistake::new(at("array", key), message))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: plumbline.dev/v1alpha1\nkind: Places\n";

    fn read_body(text: &str) -> Result<Places, String> {
        read_places("lab.yaml", format!("{HEAD}{text}").as_bytes()).map_err(|error| error.plain())
    }

    #[test]
    fn places_are_read() {
        let places =
            read_body("system: { ssh: root@s, cpus: 2-7 }\nload: [{ ssh: c1 }, { ssh: c2, cpus: 0 }]")
                .unwrap();
        assert_eq!((places.system.name(), places.system.cpus.as_deref()), ("root@s", Some("2-7")));
        let names: Vec<&str> = places.others().iter().map(|place| place.name()).collect();
        assert_eq!(names, ["root@s", "c1", "c2"]);
        assert!(read_body("").unwrap().are_here());
    }

    #[test]
    fn pods_are_read_with_what_kubernetes_knows_of_them() {
        let places = read_body(
            "kubernetes: { namespace: lab, image: \"plumb:1\" }\n\
             system: { pod: { nodeSelector: { role: ingress }, resources: { limits: { cpu: 2, qat.intel.com/generic: 1 } } } }\n\
             load: { pods: 2, pod: { tolerations: [{ key: a, tolerationSeconds: 5, value: \"1\" }] } }",
        )
        .unwrap();
        let pod = places.system.pod.unwrap();
        assert_eq!(pod.resources.unwrap().limits["cpu"], "2");
        assert_eq!(places.load.len(), 2);
        let named = read_body("kubernetes: { image: i }\nload: { pods: 2, pod: { name: a } }").unwrap();
        assert_eq!(named.load.iter().map(PlaceOf::name).collect::<Vec<_>>(), ["a-1", "a-2"]);
        let tolerations = &places.load[1].pod.as_ref().unwrap().tolerations;
        let json = serde_json::json!([{ "key": "a", "tolerationSeconds": 5, "value": "1" }]);
        assert_eq!(serde_json::to_value(tolerations).unwrap(), json);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let wrong = |text: &str| read_body(text).unwrap_err();
        assert!(
            wrong("system: { ssh: -oProxyCommand=x }")
                .starts_with("lab.yaml:3:16: `-oProxyCommand=x` is not a host")
        );
        assert!(wrong("load: [{ ssh: c1 }, { cpus: x }]").starts_with("lab.yaml:3:29: "));
        assert!(wrong("lode: []").contains("lode"));
        assert!(
            wrong("system: { pod: {} }").starts_with("lab.yaml:3:16: a pod needs a cluster and an image")
        );
        let cluster = "kubernetes: { image: i }\n";
        assert!(wrong(&format!("{cluster}system: {{ ssh: a, pod: {{}} }}")).contains("not both"));
        assert!(
            wrong(&format!("{cluster}system: {{ pod: {{ nodeSelecter: {{}} }} }}")).contains("nodeSelecter")
        );
        assert!(wrong("kubernetes: { image: i, readers: {} }").contains("readers read something"));
        let array = "kubernetes: { image: i, array: { url: \"https://a\", secret: s, credentials_env: E } }";
        assert!(wrong(array).contains("by one of `credentials_env`"));
        assert!(wrong("load: 4").contains("a list of places, or a number of pods"));
    }
}
