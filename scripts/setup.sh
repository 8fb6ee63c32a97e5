#!/usr/bin/env bash
# scripts/setup.sh [spark41 | spark42 | ... | flink | docs]
# Builds the Python environments with uv and finds Java. Run it as often as you like: it does only what is missing.
#
#   .uv            uv itself
#   .venv          Airflow, this package (editable), test and lint tools   requirements/airflow.txt
#   .venv-spark    PySpark and what its workers need, nothing of ours      requirements/spark.txt
#   .venv-spark41  the same with an older PySpark, when asked for          requirements/spark41.txt, and so on
#   .venv-flink    Flink for the benchmarks, when asked for                requirements/flink.txt
#   .venv-docs     the documentation site's tools, when asked for; then it alone, and no Java   requirements/docs.txt
#
# Airflow and Spark stay apart because the Spark provider requires pyspark-client, which installs the same pyspark/ files
# as pyspark at another version.
#
# Settings: STREAMUPDATE_PYTHON  the Python to build them with, as `uv venv --python` takes it (3.12, /path/to/python)
#           JAVA_HOME            the Java for Spark (17 or newer)
# Works with bash 3.2 (macOS).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/setup/system.sh
. scripts/setup/lock.sh
. scripts/setup/java.sh
. scripts/setup/classes.sh

UV_VERSION=0.13.8
UV=$ROOT/.uv/bin/uv
PYTHONS=">=3.11,<3.14" # PySpark 4.3 needs 3.11; setup.cfg has the upper bound
LOCKS=$ROOT/.setup.locks
export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}"

case ${1:-} in
    "" | spark) ENVIRONMENTS=".venv .venv-spark" ;;
    docs) ENVIRONMENTS=.venv-docs ;;
    flink | spark[0-9]*)
        [ -f "requirements/$1.txt" ] || die "there is no environment $1" "there are $(echo requirements/*.txt)" "name one"
        ENVIRONMENTS=".venv .venv-spark .venv-$1"
        ;;
    *) die "there is no environment $1" "the argument is flink, docs or an older Spark's (spark42), or none" ;;
esac

# --- environments --------------------------------------------------------------------------------------------

requirements() { # environment: its lock
    case $1 in
        .venv) echo requirements/airflow.txt ;;
        *) echo "requirements/${1#.venv-}.txt" ;;
    esac
}
stamp() { # environment: what its stamp says when it is made of what is here
    local made_of
    made_of="$(requirements "$1") scripts/setup.sh"
    [ "$1" != .venv ] || made_of="$made_of setup.cfg pyproject.toml"
    # shellcheck disable=SC2086
    echo "$(cat $made_of | cksum | tr -d ' ') $ROOT"
}
fresh() { # environment
    [ -x "$1/bin/python" ] && [ "$(cat "$1/.stamp" 2>/dev/null || true)" = "$(stamp "$1")" ] || return 1
    [ -z "${STREAMUPDATE_PYTHON:-}" ] || [ "$(cat "$1/.python" 2>/dev/null || true)" = "$STREAMUPDATE_PYTHON" ]
}
all_fresh() {
    local environment
    for environment in $ENVIRONMENTS; do
        fresh "$environment" || return 1
    done
    [ "$ENVIRONMENTS" = .venv-docs ] || { java_known .venv-spark/java_home && classes_known .venv-spark; }
}
need_uv() {
    local python
    [ "$("$UV" --version 2>/dev/null | cut -d' ' -f2)" != "$UV_VERSION" ] || return 0
    python=$(need_python)
    say "installing uv $UV_VERSION into .uv"
    rm -rf .uv
    "$python" -m venv .uv && .uv/bin/python -m pip install -q --disable-pip-version-check "uv==$UV_VERSION" || die \
        "uv cannot be installed" "see the lines above" \
        "check the network and your pip settings (pip config list), then run this again"
}
supported() { # python
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))'
}
find_python() { # prints the Python to build with; uv fetches one where the machine has none
    local asked=${STREAMUPDATE_PYTHON:-$PYTHONS} advice
    advice="$(how_to_install python3.11 python@3.12); or set STREAMUPDATE_PYTHON to a Python that is $PYTHONS"
    "$UV" python find --system "$asked" 2>/dev/null || { "$UV" python install -q "$asked" && "$UV" python find --system "$asked"; } ||
        die "there is no Python $asked" "see the lines above" "$advice"
}
make_environment() { # environment
    local started=$SECONDS lock python
    lock=$(requirements "$1")
    need_uv
    python=$(find_python)
    supported "$python" || die "STREAMUPDATE_PYTHON=$STREAMUPDATE_PYTHON cannot be used" \
        "it is $("$python" -V 2>&1); needed: $PYTHONS" "set it to such a Python, or unset it"
    say "making $1 from $lock with $python"
    rm -rf "$1"
    "$UV" venv -q --python "$python" "$1" || die "uv cannot make $1" "see the lines above" \
        "check the free space, and that $ROOT is writable"
    "$UV" pip sync -q --require-hashes --python "$1/bin/python" "$lock" || die "uv cannot install $lock" "see the lines above" \
        "check the network and uv's settings for indexes and proxies, then run this again"
    if [ "$1" = .venv ]; then
        "$UV" pip install -q --python .venv/bin/python --no-deps --no-build-isolation -e . ||
            die "this package cannot be installed into .venv" "see the lines above" "check setup.cfg"
    fi
    printf '%s' "${STREAMUPDATE_PYTHON:-}" >"$1/.python"
    stamp "$1" >"$1/.stamp"
    say "$1 is ready ($((SECONDS - started)) s)"
}

# --- at work -------------------------------------------------------------------------------------------------

all_fresh && exit 0

[ -w "$ROOT" ] || die "$ROOT is not writable" "the environments are made in it" "use a folder you may write to"
trap release_lock EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
take_lock # a second setup waits here, then finds everything done

for environment in $ENVIRONMENTS; do
    fresh "$environment" || make_environment "$environment"
done
if [ "$ENVIRONMENTS" != .venv-docs ]; then
    java_known .venv-spark/java_home || need_java .venv-spark/java_home
    classes_known .venv-spark || make_classes .venv-spark
fi
say "ready"
