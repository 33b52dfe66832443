//! Other tools as drivers of a data path's load, on real systems.

use crate::common::{code, run, stderr, stdout, write};

/// An experiment whose variants are drivers, one slot a second.
fn experiment(variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: drivers }}\nspec:\n  path: http\n  \
         system: {{ ingress: {{ kind: embedded, tls: \"1.3\" }}, origin: {{ kind: embedded, body: 612 B }} }}\n  \
         load: {{ connections: 4, duration: 1 s, warmup: 0 s }}\n  baseline: native\n  variants:\n    native: {{}}\n{variants}\n  \
         noise: {{ others_max: 100% }}\n  blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n"
    )
}

#[test]
fn tools_drive_a_load_under_the_names_of_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let text = experiment(
        "    wrk: { load: { driver: wrk } }\n    ab: { load: { driver: ab } }\n    h2load: { load: { driver: h2load } }",
        "wrk.http_reqs > 100 /s",
    );
    let file = write(directory.path(), "drivers.yaml", text);
    let path = directory.path().join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", path.to_str().unwrap()]);
    let found: serde_json::Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    for variant in found["variants"].as_array().unwrap() {
        let name = variant["name"].as_str().unwrap();
        assert_eq!(variant["state"], "measured", "{name}: {variant}");
        let median = |metric: &str| variant["metrics"][metric]["median"].as_f64();
        assert!(median("http_reqs").unwrap() > 100.0, "{name}: {variant}");
        assert!(
            median("cpu_load").unwrap() > 0.0 && median("cpu_system").unwrap() > 0.0,
            "{name}: {variant}"
        );
        let evidence = variant["evidence"].as_array().unwrap();
        let seen = |what: &str| evidence.iter().find(|seen| seen["what"] == what);
        assert_eq!(seen("driver of the load").is_some(), name != "native", "{name}: {variant}");
        assert!(seen("requests that the embedded ingress counted").is_some(), "{name}: {variant}");
    }
    // wrk says a median, and ab's is that of the whole request.
    let of = |name: &str| {
        found["variants"].as_array().unwrap().iter().find(|variant| variant["name"] == name).unwrap()
    };
    assert!(of("wrk")["metrics"]["http_req_duration"]["p99"]["median"].is_number());
    assert!(of("wrk")["metrics"]["http_req_duration"]["p95"]["median"].is_null());
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("wrk adds latencies that it did not measure"), "{warnings}");
}

#[test]
fn what_a_tool_cannot_do_or_does_not_say_is_refused_before_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let check = |variants: &str, claims: &str| {
        let file = write(directory.path(), "drivers.yaml", experiment(variants, claims));
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let message = check(
        "    wrk: { load: { driver: wrk } }",
        "wrk.http_req_duration.p95 < native.http_req_duration.p95",
    );
    assert!(
        message.contains("wrk does not say http_req_duration.p95: wrk --latency prints no other"),
        "{message}"
    );
    let message = check("    slow: { load: { driver: ab, rate: 100 /s } }", "slow.http_reqs > 1 /s");
    assert!(message.contains("ab has no fixed rate here"), "{message}");
}

/// An experiment on a file whose variants are drivers, one slot a second.
fn on_a_file(directory: &std::path::Path, variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: drivers }}\nspec:\n  path: storage\n  \
         system: {{ kind: file, size: 16 MiB, path: {} }}\n  \
         load: {{ access: randrw, depth: 4, duration: 2 s, warmup: 200 ms }}\n  baseline: native\n  variants:\n    native: {{}}\n\
         {variants}\n  noise: {{ others_max: 100% }}\n  blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n",
        directory.display()
    )
}

/// Runs an experiment, and returns what it says of each variant.
fn variants_of(directory: &std::path::Path, text: String) -> Vec<serde_json::Value> {
    let file = write(directory, "drivers.yaml", text);
    let path = directory.join("run");
    let output =
        run(&["run", file.to_str().unwrap(), "--json", "--quiet", "--output", path.to_str().unwrap()]);
    let found: serde_json::Value =
        serde_json::from_str(&stdout(&output)).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    found["variants"].as_array().unwrap().clone()
}

fn observed<'v>(variant: &'v serde_json::Value, what: &str) -> Option<&'v str> {
    let all = variant["evidence"].as_array().unwrap();
    let found = all.iter().find(|seen| seen["what"] == what)?;
    assert_eq!(found["holds"], true, "{variant}");
    found["observed"].as_str()
}

