#!/usr/bin/env bash
# Builds the page's front end from its sources with npm, into www/dist, and notes which sources it is of. The result is
# committed, so that nothing else needs npm: run this after a change under plugins/www.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
WWW=$ROOT/airflow_provider_streamupdate/plugins/www
command -v npm >/dev/null 2>&1 || { echo "www: error: npm is missing; install Node.js 20 or newer" >&2; exit 1; }
cd "$WWW"
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules ]; then
    # not `npm ci`: it refuses a lock file without rollup's packages for other platforms, which not every registry has
    npm install --no-audit --no-fund --omit-lockfile-registry-resolved
fi
npm run --silent build
python3 "$ROOT/scripts/www_digest.py" >dist/sources.sha256
echo "www: built $(du -sh dist | cut -f1) into ${WWW#"$ROOT"/}/dist"
