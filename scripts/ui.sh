#!/usr/bin/env bash
# scripts/ui.sh [pytest arguments]
# The page in a real browser: a real Airflow and a real app, driven with Playwright in an environment of its own
# (scripts/ui_env.sh makes it, and looks for Chromium); where there is none, nothing is tested, and it says so.
#
# Settings: SCREENSHOTS=docs/images   keep the screenshots there
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

code=0
scripts/ui_env.sh >/dev/null || code=$?
if [ "$code" = 3 ]; then
    exec scripts/skipped.sh ui-test "there is no Chromium, and apt-get cannot install it (install it: chromium, or Chrome)" tests/ui
fi
[ "$code" = 0 ] || exit "$code"
if [ -n "${SCREENSHOTS:-}" ]; then
    mkdir -p "$SCREENSHOTS"
    SCREENSHOTS=$(cd "$SCREENSHOTS" && pwd)
    export SCREENSHOTS
fi
exec .venv-ui/bin/python -m pytest tests/ui -p no:cacheprovider -W ignore::pytest.PytestConfigWarning "$@"
