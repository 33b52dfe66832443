//! Whether two runs of a tool did the same work and differ in a single named thing.

use crate::audit::alternatives::{Apart, apart, is_same_subject};
use crate::audit::finding::Output;

/// A run's options and place in the text. Runs that agree in all of these are repetitions.
pub(crate) fn identity(output: &Output) -> impl Ord + '_ {
    (&output.headings, &output.caption, &output.run.label, &output.run.options)
}

/// Whether two runs did the same work and differ in a single named thing.
pub(crate) fn comparable(one: &Output, other: &Output) -> bool {
    let security = ["tls", "tls_version", "cipher", "group"];
    let seen = |output: &Output, name: &str| output.run.measurement.observed.get(name).cloned();
    let is_tool = one.run.tool == other.run.tool && one.run.path == other.run.path;
    if !is_tool || security.iter().any(|name| seen(one, name) != seen(other, name)) {
        return false;
    }
    match &differing(one, other)[..] {
        [] => is_named(one, other),
        [(name, before, after)] => is_choice(name, before, after),
        _ => false,
    }
}

/// Options in which runs differ, with both values.
pub(crate) fn differing<'o>(one: &'o Output, other: &'o Output) -> Vec<(&'o str, &'o str, &'o str)> {
    let mut names: Vec<&String> = one.run.options.keys().chain(other.run.options.keys()).collect();
    names.sort();
    names.dedup();
    let of = |output: &'o Output, name: &str| output.run.options.get(name).map_or("", String::as_str);
    let all = names.into_iter().map(|name| (name.as_str(), of(one, name), of(other, name)));
    all.filter(|(name, before, after)| {
        before != after && !(*name == "document length" && has_same_bytes(one, other))
    })
    .collect()
}

/// ab prints the document length of the first answer only. The bytes per request show whether the other answers had the same length.
fn has_same_bytes(one: &Output, other: &Output) -> bool {
    let of = |output: &Output| {
        let reading = output.run.measurement.readings.get("data_received")?;
        let plumb_model::Reading::Rate { count, .. } = reading else { return None };
        Some(*count as f64 / output.run.measurement.work as f64)
    };
    of(one).zip(of(other)).is_some_and(|(one, other)| (one / other - 1.0).abs() < 0.01)
}

/// Whether a single heading, caption or label tells two runs apart by more than a number.
fn is_named(one: &Output, other: &Output) -> bool {
    let (own, others) = (one.names(other), other.names(one));
    let is_one = own.len() <= 1 && others.len() <= 1;
    is_one && is_same_subject(own.first().unwrap_or(&""), others.first().unwrap_or(&""))
}

/// Whether an option that differs is the subject of the comparison rather than a setting.
fn is_choice(name: &str, one: &str, other: &str) -> bool {
    match name {
        "command" => apart(one, other, name).is_none_or(|apart| apart == Apart::Qualified),
        "host" => true,
        "url" => {
            let path = |url: &str| {
                let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
                let path = rest.find('/').map_or("/", |at| &rest[at..]);
                format!("{scheme}:{path}")
            };
            path(one) == path(other)
        }
        _ => false,
    }
}
