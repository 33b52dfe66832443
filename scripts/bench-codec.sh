#!/usr/bin/env bash
# Compares `plumb codec` with the benchmarks of the programs zstd and lz4, in the unit of a migration (512 KiB) and on the same
# data, in turns. It prints the best speed of each, as those benchmarks do, and the ratio of the two.
#
# usage: scripts/bench-codec.sh [ROUNDS] [FILE]
#
# Without a file it takes 64 MiB of the built-in content. The programs may have another version of their library than
# Plumbline was built with; both are printed.
set -euo pipefail
cd "$(dirname "$0")/.."

ROUNDS=${1:-5}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

cargo build --release --quiet -p plumb-cli
plumb=${CARGO_TARGET_DIR:-target}/release/plumb
data=${2:-$directory/content}
[ -n "${2:-}" ] || "$plumb" codec --codecs none -d 1ms -q --save "$data" >/dev/null

# The two speeds in a line such as ` 1#content : 67108864 -> 22400000 (x2.996), 512.3 MB/s, 1702.5 MB/s`.
speeds() { tr '\r' '\n' | grep -oE '[0-9.]+ MB/s' | tail -n 2 | cut -d' ' -f1 | paste -sd' '; }

for round in $(seq "$ROUNDS"); do
    for codec in zstd:1 zstd:3 lz4:1; do
        program=${codec%:*} level=${codec#*:}
        "$plumb" codec "$data" --codecs "$codec" --form unit -d 2s -q --json |
            python3 -c '
import json, sys
row = json.load(sys.stdin)["rows"][0]
print(sys.argv[1], "plumb", row["compress"]["best_mb_per_s"], row["decompress"]["best_mb_per_s"])' "$codec"
        echo "$codec tool $("$program" -b"$level" -B524288 -i1 "$data" 2>&1 | speeds)"
    done
done >"$directory/speeds"

printf 'library of Plumbline: %s\n' "$(grep -A1 -E '^name = "(zstd|lz4)-sys"' Cargo.lock | grep version | tr -d '\n')"
printf 'programs: %s; %s\n\n' "$(zstd --version | grep -oE 'v[0-9.]+' | head -n 1)" "$(lz4 --version | grep -oE 'v[0-9.]+' | head -n 1)"
python3 - "$directory/speeds" <<'PYTHON'
import sys

best = {}
for line in open(sys.argv[1]):
    codec, who, compress, restore = line.split()
    for direction, speed in (("compress", compress), ("restore", restore)):
        key = (codec, direction, who)
        best[key] = max(best.get(key, 0.0), float(speed))
print(f"{'codec':8} {'':9} {'plumb':>10} {'its tool':>10}  ratio")
for codec, direction in sorted({key[:2] for key in best}):
    ours, theirs = best[codec, direction, "plumb"], best[codec, direction, "tool"]
    print(f"{codec:8} {direction:9} {ours:7.0f} MB/s {theirs:5.0f} MB/s  {ours / theirs:.3f}")
PYTHON
