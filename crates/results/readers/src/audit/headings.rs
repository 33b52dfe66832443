//! Headings: a name, a unit, and the role of their column.

use plumb_model::Better;

use crate::audit::units::{Dimension, Unit, unit};

/// The heading of a column or the name of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Heading {
    /// The whole heading, as it was written.
    pub(crate) text: String,
    /// The heading without its unit.
    pub(crate) name: String,
    /// The unit as it was written; may be empty.
    pub(crate) unit_text: String,
    pub(crate) unit: Option<Unit>,
}

/// The role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A metric that was measured.
    Result,
    /// A setting, such as a concurrency.
    Key,
    /// A second figure of the same measurement: a spread or an extreme.
    Aside,
    /// A value computed from other columns.
    Derived,
}

/// Words for what was computed from other columns.
const DERIVED: &[&str] = &[
    "relative",
    "ratio",
    "speedup",
    "vs",
    "versus",
    "diff",
    "difference",
    "delta",
    "change",
    "improvement",
    "gain",
    "overhead",
    "normalized",
    "normalised",
    "factor",
    "percentage",
    "rank",
    "score",
];
/// Words for how far repetitions lay apart.
const SPREADS: &[&str] = &[
    "stddev",
    "stdev",
    "std",
    "sd",
    "σ",
    "variance",
    "var",
    "ci",
    "iqr",
    "mad",
    "cv",
    "deviation",
    "min",
    "max",
    "minimum",
    "maximum",
];
/// Asides that do not show how far repetitions lay apart.
const OTHER_ASIDES: &[&str] = &["best", "worst", "error"];
const KEYS: &[&str] = &[
    "concurrency",
    "connections",
    "conns",
    "clients",
    "threads",
    "users",
    "vus",
    "workers",
    "jobs",
    "numjobs",
    "depth",
    "iodepth",
    "qd",
    "size",
    "bs",
    "blocksize",
    "payload",
    "length",
    "batch",
    "cores",
    "vcpus",
    "nodes",
    "replicas",
    "shards",
    "streams",
    "channels",
    "parallel",
    "parallelism",
    "runs",
    "repetitions",
    "iterations",
    "samples",
    "n",
    "level",
];
/// Words for a value that was requested, even if it has the unit of a result.
const INPUTS: &[&str] = &["target", "offered", "requested", "configured", "nominal", "limit", "cap"];
const LOWER: &[&str] = &[
    "latency",
    "latencies",
    "lat",
    "time",
    "times",
    "duration",
    "delay",
    "rtt",
    "jitter",
    "elapsed",
    "downtime",
    "ttfb",
    "wait",
    "clat",
];
const HIGHER: &[&str] = &["throughput", "bandwidth", "bw", "rate", "goodput", "speed", "iops", "rps", "qps"];
/// Words that leave the direction open, whatever the unit.
const OPEN: &[&str] = &[
    "error",
    "errors",
    "drop",
    "drops",
    "dropped",
    "loss",
    "lost",
    "retransmits",
    "retransmissions",
    "retries",
    "miss",
    "misses",
    "fault",
    "faults",
    "timeout",
    "timeouts",
    "interrupts",
    "irqs",
    "switches",
    "uptime",
    "between",
    "interval",
    "failed",
    "failures",
    "cap",
];

/// The words of a name in lower case.
pub(crate) fn lower_case_words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric());
    parts.filter(|part| !part.is_empty()).map(str::to_lowercase).collect()
}

/// Whether one of a name's words is in a list.
pub(crate) fn has_word(text: &str, list: &[&str]) -> bool {
    lower_case_words(text).iter().any(|word| list.contains(&word.as_str()))
}

