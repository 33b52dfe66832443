//! The formats that can be read, and which one a text has.

use crate::error::ReadError;
use crate::json::documents;
use crate::text::{plain, unclear};
use crate::tool_run::ToolRun;
use crate::{
    ab, dbench, fio, h2load, hlog, hyperfine, iperf3, k6, mapped, netperf, oha, openssl, qemu, qperf,
    sockperf, vegeta, wrk,
};

/// What a tool writes, in one of its forms.
#[derive(Clone, Copy)]
pub struct Format {
    /// The name by which a user can ask for it.
    pub name: &'static str,
    /// What it is, for lists.
    pub about: &'static str,
    /// Whether a text looks like it.
    is: fn(&str) -> bool,
    /// What the text says; the reason completes "failed to read it as wrk: ".
    read: fn(&str) -> Result<Vec<ToolRun>, String>,
}

impl Format {
    /// Whether a text looks like it.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        (self.is)(&plain(text))
    }
}

/// Formats of which commas separate columns, always thousands, or compiler options. In JSON they separate values.
const WITH_COMMAS: [&str; 7] =
    ["k6-points", "h2load-log", "hlog", "ab-times", "ab-percentiles", "qperf", "openssl"];

/// Every format. Those of which the first lines are enough come first, because their files are large.
pub const FORMATS: &[Format] = &[
    Format {
        name: "k6-points",
        about: "k6's points, of --out json",
        is: k6::is_points,
        read: k6::read_points,
    },
    Format {
        name: "h2load-log",
        about: "h2load's times, of --log-file",
        is: h2load::is_log,
        read: h2load::read_log,
    },
    Format {
        name: "hlog",
        about: "HdrHistogram's log of intervals, with --column",
        is: hlog::is,
        read: hlog::unit_is_missing,
    },
    Format { name: "ab-times", about: "ab's times, of -g", is: ab::is_times, read: ab::read_times_of_each },
    Format {
        name: "k6",
        about: "k6's JSON summaries, of --summary-export and handleSummary",
        is: k6::is_summary,
        read: k6::read_summary,
    },
    Format { name: "wrk", about: "wrk's and wrk2's text", is: wrk::is, read: wrk::read },
    Format {
        name: "fio",
        about: "fio's JSON, of --output-format=json or json+",
        is: fio::is,
        read: fio::read,
    },
    Format {
        name: "hyperfine",
        about: "hyperfine's JSON, of --export-json",
        is: hyperfine::is,
        read: hyperfine::read,
    },
    Format { name: "ab", about: "ab's text", is: ab::is, read: ab::read },
    Format {
        name: "ab-percentiles",
        about: "ab's percentiles, of -e",
        is: ab::is_percentiles,
        read: ab::read_percentiles,
    },
    Format { name: "k6-text", about: "k6's summary as text", is: k6::is_text, read: k6::read_text },
    Format {
        name: "iperf3",
        about: "iperf3's JSON, of -J and --json-stream",
        is: iperf3::is,
        read: iperf3::read,
    },
    Format { name: "h2load", about: "h2load's text", is: h2load::is, read: h2load::read },
    Format {
        name: "h2load-json",
        about: "h2load's JSON, of --output-file",
        is: h2load::is_json,
        read: h2load::read_json,
    },
    Format {
        name: "sockperf",
        about: "sockperf's text, and the log of --full-log",
        is: sockperf::is,
        read: sockperf::read,
    },
    Format { name: "qperf", about: "qperf's text", is: qperf::is, read: qperf::read },
    Format {
        name: "netperf",
        about: "netperf's KEY=VALUE lines, of -k",
        is: netperf::is,
        read: netperf::read,
    },
    Format { name: "dbench", about: "the summary of dbench's script", is: dbench::is, read: dbench::read },
    Format {
        name: "openssl",
        about: "openssl speed's text, and that of -mr",
        is: openssl::is,
        read: openssl::read,
    },
    Format { name: "oha", about: "oha's JSON, of --output-format json", is: oha::is, read: oha::read },
    Format {
        name: "vegeta",
        about: "vegeta's JSON, of report -type=json",
        is: vegeta::is,
        read: vegeta::read,
    },
    Format {
        name: "qemu",
        about: "QEMU's info migrate, and the JSON of query-migrate",
        is: qemu::is,
        read: qemu::read,
    },
    Format {
        name: "hgrm",
        about: "HdrHistogram's percentiles, with --column",
        is: mapped::is_hgrm,
        read: mapped::read_hgrm,
    },
    Format {
        name: "prometheus",
        about: "Prometheus' JSON of a range, with --column",
        is: mapped::is_prometheus,
        read: mapped::read_prometheus,
    },
];

/// The format of that name.
#[must_use]
pub fn format_named(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Recognises a text and reads the runs in it.
///
/// # Errors
/// When it looks like none of the formats, or is not whole, or the tool says in it that it failed.
pub fn read(text: &str) -> Result<Vec<ToolRun>, ReadError> {
    let text = plain(text);
    let Some(format) = FORMATS.iter().find(|format| (format.is)(&text)) else {
        return Err(ReadError::Unknown { known: FORMATS.iter().map(|format| format.name).collect() });
    };
    read_plain(format, &text)
}

/// As [`read`], of a format that is known.
///
/// # Errors
/// As [`read`].
pub fn read_as(format: &Format, text: &str) -> Result<Vec<ToolRun>, ReadError> {
    read_plain(format, &plain(text))
}

fn read_plain(format: &Format, text: &str) -> Result<Vec<ToolRun>, ReadError> {
    let malformed = |reason| ReadError::Malformed { format: format.name, reason };
    let has_commas = WITH_COMMAS.contains(&format.name) || !documents(text).0.is_empty();
    if let Some((line, column, number)) = unclear(text).filter(|_| !has_commas) {
        return Err(malformed(format!(
            "line {line}, column {column}: `{number}` could be read as two different numbers; write it without separators"
        )));
    }
    let mut runs = (format.read)(text).map_err(malformed)?;
    runs.retain(|run| !run.metrics.is_empty());
    if runs.is_empty() { Err(malformed("it has no value of any metric".to_owned())) } else { Ok(runs) }
}
