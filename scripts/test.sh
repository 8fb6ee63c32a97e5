#!/usr/bin/env bash
# scripts/test.sh fast|slow [pytest arguments]
# The tests under tests/ run in .venv; those under tests/spark and tests/sweep hold a Spark session in their own process
# and run in .venv-spark, where this package is not installed but found through PYTHONPATH. All parts run, the last output is
# pytest's, and it fails when one part does. The two fast parts run at once, because most of their time is waiting;
# what the second one says comes after the first.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh
export SPARK_SUBMIT_OPTS="${SPARK_SUBMIT_OPTS:-} $SHORT_LIVED"

kind=${1:-fast}
[ $# -eq 0 ] || shift
case $kind in
    fast) select="not slow and not sweep" ;;
    slow) select="slow and not sweep" ;;
    *) echo "usage: scripts/test.sh fast|slow [pytest arguments]" >&2; exit 2 ;;
esac

# never the user's own Airflow
export AIRFLOW_HOME="$ROOT/.airflow-test"
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False
mkdir -p "$AIRFLOW_HOME"

# No test begins after TESTS_UNTIL (seconds since 1970), which .ci/run sets.
within() { # pytest's argument for the time that is left
    [ -z "${TESTS_UNTIL:-}" ] || echo "--session-timeout=$((TESTS_UNTIL > $(date +%s) ? TESTS_UNTIL - $(date +%s) : 1))"
}

failed=
plain=$([ "$kind" = fast ] && [ $# -eq 0 ] && echo yes || true)
note() { # part, pytest's exit code; 5 is "no tests": right when ARGS or the kind select none in a part, else a mistake
    [ "$2" -eq 0 ] || { [ "$2" -eq 5 ] && [ -z "$plain" ]; } || failed="$failed $1"
}

if [ "$kind" = fast ]; then
    echo "== lint"
    scripts/lint.sh || failed="$failed lint"
fi
# What the fast tests with Spark write is thrown away: in memory where there is room, because a state store syncs its files in
# each batch, which takes 7 ms a file on a disk (measured).
memory=
if [ "$kind" = fast ] && [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print int($4 / 1048576) }')" -ge 4 ] 2>/dev/null; then
    memory=$(mktemp -d /dev/shm/streamupdate-XXXXXX)
fi
trap 'rm -rf "$memory"' EXIT
spark_tests() { # folder, pytest arguments
    [ -z "$memory" ] || export TMPDIR="$memory" SPARK_LOCAL_DIRS="$memory"
    PYTHONPATH="$ROOT" PYSPARK_PYTHON="$ROOT/.venv-spark/bin/python" PYSPARK_DRIVER_PYTHON="$ROOT/.venv-spark/bin/python" \
        .venv-spark/bin/python -m pytest -p no:cacheprovider -m "$select" "$@"
}
both() { # the exit code of tests/spark, else that of tests/sweep, whose session has settings of its own
    local code other
    spark_tests tests/sweep $(within) "$@"
    other=$?
    spark_tests tests/spark $(within) "$@"
    code=$?
    [ "$other" -eq 0 ] || [ "$other" -eq 5 ] || return "$other"
    return $code
}
if [ "$kind" = fast ]; then
    said=$(mktemp)
    both "$@" >"$said" 2>&1 &
    trap 'kill $! 2>/dev/null; rm -rf "$said" "$memory"' EXIT
fi
echo "== tests ($kind, .venv)"
.venv/bin/python -m pytest tests --ignore=tests/spark --ignore=tests/sweep --ignore=tests/ui -m "$select" $(within) "$@"
note tests $?
echo "== tests/spark ($kind, .venv-spark)"
if [ "$kind" = fast ]; then
    wait $!
    code=$?
    cat "$said"
else
    both "$@"
    code=$?
fi
note tests/spark $code
[ -z "$failed" ] || { echo "$kind tests: failed:$failed" >&2; exit 1; }
