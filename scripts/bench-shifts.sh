#!/usr/bin/env bash
# Measures how soon level shifts are found in simulated series, and how often there is none, beside Apache Otava's method. Writes
# the section of benches/RESULTS.md. It takes about a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" shifts
