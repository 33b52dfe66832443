//! Rules over several outputs of one tool.

use std::collections::BTreeMap;

use crate::document::Document;
use crate::finding::{Finding, Output};
use crate::headings::has_word;
use crate::loads::{has_cpu_of_load, is_continuous, is_repeated, is_tls, main, value};
use crate::rule::Rule;
use crate::runs::explained_by_cap;
use crate::sameness::identity;
use crate::words::{at_lines, digits, list};

/// Words of a text about a device that takes work from the CPU.
const ACCELERATORS: &[&str] = &["qat", "qatengine", "qatprovider", "qatzip", "accelerator", "accelerators"];

pub(crate) fn findings(document: &Document<'_>, outputs: &[Output]) -> Vec<Finding> {
    let mut found = Vec::new();
    for of_metric in grouped(outputs, |output| (output.run.tool, main(output).map(|main| main.name))) {
        found.extend(one_run_each(&of_metric));
        found.extend(same_settings_twice(&of_metric));
        found.extend(different_options(&of_metric));
        found.extend(capped_and_faster(&of_metric));
    }
    for of_tool in grouped(outputs, |output| output.run.tool) {
        found.extend(unknowns(document, &of_tool));
    }
    found
}

/// The outputs of each key, in the order of the text.
fn grouped<K: PartialEq>(outputs: &[Output], key: impl Fn(&Output) -> K) -> Vec<Vec<&Output>> {
    let mut found: Vec<(K, Vec<&Output>)> = Vec::new();
    for output in outputs {
        let of = key(output);
        match found.iter_mut().find(|(known, _)| *known == of) {
            Some((_, group)) => group.push(output),
            None => found.push((of, vec![output])),
        }
    }
    found.into_iter().map(|(_, group)| group).collect()
}

/// Variants without a second run.
fn one_run_each(outputs: &[&Output]) -> Option<Finding> {
    let (last, tool) = (outputs.last()?, outputs.first()?.run.tool);
    let identities: Vec<_> = outputs.iter().map(|output| identity(output)).collect();
    let mut times: BTreeMap<_, usize> = BTreeMap::new();
    identities.iter().for_each(|identity| *times.entry(identity).or_default() += 1);
    let all = outputs.iter().zip(&identities);
    let singles: Vec<&&Output> = all
        .filter(|(output, identity)| times[identity] == 1 && !is_repeated(output))
        .map(|(output, _)| output)
        .collect();
    if outputs.len() < 2 || singles.is_empty() {
        return None;
    }
    let which = if singles.len() == outputs.len() { "Each variant" } else { "A variant" };
    Some(Finding {
        line: last.line,
        rule: Rule::OneRunEach,
        why: format!(
            "{which} was measured once by {tool} ({}), one after the other. How much two runs of the same variant differ is not known, so \
             no difference between variants has an interval, and a drift of the machine looks like an effect.",
            at_lines(singles.iter().map(|output| output.line))
        ),
    })
}

/// Two runs in sections that differ in the number of requests alone show how far runs lie apart.
fn same_settings_twice(outputs: &[&Output]) -> Option<Finding> {
    outputs.windows(2).find_map(|pair| {
        let [one, other] = [pair[0], pair[1]];
        let sections = section_of_a_count(&one.headings).zip(section_of_a_count(&other.headings))?;
        let differing = one.run.options.iter().filter(|(name, value)| other.run.options.get(*name) != Some(value));
        let differing = differing.filter(|(name, _)| *name != "document length").count();
        let (before, after) = main(one).zip(main(other))?;
        let off = after.value / before.value - 1.0;
        (sections.0 == sections.1 && differing == 0 && off.abs() > 0.02).then(|| {
            Finding {
                line: other.line,
                rule: Rule::RunsOfOneSettingDiffer,
                why: format!(
                    "{} is {} at line {} and {} here, {:+.1}%, with the same settings but for the number of requests: a difference of this \
                     size between variants means nothing yet.",
                    before.words(),
                    digits(before.value),
                    one.line,
                    digits(after.value),
                    off * 100.0
                ),
            }
        })
    })
}

