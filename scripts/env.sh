# Sourced by the other scripts and the Makefile's recipes. Needs ROOT (the repository's root).
# Keeps a foreign Spark or Python out of the two environments and points Spark at the Java that setup.sh found.
unset SPARK_HOME SPARK_CONF_DIR PYTHONPATH PYTHONHOME VIRTUAL_ENV
# Each Python process would compile all that it imports (with Airflow 1.4 s more, measured).
unset PYTHONDONTWRITEBYTECODE
if [ -s "$ROOT/.venv-spark/java_home" ]; then
    JAVA_HOME=$(cat "$ROOT/.venv-spark/java_home")
    export JAVA_HOME
fi
# Drivers on this machine start faster with it (scripts/setup/classes.sh).
unset SPARK_SUBMIT_OPTS
if [ -s "$ROOT/.venv-spark/classes.jsa" ]; then
    export SPARK_SUBMIT_OPTS="-XX:SharedArchiveFile=$(cd "$ROOT/.venv-spark" && pwd -P)/classes.jsa -Xlog:cds=off -Xlog:cds+dynamic=off"
fi
# For drivers that live for seconds, as those of most tests: Java's quick compiler alone, and a garbage collector without
# threads (measured: 110 s, 164 s without them, on two busy cores). Not where speed is measured.
SHORT_LIVED="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"

# What tests with Spark write is thrown away: a new folder in memory, where there is room, because a state store syncs its
# files in each batch, which takes 7 ms a file on a disk (measured).
folder_in_memory() {
    if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print int($4 / 1048576) }')" -ge 4 ] 2>/dev/null; then
        mktemp -d /dev/shm/streamupdate-XXXXXX
    fi
}

# The processes of a session, one id a line. Airflow gives each task a process group of its own inside its session, so
# a group does not hold them all; a streaming driver has its own session and is not listed.
session_members() { # session id
    local python
    for python in "$ROOT/.venv/bin/python" python3; do
        command -v "$python" >/dev/null 2>&1 || continue
        ps -A -o pid= -o stat= -o command= | "$python" -c '
import os, sys
members, airflow = [], False
for line in sys.stdin:
    pid, stat, command = (line.split(None, 2) + ["", ""])[:3]
    try:
        if os.getsid(int(pid)) != int(sys.argv[1]) or stat.startswith("Z"):
            continue
    except OSError:
        continue
    members.append(pid)
    airflow = airflow or "airflow" in command.lower()
# the number may have been given to another program since (a restart of the machine)
print("\n".join(members if airflow else []))' "$1"
        return
    done
}
