//! Whether two names are alternatives that differ in one named thing, so that a ratio between them means something.
//!
//! Names prove little. If it is uncertain whether two names are alternatives, they are treated as different work.

use crate::audit::headings::{has_word, lower_case_words};
use crate::audit::units::unit;

/// Headings of columns that list alternatives.
const CHOICES: &[&str] = &[
    "backend",
    "product",
    "tool",
    "proxy",
    "server",
    "version",
    "release",
    "variant",
    "type",
    "command",
    "implementation",
    "engine",
    "library",
    "framework",
    "language",
    "runtime",
    "kernel",
    "driver",
    "method",
    "mode",
    "setup",
    "configuration",
    "config",
    "path",
    "network",
    "cni",
    "plugin",
    "tunnel",
    "compression",
    "codec",
    "system",
    "database",
    "broker",
    "solution",
    "candidate",
    "approach",
    "scheduler",
    "allocator",
    "compiler",
    "platform",
    "host",
    "machine",
    "device",
    "disk",
    "drive",
    "volume",
    "filesystem",
    "storage",
    "provider",
    "instance",
    "cloud",
    "image",
    "branch",
    "commit",
    "build",
    "policy",
    "offload",
    "accelerator",
    "ingress",
    "controller",
    "gateway",
    "overlay",
    "treatment",
];
/// Headings of columns that list different work.
const WORKS: &[&str] = &[
    "test",
    "tests",
    "benchmark",
    "workload",
    "operation",
    "operations",
    "query",
    "case",
    "metric",
    "metrics",
    "measure",
    "pattern",
    "endpoint",
    "file",
    "function",
    "scenario",
    "request",
    "cipher",
    "algorithm",
    "curve",
    "digest",
];
/// Names of one side of a comparison.
const SIDES: &[&str] = &[
    "none",
    "before",
    "after",
    "baseline",
    "base",
    "old",
    "new",
    "with",
    "without",
    "on",
    "off",
    "default",
    "tuned",
    "optimized",
    "optimised",
    "native",
    "main",
    "master",
    "patched",
    "stock",
    "vanilla",
    "control",
    "treatment",
    "host",
    "bare",
    "plain",
    "original",
    "current",
    "enabled",
    "disabled",
    "software",
    "hardware",
    "improved",
];
const CODECS: &[&str] =
    &["none", "zstd", "lz4", "zlib", "gzip", "deflate", "qatzip", "qpl", "snappy", "uncompressed"];
/// Words that say what is done, rather than how.
const WORK_WORDS: &[&str] = &[
    "http",
    "https",
    "tls",
    "h2",
    "http2",
    "h3",
    "http3",
    "plaintext",
    "json",
    "read",
    "reads",
    "write",
    "writes",
    "randread",
    "randwrite",
    "seq",
    "sequential",
    "rand",
    "random",
    "mixed",
    "send",
    "sends",
    "sent",
    "recv",
    "receive",
    "received",
    "sender",
    "receiver",
    "upload",
    "download",
    "rx",
    "tx",
    "in",
    "out",
    "ingress",
    "egress",
    "get",
    "set",
    "put",
    "post",
    "delete",
    "insert",
    "select",
    "update",
    "scan",
    "sign",
    "signs",
    "verify",
    "encrypt",
    "decrypt",
    "compress",
    "decompress",
    "hash",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "rr",
    "crr",
    "stream",
    "handshake",
    "full",
    "resumed",
    "connect",
    "user",
    "usr",
    "sys",
    "kernel",
    "real",
    "wall",
    "elapsed",
    "cpu",
    "idle",
    "total",
    "down",
    "up",
    "setup",
    "teardown",
    "link",
    "queue",
    "waiting",
    "processing",
    "cold",
    "warm",
    "first",
    "last",
    "cached",
    "uncached",
    "small",
    "large",
    "min",
    "max",
    "startup",
    "gc",
    "sum",
];
const STATISTICS: &[&str] = &[
    "mean",
    "avg",
    "average",
    "median",
    "med",
    "stddev",
    "stdev",
    "sd",
    "std",
    "minimum",
    "maximum",
    "best",
    "worst",
    "percentile",
    "variance",
    "count",
];
/// Beginnings of names of cryptographic algorithms.
const ALGORITHMS: &[&str] = &[
    "aes", "rsa", "ecdsa", "ecdh", "eddsa", "ed25519", "ed448", "x25519", "x448", "sha", "md5", "md4",
    "chacha", "poly1305", "hmac", "des", "3des", "ffdh", "dsa", "aria", "camellia", "seed", "blake", "ghash",
    "rmd160", "sm2", "sm3", "sm4", "cmac",
];

