"""Driver processes on this machine: start them detached, watch them, end them.

The whole session counts, because a signal to spark-submit alone orphans the Python driver (measured).

No process is taken for a driver's, or signalled, unless that is certain (`members`): the system reuses a pid, and with
it a session id, once the last process of the session has ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO

import psutil

from ...core import clock
from ...core.boundaries import boundary
from ...core.processes.kernel import NotInspectableError, ProcessInfo, this_kernel
from ...core.processes.process_identity import ProcessIdentity
from ...core.registry.deployment import Launch, Status, Submitted
from ...core.storage.ownership import share, umask_in

# A driver begins only when it reads a line: if the process that starts it dies before, nothing of the driver runs.
GATE = ["/bin/sh", "-c", 'read -r line && exec "$@" </dev/null', "driver"]
MARK = "STREAMUPDATE_LAUNCH"  # in the environment of every process of a driver: which launch it belongs to
POLL_SECONDS = 0.1

# Children of this process, so that ended ones can be reaped (a zombie keeps its pid).
_children: dict[int, subprocess.Popen[bytes]] = {}


def start(
    command: list[str],
    environment: Mapping[str, str],
    log: Path,
    epoch: int,
    note: Callable[[Launch], None],
    cluster: str = "local",
    submitted: Submitted | None = None,
    folder: Path | None = None,
) -> Launch:
    """Start a driver that outlives this process, in its own session, its output appended to `log`.

    It begins only after `note` has recorded its launch, so that every driver can be found.

    cluster, submitted: as in Launch; folder: its working directory (None: the log's)
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    mark = uuid.uuid4().hex
    with open(log, "ab") as output:
        share(output.fileno(), str(log.parent))
        child = subprocess.Popen(
            [*GATE, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**environment, MARK: mark},
            cwd=str(folder or log.parent),
            start_new_session=True,
            umask=umask_in(str(log.parent)),
        )
    _children[child.pid] = child
    process = ProcessIdentity.of(child.pid)
    launch = Launch(
        epoch=epoch,
        host=process.host,
        pid=child.pid,
        log=str(log),
        launched_at=clock.now(),
        process=process,
        mark=mark,
        cluster=cluster,
        submitted=submitted,
    )
    assert child.stdin is not None
    # Closed without a line when `note` raises. A child that is dead already is found dead by later looks.
    with contextlib.suppress(BrokenPipeError), child.stdin as gate:
        boundary("driver-forked")
        note(launch)
        gate.write(b"begin\n")
    boundary("driver-noted")
    return launch


def run(command: list[str], environment: Mapping[str, str], folder: Path, output: IO[bytes], seconds: float) -> int:
    """Run a driver to its end in `folder`, and return its exit code.

    Its whole process group ends with this call, even if the call is interrupted. subprocess.TimeoutExpired after
    `seconds`.
    """
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd=folder,
        start_new_session=True,
    )
    leader = ProcessIdentity.of(child.pid)
    try:
        if not leader.exact:
            return child.wait(seconds)
        deadline = clock.monotonic() + seconds
        while leader.lives() is not False:
            if clock.monotonic() > deadline:
                raise subprocess.TimeoutExpired(command, seconds)
            clock.sleep(POLL_SECONDS)
    finally:
        # Before the child is reaped: until then no other process can get its pid, which is also its group's id.
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    return child.returncode


def alive(launch: Launch, status: Status | None = None) -> bool | None:
    """Return whether any process of the driver lives; None when that cannot be found out from here.

    That is so when it runs on another machine, in another container or in a cluster.

    status: its heartbeat, if it has given one
    """
    return _Processes().alive(launch, status)


# Returns whether any process of a driver lives; None: that cannot be found out from here. Status: its last heartbeat.
Alive = Callable[[Launch, Status | None], bool | None]


def alive_check(many: bool = False) -> Alive:
    """Return `alive` based on a single look at the processes of this machine.

    many: it will be called for several launches, so look at all processes now
    """
    found = _Processes()
    if many:
        found.sessions()
    return found.alive


def end(launch: Launch, seconds: float = 10.0, at_once: bool = False) -> bool:
    """Send SIGTERM to the driver's processes, and SIGKILL to those left after `seconds` (`at_once`: SIGKILL only).

    False, with nothing signalled, when its processes cannot be identified.
    """
    for number in (signal.SIGKILL,) if at_once else (signal.SIGTERM, signal.SIGKILL):
        group = _Processes().members(launch)
        if group is None:
            return False
        for process in group:
            process.signal(number)
        deadline = clock.monotonic() + seconds
        while (group := _Processes().members(launch)) and clock.monotonic() < deadline:
            clock.sleep(POLL_SECONDS)
        if not group:
            break
    return True


class _Processes:
    """A snapshot of the processes of this machine."""

    def __init__(self) -> None:
        self._kernel = this_kernel()
        self._here = self._kernel.boot(), self._kernel.namespace()
        self._sessions: dict[int, list[ProcessInfo]] | None = None

    def alive(self, launch: Launch, status: Status | None = None) -> bool | None:
        if launch.killed:
            return False
        if launch.submitted:
            child = _children.get(launch.pid or 0)
            refused = child is not None and (child.poll() or 0) > 0  # spark-submit failed: nothing was submitted
            return False if refused and status is None else None
        found = self.members(launch)
        started = None if found is None else bool(found)
        if started or status is None:
            return started
        # The started process may have submitted the driver to a cluster; its heartbeat says where it runs.
        if status.process is not None:
            reports = status.process.lives()
        else:
            reports = started if status.host == launch.host else None
        return started if reports is False else reports

    def members(self, launch: Launch) -> list[ProcessIdentity] | None:
        """Return the processes of the session the driver was started in; None when they cannot be identified."""
        if launch.killed or launch.pid is None:
            return []
        if child := _children.get(launch.pid):
            child.poll()
        leader = launch.process
        if leader is None or not leader.exact or (leader.boot, leader.namespace) != self._here:
            return None
        try:
            found = self._kernel.inspect(leader.pid)
        except NotInspectableError:
            return None
        if found is not None and not leader.is_seen_as(found):
            return []  # its pid belongs to another process, which is possible only after the whole session has ended
        session = self.sessions().get(leader.pid, [])
        if found is not None and not found.zombie and not session:
            session = [found]  # it was started since this look
        if found is None:  # the leader has ended, and its session id may have been reused
            session = [seen for seen in session if launch.mark and _marked(seen.pid, launch.mark)]
        boot, namespace = self._here
        return [
            ProcessIdentity(host=os.uname().nodename, pid=seen.pid, boot=boot, namespace=namespace, start=seen.start)
            for seen in session
        ]

    def sessions(self) -> dict[int, list[ProcessInfo]]:
        """Return the living processes of this machine, by session."""
        if self._sessions is None:
            self._sessions = {}
            for seen in self._processes():
                self._sessions.setdefault(seen.session, []).append(seen)
        return self._sessions

    def _processes(self) -> Iterator[ProcessInfo]:
        for child in list(_children.values()):
            child.poll()
        for pid in psutil.pids():
            with contextlib.suppress(NotInspectableError):
                seen = self._kernel.inspect(pid)
                if seen is not None and not seen.zombie:
                    yield seen


def _marked(pid: int, mark: str) -> bool:
    """Return whether the environment a process was started with marks it as one of this launch."""
    try:
        return psutil.Process(pid).environ().get(MARK) == mark
    except (psutil.Error, OSError):
        return False  # gone, or another user's
