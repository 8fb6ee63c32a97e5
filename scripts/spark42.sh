#!/usr/bin/env bash
# scripts/spark42.sh [pytest arguments]: what make test-spark42 runs, in .venv-spark42 (scripts/setup.sh spark42):
# tests of tests/spark that go through every kind of stage, under Spark 4.2; then a snapshot that 4.2 has just written is
# restored, and goes on, under the Spark of .venv-spark. Ends at the first part that fails.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

OLD=$ROOT/.venv-spark42/bin/python
NEW=$ROOT/.venv-spark/bin/python
golden=$(mktemp -d)
memory=$(folder_in_memory)
trap 'rm -rf "$golden" "$memory"' EXIT

with() { # a Python, and what it runs
    local archive=${SPARK_SUBMIT_OPTS:-}
    [ "$1" = "$NEW" ] || archive= # it has the newer Spark's classes
    [ -z "$memory" ] || export TMPDIR="$memory" SPARK_LOCAL_DIRS="$memory"
    PYTHONPATH="$ROOT" PYSPARK_PYTHON=$1 PYSPARK_DRIVER_PYTHON=$1 SPARK_SUBMIT_OPTS="$archive $SHORT_LIVED" "$@"
}

echo "== tests/spark (fast, .venv-spark42)"
with "$OLD" -m pytest -p no:cacheprovider -m "not slow" tests/spark/test_restore_by_name.py tests/spark/test_modes.py \
    tests/spark/test_stages.py tests/spark/test_format_v2.py tests/spark/test_golden.py "$@"
echo "== a snapshot of 4.2 restored on the newer Spark"
with "$OLD" -m tests.golden "$golden" rocksdb changelog-v2
STREAMUPDATE_GOLDEN=$golden with "$NEW" -m pytest -p no:cacheprovider tests/spark/test_golden.py "$@"
