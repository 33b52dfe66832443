//! Engines and providers in HAProxy and nginx: what loads and does nothing is found out and said.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::{code, plumb, processes_with_files_in, stderr, stdout, write};
use crate::systems::ingresses::installed;

/// Compiles the stand-in; `None`, with the reason printed, where there is no compiler or no headers of OpenSSL.
fn standin(directory: &Path) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/systems/engines/standin.c");
    let library = directory.join("standin.so");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-Wno-deprecated-declarations", "-o"])
        .args([&library, &source])
        .arg("-lcrypto")
        .output();
    match output {
        Ok(output) if output.status.success() => Some(library),
        Ok(output) => panic!("{}", stderr(&output)),
        Err(error) => {
            crate::common::skip(&format!("cc cannot be run: {error}"));
            None
        }
    }
}

/// Variants of HAProxy and nginx, at a rate at which no thread waits for a CPU.
fn experiment(variants: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: test }}\nspec:\n  path: http\n\
         \x20 system: {{ ingress: {{ kind: haproxy, tls: \"1.2\", key: rsa-2048 }} }}\n\
         \x20 load: {{ connections: 4, rate: 200 /s, reuse: none, duration: 400 ms, warmup: 50 ms }}\n\
         \x20 noise: {{ others_max: 100% }}\n  baseline: software\n  variants:\n    software: {{}}\n\
         \x20   nginx: {{ system: {{ ingress: {{ kind: nginx }} }} }}\n\
         \x20   nginx-two: {{ system: {{ ingress: {{ kind: nginx, threads: 2 }} }} }}\n{variants}  blocks: {{ min: 2, max: 2 }}\n\
         \x20 claims: [engine.http_reqs >= 1.1 * software.http_reqs]\n"
    )
}

/// Runs an experiment with OpenSSL's usual directories replaced by one, and returns its exit code and JSON.
fn run(text: &str, home: &Path) -> (i32, Value) {
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), "test.yaml", text);
    let path = directory.path().join("run");
    let output = plumb()
        .args(["run", file.to_str().unwrap(), "--seed", "2", "--json", "--output", path.to_str().unwrap()])
        .env("OPENSSL_ENGINES", home)
        .env("OPENSSL_MODULES", home)
        .output()
        .unwrap();
    let json = serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    assert!(processes_with_files_in(directory.path()).is_empty(), "processes are left");
    (code(&output), json)
}

fn variant<'a>(json: &'a Value, name: &str) -> &'a Value {
    let variants = json["variants"].as_array().unwrap();
    variants.iter().find(|variant| variant["name"] == name).unwrap()
}

/// It was loaded, and it saved nothing: two blocks are too few to show a saving, whatever the machine does. Returns whether CPU times were
/// compared: a busy machine may have left no block with both.
fn check_void(json: &Value, name: &str, program: &str, than: &str) -> bool {
    let variant = variant(json, name);
    assert_eq!(variant["state"], "void", "{variant:#}");
    let reason = variant["reason"].as_str().unwrap();
    let words = format!(
        "no proof that the treatment was in effect: expected CPU time of {program} per full handshake to be at least 2% \
         below that of {than}; observed "
    );
    let has_none =
        format!("no block has the CPU time of {program} per full handshake of both {name} and {than}");
    let saved_nothing = reason.starts_with(&words) && reason.contains(" us against ");
    assert!(saved_nothing || reason == has_none, "{reason}");
    let evidence = variant["evidence"].as_array().unwrap();
    let library =
        evidence.iter().find(|row| row["what"] == format!("library in the memory of {program}")).unwrap();
    assert!(library["observed"].as_str().unwrap().ends_with("/standin.so"), "{library:#}");
    assert!(evidence.iter().any(|row| row["holds"] == false), "{evidence:#?}");
    saved_nothing
}

/// A variant that asks for one engine or provider.
fn asks(name: &str, offload: &str, more: &str) -> String {
    format!("    {name}: {{ system: {{ ingress: {{ offload: {{ {offload} }}{more} }} }} }}\n")
}

#[test]
fn what_does_nothing_is_void_and_what_cannot_be_loaded_or_compared_is_said() {
    let home = tempfile::tempdir().unwrap();
    let (true, true, Some(library)) = (installed("haproxy"), installed("nginx"), standin(home.path())) else {
        return;
    };
    let broken = write(home.path(), "broken.so", "this is not a library").display().to_string();
    let library = library.display();
    let variants = [
        asks("engine", &format!("engine: {library}"), ", offload_mode: sync"),
        asks("named", "engine: standin", ""),
        asks("provider", &format!("provider: {library}"), ", offload_mode: sync"),
        asks("named-provider", "provider: standin", ", offload_mode: async"),
        asks("nginx-engine", &format!("engine: {library}"), ", kind: nginx"),
        asks("nginx-named", "engine: standin", ", kind: nginx, threads: 2"),
        asks("nginx-provider", "provider: standin", ", kind: nginx"),
        asks("broken", &format!("engine: {broken}"), ""),
        asks("missing", "engine: qatengine", ""),
        asks("gone", "provider: /nonexistent/a.so", ""),
        asks("alone", "engine: standin", ", key: ecdsa-p256"),
    ];
    let (code, json) = run(&experiment(&variants.concat()), home.path());
    assert_eq!(code, 4, "{json:#}");
    let of_haproxy = ["engine", "named", "provider", "named-provider"];
    let of_nginx = [("nginx-engine", "nginx"), ("nginx-named", "nginx-two"), ("nginx-provider", "nginx")];
    let compared: Vec<bool> = of_haproxy
        .map(|name| check_void(&json, name, "HAProxy", "software"))
        .into_iter()
        .chain(of_nginx.map(|(name, than)| check_void(&json, name, "nginx", than)))
        .collect();
    assert!(compared.contains(&true), "{json:#}");
    assert_eq!(json["claims"][0]["verdict"], "void");

    let said = |name: &str| {
        let variant = variant(&json, name);
        let (state, reason) = (variant["state"].as_str().unwrap(), variant["reason"].as_str().unwrap());
        assert!(!reason.contains('\n') || state == "void", "{reason}");
        format!("{state}: {reason}")
    };
    let missing = said("missing");
    let home = home.path().display();
    assert!(
        missing.starts_with(&format!(
            "skipped: the engine qatengine is not installed: there is no qatengine.so in {home}"
        )) && missing.ends_with("; on Debian 13: apt-get install qatengine"),
        "{missing}"
    );
    assert_eq!(said("gone"), "skipped: there is no provider library /nonexistent/a.so");
    assert_eq!(
        said("alone"),
        "void: nothing can prove that the treatment was in effect: no device counted it, and the experiment has no variant \
         that is the same but for the treatment, with which to compare the CPU time of HAProxy per full handshake"
    );
    assert!(said("broken").starts_with("void: "), "{}", said("broken"));
}
