//! The formats that can be read, and which one a text has.

use crate::door::{Part, fenced, parts, plain, unfenced};
use crate::error::ReadError;
use crate::figure::Unreadable;
use crate::json::{documents, quoted_figures, unquoted};
use crate::nearest::likeliest;
use crate::tool_run::{CUT, NoReading, ToolRun};
use crate::{
    ab, dbench, fio, h2load, hlog, hyperfine, iperf3, k6, mapped, netperf, oha, openssl, qemu, qperf,
    sockperf, vegeta, wrk,
};

/// One form of a tool's output.
#[derive(Clone, Copy)]
pub struct Format {
    /// The name by which a user can ask for it.
    pub name: &'static str,
    /// A description for lists.
    pub about: &'static str,
    /// Whether a text looks like it.
    is: fn(&str) -> bool,
    /// Reads the runs in a text; the reason of a fault completes "failed to read it as wrk: ".
    read: Reader,
    key: Key,
    /// Whether the end of the output is there.
    is_whole: fn(&str) -> bool,
    /// Whether lines may be missing at the end of a text without a trace.
    is_open: fn(&str) -> bool,
    /// Whether `is_whole` also checks the digits of the last figure.
    is_exact: bool,
    /// Whether only a user's `--column` says what its figures are.
    is_nameless: bool,
    /// Whether it is recognised by its first line.
    is_at_start: bool,
}

type Reader = fn(&str) -> Result<Vec<ToolRun>, Unreadable<'_>>;

/// The lines that a run prints once: when one comes again, the next run has begun.
#[derive(Clone, Copy)]
enum Key {
    /// None; `read` separates runs itself.
    Unknown,
    /// Lines that begin with one of these.
    Labels(&'static [&'static str]),
    /// Lines for which this returns a key.
    Line(fn(&str) -> Option<&str>),
}

impl Key {
    fn parts(self, text: &str) -> Vec<Part<'_>> {
        match self {
            Self::Unknown => vec![Part { first_line: 1, run_line: 1, text }],
            Self::Labels(labels) => {
                parts(text, |line| labels.iter().copied().find(|label| line.starts_with(label)))
            }
            Self::Line(key) => parts(text, key),
        }
    }
}

impl Format {
    const fn new(name: &'static str, about: &'static str, is: fn(&str) -> bool, read: Reader) -> Self {
        Self {
            name,
            about,
            is,
            read,
            key: Key::Unknown,
            is_whole: |_| true,
            is_open: |_| false,
            is_exact: false,
            is_nameless: false,
            is_at_start: false,
        }
    }

    const fn with_key(self, key: fn(&str) -> Option<&str>) -> Self {
        Self { key: Key::Line(key), ..self }
    }

    const fn with_labels(self, labels: &'static [&'static str]) -> Self {
        Self { key: Key::Labels(labels), ..self }
    }

    const fn with_end(self, is_whole: fn(&str) -> bool) -> Self {
        Self { is_whole, ..self }
    }

    /// As [`Self::with_end`], for a tool whose last figure has a fixed number of decimals.
    const fn with_exact_end(self, is_whole: fn(&str) -> bool) -> Self {
        Self { is_exact: true, ..self.with_end(is_whole) }
    }

    const fn at_start(self) -> Self {
        Self { is_at_start: true, ..self }
    }

    const fn nameless(self) -> Self {
        Self { is_nameless: true, ..self }
    }

    /// The number of lines varies, and nothing follows the last one.
    const fn with_open_end(self) -> Self {
        self.with_open_end_if(|_| true)
    }

    const fn with_open_end_if(self, is_open: fn(&str) -> bool) -> Self {
        Self { is_open, ..self }
    }

    /// The part of a text whose end has no mark, such as `ab's times`.
    fn open_end(&self, text: &str) -> Option<&'static str> {
        self.about.split(',').next().filter(|_| (self.is_open)(text))
    }

    /// Whether a text looks like it.
    #[must_use]
    pub fn is(&self, text: &str) -> bool {
        (self.is)(&unfenced(&plain(text)))
    }
}