#[test]
fn fio_drives_a_load_by_the_settings_and_by_a_job_file() {
    let directory = tempfile::tempdir().unwrap();
    let job = write(
        directory.path(),
        "job.fio",
        "[one]\nrw=randread\nbs=8k\nfilename=/nobody/has/this\nruntime=3600\n",
    );
    let variants = format!(
        "    fio: {{ load: {{ driver: fio }} }}\n    slow: {{ load: {{ driver: fio, rate: 200 /s }} }}\n    \
         job: {{ load: {{ driver: fio, job: {} }} }}",
        job.display()
    );
    let text = on_a_file(directory.path(), &variants, "fio.read_iops > 10 /s");
    for variant in variants_of(directory.path(), text) {
        let name = variant["name"].as_str().unwrap();
        assert_eq!(variant["state"], "measured", "{name}: {variant}");
        let median = |metric: &str| variant["metrics"][metric]["median"].as_f64();
        let p99 = |metric: &str| variant["metrics"][metric]["p99"]["median"].as_f64();
        assert!(
            median("read_iops").unwrap() > 10.0 && median("cpu_load").unwrap() > 0.0,
            "{name}: {variant}"
        );
        assert_eq!(median("write_iops").is_some(), name != "job", "the file says what is done: {variant}");
        assert_eq!(p99("read_latency").is_some(), name != "slow", "{name}: {variant}");
        assert_eq!(p99("read_service").is_some(), name == "slow", "{name}: {variant}");
        let driver = observed(&variant, "driver of the load");
        assert_eq!(driver.is_some_and(|driver| driver.starts_with("fio-")), name != "native", "{variant}");
        assert_eq!(observed(&variant, "direct I/O").is_some(), name != "job", "{name}: {variant}");
        if name == "slow" {
            let both = median("read_iops").unwrap() + median("write_iops").unwrap();
            assert!(both < 250.0, "fio keeps to the rate: {variant}");
        }
    }
}

#[test]
fn fio_leaves_a_file_of_the_user_where_and_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let content = vec![b'x'; 1 << 20];
    let data = write(directory.path(), "data", &content);
    let job =
        write(directory.path(), "job.fio", "[one]\nrw=randread\nbs=4k\nioengine=libaio\nsize=2m\nunlink=1\n");
    let text = on_a_file(
        directory.path(),
        &format!(
            "    beyond: {{ load: {{ driver: fio, job: {} }} }}\n    write: {{ load: {{ driver: fio }} }}",
            job.display()
        ),
        "beyond.read_iops > 1 /s",
    );
    let (kind, other) = ("kind: file, size: 16 MiB", "kind: external");
    let path = format!("path: {}", directory.path().display());
    let text = text.replace(kind, other).replace(&path, &format!("path: {}", data.display()));
    let text = text.replace("access: randrw", "access: randread");
    let text =
        text.replace("write: { load: { driver: fio }", "write: { load: { driver: fio, access: randwrite }");
    for variant in variants_of(directory.path(), text) {
        let words = variant["reason"].to_string();
        match variant["name"].as_str().unwrap() {
            "beyond" => assert!(words.contains("reach to 2 MiB, and it has only 1 MiB"), "{variant}"),
            "write" => assert!(words.contains("its data would be lost"), "{variant}"),
            _ => assert_eq!(variant["state"], "measured", "{variant}"),
        }
    }
    assert!(std::fs::read(&data).unwrap() == content, "fio makes a file anew that is too small for it");
}

#[test]
fn what_fio_cannot_do_and_a_wrong_job_file_are_refused_before_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let check = |load: &str, claim: &str| {
        let text = on_a_file(directory.path(), &format!("    other: {{ load: {{ {load} }} }}"), claim);
        let file = write(directory.path(), "drivers.yaml", text);
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let claim = "other.read_iops > 1 /s";
    let message = check("driver: fio, verify: true", claim);
    assert!(message.contains("fio does not check what it reads here"), "{message}");
    let message = check("driver: fio, rate: 100 /s", "other.read_latency.p99 < 1 s");
    assert!(
        message.contains("it takes the time from the submission on, which is `read_service`"),
        "{message}"
    );
    let message = check("driver: fio, job: /nobody/has/this", claim);
    assert!(message.contains("failed to read the job file /nobody/has/this: No such file"), "{message}");
    let job = write(directory.path(), "job.fio", "[one]\nrw=read\ngtod_reduce=1\n");
    let load = format!("driver: fio, job: {}", job.display());
    let message = check(&load, "other.read_latency.p99 < 1 s");
    assert!(message.contains("its job file has `gtod_reduce`"), "{message}");
    let job = write(directory.path(), "job.fio", "[one]\nrw=read\n[two]\nstonewall\n");
    let message = check(&format!("driver: fio, job: {}", job.display()), claim);
    assert!(message.contains("line 4: `stonewall` runs jobs one after another"), "{message}");
}

