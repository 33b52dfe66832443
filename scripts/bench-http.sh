#!/usr/bin/env bash
# Measures HTTP load against wrk, ab, h2load, a bare epoll loop and (where they are installed) k6 and oha, interleaved, and writes the
# section of benches/RESULTS.md. HTTP/3 needs an nginx that speaks it (`scripts/install-tools.sh lab` fetches one) and
# `cargo install oha --features http3`.
# With OLD=PROGRAM, a release build of an older commit, it measures against that one and prints the ratios.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build systems tests || echo "rows against peers that are missing will be left out"
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" http ${OLD:+"$OLD"}
[ -n "${OLD:-}" ] || "${CARGO_TARGET_DIR:-target}/release/plumb-benches" http3
