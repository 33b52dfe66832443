#!/usr/bin/env bash
# Measures HTTP load against wrk, ab, h2load, a bare epoll loop and (where it is installed) k6, interleaved, and writes the section
# of benches/RESULTS.md.
# With OLD=PROGRAM, a release build of an older commit, it measures against that one and prints the ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build systems tests || echo "rows against peers that are missing will be left out"
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" http ${OLD:+"$OLD"}
