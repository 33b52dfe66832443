//! Units as people write them, each with its dimension and scale, so that only figures of one dimension are compared.

use plumb_model::Better;

/// The quantity that a unit measures. Only figures of one dimension can be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Dimension {
    /// Time, in seconds.
    Time,
    /// Data over time, in bytes per second.
    DataRate,
    /// Events of this noun per second.
    PerSecond(String),
    /// Data, in bytes.
    Size,
    /// Percentages.
    Percent,
    /// An unknown unit, comparable only with itself.
    Other(String),
}

impl Dimension {
    /// Which direction is an improvement, if the unit tells.
    pub(crate) fn better(&self) -> Better {
        match self {
            Self::Time => Better::Lower,
            Self::DataRate | Self::PerSecond(_) => Better::Higher,
            Self::Size | Self::Percent | Self::Other(_) => Better::Neither,
        }
    }
}

/// A unit. A figure times the scale is in the base unit of its dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unit {
    pub(crate) dimension: Dimension,
    pub(crate) scale: f64,
}

impl Unit {
    fn new(dimension: Dimension, scale: f64) -> Self {
        Self { dimension, scale }
    }
}

const TIMES: [(&[&str], f64); 6] = [
    (&["ns", "nsec", "nsecs", "nanosecond", "nanoseconds"], 1e-9),
    (&["us", "usec", "usecs", "microsecond", "microseconds"], 1e-6),
    (&["ms", "msec", "msecs", "millisecond", "milliseconds"], 1e-3),
    (&["s", "sec", "secs", "second", "seconds"], 1.0),
    (&["min", "mins", "minute", "minutes"], 60.0),
    (&["h", "hr", "hrs", "hour", "hours"], 3600.0),
];