impl Heading {
    pub(crate) fn new(whole_text: &str) -> Self {
        let text = whole_text.trim_matches(|c: char| c.is_whitespace() || "*`".contains(c));
        // `16 bytes` is a setting, not a metric in bytes.
        let is_amount = |(name, ..): &Found| name.trim().parse::<f64>().is_ok();
        let found =
            bracketed(text).or_else(|| whole(text)).or_else(|| tail(text)).filter(|found| !is_amount(found));
        let (name, unit_text, unit) = found.unwrap_or((text.to_owned(), String::new(), None));
        let name = name.trim().trim_end_matches([',', ':']).trim().to_owned();
        Self { text: whole_text.to_owned(), name, unit_text, unit }
    }

    /// The name, or the unit of a heading that is only a unit.
    pub(crate) fn what(&self) -> &str {
        if self.name.is_empty() { &self.unit_text } else { &self.name }
    }

    pub(crate) fn role(&self) -> Role {
        let is = |list: &[&str]| has_word(self.subject(), list);
        if is(DERIVED) || self.name.to_lowercase().contains("speed-up") || self.name.contains('×') {
            Role::Derived
        } else if self.is_spread() || is(OTHER_ASIDES) {
            Role::Aside
        } else if is(INPUTS) || is(KEYS) && !self.is_rate_or_time() && !is(LOWER) && !is(HIGHER) {
            Role::Key
        } else {
            Role::Result
        }
    }

    /// Whether the column says how far repetitions lay apart.
    pub(crate) fn is_spread(&self) -> bool {
        has_word(self.subject(), SPREADS) || self.subject().contains('±')
    }

    /// The name without the spread in the same cells: `Mean` of `Mean ± σ`.
    fn subject(&self) -> &str {
        let before = self.name.split_once('±').map(|(before, _)| before);
        before.filter(|before| before.contains(char::is_alphanumeric)).unwrap_or(&self.name)
    }

    fn is_rate_or_time(&self) -> bool {
        self.unit.as_ref().is_some_and(|unit| unit.dimension.better() != Better::Neither)
    }

    /// Which direction is an improvement, as the unit or else the words tell.
    pub(crate) fn better(&self, unit: Option<&Unit>) -> Better {
        let noun = unit.map(|unit| &unit.dimension);
        let is_open = matches!(noun, Some(Dimension::PerSecond(noun)) if OPEN.iter().any(|word| word.trim_end_matches('s') == noun));
        match unit.map(|unit| unit.dimension.better()) {
            _ if is_open || has_word(&self.name, OPEN) => Better::Neither,
            Some(better) => better,
            None if has_word(&self.name, LOWER) => Better::Lower,
            None if has_word(&self.name, HIGHER) => Better::Higher,
            None => Better::Neither,
        }
    }

    /// Whether the unit or a word of the name says what is measured.
    pub(crate) fn is_metric(&self) -> bool {
        self.unit.is_some() || self.names_a_metric()
    }

    /// Whether a word of the name says what is measured.
    pub(crate) fn names_a_metric(&self) -> bool {
        [LOWER, HIGHER, OPEN, &["cpu", "memory", "usage", "utilization", "utilisation"]]
            .iter()
            .any(|list| has_word(&self.name, list))
    }
}

type Found = (String, String, Option<Unit>);

/// `Mean [ms]`, `Total time(ms)`, `latency (us, mean)`.
fn bracketed(text: &str) -> Option<Found> {
    [('[', ']'), ('(', ')')].into_iter().find_map(|(open, close)| {
        let (before, rest) = text.split_once(open)?;
        let (inside, after) = rest.split_once(close)?;
        let part = inside.split([',', ';']).find(|part| unit(part).is_some())?.trim();
        Some((format!("{} {}", before.trim(), after.trim()), part.to_owned(), unit(part)))
    })
}

/// Abbreviations that usually mean something other than a unit: `min` is a minimum.
const UNCLEAR_ALONE: &[&str] = &["min", "s", "h", "b", "B", "mps"];

fn clear_unit(text: &str) -> Option<Unit> {
    (!UNCLEAR_ALONE.contains(&text)).then(|| unit(text)).flatten()
}

