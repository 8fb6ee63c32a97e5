#!/usr/bin/env bash
# scripts/test.sh fast|slow [pytest arguments]
# The tests under tests/ run in .venv; those under tests/spark and tests/sweep hold a Spark session in their own process
# and run in .venv-spark, where this package is not installed but found through PYTHONPATH. All parts run, the last output is
# pytest's, and it fails when one part does. The fast parts are three lanes that run at once, because half of their time is
# waiting, and end together; what the second and the third say comes after the first. The slow parts are two such lanes.
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
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False

# No test begins after TESTS_UNTIL (seconds since 1970), which .ci/run sets.
within() { # pytest's argument for the time that is left
    [ -z "${TESTS_UNTIL:-}" ] || echo "--session-timeout=$((TESTS_UNTIL > $(date +%s) ? TESTS_UNTIL - $(date +%s) : 1))"
}

failed=
plain=$([ "$kind" = fast ] && [ $# -eq 0 ] && echo yes || true)
note() { # part, pytest's exit code; 5 is "no tests": right when ARGS or the kind select none in a part, else a mistake
    [ "$2" -eq 0 ] || { [ "$2" -eq 5 ] && [ -z "$plain" ]; } || failed="$failed $1"
}

memory=$(folder_in_memory)
said=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$said" "$memory"' EXIT
airflow_tests() { # name of its Airflow, pytest arguments
    export AIRFLOW_HOME="$ROOT/.airflow-test/$1"
    mkdir -p "$AIRFLOW_HOME"
    .venv/bin/python -m pytest -p no:cacheprovider -m "$select" $(within) "${@:2}"
}
spark_tests() { # pytest arguments
    [ -z "$memory" ] || export TMPDIR="$memory" SPARK_LOCAL_DIRS="$memory"
    PYTHONPATH="$ROOT" PYSPARK_PYTHON="$ROOT/.venv-spark/bin/python" PYSPARK_DRIVER_PYTHON="$ROOT/.venv-spark/bin/python" \
        .venv-spark/bin/python -m pytest -p no:cacheprovider -m "$select" $(within) "$@"
}
rotated() { # paths: each commit begins with another one, so that CI, which has time for a part of them, gets through all
    local at=$((0x$(git rev-parse --short=4 HEAD 2>/dev/null || echo 0) % $#))
    echo "${@:at+1}" "${@:1:at}"
}
if [ "$kind" = fast ]; then
    # some of Spark's go with Airflow's, so that the three lanes end together
    WITH_AIRFLOW=$(ls tests/spark/test_added_aggregates.py tests/spark/test_following*.py)
    # shellcheck disable=SC2046
    spark_tests tests/spark $(printf -- '--ignore=%s ' $WITH_AIRFLOW) "$@" >"$said/spark" 2>&1 &
    spark=$!
    # tests/sweep has a session of its own: its settings differ
    { airflow_tests rest tests --ignore=tests/spark --ignore=tests/sweep --ignore=tests/ui --ignore=tests/airflow --ignore=tests/cli "$@"; echo $? >"$said/rest.code"
        spark_tests tests/sweep "$@"; echo $? >"$said/sweep.code"; } >"$said/rest" 2>&1 &
    rest=$!
    echo "== lint"
    scripts/lint.sh || failed="$failed lint"
    echo "== tests/airflow, tests/cli (fast, .venv)"
    airflow_tests airflow tests/airflow tests/cli "$@"
    note tests/airflow,cli $?
    echo "== tests/spark: aggregates, following (fast, .venv-spark)"
    # shellcheck disable=SC2086
    spark_tests $WITH_AIRFLOW "$@"
    note following $?
    wait $rest
    echo "== all other tests (fast, .venv), tests/sweep (fast, .venv-spark)"
    cat "$said/rest"
    note tests "$(cat "$said/rest.code")"
    note tests/sweep "$(cat "$said/sweep.code")"
    wait $spark
    code=$?
    echo "== all of it took $((SECONDS / 60)) min $((SECONDS % 60)) s"
    echo "== all other tests of tests/spark (fast, .venv-spark)"
    cat "$said/spark"
    note tests/spark $code
else
    # The second lane has Spark's own tests and half of the whole updates, so that the two lanes end together.
    # shellcheck disable=SC2046
    { for part in sweep spark; do
        echo "== tests/$part (slow, .venv-spark)"
        spark_tests $(rotated tests/$part/test_*.py) "$@"
        echo $? >"$said/$part.code"
    done
        echo "== more whole updates (slow, .venv)"
        airflow_tests updates $(rotated tests/e2e/test_[o-z]*.py) tests/system "$@"
        echo $? >"$said/updates.code"; } >"$said/second" 2>&1 &
    second=$!
    echo "== tests (slow, .venv)"
    # shellcheck disable=SC2046
    airflow_tests slow $(rotated tests/[a-d]*/ tests/e2e/test_[a-n]*.py tests/[f-r]*/ tests/simulation) "$@"
    note tests $?
    wait $second
    echo "== all of it took $((SECONDS / 60)) min $((SECONDS % 60)) s"
    cat "$said/second"
    for part in sweep spark updates; do note $part "$(cat "$said/$part.code")"; done
fi
[ -z "$failed" ] || { echo "$kind tests: failed:$failed" >&2; exit 1; }
