#!/usr/bin/env bash
# Measures the harness itself: first output, memory, time not spent measuring. Writes the section of benches/RESULTS.md.
#
# It takes about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build systems || echo "variants that need what is missing will be skipped"
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" harness
