#!/usr/bin/env bash
# scripts/faults.sh [pytest arguments]: the faults under tests/faults, the slow ones too. Some need root on Linux (a file
# system of their own) and are skipped elsewhere, with the reason.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh
exec .venv/bin/python -m pytest -p no:cacheprovider -rs -s tests/faults "$@"
