from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.processes import elapsed, kernel
from airflow_provider_streamupdate.core.processes import process_identity as identity

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
MINUTES_AHEAD = 31
NextPid = Callable[[int], None]
Stranger = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def next_pid() -> NextPid:
    """Make the kernel give a pid to the next process of this machine: pids are given again, and this is how soon."""
    if sys.platform != "linux" or os.geteuid() != 0 or not os.access(LAST_PID, os.W_OK):
        pytest.skip(f"to have a pid given again takes root on Linux, and a writable {LAST_PID}")
    return lambda pid: LAST_PID.write_text(str(pid - 1)) and None


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """Start a process that is none of ours, in a session of its own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str) -> subprocess.Popen[bytes]:
        words = list(command) or ["sleep", "600"]
        started.append(subprocess.Popen(words, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
        return started[-1]

    yield start
    for child in started:
        child.kill()
        child.communicate()


@pytest.fixture
def set_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set this process's wall clock, as far as this package reads it, by so many seconds. psutil's times of starts move
    with the clock as well, since it counts from a time of boot that does (psutil.boot_time)."""

    def move(seconds: float) -> None:
        class Moved(clock.SystemClock):
            def wall(self) -> float:
                return super().wall() + seconds

        monkeypatch.setattr(clock, "_clock", Moved())
        psutil = process.psutil
        started = psutil.Process.create_time
        monkeypatch.setattr(psutil.Process, "create_time", lambda self: started(self) + seconds)

    return move


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From here on this process is on another machine, which happens to have this one's host name."""

    class Elsewhere(type(kernel.this_kernel())):  # type: ignore[misc]
        def boot(self) -> str | None:
            return "another boot"

    def move() -> None:
        for module in (identity, elapsed, process, kernel):
            monkeypatch.setattr(module, "this_kernel", Elsewhere)

    return move
