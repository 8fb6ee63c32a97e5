#!/usr/bin/env bash
# ruff check, ruff format --check, mypy: all three run, and it fails when one does.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
failed=
.venv/bin/ruff check . || failed="$failed ruff-check"
.venv/bin/ruff format --check . || failed="$failed ruff-format"
.venv/bin/mypy || failed="$failed mypy"
[ -z "$failed" ] || { echo "lint: failed:$failed    (make format puts right what it can)" >&2; exit 1; }
