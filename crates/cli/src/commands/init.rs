//! `plumb init`: writes an experiment to start from, with a comment on every line that one would change.
//!
//! The file passes `plumb check` and runs as it is; a test reads each form back.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::Path;

use plumb_http::system::nginx_template;

use crate::args::{InitArguments, PlanArguments};
use crate::commands::planning;
use crate::exit::{Failure, HOLDS, Outcome};
use crate::experiments::{Source, in_yaml};
use crate::output;

/// Writes the file.
pub fn init(arguments: &InitArguments) -> Outcome {
    let name = arguments.file.display().to_string();
    let text = text(arguments)?;
    let any = PlanArguments { seed: Some(0), ..PlanArguments::default() };
    // An address that no experiment can have is better known now than at the first run.
    let source = Source { name: name.clone(), bytes: text.clone().into_bytes() };
    planning::read_source(&source, &any).map_err(|error| {
        // The file does not exist yet, so the place of the mistake is left out.
        let reason = &error.mistakes()[0].message;
        Failure::usage(format!("{name} is not written, because it could not run: {reason}"))
    })?;
    let mut file =
        OpenOptions::new().write(true).create_new(true).open(&arguments.file).map_err(|error| match error
            .kind()
        {
            ErrorKind::AlreadyExists => {
                Failure::usage(format!("{name} exists and is not overwritten; name another file with --file"))
            }
            _ => Failure::usage(format!("failed to write {name}: {error}")),
        })?;
    file.write_all(text.as_bytes()).map_err(|error| Failure::harness(format!("write {name}: {error}")))?;
    output::message(&format!("wrote {name}; look at its plan with: plumb check {name}"));
    output::message(&format!("and run it with: plumb run {name}"));
    Ok(HOLDS)
}

fn text(arguments: &InitArguments) -> Result<String, Failure> {
    let of = |pair: &Option<Vec<String>>| -> Option<[String; 2]> {
        let quoted: Vec<String> = pair.as_ref()?.iter().map(|target| in_yaml(target)).collect();
        quoted.try_into().ok()
    };
    let targets = [&arguments.external, &arguments.storage, &arguments.network].map(of);
    let own = arguments.nginx_config.as_deref().map(nginx).transpose()?;
    let (name, title, spec) = match (own, targets) {
        (Some(spec), _) => ("own-nginx", "Does a change of this nginx configuration help?", spec),
        (None, [Some(targets), ..]) => {
            ("two-servers", "Is the second server faster than the first?", http(&targets))
        }
        (None, [_, Some(targets), _]) => {
            ("two-volumes", "Is the second volume faster than the first?", storage(&targets))
        }
        (None, [.., Some(targets)]) => {
            ("two-networks", "Is the second path faster than the first?", network(&targets))
        }
        _ if arguments.crypto => {
            ("two-devices", "Which library does private-key operations faster?", crypto())
        }
        _ => ("two-codecs", "Does compression move a guest sooner?", migration()),
    };
    Ok(format!(
        "# Written by `plumb init`. `plumb check FILE` shows the plan, `plumb run FILE` runs it.\n\
         apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata:\n  name: {name}\n  title: {title}\nspec:\n{spec}{BLOCKS}"
    ))
}

const BLOCKS: &str = "  # Every block measures each variant twice, in a random order. No verdict before `min` blocks; the run ends
  # as soon as every claim is decided, and after `max` blocks in any case.
  blocks: { min: 6, max: 20 }
";

/// The lines under `spec`: the data path with its settings, two variants, and what is claimed of them.
fn spec(path: &str, settings: &str, [a, b]: [(&str, &str); 2], claims: &[&str]) -> String {
    let ((baseline, nothing), (variant, change)) = (a, b);
    let claims: String = claims.iter().map(|claim| format!("    - {claim}\n")).collect();
    format!(
        "  path: {path}
{settings}  # The variant that all others are compared with.
  baseline: {baseline}
  variants:
    {baseline}: {nothing}
    {variant}: {change}
  # What you expect, written before the run. All claims are decided together, with 95% confidence.
  claims:
{claims}"
    )
}

const DURATION: &str =
    "duration: 5 s            # of one measurement; a run has two of each variant in every block";

