//! Other tools as drivers of a data path's load, on real systems. Tools measure whole seconds, so their windows are no shorter.

use std::path::Path;

use serde_json::Value;

use crate::common::{run, stderr, stdout, write};

/// An experiment on a data path whose variants are drivers.
fn experiment(path: &str, system: &str, load: &str, variants: &str, claim: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: drivers }}\nspec:\n  path: {path}\n  \
         system: {{ {system} }}\n  load: {{ {load} }}\n  baseline: native\n  variants:\n    native: {{}}\n{variants}\n  \
         noise: {{ others_max: 100% }}\n  blocks: {{ min: 2, max: 2 }}\n  claims: [{claim}]\n"
    )
}

/// Runs an experiment, and returns its result.
fn result_of(directory: &Path, text: String) -> Value {
    let file = write(directory, "drivers.yaml", text);
    let path = directory.join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", path.to_str().unwrap()]);
    serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)))
}

/// The variants of a result, each with its name.
fn variants(result: &Value) -> impl Iterator<Item = (&str, &Value)> {
    result["variants"].as_array().unwrap().iter().map(|variant| (variant["name"].as_str().unwrap(), variant))
}

fn variant_named<'r>(result: &'r Value, name: &str) -> &'r Value {
    variants(result).find(|variant| variant.0 == name).unwrap().1
}

fn observed<'v>(variant: &'v Value, what: &str) -> Option<&'v str> {
    let all = variant["evidence"].as_array().unwrap();
    let found = all.iter().find(|seen| seen["what"] == what)?;
    assert_eq!(found["holds"], true, "{variant}");
    found["observed"].as_str()
}

/// The median of a metric over the slots, and of a statistic of it.
fn median(variant: &Value, metric: &str) -> Option<f64> {
    variant.pointer(&format!("/metrics/{metric}/median"))?.as_f64()
}

/// Asserts what each variant of every data path has, but for the native driver a tool.
fn check_measured(name: &str, variant: &Value) {
    assert_eq!(variant["state"], "measured", "{name}: {variant}");
    let driver = observed(variant, "driver of the load");
    assert_eq!(driver.is_some(), name != "native", "{name}: {variant}");
}

#[test]
fn tools_drive_http_under_the_names_of_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let text = experiment(
        "http",
        "ingress: { kind: embedded, tls: \"1.3\", protocols: [h1, h2] }, origin: { kind: embedded, body: 612 B }",
        "connections: 4, duration: 1 s, warmup: 0 s",
        "    wrk: { load: { driver: wrk } }\n    ab: { load: { driver: ab } }\n    h2load: { load: { driver: h2load } }\n    \
         h2: { load: { driver: h2load, protocol: h2, streams: 4 } }",
        "wrk.http_reqs > 1 /s",
    );
    let result = result_of(directory.path(), text);
    for (name, variant) in variants(&result) {
        check_measured(name, variant);
        for metric in ["http_reqs", "cpu_load", "cpu_system"] {
            assert!(median(variant, metric).unwrap() > 0.0, "{name}: {variant}");
        }
        assert!(
            observed(variant, "requests that the embedded ingress counted").is_some(),
            "{name}: {variant}"
        );
    }
    let spoken = |name| observed(variant_named(&result, name), "protocol that h2load spoke");
    assert_eq!((spoken("h2load"), spoken("h2")), (Some("http/1.1 (1)"), Some("h2 (1)")));
    // wrk says a median, and ab's is that of the whole request.
    let wrk = variant_named(&result, "wrk");
    assert!(median(wrk, "http_req_duration/p99").is_some() && median(wrk, "http_req_duration/p95").is_none());
    let warnings = result["warnings"].to_string();
    assert!(warnings.contains("wrk adds latencies that it did not measure"), "{warnings}");
}

