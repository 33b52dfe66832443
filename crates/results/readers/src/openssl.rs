//! `openssl speed`: its text, and the lines of `-mr`.
//!
//! Source: OpenSSL's `apps/speed.c`. The clock is the process' user CPU time unless `-elapsed` was given. An engine that
//! sleeps, or a CPU that is shared, then makes rates too high without bound. OpenSSL 1.0 has seconds where later ones have rates.

use std::collections::{BTreeMap, BTreeSet};

use plumb_model::{Better, MetricKind, NoticeKind, Reading, Unit};

use crate::door::BLOCK;
use crate::figure::{Unreadable, figure, is_absent, printed};
use crate::text::{after, count, positive};
use crate::tool_run::{RATE_AND_COUNT, ToolRun, identifier};

pub(crate) fn is(text: &str) -> bool {
    is_machine_readable(text)
        || text.contains("'numbers' are in 1000s of bytes")
        || text.lines().any(is_table_of_keys)
}

fn is_machine_readable(text: &str) -> bool {
    text.lines().any(|line| {
        let tag = line.strip_prefix("+F").and_then(|rest| rest.split(':').next());
        tag.is_some_and(|tag| tag.len() <= 2 && tag.bytes().all(|byte| byte.is_ascii_digit()))
            && line.split(':').count() >= 4
    })
}

fn is_table_of_keys(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.starts_with(&["sign", "verify"]) && words.contains(&"sign/s") || words.as_slice() == ["op", "op/s"]
}

/// The key of a line that a run prints once.
pub(crate) fn key(line: &str) -> Option<&str> {
    let labels = ["version:", "built on:", "The 'numbers' are in", "type "];
    let doing =
        ["You have chosen", "Doing ", "+DT"].iter().any(|label| line.starts_with(label)).then_some(BLOCK);
    // The kind and the subject of `+F2:2:2048:450.4`.
    let result = line.strip_prefix("+F").and_then(|rest| rest.match_indices(':').nth(2));
    let result = result.map(|(at, _)| &line[..at + 2]);
    labels.into_iter().find(|label| line.starts_with(label)).or(doing).or(result)
}

/// Whether the last table has rows, and its last row is complete.
pub(crate) fn is_whole(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_head = |line: &str| is_table_of_keys(line) || line.starts_with("type ");
    let last = lines.next_back().unwrap_or_default();
    let sizes =
        text.lines().rfind(|line| line.starts_with("type ")).map(|head| head.matches("bytes").count());
    let is_short = |sizes: usize| last.ends_with(['k', '.']) && last.split_whitespace().count() <= sizes;
    !is_head(last) && !last.starts_with("Doing ") && !sizes.is_some_and(is_short)
}

pub(crate) fn read_runs(text: &str) -> Result<Vec<ToolRun>, Unreadable<'_>> {
    let mut run = ToolRun::new("openssl speed", "crypto", "operations");
    run.worked(None, None);
    let version =
        after(text, "version:").or_else(|| text.lines().find_map(|line| line.strip_prefix("OpenSSL ")));
    run.version = version.and_then(|line| line.split_whitespace().next()).map(str::to_owned);
    read_machine_readable(&mut run, text)?;
    read_keys(&mut run, text)?;
    read_blocks(&mut run, text)?;
    if run.metrics.is_empty() {
        return Err("it has no rate of any algorithm".into());
    }
    let is_of_several = text.contains("Forked child") || text.lines().any(|line| line.starts_with("Got: "));
    let all_done = all_done(text, is_of_several)?;
    read_clock(&mut run, text, &all_done);
    if is_of_several {
        run.warn("openssl speed ran with -multi: its numbers are sums over processes");
    } else {
        all_done.iter().for_each(|done| done.hold_against_table(&mut run));
    }
    Ok(vec![run])
}

/// A number of bits or bytes within a name.
fn whole(text: &str) -> Result<&str, Unreadable<'_>> {
    figure(text, count).map(|_| text)
}

fn operations(run: &mut ToolRun, name: &str, per_s: Option<f64>) {
    if let Some(per_s) = per_s.filter(|per_s| *per_s > 0.0 && per_s.is_finite()) {
        let metric =
            ToolRun::own(name, Unit::PerSecond, Better::Higher, MetricKind::Rate, "operations per second");
        run.add_own_reading(metric, Reading::Gauge(per_s));
    }
}