/// Every format. Those of which the first lines are enough come first, because their files are large.
pub const FORMATS: &[Format] = &[
    Format::new("k6-points", "k6's points, of --out json", k6::is_points, k6::read_points)
        .at_start()
        .with_open_end(),
    Format::new("k6-csv", "k6's points, of --out csv", k6::is_csv, k6::read_csv).at_start().with_open_end(),
    Format::new("h2load-log", "h2load's times, of --log-file", h2load::is_log, h2load::read_log)
        .at_start()
        .with_open_end(),
    Format::new("hlog", "HdrHistogram's log of intervals, with --column", hlog::is, hlog::unit_is_missing)
        .nameless(),
    Format::new("ab-times", "ab's times, of -g", ab::is_times, ab::read_times_of_each)
        .at_start()
        .with_key(ab::table_key)
        .with_open_end(),
    Format::new(
        "k6",
        "k6's JSON summaries, of --summary-export and handleSummary",
        k6::is_summary,
        k6::read_summary,
    ),
    Format::new("wrk", "wrk's and wrk2's text", wrk::is, wrk::read_runs)
        .with_key(wrk::key)
        .with_end(wrk::is_whole),
    Format::new("fio", "fio's JSON, of --output-format=json or json+", fio::is, fio::read_runs),
    Format::new("hyperfine", "hyperfine's JSON, of --export-json", hyperfine::is, hyperfine::read_runs),
    Format::new("ab", "ab's text", ab::is, ab::read_runs)
        .with_labels(ab::ONCE)
        .with_end(ab::is_whole)
        .with_open_end_if(ab::is_excerpt),
    Format::new("ab-percentiles", "ab's percentiles, of -e", ab::is_percentiles, ab::read_percentiles)
        .at_start()
        .with_exact_end(ab::is_whole_csv)
        .with_key(ab::table_key),
    Format::new("k6-text", "k6's summary as text", k6::is_text, k6::read_text)
        .with_key(k6::text_key)
        .with_end(k6::is_whole_text)
        .with_open_end_if(k6::is_open_text),
    Format::new("iperf3", "iperf3's JSON, of -J and --json-stream", iperf3::is, iperf3::read_runs),
    Format::new("h2load", "h2load's text", h2load::is, h2load::read_runs)
        .with_labels(h2load::ONCE)
        .with_end(h2load::is_whole)
        .with_open_end_if(h2load::is_excerpt),
    Format::new("h2load-json", "h2load's JSON, of --output-file", h2load::is_json, h2load::read_json),
    Format::new("sockperf", "sockperf's text, and the log of --full-log", sockperf::is, sockperf::read_runs)
        .with_key(sockperf::key)
        .with_exact_end(sockperf::is_whole)
        .with_open_end_if(sockperf::is_excerpt),
    Format::new("qperf", "qperf's text", qperf::is, qperf::read_runs)
        .with_end(qperf::is_whole)
        .with_open_end(),
    Format::new("netperf", "netperf's KEY=VALUE lines, of -k", netperf::is, netperf::read_runs)
        .with_key(netperf::key)
        .with_open_end(),
    Format::new("dbench", "the summary of dbench's script", dbench::is, dbench::read_runs)
        .with_labels(dbench::ONCE)
        .with_end(dbench::is_whole)
        .with_open_end(),
    Format::new("openssl", "openssl speed's text, and that of -mr", openssl::is, openssl::read_runs)
        .with_key(openssl::key)
        .with_end(openssl::is_whole)
        .with_open_end(),
    Format::new("oha", "oha's JSON, of --output-format json", oha::is, oha::read_runs),
    Format::new("vegeta", "vegeta's JSON, of report -type=json", vegeta::is, vegeta::read_runs),
    Format::new("qemu", "QEMU's info migrate, and the JSON of query-migrate", qemu::is, qemu::read_runs)
        .with_end(qemu::is_whole)
        .with_open_end_if(|text| !text.contains('{')),
    Format::new("vegeta-text", "vegeta's text, of report", vegeta::is_text, vegeta::read_text)
        .with_labels(vegeta::ONCE)
        .with_end(vegeta::is_whole),
    Format::new("oha-text", "oha's text", oha::is_text, oha::read_text)
        .with_labels(oha::ONCE)
        .with_end(oha::is_whole)
        .with_open_end(),
    Format::new("hyperfine-text", "hyperfine's text", hyperfine::is_text, hyperfine::read_text)
        .with_end(hyperfine::is_whole_text)
        .with_open_end_if(hyperfine::is_open_text),
    Format::new(
        "hyperfine-markdown",
        "hyperfine's table, of --export-markdown",
        hyperfine::is_markdown,
        hyperfine::read_markdown,
    )
    .with_labels(hyperfine::MARKDOWN_HEAD)
    .with_open_end(),
    Format::new("iperf3-text", "iperf3's text", iperf3::is_text, iperf3::read_text)
        .with_labels(iperf3::ONCE)
        .with_end(iperf3::is_whole_text)
        .with_open_end_if(iperf3::is_of_server),
    Format::new("netperf-text", "netperf's tables", netperf::is_text, netperf::read_text)
        .with_key(netperf::text_key)
        .with_end(netperf::is_whole)
        .with_open_end(),
    Format::new("hgrm", "HdrHistogram's percentiles, with --column", mapped::is_hgrm, mapped::read_hgrm)
        .nameless(),
    Format::new(
        "prometheus",
        "Prometheus' JSON of a range, with --column",
        mapped::is_prometheus,
        mapped::read_prometheus,
    )
    .nameless(),
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
pub fn read_runs(text: &str) -> Result<Vec<ToolRun>, ReadError> {
    read_at(text, 1)
}

/// As [`read_runs`], of a part of a text that begins at this line.
///
/// # Errors
/// As [`read_runs`].
pub fn read_at(text: &str, first_line: usize) -> Result<Vec<ToolRun>, ReadError> {
    let text = plain(text);
    if let Some(read) = read_recognised(&unfenced(&text), first_line) {
        return read;
    }
    // Some formats are recognised only at the start of a text.
    let blocks = fenced(&text).into_iter().map(|(line, block)| (first_line - 1 + line, block));
    let read = blocks.filter_map(|(line, block)| Some((line, read_recognised(&block, line)?))).collect();
    let read = together(read).or_else(|| read_behind_others(&text, first_line));
    read.unwrap_or_else(|| Err(ReadError::Unknown { likeliest: likeliest(&text, first_line) }))
}

/// How many lines may stand before an output, such as a prompt with a command.
const LINES_BEFORE_MAX: usize = 8;

/// Reads a text in which other lines stand before an output.
fn read_behind_others(text: &str, first_line: usize) -> Option<Result<Vec<ToolRun>, ReadError>> {
    let ends = text.match_indices('\n').map(|(at, _)| at + 1).filter(|_| text.len() <= MIXED_BYTES_MAX);
    // An output that follows unreadable JSON must not stand for the whole text.
    let ends = ends.take_while(|at| {
        !text[..*at].lines().any(|line| ["{", "[{"].iter().any(|it| line.trim_start().starts_with(it)))
    });
    let mut rests = (first_line + 1..).zip(ends).take(LINES_BEFORE_MAX);
    let begins = |text: &str| FORMATS.iter().any(|format| format.is_at_start && (format.is)(text));
    let (line, at) = rests.find(|(_, at)| begins(&text[*at..]))?;
    read_recognised(&text[at..], line)
}

/// The runs of blocks, each with its first line. A block that cannot be read becomes a failed run, unless no block can be read.
fn together(
    blocks: Vec<(usize, Result<Vec<ToolRun>, ReadError>)>,
) -> Option<Result<Vec<ToolRun>, ReadError>> {
    let good = blocks.iter().find_map(|(_, read)| read.as_ref().ok()?.first());
    let Some((tool, path)) = good.map(|run| (run.tool, run.path)) else {
        return blocks.into_iter().next().map(|(_, read)| read);
    };
    let runs = blocks.into_iter().flat_map(|(line, read)| {
        read.unwrap_or_else(|error| {
            let failure = NoReading::Unread(format!("failed to {error}"));
            vec![ToolRun { line, ..ToolRun::without(tool, path, failure) }]
        })
    });
    Some(Ok(runs.collect()))
}

/// Reads a text that begins at a line with every format that recognises part of it, and sorts the runs by line. A large text is read with the
/// first one alone.
fn read_recognised(text: &str, first_line: usize) -> Option<Result<Vec<ToolRun>, ReadError>> {
    let mut recognised = FORMATS.iter().filter(|format| (format.is)(text));
    let first = read_plain(recognised.next()?, text, first_line);
    if text.len() > MIXED_BYTES_MAX {
        return Some(first);
    }
    Some(first.map(|mut runs| {
        let mut left_out = Vec::new();
        // wrk2 prints a table of HdrHistogram as part of its text.
        for format in recognised.filter(|format| !format.is_nameless) {
            match read_plain(format, text, first_line) {
                Ok(mut others) => {
                    others.retain(|run| !runs.iter().any(|one| run.is_again(one)));
                    runs.append(&mut others);
                }
                Err(error) => left_out.push(format!("failed to {error}")),
            }
        }
        if left_out.is_empty() {
            // No format may have recognised the rest of the JSON.
            left_out.extend(documents(text).broken.map(|broken| broken.in_words(text, first_line)));
        }
        for reason in left_out {
            runs[0].warn(format!("part of the text was left out: {reason}"));
        }
        runs.sort_by_key(|run| run.line);
        runs
    }))
}

/// Nobody pastes the outputs of several tools into a larger file.
const MIXED_BYTES_MAX: usize = 1 << 20;

/// As [`read_runs`], of a format that is known.
///
/// # Errors
/// As [`read_runs`].
pub fn read_as(format: &Format, text: &str) -> Result<Vec<ToolRun>, ReadError> {
    read_plain(format, &unfenced(&plain(text)), 1)
}

/// Reads the output of a tool that Plumbline called. Only the first format that recognises it counts.
///
/// # Errors
/// When it is not recognised, cannot be read, or failed.
pub fn read_one(text: &str) -> Result<ToolRun, ReadError> {
    let text = unfenced(&plain(text)).into_owned();
    let format = FORMATS.iter().find(|format| (format.is)(&text));
    let format = format.ok_or_else(|| ReadError::Unknown { likeliest: likeliest(&text, 1) })?;
    only(read_plain(format, &text, 1)?)
}

/// The last run, for a tool that was called to make one.
///
/// # Errors
/// When there is none, or it failed.
pub fn only(mut runs: Vec<ToolRun>) -> Result<ToolRun, ReadError> {
    let mut run = runs.pop().ok_or(ReadError::NoResult)?;
    match run.failure.take() {
        Some(failure) => Err(failure.into()),
        None => Ok(run),
    }
}

/// Reads each part of a text, and notes whether its end can be seen. A part that cannot be read becomes a failed run, unless no part can be
/// read.
fn read_plain(format: &Format, text: &str, first_line: usize) -> Result<Vec<ToolRun>, ReadError> {
    let read: Vec<(Part<'_>, Result<Vec<ToolRun>, Unreadable<'_>>)> = format
        .key
        .parts(text)
        .into_iter()
        .map(|part| part.behind(first_line - 1))
        .map(|part| (part, read_part(format, part)))
        .collect();
    let good = read.iter().filter_map(|(_, runs)| runs.as_ref().ok()?.first()).next();
    let Some((tool, path)) = good.map(|run| (run.tool, run.path)) else {
        let fault = read.into_iter().find_map(|(part, runs)| Some(part.why_unread(&runs.err()?)));
        let reason = fault.unwrap_or_else(|| NO_VALUE.to_owned());
        return Err(ReadError::Malformed { format: format.name, reason });
    };
    let runs = read.into_iter().flat_map(|(part, runs)| {
        let unread =
            |fault: Unreadable<'_>| ToolRun::without(tool, path, NoReading::Unread(part.why_unread(&fault)));
        let mut runs = runs.unwrap_or_else(|fault| vec![unread(fault)]);
        for run in &mut runs {
            run.line += part.run_line - 1;
            run.open_end = format.open_end(part.text);
        }
        runs
    });
    Ok(runs.collect())
}

fn read_part<'t>(format: &Format, part: Part<'t>) -> Result<Vec<ToolRun>, Unreadable<'t>> {
    if let Some(fault) = quoted_figure(format, part.text) {
        return Err(fault);
    }
    let is_whole = !documents(part.text).is_cut && (format.is_whole)(part.text);
    let open = open_figure(part.text).filter(|_| !(is_whole && format.is_exact));
    if let Some((lines, at)) = lines_before_last(part.text).zip(open) {
        return read_open(format, part.text, lines, at, is_whole);
    }
    // A last line without its end may have stopped in the middle of a figure.
    let without_last = || lines_before_last(part.text).and_then(|lines| (format.read)(lines).ok());
    let read = if is_whole { None } else { without_last() };
    let (runs, is_cut) = match read.map_or_else(|| (format.read)(part.text), Ok) {
        Ok(runs) => (runs, !is_whole),
        Err(fault) => (without_last().ok_or(fault)?, true),
    };
    with_values(runs, is_cut.then_some(CUT))
}

