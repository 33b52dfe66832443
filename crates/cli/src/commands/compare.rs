//! `plumb compare RUN RUN`: two run directories side by side.

use plumb_judge::contrast;
use plumb_report::{contrast_json, contrast_text};

use crate::args::CompareArguments;
use crate::commands::report::read_run;
use crate::exit::{HOLDS, Outcome, VOID};
use crate::output;

/// Prints in what two runs differ, and how their effects differ.
pub fn compare(arguments: &CompareArguments) -> Outcome {
    let (first, second) = (read_run(&arguments.first)?, read_run(&arguments.second)?);
    let found = contrast(&first, &second);
    if arguments.json {
        output::result(&contrast_json([&first, &second], &found))?;
    } else {
        output::painted(&contrast_text([&first, &second], &found, &output::style(120)))?;
    }
    Ok(if found.shifts.is_empty() { VOID } else { HOLDS })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use plumb_model::{Imported, OrderSource, Run};
    use serde_json::Value;

    use crate::in_process::{made, on_disk, plumb};

    /// Run `number`, whose variant is that much faster and has these settings.
    fn run(folder: &Path, number: u32, factor: f64, throughput: &str) -> String {
        let mut run = made::run("x", number, factor);
        run.header.plan.cells[0].variants[1].settings = settings(throughput);
        kept(folder, &run)
    }

    fn settings(throughput: &str) -> String {
        serde_json::json!({ "system": { "throughput": throughput } }).to_string()
    }

    fn kept(folder: &Path, run: &Run) -> String {
        on_disk(folder, run).to_str().unwrap().to_owned()
    }

    fn effect(found: &Value) -> (bool, f64, f64) {
        let effects = found["effects"].as_array().unwrap();
        let effect = effects.iter().find(|effect| effect["metric"] == "throughput").unwrap();
        let bound = |name: &str| effect["change"][name].as_f64().unwrap();
        (effect["same_treatment"].as_bool().unwrap(), bound("low"), bound("high"))
    }

    #[test]
    fn effects_on_the_same_baseline_are_compared_and_the_settings_that_differ_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let one = run(folder.path(), 1, 0.75, "1500 /s");
        let again = run(folder.path(), 2, 0.75, "1500 /s");
        let fast = run(folder.path(), 3, 1.5, "3000 /s");

        let same = plumb(&["compare", &one, &again, "--json"]).json();
        assert_eq!(same["format"], "plumbline.compare/1");
        let (is_same, low, high) = effect(&same);
        assert!(is_same && low < 1.0 && 1.0 < high && high / low < 1.2, "{low} {high}");
        assert_eq!(same["differences"].as_array().unwrap().len(), 0, "{same}");

        let other = plumb(&["compare", &one, &fast, "--json"]).json();
        let (is_same, low, high) = effect(&other);
        assert!(!is_same && 1.8 < low && low < 2.0 && 2.0 < high && high < 2.2, "{low} {high}");
        assert_eq!(other["differences"][0]["what"], "system.throughput");
        assert_eq!(other["differences"][0]["second"], "3000 /s");

        let text = plumb(&["compare", &one, &fast]);
        assert_eq!(text.code, 0);
        insta::assert_snapshot!(text.out.replace(folder.path().to_str().unwrap(), ""), @r"
        first   /plumb-runs/x-1  x · 24 slots · 2026-01-01T01:00:00.000Z
        second  /plumb-runs/x-3  x · 24 slots · 2026-01-01T03:00:00.000Z

        What differs
        b: system.throughput: 1500 /s → 3000 /s

        b / a: different settings
                                    first                 second         second / first
        throughput  ×1.501 [1.488, 1.514]  ×3.007 [2.991, 3.024]  ×2.004 [1.976, 2.032]  they differ

        Each ratio is variant / baseline within one run. The two intervals and the one of their quotient are
        right together with a probability of 95%. Absolute values are not compared: everything may have
        changed between two runs.
        ");
    }

    #[test]
    fn an_edited_copy_of_a_run_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let one = run(folder.path(), 1, 0.75, "1500 /s");
        let mut edited = plumb_store::read_run(Path::new(&one)).unwrap();
        edited.slots.pop();
        edited.directory = "copy".to_owned();
        let other = kept(folder.path(), &edited);
        std::fs::write(Path::new(&other).join("experiment.yaml"), "kind: Other\n").unwrap();

        let said = plumb(&["compare", &one, &other, "--json"]);
        let found = said.json();
        let [content] = found["differences"].as_array().unwrap().as_slice() else { panic!("{found}") };
        let warning = "/experiment.yaml was edited since the run; the report shows the experiment that ran";
        assert!(said.err.contains(warning), "{}", said.err);
        let digest = |directory: &str| {
            let report = plumb(&["report", directory, "--format", "json"]).json();
            report["digest"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            (content["of"].as_str(), content["first"].as_str()),
            (Some("content"), Some(&*digest(&one)))
        );
        assert_eq!(content["second"].as_str(), Some(&*digest(&other)));
        for form in ["text", "markdown", "html"] {
            let report = plumb(&["report", &one, "--format", form]).out;
            assert!(report.contains(&digest(&one)[..8]), "{report}");
        }
    }

    #[test]
    fn imported_runs_without_times_are_not_taken_for_copies_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let imported = |name: &str, factor: f64| {
            let mut run = made::run("x", 1, factor);
            let (tool, order) = ("ab 2.3".to_owned(), OrderSource::Given);
            run.header.plan.imported = Some(Imported { tool, order, interleaved: true });
            run.header.started_at = String::new();
            run.directory = name.to_owned();
            kept(folder.path(), &run)
        };
        let found = plumb(&["compare", &imported("one", 0.75), &imported("other", 0.5), "--json"]).json();
        assert_eq!(found["differences"], serde_json::json!([]));
    }

    #[test]
    fn what_would_not_be_fair_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let one = run(folder.path(), 1, 0.75, "1500 /s");
        let mut other = made::run("x", 2, 0.75);
        other.header.plan.cells[0].variants[0].settings = settings("900 /s");
        let other = kept(folder.path(), &other);
        let said = plumb(&["compare", &one, &other]);
        assert_eq!(said.code, 4);
        insta::assert_snapshot!(said.out.replace(folder.path().to_str().unwrap(), ""), @r"
        first   /plumb-runs/x-1  x · 24 slots · 2026-01-01T01:00:00.000Z
        second  /plumb-runs/x-2  x · 24 slots · 2026-01-01T02:00:00.000Z

        What differs
        a: a: 1 → –
        b: system.throughput: 1500 /s → –
        a: system.throughput: – → 900 /s
        b: a: – → 1

        ! not compared: the baselines have different settings, so the ratios to them cannot be compared
        ");
        let found = plumb(&["compare", &one, &other, "--json"]).json();
        assert_eq!(found["effects"].as_array().unwrap().len(), 0);

        let missing = plumb(&["compare", &one, "/nowhere"]);
        assert_eq!(missing.code, 2);
        insta::assert_snapshot!(missing.err, @"error: failed to read a run from /nowhere: there is no run.json in it");
    }

    #[test]
    fn a_variant_that_is_void_is_not_compared() {
        let folder = tempfile::tempdir().unwrap();
        let one = run(folder.path(), 1, 0.75, "1500 /s");
        let mut unproven = made::run("x", 2, 0.75);
        for slot in unproven.slots.iter_mut().filter(|slot| slot.variant == "b") {
            if let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome {
                result.evidence[0].holds = false;
            }
        }
        let said = plumb(&["compare", &one, &kept(folder.path(), &unproven)]);
        assert_eq!(said.code, 4);
        let refusal = said.out.lines().find(|line| line.contains("not compared"));
        insta::assert_snapshot!(refusal.unwrap_or(&said.out), @"! not compared: `b` of the second run: it is void: no proof that the treatment was in effect:");
    }

    #[test]
    fn of_a_variant_that_one_run_lacks_one_line_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let one = run(folder.path(), 1, 0.75, "1500 /s");
        let mut more = made::run("x", 2, 0.75);
        let plan = &mut more.header.plan;
        plan.variants.push(plumb_model::Variant::new("c"));
        let settings =
            serde_json::json!({ "system": { "throughput": "9 /s", "latency": "1 ms" } }).to_string();
        plan.cells[0].variants[1].settings = self::settings("1500 /s");
        plan.cells[0].variants.push(plumb_model::PlannedVariant::new(2, settings.clone()));
        plan.variants.push(plumb_model::Variant::new("d"));
        plan.cells[0].variants.push(plumb_model::PlannedVariant::new(3, settings));
        let said = plumb(&["compare", &one, &kept(folder.path(), &more)]);
        let lines: Vec<&str> =
            said.out.lines().filter(|line| line.starts_with("c: ") || line.starts_with("d: ")).collect();
        assert_eq!(lines, ["c: variant: – → measured", "d: variant: – → measured"], "{}", said.out);
    }

    #[test]
    fn where_the_load_was_the_limit_costs_are_compared_and_rates_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let runs = [1, 2].map(|number| {
            let mut run = made::run("x", number, 0.75);
            run.header.plan.metrics.push((&plumb_model::metric::CPU_SYSTEM).into());
            for slot in &mut run.slots {
                let plumb_model::SlotOutcome::Measured(result) = &mut slot.outcome else { continue };
                let cost = if slot.variant == "b" { 20.0 } else { 10.0 };
                result
                    .measurement
                    .readings
                    .insert("cpu_system".to_owned(), plumb_model::Reading::Gauge(cost));
                result.measurement.health.busiest_thread = if slot.variant == "b" { 1.0 } else { 0.1 };
            }
            kept(folder.path(), &run)
        });
        let found = plumb(&["compare", &runs[0], &runs[1], "--json"]).json();
        let metrics: Vec<&str> = found["effects"]
            .as_array()
            .unwrap()
            .iter()
            .map(|effect| effect["metric"].as_str().unwrap())
            .collect();
        assert_eq!(metrics, ["cpu_system"], "{found}");
        let refusal = found["refusals"][0].as_str().unwrap();
        assert_eq!(
            refusal,
            "rates and times of `b` of the first run: the load, and not the system, was the limit"
        );
    }
}