fn bytes(run: &mut ToolRun, name: &str, size: &str, per_s: Option<f64>) {
    if let Some(per_s) = per_s.filter(|per_s| *per_s > 0.0 && per_s.is_finite()) {
        let about = "bytes per second in blocks of this size";
        let metric = ToolRun::own(
            &format!("{name}_{size}"),
            Unit::BytesPerSecond,
            Better::Higher,
            MetricKind::Rate,
            about,
        );
        run.add_own_reading(metric, Reading::Gauge(per_s));
    }
}

/// `+F2:2:2048:450.4:19154.3` and its siblings: a number for the kind, an index, then bits or a name, then values.
fn read_machine_readable<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    // With -multi only the processes name the sizes: `Got: +H:1024 from 0`.
    let heads = after(text, "+H:")
        .or_else(|| after(text, "Got: +H:"))
        .map(|rest| rest.split(" from ").next().unwrap_or(rest));
    let sizes: Vec<&str> = heads.map_or_else(Vec::new, |rest| rest.split(':').collect());
    let sizes: Vec<&str> = sizes.into_iter().map(whole).collect::<Result<_, _>>()?;
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let value = |at: usize| printed(fields.get(at).copied(), positive);
        let name = |at: usize| fields.get(at).copied().unwrap_or_default();
        match fields[0] {
            "+F" => {
                for (at, size) in sizes.iter().enumerate() {
                    bytes(run, name(2), size, value(3 + at)?);
                }
            }
            "+F2" => signatures(run, &format!("rsa {}", whole(name(2))?), value(3)?, value(4)?),
            "+F3" => signatures(run, &format!("dsa {}", whole(name(2))?), value(3)?, value(4)?),
            "+F4" => signatures(run, &format!("ecdsa {}", whole(name(2))?), value(3)?, value(4)?),
            "+F5" => operations(run, &format!("ecdh {}", whole(name(2))?), value(3)?.map(rate)),
            "+F6" => signatures(run, name(3), value(4)?, value(5)?),
            _ => {}
        }
    }
    let is_of_several = text.lines().any(|line| line.starts_with("Got: "));
    for (name, (count, seconds)) in counts(text)? {
        if let Some(Reading::Gauge(value)) = run.measurement.readings.get(&name).cloned() {
            if !is_of_several && seconds > 0.0 {
                let share = 0.005 / seconds + 0.005 + 0.05 / value;
                run.sum(RATE_AND_COUNT, Some(value), Some(count as f64 / seconds), share);
            }
            run.measurement.readings.insert(name, Reading::Rate { value, count });
        }
    }
    Ok(())
}

/// By metric, how often it was done, and in how many seconds: `+DTP:2048:private:rsa:1` or `+DT:sha256:1:1024` says what is measured, and the next
/// `+R1:3062:2048:1.00` how often that was. The processes of `-multi` write theirs in between, but the first line with a tag comes after
/// the announcement that it belongs to and before the next one.
fn counts(text: &str) -> Result<BTreeMap<String, (u64, f64)>, Unreadable<'_>> {
    let mut doing = None;
    let mut by_tag: BTreeMap<(&str, &str), (Announced, u64, f64)> = BTreeMap::new();
    let mut sizes = BTreeSet::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split(':').collect();
        match fields.as_slice() {
            ["+DTP", bits, verb, algorithm, _] => {
                doing = Some(Announced { name: key_name(bits, verb, algorithm), bytes: 1 });
                printed(Some(bits), count)?;
            }
            ["+DT", name, _, size] => {
                sizes.insert(*size);
                let bytes = figure(size, count)?;
                doing = Some(Announced { name: identifier(&format!("{name}_{size}")), bytes });
            }
            [tag, often, name, seconds] if tag.starts_with("+R") => {
                let (often, seconds) = (figure(often, count)?, figure(seconds, positive)?);
                let Some(doing) = doing.clone() else { continue };
                let known = by_tag.entry((*tag, *name)).or_insert((doing, 0, 0.0));
                known.1 = known.1.saturating_add(often);
                known.2 += seconds;
            }
            _ => {}
        }
    }
    // The tag of blocks is the same for every size.
    let is_clear = |tag: &str| tag != "+R" || sizes.len() == 1;
    let clear = by_tag.into_iter().filter(|((tag, _), _)| is_clear(tag));
    Ok(clear.map(|(_, (of, count, seconds))| (of.name, (count.saturating_mul(of.bytes), seconds))).collect())
}

