//! Rules for several outputs of one tool.

use std::collections::BTreeMap;

use crate::audit::document::Document;
use crate::audit::finding::{Finding, Output};
use crate::audit::headings::has_word;
use crate::audit::loads::{has_cpu_of_load, is_continuous, is_repeated, is_tls, main, value};
use crate::audit::rule::Rule;
use crate::audit::runs::explained_by_cap;
use crate::audit::sameness::{differing, identity};
use crate::audit::words::{at_lines, digits, list};

/// Words that show that a text is about an accelerator.
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

/// Groups outputs by a key, in the order of the text.
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

/// Reports variants without a second run.
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
    let which = match singles.len() {
        all if all == outputs.len() => "Each variant was",
        1 => "A variant was",
        _ => "Some variants were",
    };
    Some(Finding {
        line: last.line,
        rule: Rule::OneRunEach,
        why: format!(
            "{which} measured once by {tool} ({}), one after the other. How much two runs of the same variant differ is unknown, so \
             no difference between variants has an interval. A drift of the machine looks like an effect.",
            at_lines(singles.iter().map(|output| output.line))
        ),
    })
}

/// Two runs that differ only in the number of requests show how much runs vary.
fn same_settings_twice(outputs: &[&Output]) -> Option<Finding> {
    outputs.windows(2).find_map(|pair| {
        let [one, other] = [pair[0], pair[1]];
        let sections = section_of_a_count(&one.headings).zip(section_of_a_count(&other.headings))?;
        let has_same_options = differing(one, other).iter().all(|(name, ..)| *name == "document length");
        let (before, after) = main(one).zip(main(other))?;
        let off = after.value / before.value - 1.0;
        (sections.0 == sections.1 && has_same_options && off.abs() > 0.02).then(|| {
            Finding {
                line: other.line,
                rule: Rule::RunsOfOneSettingDiffer,
                why: format!(
                    "{} is {} at line {} and {} here, {:+.1}%, although only the number of requests differs. A difference of this size \
                     between variants means nothing yet.",
                    before.name_with_statistic(),
                    digits(before.value),
                    one.line,
                    digits(after.value),
                    off * 100.0
                ),
            }
        })
    })
}

/// The headings above one that is a count, such as `10000 requests`.
fn section_of_a_count(headings: &[String]) -> Option<&[String]> {
    let (last, outer) = headings.split_last()?;
    let (count, noun) = last.split_once(' ')?;
    (count.parse::<u64>().is_ok() && noun.trim() == "requests").then_some(outer)
}

/// Reports options, other than the command, in which runs differ.
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

/// A cap cannot make a volume faster.
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
                "{metric} is {:.0}% above the baseline at line {}, although this volume has a limit: runs differ by at least that much for \
                 reasons other than the policy.",
                (ratio - 1.0) * 100.0,
                first.line
            ),
        })
    })
}

/// Reports facts that a reader needs and that no output has.
fn unknowns(document: &Document<'_>, outputs: &[&Output]) -> Vec<Finding> {
    let Some((first, last)) = outputs.first().zip(outputs.last()) else { return Vec::new() };
    let tool = first.run.tool;
    let mut found = Vec::new();
    let mut unknown = |rule: Rule, why: String| found.push(Finding { line: last.line, rule, why });
    if is_continuous(first) && !outputs.iter().any(|output| has_cpu_of_load(output)) {
        unknown(
            Rule::LoadCpuUnknown,
            format!(
                "{tool} does not say how busy its own CPUs were. If the load was the limit, the numbers describe the load."
            ),
        );
    }
    let is_tls = outputs.iter().any(|output| is_tls(output));
    if first.run.path == "http" && is_tls {
        unknown(
            Rule::HandshakesUnknown,
            format!(
                "{tool} does not say how many handshakes were full and how many resumed a session. A resumed handshake needs no \
                 private-key operation, so it hides an accelerator."
            ),
        );
    }
    if first.run.path == "storage" {
        unknown(
            Rule::VolumeStateUnknown,
            format!(
                "{tool} does not say whether the volume was written before it was read, how much of it was cached, or what else used it."
            ),
        );
    }
    let text = document.text();
    let is_offload = has_word(text, ACCELERATORS) || is_tls && has_word(text, &["offload"]);
    if is_offload && !["fw_counters", "fw_counter", "cnv_stats"].iter().any(|counter| text.contains(counter))
    {
        unknown(
            Rule::AcceleratorUnproven,
            "No counter, such as QAT's fw_counters, shows that the accelerator did the work. An engine that loads may still leave the \
             work to software."
                .to_owned(),
        );
    }
    found
}
