#!/usr/bin/env bash
# Resolves requirements/*.in into the pinned requirements/*.txt, for every supported Python and platform.
#   scripts/lock.sh             keep what still fits
#   scripts/lock.sh --upgrade   take the newest versions that fit
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
[ -x .venv/bin/uv ] || { echo "lock: error: .venv has no uv; run: make setup" >&2; exit 1; }
for name in airflow spark spark42 flink ui docs; do
    echo "lock: requirements/$name.txt"
    more=$([ $name != flink ] || echo --no-deps)
    .venv/bin/uv pip compile -q --universal --python-version 3.11 --no-header --no-emit-index-url \
        --no-emit-find-links $more "$@" "requirements/$name.in" -o "requirements/$name.txt"
done
