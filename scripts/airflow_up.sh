#!/usr/bin/env bash
# Starts an Airflow of this repository (`airflow standalone`: SQLite unless told otherwise, LocalExecutor, the folder
# dags/), waits until it is healthy, prints its address and ends. Airflow goes on in a session of its own; scripts/airflow_down.sh ends it.
#
# Settings: PORT=8080           the web address; the two log servers take PORT+713 and PORT+714
#           UP_TIMEOUT=240      seconds to wait
#           AIRFLOW_HOME        default: .airflow in the repository
#           UP_DATABASE         address of its database; default: a SQLite file in AIRFLOW_HOME
#           UP_PYTHONPATH       more packages, such as that database's driver
#           UP_PYTHON           the Python of a user's own environment, in place of .venv: then the DAGs are those in
#                               AIRFLOW_HOME/dags, and no connection and no Spark is set, as for a user (make first-hour)
# Everybody who reaches the port is an administrator, so it listens on the loopback address only.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
cd "$ROOT"
. scripts/env.sh
[ -z "${UP_PYTHONPATH:-}" ] || export PYTHONPATH=$UP_PYTHONPATH

PORT=${PORT:-8080}
UP_TIMEOUT=${UP_TIMEOUT:-240}
HOST=127.0.0.1
PYTHON=${UP_PYTHON:-$ROOT/.venv/bin/python}
export AIRFLOW_HOME="${AIRFLOW_HOME:-$ROOT/.airflow}"
LOG=$AIRFLOW_HOME/standalone.log
PID_FILE=$AIRFLOW_HOME/standalone.pid
PORT_FILE=$AIRFLOW_HOME/standalone.port

die() { # what, why, next step
    printf 'up: error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '  reason: %s\n' "$2" >&2
    [ $# -lt 3 ] || printf '  next:   %s\n' "$3" >&2
    exit 1
}
healthy() { # the API answers, and database, scheduler, triggerer and DAG processor are well
    "$PYTHON" - "http://$HOST:$1/api/v2/monitor/health" <<'PY' 2>/dev/null
import json, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
health = json.load(opener.open(sys.argv[1], timeout=5))
parts = ("metadatabase", "scheduler", "triggerer", "dag_processor")
sys.exit(0 if all((health.get(part) or {}).get("status") == "healthy" for part in parts) else 1)
PY
}
show() {
    printf 'up: Airflow is ready: http://%s:%s   (no login; log: %s; stop it with: make down)\n' "$HOST" "$1" "$LOG"
}

[ -x "$PYTHON" ] && { [ -n "${UP_PYTHON:-}" ] || [ -x "$ROOT/.venv-spark/bin/spark-submit" ]; } ||
    die "the environments are missing" ".venv or .venv-spark is not built" "run: make setup"
case $PORT in
    '' | *[!0-9]*) die "PORT=$PORT is not a port" "it must be a number" "for example: make up PORT=8099" ;;
esac
[ "$PORT" -ge 1024 ] && [ "$PORT" -le 64800 ] ||
    die "PORT=$PORT cannot be used" "it and the log servers' ports (PORT+713, PORT+714) must be in 1024-65535" "take another, for example PORT=8099"

if [ -s "$PID_FILE" ] && [ -n "$(session_members "$(cat "$PID_FILE")")" ]; then
    running=$(cat "$PORT_FILE" 2>/dev/null || echo "$PORT")
    [ "$running" = "$PORT" ] || die "an Airflow of this folder is already running" \
        "it has port $running (process $(cat "$PID_FILE"))" "run: make down    then: make up PORT=$PORT"
    if healthy "$PORT"; then
        echo "up: already running"
        show "$PORT"
        exit 0
    fi
    die "an Airflow of this folder is running but not healthy" "see $LOG" "run: make down    then: make up"
fi

TRIGGER_LOG_PORT=$((PORT + 714))
WORKER_LOG_PORT=$((PORT + 713))
busy=$("$PYTHON" - "$HOST" "$PORT" "$WORKER_LOG_PORT" "$TRIGGER_LOG_PORT" <<'PY'
import socket, sys
for port in sys.argv[2:]:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((sys.argv[1], int(port)))
        except OSError:
            print(port)
            break
PY
)
[ -z "$busy" ] || die "port $busy is taken" "another program listens on $HOST:$busy (needed: $PORT, $WORKER_LOG_PORT, $TRIGGER_LOG_PORT)" \
    "end that program, or take another port: make up PORT=$((PORT + 19))"

