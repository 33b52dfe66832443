#!/usr/bin/env bash
# Measures the harness itself: first output, memory, time not spent measuring; writes benches/RESULTS.md. Ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build systems || echo "variants that need what is missing will be skipped"
cargo build --release --package plumb-cli --package plumb-benches
target/release/plumb-benches harness