/// The headings around one that is a count, such as `10000 requests`.
fn section_of_a_count(headings: &[String]) -> Option<&[String]> {
    let (last, outer) = headings.split_last()?;
    let (count, noun) = last.split_once(' ')?;
    (count.parse::<u64>().is_ok() && noun.trim() == "requests").then_some(outer)
}

/// Options in which the runs of a comparison differ, beside what was to be changed.
fn different_options(outputs: &[&Output]) -> Option<Finding> {
    let first = outputs.first()?;
    outputs.iter().skip(1).find_map(|other| {
        let known = first.run.options.iter().filter_map(|(name, value)| {
            let there = other.run.options.get(name)?;
            (there != value && name != "command").then(|| format!("{name} {value} and {there}"))
        });
        let known: Vec<String> = known.collect();
        (!known.is_empty()).then(|| Finding {
            line: other.line,
            rule: Rule::SettingsDiffer,
            why: format!("The runs at {} differ in {}.", at_lines([first.line, other.line]), list(&known)),
        })
    })
}

/// A volume under a cap cannot be faster than without one.
fn capped_and_faster(outputs: &[&Output]) -> Option<Finding> {
    let first = outputs
        .first()
        .filter(|output| output.run.tool == "dbench" && explained_by_cap(&output.run).is_none())?;
    let has_limit = |output: &&&Output| {
        has_word(&output.place(), &["limit", "limited", "maximum", "policy", "cap", "capped"])
            || explained_by_cap(&output.run).is_some()
    };
    outputs.iter().skip(1).filter(has_limit).find_map(|other| {
        let faster = first.run.metrics.iter().filter_map(|metric| {
            let (before, after) =
                (value(&first.run, &metric.name, None)?, value(&other.run, &metric.name, None)?);
            (after > 1.15 * before).then(|| (after / before, metric.name.clone()))
        });
        let (ratio, metric) = faster.max_by(|one, other| one.0.total_cmp(&other.0))?;
        Some(Finding {
            line: other.line,
            rule: Rule::FasterWithALimit,
            why: format!(
                "{metric} is {:.0}% above that of the baseline at line {}, although this volume has a limit: runs differ by at least that \
                 much for reasons that are not the policy.",
                (ratio - 1.0) * 100.0,
                first.line
            ),
        })
    })
}

/// What a reader needs and no output has.
fn unknowns(document: &Document<'_>, outputs: &[&Output]) -> Vec<Finding> {
    let Some((first, last)) = outputs.first().zip(outputs.last()) else { return Vec::new() };
    let tool = first.run.tool;
    let mut found = Vec::new();
    let mut unknown = |rule: Rule, why: String| found.push(Finding { line: last.line, rule, why });
    if is_continuous(first) && !outputs.iter().any(|output| has_cpu_of_load(output)) {
        unknown(
            Rule::LoadCpuUnknown,
            format!(
                "{tool} does not say how busy its own CPUs were. Where the load was the limit, the numbers are those of the load."
            ),
        );
    }
    let is_tls = outputs.iter().any(|output| is_tls(output));
    if first.run.path == "http" && is_tls {
        unknown(
            Rule::HandshakesUnknown,
            "Nothing tells how many handshakes were full and how many resumed a session. A resumed one needs no private-key operation, \
             so it hides an accelerator."
                .to_owned(),
        );
    }
    if first.run.path == "storage" {
        unknown(
            Rule::VolumeStateUnknown,
            "Nothing tells whether the volume was written before it was read, how much of it was cached, and what else used it.".to_owned(),
        );
    }
    let text = document.text();
    let is_offload = has_word(&text, ACCELERATORS) || is_tls && has_word(&text, &["offload"]);
    if is_offload && !["fw_counters", "fw_counter", "cnv_stats"].iter().any(|counter| text.contains(counter))
    {
        unknown(
            Rule::AcceleratorUnproven,
            "No counter shows that the accelerator did the work, such as fw_counters of QAT: an engine that loads may still leave the \
             work to software."
                .to_owned(),
        );
    }
    found
}
