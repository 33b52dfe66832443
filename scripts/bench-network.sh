#!/usr/bin/env bash
# Measures the network load against qperf, sockperf and iperf3, interleaved, and writes the sections of benches/RESULTS.md.
#
# usage: scripts/bench-network.sh [latency|tcp_bw|udp_bw|batch]
#
# It takes about ten minutes and needs root: the two ends are network namespaces, which disappear with the program.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build tests
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" network "$@"
[ "$#" -gt 0 ] || "${CARGO_TARGET_DIR:-target}/release/plumb-benches" link