fn of_crypto(load: &str, variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: drivers }}\nspec:\n  path: crypto\n  \
         load: {{ duration: 1 s, warmup: 0 s, {load} }}\n  baseline: native\n  variants:\n    native: {{}}\n{variants}\n  \
         noise: {{ others_max: 100% }}\n  blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n"
    )
}

#[test]
fn openssl_speed_drives_a_load() {
    let directory = tempfile::tempdir().unwrap();
    let variants = "    speed: { load: { driver: openssl } }\n    two: { load: { driver: openssl, threads: 2, provider: default } }\n    \
                    sign: { load: { driver: openssl, algorithm: ecdsa-p256, async_jobs: 2 } }\n    \
                    missing: { load: { driver: openssl, engine: nobody-has-this } }";
    let text = of_crypto("algorithm: aes-128-gcm, block: 1 KiB", variants, "speed.ops > 1000 /s");
    for variant in variants_of(directory.path(), text) {
        let name = variant["name"].as_str().unwrap();
        if name == "missing" {
            // `openssl speed` itself measures its software then, and exits with 0.
            let words = variant.to_string();
            assert!(words.contains("it measured without the engine nobody-has-this"), "{words}");
            continue;
        }
        assert_eq!(variant["state"], "measured", "{name}: {variant}");
        let median = |metric: &str| variant["metrics"][metric]["median"].as_f64();
        assert!(median("ops").unwrap() > 1000.0, "{name}: {variant}");
        assert_eq!(median("cpu_load").is_some(), name != "sign", "it verifies too: {variant}");
        assert_eq!(variant["metrics"]["op_latency"].is_null(), name != "native", "{name}: {variant}");
        let driver = observed(&variant, "driver of the load");
        assert_eq!(
            driver.is_some_and(|driver| driver.starts_with("OpenSSL ")),
            name != "native",
            "{variant}"
        );
    }
}

#[test]
fn what_openssl_speed_does_not_say_is_refused_before_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let check = |load: &str, claim: &str| {
        let file = write(
            directory.path(),
            "drivers.yaml",
            of_crypto("algorithm: rsa-2048", &format!("    other: {{ load: {{ {load} }} }}"), claim),
        );
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let message = check("driver: openssl", "other.op_latency.p99 < 1 s");
    assert!(message.contains("openssl speed prints rates alone, whatever its options"), "{message}");
    let message = check("driver: openssl", "other.cpu_load < native.cpu_load");
    assert!(message.contains("openssl speed verifies in the process that signs"), "{message}");
    let message = check("engine: foo", "other.ops > 1 /s");
    assert!(message.contains("this is for `driver: openssl`"), "{message}");
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
fn a_script_like_dbenchs_drives_a_load() {
    let directory = tempfile::tempdir().unwrap();
    let script = write(directory.path(), "entrypoint.sh", LIKE_DBENCH);
    let broken = write(directory.path(), "broken.sh", "echo starting; echo 'no such disk' >&2; exit 3\n");
    let variants = format!(
        "    dbench: {{ load: {{ driver: dbench, script: {} }} }}\n    broken: {{ load: {{ driver: dbench, script: {} }} }}",
        script.display(),
        broken.display()
    );
    let text = on_a_file(directory.path(), &variants, "dbench.read_iops > 1 /s");
    let found = variants_of(directory.path(), text);
    let of = |name: &str| found.iter().find(|variant| variant["name"] == name).unwrap();
    let dbench = of("dbench");
    assert_eq!(dbench["state"], "measured", "{dbench}");
    assert!(dbench["metrics"]["read_iops"]["median"].as_f64().unwrap() > 1.0, "{dbench}");
    assert!(dbench["metrics"]["cpu_load"].is_null(), "it does not count operations: {dbench}");
    assert!(observed(dbench, "driver of the load").unwrap().contains("bash"), "{dbench}");
    let words = of("broken").to_string();
    assert!(words.contains("run dbench's script: it ended with code 3 and wrote: no such disk"), "{words}");
}

#[test]
fn what_dbench_does_not_say_and_a_missing_script_are_refused_before_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let script = write(directory.path(), "entrypoint.sh", LIKE_DBENCH);
    let check = |load: &str, claim: &str| {
        let variants = format!("    other: {{ load: {{ driver: dbench, {load} }} }}");
        let file = write(directory.path(), "drivers.yaml", on_a_file(directory.path(), &variants, claim));
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let script = format!("script: {}", script.display());
    let message = check(&script, "other.read_latency.p99 < 1 s");
    assert!(message.contains("its script prints no other; `driver: fio` has it"), "{message}");
    let message = check(&script, "other.cpu_load < 1 s");
    assert!(message.contains("it does not count its operations"), "{message}");
    let message = check("script: /nobody/has/this", "other.read_iops > 1 /s");
    assert!(message.contains("failed to read the script /nobody/has/this: No such file"), "{message}");
    let message = check("depth: 1", "other.read_iops > 1 /s");
    assert!(message.contains("dbench needs its script"), "{message}");
}

/// An experiment on a network of its own, whose variants are drivers, one slot a second for each test.
fn on_a_network(tests: &str, variants: &str, claims: &str) -> String {
    format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: drivers }}\nspec:\n  path: network\n  \
         system: {{ kind: veth, conntrack: on }}\n  load: {{ tests: [{tests}], msg_size: 64 B, duration: 2 s, warmup: 0 s }}\n  \
         baseline: native\n  variants:\n    native: {{}}\n{variants}\n  noise: {{ others_max: 100% }}\n  \
         blocks: {{ min: 2, max: 2 }}\n  claims: [{claims}]\n"
    )
}

