#!/usr/bin/env bash
# scripts/older_spark.sh VERSION [pytest arguments]: what make test-spark runs, in the environment of an older Spark
# (scripts/setup.sh makes it): tests of tests/spark that go through every kind of stage, under that Spark; then a snapshot
# that it has just written is restored, and goes on, under each later Spark that has an environment here. Ends at the first
# part that fails.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

version=$1
shift
if [ "$version" = 3.5 ]; then # nothing of ours runs on it: its checkpoints are adopted
    scripts/setup.sh spark40
    exec .venv/bin/python -m pytest -p no:cacheprovider -m "" tests/e2e/test_adopt_older.py "$@"
fi
environment=.venv-spark${version//./}
OLD=$ROOT/$environment/bin/python
NEW=$ROOT/.venv-spark/bin/python
golden=$(mktemp -d)
memory=$(folder_in_memory)
trap 'rm -rf "$golden" "$memory"' EXIT

with() { # a Python, and what it runs
    local archive=${SPARK_SUBMIT_OPTS:-}
    [ "$1" = "$NEW" ] || archive= # it has the newest Spark's classes
    [ -z "$memory" ] || export TMPDIR="$memory" SPARK_LOCAL_DIRS="$memory"
    PYTHONPATH="$ROOT" PYSPARK_PYTHON=$1 PYSPARK_DRIVER_PYTHON=$1 SPARK_SUBMIT_OPTS="$archive $SHORT_LIVED" "$@"
}

echo "== tests/spark (fast, $environment)"
with "$OLD" -m pytest -p no:cacheprovider -m "not slow" tests/spark/test_restore_by_name.py tests/spark/test_modes.py \
    tests/spark/test_stages.py tests/spark/test_format_v2.py tests/spark/test_golden.py "$@"
with "$OLD" -m tests.golden "$golden" rocksdb changelog-v2
for later in .venv-spark?* .venv-spark; do
    { [[ $later > $environment ]] || [ "$later" = .venv-spark ]; } && [ -x "$later/bin/python" ] || continue
    echo "== a snapshot of $version restored in $later"
    STREAMUPDATE_GOLDEN=$golden with "$ROOT/$later/bin/python" -m pytest -p no:cacheprovider tests/spark/test_golden.py "$@"
done
