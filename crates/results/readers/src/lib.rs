//! Readers of other load tools: their output as text in, a measurement in Plumbline's metrics and units out.
//!
//! Each tool has a module, which also knows where the tool's numbers mislead: a unit that is not what it says, samples that were
//! invented or dropped, a threshold whose `true` means failure. Such a trap becomes a warning of the measurement. A number that
//! cannot be what its label says is left out.
//!
//! `audit/` reads whole documents with such outputs in them, and says what their numbers support.
//!
//! This is pure. Files, processes and clocks are the callers' business, whether they import a file or run the tool.

pub mod audit;
mod door;
mod error;
mod figure;
mod format;
mod json;
mod metrics;
mod nearest;
mod source;
mod text;
mod tool_run;

mod ab;
mod dbench;
mod fio;
mod h2load;
mod hlog;
mod hyperfine;
mod iperf3;
mod k6;
mod mapped;
mod netperf;
mod oha;
mod openssl;
mod qemu;
mod qperf;
mod sockperf;
mod vegeta;
mod wrk;

pub use door::decoded;
pub use error::ReadError;
pub use format::{FORMATS, Format, format_named, only, read_as, read_at, read_one, read_runs};
pub use mapped::{Column, ColumnError, read_mapped};
pub use source::{Way, read_from, unpacked};
pub use tool_run::{NoReading, Sum, ToolRun};
