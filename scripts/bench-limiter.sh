#!/usr/bin/env bash
# Measures plumb's limiter beside nbdkit's rate filter and QEMU's throttle group, in tests of 3 s and 10 s, and writes the
# section of benches/RESULTS.md. It takes about six minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build tests
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" limiter
