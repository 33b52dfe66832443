//! `plumb check`: checks an experiment and shows its plan: cells, variants, what would be skipped and why.

#[cfg(test)]
mod shown;

use std::fmt::Write;

use plumb_model::{Claim, Plan, RequiredSaving, Span};
use plumb_path::{LinkMaker, Server};
use plumb_runner::{Planned, at_most_s};
use serde::Serialize;

use crate::args::CheckArguments;
use crate::commands::{connecting, planning};
use crate::exit::{HOLDS, Outcome};
use crate::output;

/// Prints the plan.
pub fn check(arguments: &CheckArguments) -> Outcome {
    let hosts = || connecting::hosts(&arguments.places);
    let planned = planning::on(&arguments.experiment, &arguments.plan, hosts)?;
    if arguments.json {
        output::json(&Document { format: "plumbline.plan/1", plan: planned.plan() })?;
    } else {
        output::result(&described(&planned))?;
    }
    Ok(HOLDS)
}

/// The plan for programs.
#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    #[serde(flatten)]
    plan: &'a Plan,
}

/// The plan as text.
pub fn described(planned: &Planned) -> String {
    let mut text = describe(planned);
    if let Some(notice) = planned.short_trials() {
        let _ = writeln!(text, "! {}", plumb_report::notice(&notice));
    }
    if let Some(trial_ns) = planned.long_quick_trial_ns() {
        let _ = writeln!(
            text,
            "! with --quick, each trial takes {} because of the long limit, and the run may not end within 90 s",
            Span(trial_ns)
        );
    }
    text
}

fn describe(planned: &Planned) -> String {
    let plan = planned.plan();
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = match plan.title == plan.name {
        true => writeln!(text, "{}", plan.name),
        false => writeln!(text, "{} — {}", plan.name, plan.title),
    };
    let (least, most) = (plan.blocks.min, plumb_report::plural(plan.blocks.max as usize, "block"));
    let blocks = if least == plan.blocks.max { most } else { format!("{least} to {most}") };
    let _ = writeln!(
        text,
        "data path {}, seed {}, {blocks}, {} {:.2} s after {:.2} s of warm-up",
        plan.path,
        plan.seed,
        if plan.windows == 1 {
            "window".to_owned()
        } else {
            format!("about {} windows a slot of", plan.windows)
        },
        seconds(plan.window_ns),
        seconds(plan.warmup_ns)
    );
    for (index, cell) in plan.cells.iter().enumerate() {
        if !cell.values.is_empty() {
            let _ = writeln!(text, "\ncell {}: {}", index + 1, cell.label());
        } else {
            let _ = writeln!(text);
        }
        let width = plan.variants.iter().map(|variant| variant.name.len()).max().unwrap_or(0);
        for (at, cells) in cell.variants.iter().enumerate() {
            let variant = &plan.variants[cells.variant];
            if let Some(reason) = &cells.skipped {
                let _ = writeln!(text, "  - {:width$}  skipped: {reason}", variant.name);
                continue;
            }
            let _ = writeln!(text, "  + {:width$}  {}", variant.name, variant.treatment);
            let proof = cells.saving.as_ref().map(|proof| proof_words(plan, proof));
            let link = planned.link_maker(index, at).map(|maker| link_words(maker).to_owned());
            for words in proof.into_iter().chain(link) {
                let _ = writeln!(text, "    {:width$}  {words}", "");
            }
        }
    }
    let _ = writeln!(text);
    for claim in &plan.claims {
        let _ = match skipped_in(plan, claim) {
            Some(variant) => writeln!(text, "  – {} · skipped, as {variant} is", claim.text),
            None => writeln!(text, "  ? {}", claim.text),
        };
        if let Some(note) = &claim.note {
            let _ = writeln!(text, "    {note}");
        }
    }
    for server in planned.servers() {
        let _ = writeln!(text, "\n{}", server_words(&server));
    }
    let _ = match planned.hopeless() {
        Some(reason) => writeln!(text, "\nIt cannot run here: {reason}."),
        None => writeln!(text, "\n{}", duration_words(plan)),
    };
    text
}

