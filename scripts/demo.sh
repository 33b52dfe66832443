#!/usr/bin/env bash
# From a fresh machine to a verdict: installs what is missing, builds, runs one experiment, says where the report is.
#
# It exits with 0 when the experiment came to a verdict, whatever the verdict is: a claim that is refuted on this
# machine is a result. It exits with `plumb run`'s own code when there is none.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

EXPERIMENT=tls-offload

scripts/install-tools.sh build
scripts/install-tools.sh systems ||
    echo "demo: without HAProxy and nginx; the variants that need them will be skipped" >&2
cargo build --release --bin plumb

plumb=${CARGO_TARGET_DIR:-target}/release/plumb
directory=plumb-runs/demo-$(date +%Y%m%d-%H%M%S)
code=0
"$plumb" run "$EXPERIMENT" --quick --output "$directory" || code=$?

case $code in
    0) meaning="every claim holds on this machine" ;;
    1) meaning="a claim is refuted on this machine; the report shows by how much" ;;
    3) meaning="a claim is undecided after a quick run; \`plumb run $EXPERIMENT\` without --quick takes more blocks" ;;
    4) meaning="a number cannot be trusted here; the report says which and why" ;;
    130)
        echo "demo: interrupted; what was measured until then is in $directory" >&2
        exit "$code"
        ;;
    *)
        echo "demo: \`plumb run\` came to no verdict (exit code $code); the messages above say why" >&2
        exit "$code"
        ;;
esac

report=$directory/report.html
[ -e "$report" ] || "$plumb" report "$directory" --format html >"$report"
echo
echo "Verdict: $meaning (\`plumb run\` ended with $code)."
echo "Report:  file://$(realpath "$report")"