fn http([a, b]: &[String; 2]) -> String {
    let settings = format!(
        "  # Both servers run already; nothing is built here. A variant is the baseline with its own changes.
  system: {{ ingress: {{ kind: external, url: {a} }} }}
  load:
    connections: 10          # requests under way at a time
    reuse: keep-alive        # none: a new connection, with its handshake, for every request
    {DURATION}
    # rate: 1000 /s          # a fixed rate, timed from the intended start; without it, as fast as answers come
    checks: [\"status == 200\"] # what a good answer is
"
    );
    let change = format!("{{ system: {{ ingress: {{ url: {b} }} }} }}");
    let change = format!(
        "{change}
    # One server before and after a change of its file, in place of two; `verify` shows that the server uses it:
    # b:
    #   changes:
    #     - file:
    #         path: /etc/nginx/nginx.conf
    #         replace: ^worker_processes
    #         with: worker_processes 4;
    #         reload: nginx -s reload
    #         verify: {{ command: \"pgrep -fc '[n]ginx: worker'\", expect: \"4\" }} # or url, with status, header or length"
    );
    let claims = ["b.http_reqs > a.http_reqs", "b.http_req_duration.p95 < a.http_req_duration.p95"];
    spec("http", &settings, [("a", "{}"), ("b", &change)], &claims)
}

/// An experiment on the configuration in a file.
fn nginx(file: &Path) -> Result<String, Failure> {
    let found = nginx_template(file).map_err(Failure::usage)?;
    let template: String = found.text.lines().map(|line| format!("          {line}\n")).collect();
    let left_out = match found.left_out.as_slice() {
        [] => "nothing".to_owned(),
        all => all.join(", "),
    };
    // A quoted word of nginx may have line breaks, which would end a comment.
    let [kept, left_out] = [found.kept, left_out].map(|words| words.replace(char::is_control, " "));
    output::message(&format!("kept: {kept}; its requests go to an origin of plumb's"));
    output::message(&format!("left out: {left_out}"));
    let tls = if found.has_tls { "\"1.3\"" } else { "none" };
    let settings = format!(
        "  # `plumb` fills in what is in double braces, and starts nginx with it in front of an origin.
  # Kept: {kept}. Every `proxy_pass` leads to the origin.
  # Left out: {left_out}.
  system:
    ingress:
      kind: nginx
      tls: {tls}
      threads: 1             # nginx's workers
      config:
        template: |
{template}  load:
    connections: 10          # requests under way at a time
    {DURATION}
    checks: [\"status == 200\"] # what a good answer is
"
    );
    let change = "{ system: { ingress: { config: { http: \"keepalive_requests 1000000;\" } } } } # lines for main, events, http, upstream, server or location";
    let claims = ["b.http_reqs > a.http_reqs", "b.http_req_duration.p95 < a.http_req_duration.p95"];
    Ok(spec("http", &settings, [("a", "{}"), ("b", change)], &claims))
}

fn storage([a, b]: &[String; 2]) -> String {
    let settings = format!(
        "  # Files, block devices or nbd://HOST:PORT/NAME that exist. They are read only; to write, choose another `access`.
  system: {{ kind: external, path: {a} }}
  load:
    access: randread         # or read, write, randwrite, rw, randrw
    block_size: 4 KiB
    depth: 32                # reads under way at a time
    {DURATION}
    # direct: off            # through the page cache
"
    );
    let change = format!("{{ system: {{ path: {b} }} }}");
    let claims = ["b.read_iops > a.read_iops", "b.read_latency.p99 < a.read_latency.p99"];
    spec("storage", &settings, [("a", "{}"), ("b", &change)], &claims)
}

fn network([a, b]: &[String; 2]) -> String {
    let settings = format!(
        "  # Start `plumb network serve --listen ADDRESS:PORT` at the far end of each path first.
  system: {{ kind: external, address: {a} }}
  load:
    tests: [tcp_lat, tcp_bw] # there are udp_lat, udp_bw and tcp_crr, too
    duration: 5 s            # of one measurement, all tests together
"
    );
    let change = format!("{{ system: {{ address: {b} }} }}");
    let claims = ["b.tcp_lat.p99 < a.tcp_lat.p99", "b.tcp_bw > a.tcp_bw"];
    spec("network", &settings, [("a", "{}"), ("b", &change)], &claims)
}

fn migration() -> String {
    let settings = "  # A guest's memory moves between two processes of this host; `kind: qemu` moves it between two QEMU processes.
  system:
    kind: plumb
    memory: 256 MiB
    channels: 2              # connections, each with a thread on both sides
    cap: 1 GB/s              # of all channels together, on the wire; or none
  load: { duration: 2 s }    # migrations follow one another for this long
";
    let change = "{ system: { codec: zstd } } # or zlib, lz4, libdeflate, isal, …";
    let claims = ["zstd.total_time < plain.total_time"];
    spec("migration", settings, [("plain", "{}"), ("zstd", change)], &claims)
}

fn crypto() -> String {
    let settings = format!(
        "  # Operations are done in the load's process, so `cpu_load` is what they cost.
  system: {{ device: software-openssl }}
  load:
    algorithm: rsa-2048      # or rsa-3072, rsa-4096, ecdsa-p256, x25519, p256
    in_flight: 20            # operations that wait for the device at a time
    {DURATION}
"
    );
    let change = "{ system: { device: software-aws-lc } } # or multibuffer, on a CPU with AVX-512 IFMA";
    let claims = ["aws-lc.ops > openssl.ops", "aws-lc.cpu_load < openssl.cpu_load"];
    spec("crypto", &settings, [("openssl", "{}"), ("aws-lc", change)], &claims)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};
    use crate::in_process::{plumb, write};

    fn arguments(words: &str) -> InitArguments {
        let parsed = Arguments::try_parse_from(words.split(' ')).unwrap();
        let Command::Init(arguments) = parsed.command else { panic!("{words}") };
        arguments
    }

    #[test]
    fn every_form_is_an_experiment_with_its_targets() {
        let any = PlanArguments { seed: Some(0), ..PlanArguments::default() };
        for (words, path, target) in [
            (
                "plumb init --external http://a.example/ https://b.example/x?y=#1",
                "http",
                "https://b.example/x?y=#1",
            ),
            ("plumb init --storage /dev/sda nbd://127.0.0.1:10809/b", "storage", "nbd://127.0.0.1:10809/b"),
            ("plumb init --network 192.0.2.1 192.0.2.2:19766", "network", "192.0.2.2:19766"),
            ("plumb init --migration", "migration", "zstd"),
            ("plumb init --crypto", "crypto", "software-aws-lc"),
        ] {
            let text = text(&arguments(words)).unwrap();
            let source = Source { name: "x.yaml".to_owned(), bytes: text.clone().into_bytes() };
            let plan = planning::read_source(&source, &any)
                .unwrap_or_else(|error| panic!("{words}: {error:?} {text}"))
                .plan;
            assert_eq!((plan.path.as_str(), plan.variants.len()), (path, 2), "{words}");
            assert!(plan.variants[1].treatment.contains(target), "{words}: {}", plan.variants[1].treatment);
        }
    }

    #[test]
    fn one_form_is_asked_for() {
        for words in ["plumb init", "plumb init --external http://a/", "plumb init --migration --storage a b"]
        {
            assert!(Arguments::try_parse_from(words.split(' ')).is_err(), "{words}");
        }
    }

    #[test]
    fn what_is_written_passes_check_and_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let first = write(directory.path(), "a", vec![1; 1 << 20]);
        let second = write(directory.path(), "b", vec![2; 1 << 20]);
        let forms: [&[&str]; 5] = [
            &["--external", "http://127.0.0.1:1/", "https://127.0.0.1:2/x"],
            &["--storage", &first, &second],
            &["--network", "127.0.0.1", "127.0.0.1:2"],
            &["--migration"],
            &["--crypto"],
        ];
        for (at, form) in forms.iter().enumerate() {
            let file = directory.path().join(format!("{at}.yaml"));
            let file = file.to_str().unwrap();
            let init = || plumb(&[&["init"][..], form, &["--file", file]].concat());
            assert_eq!(init().code, 0, "{form:?}");
            let checked = plumb(&["check", file]);
            assert!(checked.code == 0 && !checked.out.contains("skipped"), "{form:?}: {checked:?}");
            let again = init();
            assert_eq!(again.code, 2);
            let expected =
                format!("error: {file} exists and is not overwritten; name another file with --file\n");
            assert_eq!(again.err, expected);
        }
    }

    #[test]
    fn a_configuration_becomes_an_experiment_on_it() {
        let directory = tempfile::tempdir().unwrap();
        let own = "events { }\nhttp { server { listen 80; server_name a.example; location / { proxy_pass http://10.0.0.1; } }\n\
                   server { listen 81; server_name b.example; location / { proxy_pass http://10.0.0.2; } } }\n";
        let own = write(directory.path(), "nginx.conf", own);
        let file = directory.path().join("own.yaml");
        let said = plumb(&["init", "--nginx-config", &own, "--file", file.to_str().unwrap()]);
        assert_eq!(said.code, 0, "{said:?}");
        let text = std::fs::read_to_string(&file).unwrap();
        let kept = format!("server a.example (listen 80; {own}:2)");
        let left_out = format!("server b.example (listen 81; {own}:3)");
        for part in [
            "tls: none\n",
            "          {{main}}\n",
            "listen {{listen}};\n",
            "proxy_pass http://{{origin}};\n",
            &format!("  # Kept: {kept}. "),
            &format!("  # Left out: {left_out}.\n"),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(said.err.contains(&format!("kept: {kept}")) && said.err.contains(&left_out), "{said:?}");
        let static_files = write(directory.path(), "static.conf", "http { server { root /x; } }");
        let refused = plumb(&["init", "--nginx-config", &static_files, "--file", "/nowhere/x.yaml"]);
        assert!(refused.code == 2 && refused.err.contains("plumb init --external"), "{refused:?}");
    }

    #[test]
    fn what_could_not_run_is_not_written() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("wrong.yaml");
        let path = nowhere.to_str().unwrap();
        let wrong = plumb(&["init", "--external", "a.example", "b.example", "--file", path]);
        assert!(wrong.code == 2 && !nowhere.exists(), "{wrong:?}");
        insta::assert_snapshot!(wrong.err.replace(path, "wrong.yaml"), @r"
        error: wrong.yaml is not written, because it could not run: failed to use `a.example` as a URL such as `http://127.0.0.1:8080/path`: it has no scheme
        ");
    }
}
