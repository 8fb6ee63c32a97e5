#!/usr/bin/env bash
# scripts/docs.sh [serve]: builds docs/ into site/, or shows it while you write, with .venv-docs (scripts/setup.sh docs).
# A warning (a link or an anchor that leads nowhere, a name the reference does not find) is an error.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
[ -x .venv-docs/bin/python ] || { echo "docs: error: there is no .venv-docs; run: make docs" >&2; exit 1; }
export NO_MKDOCS_2_WARNING=1 # MkDocs is held below 2 (requirements/docs.in)
.venv-docs/bin/python -m mkdocs "${1:-build}" --strict
[ -n "${1:-}" ] || echo "docs: open $ROOT/site/index.html"