/// `Gbit/s`, `requests per second`.
fn whole(text: &str) -> Option<Found> {
    clear_unit(text).map(|unit| (String::new(), text.to_owned(), Some(unit)))
}

/// `latency, ms`, `throughput in MB/s`, `send cpu %`, `p99_ms`.
fn tail(text: &str) -> Option<Found> {
    if let Some(name) = text.strip_suffix('%') {
        return Some((name.to_owned(), "%".to_owned(), unit("%")));
    }
    let starts: Vec<usize> = text.match_indices([' ', ',', '_']).map(|(at, _)| at + 1).collect();
    starts.into_iter().find_map(|at| {
        let unit = clear_unit(text[at..].trim())?;
        let name = text[..at].trim_end_matches(|c: char| c.is_whitespace() || ",_-".contains(c));
        Some((name.strip_suffix(" in").unwrap_or(name).to_owned(), text[at..].trim().to_owned(), Some(unit)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_has_a_name_and_a_unit() {
        let of = |text: &str| {
            let heading = Heading::new(text);
            (heading.name, heading.unit_text)
        };
        for (text, name, unit) in [
            ("Mean [ms]", "Mean", "ms"),
            ("Total time(ms)", "Total time", "ms"),
            ("throughput (mbps)", "throughput", "mbps"),
            ("send cpu %", "send cpu", "%"),
            ("recv cpu%", "recv cpu", "%"),
            ("Gbit/s", "", "Gbit/s"),
            ("pages per second", "", "pages per second"),
            ("p99_ms", "p99", "ms"),
            ("latency, us", "latency", "us"),
            ("proxy a (req/s)", "proxy a", "req/s"),
            ("brisk req/s", "brisk", "req/s"),
            ("Latency (ms) [lower is better]", "Latency [lower is better]", "ms"),
            ("min", "min", ""),
            ("16 bytes", "16 bytes", ""),
            ("tcp_lat", "tcp_lat", ""),
        ] {
            assert_eq!(of(text), (name.to_owned(), unit.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_column_has_one_role() {
        for (text, role) in [
            ("Relative", Role::Derived),
            ("Min [ms]", Role::Aside),
            ("σ (ms)", Role::Aside),
            ("best (ms)", Role::Aside),
            ("concurrency", Role::Key),
            ("block size (KiB)", Role::Key),
            ("target (req/s)", Role::Key),
            ("Requests/sec", Role::Result),
            ("p99 latency (ms)", Role::Result),
            ("Mean ± σ [ms]", Role::Result),
            ("mean (± std)", Role::Result),
            ("± σ", Role::Aside),
        ] {
            assert_eq!(Heading::new(text).role(), role, "{text}");
        }
    }

    #[test]
    fn a_best_time_does_not_count_as_a_spread() {
        for (text, is_spread) in [
            ("σ (ms)", true),
            ("± (ms)", true),
            ("Min [ms]", true),
            ("best (ms)", false),
            ("p99 (ms)", false),
        ] {
            assert_eq!(Heading::new(text).is_spread(), is_spread, "{text}");
        }
    }

    #[test]
    fn the_direction_follows_from_the_unit_unless_a_word_leaves_it_open() {
        let better = |text: &str| {
            let heading = Heading::new(text);
            heading.better(heading.unit.as_ref())
        };
        assert_eq!(better("p99 (ms)"), Better::Lower);
        assert_eq!(better("tcp_bw (Mb/s)"), Better::Higher);
        assert_eq!(better("throughput"), Better::Higher);
        assert_eq!(better("drops/s"), Better::Neither);
        assert_eq!(better("uptime (s)"), Better::Neither);
        assert_eq!(
            Heading::new("drops/s").unit.map(|unit| unit.dimension),
            Some(Dimension::PerSecond("drop".to_owned()))
        );
    }
}
