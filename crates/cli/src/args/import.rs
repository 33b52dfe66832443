//! `plumb import`: what other tools wrote.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

use plumb_model::name;
use plumb_readers::{Column, FORMATS};

use super::error::ArgumentError;
use super::names::NameParser;
use super::shared::MeasurementArguments;

/// The value of `--format` that lists the formats.
pub const FORMAT_HELP: &str = "help";

/// `plumb import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// Files to read and print, each by itself; `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present_any = ["variants", "format"], conflicts_with = "variants")]
    pub files: Vec<PathBuf>,
    /// A variant and the files of its runs, one run a file; `*` and `?` stand for what they do in a shell. May be given again
    /// for more variants, of which the first is the baseline, and for more files of one.
    #[arg(long = "variant", value_name = "NAME=FILES")]
    pub variants: Vec<VariantFiles>,
    /// A claim to judge, such as `after.http_reqs >= 1.2 * before.http_reqs`; may be given more than once.
    #[arg(long = "claim", value_name = "CLAIM", requires = "variants")]
    pub claims: Vec<String>,
    /// The format of the files, if it is not recognised; `help` lists the formats.
    #[arg(long, value_name = "FORMAT", value_parser = formats(), hide_possible_values = true)]
    pub format: Option<String>,
    /// A column of a CSV with its unit, such as `latency:ms`, `rate:1/s` or `size:KiB`; may be given more than once. Of an .hgrm,
    /// an .hlog and Prometheus' JSON, which have no columns, the name of the metric and its unit.
    #[arg(long = "column", value_name = "NAME:UNIT", conflicts_with = "format")]
    pub columns: Vec<Column>,
    /// The name of the run, for its reports and its directory.
    #[arg(long, value_name = "NAME", default_value = "import", requires = "variants")]
    pub name: String,
    /// The run directory to write; `plumb-runs/NAME-TIME` if absent.
    #[arg(long, value_name = "DIR", requires = "variants")]
    pub output: Option<PathBuf>,
    /// Print the whole report: every metric and all warnings.
    #[arg(long, conflicts_with = "json", requires = "variants")]
    pub full: bool,
    /// See [`MeasurementArguments`].
    #[command(flatten)]
    pub shown: MeasurementArguments,
}

fn formats() -> NameParser {
    NameParser { names: format_names().collect(), near: near_formats }
}

fn format_names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(|format| format.name).chain([FORMAT_HELP])
}

fn near_formats(wrong: &str) -> Vec<&'static str> {
    vec![name::did_you_mean(wrong, format_names()).unwrap_or(FORMAT_HELP)]
}

/// `before=a/*.json`: a variant, and a pattern for the files of its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariantFiles {
    /// The variant's name.
    pub name: String,
    /// The pattern.
    pub pattern: String,
}

impl FromStr for VariantFiles {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let Some((name, pattern)) = text.split_once('=') else {
            return Err(ArgumentError::NoFiles);
        };
        if let Some(fault) = name::variant_fault(name) {
            return Err(ArgumentError::Variant { name: name.to_owned(), fault });
        }
        if pattern.is_empty() {
            return Err(ArgumentError::NoFile(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), pattern: pattern.to_owned() })
    }
}
