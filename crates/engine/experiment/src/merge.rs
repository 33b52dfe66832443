//! Deep merge of one tree over another, by which a variant states only its differences from the baseline.
//!
//! Mappings merge key by key; any other value replaces the previous one. `null` replaces too, and [`pruned`]
//! removes it at the end, so that a variant can reset a key to its default. Keys keep their places from
//! either side.

use plumb_path::tree::{Node, Scalar, Value};

use std::collections::HashMap;

/// `over` merged over `base`.
#[must_use]
pub fn merge(base: &Node, over: &Node) -> Node {
    let (Value::Mapping(below), Value::Mapping(above)) = (&base.value, &over.value) else {
        return over.clone();
    };
    let places: HashMap<&str, usize> =
        below.iter().enumerate().map(|(at, (key, _))| (key.text.as_str(), at)).collect();
    let mut merged = below.clone();
    for (key, value) in above {
        match places.get(key.text.as_str()) {
            Some(&at) => merged[at] = merge_entry(&below[at], key, value),
            None => merged.push((key.clone(), value.clone())),
        }
    }
    Node { span: base.span, value: Value::Mapping(merged) }
}

/// A mapping that is merged keeps the place of its first key. A value that is replaced brings its own key.
fn merge_entry(base: &(Scalar, Node), key: &Scalar, value: &Node) -> (Scalar, Node) {
    let both = matches!((&base.1.value, &value.value), (Value::Mapping(_), Value::Mapping(_)));
    let key = if both { base.0.clone() } else { key.clone() };
    (key, merge(&base.1, value))
}

/// The tree without its keys that are `null`.
#[must_use]
pub fn pruned(node: &Node) -> Node {
    let value = match &node.value {
        Value::Mapping(entries) => Value::Mapping(
            entries
                .iter()
                .filter(|(_, value)| value.value != Value::Null)
                .map(|(key, value)| (key.clone(), pruned(value)))
                .collect(),
        ),
        Value::Null | Value::Scalar(_) | Value::Sequence(_) => node.value.clone(),
    };
    Node { span: node.span, value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse;
    use plumb_path::tree::Location;
    use proptest::prelude::*;

    fn scalar(text: String, offset: usize) -> Scalar {
        Scalar { text, span: Location { offset, ..Location::default() }, quoted: false, inset: None }
    }

    fn leaf() -> impl Strategy<Value = Node> {
        ("[a-c]{1}", 0_usize..1000, 0..4).prop_map(|(text, offset, kind)| {
            let span = Location { offset, ..Location::default() };
            let text = Node { span, value: Value::Scalar(scalar(text, offset)) };
            match kind {
                0 => Node { span, value: Value::Null },
                1 => Node { span, value: Value::Sequence(vec![text]) },
                _ => text,
            }
        })
    }

    /// Trees in which a key always holds a mapping (capital letters) or never does, as in a family's types.
    fn tree() -> impl Strategy<Value = Node> {
        let mapping = |value: BoxedStrategy<Node>, keys: &'static str| {
            prop::collection::btree_map(keys, value, 0..4).prop_map(|entries| {
                entries.into_iter().map(|(key, value)| (scalar(key, 0), value)).collect::<Vec<_>>()
            })
        };
        let flat = mapping(leaf().boxed(), "[x-z]").prop_map(Node::mapping);
        let inner = (mapping(leaf().boxed(), "[x-z]"), mapping(flat.boxed(), "[X-Z]"));
        let inner = inner.prop_map(|(leaves, mappings)| Node::mapping([leaves, mappings].concat()));
        (mapping(leaf().boxed(), "[x-z]"), mapping(inner.boxed(), "[X-Z]"))
            .prop_map(|(leaves, mappings)| Node::mapping([leaves, mappings].concat()))
    }

    proptest! {
        #[test]
        fn an_empty_mapping_changes_nothing(tree in tree()) {
            let empty = Node::mapping(Vec::new());
            prop_assert_eq!(&merge(&tree, &empty).value, &tree.value);
            prop_assert_eq!(&merge(&empty, &tree).value, &tree.value);
        }

        #[test]
        fn it_does_not_matter_which_two_are_merged_first(a in tree(), b in tree(), c in tree()) {
            let left = merge(&merge(&a, &b), &c);
            let right = merge(&a, &merge(&b, &c));
            prop_assert!(left.same(&right), "{left:?}\n{right:?}");
        }

        #[test]
        fn every_leaf_of_the_later_tree_wins_with_its_place(a in tree(), b in tree()) {
            fn holds(merged: &Node, over: &Node) -> bool {
                over.entries().iter().all(|(key, value)| match (&value.value, merged.get(&key.text)) {
                    (Value::Mapping(_), Some(merged)) => holds(merged, value),
                    (_, merged) => merged == Some(value),
                })
            }
            prop_assert!(holds(&merge(&a, &b), &b));
        }

        #[test]
        fn no_null_outlives_pruning(tree in tree()) {
            fn clean(node: &Node) -> bool {
                node.entries().iter().all(|(_, value)| value.value != Value::Null && clean(value))
            }
            prop_assert!(clean(&pruned(&tree)));
        }
    }

    #[test]
    fn a_merged_tree_points_at_the_line_that_caused_it() {
        let base = parse("ingress:\n  tls: none\n  key: rsa-2048\n").unwrap();
        let over = parse("\n\n\n\ningress:\n  key: ecdsa\n  tls: null\n").unwrap();
        let merged = pruned(&merge(&base, &over));
        let ingress = merged.get("ingress").unwrap();
        assert_eq!(ingress.entries().len(), 1);
        assert_eq!(merged.place_of("ingress.key").unwrap().line, 6);
        assert_eq!(merged.place_of("ingress.tls").unwrap().line, 1);
    }
}
