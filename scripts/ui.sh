#!/usr/bin/env bash
# scripts/ui.sh [pytest arguments]
# The page in a real browser: a real Airflow and a real app, driven with Playwright in an environment of its own
# (.venv-ui, requirements/ui.txt). Playwright's own browsers are not used: Chromium is the system's, installed with apt-get
# where that is possible; where there is none, nothing is tested, and it says so.
#
# Settings: SCREENSHOTS=docs/images   keep the screenshots there
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

has_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
if ! has_chromium >/dev/null && command -v apt-get >/dev/null; then
    sudo=$([ "$(id -u)" = 0 ] || echo "sudo -n")
    echo "ui-test: installing Chromium"
    { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
fi
if ! has_chromium >/dev/null; then
    echo "ui-test: skipped: there is no Chromium, and apt-get cannot install it (install it: chromium, or Chrome)"
    exit 0
fi
if [ ! -f .venv-ui/.stamp ] || ! cmp -s requirements/ui.txt .venv-ui/.stamp; then
    echo "ui-test: making .venv-ui"
    rm -rf .venv-ui
    .venv/bin/python -m venv .venv-ui
    if [ -x .venv/bin/uv ]; then
        .venv/bin/uv pip install -q --python .venv-ui/bin/python -r requirements/ui.txt
    else
        .venv-ui/bin/python -m pip install -q --disable-pip-version-check -r requirements/ui.txt
    fi
    cp requirements/ui.txt .venv-ui/.stamp
fi
if [ -n "${SCREENSHOTS:-}" ]; then
    mkdir -p "$SCREENSHOTS"
    SCREENSHOTS=$(cd "$SCREENSHOTS" && pwd)
    export SCREENSHOTS
fi
exec .venv-ui/bin/python -m pytest tests/ui -p no:cacheprovider -W ignore::pytest.PytestConfigWarning "$@"