/// A script that is called as dbench's is and prints what that prints, of one job of fio.
const LIKE_DBENCH: &str = r#"#!/usr/bin/env sh
set -e
if [ "$1" == fio ]; then
    found=$(fio --name=one --filename=$DBENCH_MOUNTPOINT/fiotest --size=$FIO_SIZE --direct=$FIO_DIRECT --bs=4k \
        --readwrite=randread --time_based --runtime=1s --minimal)
    iops=$(echo "$found" | cut -d';' -f8)
    rm $DBENCH_MOUNTPOINT/fiotest
    echo "= Dbench Summary ="
    echo "Random Read/Write IOPS: $iops/. BW: 5MiB/s / "
    echo "Average Latency (usec) Read/Write: /"
    echo "Sequential Read/Write:  / "
    echo "Mixed Random Read/Write IOPS: /"
fi
"#;

#[test]
fn fio_and_dbench_drive_storage_and_leave_a_file_of_the_user_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| write(directory.path(), name, text).display().to_string();
    let content = "x".repeat(1 << 20);
    let data = file("data", &content);
    let job = file("job.fio", "[one]\nrw=randread\nbs=8k\nfilename=/nobody/has/this\nruntime=3600\n");
    let beyond = file("beyond.fio", "[one]\nrw=randread\nbs=4k\nioengine=libaio\nsize=2m\nunlink=1\n");
    let script = file("entrypoint.sh", LIKE_DBENCH);
    let broken = file("broken.sh", "echo starting; echo 'no such disk' >&2; exit 3\n");
    let user = format!("system: {{ kind: external, path: {data}, size: null }}");
    let lines = [
        "slow: { load: { driver: fio, rate: 200 /s } }".to_owned(),
        format!("job: {{ load: {{ driver: fio, job: {job} }} }}"),
        format!("dbench: {{ load: {{ driver: dbench, script: {script} }} }}"),
        format!("broken: {{ load: {{ driver: dbench, script: {broken} }} }}"),
        format!("user: {{ {user}, load: {{ driver: fio, access: randread }} }}"),
        format!("beyond: {{ {user}, load: {{ driver: fio, job: {beyond} }} }}"),
        format!("write: {{ {user}, load: {{ driver: fio, access: randwrite }} }}"),
    ];
    let result = result_of(
        directory.path(),
        experiment(
            "storage",
            &format!("kind: file, size: 16 MiB, path: {}", directory.path().display()),
            "access: randrw, depth: 4, duration: 1 s, warmup: 100 ms",
            &lines.map(|line| format!("    {line}")).join("\n"),
            "job.read_iops > 1 /s",
        ),
    );
    for name in ["native", "slow", "job", "user"] {
        let variant = variant_named(&result, name);
        check_measured(name, variant);
        assert!(median(variant, "read_iops").unwrap() > 0.0, "{name}: {variant}");
        assert!(median(variant, "cpu_load").unwrap() > 0.0, "{name}: {variant}");
        let writes = !["job", "user"].contains(&name);
        assert_eq!(
            median(variant, "write_iops").is_some(),
            writes,
            "the settings say what is done: {variant}"
        );
        assert_eq!(median(variant, "read_latency/p99").is_some(), name != "slow", "{name}: {variant}");
        assert_eq!(median(variant, "read_service/p99").is_some(), name == "slow", "{name}: {variant}");
        let driver = observed(variant, "driver of the load");
        assert!(driver.is_none_or(|driver| driver.starts_with("fio-")), "{name}: {variant}");
        assert_eq!(observed(variant, "direct I/O").is_some(), name != "job", "{name}: {variant}");
    }
    let slow = variant_named(&result, "slow");
    let both = median(slow, "read_iops").unwrap() + median(slow, "write_iops").unwrap();
    assert!(both < 250.0, "fio keeps to the rate: {slow}");

    let dbench = variant_named(&result, "dbench");
    check_measured("dbench", dbench);
    assert!(median(dbench, "read_iops").unwrap() > 0.0, "{dbench}");
    assert!(dbench["metrics"]["cpu_load"].is_null(), "it does not count operations: {dbench}");
    assert!(observed(dbench, "driver of the load").unwrap().contains("bash"), "{dbench}");
    for (name, words) in [
        ("broken", "run dbench's script: it ended with code 3 and wrote: no such disk"),
        ("beyond", "reach to 2 MiB, and it has only 1 MiB"),
        ("write", "its data would be lost"),
    ] {
        let reason = variant_named(&result, name)["reason"].to_string();
        assert!(reason.contains(words), "{name}: {reason}");
    }
    // fio makes a file anew that is too small for it.
    assert!(std::fs::read_to_string(data).unwrap() == content);
}