/// Runs the variants, and looks at what is the same for all.
fn measured_on_a_network(tests: &str, variants: &str, claims: &str) -> Vec<serde_json::Value> {
    let directory = tempfile::tempdir().unwrap();
    let found = variants_of(directory.path(), on_a_network(tests, variants, claims));
    for variant in &found {
        let name = variant["name"].as_str().unwrap();
        assert_eq!(variant["state"], "measured", "{name}: {variant}");
        let median = |metric: &str| variant["metrics"][metric]["median"].as_f64();
        assert!(
            median("cpu_load").unwrap() > 0.0 && median("cpu_system").unwrap() > 0.0,
            "{name}: {variant}"
        );
        assert!(observed(variant, "packets between the hosts").is_some(), "{name}: {variant}");
        assert!(observed(variant, "packets and connection tracking").is_some(), "{name}: {variant}");
        let driver = observed(variant, "driver of the load");
        assert_eq!(driver.is_some(), name != "native", "{name}: {variant}");
    }
    found
}

#[test]
fn tools_measure_latency_on_a_network_of_the_run() {
    let variants = "    qperf: { load: { driver: qperf } }\n    sockperf: { load: { driver: sockperf } }";
    for variant in measured_on_a_network("tcp_lat, udp_lat", variants, "qperf.tcp_lat.avg < 1 s") {
        for metric in ["tcp_lat", "udp_lat"] {
            let statistic = |name: &str| variant["metrics"][metric][name]["median"].as_f64();
            assert!(statistic("avg").unwrap() > 0.0, "{variant}");
            assert_eq!(statistic("p99").is_some(), variant["name"] != "qperf", "{variant}");
        }
    }
}

#[test]
fn tools_measure_bandwidth_on_a_network_of_the_run() {
    let variants = "    qperf: { load: { driver: qperf } }\n    iperf3: { load: { driver: iperf3 } }\n    \
                    slow: { load: { driver: iperf3, rate: 2000 /s, flows: 2 } }";
    for variant in measured_on_a_network("tcp_bw, udp_bw", variants, "iperf3.tcp_bw > 1 kB/s") {
        let median = |metric: &str| variant["metrics"][metric]["median"].as_f64();
        for metric in ["tcp_bw", "udp_bw", "cpu_load_per_gb"] {
            assert!(median(metric).unwrap() > 0.0, "{metric}: {variant}");
        }
        let has_loss = variant["metrics"]["udp_loss"].is_object();
        assert_eq!(has_loss, variant["name"] != "qperf", "{variant}");
        if variant["name"] == "slow" {
            assert!(median("tcp_bw").unwrap() < 2.0 * 2000.0 * 64.0, "iperf3 keeps to the rate: {variant}");
        }
    }
}

#[test]
fn what_tools_of_a_network_cannot_do_is_refused_before_a_run() {
    let directory = tempfile::tempdir().unwrap();
    let check = |load: &str, claim: &str| {
        let text = on_a_network("tcp_lat", &format!("    other: {{ load: {{ {load} }} }}"), claim);
        let file = write(directory.path(), "drivers.yaml", text);
        let output = run(&["check", file.to_str().unwrap()]);
        assert_eq!(code(&output), 2, "{}", stdout(&output));
        stderr(&output)
    };
    let message = check("driver: qperf", "other.tcp_lat.p99 < 1 s");
    assert!(message.contains("qperf does not say tcp_lat.p99: it prints means and bandwidths"), "{message}");
    let message = check("driver: iperf3", "other.cpu_load > 1 us");
    assert!(message.contains("iperf3 has no tcp_lat here; it has tcp_bw, udp_bw"), "{message}");
    let message = check("driver: sockperf, flows: 2", "other.cpu_load > 1 us");
    assert!(message.contains("sockperf has one flow"), "{message}");
}
