//! `plumb audit FILE…`: says what a document's numbers support.

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

use plumb_host::named_file;
use plumb_readers::audit::{Audit, Rule, audit as examine};
use plumb_report::sheet::{Sheet, Tone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::AuditArguments;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// The largest document, in bytes. Texts written for people are smaller.
const BYTES_MAX: u64 = 16 << 20;

/// The name and version of the format.
const FORMAT: &str = "plumbline.audit/1";

/// An audit of the numbers in some documents.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "plumbline.audit/1", deny_unknown_fields)]
pub struct AuditDocument {
    /// Always `plumbline.audit/1`.
    #[schemars(extend("const" = FORMAT))]
    format: String,
    /// The outputs and tables that were read.
    found: Vec<FoundDocument>,
    /// Outputs and tables with figures that were not read.
    not_read: Vec<NotReadDocument>,
    /// The conclusions that the numbers allow, in sentences.
    conclusions: Vec<String>,
    /// The ratios that the conclusions state, in the same order.
    ratios: Vec<RatioDocument>,
    /// Findings of figures that mislead or are missing.
    findings: Vec<FindingDocument>,
    /// Experiments that would settle the questions, one for each file that has any.
    experiments: Vec<String>,
}

/// An output or a table.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FoundDocument {
    /// The file, as it was given.
    file: String,
    /// The line, from 1.
    line: usize,
    /// A description, in a sentence.
    what: String,
}

/// An output or a table that was not read.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct NotReadDocument {
    /// The file, as it was given.
    file: String,
    /// The line, from 1.
    line: usize,
    /// The output or table, and why it was not read.
    why: String,
    /// Whether it is the output of a tool whose reader refused it.
    failure: bool,
}

/// A figure divided by a comparable one: the same metric and unit, and one named difference.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RatioDocument {
    /// The file, as it was given.
    file: String,
    /// The line of the figure that was divided, from 1.
    line: usize,
    /// The rule that allows the ratio; `plumb audit --explain` says what it checks.
    rule: &'static str,
    /// The metric of both figures.
    metric: String,
    /// The row, column or run of the figure that was divided.
    of: String,
    /// The row, column or run of the other figure.
    over: String,
    /// The setting of both; may be empty.
    at: String,
    /// The ratio.
    ratio: f64,
    /// Which direction is an improvement.
    better: plumb_model::Better,
}

/// Something that a reader should know before relying on a number.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FindingDocument {
    /// The file, as it was given.
    file: String,
    /// The line, from 1.
    line: usize,
    /// The rule that found it; `plumb audit --explain` says what it checks.
    rule: &'static str,
    /// The finding, in a few words.
    what: String,
    /// Why, with the numbers that prove it.
    why: String,
}

/// Reads documents and says what their numbers support.
pub fn audit(arguments: &AuditArguments) -> Outcome {
    if let Some(rule) = arguments.explain {
        explain(rule)?;
        return Ok(HOLDS);
    }
    let mut audits = Vec::new();
    for file in &arguments.files {
        audits.push((file.display().to_string(), examine(&read_text(file)?, plumb_report::notice)));
    }
    if let Some(path) = &arguments.experiment {
        write_experiment(path, &audits)?;
    }
    if arguments.json {
        output::json(&document(&audits))?;
    } else {
        let mut sheet = Sheet::new(&output::style(120));
        for (file, audit) in &audits {
            show(&mut sheet, file, audit, arguments.experiment.is_some());
        }
        output::painted(&sheet.finish())?;
    }
    Ok(HOLDS)
}

fn explain(rule: Rule) -> Result<(), Failure> {
    let mut sheet = Sheet::new(&output::style(100));
    sheet.title(&format!("{}: {}", rule.name(), rule.what()));
    sheet.text(Tone::Quiet, rule.checks());
    sheet.text(Tone::Quiet, &format!("Source: {}", rule.source()));
    output::painted(&sheet.finish())
}

fn read_text(file: &Path) -> Result<String, Failure> {
    let usage = |error: plumb_host::Error| Failure::usage(format!("failed to {error}"));
    let bytes = if file.as_os_str() == "-" {
        standard_input()?
    } else {
        named_file::read_at_most(file, BYTES_MAX).map_err(usage)?
    };
    let unpacked = plumb_readers::unpacked(bytes, BYTES_MAX);
    let bytes = unpacked
        .map_err(|error| Failure::usage(format!("failed to audit {}: failed to {error}", file.display())))?;
    Ok(plumb_readers::decoded(bytes))
}