[ -n "${UP_PYTHON:-}" ] || mkdir -p "$AIRFLOW_HOME/streamupdate"
STATE_ROOT=$AIRFLOW_HOME/streamupdate

# Airflow's settings. A port change takes all of: API port, base URL, execution API URL, both log servers.
# not from AIRFLOW__DATABASE__SQL_ALCHEMY_CONN: another Airflow's database is not to be touched
export AIRFLOW__DATABASE__SQL_ALCHEMY_CONN="${UP_DATABASE:-sqlite:///$AIRFLOW_HOME/airflow.db}"
export AIRFLOW__CORE__EXECUTOR=LocalExecutor
if [ -n "${UP_PYTHON:-}" ]; then DAGS=$AIRFLOW_HOME/dags; else DAGS=$ROOT/dags; fi
export AIRFLOW__CORE__DAGS_FOLDER="$DAGS"
export AIRFLOW__CORE__LOAD_EXAMPLES=False
export AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS="${AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS:-True}"
export AIRFLOW__CORE__PARALLELISM="${AIRFLOW__CORE__PARALLELISM:-4}"
export AIRFLOW__CORE__EXECUTION_API_SERVER_URL="http://$HOST:$PORT/execution/"
export AIRFLOW__API__HOST=$HOST
export AIRFLOW__API__PORT=$PORT
export AIRFLOW__API__BASE_URL="http://$HOST:$PORT/"
export AIRFLOW__API__WORKERS=1
export AIRFLOW__LOGGING__BASE_LOG_FOLDER="$AIRFLOW_HOME/logs"
export AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=$WORKER_LOG_PORT
export AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT=$TRIGGER_LOG_PORT
export AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME="${AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME:-0.5}"
# a new or removed file in dags/ shows within seconds, not minutes
export AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL="${AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL:-15}"
export AIRFLOW__USAGE_DATA_COLLECTION__ENABLED=False

if [ -z "${UP_PYTHON:-}" ]; then
    # The two connections the example DAGs use, unless they are set from outside.
    connections=$("$PYTHON" - "$STATE_ROOT" "$ROOT/.venv-spark/bin/spark-submit" <<'PY'
import json, sys
root, spark_submit = sys.argv[1:]
print(json.dumps({"conn_type": "spark", "host": "local[2]"}))
extra = {"root": root, "spark_conn_id": "spark_default", "spark_submit": spark_submit}
print(json.dumps({"conn_type": "streamupdate", "extra": extra}))
PY
    )
    export AIRFLOW_CONN_SPARK_DEFAULT="${AIRFLOW_CONN_SPARK_DEFAULT:-$(printf '%s\n' "$connections" | sed -n 1p)}"
    export AIRFLOW_CONN_STREAMUPDATE_DEFAULT="${AIRFLOW_CONN_STREAMUPDATE_DEFAULT:-$(printf '%s\n' "$connections" | sed -n 2p)}"
    # spark-submit of a pip-installed PySpark finds its own home only through this Python
    export PYSPARK_PYTHON="$ROOT/.venv-spark/bin/python"
    export PYSPARK_DRIVER_PYTHON="$PYSPARK_PYTHON"
fi
export PATH="$(dirname "$PYTHON"):$PATH"

echo "up: starting Airflow on port $PORT (about 45 s; log: $LOG)"
: >"$LOG"
# a session of its own, so that one signal reaches all its processes; macOS has no setsid command
"$PYTHON" -c 'import os, sys; os.setsid(); os.execv(sys.argv[1], sys.argv[1:])' \
    "$PYTHON" -m airflow standalone >>"$LOG" 2>&1 </dev/null &
pid=$!
disown "$pid" 2>/dev/null || true
echo "$pid" >"$PID_FILE"
echo "$PORT" >"$PORT_FILE"

fail() {
    echo "up: last lines of $LOG:" >&2
    tail -n 40 "$LOG" >&2 || true
    scripts/airflow_down.sh >/dev/null 2>&1 || true
    die "$1" "$2" "read $LOG, put it right, run make up again"
}
trap 'scripts/airflow_down.sh || true; exit 130' INT TERM
deadline=$((SECONDS + UP_TIMEOUT))
until healthy "$PORT"; do
    kill -0 "$pid" 2>/dev/null || fail "Airflow ended while starting" "its last lines are above"
    [ $SECONDS -lt $deadline ] || fail "Airflow is not healthy after $UP_TIMEOUT s" "its last lines are above (more time: UP_TIMEOUT=600)"
    sleep 1
done
show "$PORT"
