//! `plumb audit FILE…`: what a document's numbers support.

#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::Path;

use plumb_audit::{Audit, audit as examine};
use plumb_report::TextStyle;
use plumb_report::sheet::{Sheet, Tone};
use schemars::JsonSchema;
use serde::Serialize;

use crate::args::AuditArguments;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::output;

/// No document for people is larger, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The name and version of the format.
const FORMAT: &str = "plumbline.audit/1";

/// What the numbers of some documents support.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "plumbline.audit/1", deny_unknown_fields)]
struct AuditDocument {
    /// Always `plumbline.audit/1`.
    #[schemars(extend("const" = FORMAT))]
    format: String,
    /// The outputs and tables that were read.
    found: Vec<FoundDocument>,
    /// What can be concluded, in sentences.
    conclusions: Vec<String>,
    /// What misleads or is missing.
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
    /// Its line, from 1.
    line: usize,
    /// What it is, in a sentence.
    what: String,
}

/// Something that a reader should know before relying on a number.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct FindingDocument {
    /// The file, as it was given.
    file: String,
    /// Its line, from 1.
    line: usize,
    /// What is the matter, in a few words.
    what: String,
    /// Why, with the numbers that prove it.
    why: String,
}

/// Reads documents and says what their numbers support.
pub fn audit(arguments: &AuditArguments) -> Outcome {
    let mut audits = Vec::new();
    for file in &arguments.files {
        audits.push((file.display().to_string(), examine(&read(file)?)));
    }
    if let Some(path) = &arguments.experiment {
        write_experiment(path, &audits)?;
    }
    if arguments.json {
        output::json(&document(&audits))?;
    } else {
        let style = TextStyle { colour: output::colour_on_stdout(), width: output::width(120) };
        let mut sheet = Sheet::new(&style);
        for (file, audit) in &audits {
            show(&mut sheet, file, audit, arguments.experiment.is_some());
        }
        output::painted(&sheet.finish())?;
    }
    Ok(HOLDS)
}

/// The JSON Schema of `--json`.
pub fn audit_json_schema() -> String {
    plumb_report::pretty(&schemars::schema_for!(AuditDocument))
}

fn read(file: &Path) -> Result<String, Failure> {
    let failed = |reason: String| Failure::usage(format!("failed to read {}: {reason}", file.display()));
    let mut bytes = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(file).and_then(|opened| opened.take(BYTES_MAX + 1).read_to_end(&mut bytes))
    };
    read.map_err(|error| failed(error.to_string()))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(failed(format!("it has more than {} MiB, and is no document", BYTES_MAX >> 20)));
    }
    // What is not UTF-8 is no number.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn write_experiment(path: &Path, audits: &[(String, Audit)]) -> Result<(), Failure> {
    let Some(text) = audits.iter().find_map(|(_, audit)| audit.experiment.as_ref()) else {
        return Err(Failure::usage(format!(
            "{} is not written: the text has no output or table that an experiment could repeat",
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
    sheet.block();
    sheet.title(file);
    if audit.found.is_empty() {
        sheet.text(Tone::Quiet, "It has no output of a known tool and no table of figures.");
        return;
    }
    for (line, what) in &audit.found {
        sheet.signed(Tone::Quiet, "·", (&format!("line {line}"), 10), what);
    }
    sheet.block();
    sheet.title("What can be concluded");
    if audit.conclusions.is_empty() {
        sheet.text(Tone::Quiet, "Nothing about a difference: there is one measurement.");
    }
    for conclusion in &audit.conclusions {
        sheet.signed(Tone::Good, "·", ("", 0), conclusion);
    }
    sheet.block();
    sheet.title(&plumb_report::plural(audit.findings.len(), "finding"));
    for finding in &audit.findings {
        let label = format!("line {}", finding.line);
        sheet.signed(Tone::Doubt, "!", (&label, 10), &format!("{}: {}", finding.what, finding.why));
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
    let found = audits.iter().flat_map(|(file, audit)| {
        audit.found.iter().map(|(line, what)| FoundDocument {
            file: file.clone(),
            line: *line,
            what: what.clone(),
        })
    });
    let findings = audits.iter().flat_map(|(file, audit)| {
        audit.findings.iter().map(|finding| FindingDocument {
            file: file.clone(),
            line: finding.line,
            what: finding.what.clone(),
            why: finding.why.clone(),
        })
    });
    AuditDocument {
        format: FORMAT.to_owned(),
        found: found.collect(),
        conclusions: audits.iter().flat_map(|(_, audit)| audit.conclusions.clone()).collect(),
        findings: findings.collect(),
        experiments: audits.iter().filter_map(|(_, audit)| audit.experiment.clone()).collect(),
    }
}
