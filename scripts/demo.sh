#!/usr/bin/env bash
# From a fresh machine to a verdict: installs what is missing, builds, runs one experiment for less than a minute, and prints
# where the report is.
#
# The experiment needs nothing but the build, so it comes to a verdict on any machine. The script exits with 0 on any verdict: a
# refuted claim is a result, and one of the demo's claims should be refuted. Without a verdict it exits with `plumb run`'s own code.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"

EXPERIMENT=tls-cost

scripts/install-tools.sh build
cargo build --profile demo --bin plumb

plumb=${CARGO_TARGET_DIR:-target}/demo/plumb
directory=plumb-runs/demo-$(date +%Y%m%d-%H%M%S)
code=0
"$plumb" run "$EXPERIMENT" --quick --output "$directory" || code=$?

case $code in
    0) meaning="every claim holds on this machine" ;;
    1) meaning="at least one claim is refuted; the report shows by how much" ;;
    3) meaning="a claim is undecided after a quick run; \`plumb run $EXPERIMENT\` without --quick takes more blocks" ;;
    4) meaning="a number cannot be trusted here; the report gives the reason" ;;
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
