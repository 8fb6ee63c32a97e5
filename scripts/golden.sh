#!/usr/bin/env bash
# scripts/golden.sh [STORE ...]: writes the golden checkpoints (tests/golden) of every Spark version anew.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh
for lock in requirements/spark*.txt; do
    name=$(basename "$lock" .txt)
    scripts/setup.sh "$name"
    python=$ROOT/.venv-$name/bin/python
    PYTHONPATH="$ROOT" PYSPARK_PYTHON="$python" PYSPARK_DRIVER_PYTHON="$python" \
        "$python" -m tests.golden tests/data/golden "$@"
done
