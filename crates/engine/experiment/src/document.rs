//! The outer form of an experiment file, as types: everything but the data path's own settings.
//!
//! The same types read the file and describe it in `plumb schema`, so that the two cannot disagree. Texts that are
//! checked later are scalars, which keep their places. What variants are merged from stays in the tree.

use std::collections::BTreeMap;

use plumb_model::name::{self, NAME_MAX};
use plumb_model::{Blocks, Percent, Plan, PodSides, Span, UserChange};
use plumb_path::tree::{Location, Mistakes, Node, Scalar, Value, from_node};
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// The most blocks that a file may ask for.
pub(super) const MAX_BLOCKS: u32 = 1000;

/// An experiment: what one change does to an infrastructure data path.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Plumbline experiment")]
pub(super) struct Document {
    /// The version of this format.
    #[serde(rename = "apiVersion")]
    _api_version: ApiVersion,
    /// The kind of document.
    #[serde(rename = "kind")]
    _kind: DocumentKind,
    /// The experiment's names.
    pub(super) metadata: Metadata,
    /// The compared systems.
    pub(super) spec: Spec,
}

/// The version of the format.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
pub(super) enum ApiVersion {
    /// The first version; it may still change.
    #[serde(rename = "plumbline.dev/v1alpha1")]
    V1Alpha1,
}

/// The kinds of documents.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
enum DocumentKind {
    /// An experiment.
    Experiment,
}

/// The experiment's names.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    /// A name of lower-case letters, digits and `-`, as for a DNS label.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"))]
    #[schemars(with = "String")]
    pub(super) name: Scalar,
    /// The question that the experiment answers, in one line.
    pub(super) title: Option<String>,
}

/// The compared systems.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Spec {
    /// The data path, which decides what `system` and `load` may say.
    #[serde(deserialize_with = "path_name")]
    #[schemars(with = "String")]
    pub(super) path: Scalar,
    /// The system under test.
    #[serde(rename = "system", default)]
    _system: Part,
    /// The load that drives the system and measures it.
    #[serde(rename = "load", default)]
    _load: Part,
    /// Settings of the host for all variants.
    #[serde(rename = "host", default)]
    _host: Option<HostPart>,
    /// Changes of the host for all variants that have no list of their own.
    #[serde(rename = "changes", default)]
    _changes: Option<Vec<UserChange>>,
    /// The settings of all variants' pods beyond the places.
    #[serde(rename = "pods", default)]
    _pods: Option<PodSides>,
    /// The variant that all others are compared with.
    #[schemars(with = "String")]
    pub(super) baseline: Scalar,
    /// The variants by name: what each changes in `system`, `load` and `host`.
    #[serde(rename = "variants")]
    #[schemars(extend("propertyNames" = { "pattern": "^[A-Za-z]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?$" }))]
    _variants: BTreeMap<String, Option<VariantPart>>,
    /// Settings by dotted key, such as `load.connections`, with the values to run them at; every combination is a
    /// separate cell.
    #[serde(rename = "matrix", default)]
    #[schemars(schema_with = "matrix_schema")]
    _matrix: Option<BTreeMap<String, Vec<String>>>,
    /// How many blocks to run: every block measures every variant twice.
    pub(super) blocks: Option<BlocksPart>,
    /// How long nothing is measured before each slot, so that what the slot before it left behind fades; 0 s if absent.
    pub(super) cooldown: Option<Span>,
    /// The limits on other work of the machine. Above them, the numbers are not trusted.
    pub(super) noise: Option<NoisePart>,
    /// The share of a variant's work that may fail; 1% if absent. Above it, claims about that variant's rates and times are
    /// void, and those about failures, shares and checks are still judged.
    pub(super) failures_max: Option<Percent>,
    /// Statements about metrics that the run decides, such as
    /// `threads.http_reqs >= 1.2 * software.http_reqs`.
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) claims: Option<Vec<Scalar>>,
    /// Ratios that the run estimates until each is known closely enough, such as
    /// `threads.http_reqs / software.http_reqs within 5%`.
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) until: Option<Vec<Scalar>>,
    /// Whether to add a copy of the baseline named `control`, which must not differ from it.
    pub(super) control: Option<bool>,
}

