//! The data paths' refusals of an experiment before anything starts, with the place in the file.

use std::path::Path;

use insta::assert_snapshot;

use super::*;
use crate::exit::USAGE;

/// An experiment on a data path whose baseline has this system and load, and whose variant `other` this.
fn source(path: &str, system: &str, load: &str, (other, claim): (&str, &str)) -> Source {
    let text = format!(
        "apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata: {{ name: x }}\nspec:\n  path: {path}\n  system: {{ {system} }}\n  \
         load: {{ {load} }}\n  baseline: base\n  variants:\n    base: {{}}\n    other: {{ {other} }}\n  claims: [{claim}]\n"
    );
    Source { name: "x.yaml".to_owned(), bytes: text.into_bytes() }
}

/// The mistakes in such an experiment.
fn refused(path: &str, system: &str, load: &str, other: (&str, &str)) -> String {
    let source = source(path, system, load, other);
    let failure = Failure::from(read_source(&source, &PlanArguments::default()).unwrap_err());
    assert_eq!(failure.code, USAGE);
    failure.message
}

/// The same without the directory, which differs in each run.
fn refused_in(directory: &Path, refusal: &str) -> String {
    refusal.replace(&directory.display().to_string(), "DIR")
}

#[test]
fn a_driver_of_http_that_cannot_do_it_or_does_not_say_it() {
    let http = |load: &str, claim: &str| {
        refused("http", "", "connections: 4", (&format!("load: {{ {load} }}"), claim))
    };
    assert_snapshot!(http("driver: wrk", "other.http_req_duration.p95 < base.http_req_duration.p95"), @"x.yaml:12:12: `other.http_req_duration.p95 < base.http_req_duration.p95` needs a value that other does not measure: wrk does not say http_req_duration.p95: wrk --latency prints no other; k6 and the native driver do");
    assert_snapshot!(http("driver: ab, rate: 100 /s", "other.http_reqs > 1 /s"), @"x.yaml:11:34: ab has no fixed rate here; use the native driver, vegeta, oha, or k6 with a script that has one; this is so in the variant `other`");
}

#[test]
fn a_system_that_exists_is_named_once_and_no_other_is_named() {
    let ingress = |ingress: &str, other: &str, claim: &str| {
        let other = format!("system: {{ ingress: {{ {other} }} }}");
        refused("http", &format!("ingress: {{ {ingress} }}"), "connections: 2", (&other, claim))
    };
    let existing = "kind: external, url: \"http://127.0.0.1:1/\"";
    let built = "kind: nginx, url: null";
    assert_snapshot!(ingress(existing, built, "other.memory_system <= 2 * base.memory_system"), @"x.yaml:12:12: `memory_system` is measured of external systems alone, and the system of the variant `other` is built");
    assert_snapshot!(ingress(existing, "port: 1, pid: 1", "other.http_reqs > 1 /s"), @"x.yaml:11:35: name the system by only one of `pid`, `unit`, `cgroup` and `port`; this is so in the variant `other`");
    assert_snapshot!(ingress(existing, "pid: 1, unit: x", "other.http_reqs > 1 /s"), @"x.yaml:11:43: name the system by only one of `pid`, `unit`, `cgroup` and `port`; this is so in the variant `other`");
    assert_snapshot!(ingress("pid: 1, key: ecdsa-p256", "tls: \"1.3\"", "other.http_reqs > 1 /s"), @"x.yaml:6:24: `pid` names the processes of a system that runs already; it needs `kind: external`");
}

#[test]
fn a_network_measures_soft_interrupts_of_every_system_by_itself() {
    let other = ("load: { flows: 1 }", "other.softirq_system <= 2 * base.softirq_system");
    for system in ["kind: loopback", "kind: external, address: \"127.0.0.1:1\""] {
        let plan = read_source(&source("network", system, "flows: 2", other), &PlanArguments::default())
            .unwrap()
            .plan;
        let named = plan.metrics.iter().filter(|metric| metric.name == "softirq_system");
        assert_eq!(named.count(), 1, "{system}");
    }
}

#[test]
fn the_cpu_time_of_a_link_is_a_metric_of_variants_with_a_link() {
    let other = "system: { link: { delay: 1 ms } }";
    // A tool says nothing of the link, and need not.
    for load in ["connections: 2", "connections: 2, driver: wrk"] {
        let source = source("http", "", load, (other, "other.cpu_link < 1 ms"));
        let plan = read_source(&source, &PlanArguments::default()).unwrap().plan;
        assert!(plan.metric("cpu_link").is_some(), "{load}");
    }
    assert_snapshot!(refused("http", "", "connections: 2", (other, "base.cpu_link < 1 ms")), @"x.yaml:12:12: `cpu_link` is measured only where there is a link, and the variant `base` has none");
}