/// The operation that a line announces.
#[derive(Clone)]
struct Announced {
    /// The metric's name.
    name: String,
    /// Bytes in each operation, where the metric counts bytes.
    bytes: u64,
}

/// The metric of an announced operation on keys. OpenSSL 3.5 has `rsa sign` and `rsa encrypt` where earlier ones have `rsa`.
fn key_name(bits: &str, verb: &str, algorithm: &str) -> String {
    let (algorithm, operation) = algorithm.split_once(' ').unwrap_or((algorithm, ""));
    let verb = match (operation, verb) {
        ("", "private") => "sign",
        ("", "public") => "verify",
        ("", verb) => verb,
        (operation, _) => operation,
    };
    let bits = if algorithm.starts_with("Ed") { "" } else { bits };
    identifier(&format!("{algorithm} {bits} {verb}"))
}

/// Signing and verifying, as rates or as seconds.
fn signatures(run: &mut ToolRun, name: &str, sign: Option<f64>, verify: Option<f64>) {
    operations(run, &format!("{name} sign"), sign.map(rate));
    operations(run, &format!("{name} verify"), verify.map(rate));
}

/// Nobody waits a second for an operation of these, so what is below 1 is a time in seconds: OpenSSL 1.0 wrote these.
fn rate(value: f64) -> f64 {
    if value < 1.0 { 1.0 / value } else { value }
}

/// `rsa 2048 bits 0.000221s 0.000013s   4516.0  74854.2`, or one pair of columns for key exchanges.
fn read_keys<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let mut columns = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if is_table_of_keys(line) {
            columns = words.len();
            continue;
        }
        let Some(bits) = words.iter().position(|word| *word == "bits").filter(|_| columns > 0) else {
            continue;
        };
        if bits == 0 || line.starts_with("Doing ") {
            continue;
        }
        whole(words[bits - 1])?;
        if words[..bits - 1].iter().any(|word| count(word).is_some()) {
            return Err(Unreadable::Row(line));
        }
        let names = words.len().checked_sub(columns).filter(|names| *names > bits);
        let (names, figures) = words.split_at(names.ok_or_else(|| Unreadable::Figure(line.into()))?);
        let name = names.iter().filter(|word| **word != "bits").copied().collect::<Vec<_>>().join(" ");
        let (times, rates) = figures.split_at(columns / 2);
        for time in times {
            printed(Some(time), |time| time.strip_suffix('s').and_then(positive))?;
        }
        let rates: Vec<Option<f64>> =
            rates.iter().map(|rate| printed(Some(rate), positive)).collect::<Result<_, _>>()?;
        match rates[..] {
            [only] => operations(run, &name, only),
            [sign, verify, ..] => {
                operations(run, &format!("{name} sign"), sign);
                operations(run, &format!("{name} verify"), verify);
            }
            [] => {}
        }
    }
    Ok(())
}

/// `AES-128-GCM     406610.12k` below `type           1024 bytes`.
fn read_blocks<'t>(run: &mut ToolRun, text: &'t str) -> Result<(), Unreadable<'t>> {
    let mut sizes: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("type ") {
            let found = rest.split("bytes").map(str::trim).filter(|size| !size.is_empty());
            sizes = found.map(whole).collect::<Result<_, _>>()?;
            continue;
        }
        if is_table_of_keys(line) {
            sizes.clear();
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        // Before OpenSSL 1.1.0 a name has blanks, as in `aes-256 cbc`.
        let Some(names) =
            words.len().checked_sub(sizes.len()).filter(|names| *names > 0 && !sizes.is_empty())
        else {
            continue;
        };
        let (name, values) = words.split_at(names);
        if values.first().is_some_and(|value| is_of_blocks(value)) {
            if name.last().is_some_and(|word| count(word).is_some()) {
                return Err(Unreadable::Row(line));
            }
            for (size, value) in sizes.iter().zip(values) {
                bytes(run, &name.join(" "), size, printed(Some(value), bytes_per_s)?);
            }
        }
    }
    Ok(())
}

/// Whether a word has the form of a figure in the table of blocks.
fn is_of_blocks(word: &str) -> bool {
    let has_two_decimals = || word.split_once('.').is_some_and(|(_, decimals)| decimals.len() == 2);
    word.ends_with('k') || is_absent(word) || positive(word).is_some() && has_two_decimals()
}

