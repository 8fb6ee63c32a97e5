"""A root with one running app that is fed without end, and what is done to it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.boundaries import FAIL, KILL, VARIABLE, WAIT
from airflow_provider_streamupdate.core.registry.deployment import RUNNING

from . import task
from .oracle import Oracle
from .places import Place
from .stuck import Stuck
from .supervisor import Supervisor
from .update import Update
from .worker import Worker

ROOT = Path(__file__).resolve().parents[2]
APP, QUERY = "crash", "counts"
KEYS = ("a", "b", "c")
FEED_SECONDS = 0.4
AnyWorker = TypeVar("AnyWorker", bound=Worker)
POLL_SECONDS = 0.05
SETTLED_SECONDS = 0.2  # between looks whether the app has come to rest


class Ground:
    """The app is started with `start`, and every update brings in a version that differs in a parameter."""

    def __init__(self, folder: Path, spark_submit: str, place: Place) -> None:
        self.folder, self.place = folder, place
        self.spark_submit = spark_submit
        self.input, output = folder / "in", folder / "out"
        self.marks, self.plans = folder / "boundaries", folder / "plans"
        for made in (self.input, output, self.plans):
            made.mkdir(parents=True)
        self.client = task.client(str(folder / "root"), spark_submit)
        self.registry = self.client.registry.app(APP)
        self.oracle = Oracle(self.registry, output, KEYS)  # of the sink that counts
        self.written = 0
        self.number = 0
        self._workers: list[Worker] = []
        self.forget()
        self._over = threading.Event()
        self._feeding = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> None:
        """Submit the first version and feed it."""
        for _ in range(5):
            self._write()
        self._feeding.start()
        application = f"task.application({str(Path(__file__).parent / 'app.py')!r}, {self._params(False)!r})"
        self.call(f".submit({application}, 'v0', app={APP!r})")
        self.settle()

    def end(self) -> None:
        self._over.set()
        if self._feeding.is_alive():
            self._feeding.join()
        for worker in self._workers:  # or they would start drivers again
            worker.kill()
        for spec in self.registry.deployments():
            if launch := self.registry.launch(spec.deployment):
                self.place.kill(launch)

    # ---- what is struck

    def update(self, strategy: str, fails: bool) -> Update:
        self.number += 1
        return self._noted(Update(self, f"v{self.number}", strategy, self._params(fails)))

    def supervisor(self) -> Supervisor:
        self.number += 1
        return self._noted(Supervisor(self, f"supervisor-{self.number}"))

    def current(self) -> str:
        found = self.registry.current_id()
        assert found is not None  # it was started
        return found

    def version(self) -> str:
        """That of the current deployment, changes in flight included."""
        return self.registry.spec(self.current()).application.params["version"]

    # ---- the boundaries

    def arm(self, boundary: str, action: str) -> None:
        """Have the first process that gets there do it."""
        assert action in (KILL, WAIT, FAIL)
        temporary = self.marks / "next"
        temporary.write_text(action)
        os.rename(temporary, self.marks / "armed" / boundary)

    def reached(self, boundary: str) -> bool:
        return any((self.marks / "reached").glob(f"{boundary}.*"))

    def go(self, boundary: str) -> None:
        (self.marks / "go" / boundary).touch()

    def forget(self) -> None:
        """Whoever waits at a boundary goes on, and none is armed."""
        for armed in self.marks.glob("armed/*"):
            armed.unlink(missing_ok=True)
        for reached in self.marks.glob("reached/*"):
            self.go(reached.name.rpartition(".")[0])
        time.sleep(3 * POLL_SECONDS)
        shutil.rmtree(self.marks, ignore_errors=True)
        for part in ("armed", "reached", "go"):
            (self.marks / part).mkdir(parents=True)

    # ---- the drivers

    def drivers(self) -> list[psutil.Process]:
        """The processes of drivers under this root that run a deployment."""
        found = []
        for seen in psutil.process_iter():  # its `info` is shared with the other jobs' threads
            with contextlib.suppress(psutil.Error):
                line = seen.cmdline()
                ours = str(self.folder / "root") in line and "run" in line
                if ours and "python" in seen.name() and seen.status() != psutil.STATUS_ZOMBIE:
                    found.append(seen)
        return found

    def kill(self, deployment: str) -> None:
        """SIGKILL for every process of the deployment's driver."""
        launch = self.registry.launch(deployment)
        if launch is None or not self.place.kill(launch):
            raise Stuck(f"{deployment} has no driver to kill")

    # ---- waiting

    def settle(self, seconds: float = 300.0) -> int:
        """Wait until the current deployment runs, alone, and has committed all that was written before this call and
        all that the sink has seen; so many records of each key."""
        written = self.written

        def settled() -> bool | None:  # what takes longest is looked at last: the drivers need the processors
            if self.oracle.read() < written:
                return None
            status = self.client.status(APP)
            query = status.status.queries.get(QUERY) if status.status else None
            if status.state != RUNNING or query is None or query.batch < self.oracle.batches()[-1]:
                return None
            return True if len(self.drivers()) == 1 else None

        self.wait(settled, f"{APP} to run and to commit what there is", seconds, SETTLED_SECONDS)
        return written

    def wait(
        self, poll: Callable[[], bool | None], what: str, seconds: float, poll_seconds: float = POLL_SECONDS
    ) -> None:
        try:
            wait_for(poll, what, seconds, poll_seconds)
        except TimeoutError as error:
            raise Stuck(f"waited {seconds:g} s for {what}: {self.describe()}") from error

    def describe(self) -> str:
        """What there is, for a case that got stuck."""
        current, states = self.registry.current(), {}
        for spec in self.registry.deployments()[-3:]:
            states[spec.deployment] = self.client.drivers(APP).state(spec.deployment)
        drivers = [p.pid for p in self.drivers()]
        return f"current {current}, states {states}, drivers {drivers}, records {self.oracle.read()}/{self.written}"

    # ---- the inside

    @property
    def environment(self) -> dict[str, str]:
        """Of the update's process; its drivers inherit it."""
        path = os.pathsep.join([str(ROOT), str(ROOT / "scripts"), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        own = {"PYTHONPATH": path, VARIABLE: str(self.marks)}
        return {**os.environ, **own, **self.place.environment(self.folder)}

    def _params(self, fails: bool) -> dict[str, str]:
        number = str(self.number)
        return {
            "input": str(self.input),
            "output": str(self.oracle.output),
            "version": number,
            "fails": "yes" if fails else "",
        }

    def call(self, operation: str) -> None:
        """Have the client do it in a process whose drivers get to the boundaries."""
        code = (
            f"from crashlib import task; task.client({str(self.folder / 'root')!r}, {self.spark_submit!r}){operation}"
        )
        log = self.folder / "start.log"
        with open(log, "ab") as output:
            done = subprocess.run(
                [sys.executable, "-c", code], env=self.environment, stdout=output, stderr=output, check=False
            )
        if done.returncode:
            raise Stuck(f"{operation.split('(')[0]} failed; see {log}")

    def _noted(self, worker: AnyWorker) -> AnyWorker:
        self._workers.append(worker)
        return worker

    def _feed(self) -> None:
        while not self._over.wait(FEED_SECONDS):
            self._write()

    def _write(self) -> None:
        temporary = self.folder / "next.json"
        temporary.write_text("".join(json.dumps({"k": key, "n": self.written}) + "\n" for key in KEYS))
        os.utime(temporary, (1_700_000_000 + self.written,) * 2)  # Spark orders files by their time
        os.rename(temporary, self.input / f"{self.written:07d}.json")
        self.written += 1
