#!/usr/bin/env bash
# Measures the migration engine against QEMU, interleaved, and writes the section of benches/RESULTS.md.
#
# usage: scripts/bench-migration.sh [WORD...]     rows whose description has all the words, such as `1 GiB`
#
# It takes about half an hour on two cores. PLUMB_BENCH_QEMU names more QEMUs to compare with, separated by colons.
# PLUMB_BENCH_RUNS names a directory that keeps the runs. A row that it holds already is not measured again.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build systems
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" migration "$@"