/// Reads standard input, up to the same limit.
fn standard_input() -> Result<Vec<u8>, Failure> {
    let failed = |reason: String| Failure::usage(format!("failed to read standard input: {reason}"));
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(failed(format!("it is larger than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(bytes)
}

fn write_experiment(path: &Path, audits: &[(String, Audit)]) -> Result<(), Failure> {
    let Some(text) = audits.iter().find_map(|(_, audit)| audit.experiment.as_ref()) else {
        return Err(Failure::usage(format!(
            "{} was not written: the text has no output or table that an experiment could repeat",
            path.display()
        )));
    };
    let options = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let written = options.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(|error| Failure::usage(format!("failed to write {}: {error}", path.display())))?;
    output::message(&format!("wrote {0}; look at its plan with: plumb check {0}", path.display()));
    Ok(())
}

fn show(sheet: &mut Sheet, file: &str, audit: &Audit, is_written: bool) {
    sheet.title(file);
    if audit.found.is_empty() && audit.not_read.is_empty() {
        sheet.text(
            Tone::Quiet,
            "Nothing was read: the text has no output of a known tool, and no table of results in Markdown or a grid.",
        );
    }
    for (line, what) in &audit.found {
        sheet.signed(Tone::Quiet, "·", (&format!("line {line}"), 10), what);
    }
    for left in &audit.not_read {
        let (tone, sign) = if left.is_failure { (Tone::Bad, "✗") } else { (Tone::Doubt, "?") };
        sheet.signed(tone, sign, (&format!("line {}", left.line), 10), &format!("not read: {}", left.why));
    }
    if audit.found.is_empty() && audit.findings.is_empty() {
        return;
    }
    sheet.title("What can be concluded");
    if audit.conclusions.is_empty() {
        sheet.text(
            Tone::Quiet,
            "No ratio: no two figures have the same metric and differ in a single named thing.",
        );
    }
    for conclusion in &audit.conclusions {
        sheet.signed(Tone::Good, "·", ("", 0), &conclusion.to_string());
    }
    sheet.title(&plumb_report::plural(audit.findings.len(), "finding"));
    for finding in &audit.findings {
        let label = format!("line {}", finding.line);
        let text = format!("{}: {} [{}]", finding.rule.what(), finding.why, finding.rule.name());
        sheet.signed(Tone::Doubt, "!", (&label, 10), &text);
    }
    if audit.experiment.is_some() && !is_written {
        sheet.block();
        sheet.text(
            Tone::Quiet,
            "An experiment that would settle it: plumb audit FILE --experiment settle.yaml",
        );
    }
}

fn document(audits: &[(String, Audit)]) -> AuditDocument {
    let mut document = AuditDocument {
        format: FORMAT.to_owned(),
        found: Vec::new(),
        not_read: Vec::new(),
        conclusions: Vec::new(),
        ratios: Vec::new(),
        findings: Vec::new(),
        experiments: Vec::new(),
    };
    for (file, audit) in audits {
        add(&mut document, file, audit);
    }
    document
}

fn add(document: &mut AuditDocument, file: &str, audit: &Audit) {
    let file = || file.to_owned();
    let found = audit.found.iter();
    document.found.extend(found.map(|(line, what)| FoundDocument {
        file: file(),
        line: *line,
        what: what.clone(),
    }));
    document.not_read.extend(audit.not_read.iter().map(|left| NotReadDocument {
        file: file(),
        line: left.line,
        why: left.why.clone(),
        failure: left.is_failure,
    }));
    document.conclusions.extend(audit.conclusions.iter().map(ToString::to_string));
    document.ratios.extend(audit.conclusions.iter().map(|ratio| RatioDocument {
        file: file(),
        line: ratio.line,
        rule: ratio.rule.name(),
        metric: ratio.metric.clone(),
        of: ratio.of.clone(),
        over: ratio.over.clone(),
        at: ratio.at.clone(),
        ratio: ratio.value,
        better: ratio.better,
    }));
    document.findings.extend(audit.findings.iter().map(|finding| FindingDocument {
        file: file(),
        line: finding.line,
        rule: finding.rule.name(),
        what: finding.rule.what().to_owned(),
        why: finding.why.clone(),
    }));
    document.experiments.extend(audit.experiment.clone());
}
