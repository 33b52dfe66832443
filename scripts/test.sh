#!/usr/bin/env bash
# Runs the tests of one profile of .config/nextest.toml and sums them up: what was skipped and why, and the slowest.
#
# usage: scripts/test.sh PROFILE [OPTIONS OF cargo nextest run…]
#
# The profile `default` also runs the tests in documentation, which nextest does not know.
set -euo pipefail
cd "$(dirname "$0")/.."

profile=$1
shift
report=${CARGO_TARGET_DIR:-target}/nextest/$profile/junit.xml
rm -f "$report"
code=0
cargo nextest run --workspace --profile "$profile" "$@" || code=$?
if [ "$profile" = default ]; then
    cargo test --workspace --doc --quiet || code=$?
fi
# Without a report, nothing was built, and the messages above say why.
[ ! -e "$report" ] || scripts/test-summary.py "$report" || code=$?
exit "$code"