/// The variant because of which a claim cannot be judged: it is skipped in every cell.
fn skipped_in<'a>(plan: &Plan, claim: &'a Claim) -> Option<&'a str> {
    claim.variants().into_iter().find(|name| {
        plan.cells
            .iter()
            .flat_map(|cell| &cell.variants)
            .all(|planned| planned.skipped.is_some() || plan.variants[planned.variant].name != *name)
    })
}

/// How long a run would take.
fn duration_words(plan: &Plan) -> String {
    let slots = plan.cells.iter().map(|cell| {
        let running = cell.variants.iter().filter(|variant| variant.skipped.is_none()).count();
        2 * u64::try_from(running).unwrap_or(u64::MAX)
    });
    let slots_in_a_round: u64 = slots.sum();
    let all_s = |blocks: u32| seconds(plan.slot_ns().saturating_mul(slots_in_a_round * u64::from(blocks)));
    let at_least_s = all_s(plan.blocks.min);
    let at_most_s = at_most_s(plan, at_least_s, all_s(plan.blocks.max));
    let (least, most) = (minutes(at_least_s), minutes(at_most_s));
    if least == most {
        format!("It would take {least}.")
    } else {
        format!("It would take {least} to {most}.")
    }
}

/// The proof that a treatment needs when it may have no counter.
fn proof_words(plan: &Plan, saving: &RequiredSaving) -> String {
    match saving.than {
        Some(than) => format!(
            "needs proof: a device's counters, or less {} than {}",
            saving.what, plan.variants[than].name
        ),
        None => "needs proof: a device's counters; nothing else can prove it, because no variant is \
                 the same without the treatment"
            .to_owned(),
    }
}

/// A server of this host, with the protocols that it can speak.
fn server_words(Server { name, speaks }: &Server) -> String {
    let speaks = match speaks.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => speaks.concat(),
    };
    format!("{name} on this host speaks {speaks}.")
}

/// The maker of a variant's link, as a line below the variant.
fn link_words(maker: LinkMaker) -> &'static str {
    match maker {
        LinkMaker::Kernel => "the kernel makes its link (netem)",
        LinkMaker::Plumbline => "plumb makes its link, which takes CPU time: see the evidence of each slot",
    }
}

fn seconds(span_ns: u64) -> f64 {
    span_ns as f64 / 1e9
}

fn minutes(total_s: f64) -> String {
    if total_s < 120.0 { format!("{total_s:.0} s") } else { format!("{:.0} min", total_s / 60.0) }
}

#[cfg(test)]
mod tests {
    use plumb_experiment::{ReadOptions, read_experiment};

    use crate::data_paths;

    /// The error of an experiment of a data path whose `spec` goes on with these lines, in one line.
    fn wrong(path: &str, spec: &str) -> String {
        let text = format!(
            "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: x }}\nspec:\n  path: \"{path}\"\n{spec}"
        );
        match read_experiment("x.yaml", text.as_bytes(), &ReadOptions::default(), &data_paths::all()) {
            Err(error) => error.plain(),
            Ok(_) => panic!("it is not refused: {text}"),
        }
    }

