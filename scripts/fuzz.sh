#!/usr/bin/env bash
# scripts/fuzz.sh N [SEED] [RESULTS]: tests/fuzz in .venv-spark. What Spark's Python workers chat about goes to a log, which is
# shown when the fuzz itself breaks.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

log=$(mktemp)
trap 'rm -f "$log"' EXIT
PYTHONPATH="$ROOT" PYSPARK_PYTHON="$ROOT/.venv-spark/bin/python" PYSPARK_DRIVER_PYTHON="$ROOT/.venv-spark/bin/python" \
    .venv-spark/bin/python -m tests.fuzz "$@" 2>"$log"
code=$?
if grep -q '^Traceback' "$log" && [ "$code" -ne 0 ]; then
    tail -n 40 "$log" >&2
fi
exit "$code"
