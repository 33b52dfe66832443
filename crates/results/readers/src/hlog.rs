//! The log of intervals that HdrHistogram writes, an .hlog: one compressed histogram a line, with its start, length and tag.
//!
//! The library that holds Plumbline's distributions reads it, in encoding V2. The log does not say in which unit its values are.
//! `Interval_Max` stands in it as text and is often divided, by one million unless the writer was told otherwise (Java's
//! `HistogramLogWriter`). Its ratio to the maximum of the histogram shows this.

use std::collections::BTreeMap;
use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::bufread::ZlibDecoder;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::interval_log::{IntervalLogHistogram, IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{DeserializeError, Deserializer};
use plumb_model::Histogram;

use crate::figure::{Unreadable, figure};
use crate::text::positive;
use crate::tool_run::{record, seconds_to_ns};

/// A histogram in encoding V2 is never larger.
const ENCODED_BYTES_MAX: u64 = 16 << 20;

/// All intervals of a log, merged by tag.
pub(crate) struct Log {
    /// When it began, in seconds since 1970, where it says so.
    pub(crate) started_unix_s: Option<f64>,
    /// From the start of the first interval to the end of the last one.
    pub(crate) seconds: f64,
    /// How many intervals it has.
    pub(crate) intervals: u64,
    /// Values in ns by tag; intervals without a tag are under the empty one.
    pub(crate) by_tag: BTreeMap<String, Histogram>,
    /// How many of the recorded values' units one unit of `Interval_Max` is.
    pub(crate) maximum_divided_by: Option<f64>,
}

pub(crate) fn is(text: &str) -> bool {
    let mut lines = text.lines().take(50);
    lines.any(|line| {
        line.starts_with("#[Histogram log format version") || line.starts_with("\"StartTimestamp\",")
    }) || text
        .lines()
        .find(|line| !line.starts_with('#') && !line.is_empty())
        .is_some_and(|line| line.contains(",HISTF"))
}

/// A log alone does not say in which unit it is.
pub(crate) fn unit_is_missing<T>(_text: &str) -> Result<T, Unreadable<'_>> {
    Err("its unit is not in the file; name the metric and the unit of the recorded values, as in --column latency:ns"
        .into())
}

/// Reads every interval; `to_ns` is how many ns one recorded unit is.
pub(crate) fn intervals(text: &str, to_ns: f64) -> Result<Log, Unreadable<'_>> {
    text.lines().try_for_each(check)?;
    // The library takes a line without its end for one that is cut.
    let text = if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") };
    let mut log = Log {
        started_unix_s: None,
        seconds: 0.0,
        intervals: 0,
        by_tag: BTreeMap::new(),
        maximum_divided_by: None,
    };
    let (mut from_s, mut to_s, mut highest) = (f64::INFINITY, 0.0_f64, 0);
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let number = log.intervals + 1;
        let unreadable = |error: IntervalError| format!("interval {number} cannot be read: {error}");
        match entry.map_err(|_| unreadable(IntervalError::Line))? {
            LogEntry::StartTime(since_1970) => log.started_unix_s = Some(since_1970.as_secs_f64()),
            LogEntry::BaseTime(_) => {}
            LogEntry::Interval(interval) => {
                let values = decode(&interval).map_err(unreadable)?;
                let start_s = interval.start_timestamp().as_secs_f64();
                from_s = from_s.min(start_s);
                to_s = to_s.max(start_s + interval.duration().as_secs_f64());
                // The largest interval has the least of rounding in its printed maximum.
                if values.max() > highest && interval.max() > 0.0 {
                    highest = values.max();
                    log.maximum_divided_by = Some(round_divisor(highest as f64 / interval.max()));
                }
                let tag = interval.tag().map_or_else(String::new, |tag| tag.as_str().to_owned());
                let merged = log.by_tag.entry(tag).or_default();
                for bin in values.iter_recorded() {
                    let value_ns = seconds_to_ns(bin.value_iterated_to() as f64 * to_ns / 1e9);
                    record(merged, value_ns, bin.count_at_value());
                }
                log.intervals += 1;
            }
        }
    }
    log.by_tag.retain(|_, values| values.count() > 0);
    if log.by_tag.is_empty() {
        return Err("no interval has a value".into());
    }
    log.seconds = (to_s - from_s).clamp(0.0, 1e9);
    Ok(log)
}