/// The first text in JSON that takes the place of a number: as a number it would change what is read.
fn quoted_figure<'t>(format: &Format, text: &'t str) -> Option<Unreadable<'t>> {
    let quoted = if text.contains('{') { quoted_figures(text) } else { Vec::new() };
    // Names, versions and options may be texts.
    let result = |run: ToolRun| (run.metrics, run.measurement, run.sums, run.failure);
    let read = |count: usize| {
        let runs = (format.read)(&unquoted(text, &quoted[..count])).ok()?;
        Some(runs.into_iter().map(result).collect::<Vec<_>>())
    };
    let as_written = (!quoted.is_empty()).then(|| read(0))?;
    if read(quoted.len()).is_none_or(|runs| Some(runs) == as_written) {
        return None;
    }
    let counts: Vec<usize> = (1..=quoted.len()).collect();
    let first = &quoted[counts.partition_point(|count| read(*count) == as_written)];
    let reason = format!("`{}` is in quotes, where the tool prints a number", &text[first.clone()]);
    Some(Unreadable::at(text, first.start, reason))
}

/// All but the last line of a text, if that one has no end.
fn lines_before_last(text: &str) -> Option<&str> {
    let end = text.rfind('\n')? + 1;
    (end < text.len()).then(|| &text[..end])
}

