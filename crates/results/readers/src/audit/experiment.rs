//! The experiment that would settle what a document asks, with the sizes that it names.
//!
//! It asks for half of the gain that the document shows: enough to be worth the treatment, and more likely to be there.

use plumb_model::Statistic;

use crate::audit::cells::guest_memory;
use crate::audit::document::Document;
use crate::audit::finding::Output;
use crate::audit::loads::{in_flight, is_tls, value};
use crate::audit::tables::Table;
use crate::audit::words::digits;

/// How many limits of one document are taken over.
const LIMITS_MAX: usize = 6;

/// `None` where nothing was read that Plumbline measures.
pub(crate) fn settling(document: &Document<'_>, outputs: &[Output], tables: &[Table]) -> Option<String> {
    let text = document.text();
    let path = outputs.first().map_or_else(|| path_of(tables), |output| Some(output.run.path))?;
    let (title, spec) = match path {
        "http" => http(text, outputs),
        "storage" => storage(outputs),
        "network" => network(tables),
        "migration" => migration(text, tables),
        _ => return None,
    };
    Some(format!(
        "# Written by `plumb audit`. `plumb check FILE` shows what this host can measure of it, `plumb run FILE` runs it.\n\
         apiVersion: plumbline.dev/v1alpha1\nkind: Experiment\nmetadata:\n  name: settle\n  title: {title}\nspec:\n  path: {path}\n{spec}"
    ))
}

fn path_of(tables: &[Table]) -> Option<&'static str> {
    let has = |words: &[&str]| tables.iter().any(|table| table.column(words).is_some());
    if has(&["tcp_lat"]) || has(&["udp_lat"]) || has(&["tcp_bw"]) {
        Some("network")
    } else if has(&["total", "time"]) && (has(&["down"]) || has(&["throughput"])) {
        Some("migration")
    } else {
        None
    }
}

fn http(text: &str, outputs: &[Output]) -> (&'static str, String) {
    let lower = text.to_lowercase();
    let connections = outputs.iter().find_map(|output| in_flight(&output.run)).unwrap_or(10.0);
    let rates: Vec<f64> = outputs.iter().filter_map(|output| value(&output.run, "http_reqs", None)).collect();
    let is_tls = outputs.iter().any(is_tls);
    let has_handshakes = outputs.iter().any(|output| {
        output.run.tool == "ab" && !output.run.options.contains_key("keep-alive")
            || value(&output.run, "http_req_tls_handshaking", Some(Statistic::Med)).is_some_and(|ms| ms > 0.0)
    });
    let key = if text.contains(",4096,") { "rsa-4096" } else { "rsa-2048" };
    let tls = if is_tls { format!(", tls: \"1.2\", key: {key}") } else { String::new() };
    let reuse = if has_handshakes { ", reuse: none" } else { "" };
    let (title, treated) = if lower.contains("qat") {
        (
            "What does the accelerator do for this ingress?",
            "system: { ingress: { offload: { engine: qatengine } } }",
        )
    } else {
        ("Is the changed server faster?", "system: { ingress: { threads: 2 } }")
    };
    // The slowest and the fastest of what has TLS, as far as the text tells: the first and the largest rate.
    let gain = rates
        .iter()
        .skip(1)
        .copied()
        .reduce(f64::max)
        .zip(rates.first())
        .map_or(1.2, |(most, first)| most / first);
    let half = if gain > 1.0 { 1.0 + (gain - 1.0) / 2.0 } else { 1.1 };
    (
        title,
        format!(
            "  system:\n    ingress: {{ kind: haproxy{tls} }}\n    origin: {{ kind: embedded, body: 612 B }}\n  \
             load: {{ connections: {connections}{reuse}, duration: 5 s }}\n  baseline: before\n  control: true\n  variants:\n    \
             before: {{}}\n    after: {{ {treated} }}\n  blocks: {{ min: 6, max: 20 }}\n  claims:\n    \
             - after.http_reqs >= {} * before.http_reqs\n    - after.iteration_duration.p95 < before.iteration_duration.p95\n    \
             - after.cpu_system < before.cpu_system\n",
            digits(half)
        ),
    )
}

/// A limit that a heading names, as a policy and as the cap to claim.
fn limit(place: &str) -> Option<(String, String)> {
    let words: Vec<&str> = place
        .split(|c: char| c.is_whitespace() || "()=:".contains(c))
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).rev().find_map(|pair| {
        let number: u64 = pair[0].replace(',', "").parse().ok().filter(|number| *number > 0)?;
        match pair[1].trim_end_matches(['.', ',']) {
            "IOPS/GB" => Some((
                format!("{{ adaptive: {{ expected_iops: {} IOPS/GB, peak_iops: {number} IOPS/GB, peak_iops_allocation: allocated-space }} }}", (number / 10).max(1)),
                format!("read_iops <= {} IOPS within 1%", number * 100),
            )),
            "IOPS" => Some((format!("{{ fixed: {{ max_iops: {number} IOPS }} }}"), format!("read_iops <= {number} IOPS within 1%"))),
            "MBps" | "MB/s" => Some((format!("{{ fixed: {{ max_bandwidth: {number} MB/s }} }}"), format!("read_bw <= {number} MB/s within 1%"))),
            _ => None,
        }
    })
}