/// The name of a data path. YAML reads a bare `null` as no value, but here it names a data path.
fn path_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Scalar, D::Error> {
    let name = Option::<Scalar>::deserialize(deserializer)?;
    let null = || Scalar { text: "null".to_owned(), span: Location::default(), quoted: false, inset: None };
    Ok(name.unwrap_or_else(null))
}

impl Spec {
    /// The share of all CPU time that processes of neither side may use. Neighbours cannot affect synthetic numbers.
    pub(super) fn others_max(&self, asked: Option<Percent>) -> f64 {
        let default = if self.path.text == "null" { 1.0 } else { Plan::others_max() };
        let own = self.noise.and_then(|noise| noise.others_max);
        asked.or(own).map_or(default, |Percent(share)| share)
    }
}

/// The changes of one variant.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VariantPart {
    /// The changes in the system.
    #[serde(rename = "system", default)]
    _system: Part,
    /// The changes in the load.
    #[serde(rename = "load", default)]
    _load: Part,
    /// The changes of the host.
    #[serde(default)]
    pub(super) host: Option<HostPart>,
    /// Further changes of the host in its slots: commands, files, sysctls, services. They are made in this order before a
    /// slot, and undone in reverse order before a slot of another variant.
    #[serde(default)]
    pub(super) changes: Option<Vec<UserChange>>,
    /// The settings of its pods beyond the places: resources, nodes, the node's network. Without pods it is skipped.
    #[serde(default)]
    pub(super) pods: Option<PodSides>,
}

/// Settings of the host.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HostPart {
    /// Tunings that are applied before each slot and put back after it, such as `governor` or `busy-read=100`; `plumb tune
    /// list` has them all.
    #[serde(default)]
    #[schemars(with = "Option<Vec<String>>")]
    pub(super) tunings: Option<Vec<Scalar>>,
}

/// How many blocks to run: a number for exactly that many, or the least and the most.
#[derive(Debug, Clone, Copy, JsonSchema)]
#[schemars(untagged)]
pub(super) enum BlocksPart {
    /// Exactly this many blocks.
    Exactly(#[schemars(range(min = 2, max = 1000))] u32),
    /// The run stops between the two, as soon as every claim is decided.
    Between(BlockBounds),
}

impl<'de> Deserialize<'de> for BlocksPart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(BlocksVisitor)
    }
}

struct BlocksVisitor;

impl<'de> Visitor<'de> for BlocksVisitor {
    type Value = BlocksPart;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a number of blocks, or a mapping such as `{ min: 6, max: 20 }`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<BlocksPart, E> {
        text.parse().map(BlocksPart::Exactly).map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BlocksPart, A::Error> {
        BlockBounds::deserialize(MapAccessDeserializer::new(map)).map(BlocksPart::Between)
    }
}

/// Between how many blocks to run.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockBounds {
    /// No verdict before this many blocks; at least 2.
    #[schemars(range(min = 2, max = 1000))]
    pub(super) min: Option<u32>,
    /// No more blocks than this in a cell.
    #[schemars(range(min = 2, max = 1000))]
    pub(super) max: Option<u32>,
}

/// The limits on other work of the machine.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NoisePart {
    /// The share of all CPU time that processes of neither side may use; 10% if absent. Where half of a variant's slots
    /// have more, claims about its rates and times are void.
    pub(super) others_max: Option<Percent>,
}

/// A mapping that the data path's own types read later.
#[derive(Debug, Default, JsonSchema)]
#[schemars(with = "Option<BTreeMap<String, serde_json::Value>>")]
struct Part;

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<BTreeMap<String, IgnoredAny>>::deserialize(deserializer).map(|_| Self)
    }
}

fn matrix_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": ["object", "null"],
        "propertyNames": { "pattern": r"^(system|load)(\.[^.]+)+$" },
        "additionalProperties": {
            "type": "array",
            "minItems": 1,
            "uniqueItems": true,
            "items": { "type": ["string", "number", "boolean"] }
        }
    })
}

/// The value of a key of `spec`.
pub(super) fn spec_value<'n>(root: &'n Node, key: &str) -> Option<&'n Node> {
    root.get("spec")?.get(key)
}

/// The place of a key of `spec`, or of `spec` itself if the key is absent.
pub(super) fn spec_place(root: &Node, key: &str) -> Location {
    let Some((spec, value)) = root.entry("spec") else { return root.span };
    value.entry(key).map_or(spec.span, |(key, _)| key.span)
}

