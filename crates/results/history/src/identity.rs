//! Identity of runs and comparability of values: hashes of content and settings, and the class of hosts.

use std::collections::BTreeSet;

use plumb_digest::of_json;
use plumb_model::{Cell, Header, Plan, PlannedVariant, Run};
use serde_json::{Value, json};

/// The identity that a run keeps when it is extended. An imported run uses its key, because its plan does not
/// say when it was made.
pub(crate) fn origin(run: &Run, key: &str) -> String {
    let Header { plan, started_at, .. } = &run.header;
    match plan.imported {
        Some(_) => key.to_owned(),
        None => of_json(&(&plan.name, started_at, plan.seed, host_class(&run.header))),
    }
}

/// The hash of everything that changes the meaning of the variants' values in a cell. It leaves out the seed,
/// the claims, the numbers of blocks and the titles.
pub(crate) fn digest_of(plan: &Plan, variants: &[&PlannedVariant]) -> String {
    let settings = variants.iter().map(|variant| {
        json!({
            "settings": meaning(&variant.settings),
            "tunings": variant.tunings,
            "changes": variant.changes,
            "pods": variant.pods,
        })
    });
    let settings: Vec<Value> = settings.collect();
    of_json(&json!([plan.path, plan.quick, plan.window_ns, plan.warmup_ns, settings]))
}

/// The hash of the settings of all variants in all cells.
pub(crate) fn settings_digest(plan: &Plan) -> String {
    let of_cell = |cell: &Cell| digest_of(plan, &cell.variants.iter().collect::<Vec<_>>());
    of_json(&plan.cells.iter().map(of_cell).collect::<Vec<_>>())
}

/// Settings without null values, sorted by key. A later version with more optional keys then gives the same
/// value.
fn meaning(settings: &str) -> Value {
    match serde_json::from_str(settings) {
        Ok(value) => without_absent(value),
        Err(_) => Value::from(settings),
    }
}

fn without_absent(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(key, value)| (key, without_absent(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_absent).collect()),
        other => other,
    }
}

/// The class of a run's hosts in words: each host's place, CPU, kernel, virtualisation and governor, and the
/// number of CPUs of each side.
pub(crate) fn host_class(header: &Header) -> String {
    let names: BTreeSet<&str> =
        header.host.iter().filter_map(|(name, _)| Some(name.rsplit_once(": ")?.0)).collect();
    let mut parts: Vec<String> = Vec::new();
    for prefix in std::iter::once(None).chain(names.into_iter().map(Some)) {
        let of_host = one_host(&header.host, prefix);
        match prefix {
            _ if of_host.is_empty() => {}
            Some(name) => parts.push(format!("{name}: {of_host}")),
            None => parts.push(of_host),
        }
    }
    parts.push(format!("system {}", cpus(&header.system_cpus)));
    parts.push(format!("load {}", cpus(&header.load_cpus)));
    parts.join(", ")
}

fn one_host(lines: &[(String, String)], prefix: Option<&str>) -> String {
    let fact = |name: &str| {
        let whole = prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}: {name}"));
        lines.iter().find(|(known, _)| *known == whole).map(|(_, value)| value.trim().to_owned())
    };
    let kernel = fact("kernel").map(|release| format!("kernel {}", major_and_minor(&release)));
    let governor = fact("governor").map(|governor| format!("governor {governor}"));
    let parts = [fact("cpu"), kernel, fact("virtualisation"), governor];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `6.1` of `6.1.0-18-amd64`.
fn major_and_minor(release: &str) -> String {
    release.split(['.', '-']).take(2).collect::<Vec<_>>().join(".")
}

/// How many CPUs a list such as `0-3,8` or `0-3 of server1, 2 of client1` has, in words.
fn cpus(list: &str) -> String {
    let of_piece = |piece: &str| {
        let numbers = piece.trim().split(' ').next().unwrap_or_default();
        match numbers.split_once('-') {
            Some((first, last)) => {
                Some(last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.saturating_add(1))
            }
            None => numbers.parse::<u64>().ok().map(|_| 1),
        }
    };
    let pieces: Option<Vec<u64>> = list.split(',').map(of_piece).collect();
    match pieces.map(|counts| counts.into_iter().fold(0, u64::saturating_add)) {
        Some(1) => "1 CPU".to_owned(),
        Some(count) => format!("{count} CPUs"),
        None if list.is_empty() => "CPUs not known".to_owned(),
        None => format!("CPUs {list}"),
    }
}

#[cfg(test)]
mod tests {
    use plumb_digest::of_run;

    use super::*;
    use crate::made::run;

    #[test]
    fn the_key_is_that_of_the_content_wherever_it_is() {
        let first = run("x", 0, 1.0);
        let mut moved = first.clone();
        moved.directory = "elsewhere".to_owned();
        assert_eq!(of_run(&moved), of_run(&first));
        assert_eq!(of_run(&first).len(), 32);
        let mut longer = first.clone();
        longer.slots.push(longer.slots[0].clone());
        assert_ne!(of_run(&longer), of_run(&first));
        assert_eq!(origin(&longer, &of_run(&longer)), origin(&first, &of_run(&first)));
        assert_ne!(origin(&run("x", 1, 1.0), ""), origin(&first, ""));
    }

    #[test]
    fn a_digest_follows_what_changes_the_meaning_and_nothing_else() {
        let plan = run("x", 0, 1.0).header.plan;
        let of = |plan: &Plan| digest_of(plan, &[&plan.cells[0].variants[1]]);
        let same = |change: fn(&mut Plan)| {
            let mut changed = plan.clone();
            change(&mut changed);
            of(&changed) == of(&plan)
        };
        assert!(same(|plan| plan.seed += 1));
        assert!(same(|plan| plan.title = "another".to_owned()));
        assert!(same(|plan| plan.blocks.max += 1));
        assert!(same(|plan| plan.cells[0].variants[1].settings = r#"{"n":null,"a":1}"#.to_owned()));
        assert!(same(|plan| plan.cells[0].variants[0].settings = r#"{"b":1}"#.to_owned()), "another variant");
        assert!(!same(|plan| plan.cells[0].variants[1].settings = r#"{"a":2}"#.to_owned()));
        assert!(!same(|plan| plan.cells[0].variants[1].tunings.push("governor".to_owned())));
        assert!(!same(|plan| plan.window_ns += 1));
        assert!(!same(|plan| plan.warmup_ns += 1));
        assert!(!same(|plan| plan.quick = true));
        assert!(!same(|plan| plan.path = "http".to_owned()));
    }

    #[test]
    fn a_class_of_hosts_names_what_values_depend_on() {
        let mut header = run("x", 0, 1.0).header;
        let facts = [
            ("cpu", "EPYC 7763"),
            ("kernel", "6.1.0-18-amd64"),
            ("memory", "8 GiB"),
            ("governor", "performance"),
        ];
        header.host = facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        header.system_cpus = "0-1,4".to_owned();
        header.load_cpus = "2 (shared: there is only one CPU)".to_owned();
        let class = "EPYC 7763, kernel 6.1, governor performance, system 3 CPUs, load 1 CPU";
        assert_eq!(host_class(&header), class);
        header.host.extend([("client1: cpu".to_owned(), "Xeon".to_owned())]);
        header.load_cpus = "0-3 of client1, 0-1 of client2".to_owned();
        let class = "EPYC 7763, kernel 6.1, governor performance, client1: Xeon, system 3 CPUs, load 6 CPUs";
        assert_eq!(host_class(&header), class);
    }
}
