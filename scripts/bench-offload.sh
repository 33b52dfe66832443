#!/usr/bin/env bash
# Measures what the multi-buffer device gives the embedded ingress, and the embedded ingress against HAProxy.
#
# usage: scripts/bench-offload.sh [ARGUMENTS OF plumb run…]
#
# Each file in benches/offload/ is an experiment whose claims are the targets. The runs stay in target/bench-offload/. A
# target that is missed is a result and no failure.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release --package plumb-cli >&2
plumb="${CARGO_TARGET_DIR:-target}/release/plumb"
for file in benches/offload/*.yaml; do
    name=$(basename "$file" .yaml)
    output=target/bench-offload/$name
    rm -rf "$output"
    code=0
    "$plumb" run "$file" --output "$output" "$@" >"target/bench-offload-$name.txt" || code=$?
    sed -n '/^claims$/,$p' "target/bench-offload-$name.txt"
    case $code in 0 | 1 | 3 | 4) ;; *) exit "$code" ;; esac
done
