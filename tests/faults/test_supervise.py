"""Drivers and supervisors are killed, again and again: a driver is back within 30 s, there are never two of an app, and
no start is made that no fault asked for.

    STREAMUPDATE_FAULTS=500 make faults ARGS="-k killed_drivers_and_supervisors"
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.core.registry.application import Application
from tests import standin

FAULTS = int(os.environ.get("STREAMUPDATE_FAULTS", "6"))
BACK_SECONDS = 30.0
COMMAND = "from airflow_provider_streamupdate.cli import main; main()"


class Supervisors:
    """Two processes, of which one watches."""

    def __init__(self, root: Path, log: Path) -> None:
        self.root, self.log = root, log
        self.running = [self._start(), self._start()]

    def _start(self) -> subprocess.Popen[bytes]:
        options = ("--interval", "0.2s", "--initial-backoff", "0.2s", "--max-backoff", "0.2s")
        options += ("--reset-after", "0.5s", "--attempts", "1000")
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "supervise", "--root", str(self.root), *options],
            env={**os.environ, "PYTHONPATH": str(standin.REPOSITORY)},
            stdout=subprocess.DEVNULL,
            stderr=self.log.open("ab"),
        )

    def kill_one(self, which: int) -> None:
        """As a machine that fails does; another one is started in its place."""
        self.running[which].kill()
        self.running[which].wait()
        self.running[which] = self._start()

    def end(self) -> None:
        for one in self.running:
            one.terminate()
        for one in self.running:
            assert one.wait(60) in (0, -signal.SIGTERM)  # the latter: it had only just been started


class Writers(threading.Thread):
    """Counts the drivers of an app that are alive at the same time."""

    def __init__(self, root: Path) -> None:
        super().__init__(daemon=True)
        self.mark, self.most, self.looks, self.over = str(root).encode(), 0, 0, threading.Event()

    def run(self) -> None:
        while not self.over.wait(0.1):
            self.most, self.looks = max(self.most, len(self.alive())), self.looks + 1

    def alive(self) -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                command = (process / "cmdline").read_bytes()
                state = (process / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except (OSError, IndexError):
                continue
            if self.mark in command and b"standin_spark_submit.py\0" in command and b"\0run\0" in command:
                found += [int(process.name)] if state != "Z" else []
        return found


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMUPDATE_SPARK_SUBMIT", str(standin.spark_submit(tmp_path)))
    monkeypatch.setenv("JAVA_HOME", str(standin.java_home(tmp_path / "java")))


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="drivers are counted in /proc")
@pytest.mark.timeout(60 + FAULTS * 40)
@pytest.mark.usefixtures("spark_submit")
def test_killed_drivers_and_supervisors(tmp_path: Path) -> None:
    root, chance = tmp_path / "root", random.Random(7)
    root.mkdir()
    file = tmp_path / "v1.py"
    file.write_text('APP = "alarm"\nVERSION = "v1"\n')
    client = StreamUpdateClient(str(root), SparkSubmit())
    client.submit(Application(file=str(file)), "v1")
    app, back, supervisors_killed, drivers_killed = client.registry.app("alarm"), list[float](), 0, 0
    supervisors, writers = Supervisors(root, tmp_path / "supervisors.log"), Writers(root)
    writers.start()
    try:
        for _ in range(FAULTS):
            kind = chance.choice(["driver", "driver", "both", "supervisor"])
            before = app.current()
            assert before is not None
            if kind != "supervisor":
                [driver] = writers.alive()
                os.kill(driver, signal.SIGKILL)
                drivers_killed += 1
            began = time.monotonic()
            if kind != "driver":
                supervisors.kill_one(chance.randrange(2))
                supervisors_killed += 1
            epoch = before.epoch + (kind != "supervisor")
            until(lambda n=epoch: runs(client, n), f"the driver of epoch {epoch} does not run", tmp_path)
            if kind != "supervisor":
                back.append(time.monotonic() - began)
    finally:
        supervisors.end()
        writers.over.set()
        writers.join()
        client.drivers("alarm").kill("v1")
    current = app.current()
    assert current is not None and current.epoch == 1 + drivers_killed, "a start that nothing asked for"
    assert writers.most == 1 and writers.looks > FAULTS
    assert max(back) <= BACK_SECONDS
    print(
        f"supervise: faults {FAULTS} (drivers killed {drivers_killed}, supervisors killed {supervisors_killed}); "
        f"back after {statistics.median(back):.1f} s in the middle, {max(back):.1f} s at most; two drivers at a time: 0"
    )


def runs(client: StreamUpdateClient, epoch: int) -> bool:
    found = client.status("alarm")
    committed = found.status is not None and found.status.epoch == epoch and found.status.queries
    return found.state == "running" and bool(committed)


def until(true: Callable[[], object], what: str, folder: Path) -> None:
    deadline = time.monotonic() + BACK_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"{what}:\n{(folder / 'supervisors.log').read_text()[-2000:]}"
        time.sleep(0.02)
