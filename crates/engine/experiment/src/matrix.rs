//! The matrix: settings by dotted key with several values each, and the cells formed by their combinations.
//!
//! A cell sets the baseline's settings, and the variants merge on top. A variant that sets the same key would
//! silently undo the cell, so that is a mistake and not a matter of precedence.

use plumb_model::Cell;
use plumb_path::tree::{Mistake, Mistakes, Node, Scalar, Value, hint};

use std::collections::BTreeMap;

use super::document::{spec_place, spec_value};
use super::merge::merge;

/// The largest number of cells in one experiment.
const MAX_CELLS: usize = 256;

/// One key of the matrix.
#[derive(Debug)]
pub(super) struct Axis<'n> {
    /// The dotted key as it was written.
    pub(super) key: &'n Scalar,
    /// The parts, each with its place.
    segments: Vec<Scalar>,
    /// The values, one after the other.
    values: &'n [Node],
}

/// One combination.
#[derive(Debug)]
pub(super) struct CellTree {
    /// The matrix' keys with their values, and no variants yet.
    pub(super) cell: Cell,
    /// The cell's settings, as a tree to merge over the baseline's.
    pub(super) over: Node,
}

/// The keys of the matrix, in the order of the file.
pub(super) fn axes<'n>(root: &'n Node, settings: &Node, mistakes: &mut Mistakes) -> Vec<Axis<'n>> {
    let entries = spec_value(root, "matrix").map_or(&[][..], Node::entries);
    let axis = |(key, values)| axis(key, values, settings).map_err(|mistake| vec![mistake]);
    let axes: Vec<Axis<'n>> =
        entries.iter().filter_map(|(key, values)| mistakes.keep(axis((key, values)))).collect();
    let cells = axes.iter().try_fold(1_usize, |cells, axis| cells.checked_mul(axis.values.len()));
    if cells.is_none_or(|cells| cells > MAX_CELLS) {
        let count = cells.map_or_else(|| "too many".to_owned(), |cells| cells.to_string());
        let message = format!("the matrix makes {count} cells; at most {MAX_CELLS} can be run");
        mistakes.at(spec_place(root, "matrix"), message);
    }
    axes
}

fn axis<'n>(key: &'n Scalar, values: &'n Node, settings: &Node) -> Result<Axis<'n>, Mistake> {
    let segments = segments(key);
    let first = &segments[0];
    if !matches!(first.text.as_str(), "system" | "load") {
        let hint = hint(&first.text, ["system", "load"]);
        let message =
            format!("a key of the matrix begins with `system` or `load`, not `{}`; {hint}", first.text);
        return Err(Mistake::new(first.span, message));
    }
    if segments.len() < 2 || segments.iter().any(|segment| segment.text.is_empty()) {
        let message =
            format!("`{}` names no setting; write a dotted key such as `load.connections`", key.text);
        return Err(Mistake::new(key.span, message));
    }
    let values = values.items();
    if values.is_empty() {
        let message = format!("`{}` has no values; write a list such as [1, 20]", key.text);
        return Err(Mistake::new(key.span, message));
    }
    if values.len() > MAX_CELLS {
        let message =
            format!("`{}` has {} values; at most {MAX_CELLS} cells can be run", key.text, values.len());
        return Err(Mistake::new(key.span, message));
    }
    let repeated = |at: &usize| values[..*at].iter().any(|earlier| earlier.same(&values[*at]));
    if let Some(at) = (0..values.len()).find(repeated) {
        let message = format!("`{}` has this value twice, and would make the same cells twice", key.text);
        return Err(Mistake::new(values[at].span, message));
    }
    reachable(key, &segments, settings)?;
    Ok(Axis { key, segments, values })
}

/// The parts of a dotted key, each with its place.
fn segments(key: &Scalar) -> Vec<Scalar> {
    let mut offset = 0;
    let mut segments = Vec::new();
    for text in key.text.split('.') {
        let span = key.part(offset, text.len());
        segments.push(Scalar { text: text.to_owned(), span, quoted: key.quoted, inset: None });
        offset += text.len() + 1;
    }
    segments
}

/// Checks that a cell replaces no text or list in the place of a mapping.
fn reachable(key: &Scalar, segments: &[Scalar], settings: &Node) -> Result<(), Mistake> {
    let mut node = settings;
    for segment in &segments[..segments.len() - 1] {
        match node.get(&segment.text) {
            None => return Ok(()),
            Some(below) => node = below,
        }
        if matches!(node.value, Value::Scalar(_) | Value::Sequence(_)) {
            let message =
                format!("`{}` is {}, so that `{}` cannot be set", segment.text, node.kind(), key.text);
            return Err(Mistake::new(segment.span, message).also(node.span, "it is set here"));
        }
    }
    Ok(())
}

/// Every combination, the last key changing fastest; without a matrix, one combination without values.
pub(super) fn cells(axes: &[Axis<'_>]) -> Vec<CellTree> {
    let cell = Cell { values: BTreeMap::new(), variants: Vec::new() };
    let mut cells = vec![CellTree { cell, over: Node::mapping(Vec::new()) }];
    for axis in axes {
        let with = |CellTree { cell, over }: &CellTree, value: &Node| {
            let text = value.scalar().map_or_else(String::new, |scalar| scalar.text.clone());
            let mut cell = cell.clone();
            cell.values.insert(axis.key.text.clone(), text);
            CellTree { cell, over: merge(over, &nested(&axis.segments, value)) }
        };
        cells =
            cells.iter().flat_map(|cell| axis.values.iter().map(move |value| with(cell, value))).collect();
    }
    cells
}

/// A tree with only `value`, at the path of `segments`.
fn nested(segments: &[Scalar], value: &Node) -> Node {
    segments.iter().rev().fold(value.clone(), |below, segment| Node::mapping(vec![(segment.clone(), below)]))
}

/// The mistake of a variant that sets a key of the matrix.
pub(super) fn conflict(axes: &[Axis<'_>], variant: &Node) -> Option<Mistake> {
    axes.iter().find_map(|axis| {
        let mut node = variant;
        let mut last = None;
        for segment in &axis.segments {
            // A text or `null` in place of a mapping replaces the setting as well.
            let Some((key, value)) = node.entry(&segment.text) else {
                match node.value {
                    Value::Mapping(_) => return None,
                    Value::Null | Value::Scalar(_) | Value::Sequence(_) => break,
                }
            };
            last = Some(key.span);
            node = value;
        }
        let message = format!("the matrix sets `{}`, too; only one of the two can", axis.key.text);
        Some(Mistake::new(last?, message).also(axis.key.span, "the matrix sets it here"))
    })
}
