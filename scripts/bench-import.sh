#!/usr/bin/env bash
# Measures how fast a gigabyte of k6's points is read. Writes the section of benches/RESULTS.md. It takes about a minute,
# and 1 GB of the temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" import
