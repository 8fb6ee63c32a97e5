#!/usr/bin/env bash
# scripts/sweep.sh [pytest arguments]: the tests of tests/spark and tests/sweep that are marked sweep, in .venv-spark, each
# folder in a process of its own, because their sessions have other settings; then those of tests/e2e, in .venv.
# SEED=.. replays one of tests/sweep, N=.. says how many changes of an expression. What Spark says of each text it refuses
# goes to a log, which is shown when the sweep itself breaks.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:-} $SHORT_LIVED"

log=$(mktemp)
trap 'rm -f "$log"' EXIT
code=0
sweep() { # environment, folder, pytest arguments
    PYTHONPATH="$ROOT" "$1/bin/python" -m pytest "$2" -p no:cacheprovider -m sweep -q "${@:3}" 2>>"$log"
    found=$?
    [ "$found" = 5 ] || [ "$found" -le "$code" ] || code=$found # 5: the arguments leave nothing of this folder
}
for folder in tests/spark tests/sweep; do
    PYSPARK_PYTHON="$ROOT/.venv-spark/bin/python" PYSPARK_DRIVER_PYTHON="$ROOT/.venv-spark/bin/python" \
        sweep .venv-spark "$folder" "$@"
done
sweep .venv tests/e2e "$@"
[ "$code" -le 1 ] || tail -n 40 "$log" >&2
exit "$code"