/// The library does not say which figure it cannot read, and takes a line `#[StartTime` that it cannot read for a comment.
fn check(line: &str) -> Result<(), Unreadable<'_>> {
    if let Some(time) =
        ["#[StartTime: ", "#[BaseTime: "].into_iter().find_map(|label| line.strip_prefix(label))
    {
        return figure(time, positive).map(|_| ());
    }
    if line.starts_with(['#', '"']) || !line.contains(',') {
        return Ok(());
    }
    let figures = line.rsplit_once(',').map_or(line, |(figures, _)| figures);
    let tagged =
        figures.strip_prefix("Tag=").map(|tagged| tagged.split_once(',').map_or("", |(_, rest)| rest));
    let figures = tagged.unwrap_or(figures);
    if figures.matches(',').count() != 2 {
        return Err(Unreadable::Figure(figures.into()));
    }
    figures.split(',').try_for_each(|word| figure(word, positive).map(|_| ()))
}

/// Bins and printed digits are rounded; writers divide by powers of ten.
fn round_divisor(found: f64) -> f64 {
    let round = 10_f64.powf(found.log10().round());
    if (found / round - 1.0).abs() < 0.01 { round } else { found }
}

/// Why an interval cannot be read.
#[derive(Debug, thiserror::Error)]
enum IntervalError {
    #[error("its line has another form")]
    Line,
    #[error(transparent)]
    Base64(#[from] base64::DecodeError),
    #[error(transparent)]
    Zlib(#[from] std::io::Error),
    #[error("it has more than {} MiB", ENCODED_BYTES_MAX >> 20)]
    TooLarge,
    #[error("it claims {claimed} bytes and has {found}")]
    Claim { claimed: usize, found: usize },
    #[error("{_0}; only encoding V2 is read")]
    Encoding(#[from] DeserializeError),
}

fn decode(interval: &IntervalLogHistogram<'_>) -> Result<Hdr<u64>, IntervalError> {
    let bytes = unpacked(STANDARD.decode(interval.encoded_histogram())?)?;
    // The library allocates as much as the second word claims.
    let claimed =
        bytes.get(4..8).map_or(0, |word| word.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)));
    if claimed > bytes.len() {
        return Err(IntervalError::Claim { claimed, found: bytes.len() });
    }
    Ok(Deserializer::new().deserialize(&mut bytes.as_slice())?)
}

/// Decompresses encoding V2: two words, then zlib.
fn unpacked(bytes: Vec<u8>) -> Result<Vec<u8>, IntervalError> {
    let [0x1c, 0x84, 0x93, 0x04 | 0x14, _, _, _, _, packed @ ..] = bytes.as_slice() else { return Ok(bytes) };
    let mut all = Vec::new();
    ZlibDecoder::new(packed).take(ENCODED_BYTES_MAX + 1).read_to_end(&mut all)?;
    if all.len() as u64 <= ENCODED_BYTES_MAX { Ok(all) } else { Err(IntervalError::TooLarge) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_that_claims_to_be_large_takes_no_memory() {
        let words: [u32; 4] = [0x1c84_9313, 1 << 30, 0, 3];
        let header: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        let bounds = [1_u64.to_be_bytes(), 1_000_000_u64.to_be_bytes(), 1_f64.to_be_bytes()].concat();
        let encoded = STANDARD.encode([header, bounds].concat());
        let text = format!("0.0,1.0,2.0,{encoded}\n");
        let error = intervals(&text, 1.0).err().unwrap().in_words(&text, 1);
        assert_eq!(error, "interval 1 cannot be read: it claims 1073741824 bytes and has 40");
    }
}
