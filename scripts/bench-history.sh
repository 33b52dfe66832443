#!/usr/bin/env bash
# Measures a history of 10,000 runs and the page over it. Writes the section of benches/RESULTS.md. It takes about three minutes,
# and 1 GB of the temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" history
