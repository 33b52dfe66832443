//! Good files and their plans.

use insta::assert_snapshot;
use plumb_model::Blocks;
use serde_json::Value;

use super::*;
use crate::schema;

fn settings(plan: &Plan, cell: usize, variant: usize) -> Value {
    serde_json::from_str(&plan.cells[cell].variants[variant].settings).unwrap()
}

fn treatments(plan: &Plan) -> String {
    let line = |variant: &plumb_model::Variant| format!("{} = {}", variant.name, variant.treatment);
    plan.variants.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_variant_may_be_named_as_an_engine_or_a_metric() {
    let named = GOOD.replace("plain", "io_uring");
    assert_eq!(plan(&named).claims[2].left.variant, "io_uring");
    assert!(plan(&named).variants.iter().any(|variant| variant.name == "io_uring"));
}

#[test]
fn the_example_of_the_design_is_a_plan() {
    let plan = plan(GOOD);
    assert_eq!((plan.name.as_str(), plan.path.as_str(), plan.baseline), ("tls-offload", "http", 0));
    assert_eq!(plan.title, "Does offloading TLS handshakes help an ingress?");
    assert_eq!((plan.window_ns, plan.warmup_ns), (5_000_000_000, 250_000_000));
    assert_eq!(plan.blocks, Blocks { min: 5, max: 20 });
    assert_eq!(plan.claims.len(), 3);
    assert_eq!(plan.cells.len(), 1);
    assert_eq!(plan.cells[0].label(), "load.connections=20");
    assert!(plan.metric("cpu_system").is_some() && plan.metric("http_reqs").is_some());
    assert_snapshot!(treatments(&plan), @r"
    software = the baseline
    plain = ingress.tls: none
    threads = ingress.offload: threads
    ");
    let software = settings(&plan, 0, 0);
    assert_eq!(software["system"]["ingress"]["tls"], "1.2");
    assert_eq!(software["system"]["origin"]["body"], "612 B");
    assert_eq!(software["load"]["connections"], 20);
    assert_eq!(settings(&plan, 0, 1)["system"]["ingress"]["tls"], "none");
    assert_eq!(settings(&plan, 0, 2)["system"]["ingress"]["offload"], "threads");
    assert!(plan.cells[0].variants.iter().all(|variant| variant.skipped.is_none()));
}

#[test]
fn a_name_may_have_a_value_of_its_own() {
    let plan = plan(&with("{ offload: threads }", "{ offload: { engine: qatengine } }"));
    assert_eq!(plan.variants[2].treatment, "ingress.offload.engine: qatengine");
    assert_eq!(settings(&plan, 0, 2)["system"]["ingress"]["offload"]["engine"], "qatengine");
    assert_eq!(plan.cells[0].variants[0].differs, Some(Vec::new()));
    assert_eq!(plan.cells[0].variants[2].differs, Some(vec!["system.ingress.offload".to_owned()]));
}

#[test]
fn a_matrix_makes_cells_in_the_order_of_the_file() {
    let plan = plan(&with(
        "load.connections: [20]",
        "load.connections: [1, 20], system.ingress.key: [rsa-4096, ecdsa-p256]",
    ));
    let labels: Vec<String> = plan.cells.iter().map(plumb_model::Cell::label).collect();
    assert_snapshot!(labels.join("\n"), @r"
    load.connections=1, system.ingress.key=rsa-4096
    load.connections=1, system.ingress.key=ecdsa-p256
    load.connections=20, system.ingress.key=rsa-4096
    load.connections=20, system.ingress.key=ecdsa-p256
    ");
    let last = settings(&plan, 3, 1);
    assert_eq!(last["load"]["connections"], 20);
    assert_eq!(last["system"]["ingress"]["key"], "ecdsa-p256");
    assert_eq!(last["system"]["ingress"]["tls"], "none");
}

#[test]
fn null_puts_a_key_back_to_its_default() {
    let plan = plan(&with("tls: none", "tls: ~"));
    assert_eq!(settings(&plan, 0, 1)["system"]["ingress"]["tls"], "1.3");
    assert_snapshot!(treatments(&plan), @r"
    software = the baseline
    plain = ingress.tls: default
    threads = ingress.offload: threads
    ");
}

#[test]
fn every_type_of_setting_is_read_from_its_text() {
    let text =
        with("connections: 20", "connections: '20', requests: 7, rate: 1000 /s, share: 0.5, insecure: true");
    let plan = plan(&text.replace("reuse: none", "reuse: none, headers: { X-A: 1.20, X-B: 'null', X-C: ~ }"));
    let load = &settings(&plan, 0, 0)["load"];
    assert_eq!(load["connections"], 20);
    assert_eq!(load["requests"], 7);
    assert_eq!(load["rate"], "1000 /s");
    assert_eq!(load["share"], 0.5);
    assert_eq!(load["insecure"], true);
    assert_eq!(load["headers"], serde_json::json!({ "X-A": "1.20", "X-B": "null" }));
}

#[test]
fn a_baseline_that_changes_something_says_so_and_changes_no_other_variant() {
    let text = with("software: {}", "software: { system: { ingress: { key: rsa-4096 } } }");
    let plan = plan(&text.replace("threads: { system: { ingress: { offload: threads } } }", "threads: {}"));
    assert_snapshot!(treatments(&plan), @r"
    software = ingress.key: rsa-4096
    plain = ingress.tls: none, ingress.key: rsa-2048
    threads = ingress.key: rsa-2048
    ");
    assert_eq!(settings(&plan, 0, 2)["system"]["ingress"]["key"], "rsa-2048");
}

#[test]
fn only_a_control_repeats_the_baseline_unless_a_user_asked_the_same_twice() {
    let text = with("{ system: { ingress: { offload: threads } } }", "{ load: { reuse: none } }");
    assert_snapshot!(plan_of(&text, &ReadOptions::default()).unwrap_err().to_string(), @"`threads` has every setting of the baseline, so nothing is compared");
    let asked = ReadOptions { may_repeat: true, ..ReadOptions::default() };
    assert_eq!(plan_of(&text, &asked).unwrap().variants.len(), 3);
}

#[test]
fn a_control_is_a_copy_of_the_baseline() {
    let plan = plan(&with("  blocks:", "  control: true\n  blocks:"));
    let control = plan.variants.last().unwrap();
    assert_eq!((control.name.as_str(), control.control), ("control", true));
    assert_eq!(control.treatment, "as the baseline");
    let variants = &plan.cells[0].variants;
    assert_eq!(variants[0].settings, variants[3].settings);
}

#[test]
fn a_baseline_with_a_control_needs_no_other_variant() {
    let text = "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: aa }\n\
                spec: { path: null, baseline: a, variants: { a: ~ }, control: true }\n";
    let plan = plan(text);
    assert_eq!((plan.title.as_str(), plan.path.as_str(), plan.variants.len()), ("aa", "null", 2));
    assert!(plan.claims.is_empty());
    assert_eq!(plan.cells.len(), 1);
    assert_eq!(plan.cells[0].label(), "");
}

#[test]
fn null_is_the_name_of_a_data_path_and_of_nothing_else() {
    let text = "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: { name: aa }\n\
                spec: { path: null, baseline: a, variants: { a: ~ }, control: true }\n";
    for (key, column) in [("name: aa", 19), ("baseline: a", 31)] {
        let wrong = text.replace(key, &format!("{}: null", key.split(':').next().unwrap()));
        let error = plan_of(&wrong, &ReadOptions::default()).unwrap_err().plain();
        assert!(error.contains(&format!(":{column}: expected a text, found nothing")), "{key}: {error}");
    }
}

#[test]
fn only_leaves_out_variants_and_the_claims_about_them() {
    let options = ReadOptions { only: vec!["plain".to_owned()], ..ReadOptions::default() };
    let plan = plan_of(GOOD, &options).unwrap();
    let names: Vec<&str> = plan.variants.iter().map(|variant| variant.name.as_str()).collect();
    assert_eq!(names, ["software", "plain"]);
    assert_eq!(plan.claims.len(), 1);
    assert_eq!(plan.cells[0].variants.len(), 2);
    assert_eq!(plan.cells[0].variants[1].variant, 1);
    assert_eq!(settings(&plan, 0, 1)["system"]["ingress"]["tls"], "none");
}

#[test]
fn a_quick_run_is_one_cell_of_short_slots() {
    let text = with("load.connections: [20]", "load.connections: [1, 20]");
    let options = ReadOptions { quick: true, seed: 7, ..ReadOptions::default() };
    let plan = plan_of(&text, &options).unwrap();
    assert!(plan.quick && !plan_of(&text, &ReadOptions::default()).unwrap().quick);
    assert_eq!((plan.window_ns, plan.warmup_ns, plan.seed), (1_000_000_000, 100_000_000, 7));
    assert_eq!(plan.blocks, Blocks { min: 6, max: 12 });
    assert_eq!(plan.cells.len(), 1);
    let settings = settings(&plan, 0, 0);
    assert_eq!(settings["load"]["connections"], 1);
    assert_eq!(settings["load"]["duration"], "1 s");
}

#[test]
fn a_quick_run_of_many_variants_has_shorter_slots() {
    let many: String = (0..10)
        .map(|index| format!("    more-{index}: {{ load: {{ requests: {} }} }}\n", index + 1))
        .collect();
    let text = with("  variants:\n", &format!("  variants:\n{many}"));
    let options = ReadOptions { quick: true, ..ReadOptions::default() };
    let plan = plan_of(&text, &options).unwrap();
    assert_eq!(plan.cells[0].variants.len(), 13);
    let slots = 2 * plan.cells[0].variants.len() as u64 * u64::from(plan.blocks.min);
    assert!(
        slots * plan.window_ns <= 66_000_000_000 && plan.window_ns > 0,
        "{} slots of {}",
        slots,
        plan.window_ns
    );
}

#[test]
fn blocks_come_from_the_command_line_first() {
    let blocks = |text: &str, quick, blocks| {
        plan_of(text, &ReadOptions { quick, blocks, ..ReadOptions::default() }).unwrap().blocks
    };
    assert_eq!(blocks(GOOD, true, Some(9)), Blocks { min: 9, max: 9 });
    assert_eq!(blocks(&with("{ min: 5, max: 20 }", "{ max: 2 }"), false, None), Blocks { min: 2, max: 2 });
    assert_eq!(blocks(&with("{ min: 5, max: 20 }", "{ max: 2 }"), true, None), Blocks { min: 2, max: 2 });
    assert_eq!(blocks(&with("{ min: 5, max: 20 }", "{ min: 30 }"), false, None), Blocks { min: 30, max: 30 });
    assert_eq!(blocks(&with("{ min: 5, max: 20 }", "6"), false, None), Blocks { min: 6, max: 6 });
    assert_eq!(blocks(&with("  blocks: { min: 5, max: 20 }\n", ""), false, None), Blocks::default());
}

#[test]
fn a_plan_remembers_what_the_command_line_changed() {
    let options = ReadOptions { blocks: Some(9), only: vec!["threads".to_owned()], ..ReadOptions::default() };
    let plan = plan_of(GOOD, &options).unwrap();
    assert_eq!((plan.blocks_asked, &plan.only[..]), (Some(9), &["threads".to_owned()][..]));
    assert_eq!(super::plan(GOOD).blocks_asked, None);
}

#[test]
fn anchors_windows_line_ends_and_a_byte_order_mark_are_fine() {
    let text = with("software: {}", "software: &nothing {}")
        .replace("threads: { system: {", "threads: { load: *nothing, system: {");
    assert_eq!(plan(&text).variants.len(), 3);
    let windows = format!("\u{feff}---\n{GOOD}").replace('\n', "\r\n");
    assert_eq!(plan(&windows).claims, plan(GOOD).claims);
}

#[test]
fn the_schema_knows_each_data_path_and_requires_nothing_of_a_variant() {
    let schema = schema(&paths());
    assert_eq!(schema["title"], "Plumbline experiment");
    assert_eq!(schema["required"], serde_json::json!(["apiVersion", "kind", "metadata", "spec"]));
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["properties"]["path"]["enum"], serde_json::json!(["http", "null"]));
    assert_eq!(spec["required"], serde_json::json!(["path", "baseline", "variants"]));
    let http = &spec["allOf"][0];
    assert_eq!(http["if"]["properties"]["path"]["const"], "http");
    let settings = &http["then"]["properties"];
    assert_eq!(settings["load"]["properties"]["duration"]["examples"][0], "5 s");
    let variant = &settings["variants"]["additionalProperties"]["properties"]["system"];
    assert!(variant["properties"]["ingress"]["properties"]["tls"].is_object());
    assert!(!schema.to_string().contains("$ref"), "every part is in place");
    assert_eq!(spec["properties"]["variants"]["type"], "object");
    let host = &spec["properties"]["host"];
    assert!(host.to_string().contains("\"tunings\""), "{host}");
}
