#!/usr/bin/env bash
# Measures plumb's limiter beside nbdkit's rate filter and QEMU's throttle group, in tests of 3 s and 10 s, and the NBD servers
# without a limit, interleaved, and writes the sections of benches/RESULTS.md. It takes about ten minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install-tools.sh build tests
cargo build --release --package plumb-cli --package plumb-benches
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" limiter
"${CARGO_TARGET_DIR:-target}/release/plumb-benches" nbd
