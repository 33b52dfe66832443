#!/usr/bin/env bash
# Measures the storage load against fio, interleaved, and writes the sections of benches/RESULTS.md.
#
# usage: scripts/bench-storage.sh [load|latency]
#
# It takes about twenty minutes, and 1 GiB of disk in the working directory. The rows on a loop device need root.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build tests
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" storage "$@"
