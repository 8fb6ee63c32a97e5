#!/usr/bin/env bash
# scripts/setup.sh [spark42 | flink | docs]
# Builds the two Python environments and finds Java. Run it as often as you like: it does only what is missing.
#
#   .venv        Airflow, this package (editable), test and lint tools     requirements/airflow.txt
#   .venv-spark  PySpark and what its workers need, nothing of ours        requirements/spark.txt
#   .venv-spark42  the same with an older PySpark, when asked for   requirements/spark42.txt
#   .venv-flink    Flink for the benchmarks, when asked for         requirements/flink.txt
#   .venv-docs   what builds the documentation site, when asked for; then it alone, and no Java   requirements/docs.txt
#
# They stay apart because the Spark provider requires pyspark-client, which installs the same pyspark/ files as
# pyspark at another version.
#
# Settings: STREAMUPDATE_PYTHON=/path/to/python  the Python to build both with
#           JAVA_HOME                            the Java for Spark (17 or newer)
# Works with bash 3.2 (macOS).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"

UV_VERSION=0.13.8
PYTHONS="3.11 3.12 3.13"
JAVA_MIN=17
AIRFLOW_ENV=$ROOT/.venv
SPARK_ENV=$ROOT/.venv-spark
SPARK42_ENV=$ROOT/.venv-spark42
FLINK_ENV=$ROOT/.venv-flink
DOCS_ENV=$ROOT/.venv-docs
WITH_SPARK42=$([ "${1:-}" = spark42 ] && echo yes || true)
WITH_FLINK=$([ "${1:-}" = flink ] && echo yes || true)
ONLY_DOCS=$([ "${1:-}" = docs ] && echo yes || true)
LOCK_DIR=$ROOT/.setup.lock
APT_UPDATED=

say() { printf 'setup: %s\n' "$*"; }
die() { # what, why, next step
    printf 'setup: error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  reason: %s\n' "$2" >&2
    [ $# -lt 3 ] || printf '  next:   %s\n' "$3" >&2
    exit 1
}
is_macos() { [ "$(uname -s)" = Darwin ]; }

# --- installing system packages ------------------------------------------------------------------------------

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
can_apt() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null 2>&1 && sudo -n true >/dev/null 2>&1; }
}
apt_install() { # packages: true when all were installed
    can_apt || return 1
    if [ -z "$APT_UPDATED" ]; then
        say "apt-get update"
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || say "apt-get update failed, trying with the old lists"
        APT_UPDATED=1
    fi
    say "apt-get install $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2
}
how_to_install() { # apt packages, brew formula: one line of advice
    if command -v apt-get >/dev/null 2>&1; then
        echo "run: sudo apt-get update && sudo apt-get install -y $1    then run this again"
    elif is_macos; then
        if command -v brew >/dev/null 2>&1; then
            echo "run: brew install $2    then run this again"
        else
            echo "install Homebrew, run: brew install $2    then run this again"
        fi
    else
        echo "install it with your system's package manager ($1 on Debian), then run this again"
    fi
}

# --- Python --------------------------------------------------------------------------------------------------

