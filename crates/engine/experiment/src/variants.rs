//! The variants: their names, their changes, and one line for each that describes the changes.

use std::collections::BTreeSet;

use plumb_model::{Variant, name};
use plumb_path::tree::{Location, Mistake, Mistakes, Node, Scalar, Value, hint};

use serde_json::Value as JsonValue;

use super::document::{check_part, part, spec_place, spec_value};
use super::matrix::{Axis, conflict};

/// The most variants of one experiment.
const MAX_VARIANTS: usize = 64;

/// The name of the automatic copy of the baseline.
const CONTROL: &str = "control";

/// The length above which a value is cut in a treatment's line, in characters.
const LONG_VALUE: usize = 40;

/// The length above which the words of a user's change are cut, in characters.
const LONG_CHANGE: usize = 80;

/// A variant as the file has it.
#[derive(Debug, Clone)]
pub(super) struct VariantTree {
    /// The name.
    pub(super) name: String,
    /// Where the file names it.
    pub(super) place: Location,
    /// The changes: `system`, `load` and `host`.
    pub(super) over: Node,
    /// Whether it is the automatic copy of the baseline.
    pub(super) control: bool,
}

/// All variants: the baseline, the others in the order of the file, and the control.
pub(super) fn variants(
    root: &Node,
    baseline: &Scalar,
    control: bool,
    axes: &[Axis<'_>],
    mistakes: &mut Mistakes,
) -> Vec<VariantTree> {
    let mut found = Vec::new();
    for (key, over) in spec_value(root, "variants").map_or(&[][..], Node::entries) {
        if let Some(reason) = name::variant_fault(&key.text) {
            mistakes.at(key.span, format!("`{}` {reason}; {}", key.text, name::VARIANT_FORM));
        }
        check_part(over, mistakes);
        mistakes.extend(conflict(axes, over));
        let over = match over.value {
            Value::Null => Node::mapping(Vec::new()),
            _ => over.clone(),
        };
        found.push(VariantTree { name: key.text.clone(), place: key.span, over, control: false });
    }
    if found.len() > MAX_VARIANTS {
        let message = format!("there are {} variants; at most {MAX_VARIANTS} can be run", found.len());
        mistakes.at(spec_place(root, "variants"), message);
    }
    match found.iter().position(|variant| variant.name == baseline.text) {
        Some(at) => found[..=at].rotate_right(1),
        None => mistakes.extend([no_such_baseline(root, baseline, &found)]),
    }
    if control {
        add_control(root, &mut found, mistakes);
    } else if found.len() == 1 {
        let message = format!(
            "`{}` is the only variant; an experiment needs another beside the baseline",
            baseline.text
        );
        let mistake = Mistake::new(spec_place(root, "variants"), message);
        mistakes.extend([mistake.help("add a variant, or `control: true` for a copy of the baseline")]);
    }
    found
}

fn no_such_baseline(
    root: &Node,
    Scalar { text: baseline, span, .. }: &Scalar,
    found: &[VariantTree],
) -> Mistake {
    if found.is_empty() {
        return Mistake::new(spec_place(root, "variants"), "there are no variants, not even the baseline")
            .help(format!("add `{baseline}: {{}}` and at least one variant that changes something"));
    }
    let hint = hint(baseline, found.iter().map(|variant| variant.name.as_str()));
    Mistake::new(*span, format!("the baseline `{baseline}` is not one of the variants; {hint}"))
}

fn add_control(root: &Node, found: &mut Vec<VariantTree>, mistakes: &mut Mistakes) {
    if let Some(taken) = found.iter().find(|variant| variant.name == CONTROL) {
        let message =
            format!("the name `{CONTROL}` is taken by `control: true`, which adds a variant of that name");
        mistakes.at(taken.place, message);
    } else if let Some(baseline) = found.first().cloned() {
        let place = spec_place(root, "control");
        found.push(VariantTree { name: CONTROL.to_owned(), place, control: true, ..baseline });
    }
}

/// Each variant with its changes in one line: `ingress.offload: threads, load.connections: 50`. They are changes against the
/// baseline, or for the baseline against the shared settings. `settings` are those that the data path read from `trees`.
pub(super) fn described(
    shared: &Node,
    variants: &[VariantTree],
    trees: &[Node],
    settings: &[JsonValue],
) -> Vec<Variant> {
    let described = |(at, (variant, tree)): (usize, (&VariantTree, &Node))| {
        let (against, nothing) =
            if at == 0 { (shared, "the baseline") } else { (&trees[0], "as the baseline") };
        let mut changes = Vec::new();
        differences(against, tree, &settings[at], "", &mut changes);
        let treatment = if changes.is_empty() { nothing.to_owned() } else { changes.join(", ") };
        Variant { name: variant.name.clone(), treatment, control: variant.control }
    };
    variants.iter().zip(trees).enumerate().map(described).collect()
}

fn differences(
    baseline: &Node,
    variant: &Node,
    settings: &JsonValue,
    prefix: &str,
    changes: &mut Vec<String>,
) {
    for (key, value) in variant.entries() {
        let below = baseline.get(&key.text);
        if below.is_some_and(|below| below.same(value)) {
            continue;
        }
        let dotted = dotted(prefix, &key.text);
        let read = &settings[key.text.as_str()];
        match &value.value {
            Value::Sequence(_) if dotted == "changes" => changes.push(user_changes(variant)),
            Value::Mapping(_) => match below {
                Some(below) => differences(below, value, read, &dotted, changes),
                None => differences(&Node::mapping(Vec::new()), value, read, &dotted, changes),
            },
            Value::Scalar(scalar) => {
                changes.push(format!(
                    "{dotted}: {}",
                    with_unit(&scalar.text, read).unwrap_or_else(|| shown(value))
                ));
            }
            _ => changes.push(format!("{dotted}: {}", shown(value))),
        }
    }
    for (key, value) in baseline.entries() {
        if variant.get(&key.text).is_none() {
            defaults(value, &dotted(prefix, &key.text), changes);
        }
    }
}

/// A number that was written without its unit, with the unit in which the data path read it.
pub(super) fn with_unit(text: &str, read: &JsonValue) -> Option<String> {
    text.parse::<f64>().ok().and(read.as_str()).map(str::to_owned)
}

/// The settings in which two variants differ: `load.path`. A list is one setting.
pub(super) fn differing(one: &JsonValue, other: &JsonValue) -> Vec<String> {
    fn walk(one: &JsonValue, other: &JsonValue, prefix: &str, found: &mut Vec<String>) {
        let (JsonValue::Object(ones), JsonValue::Object(others)) = (one, other) else {
            if one != other {
                found.push(prefix.to_owned());
            }
            return;
        };
        let keys: BTreeSet<&String> = ones.keys().chain(others.keys()).collect();
        for key in keys {
            let of = |map: &serde_json::Map<String, JsonValue>| map.get(key).cloned().unwrap_or_default();
            let dotted = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            walk(&of(ones), &of(others), &dotted, found);
        }
    }
    let mut found = Vec::new();
    walk(one, other, "", &mut found);
    found
}

/// The user's changes of a variant in few words.
fn user_changes(variant: &Node) -> String {
    let words = part(variant).changes.into_iter().flatten().map(|change| {
        let words = change.to_string();
        match words.chars().count() > LONG_CHANGE {
            true => format!("{}…", words.chars().take(LONG_CHANGE).collect::<String>()),
            false => words,
        }
    });
    words.collect::<Vec<_>>().join(", ")
}

fn defaults(value: &Node, prefix: &str, changes: &mut Vec<String>) {
    match value.value {
        Value::Mapping(_) => {
            value
                .entries()
                .iter()
                .for_each(|(key, below)| defaults(below, &dotted(prefix, &key.text), changes));
        }
        _ => changes.push(format!("{prefix}: default")),
    }
}

/// The key without `system`, which most treatments change.
fn dotted(prefix: &str, key: &str) -> String {
    match (prefix, key) {
        ("", "system") => String::new(),
        ("", key) => key.to_owned(),
        (prefix, key) => format!("{prefix}.{key}"),
    }
}

fn shown(value: &Node) -> String {
    let text = match &value.value {
        Value::Null => "default".to_owned(),
        Value::Scalar(scalar) if scalar.text.is_empty() => "\"\"".to_owned(),
        Value::Scalar(scalar) => scalar.text.lines().map(str::trim).collect::<Vec<_>>().join(" / "),
        Value::Sequence(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Value::Mapping(_) => "{}".to_owned(),
    };
    if text.chars().count() <= LONG_VALUE {
        return text;
    }
    format!("{}…", text.chars().take(LONG_VALUE).collect::<String>())
}
