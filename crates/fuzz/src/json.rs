//! Changes of JSON that leave it JSON: readers of JSON reject a flipped bit before they see a field.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// The longest list that a change makes of one element.
const COPIES_MAX: usize = 2000;
/// serde_json refuses 128 levels.
const LEVELS_MAX: usize = 200;

/// Makes one change somewhere in a document. `other` is another document, whose parts may be moved here.
pub(crate) fn mutate(document: &mut Value, other: Option<&Value>, random: &mut Random) {
    let mut at = random.below(count(document));
    let borrowed = other.and_then(|other| nth(other, &mut random.below(count(other)))).cloned();
    let own = nth(document, &mut random.below(count(document))).cloned();
    let Some(node) = nth_mut(document, &mut at) else { return };
    match random.below(10) {
        0..=2 => *node = limit(node, random),
        3 => *node = borrowed.or(own).unwrap_or_default(),
        4 => *node = own.unwrap_or_default(),
        5 => wrap(node, random),
        _ => change_members(node, own, random),
    }
}

/// How many nodes a document has.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// The node with this number, in the order of writing.
fn nth<'v>(value: &'v Value, at: &mut usize) -> Option<&'v Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter().find_map(|item| nth(item, at)),
        Value::Object(members) => members.values().find_map(|member| nth(member, at)),
        _ => None,
    }
}

fn nth_mut<'v>(value: &'v mut Value, at: &mut usize) -> Option<&'v mut Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth_mut(item, at)),
        Value::Object(members) => members.values_mut().find_map(|member| nth_mut(member, at)),
        _ => None,
    }
}

/// A value at a limit, most often of the same type.
fn limit(value: &Value, random: &mut Random) -> Value {
    match value {
        Value::Number(number) if random.below(4) > 0 => near(number.as_f64().unwrap_or(0.0), random),
        Value::String(text) if random.below(4) > 0 => {
            let texts = ["", "\u{0}", "NaN", "-1", "/", "../..", "a b", "\n", "\u{fffd}\u{1f600}", "null"];
            match random.below(texts.len() + 3) {
                0 => Value::String(text.repeat(1 + random.below(500))),
                1 => Value::String(text.chars().rev().collect()),
                2 => Value::String(text.chars().take(random.below(text.len())).collect()),
                other => json!(texts[other - 3]),
            }
        }
        Value::Bool(yes) if random.below(2) == 0 => json!(!yes),
        _ => match random.below(8) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(""),
            3 => json!([]),
            4 => json!({}),
            5 => json!([[0, 1]]),
            _ => near(1.0, random),
        },
    }
}

fn near(number: f64, random: &mut Random) -> Value {
    let whole = number as i64;
    match random.below(14) {
        0 => json!(0),
        1 => json!(-1),
        2 => json!(u64::MAX),
        3 => json!(i64::MIN),
        4 => json!(1_u64 << 53),
        5 => json!((1_u64 << 53) + 1),
        6 => json!(u32::MAX),
        7 => json!(1e308),
        8 => json!(-1e-308),
        9 => json!(number + 0.1),
        10 => json!(whole.wrapping_add(1)),
        11 => json!(whole.wrapping_sub(1)),
        12 => json!(random.unit() * 1e6),
        _ => json!(random.next() >> random.below(64)),
    }
}

/// Puts a node into new lists or objects.
fn wrap(node: &mut Value, random: &mut Random) {
    let levels = if random.below(8) == 0 { random.below(LEVELS_MAX) } else { 1 };
    let is_list = random.below(2) == 0;
    for _ in 0..levels {
        let inner = std::mem::take(node);
        *node = if is_list { json!([inner]) } else { json!({ "x": inner }) };
    }
}

/// Removes, adds, renames or repeats a member of a list or an object.
fn change_members(node: &mut Value, own: Option<Value>, random: &mut Random) {
    match node {
        Value::Array(items) if items.is_empty() => items.push(own.unwrap_or_default()),
        Value::Array(items) => {
            let at = random.below(items.len());
            let other = random.below(items.len());
            match random.below(5) {
                0 => drop(items.remove(at)),
                1 => items.swap(at, other),
                2 => items.insert(at, own.unwrap_or_default()),
                3 => items.insert(at, items[other].clone()),
                _ => {
                    items.extend(vec![items[at].clone(); random.below(COPIES_MAX / (1 + count(&items[at])))])
                }
            }
        }
        Value::Object(members) => change_object(members, own, random),
        other => *other = limit(other, random),
    }
}

fn change_object(members: &mut Map<String, Value>, own: Option<Value>, random: &mut Random) {
    let keys: Vec<String> = members.keys().cloned().collect();
    let Some(key) = keys.get(random.below(keys.len())) else {
        members.insert("x".to_owned(), own.unwrap_or_default());
        return;
    };
    let another = keys[random.below(keys.len())].clone();
    match random.below(5) {
        0 => drop(members.remove(key)),
        1 => drop(members.insert(format!("{key}x"), own.unwrap_or_default())),
        2 => {
            let value = members.remove(key).unwrap_or_default();
            members.insert(another, value);
        }
        3 => {
            let value = members[&another].clone();
            members.insert(key.clone(), value);
        }
        _ => {
            let value = members[key].clone();
            let copies = random.below(COPIES_MAX / (1 + count(&value)));
            members.extend((0..copies).map(|copy| (format!("{key}{copy}"), value.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_node_can_be_reached_and_a_change_changes() {
        let document = json!({ "a": [1, { "b": "c" }], "d": null });
        assert_eq!(count(&document), 6);
        let nodes: Vec<&Value> = (0..6).filter_map(|at| nth(&document, &mut { at })).collect();
        assert_eq!(nodes[3..], [&json!({ "b": "c" }), &json!("c"), &json!(null)]);
        let mut random = Random::new(1);
        let changed = (0..1000).filter(|_| {
            let mut copy = document.clone();
            mutate(&mut copy, Some(&json!(["z"])), &mut random);
            copy != document
        });
        assert!(changed.count() > 800);
    }
}
