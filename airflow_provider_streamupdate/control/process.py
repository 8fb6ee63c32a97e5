"""Driver processes on this machine: start detached, look after, end. The whole process group counts, because a signal
to spark-submit alone orphans the Python driver (measured)."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

import psutil

from ..state import clock
from ..state.boundaries import boundary
from ..state.deployment import Launch

# A driver begins when a line tells it to: nothing of it runs when whoever starts it dies before that.
GATE = ["/bin/sh", "-c", 'read -r line && exec "$@" </dev/null', "driver"]

# Children of this process, so that ended ones can be reaped (a zombie looks alive to others).
_children: dict[int, subprocess.Popen[bytes]] = {}


def start(
    command: list[str],
    environment: Mapping[str, str],
    log: Path,
    epoch: int,
    note: Callable[[Launch], None],
    yarn_tag: str | None = None,
) -> Launch:
    """Start a driver that outlives this process: its own session, its output appended to `log`. It begins when `note`
    has made its launch known, so that there is never a driver that nobody can find."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") as output:
        child = subprocess.Popen(
            [*GATE, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=str(log.parent),
            start_new_session=True,
        )
    _children[child.pid] = child
    started = None
    with contextlib.suppress(psutil.Error):
        started = psutil.Process(child.pid).create_time()
    launch = Launch(
        epoch=epoch,
        host=socket.gethostname(),
        pid=child.pid,
        pid_started=started,
        log=str(log),
        launched_at=clock.now(),
        yarn_tag=yarn_tag,
    )
    assert child.stdin is not None
    # Closed without a line when `note` raises. One that is dead already is found so by whoever looks for it.
    with contextlib.suppress(BrokenPipeError), child.stdin as gate:
        boundary("driver-forked")
        note(launch)
        gate.write(b"begin\n")
    boundary("driver-noted")
    return launch


def run(command: list[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], seconds: float) -> int:
    """Run a driver to its end in `folder`; its exit code. Its whole group ends with this call, also when that is
    interrupted; subprocess.TimeoutExpired after `seconds`."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    try:
        return child.wait(seconds)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def alive(launch: Launch) -> bool | None:
    """Whether any process of the driver's group lives; None when it runs on another machine or in a cluster."""
    if launch.killed:
        return False
    if not _here(launch):
        return None
    if launch.yarn_tag is None:
        return bool(_group(launch))
    child = _children.get(launch.pid or 0)
    refused = child is not None and (child.poll() or 0) > 0  # it came to nothing: spark-submit says so
    return False if refused else None


def _here(launch: Launch) -> bool:
    return launch.pid is not None and launch.host == socket.gethostname()


class Living:
    """`alive` for many launches at the price of one: the processes of this machine are looked at once, when the first
    is asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked_at = ""
        self._started: dict[int, list[float]] = {}  # session -> start times of its processes

    def __call__(self, launch: Launch) -> bool | None:
        if launch.killed or launch.yarn_tag is not None or launch.pid is None or not _here(launch):
            return alive(launch)
        with self._lock:
            if not self._looked_at:
                self._look()
        if launch.launched_at >= self._looked_at:
            return alive(launch)
        earliest = 0.0 if launch.pid_started is None else launch.pid_started - 1
        return any(started >= earliest for started in self._started.get(launch.pid, ()))

    def _look(self) -> None:
        self._looked_at = clock.now()
        for child in list(_children.values()):
            child.poll()
        for process in psutil.process_iter(["status", "create_time"]):
            with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
                if process.info["status"] != psutil.STATUS_ZOMBIE:
                    self._started.setdefault(os.getsid(process.pid), []).append(process.info["create_time"])


def end(launch: Launch, seconds: float = 10.0) -> None:
    """SIGTERM to the group of the process that was started, SIGKILL to what is left after `seconds`. Nothing when it is
    gone or on another machine."""
    for number, wait in ((signal.SIGTERM, seconds), (signal.SIGKILL, seconds)):
        group = _group(launch) if _here(launch) else []
        for process in group:
            with contextlib.suppress(psutil.Error):
                process.send_signal(number)
        _, left = psutil.wait_procs(group, timeout=wait)
        if not left:
            return


def _group(launch: Launch) -> list[psutil.Process]:
    """The processes of the session the driver was started in. The leader's start time guards against a reused pid."""
    if child := _children.get(launch.pid or 0):
        child.poll()
    found = []
    for process in psutil.process_iter(["pid", "status", "create_time"]):
        with contextlib.suppress(psutil.Error, ProcessLookupError, PermissionError):
            if process.info["status"] == psutil.STATUS_ZOMBIE or os.getsid(process.pid) != launch.pid:
                continue
            if launch.pid_started is not None and process.info["create_time"] < launch.pid_started - 1:
                continue
            found.append(process)
    return found
