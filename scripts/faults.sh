#!/usr/bin/env bash
# scripts/faults.sh [pytest arguments]: the fault suites of tests/faults, each fault made for real where this machine lets it.
# The last lines say what each test counted and how many faults there were; what needs root or Linux is skipped with its
# reason.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

exec .venv/bin/python -m pytest tests/faults -p no:cacheprovider -rsP -q "$@"