/// Modes of operation of a cipher.
const MODES: &[&str] = &["cbc", "gcm", "ctr", "ccm", "xts", "ecb", "ocb", "ede3"];
/// Operations that two headings of one subject must share.
const OPERATIONS: &[&str] =
    &["read", "write", "randread", "randwrite", "sequential", "random", "tcp", "udp", "sign", "verify"];

/// Why two names cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Apart {
    /// The names are the same.
    Same,
    /// The names describe different work.
    Work,
    /// The names differ in a number, which is a setting.
    Number,
    /// One has a qualification that the other lacks.
    Qualified,
}

/// Whether a heading says that its column lists alternatives.
pub(crate) fn is_choice(heading: &str) -> bool {
    let singular: Vec<String> =
        lower_case_words(heading).iter().map(|word| word.trim_end_matches('s').to_owned()).collect();
    singular.iter().any(|word| CHOICES.contains(&word.as_str()))
}

/// Whether a heading says that the numbers below it are versions.
pub(crate) fn is_version(heading: &str) -> bool {
    has_word(heading, &["version", "release", "kernel", "commit", "build", "branch"])
}

/// Whether a heading says that its column lists different work.
pub(crate) fn is_work(heading: &str) -> bool {
    has_word(heading, WORKS)
}

/// Whether the names alone show that they are sides of a comparison.
pub(crate) fn are_sides<'n>(names: impl Iterator<Item = &'n str> + Clone) -> bool {
    let are_codecs = names.clone().all(|name| CODECS.contains(&name.trim().to_lowercase().as_str()));
    are_codecs || names.into_iter().any(|name| has_word(name, SIDES))
}

/// Why two names are not alternatives; `None` if nothing rules it out.
pub(crate) fn apart(one: &str, other: &str, heading: &str) -> Option<Apart> {
    let (one, other) = (one.trim(), other.trim());
    if lower_case_words(one) == lower_case_words(other) {
        return Some(Apart::Same);
    }
    if work(one) != work(other) {
        return Some(Apart::Work);
    }
    if is_version(heading) && work(one).is_empty() {
        return None;
    }
    let has_other_amounts = amounts(one) != amounts(other) || have_one_setting_apart(one, other);
    if without_digits(one) == without_digits(other) || has_other_amounts {
        return Some(Apart::Number);
    }
    (qualification(one) != qualification(other)).then_some(Apart::Qualified)
}

/// Whether two headings may name two variants of one subject: they differ in more than a number, and name the same algorithms and
/// operations.
pub(crate) fn is_same_subject(one: &str, other: &str) -> bool {
    let subject = |text: &str| {
        let mut found: Vec<String> = lower_case_words(text);
        let has_algorithm = found.iter().any(|word| is_algorithm(word));
        found.retain(|word| {
            OPERATIONS.contains(&word.as_str()) || is_algorithm(word) || has_algorithm && is_size(word)
        });
        found.sort();
        found.dedup();
        found
    };
    without_digits(one) != without_digits(other) && subject(one) == subject(other)
}

/// The words of a name that say what is done. An algorithm's key sizes and modes are among them.
fn work(name: &str) -> Vec<String> {
    let mut found = lower_case_words(name);
    let has_algorithm = found.iter().any(|word| is_algorithm(word));
    found.retain(|word| {
        WORK_WORDS.contains(&word.as_str())
            || is_statistic(word)
            || is_algorithm(word)
            || has_algorithm && (is_size(word) || MODES.contains(&word.as_str()))
    });
    found.sort();
    found
}

fn is_statistic(word: &str) -> bool {
    STATISTICS.contains(&word) || word.strip_prefix('p').is_some_and(|rest| rest.parse::<u32>().is_ok())
}

/// An algorithm's name, with or without its size: `rsa2048`.
fn is_algorithm(word: &str) -> bool {
    ALGORITHMS
        .iter()
        .filter_map(|algorithm| word.strip_prefix(algorithm))
        .any(|rest| rest.chars().all(|c| c.is_ascii_digit()))
}