# Prints "X.Y /real/path" when the command is a Python of a supported version.
probe_python() {
    local out v
    out=$("$1" -c 'import sys; print("%d.%d %s" % (sys.version_info[0], sys.version_info[1],
        getattr(sys, "_base_executable", "") or sys.executable))' 2>/dev/null) || return 1
    for v in $PYTHONS; do
        [ "${out%% *}" != "$v" ] || { echo "$out"; return 0; }
    done
    return 1
}
version_of() { # python: X.Y, nothing when it is none of the supported
    local out
    out=$(probe_python "$1") || return 0
    echo "${out%% *}"
}
find_python() {
    local v c
    if [ -n "${STREAMUPDATE_PYTHON:-}" ]; then
        probe_python "$STREAMUPDATE_PYTHON" && return 0
        die "STREAMUPDATE_PYTHON=$STREAMUPDATE_PYTHON cannot be used" \
            "it is $("$STREAMUPDATE_PYTHON" -V 2>&1 | head -n 1 || true) (needed: one of $PYTHONS; PySpark 4.3 needs 3.11 or newer)" \
            "set it to a Python of one of these versions, or unset it"
    fi
    for v in $PYTHONS; do
        for c in "python$v" "/opt/homebrew/bin/python$v" "/usr/local/bin/python$v" "/usr/bin/python$v"; do
            probe_python "$c" && return 0
        done
    done
    for c in python3 python; do
        probe_python "$c" && return 0
    done
    return 1
}
need_python() { # sets PY (path) and PYV (X.Y)
    local found
    if ! found=$(find_python); then
        [ -z "${STREAMUPDATE_PYTHON:-}" ] || exit 1
        say "no Python of $PYTHONS found"
        if can_apt; then
            apt_install python3 python3-venv || true
        elif is_macos && command -v brew >/dev/null 2>&1; then
            brew install python@3.12 || true
        fi
        found=$(find_python) || die "no usable Python" \
            "none of $PYTHONS is on PATH (python3 is: $(python3 -V 2>&1 || echo absent))" \
            "$(how_to_install "python3.11 python3.11-venv" python@3.12); or set STREAMUPDATE_PYTHON"
    fi
    PYV=${found%% *}
    PY=${found#* }
    if ! "$PY" -c 'import ensurepip, venv' >/dev/null 2>&1; then
        say "$PY has no venv module"
        apt_install "python$PYV-venv" || apt_install python3-venv || true
        "$PY" -c 'import ensurepip, venv' >/dev/null 2>&1 || die "$PY cannot make environments" \
            "its modules venv and ensurepip are missing (Debian packages them apart)" \
            "$(how_to_install "python$PYV-venv" "python@$PYV")"
    fi
}

# --- Java ----------------------------------------------------------------------------------------------------

# Major version of a java command: 17 for "17.0.15", 8 for "1.8.0_392", nothing when it does not run.
java_major() {
    local v
    v=$("$1" -version 2>&1 </dev/null | sed -n 's/.*version "\([^"]*\)".*/\1/p' | head -n 1) || return 0
    case $v in
        1.*) v=${v#1.} ;;
    esac
    v=${v%%[!0-9]*}
    echo "$v"
}
java_fits() { # home
    local v
    [ -x "$1/bin/java" ] || return 1
    v=$(java_major "$1/bin/java")
    [ -n "$v" ] && [ "$v" -ge "$JAVA_MIN" ]
}
find_java() { # prints a Java home
    local c home
    if [ -n "${JAVA_HOME:-}" ] && java_fits "$JAVA_HOME"; then
        echo "$JAVA_HOME"
        return 0
    fi
    if c=$(command -v java); then
        # asks Java itself: links and shims (jenv, asdf, the macOS stub) do not lead to its home
        home=$("$c" -XshowSettings:properties -version 2>&1 </dev/null | sed -n 's/^ *java\.home = //p' | head -n 1) || home=
        if [ -n "$home" ] && java_fits "$home"; then
            echo "$home"
            return 0
        fi
    fi
    if [ -x /usr/libexec/java_home ]; then
        home=$(/usr/libexec/java_home -v "$JAVA_MIN+" 2>/dev/null) || home=
        if [ -n "$home" ] && java_fits "$home"; then
            echo "$home"
            return 0
        fi
    fi
    for home in /usr/lib/jvm/*17* /usr/lib/jvm/*21* /usr/lib/jvm/default-java \
        /opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home \
        /usr/local/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home; do
        if java_fits "$home"; then
            echo "$home"
            return 0
        fi
    done
    return 1
}
need_java() {
    local home found
    if ! home=$(find_java); then
        found="java is $(java -version 2>&1 </dev/null | head -n 1 || true), JAVA_HOME is ${JAVA_HOME:-not set}"
        command -v java >/dev/null 2>&1 || found="there is no java on PATH, JAVA_HOME is ${JAVA_HOME:-not set}"
        say "no Java $JAVA_MIN or newer: $found"
        if can_apt; then
            apt_install openjdk-17-jre-headless || apt_install default-jre-headless || true
        elif is_macos && command -v brew >/dev/null 2>&1; then
            brew install openjdk@17 || true
        fi
        home=$(find_java) || die "no Java $JAVA_MIN or newer" "$found; Spark 4.3 needs $JAVA_MIN" \
            "$(how_to_install openjdk-17-jre-headless openjdk@17); or set JAVA_HOME to one you have"
    fi
    if [ -n "${JAVA_HOME:-}" ] && [ "$home" != "$JAVA_HOME" ]; then
        say "JAVA_HOME=$JAVA_HOME is not Java $JAVA_MIN or newer; using $home"
    fi
    printf '%s\n' "$home" >"$SPARK_ENV/java_home"
    say "Java: $home"
}
java_known() { # the remembered Java is still there, and the user asks for no other
    local home
    [ -s "$SPARK_ENV/java_home" ] || return 1
    home=$(cat "$SPARK_ENV/java_home")
    [ -x "$home/bin/java" ] || return 1
    [ -z "${JAVA_HOME:-}" ] || [ "$JAVA_HOME" = "$home" ] || ! java_fits "$JAVA_HOME"
}

# --- environments --------------------------------------------------------------------------------------------

checksum() { cat "$@" scripts/setup.sh | cksum | tr -d ' \n'; }
stamp_of() { # environment: what its stamp must say
    case $1 in
        "$AIRFLOW_ENV") echo "$(checksum requirements/airflow.txt setup.cfg pyproject.toml) $ROOT" ;;
        "$SPARK_ENV") echo "$(checksum requirements/spark.txt) $ROOT" ;;
        "$SPARK42_ENV") echo "$(checksum requirements/spark42.txt) $ROOT" ;;
        "$FLINK_ENV") echo "$(checksum requirements/flink.txt) $ROOT" ;;
        "$DOCS_ENV") echo "$(checksum requirements/docs.txt) $ROOT" ;;
    esac
}
fresh() { # environment
    [ -x "$1/bin/python" ] && [ -f "$1/.stamp" ] && [ "$(cat "$1/.stamp")" = "$(stamp_of "$1")" ] || return 1
    # another Python was asked for
    [ -z "${STREAMUPDATE_PYTHON:-}" ] || [ "$(version_of "$STREAMUPDATE_PYTHON")" = "$(version_of "$1/bin/python")" ]
}
make_env() { # environment
    local built
    need_python
    rm -f "$1/.stamp"
    built=$(cat "$1/.root" 2>/dev/null || true)
    if [ "$built" != "$ROOT $PYV" ] || ! "$1/bin/python" -m pip --version >/dev/null 2>&1; then
        say "making ${1#"$ROOT"/} with Python $PYV ($PY)"
        rm -rf "$1"
        "$PY" -m venv "$1" || die "making $1 failed" "see the lines above" "check the free space and that the folder is writable"
        printf '%s\n' "$ROOT $PYV" >"$1/.root"
    fi
}
need_uv() { # sets UV; empty when it cannot be had, then pip does its work
    UV=$AIRFLOW_ENV/bin/uv
    if [ "$("$UV" --version 2>/dev/null | cut -d' ' -f2)" != "$UV_VERSION" ]; then
        "$AIRFLOW_ENV/bin/python" -m pip install -q --disable-pip-version-check "uv==$UV_VERSION" ||
            { say "uv cannot be installed; pip is used, which is slower"; UV=; }
    fi
}
install_lock() { # environment, lock
    export UV_HTTP_TIMEOUT="${UV_HTTP_TIMEOUT:-180}"
    say "installing $2 into ${1#"$ROOT"/}"
    # sync also removes what the lock no longer holds
    if [ -n "$UV" ] && "$UV" pip sync -q --python "$1/bin/python" "$2"; then return 0; fi
    [ -z "$UV" ] || say "uv failed (see above), trying pip"
    "$1/bin/python" -m pip install -q --disable-pip-version-check --no-deps -r "$2" || die "installing $2 failed" \
        "see the lines above" "check the network and your pip settings (pip config list), then run this again"
}
setup_airflow_env() {
    local started=$SECONDS
    make_env "$AIRFLOW_ENV"
    need_uv
    install_lock "$AIRFLOW_ENV" requirements/airflow.txt
    if [ -n "$UV" ] && "$UV" pip install -q --python "$AIRFLOW_ENV/bin/python" --no-deps --no-build-isolation -e .; then
        :
    else
        "$AIRFLOW_ENV/bin/python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . ||
            die "installing this package into .venv failed" "see the lines above" "check setup.cfg"
    fi
    stamp_of "$AIRFLOW_ENV" >"$AIRFLOW_ENV/.stamp"
    say "Airflow environment ready (.venv, $((SECONDS - started)) s)"
}
setup_spark_env() { # environment, lock
    local started=$SECONDS home
    home=$(cat "$1/java_home" 2>/dev/null || true)
    make_env "$1"
    need_uv
    install_lock "$1" "$2"
    [ -z "$home" ] || printf '%s\n' "$home" >"$1/java_home"
    stamp_of "$1" >"$1/.stamp"
    say "Spark environment ready (${1#"$ROOT"/}, $((SECONDS - started)) s)"
}
setup_flink_env() {
    make_env "$FLINK_ENV"
    need_uv
    install_lock "$FLINK_ENV" requirements/flink.txt
    stamp_of "$FLINK_ENV" >"$FLINK_ENV/.stamp"
    say "Flink environment ready (.venv-flink)"
}
setup_docs_env() {
    local started=$SECONDS
    make_env "$DOCS_ENV"
    UV=$AIRFLOW_ENV/bin/uv # that environment is not made for this: without it pip does the work
    [ -x "$UV" ] || UV=
    install_lock "$DOCS_ENV" requirements/docs.txt
    stamp_of "$DOCS_ENV" >"$DOCS_ENV/.stamp"
    say "documentation environment ready (.venv-docs, $((SECONDS - started)) s)"
}
spark42_known() { [ -z "$WITH_SPARK42" ] || fresh "$SPARK42_ENV"; }
flink_known() { [ -z "$WITH_FLINK" ] || fresh "$FLINK_ENV"; }

up_to_date() {
    if [ -n "$ONLY_DOCS" ]; then
        fresh "$DOCS_ENV"
    else
        fresh "$AIRFLOW_ENV" && fresh "$SPARK_ENV" && spark42_known && flink_known && java_known
    fi
}

up_to_date && exit 0

# One setup at a time: a second one waits, then finds everything done.
waited=0
until mkdir "$LOCK_DIR" 2>/dev/null; do
    [ -w "$ROOT" ] || die "$ROOT is not writable" "the environments are made in it" "use a folder you may write to"
    holder=$(cat "$LOCK_DIR/pid" 2>/dev/null || true)
    if [ -n "$holder" ] && ! kill -0 "$holder" 2>/dev/null; then
        rm -rf "$LOCK_DIR" # its owner died
        continue
    fi
    [ $waited -gt 0 ] || say "another setup (process ${holder:-unknown}) is at work, waiting"
    waited=$((waited + 1))
    [ $waited -lt 1200 ] || die "another setup does not end" "process ${holder:-unknown} holds $LOCK_DIR" "end it, remove that folder, run this again"
    sleep 1
done
trap 'rm -rf "$LOCK_DIR"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
echo $$ >"$LOCK_DIR/pid"

if [ -n "$ONLY_DOCS" ]; then
    setup_docs_env
    exit 0
fi
fresh "$AIRFLOW_ENV" || setup_airflow_env
fresh "$SPARK_ENV" || setup_spark_env "$SPARK_ENV" requirements/spark.txt
spark42_known || setup_spark_env "$SPARK42_ENV" requirements/spark42.txt
flink_known || setup_flink_env
java_known || need_java
say "ready"
