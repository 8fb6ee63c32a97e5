#!/usr/bin/env bash
# Resolves requirements/*.in into the pinned requirements/*.txt, with hashes, for every supported Python and platform.
#   scripts/lock.sh             keep what still fits
#   scripts/lock.sh --upgrade   take the newest versions that fit
#   scripts/lock.sh jars        the checksums of the jars that requirements/ground.pom.xml names, into ground.sha256
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
[ -x .uv/bin/uv ] || { echo "lock: error: there is no uv; run: make setup" >&2; exit 1; }

if [ "${1:-}" = jars ]; then
    command -v mvn >/dev/null || { echo "lock: error: mvn is not installed (Debian: apt-get install maven)" >&2; exit 1; }
    jars=$(mktemp -d)
    trap 'rm -rf "$jars"' EXIT
    for platform in linux-amd64 linux-arm64v8 darwin-amd64 darwin-arm64v8; do # PostgreSQL's archives
        for profile in $(sed -n 's#.*<id>\(.*\)</id>.*#\1#p' requirements/ground.pom.xml); do
            echo "lock: the jars of $profile for $platform"
            mvn -q -B -f requirements/ground.pom.xml -P "$profile" dependency:copy-dependencies -DincludeScope=runtime \
                -DoutputDirectory="$jars" -Dmaven.repo.local="${STREAMUPDATE_GROUND:-$ROOT/.ground}/m2" -Dpostgres.platform="$platform"
        done
    done
    rm -f requirements/ground.sha256
    exec .venv/bin/python scripts/locked_jars.py "$jars" requirements/ground.sha256 --write
fi

for name in airflow $(basename -s .in requirements/spark.in requirements/spark[0-9]*.in) flink ui docs ground-kafka ground-postgres ground-s3 ground-k8s; do
    echo "lock: requirements/$name.txt"
    more=$([ $name != flink ] || echo --no-deps)
    # shellcheck disable=SC2086
    .uv/bin/uv pip compile -q --generate-hashes --universal --python-version 3.11 --no-header --no-emit-index-url \
        --no-emit-find-links $more "$@" "requirements/$name.in" -o "requirements/$name.txt"
done