/// Where the last figure of a text begins, if nothing stands behind it that shows its end. Of `12ms`, a cut may have left `12m`.
fn open_figure(text: &str) -> Option<usize> {
    let line = text.rsplit('\n').next().unwrap_or(text);
    let figure = line.strip_suffix('m').map_or(line, str::trim_end);
    let before = figure.trim_end_matches(|c: char| c.is_ascii_digit() || ".,".contains(c));
    let is_figure = figure[before.len()..].contains(|c: char| c.is_ascii_digit());
    is_figure.then(|| text.len() - line.len() + before.len())
}

/// Reads a text of which the last figure may lack digits. It counts only if other figures of the output confirm it, so that they would
/// contradict another one. Else it is left out with its line.
fn read_open<'t>(
    format: &Format,
    text: &'t str,
    lines: &str,
    figure: usize,
    is_whole: bool,
) -> Result<Vec<ToolRun>, Unreadable<'t>> {
    let read = |text: &str| (format.read)(text).ok();
    let is_wrong = |runs: &Vec<ToolRun>| runs.iter().any(|run| run.wrong_sums().next().is_some());
    let (all, changed) = (read(text), read(&with_other_figure(text, figure)));
    let is_unused = all == changed;
    let is_confirmed = changed.as_ref().is_some_and(is_wrong);
    if let Some(runs) = all.filter(|runs| is_unused || is_confirmed && !is_wrong(runs)) {
        let open = (!is_unused).then_some(OPEN);
        return with_values(runs, if is_whole { open } else { Some(CUT) });
    }
    let left = read(lines).and_then(|runs| with_values(runs, Some(CUT)).ok());
    left.ok_or_else(|| (format.read)(text).err().unwrap_or_else(|| UNSURE.into()))
}

