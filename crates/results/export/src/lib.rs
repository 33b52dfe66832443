//! Runs in the formats of other programs: CSV and Parquet of slots, OpenTelemetry's traces and metrics,
//! Prometheus' text.
//!
//! Every format is a pure function from runs and their judgements to text or bytes, so that the command, the
//! server and the tests give the same result. This crate draws no conclusions, and it reads, writes and sends
//! nothing. Text from outside looks as it does in reports: line breaks become spaces, and terminal control
//! characters become escapes.

mod csv;
mod error;
mod figures;
mod identity;
mod otlp;
mod parquet;
mod prometheus;
mod slots;

pub use self::csv::{columns_csv, slots_csv};
pub use self::error::ExportError;
pub use self::otlp::{metrics, traces};
pub use self::parquet::slots_parquet;
pub use self::prometheus::{PROMETHEUS_TYPE, RunSamples, prometheus};

#[cfg(test)]
mod fixture;