#[test]
fn a_configuration_that_its_program_has_no_place_for() {
    let config = |ingress: &str| {
        let other = format!("system: {{ ingress: {{ {ingress} }} }}");
        refused("http", "ingress: { kind: haproxy }", "connections: 2", (&other, "other.http_reqs > 1 /s"))
    };
    assert_snapshot!(config("kind: nginx, config: { global: x }"), @"x.yaml:11:58: this program has no section `global` here; it has `main`, `events`, `http`, `upstream`, `server`, `location`; this is so in the variant `other`");
    assert_snapshot!(config("kind: embedded, config: { global: x }"), @"x.yaml:11:51: only `kind: haproxy` and `kind: nginx` take a configuration; this is so in the variant `other`");
    assert_snapshot!(config("config: { template: \"frontend {{bind}}\" }"), @"x.yaml:11:45: the template needs {{global}}, or plumb could not use the program; there are {{global}}, {{tls}}, {{bind}}, {{origin}}, {{protocol}}, {{port}}, {{threads}}; this is so in the variant `other`");
    assert_snapshot!(config("config: { template: \"frontend x\" }"), @"x.yaml:11:45: this configuration has no placeholders, and plumb needs {{global}}, {{bind}} to start the program with it; to measure a server that runs with it, use `kind: external`, with `changes` to its file; this is so in the variant `other`");
    assert_snapshot!(config("kind: nginx, config: { template: \"events { }\" }"), @"x.yaml:11:58: this configuration has no placeholders, and plumb needs {{main}}, {{http}}, {{listen}} to start the program with it; `plumb init --nginx-config FILE` writes an experiment that has them; to measure a server that runs with it, use `kind: external`, with `changes` to its file; this is so in the variant `other`");
    assert_snapshot!(config("config: { path: /no/such/template }"), @"x.yaml:11:45: failed to read /no/such/template: No such file or directory (os error 2); this is so in the variant `other`");
}

#[test]
fn what_fio_cannot_do_and_a_wrong_job_file() {
    let directory = tempfile::tempdir().unwrap();
    let fio = |load: &str, claim: &str| {
        let system = format!("kind: file, size: 16 MiB, path: {}", directory.path().display());
        let other = format!("load: {{ driver: fio, {load} }}");
        refused_in(directory.path(), &refused("storage", &system, "access: randrw", (&other, claim)))
    };
    let job = |text: &str| {
        let file = directory.path().join("job.fio");
        std::fs::write(&file, text).unwrap();
        format!("job: {}", file.display())
    };
    let claim = "other.read_iops > 1 /s";
    assert_snapshot!(fio("verify: true", claim), @"x.yaml:11:35: fio does not check what it reads here; use the native driver; this is so in the variant `other`");
    assert_snapshot!(fio("rate: 100 /s", "other.read_latency.p99 < 1 s"), @"x.yaml:12:12: `other.read_latency.p99 < 1 s` needs a value that other does not measure: fio does not say read_latency.p99: at a fixed rate it takes the time from the submission on, which is `read_service` and `write_service`");
    assert_snapshot!(fio("job: /nobody/has/this", claim), @"x.yaml:11:35: failed to read /nobody/has/this: No such file or directory (os error 2); this is so in the variant `other`");
    assert_snapshot!(fio(&job("[one]\nrw=read\ngtod_reduce=1\n"), "other.read_latency.p99 < 1 s"), @"x.yaml:12:12: `other.read_latency.p99 < 1 s` needs a value that other does not measure: fio does not say read_latency.p99: its job file has `gtod_reduce`, without which fio takes the time of every operation");
    assert_snapshot!(fio(&job("[one]\nrw=read\n[two]\nstonewall\n"), claim), @"x.yaml:11:35: failed to use the job file DIR/job.fio: line 4: `stonewall` runs jobs one after another, and a slot measures one load; give each job a variant; this is so in the variant `other`");
}

