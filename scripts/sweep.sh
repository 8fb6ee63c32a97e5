#!/usr/bin/env bash
# scripts/sweep.sh [pytest arguments]: the tests of tests/sweep that are marked sweep, in .venv-spark. SEED=.. replays one,
# N=.. says how many changes of an expression. What Spark says of each text it refuses goes to a log, which is shown when
# the sweep itself breaks.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
PYTHONPATH="$ROOT" PYSPARK_PYTHON="$ROOT/.venv-spark/bin/python" PYSPARK_DRIVER_PYTHON="$ROOT/.venv-spark/bin/python" \
    .venv-spark/bin/python -m pytest tests/sweep -p no:cacheprovider -m sweep -q "$@" 2>"$log"
code=$?
[ "$code" -le 1 ] || tail -n 40 "$log" >&2
exit "$code"
