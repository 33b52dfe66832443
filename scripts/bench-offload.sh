#!/usr/bin/env bash
# Measures the gain of the multi-buffer device in the embedded ingress, and the embedded ingress against HAProxy.
#
# usage: scripts/bench-offload.sh [ARGUMENTS OF plumb run…]
#
# Each file in benches/offload/ is an experiment whose claims are the targets. The runs stay in target/bench-offload/. A
# missed target is a result, not a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --package plumb-cli >&2
plumb="${CARGO_TARGET_DIR:-target}/release/plumb"
for file in benches/offload/*.yaml; do
    name=$(basename "$file" .yaml)
    output=target/bench-offload/$name
    rm -rf "$output"
    code=0
    "$plumb" run "$file" --full --output "$output" "$@" >"target/bench-offload-$name.txt" || code=$?
    sed -n '/^claims$/,$p' "target/bench-offload-$name.txt"
    case $code in 0 | 1 | 3 | 4) ;; *) exit "$code" ;; esac
done
