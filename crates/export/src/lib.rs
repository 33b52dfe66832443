//! Runs in the formats of other programs: CSV and Parquet of slots, OpenTelemetry's traces and metrics, Prometheus' text.
//!
//! Every form is a pure function from runs and their judgements to a text or bytes, so that the command, the server and a
//! test give the same. Nothing is concluded here, and nothing is read, written or sent. Text from outside has the form that
//! reports show: a line break is a space, and what a terminal would obey is an escape.

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
