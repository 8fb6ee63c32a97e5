#!/usr/bin/env bash
# Ends the Airflow that scripts/airflow_up.sh started, with all its processes; does nothing when none runs.
# The streaming apps it submitted are meant to outlive it and go on: end them with `streamupdate cancel APP`.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
AIRFLOW_HOME=${AIRFLOW_HOME:-$ROOT/.airflow}
PID_FILE=$AIRFLOW_HOME/standalone.pid
PORT_FILE=$AIRFLOW_HOME/standalone.port

alive() { kill -0 -- "-$1" 2>/dev/null; }
# the number may have been given to another program since (a restart of the machine)
ours() { ps -A -o pgid= -o command= | awk -v group="$1" '$1 == group' | grep -q -i airflow; }

if [ ! -s "$PID_FILE" ]; then
    echo "down: not running"
    exit 0
fi
pid=$(cat "$PID_FILE")
case $pid in
    '' | *[!0-9]*) rm -f "$PID_FILE" "$PORT_FILE"; echo "down: not running"; exit 0 ;;
esac
if ! alive "$pid" || ! ours "$pid"; then
    rm -f "$PID_FILE" "$PORT_FILE"
    echo "down: not running"
    exit 0
fi
stop() { # signal, seconds: true when every process of the group has gone
    local deadline=$((SECONDS + $2))
    kill "-$1" -- "-$pid" 2>/dev/null || true
    while alive "$pid"; do
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.2
    done
}
if ! stop TERM 30; then
    echo "down: still running after 30 s, killing it"
    stop KILL 10 || { echo "down: error: process group $pid does not end" >&2; exit 1; }
fi
rm -f "$PID_FILE" "$PORT_FILE"
echo "down: stopped"
