#!/usr/bin/env bash
# Measures how far the search for a capacity, a stepped rate and a bisection are from the capacity of servers where it is known. Then
# compares two such servers in experiments, and one that collapses with one that does not. Writes three sections of benches/RESULTS.md. It
# takes about three quarters of an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" capacity
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" capacities
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" collapse
