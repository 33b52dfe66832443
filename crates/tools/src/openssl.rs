//! `openssl speed`: its text, and the lines of `-mr`.
//!
//! Source: OpenSSL's `apps/speed.c`. Its clock is the user CPU time of its own process unless `-elapsed` was given. An engine that
//! sleeps, or a CPU that is shared, then makes rates too high without bound. OpenSSL 1.0 has seconds where later ones have rates.

use plumb_model::{Better, MetricKind, Reading, Unit};

use crate::text::{after, positive};
use crate::tool_run::ToolRun;

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

pub(crate) fn read(text: &str) -> Result<Vec<ToolRun>, String> {
    let mut run = ToolRun::new("openssl speed", "crypto", "operations");
    run.worked(None, None);
    let version =
        after(text, "version:").or_else(|| text.lines().find_map(|line| line.strip_prefix("OpenSSL ")));
    run.version = version.and_then(|line| line.split_whitespace().next()).map(str::to_owned);
    read_machine_readable(&mut run, text);
    read_keys(&mut run, text);
    read_blocks(&mut run, text);
    if run.metrics.is_empty() {
        return Err("it has no rate of any algorithm".to_owned());
    }
    read_clock(&mut run, text);
    if text.contains("Forked child") || text.lines().any(|line| line.starts_with("Got: ")) {
        run.warn("openssl speed ran with -multi: its numbers are sums over processes");
    }
    Ok(vec![run])
}

fn operations(run: &mut ToolRun, name: &str, per_s: Option<f64>) {
    if let Some(per_s) = per_s.filter(|per_s| *per_s > 0.0 && per_s.is_finite()) {
        let metric =
            ToolRun::own(name, Unit::PerSecond, Better::Higher, MetricKind::Rate, "operations per second");
        run.read_own(metric, Reading::Gauge(per_s));
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
        run.read_own(metric, Reading::Gauge(per_s));
    }
}

/// `+F2:2:2048:450.4:19154.3` and its siblings: a number for the kind, an index, then bits or a name, then values.
fn read_machine_readable(run: &mut ToolRun, text: &str) {
    let sizes: Vec<&str> = after(text, "+H:").map_or_else(Vec::new, |rest| rest.split(':').collect());
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().split(':').collect();
        let value = |at: usize| fields.get(at).and_then(|field| positive(field));
        let name = |at: usize| fields.get(at).copied().unwrap_or_default();
        match fields[0] {
            "+F" => {
                for (at, size) in sizes.iter().enumerate() {
                    bytes(run, name(2), size, value(3 + at));
                }
            }
            "+F2" => signatures(run, &format!("rsa {}", name(2)), value(3), value(4)),
            "+F3" => signatures(run, &format!("dsa {}", name(2)), value(3), value(4)),
            "+F4" => signatures(run, &format!("ecdsa {}", name(2)), value(3), value(4)),
            "+F5" => operations(run, &format!("ecdh {}", name(2)), value(3).map(rate)),
            "+F6" => signatures(run, name(3), value(4), value(5)),
            _ => {}
        }
    }
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
fn read_keys(run: &mut ToolRun, text: &str) {
    let mut is_exchange = false;
    for line in text.lines() {
        if is_table_of_keys(line) {
            is_exchange = line.split_whitespace().next() == Some("op");
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(first_time) =
            words.iter().position(|word| word.strip_suffix('s').and_then(positive).is_some())
        else {
            continue;
        };
        let times = words[first_time..].iter().take_while(|word| word.ends_with('s')).count();
        let rates: Vec<Option<f64>> = words[first_time + times..].iter().map(|word| positive(word)).collect();
        let is_row = words.contains(&"bits") && times == rates.len() && rates.iter().all(Option::is_some);
        if !is_row {
            continue;
        }
        let name =
            words[..first_time].iter().filter(|word| **word != "bits").copied().collect::<Vec<_>>().join(" ");
        match rates.as_slice() {
            [only] if is_exchange => operations(run, &name, *only),
            [sign, verify, ..] => {
                operations(run, &format!("{name} sign"), *sign);
                operations(run, &format!("{name} verify"), *verify);
            }
            _ => {}
        }
    }
}

/// `AES-128-GCM     406610.12k` below `type           1024 bytes`.
fn read_blocks(run: &mut ToolRun, text: &str) {
    let mut sizes: Vec<&str> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("type ") {
            sizes = rest.split("bytes").map(str::trim).filter(|size| !size.is_empty()).collect();
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != sizes.len() + 1 || sizes.is_empty() {
            continue;
        }
        for (size, word) in sizes.iter().zip(&words[1..]) {
            bytes(run, words[0], size, word.strip_suffix('k').and_then(positive).map(|kilo| kilo * 1000.0));
        }
    }
}

/// Which clock it was: by its own words, or by how long it says to have worked of the time that it was to.
fn read_clock(run: &mut ToolRun, text: &str) {
    if text.contains("measure elapsed time instead of user CPU time") {
        run.option("clock", "elapsed");
        return;
    }
    let short = text.lines().filter_map(worked).find(|(asked_s, worked_s)| *worked_s < 0.95 * asked_s);
    let remedy = "run it with -elapsed";
    match short {
        Some((asked_s, worked_s)) => {
            run.option("clock", "user CPU time");
            run.warn(format!(
                "openssl speed divided by the CPU time of its process, {worked_s} s of {asked_s} s: where it waits, for a CPU or \
                 a device, its rates are too high without bound; {remedy}"
            ));
        }
        None => run.warn(format!(
            "the output does not say whether -elapsed was given; without it, rates are those of CPU time and too high where the \
             process waited; {remedy}"
        )),
    }
}

/// Seconds asked for and worked: `Doing 2048 bits private rsa's for 1s: 1129 2048 bits private RSA's in 0.25s`.
fn worked(line: &str) -> Option<(f64, f64)> {
    let (asked, rest) = line.strip_prefix("Doing ")?.split_once("s: ")?;
    let asked_s = positive(asked.rsplit(' ').next()?)?;
    let worked_s = positive(rest.rsplit_once(" in ")?.1)?;
    Some((asked_s, worked_s))
}
