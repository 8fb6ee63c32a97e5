"""An example cluster, as somebody would add one: this file, and its name in CLUSTERS.

Its master is ``box:FOLDER``. A driver's box is a folder below, and its processes are in a session that what submits it
does not belong to.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.drivers.clusters.cluster import Client, Cluster, Prepared
from airflow_provider_streamupdate.control.drivers.launcher import master_of
from airflow_provider_streamupdate.core.registry.deployment import Launch, Status, Submitted

# The driver's first process notes itself before it looks whether the box is closed, and `end` closes the box before it
# looks for the note: one of them sees the other.
SUBMIT = 'mkdir -p "$0" && setsid /bin/sh -c "$1" "$0" "$@" </dev/null >>"$0/log" 2>&1 &'
BEGIN = 'echo $$ > "$0/pid.new" && mv "$0/pid.new" "$0/pid" && [ ! -e "$0/closed" ] && shift && exec "$@"'


class Boxes(Cluster):
    """A driver's name is its box."""

    name = "boxes"

    def takes(self, command: Sequence[str]) -> bool:
        return (master_of(command) or "").startswith("box:")

    def prepare(self, command: list[str], driver: tuple[str, ...], environment: Mapping[str, str]) -> Prepared:
        folder = Path((master_of(command) or "").removeprefix("box:"))
        box = str(folder / hashlib.sha256("|".join(driver).encode()).hexdigest()[:16])
        return Prepared(["/bin/sh", "-c", SUBMIT, box, BEGIN, *command], Submitted(name=box))

    def alive_check(self, many: bool = False) -> process.Alive:
        return _alive

    def end(self, launch: Launch, client: Callable[[], Client]) -> bool:
        box = box_of(launch)
        box.mkdir(parents=True, exist_ok=True)
        (box / "closed").touch()
        process.end(launch)
        while lives(box):
            os.killpg(session_of(box), signal.SIGKILL)
            time.sleep(0.05)
        return True

    def log_of(self, launch: Launch, application: str | None) -> str | None:
        return f"of what submitted it; the driver's own: {box_of(launch)}/log"


def box_of(launch: Launch) -> Path:
    assert launch.submitted is not None
    return Path(launch.submitted.name)


def session_of(box: Path) -> int:
    return int((box / "pid").read_text())


def lives(box: Path) -> bool:
    try:
        stat = Path(f"/proc/{session_of(box)}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def _alive(launch: Launch, status: Status | None = None) -> bool | None:
    if launch.killed:
        return False
    box = box_of(launch)
    return lives(box) if (box / "pid").exists() else process.alive(launch, status)