/// OpenSSL prints up to 10,000 bytes per second as they are, and more in thousands with a `k`.
fn bytes_per_s(word: &str) -> Option<f64> {
    match word.strip_suffix('k') {
        Some(kilo) => positive(kilo).map(|kilo| kilo * 1000.0),
        None => positive(word),
    }
}

/// Which clock it was: by its own words, or by how long it says to have worked of the time that it was to.
fn read_clock(run: &mut ToolRun, text: &str, all_done: &[Done]) {
    if text.contains("measure elapsed time instead of user CPU time") {
        run.option("clock", "elapsed");
        return;
    }
    match all_done.iter().find(|done| done.worked_s < 0.95 * done.asked_s) {
        Some(Done { asked_s, worked_s, .. }) => {
            run.option("clock", "user CPU time");
            run.warn(NoticeKind::CpuClock.with([worked_s * 1e9, asked_s * 1e9]));
        }
        None => run.warn(
            "the output does not say whether -elapsed was given; without it, rates are those of CPU time and too high where the \
             process waited; run it with -elapsed",
        ),
    }
}

/// How often an operation was done, from a line `Doing …`.
struct Done {
    /// The metric with its rate, where the line names it in a known form.
    metric: Option<String>,
    /// Operations or bytes.
    amount: f64,
    /// How long it was to work, and how long it says to have worked.
    asked_s: f64,
    worked_s: f64,
    is_of_bytes: bool,
}

/// `Doing sha256 for 3s on 64 size blocks: 1234 sha256's in 3.00s`, or of a key:
/// `Doing 2048 bits private rsa's for 10s: 11290 2048 bits private RSA's in 10.00s`.
fn done(line: &str) -> Result<Option<Done>, Unreadable<'_>> {
    let parts = || {
        let (what, rest) = line.strip_prefix("Doing ")?.split_once(": ")?;
        let ((name, asked), (counted, worked)) = (what.split_once(" for ")?, rest.rsplit_once(" in ")?);
        let (asked, size) = asked.split_once(" on ").unwrap_or((asked, ""));
        let name = name.trim_end_matches(" ops").trim_end_matches("'s");
        // The number of bits follows the count of operations on keys.
        let bits = name.split(' ').next().filter(|bits| count(bits).is_some());
        let counted =
            bits.and_then(|bits| counted.split_once(&format!(" {bits}"))).map_or(counted, |(count, _)| count);
        Some((name, asked, size, counted, worked.trim_end()))
    };
    let Some((name, asked, size, counted, worked)) = parts() else { return Ok(None) };
    let seconds = |text: &str| text.strip_suffix('s').and_then(positive);
    let size = printed(size.split(' ').next(), positive)?;
    let metric = match (size, &name.split_whitespace().collect::<Vec<_>>()[..]) {
        (Some(bytes), _) => Some(identifier(&format!("{name}_{bytes}"))),
        (None, [bits, "bits", verb, algorithm @ ..]) if !algorithm.is_empty() => {
            Some(key_name(whole(bits)?, verb, &algorithm.join(" ")))
        }
        _ => None,
    };
    Ok(Some(Done {
        metric,
        amount: figure(counted, positive)? * size.unwrap_or(1.0),
        asked_s: figure(asked, seconds)?,
        worked_s: figure(worked, seconds)?,
        is_of_bytes: size.is_some(),
    }))
}

