//! The arguments of `plumb export`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use super::error::ArgumentError;

/// The formats of other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Slots: a row for each, a column for each metric and statistic.
    Csv,
    /// The same with types, and with units and meanings in the file's metadata.
    Parquet,
    /// The meaning of both formats' columns: units, directions and descriptions, as CSV.
    Columns,
    /// OpenTelemetry's traces and metrics as lines of JSON, as its file exporter writes them.
    Otlp,
    /// Prometheus' text, such as for the textfile collector of its node exporter.
    Prometheus,
}

/// `plumb export`.
#[derive(Debug, Args)]
pub struct ExportArguments {
    /// The run directories; runs of any experiments can be together.
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// The format to write.
    #[arg(long, value_enum)]
    pub format: Option<ExportFormat>,
    /// The file to write; standard output if absent.
    #[arg(long, value_name = "FILE", requires = "format")]
    pub output: Option<PathBuf>,
    /// Send traces and metrics to the collector of OpenTelemetry at this URL, by OTLP over HTTP: `http://collector:4318`.
    #[arg(long, value_name = "URL", conflicts_with = "format")]
    pub to: Option<String>,
    /// A header for the collector; may be given more than once. Others see it in the list of processes, so give secrets by
    /// OTEL_EXPORTER_OTLP_HEADERS.
    #[arg(long = "header", value_name = "NAME=VALUE", conflicts_with = "format")]
    pub headers: Vec<HeaderArgument>,
}

/// `x-scope=lab`: a header of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderArgument {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

impl FromStr for HeaderArgument {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let (name, value) = text.split_once('=').ok_or(ArgumentError::NoHeader)?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(ArgumentError::HeaderName(name.to_owned()));
        }
        if value.chars().any(char::is_control) {
            return Err(ArgumentError::HeaderValue(name.to_owned()));
        }
        Ok(Self { name: name.to_owned(), value: value.to_owned() })
    }
}