    #[test]
    fn a_policy_that_cannot_be_enforced_is_an_error_that_names_its_key() {
        let volume = |volume: &str, load: &str| {
            wrong(
                "storage",
                &format!(
                    "  system: {{ kind: volumes, volume: {{ size: 10 GB, layer: kernel, {volume} }} }}\n  \
                     load: {{ {load} }}\n  baseline: a\n  variants: {{ a: {{}}, b: {{ load: {{ depth: 2 }} }} }}\n"
                ),
            )
        };
        let capped = |max: &str| volume(&format!("policy: {{ fixed: {{ max_iops: {max} }} }}"), "depth: 4");
        insta::assert_snapshot!(capped("300 MB"), @"x.yaml:6:95: `300 MB` is an amount of data such as `612 B` or `4 KiB`; expected a rate such as `500 IOPS` or `1000 /s`");
        insta::assert_snapshot!(capped("0 IOPS"), @"x.yaml:6:85: 0 per second; from 1 to 10^15 is possible");
        let adaptive = |peak: &str| {
            let space = "peak_iops_allocation: allocated-space";
            volume(&format!("policy: {{ adaptive: {{ peak_iops: {peak}, {space} }} }}"), "depth: 4")
        };
        insta::assert_snapshot!(adaptive("0 IOPS/GB"), @"x.yaml:6:66: an adaptive policy needs a peak above 0 IOPS/TB");
        let both = "policy: { fixed: { max_iops: 9 IOPS }, adaptive: { peak_iops: 20 IOPS/GB } }";
        insta::assert_snapshot!(volume(both, "depth: 4"), @"x.yaml:6:66: a policy is either `fixed` or `adaptive`");
        let fixed = "policy: { fixed: { max_iops: 300 IOPS } }";
        insta::assert_snapshot!(volume(fixed, "access: randrw"), @"x.yaml:7:11: the kernel limits reads and writes separately, so both at once could do twice what the policy allows; either read or write");
        insta::assert_snapshot!(volume("filled: 40 GB", "depth: 4"), @"x.yaml:6:66: more than the volume holds");
    }

    #[test]
    fn an_array_and_a_suite_say_what_they_lack_and_what_they_have_no_room_for() {
        let storage = |system: &str, load: &str| {
            let variants = "baseline: a\n  variants: { a: {}, b: { load: { compressible: 50% } } }";
            wrong("storage", &format!("  system: {{ {system} }}\n  load: {{ {load} }}\n  {variants}\n"))
        };
        let array =
            "kind: ontap, path: 'nbd://127.0.0.1:1/v', ontap: { url: 'https://a', svm: s, volume: v }";
        insta::assert_snapshot!(storage(array, "depth: 1"), @"x.yaml:6:55: either `credentials_env` names an environment variable or `credentials_file` a file that holds `user:password`");
        insta::assert_snapshot!(storage("kind: file, size: 32 MiB", "suite: dbench, verify: true"), @"x.yaml:7:26: the suite does not check what it reads");
    }

    #[test]
    fn what_is_wrong_with_a_change_is_said_where_it_stands() {
        let said = |changes: &str| {
            wrong(
                "null",
                &format!(
                    "  baseline: a\n  variants:\n    a: {{}}\n    b: {{ changes: [{{ {changes} }}] }}\n"
                ),
            )
        };
        insta::assert_snapshot!(said("command: { apply: a, revert: b, verify: c }"), @"x.yaml:9:54: nothing says what `verify` prints once the change is made, so it could not be proven: add `expect` with that text, or `matches` with a regular expression");
        insta::assert_snapshot!(said("command: { apply: a, revert: b, expect: c }"), @"x.yaml:9:31: the key `verify` is missing here");
        insta::assert_snapshot!(said("file: { path: etc/x, contents: a }"), @"x.yaml:9:30: `etc/x` is not the whole path of a file; write one such as `/etc/nginx/nginx.conf`");
        insta::assert_snapshot!(said("kernel: { x: y }"), @"x.yaml:9:22: `kernel` is not a value of this key; known: command, file, sysctl, service, kubernetes");
        insta::assert_snapshot!(said("file: { path: /etc/app.conf, contents: a, mood: x }"), @"x.yaml:9:64: unknown key `mood`; did you mean `mode`?");
        insta::assert_snapshot!(said("file: { path: /etc/app.conf, contents: a, place: client }"), @"x.yaml:9:71: `client` is not a value of this key; known: system, load");
        insta::assert_snapshot!(said("sysctl: { vm.swappiness: 7, place: client }"), @"x.yaml:9:30: `place` is `client`; write `system` or `load`");
    }
}
