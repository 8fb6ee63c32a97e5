#!/usr/bin/env bash
# scripts/ground.sh delta|iceberg|kafka|s3|standalone|postgres|yarn|k8s|prometheus|otel [pytest arguments | -- command]: what
# make ground KIND=... runs: tests/ground/KIND.py (of tables: tables.py, table_source.py), with the parts it needs fetched
# before, once, into .ground/: jars (requirements/ground.pom.xml) and Python packages (requirements/ground-KIND.txt). Where
# they cannot be fetched it says why, and skips. With `--` the command runs instead, with the same parts; of s3 these are
# then an S3 server in Go, too.
#
# Settings: SPARK=40|41|42                of delta and iceberg; default: the newest that there is a release for
#           STREAMUPDATE_POSTGRES=FOLDER  where initdb and postgres are; default: the machine's own. When it has none, or
#                                         this is set to nothing: fetched
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

kind=${1:-}
case $kind in
    delta | iceberg | kafka | s3 | standalone | postgres | yarn | k8s | prometheus | otel) shift ;;
    *) echo "usage: scripts/ground.sh delta|iceberg|kafka|s3|standalone|postgres|yarn|k8s|prometheus|otel [pytest arguments]" >&2; exit 2 ;;
esac
export STREAMUPDATE_GROUND=${STREAMUPDATE_GROUND:-$ROOT/.ground}
parts=$STREAMUPDATE_GROUND/$kind
pom=requirements/ground.pom.xml
KUBERNETES=v1.37.2 KINE=v0.17.5 COLLECTOR=v0.165.0
packages=requirements/ground-$kind.txt
tests=tests/ground/$kind.py spark=42
case $kind in
    delta | iceberg) export STREAMUPDATE_TABLES=$kind tests="tests/ground/tables.py tests/ground/table_source.py" ;;
    k8s) tests="$tests tests/clusters/test_kubernetes_api.py" ;; # which needs the library
esac
[ "$kind" != iceberg ] || spark=41

