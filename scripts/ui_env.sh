#!/usr/bin/env bash
# scripts/ui_env.sh
# What drives the page in a real browser: Chromium, the system's, installed with apt-get where that is possible
# (Playwright's own browsers are not used), and .venv-ui with Playwright (requirements/ui.txt). Prints Chromium's path;
# exit code 3 when there is none.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

has_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
if ! has_chromium >/dev/null && command -v apt-get >/dev/null; then
    sudo=$([ "$(id -u)" = 0 ] || echo "sudo -n")
    echo "ui: installing Chromium" >&2
    { $sudo apt-get update -qq && $sudo apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true
fi
if ! has_chromium >/dev/null; then
    echo "there is no Chromium, and apt-get cannot install it (install it: chromium, or Chrome)" >&2
    exit 3
fi
if [ ! -f .venv-ui/.stamp ] || ! cmp -s requirements/ui.txt .venv-ui/.stamp; then
    echo "ui: making .venv-ui" >&2
    rm -rf .venv-ui
    .uv/bin/uv venv -q --python .venv/bin/python .venv-ui
    .uv/bin/uv pip sync -q --require-hashes --python .venv-ui/bin/python requirements/ui.txt >&2
    cp requirements/ui.txt .venv-ui/.stamp
fi
has_chromium