/// The lines `Doing …`. The processes of `-multi` write theirs into each other, so that some of those cannot be read.
fn all_done(text: &str, is_of_several: bool) -> Result<Vec<Done>, Unreadable<'_>> {
    let found = text.lines().map(done).filter(|done| done.is_ok() || !is_of_several);
    Ok(found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

impl Done {
    /// Compares the count over the time with the table. Times have two decimals.
    fn hold_against_table(&self, run: &mut ToolRun) {
        let Some(metric) = &self.metric else { return };
        if let Some(Reading::Gauge(per_s)) = run.measurement.readings.get(metric)
            && self.worked_s > 0.0
        {
            // The table has one decimal of operations, and two of 1000 bytes.
            let decimal = if self.is_of_bytes { 5.0 } else { 0.05 };
            let share = 0.005 / self.worked_s + 0.005 + decimal / per_s;
            let what = ["per second in the table", "the count over the time above it"];
            run.sum(what, Some(*per_s), Some(self.amount / self.worked_s), share);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(text: &str, name: &str, value: f64, count: u64) {
        let run = read_runs(text).unwrap().pop().unwrap();
        let Some(Reading::Rate { value: found, count: counted }) = run.measurement.readings.get(name) else {
            panic!("{name}: {:?}", run.measurement.readings)
        };
        assert!((found / value - 1.0).abs() < 1e-9 && *counted == count, "{found} {counted}");
    }

    #[test]
    fn rates_of_openssl_1_1_1_have_their_counts() {
        check(
            "+F2:2:2048:920.792079:38226.000000\n+DTP:2048:private:rsa:1\n+R1:930:2048:1.01\n+DTP:2048:public:rsa:1\n\
             +R2:38226:2048:1.00\n",
            "rsa_2048_sign",
            920.792_079,
            930,
        );
        check(
            "+F4:3:256:26849.000000:8528.000000\n+DTP:256:sign:ecdsa:1\n+R5:26849:256:1.00\n+DTP:256:verify:ecdsa:1\n\
             +R6:8528:256:1.00\n",
            "ecdsa_256_sign",
            26849.0,
            26849,
        );
        let block = "+H:1024\n+F:22:aes-128-gcm:2086159360.00\n+DT:aes-128-gcm:1:1024\n+R:2037265:aes-128-gcm:1.000000\n";
        check(block, "aes_128_gcm_1024", 2_086_159_360.0, 2_037_265 * 1024);
    }

    #[test]
    fn rates_of_openssl_3_have_their_counts_and_no_others() {
        let text = "+F2:2:2048:1747.000000:35295.000000\n+F4:3:256:36898.000000:11081.000000\n\
                    +F5:3:256:15020.000000:0.000067\n+DTP:2048:private:rsa:1\n+R1:1747:2048:1.00\n\
                    +DTP:2048:public:rsa:1\n+R2:35295:2048:1.00\n";
        check(text, "rsa_2048_sign", 1747.0, 1747);
        let run = read_runs(text).unwrap().pop().unwrap();
        assert_eq!(run.measurement.readings["ecdh_256"], Reading::Gauge(15020.0));
        check(
            "+F2:2:2048:2279.000000:35631.000000:37789.000000:2341.000000\n+F9:2:16.346154:46157.000000:2140.000000\n\
             +DTP:2048:private:rsa sign:1\n+R1:2279:2048:1.00\n+DTP:2048:public:rsa verify:1\n+R2:35631:2048:1.00\n\
             +DTP:rsa2048:keygen:1\n+R15:17:rsa2048:1.04\n",
            "rsa_2048_sign",
            2279.0,
            2279,
        );
        check(
            "+F5:22:253:21667.326733:0.000046\n+DTP:253::ecdh:1\n+R9:21884:253:1.01\n",
            "ecdh_253",
            21_667.326_733,
            21884,
        );
    }

    #[test]
    fn counts_of_several_processes_are_summed_although_their_lines_are_mixed() {
        let text = "Got: +F2:2:2048:926.732673:23281.000000 from 0\nGot: +F2:2:2048:850.495050:25724.752475 from 1\n\
                    +F2:2:2048:1777.227723:49005.752475\n+DTP:2048:private:rsa:1\n+DTP:2048:private:rsa:1\n\
                    +R1:936:2048:1.01\n+DTP:2048:public:rsa:1\n+R1:859:2048:1.01\n+DTP:2048:public:rsa:1\n\
                    +R2:23281:2048:1.00\n+R2:25982:2048:1.01\n";
        check(text, "rsa_2048_sign", 1_777.227_723, 936 + 859);
        check(text, "rsa_2048_verify", 49_005.752_475, 23_281 + 25_982);
        let blocks = "Got: +H:1024 from 0\nGot: +F:25:sha256:488058880.00 from 0\nGot: +H:1024 from 1\n\
                      Got: +F:25:sha256:624968704.00 from 1\n+F:25:sha256:1113027584.00\n+DT:sha256:1:1024\n+DT:sha256:1:1024\n\
                      +R:476620:sha256:1.000000\n+R:610321:sha256:1.000000\n";
        check(blocks, "sha256_1024", 1_113_027_584.0, (476_620 + 610_321) * 1024);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(\\+(F|R|DT|DTP|H)[0-9]?[:0-9a-z.-]{0,30}\n){0,8}\\PC{0,20}") {
            let _ = read_runs(&text);
        }
    }
}