/// A word that begins with a digit, such as a key size.
fn is_size(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

fn without_digits(name: &str) -> String {
    name.chars().filter(|c| !c.is_ascii_digit() && *c != '.').flat_map(char::to_lowercase).collect()
}

/// Words that are a number, such as `64`, `4k` or `16 KiB`, but not a version such as `1.24.0`.
fn amounts(name: &str) -> Vec<String> {
    let parts = name.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.collect();
    let is_amount = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_digit()) && !part.trim_end_matches('.').contains('.')
    };
    let amount = |(at, part): (usize, &&str)| {
        let unit = parts.get(at + 1).filter(|next| unit(next).is_some()).copied().unwrap_or_default();
        is_amount(part).then(|| format!("{part}{unit}").to_lowercase())
    };
    parts.iter().enumerate().filter_map(amount).collect()
}

/// Whether both have the same setting with different numbers, such as `qd1` and `qd32`. A `v` begins a version.
fn have_one_setting_apart(one: &str, other: &str) -> bool {
    let settings = |name: &str| -> Vec<(String, String)> {
        let setting = |word: &str| {
            let at = word.find(|c: char| c.is_ascii_digit())?;
            let (letters, digits) = word.split_at(at);
            let is_setting = (1..=3).contains(&at)
                && letters != "v"
                && letters.bytes().all(|byte| byte.is_ascii_lowercase())
                && digits.bytes().all(|byte| byte.is_ascii_digit());
            is_setting.then(|| (letters.to_owned(), digits.to_owned()))
        };
        let name = name.to_lowercase();
        name.split(|c: char| !c.is_alphanumeric()).filter_map(setting).collect()
    };
    let others = settings(other);
    settings(one)
        .iter()
        .any(|(letters, digits)| others.iter().any(|(name, number)| name == letters && number != digits))
}

/// The words after a comma or in brackets, without versions.
fn qualification(name: &str) -> Vec<String> {
    let behind = name.find([',', '(', '[']).map_or("", |at| &name[at..]);
    let is_version = |word: &String| word.trim_start_matches('v').chars().all(|c| c.is_ascii_digit());
    lower_case_words(behind).into_iter().filter(|word| !is_version(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alternatives_differ_in_one_name() {
        for (one, other) in [
            ("nginx", "haproxy"),
            ("proxy a", "proxy b"),
            ("nginx 1.24", "haproxy 2.8"),
            ("none", "wireguard"),
            ("rsa2048, openssl", "rsa2048, openssl"),
            ("Kube-OVN Overlay", "HOST Network"),
            ("ext4", "xfs"),
        ] {
            let expected = (one == other).then_some(Apart::Same);
            assert_eq!(apart(one, other, "proxy"), expected, "{one}, {other}");
        }
    }

    #[test]
    fn different_work_and_different_settings_are_not_alternatives() {
        for (one, other, why) in [
            ("AES-128-GCM", "AES-256-GCM", Apart::Work),
            ("aes-128 cbc", "des ede3", Apart::Work),
            ("nvme 4k qd1", "sata 4k qd32", Apart::Number),
            ("nginx c10", "envoy c100", Apart::Number),
            ("a -j1", "b -j16", Apart::Number),
            ("16 B", "16 KiB", Apart::Number),
            ("actix plaintext", "express json", Apart::Work),
            ("nginx http", "haproxy https", Apart::Work),
            ("rsa2048", "rsa4096", Apart::Work),
            ("sha256", "sha512", Apart::Work),
            ("read", "write", Apart::Work),
            ("sequential read", "random read", Apart::Work),
            ("tcp", "udp", Apart::Work),
            ("p50", "p99", Apart::Work),
            ("user", "system", Apart::Work),
        ] {
            assert_eq!(apart(one, other, "type"), Some(why), "{one}, {other}");
        }
        assert_eq!(apart("a, three replicas", "b", "backend"), Some(Apart::Qualified));
        assert_eq!(apart("8 threads", "64 threads", "setup"), Some(Apart::Number));
        assert_eq!(apart("1.24", "1.26", "version"), None);
        assert_eq!(apart("1.24", "1.26", "setup"), Some(Apart::Number));
    }

    #[test]
    fn headings_of_one_subject_name_the_same_algorithm_and_operation() {
        for (one, other, is_same) in [
            ("Calm", "Brisk", true),
            ("RSA 2048, software", "RSA 2048, hardware", true),
            ("RSA-2048", "RSA-4096", false),
            ("RSA 2048, software", "RSA 4096, hardware", false),
            ("Calm read", "Brisk write", false),
            ("8 threads", "64 threads", false),
        ] {
            assert_eq!(is_same_subject(one, other), is_same, "{one}, {other}");
        }
    }
}