/// Checks that the tunings of a part exist and are named once, and that its changes can be made, proven and undone, as
/// far as the file alone tells.
pub(super) fn check_part(tree: &Node, mistakes: &mut Mistakes) {
    let VariantPart { host, changes, .. } = part(tree);
    let tunings = host.and_then(|host| host.tunings).unwrap_or_default();
    for (at, Scalar { text, span, .. }) in tunings.iter().enumerate() {
        if let Err(error) = plumb_tunings::find(text) {
            mistakes.at(*span, error.to_string());
        }
        if tunings[..at].iter().any(|earlier| earlier.text == *text) {
            mistakes.at(*span, format!("`{text}` is named twice"));
        }
    }
    let items = tree.get("changes").map_or(&[][..], Node::items);
    for (change, item) in changes.iter().flatten().zip(items) {
        let Err((key, message)) = plumb_tunings::check_change(change) else { continue };
        let place = item.entries().first().map_or(item.span, |(kind, value)| {
            value.entry(key).map_or(kind.span, |(key, value)| key.span.through(value.span))
        });
        mistakes.at(place, message);
    }
}

/// A merged tree of settings, with the parts that concern the host.
pub(super) fn part(tree: &Node) -> VariantPart {
    // Reading the document has already checked the form of all that was merged.
    from_node(tree).unwrap_or_default()
}

/// A merged tree of settings as a data path reads it: without the keys that concern the host.
pub(super) fn without_host(tree: &Node) -> Node {
    let entries = tree.entries().iter().filter(|(key, _)| !is_of_host(&key.text)).cloned();
    Node { span: tree.span, value: Value::Mapping(entries.collect()) }
}

fn is_of_host(key: &str) -> bool {
    matches!(key, "host" | "changes" | "pods")
}

/// Checks the name of an experiment.
pub(super) fn check_name(Scalar { text, span, .. }: &Scalar, mistakes: &mut Mistakes) {
    let fitting = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    if let Some(reason) = name::fault(text, fitting) {
        let message = format!(
            "`{text}` {reason}; an experiment's name is 1 to {NAME_MAX} lower-case letters, digits and `-`, such as \
             `tls-offload`"
        );
        mistakes.at(*span, message);
    }
}

/// The number of blocks that the file asks for.
pub(super) fn blocks(root: &Node, part: Option<BlocksPart>, mistakes: &mut Mistakes) -> Blocks {
    let default = Blocks::default();
    let (min, max) = match part {
        None => (default.min, default.max),
        Some(BlocksPart::Exactly(count)) => (count, count),
        Some(BlocksPart::Between(BlockBounds { min, max })) => {
            let min = min.unwrap_or_else(|| default.min.min(max.unwrap_or(default.min)));
            (min, max.unwrap_or_else(|| default.max.max(min)))
        }
    };
    let is_exact = matches!(part, Some(BlocksPart::Exactly(_)));
    let name = |key: &'static str| if is_exact { "blocks" } else { key };
    let (key, message) = if min < 2 {
        let needed = "at least 2 blocks are needed to measure their scatter";
        ("min", format!("`{}` is {min}; {needed}", name("min")))
    } else if max > MAX_BLOCKS {
        ("max", format!("`{}` is {max}; at most {MAX_BLOCKS} blocks can be run", name("max")))
    } else if max < min {
        ("max", format!("`max` is {max} and `min` is {min}; `max` must not be below `min`"))
    } else {
        return Blocks { min, max };
    };
    let place = spec_value(root, "blocks").map(|blocks| blocks.place_of(key).unwrap_or(blocks.span));
    mistakes.at(place.unwrap_or_else(|| spec_place(root, "blocks")), message);
    default
}

/// The settings that all variants share: `system`, `load` and those of the host, as far as the file gives them.
pub(super) fn shared(root: &Node) -> Node {
    let spec = root.get("spec").map_or(&[][..], Node::entries);
    let is_setting = |key: &str| matches!(key, "system" | "load") || is_of_host(key);
    let given = spec.iter().filter(|(key, value)| is_setting(&key.text) && value.value != Value::Null);
    Node::mapping(given.cloned().collect())
}
