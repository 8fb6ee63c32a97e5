#!/usr/bin/env bash
# scripts/audit.sh: look up the locked packages among the known vulnerabilities (pip-audit). Exit code 1: some were found;
# 3: nothing could be looked up, as behind a registry that does not hand on these data.
set -uo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
PIP_AUDIT=2.10.1
found= looked_up=
for lock in requirements/*.txt; do
    told=$(.uv/bin/uv tool run -q "pip-audit==$PIP_AUDIT" --disable-pip --require-hashes -r "$lock" --format json --progress-spinner off 2>/tmp/audit.$$) ||
        [ -n "$told" ] || { cat /tmp/audit.$$ >&2; rm -f /tmp/audit.$$; exit 3; }
    rm -f /tmp/audit.$$
    counts=$(.venv/bin/python -c '
import json, sys
packages = json.load(sys.stdin)["dependencies"]
known = [p for p in packages if "skip_reason" not in p]
bad = [p for p in known if p["vulns"]]
for p in bad:
    print(p["name"], p["version"], ", ".join(v["id"] for v in p["vulns"]), file=sys.stderr)
print(len(packages), len(known), len(bad))' <<<"$told") || exit 3
    read -r packages known bad <<<"$counts"
    echo "audit: $lock: $packages packages, looked up $known, with known vulnerabilities $bad"
    [ "$known" = 0 ] || looked_up=yes
    [ "$bad" = 0 ] || found=yes
done
[ -n "$looked_up" ] || { echo "audit: error: nothing could be looked up: the package registry in use gives no data about vulnerabilities; run this where the public one is reached" >&2; exit 3; }
[ -z "$found" ]