#[test]
fn what_dbench_does_not_say_and_a_missing_script() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("entrypoint.sh");
    std::fs::write(&script, "#!/usr/bin/env sh\n").unwrap();
    let dbench = |load: &str, claim: &str| {
        let system = format!("kind: file, size: 16 MiB, path: {}", directory.path().display());
        let other = format!("load: {{ driver: dbench, {load} }}");
        refused_in(directory.path(), &refused("storage", &system, "access: randrw", (&other, claim)))
    };
    let script = format!("script: {}", script.display());
    assert_snapshot!(dbench(&script, "other.read_latency.p99 < 1 s"), @"x.yaml:12:12: `other.read_latency.p99 < 1 s` needs a value that other does not measure: dbench does not say read_latency.p99: its script prints no other; `driver: fio` has it of one load");
    assert_snapshot!(dbench(&script, "other.cpu_load < 1 s"), @"x.yaml:12:12: `other.cpu_load < 1 s` needs a value that other does not measure: dbench does not report cpu_load: it does not count its operations; `driver: fio` does");
    assert_snapshot!(dbench("script: /nobody/has/this", "other.read_iops > 1 /s"), @"x.yaml:11:38: failed to read the script /nobody/has/this: No such file or directory (os error 2); this is so in the variant `other`");
    assert_snapshot!(dbench("depth: 1", "other.read_iops > 1 /s"), @"x.yaml:11:14: dbench needs its script, the path of its `docker-entrypoint.sh`; this is so in the variant `other`");
}

#[test]
fn what_openssl_speed_does_not_say() {
    let crypto = |load: &str, claim: &str| {
        refused("crypto", "", "algorithm: rsa-2048", (&format!("load: {{ {load} }}"), claim))
    };
    assert_snapshot!(crypto("driver: openssl", "other.op_latency.p99 < 1 s"), @"x.yaml:12:12: `other.op_latency.p99 < 1 s` needs a value that other does not measure: openssl does not say op_latency.p99: openssl speed prints rates alone, whatever its options; the native driver measures it");
    assert_snapshot!(crypto("driver: openssl", "other.cpu_load < base.cpu_load"), @"x.yaml:12:12: `other.cpu_load < base.cpu_load` needs a value that other does not measure: openssl does not report cpu_load: openssl speed verifies in the process that signs, and no option separates their CPU time; the native driver measures it");
    assert_snapshot!(crypto("engine: foo", "other.ops > 1 /s"), @"x.yaml:11:22: this is for `driver: openssl`; the native driver uses a device on one thread; this is so in the variant `other`");
}

#[test]
fn what_tools_of_a_network_cannot_do() {
    let network = |load: &str, claim: &str| {
        let other = format!("load: {{ {load} }}");
        refused("network", "kind: veth", "tests: [tcp_lat], msg_size: 64 B", (&other, claim))
    };
    assert_snapshot!(network("driver: qperf", "other.tcp_lat.p99 < 1 s"), @"x.yaml:12:12: `other.tcp_lat.p99 < 1 s` needs a value that other does not measure: qperf does not say tcp_lat.p99: it prints means and bandwidths, whatever its options; sockperf, netperf and the native driver have percentiles");
    assert_snapshot!(network("driver: iperf3", "other.cpu_load > 1 us"), @"x.yaml:7:11: iperf3 has no tcp_lat here; it has tcp_bw, udp_bw; this is so in the variant `other`");
    assert_snapshot!(network("driver: sockperf, flows: 2", "other.cpu_load > 1 us"), @"x.yaml:11:40: sockperf has one flow; use iperf3 or the native driver; this is so in the variant `other`");
}

#[test]
fn networks_whose_settings_contradict_each_other() {
    let network = |system: &str| {
        let claim = "other.tcp_lat.avg > 1 ns";
        refused("network", system, "tests: [tcp_lat]", ("load: { flows: 2 }", claim))
    };
    assert_snapshot!(network("kind: veth, fastpath: redirect"), @"x.yaml:6:25: hosts have no bridge to bypass; `redirect` is for `bridge` and `vxlan`");
    assert_snapshot!(network("kind: vxlan, fastpath: notrack"), @"x.yaml:6:26: without connection tracking `notrack` has nothing to bypass; set `conntrack: on` too");
    assert_snapshot!(network("kind: loopback, mtu: 9000"), @"x.yaml:6:3: a network of kind loopback is taken as it is; settings are for `veth`, `bridge`, `vxlan` and `ovs`");
    assert_snapshot!(network("kind: veth, service_rules: 10001"), @"x.yaml:6:25: there are at most 10000 rules");
    assert_snapshot!(network("kind: veth, xps: \"0\""), @"x.yaml:6:25: a device with one queue has nothing to steer; give `queues` too");
}
