#!/usr/bin/env bash
# scripts/bench.sh KIND [arguments]: one of the benchmarks, each of which prints a table (docs/benchmarks.md).
set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh

kind=${1:-}
[ $# -eq 0 ] || shift
case $kind in
    state) exec .venv-spark/bin/python benchmarks/state.py "$@" ;;
    pause | snapshot) scripts/setup.sh flink && exec .venv/bin/python "benchmarks/$kind.py" "$@" ;;
    failover) exec .venv/bin/python benchmarks/failover.py "$@" ;;
    list) exec .venv/bin/python benchmarks/listing.py "$@" ;;
    stores) exec scripts/ground.sh s3 -- .venv/bin/python benchmarks/stores.py "$@" ;;
    *) echo "usage: make bench KIND=state|pause|failover|stores|snapshot|list [ARGS=...]" >&2; exit 2 ;;
esac
