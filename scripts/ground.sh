#!/usr/bin/env bash
# scripts/ground.sh delta|kafka|s3|standalone|yarn [pytest arguments]: what make test-delta and so on run: tests/ground/KIND.py,
# with the parts it needs fetched before, once, into .ground/: jars (requirements/ground.pom.xml) and Python packages
# (requirements/ground-KIND.txt). Where they cannot be fetched it says why, and skips.
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

kind=${1:-}
case $kind in
    delta | kafka | s3 | standalone | yarn) shift ;;
    *) echo "usage: scripts/ground.sh delta|kafka|s3|standalone|yarn [pytest arguments]" >&2; exit 2 ;;
esac
export STREAMUPDATE_GROUND=${STREAMUPDATE_GROUND:-$ROOT/.ground}
parts=$STREAMUPDATE_GROUND/$kind
pom=requirements/ground.pom.xml
packages=requirements/ground-$kind.txt

skip() { # why
    echo "make test-$kind: skipped: $*"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}
fetch_jars() { # profile, folder
    command -v mvn >/dev/null 2>&1 || skip "mvn is not installed, which fetches the jars (Debian: apt-get install maven)"
    mkdir -p "$2"
    mvn -q -B -f $pom -P "$1" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$2" \
        -Dmaven.repo.local="$STREAMUPDATE_GROUND/m2" >"$STREAMUPDATE_GROUND/mvn.log" 2>&1 ||
        skip "its jars cannot be fetched: $(grep -m 1 ERROR "$STREAMUPDATE_GROUND/mvn.log" || tail -n 1 "$STREAMUPDATE_GROUND/mvn.log")"
}
fetch_packages() {
    .venv/bin/python -m pip install -q --disable-pip-version-check --upgrade --target "$parts/python" -r "$packages" ||
        skip "its Python packages cannot be fetched ($packages)"
}

wanted=$({ cat $pom; [ ! -f "$packages" ] || cat "$packages"; } | cksum)
if [ "$(cat "$parts/.stamp" 2>/dev/null || true)" != "$wanted" ]; then
    rm -rf "$parts"
    if grep -q "<id>$kind</id>" $pom; then fetch_jars "$kind" "$parts"; fi
    if grep -q "<id>$kind-broker</id>" $pom; then fetch_jars "$kind-broker" "$parts/broker"; fi
    if [ -f "$packages" ]; then fetch_packages; fi
    mkdir -p "$parts"
    echo "$wanted" >"$parts/.stamp"
fi
[ ! -d "$parts/python" ] || export PYTHONPATH=$parts/python:$ROOT

case $kind in
    delta | kafka) # are there for Spark 4.2 only
        if [ -z "${STREAMUPDATE_SPARK_SUBMIT:-}" ]; then
            scripts/setup.sh spark42
            export STREAMUPDATE_SPARK_SUBMIT=$ROOT/.venv-spark42/bin/spark-submit
        fi
        ;;
esac
exec .venv/bin/python -m pytest -p no:cacheprovider -s "tests/ground/$kind.py" "$@"
