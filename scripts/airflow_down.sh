#!/usr/bin/env bash
# Ends the Airflow that scripts/airflow_up.sh started, with all its processes; does nothing when none runs.
# The streaming apps it submitted have sessions of their own, are meant to outlive it and go on: end them with
# `streamupdate cancel APP`.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
. "$ROOT/scripts/env.sh"
AIRFLOW_HOME=${AIRFLOW_HOME:-$ROOT/.airflow}
PID_FILE=$AIRFLOW_HOME/standalone.pid
PORT_FILE=$AIRFLOW_HOME/standalone.port

pid=$(cat "$PID_FILE" 2>/dev/null || true)
case $pid in
    '' | *[!0-9]*) members= ;;
    *) members=$(session_members "$pid") ;;
esac
if [ -z "$members" ]; then
    rm -f "$PID_FILE" "$PORT_FILE"
    echo "down: not running"
    exit 0
fi
# shellcheck disable=SC2086
signal() { kill "-$1" $members 2>/dev/null || true; }
wait_for() { # seconds, all|leader: true when every process of the session, or its leader, has gone
    local deadline=$((SECONDS + $1))
    while :; do
        members=$(session_members "$pid")
        [ -n "$members" ] || return 0
        if [ "$2" = leader ] && ! kill -0 "$pid" 2>/dev/null; then return 0; fi
        [ $SECONDS -lt $deadline ] || return 1
        sleep 0.3
    done
}
signal TERM
wait_for 30 leader || echo "down: Airflow still runs after 30 s"
# A task runs its on_kill at SIGTERM, but ends only when its supervisor, gone by now, kills it.
if ! wait_for 8 all; then
    echo "down: killing what is left:" $members
    signal KILL
    wait_for 10 all || { echo "down: error: these processes do not end:" $members >&2; exit 1; }
fi
rm -f "$PID_FILE" "$PORT_FILE"
echo "down: stopped"