/// Letters after a number or before a unit, with their factors.
const MULTIPLIERS: &[(&str, f64)] = &[("k", 1e3), ("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];

/// Abbreviations of events per second.
const PER_SECOND: [(&str, &str); 9] = [
    ("iops", "I/O"),
    ("rps", "request"),
    ("qps", "query"),
    ("tps", "transaction"),
    ("pps", "packet"),
    ("cps", "connection"),
    ("fps", "frame"),
    ("ops", "operation"),
    ("mps", "message"),
];

/// Ways to write one noun.
const NOUNS: [(&str, &[&str]); 8] = [
    ("request", &["req", "reqs", "request", "requests"]),
    ("query", &["query", "queries"]),
    ("operation", &["op", "ops", "operation", "operations"]),
    ("message", &["msg", "msgs", "message", "messages"]),
    ("packet", &["pkt", "pkts", "packet", "packets"]),
    ("connection", &["conn", "conns", "connection", "connections"]),
    ("transaction", &["tx", "txn", "txns", "trans", "transaction", "transactions"]),
    ("I/O", &["io", "ios"]),
];

/// Parses a text that is a unit and nothing else; `None` if the unit is unknown.
pub(crate) fn unit(text: &str) -> Option<Unit> {
    let text = text.trim().replace(['µ', 'μ'], "u");
    if matches!(text.as_str(), "%" | "percent") {
        return Some(Unit::new(Dimension::Percent, 1.0));
    }
    time(&text).or_else(|| data(&text)).or_else(|| events(&text))
}

/// `ms`, and `ns/op`.
fn time(text: &str) -> Option<Unit> {
    let (text, noun) = text.split_once('/').unwrap_or((text, ""));
    let is_per_event = noun.is_empty() || NOUNS.iter().any(|(_, forms)| forms.contains(&noun));
    let word = if text.len() > 2 { text.to_lowercase() } else { text.to_owned() };
    let (_, scale) = TIMES.iter().find(|(forms, _)| forms.contains(&word.as_str()))?;
    is_per_event.then(|| Unit::new(Dimension::Time, *scale))
}

/// The text before `/s`, ` per second` and the like.
fn over_time(text: &str) -> Option<&str> {
    let forms = ["/s", "/sec", "/second", " per second", " per sec", " / s"];
    let found = forms.iter().filter_map(|form| {
        let end = text.len().checked_sub(form.len())?;
        text.get(end..)?.eq_ignore_ascii_case(form).then(|| text[..end].trim())
    });
    found.min_by_key(|left| left.len())
}

/// `GB/s`, `Mbps`, `MiB`.
fn data(text: &str) -> Option<Unit> {
    // People write both megabits and megabytes as `mb/s`.
    let is_clear = |amount: &&str| !amount.starts_with(['m', 'g', 't']) || amount.contains("bit");
    if let Some(scale) = over_time(text).filter(is_clear).and_then(bytes) {
        return Some(Unit::new(Dimension::DataRate, scale));
    }
    if let Some(scale) = text.strip_suffix("ps").and_then(bytes) {
        return Some(Unit::new(Dimension::DataRate, scale));
    }
    // `b` alone may be bits or bytes.
    bytes(text).filter(|_| text.len() > 1 || text == "B").map(|scale| Unit::new(Dimension::Size, scale))
}

/// The number of bytes in an amount of data such as `MiB`, `kbit` or `gb`.
fn bytes(text: &str) -> Option<f64> {
    let forms: [(&str, f64); 8] = [
        ("bytes", 1.0),
        ("byte", 1.0),
        ("Bytes", 1.0),
        ("bits", 0.125),
        ("bit", 0.125),
        ("Bit", 0.125),
        ("B", 1.0),
        ("b", 0.125),
    ];
    let (prefix, base) =
        forms.iter().find_map(|(form, base)| Some((text.strip_suffix(form)?.trim(), *base)))?;
    let scale = match prefix {
        "" => 1.0,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => multiplier(prefix)?,
    };
    // `mB` and `gB` may be bits or bytes.
    let is_clear = !matches!(prefix, "m" | "g" | "t") || base < 1.0;
    is_clear.then_some(scale * base)
}

/// `req/s`, `kIOPS`, `pages per second`.
fn events(text: &str) -> Option<Unit> {
    let whole = |word: &str| {
        let lower = word.to_lowercase();
        PER_SECOND.iter().find(|(form, _)| *form == lower).map(|(_, noun)| (*noun).to_owned())
    };
    if let Some((noun, scale)) = prefixed(text, whole) {
        return Some(Unit::new(Dimension::PerSecond(noun), scale));
    }
    let counted = over_time(text)?;
    let known = |word: &str| {
        let lower = word.to_lowercase();
        NOUNS.iter().find(|(_, forms)| forms.contains(&lower.as_str())).map(|(noun, _)| (*noun).to_owned())
    };
    let (noun, scale) = prefixed(counted, known).or_else(|| Some((noun_of(counted)?, 1.0)))?;
    Some(Unit::new(Dimension::PerSecond(noun), scale))
}

/// A known word, alone or after `k`, `M`, `G` or `T`, with its scale.
fn prefixed(text: &str, known: impl Fn(&str) -> Option<String>) -> Option<(String, f64)> {
    let scales = [("", 1.0)].iter().chain(MULTIPLIERS);
    scales.into_iter().find_map(|(prefix, scale)| Some((known(text.strip_prefix(prefix)?.trim())?, *scale)))
}

/// A noun that is not in the table of nouns.
fn noun_of(text: &str) -> Option<String> {
    let is_noun = text.len() > 2 && text.chars().all(char::is_alphabetic) || text == "#";
    is_noun.then(|| text.to_lowercase().trim_end_matches('s').to_owned())
}

/// The factor of a `k`, `M`, `G` or `T`.
pub(crate) fn multiplier(text: &str) -> Option<f64> {
    MULTIPLIERS.iter().find(|(letter, _)| *letter == text).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(Dimension, f64)> {
        unit(text).map(|unit| (unit.dimension, unit.scale))
    }

    #[test]
    fn units_have_a_dimension_and_a_scale() {
        let per_s = |noun: &str| Dimension::PerSecond(noun.to_owned());
        for (text, dimension, scale) in [
            ("ms", Dimension::Time, 1e-3),
            ("µs", Dimension::Time, 1e-6),
            ("ns/op", Dimension::Time, 1e-9),
            ("GB/s", Dimension::DataRate, 1e9),
            ("MiB/sec", Dimension::DataRate, 1_048_576.0),
            ("Gbit/s", Dimension::DataRate, 1.25e8),
            ("mbps", Dimension::DataRate, 125_000.0),
            ("GBps", Dimension::DataRate, 1e9),
            ("MB", Dimension::Size, 1e6),
            ("B", Dimension::Size, 1.0),
            ("kbit", Dimension::Size, 125.0),
            ("Tbit/s", Dimension::DataRate, 1.25e11),
            ("%", Dimension::Percent, 1.0),
            ("IOPS", per_s("I/O"), 1.0),
            ("kIOPS", per_s("I/O"), 1e3),
            ("K IOPS", per_s("I/O"), 1e3),
            ("requests per second", per_s("request"), 1.0),
            ("req/s", per_s("request"), 1.0),
            ("kreq/s", per_s("request"), 1e3),
            ("pages per second", per_s("page"), 1.0),
            ("Mpps", per_s("packet"), 1e6),
        ] {
            assert_eq!(parsed(text), Some((dimension, scale)), "{text}");
        }
    }

    #[test]
    fn a_text_that_may_be_two_units_is_not_read() {
        for text in ["MBPS", "mb/s", "mB/s", "b", "k", "HOST", "runs", "x"] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }
}