#[test]
fn openssl_speed_drives_crypto() {
    let directory = tempfile::tempdir().unwrap();
    let lines = "    speed: { load: { driver: openssl, threads: 2, provider: default } }\n    \
                 sign: { load: { driver: openssl, algorithm: ecdsa-p256, async_jobs: 2 } }\n    \
                 missing: { load: { driver: openssl, engine: nobody-has-this } }";
    let load = "algorithm: aes-128-gcm, block: 1 KiB, duration: 1 s, warmup: 0 s";
    let result = result_of(directory.path(), experiment("crypto", "", load, lines, "speed.ops > 1 /s"));
    for (name, variant) in variants(&result) {
        if name == "missing" {
            // `openssl speed` itself measures its software then, and exits with 0.
            let words = variant.to_string();
            assert!(words.contains("it measured without the engine nobody-has-this"), "{words}");
            continue;
        }
        check_measured(name, variant);
        assert!(median(variant, "ops").unwrap() > 0.0, "{name}: {variant}");
        assert_eq!(median(variant, "cpu_load").is_some(), name != "sign", "it verifies too: {variant}");
        assert_eq!(variant["metrics"]["op_latency"].is_null(), name != "native", "{name}: {variant}");
        let driver = observed(variant, "driver of the load");
        assert!(driver.is_none_or(|driver| driver.starts_with("OpenSSL ")), "{variant}");
    }
}

#[test]
fn tools_drive_a_network_of_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let lines = "    qperf: { load: { driver: qperf } }\n    sockperf: { load: { driver: sockperf } }\n    \
                 iperf3: { load: { driver: iperf3, tests: [tcp_bw, udp_bw], rate: 2000 /s, flows: 2 } }";
    let result = result_of(
        directory.path(),
        experiment(
            "network",
            "kind: veth, conntrack: on",
            "tests: [tcp_lat, udp_lat], msg_size: 64 B, duration: 2 s, warmup: 0 s",
            lines,
            "qperf.tcp_lat.avg < 1000 s",
        ),
    );
    for (name, variant) in variants(&result) {
        check_measured(name, variant);
        for what in ["packets between the hosts", "packets and connection tracking"] {
            assert!(observed(variant, what).is_some(), "{name}: {variant}");
        }
        let metrics: &[&str] = if name == "iperf3" {
            &["tcp_bw", "udp_bw", "cpu_load_per_gb"]
        } else {
            &["tcp_lat/avg", "udp_lat/avg"]
        };
        for metric in ["cpu_load", "cpu_system"].iter().chain(metrics) {
            assert!(median(variant, metric).unwrap() > 0.0, "{name}, {metric}: {variant}");
        }
        let has_percentiles = ["native", "sockperf"].contains(&name);
        assert_eq!(median(variant, "udp_lat/p99").is_some(), has_percentiles, "{variant}");
    }
    let iperf3 = variant_named(&result, "iperf3");
    assert!(iperf3["metrics"]["udp_loss"].is_object(), "{iperf3}");
    let bandwidth = median(iperf3, "tcp_bw").unwrap();
    assert!(bandwidth < 2.0 * 2000.0 * 64.0, "iperf3 keeps to the rate: {iperf3}");
}
