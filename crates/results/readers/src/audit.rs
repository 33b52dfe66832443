//! Reads a document's tool outputs and tables, and says what its numbers support and where they mislead.
//!
//! A README, an issue or a paper's appendix is text with outputs pasted into it. Outputs are read as `plumb import` reads them,
//! tables by their headings. Rules then report conclusions that do not follow: arithmetic that does not close, a metric that leaves out
//! the change, a difference without a second run. A rule reports only what the numbers in the text prove, and names their line.

mod alternatives;
mod cells;
mod document;
mod experiment;
mod figures;
mod finding;
mod headings;
mod loads;
mod percentiles;
mod ratios;
mod repetitions;
mod rule;
mod runs;
mod sameness;
mod series;
mod tables;
mod together;
mod units;
mod words;

#[cfg(test)]
mod correct;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use plumb_model::Notice;

use crate::audit::document::Document;

pub use crate::audit::finding::{Finding, NotRead};
pub use crate::audit::ratios::Ratio;
pub use crate::audit::rule::Rule;

/// The result of an audit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Audit {
    /// The outputs and tables that were read, each in a sentence, with its line.
    pub found: Vec<(usize, String)>,
    /// Outputs and tables with figures that were not read, in the order of the text.
    pub not_read: Vec<NotRead>,
    /// Ratios of comparable figures: all that can be concluded.
    pub conclusions: Vec<Ratio>,
    /// Misleading or missing numbers, in the order of the text.
    pub findings: Vec<Finding>,
    /// An experiment that would settle the question; `None` if Plumbline can measure nothing in the text.
    pub experiment: Option<String>,
}

/// Reads a document and says what its numbers support. `told` turns a notice into a sentence.
#[must_use]
pub fn audit(text: &str, told: fn(&Notice) -> String) -> Audit {
    let document = Document::new(text);
    let (tables, is_of_table) = document.tables();
    let (outputs, refused) = document.outputs(&is_of_table);
    let (understood, not_understood) = cells::understood(&tables);
    let mut audit = Audit::default();
    audit.found.extend(outputs.iter().map(|output| (output.line, runs::described(output))));
    audit.found.extend(understood.iter().map(|known| (known.table.line, cells::described(known))));
    audit.not_read = [refused, not_understood, document.foreign_tables()].concat();
    audit.not_read.sort();
    audit.conclusions.extend(ratios::of_runs(&outputs));
    audit.conclusions.extend(cells::conclusions(&understood));
    audit.findings.extend(outputs.iter().flat_map(|output| runs::findings(output, told)));
    audit.findings.extend(together::findings(&document, &outputs));
    audit.findings.extend(cells::findings(&document, &understood));
    audit.findings.extend(words::findings(&document));
    audit.findings.sort_by_key(|finding| finding.line);
    audit.findings = merged(audit.findings);
    audit.conclusions.dedup();
    audit.found.sort();
    audit.experiment = experiment::settling(&document, &outputs, &tables);
    audit
}

/// Merges findings that differ only in their lines and figures into the first of them.
fn merged(findings: Vec<Finding>) -> Vec<Finding> {
    let mut kept: Vec<(Finding, Vec<usize>)> = Vec::new();
    let mut known: BTreeMap<(Rule, String), usize> = BTreeMap::new();
    for finding in findings {
        match known.entry((finding.rule, without_figures(&finding.why))) {
            Entry::Occupied(at) => kept[*at.get()].1.push(finding.line),
            Entry::Vacant(free) => {
                free.insert(kept.len());
                kept.push((finding, Vec::new()));
            }
        }
    }
    let told = kept.into_iter().map(|(mut finding, mut lines)| {
        lines.retain(|line| *line != finding.line);
        lines.dedup();
        if !lines.is_empty() {
            finding.why += &format!(" The same applies to {}.", words::at_lines(lines));
        }
        finding
    });
    told.collect()
}

fn without_figures(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit() && !".,".contains(*c)).collect()
}