fn storage(outputs: &[Output]) -> (&'static str, String) {
    let mut limits: Vec<(String, String)> =
        outputs.iter().filter_map(|output| limit(&output.place())).collect();
    limits.dedup();
    limits.truncate(LIMITS_MAX);
    if limits.is_empty() {
        return (
            "Does the changed volume differ?",
            "  system: { kind: volumes, volume: { size: 10 GB, filled: 256 MiB } }\n  \
             load: { access: randread, block_size: 4 KiB, depth: 4, size: 256 MiB, duration: 4 s }\n  baseline: before\n  control: true\n  \
             variants:\n    before: {}\n    after: { system: { volume: { layer: nbd } } }\n  blocks: { min: 6, max: 20 }\n  \
             until: [\"after.read_iops / before.read_iops within 2%\"]\n"
                .to_owned(),
        );
    }
    let (mut variants, mut claims) = (String::new(), String::new());
    for (at, (policy, claim)) in limits.iter().enumerate() {
        variants += &format!("    limit-{0}: {{ system: {{ volume: {{ policy: {policy} }} }} }}\n", at + 1);
        claims += &format!("    - limit-{}.{claim}\n", at + 1);
    }
    (
        "Do the limits hold in every second?",
        format!(
            "  system: {{ kind: volumes, volume: {{ size: 100 GB, filled: 256 MiB, layer: nbd }} }}\n  \
             load: {{ access: randread, block_size: 16 KiB, depth: 16, size: 256 MiB, duration: 4 s }}\n  baseline: unlimited\n  \
             variants:\n    unlimited: {{}}\n{variants}  blocks: {{ min: 6, max: 12 }}\n  claims:\n{claims}"
        ),
    )
}

fn network(tables: &[Table]) -> (&'static str, String) {
    let mut sizes: Vec<&str> = Vec::new();
    for table in tables {
        let asked = table
            .caption
            .split_whitespace()
            .find_map(|word| word.trim_matches(['`', ',']).strip_prefix("msg_size:"));
        let size = match asked {
            Some("1") => "1 B",
            Some("1K") => "1 KiB",
            Some("4K") => "4 KiB",
            Some("64K") => "64 KiB",
            _ => continue,
        };
        if !sizes.contains(&size) {
            sizes.push(size);
        }
    }
    let matrix = match &sizes[..] {
        [] | [_] => String::new(),
        several => {
            let quoted: Vec<String> = several.iter().map(|size| format!("\"{size}\"")).collect();
            format!("  matrix:\n    load.msg_size: [{}]\n", quoted.join(", "))
        }
    };
    let size = sizes.first().unwrap_or(&"1 B");
    (
        "How near does tuning bring the overlay to the hosts' network?",
        format!(
            "  system: {{ kind: vxlan, conntrack: on, service_rules: 1000 }}\n  \
             load: {{ tests: [tcp_lat, udp_lat, tcp_bw, udp_bw], msg_size: {size}, duration: 300 ms, warmup: 50 ms }}\n  baseline: overlay\n  \
             variants:\n    overlay: {{}}\n    tuned: {{ system: {{ fastpath: redirect }} }}\n    hosts: {{ system: {{ kind: veth }} }}\n\
             {matrix}  blocks: {{ min: 6, max: 20 }}\n  claims:\n    - tuned.tcp_lat.avg < overlay.tcp_lat.avg\n    \
             - tuned.udp_bw > overlay.udp_bw\n    - hosts.tcp_lat.avg < tuned.tcp_lat.avg\n    - tuned.cpu_system < overlay.cpu_system\n"
        ),
    )
}

fn migration(text: &str, tables: &[Table]) -> (&'static str, String) {
    let known = ["none", "zstd", "lz4", "zlib", "qatzip", "qpl"];
    let names = tables.iter().flat_map(|table| &table.rows).map(|row| row.name.to_lowercase());
    let mut codecs: Vec<&str> =
        names.filter_map(|name| known.into_iter().find(|codec| *codec == name)).collect();
    codecs.sort_unstable();
    codecs.dedup();
    codecs.retain(|codec| *codec != "none");
    let channels =
        tables.iter().filter_map(|table| table.corner.split_whitespace().next()?.parse::<u32>().ok());
    let mut channels: Vec<u32> = channels.filter(|count| (1..=64).contains(count)).collect();
    channels.sort_unstable();
    channels.dedup();
    let matrix = if channels.len() > 1 {
        format!("  matrix:\n    system.channels: {channels:?}\n")
    } else {
        String::new()
    };
    let variants: String =
        codecs.iter().map(|codec| format!("    {codec}: {{ system: {{ codec: {codec} }} }}\n")).collect();
    let claims: String = codecs
        .iter()
        .flat_map(|codec| {
            [
                format!("    - {codec}.total_time < none.total_time\n"),
                format!("    - {codec}.send_cpu_per_gib > none.send_cpu_per_gib\n"),
            ]
        })
        .collect();
    let memory = guest_memory(text)
        .map(|bytes| format!("  # The document's guest has {} GiB.\n", digits(bytes / f64::from(1 << 30))));
    (
        "Which codec moves a guest first, and what does it cost?",
        format!(
            "{}  system: {{ kind: plumb, memory: 1 GiB, channels: {}, cap: 1 GB/s }}\n  baseline: none\n  variants:\n    none: {{}}\n\
             {variants}{matrix}  blocks: {{ min: 6, max: 20 }}\n  claims:\n{claims}",
            memory.unwrap_or_default(),
            channels.first().unwrap_or(&2)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_heading_become_policies() {
        let of = |place: &str| limit(place).map(|(policy, _)| policy);
        assert_eq!(
            of("C. Using the first policy group (Maximum Throughput = 500 IOPS)"),
            Some("{ fixed: { max_iops: 500 IOPS } }".to_owned())
        );
        assert_eq!(
            of("D. (Maximum Throughput = 100 MBps)"),
            Some("{ fixed: { max_bandwidth: 100 MB/s } }".to_owned())
        );
        assert!(of("E. (Maximum Throughput = 50 IOPS/GB)").unwrap().contains("peak_iops: 50 IOPS/GB"));
        assert_eq!(of("B. Baseline"), None);
    }
}