/// The text with a figure at least nine times as large.
fn with_other_figure(text: &str, figure: usize) -> String {
    format!("{}9{}", &text[..figure], &text[figure..])
}

/// The runs that have a value or a reason why not; the last one gets the warning. A part may have no run.
fn with_values(mut runs: Vec<ToolRun>, warning: Option<&str>) -> Result<Vec<ToolRun>, Unreadable<'static>> {
    if runs.is_empty() {
        return Ok(runs);
    }
    runs.iter_mut().for_each(ToolRun::forget_what_did_not_happen);
    runs.retain(|run| !run.metrics.is_empty() || run.failure.is_some());
    match (runs.last_mut(), warning) {
        (Some(last), Some(warning)) => last.warn(warning),
        (Some(_), None) => {}
        (None, Some(_)) => return Err("it ends in the middle and has no value of any metric".into()),
        (None, None) => return Err(NO_VALUE.into()),
    }
    Ok(runs)
}

/// The warning about a figure that is used although nothing marks its end.
const OPEN: &str = "the last figure may be cut short: no line end follows it";
/// The refusal of a text without figures.
const NO_VALUE: &str = "it has no value of any metric";
/// The refusal of a text without any other figure to go by.
const UNSURE: &str = "no line end follows its last figure, so that digits may be missing; copy the whole output, with its last line end";