skip() { # why
    exec scripts/skipped.sh "ground KIND=$kind" "$*" "${tests%% *}"
}
platform() { # as PostgreSQL's archives are called
    echo "$(uname -s)-$(uname -m)" | tr '[:upper:]' '[:lower:]' |
        sed -e 's/-x86_64$/-amd64/' -e 's/-aarch64$/-arm64v8/' -e 's/-arm64$/-arm64v8/'
}
fetch_gateway() { # a fast S3 server, and a proxy that makes it slow, once
    [ ! -x "$parts/bin/versitygw" ] || [ ! -x "$parts/bin/toxiproxy" ] || return 0
    command -v go >/dev/null 2>&1 || skip "go is not installed, which builds the S3 server (Debian: apt-get install golang)"
    GOBIN=$parts/bin GOFLAGS=-trimpath go install github.com/versity/versitygw/cmd/versitygw@v1.8.0 \
        >"$STREAMUPDATE_GROUND/go.log" 2>&1 || skip "the S3 server cannot be built: $(tail -n 1 "$STREAMUPDATE_GROUND/go.log")"
    GOBIN=$parts/bin GOFLAGS=-trimpath go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0 \
        >"$STREAMUPDATE_GROUND/go.log" 2>&1 || skip "the proxy cannot be built: $(tail -n 1 "$STREAMUPDATE_GROUND/go.log")"
    mv "$parts/bin/server" "$parts/bin/toxiproxy"
}
fetch_kube() { # kube-apiserver and kine, once: from Go modules, 12 minutes of two cores
    [ ! -x "$parts/bin/kube-apiserver" ] || return 0
    command -v go >/dev/null 2>&1 || skip "go is not installed, which builds the API server (Debian: apt-get install golang)"
    local log=$STREAMUPDATE_GROUND/go.log
    GOBIN=$parts/bin CGO_ENABLED=1 go install "github.com/k3s-io/kine@$KINE" >"$log" 2>&1 ||
        skip "kine cannot be built: $(tail -n 1 "$log")"
    .venv/bin/python scripts/kube_module.py "$parts/build" "$KUBERNETES" >"$log" 2>&1 ||
        skip "the modules of kube-apiserver cannot be fetched: $(tail -n 1 "$log")"
    (cd "$parts/build" && go build -trimpath -ldflags='-s -w' -o "$parts/build/made" k8s.io/kubernetes/cmd/kube-apiserver) \
        >"$log" 2>&1 || skip "kube-apiserver cannot be built: $(tail -n 1 "$log")"
    mv "$parts/build/made" "$parts/bin/kube-apiserver" # whole, or not there
    rm -rf "$parts/build"
}
fetch_collector() { # a small OpenTelemetry Collector, once: from Go modules, 3 minutes of two cores
    [ ! -x "$parts/bin/otelcol" ] || return 0
    command -v go >/dev/null 2>&1 || skip "go is not installed, which builds the collector (Debian: apt-get install golang)"
    local log=$STREAMUPDATE_GROUND/go.log
    GOBIN=$parts/bin GOFLAGS=-trimpath go install "go.opentelemetry.io/collector/cmd/builder@$COLLECTOR" >"$log" 2>&1 ||
        skip "the collector's builder cannot be built: $(tail -n 1 "$log")"
    (cd "$parts" && bin/builder --config "$ROOT/requirements/ground-otel.yaml" --skip-compilation && cd build &&
        CGO_ENABLED=0 GOFLAGS=-mod=mod go build -trimpath -ldflags='-s -w' -o ../made .) >"$log" 2>&1 ||
        skip "the collector cannot be built: $(tail -n 1 "$log")"
    mv "$parts/made" "$parts/bin/otelcol" # whole, or not there
    rm -rf "$parts/build"
}
fetch_prometheus() { # where the machine has none: Debian's package, unpacked
    local log=$STREAMUPDATE_GROUND/apt.log
    [ ! -x "$parts/usr/bin/promtool" ] || return 0
    ! { command -v prometheus && command -v promtool; } >/dev/null 2>&1 || return 0
    command -v apt-get >/dev/null 2>&1 || skip "there is no prometheus (install it), and no apt-get to fetch it"
    { (cd "$parts" && apt-get download prometheus) && dpkg -x "$parts"/prometheus_*.deb "$parts"; } >"$log" 2>&1 ||
        skip "prometheus cannot be fetched: $(tail -n 1 "$log")"
}
find_postgres() { # the folder of its programs: on PATH, or where Debian has them, the newest
    local program found=
    for program in /usr/lib/postgresql/*/bin/initdb "$(command -v initdb || true)"; do
        [ ! -x "${program%/*}/postgres" ] || found=${program%/*}
    done
    echo "$found"
}
fetch_jars() { # profile, folder
    command -v mvn >/dev/null 2>&1 || skip "mvn is not installed, which fetches the jars (Debian: apt-get install maven)"
    mkdir -p "$2"
    mvn -q -B -f $pom -P "$1" dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="$2" \
        -Dmaven.repo.local="$STREAMUPDATE_GROUND/m2" -Dpostgres.platform="$(platform)" \
        >"$STREAMUPDATE_GROUND/mvn.log" 2>&1 ||
        skip "its jars cannot be fetched: $(grep -m 1 ERROR "$STREAMUPDATE_GROUND/mvn.log" || tail -n 1 "$STREAMUPDATE_GROUND/mvn.log")"
    check_jars "$2"
}
check_jars() { # folder: each jar is the one that was locked
    if ! .venv/bin/python scripts/locked_jars.py "$1" requirements/ground.sha256; then
        rm -rf "$1" # so that the next run fetches them again
        exit 1
    fi
}
fetch_packages() {
    .uv/bin/uv pip install -q --require-hashes --python .venv/bin/python --target "$parts/python" -r "$packages" ||
        skip "its Python packages cannot be fetched ($packages)"
}

if [ "$kind" = postgres ]; then
    export STREAMUPDATE_POSTGRES=${STREAMUPDATE_POSTGRES-$(find_postgres)}
fi
wanted=$({ echo "${STREAMUPDATE_POSTGRES:+its own}"; cat $pom; [ ! -f "$packages" ] || cat "$packages"; } | cksum)
if [ "$(cat "$parts/.stamp" 2>/dev/null || true)" != "$wanted" ]; then
    rm -rf "$parts"
    if grep -q "<id>$kind</id>" $pom; then fetch_jars "$kind" "$parts"; fi
    if grep -q "<id>$kind-broker</id>" $pom; then fetch_jars "$kind-broker" "$parts/broker"; fi
    if [ "$kind${STREAMUPDATE_POSTGRES:-}" = postgres ]; then fetch_jars postgres-server "$parts/server"; fi
    if [ -f "$packages" ]; then fetch_packages; fi
    mkdir -p "$parts"
    echo "$wanted" >"$parts/.stamp"
fi
[ "$kind" != k8s ] || fetch_kube
[ "$kind" != prometheus ] || fetch_prometheus
[ "$kind" != otel ] || fetch_collector
[ ! -d "$parts/python" ] || export PYTHONPATH=$parts/python:$ROOT

case $kind in
    delta | iceberg | kafka) # are not there for Spark 4.3
        if [ -z "${STREAMUPDATE_SPARK_SUBMIT:-}" ]; then
            spark=${SPARK:-$spark}
            scripts/setup.sh "spark$spark"
            export STREAMUPDATE_SPARK_SUBMIT=$ROOT/.venv-spark$spark/bin/spark-submit
        fi
        ;;
esac
if [ "${1:-}" = -- ]; then
    shift
    [ "$kind" != s3 ] || fetch_gateway
    exec "$@"
fi
# shellcheck disable=SC2086
exec .venv/bin/python -m pytest -p no:cacheprovider -s $tests "$@"
