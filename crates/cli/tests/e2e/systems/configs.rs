//! A user's configuration of HAProxy and nginx: lines for sections, and templates.

use std::fs;
use std::path::PathBuf;

use crate::common::{code, run, stderr, stdout, unless_busy, write};

/// An experiment whose only other variant has this ingress.
fn experiment(directory: &std::path::Path, ingress: &str) -> PathBuf {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: configs }}\nspec:\n  path: http\n  system:\n    \
         ingress: {{ kind: haproxy, tls: \"1.3\", key: ecdsa-p256 }}\n  load: {{ connections: 2, duration: 200 ms, warmup: 50 ms }}\n  \
         baseline: plain\n  variants:\n    plain: {{}}\n    mine: {{ system: {{ ingress: {ingress} }} }}\n  blocks: {{ min: 2, max: 2 }}\n"
    );
    write(directory, "configs.yaml", text)
}

/// The evidence about the configuration in the slots of a run.
fn evidence(ingress: &str) -> Vec<(String, String, bool)> {
    let directory = tempfile::tempdir().unwrap();
    let file = experiment(directory.path(), ingress);
    let (into, output) = unless_busy(|attempt| {
        let into = directory.path().join(format!("run{attempt}"));
        let output = run(&["run", file.to_str().unwrap(), "--output", into.to_str().unwrap()]);
        (into, output)
    });
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let slots = fs::read_to_string(into.join("slots.jsonl")).unwrap();
    let of_slot = |line: &str| {
        let slot: serde_json::Value = serde_json::from_str(line).unwrap();
        // On a busy machine a short slot may fail, because counters were read too late.
        let all = slot.pointer("/slot/outcome/measured/evidence")?.as_array()?.clone();
        let it = all.into_iter().find(|it| it["what"] == "configuration of the ingress")?;
        let text = |key: &str| it[key].as_str().unwrap().to_owned();
        assert_eq!(slot["slot"]["variant"], "mine");
        Some((text("expected"), text("observed"), it["holds"].as_bool().unwrap()))
    };
    slots.lines().filter_map(of_slot).collect()
}

#[test]
fn lines_for_sections_of_haproxy_and_nginx_are_in_effect_and_in_the_evidence() {
    for (ingress, line) in [
        (
            "{ config: { global: \"tune.bufsize 32768\", defaults: \"timeout client 30s\" } }",
            "global: tune.bufsize 32768; defaults: timeout client 30s",
        ),
        (
            "{ kind: nginx, threads: 2, config: { server: \"ssl_session_cache shared:mine:1m;\", location: \"proxy_buffering off;\" } }",
            "server: ssl_session_cache shared:mine:1m;; location: proxy_buffering off;",
        ),
    ] {
        let found = evidence(ingress);
        assert!(!found.is_empty(), "{ingress}");
        for (expected, observed, holds) in found {
            assert!(holds && expected == observed && observed.contains(line), "{expected} and {observed}");
        }
    }
}

#[test]
fn a_template_is_filled_in_from_the_file_or_from_a_path() {
    let template = "{{main}}events {}\nhttp {\n  access_log off;\n  server {\n    listen {{listen}};\n{{tls}}    location / { proxy_pass http://{{origin}}; }\n  }\n{{http}}}\n";
    let directory = tempfile::tempdir().unwrap();
    let path = write(directory.path(), "nginx.conf", template);
    let found = evidence(&format!("{{ kind: nginx, config: {{ path: {} }} }}", path.display()));
    assert!(
        !found.is_empty()
            && found.iter().all(|(_, observed, holds)| *holds && observed.contains("lines of hash")),
        "{found:?}"
    );
    let inline =
        evidence(&format!("{{ kind: nginx, config: {{ template: {} }} }}", serde_json::json!(template)));
    assert_eq!(inline.first(), found.first());
}

#[test]
fn what_the_program_says_against_a_configuration_is_said_before_anything_starts() {
    let said = |ingress: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = experiment(directory.path(), ingress);
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let haproxy = said("{ config: { global: \"tune.nosuch 1\" } }");
    assert!(
        haproxy.contains("HAProxy refuses this configuration: ")
            && haproxy.contains("unknown keyword 'tune.nosuch'"),
        "{haproxy}"
    );
    assert!(haproxy.contains("configs.yaml:12:"), "{haproxy}");
    let nginx = said("{ kind: nginx, config: { server: \"no_such 1;\" } }");
    assert!(
        nginx.contains("unknown directive \"no_such\"") && nginx.contains("that line is `no_such 1;`"),
        "{nginx}"
    );
    assert!(said("{ kind: nginx, config: { global: x } }").contains("has no section `global` here"));
    assert!(
        said("{ kind: embedded, config: { global: x } }").contains("only `kind: haproxy` and `kind: nginx`")
    );
    assert!(
        said("{ config: { template: \"frontend {{bind}}\" } }").contains("the template needs {{global}}")
    );
    assert!(said("{ config: { path: /no/such/template } }").contains("failed to read /no/such/template"));
}
