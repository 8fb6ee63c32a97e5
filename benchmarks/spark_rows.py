"""Updates of keyed counts in Spark: of the script alone, and of the app of this package."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import psutil
from feed import BIG_SECONDS, COMMIT_SECONDS, FEED_SECONDS, CommitLog, Feed

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit, spark_environment
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.update.strategies.follow import Follow
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.update import Step
from airflow_provider_streamupdate.core.snapshots.superseded import Retention

APP, QUERY = "counts", "q"
APP_FILE = Path(__file__).parent / "apps" / "counts.py"
NAIVE, SAME_SESSION, NAIVE_BESIDE = "naive", "same-session", "naive-beside"
FILES_A_BATCH, INTERVAL_SECONDS = 4, 0.5  # counts.py
GRACE_SECONDS = 60.0  # for a driver told to end; then it is killed, as supervisors do (it hung at 5,000,000 keys)
BATCHES_BETWEEN = 6  # ordinary ones between two updates

# Where the pause of a standby goes, in the order of time.
PARTS = (
    "told to hand over",  # since the last commit: a part of the ordinary interval
    "drain",
    "successor notices",
    "restore",
    "query starts",
    "first batch, to its offsets",
    "first batch, to its commit",
)


class Plain:
    """The script without this package: `naive` and `same-session`."""

    def __init__(self, folder: Path, feed: Feed, spark_submit: str, master: str) -> None:
        self.feed = feed
        self.commits = CommitLog(folder / "checkpoint")
        self.log = open(folder / "driver.log", "ab")  # noqa: SIM115 (the driver writes it)
        self.command = [spark_submit, "--master", master, str(APP_FILE), "plain", str(feed.folder)]
        self.command.append(str(self.commits.checkpoint))
        self.environment = spark_environment(spark_submit, {})
        self.whole: float | None = None  # seconds the last update took, from spark-submit to the first commit
        self.process = self._submit()

    def settle(self) -> None:
        """Until all keys are counted, their state is saved whole, and ordinary batches run."""
        settle(self.commits, self.feed)

    def update(self, row: str) -> float:
        """Seconds from the last commit to the first one after it."""
        seconds = self._naive() if row == NAIVE else self._same_session()
        self.commits.wait_saved(time.time())
        return seconds

    def end(self) -> None:
        if self.process.poll() is None:  # else its group's id may be another's by now
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def _naive(self) -> float:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        before, submitted = self.commits.newest(), time.time()
        self.process = self._submit()
        pause = self.commits.after(before)
        self.whole = self.commits.times()[before + 1] - submitted
        return pause

    def _same_session(self) -> float:
        self.whole = None
        # spark-submit's JVM is the group's leader, the script its child
        children = psutil.Process(self.process.pid).children(recursive=True)
        (script,) = (p for p in children if APP_FILE.name in command_of(p))
        before = self.commits.newest()
        script.send_signal(signal.SIGUSR1)
        told = time.time()
        wait_for(lambda: self.commits.newest() > before + 1 or None, "a batch", COMMIT_SECONDS)
        return self.commits.gap_around(told)

    def _submit(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command, stdout=self.log, stderr=self.log, env=self.environment, start_new_session=True
        )


class Managed:
    """An app of this package, updated with a strategy."""

    def __init__(
        self, folder: Path, feed: Feed, spark_submit: str, master: str, root: Path | None = None, payload: int = 0
    ) -> None:
        """payload: bytes of state for each key, beside its count"""
        self.folder, self.feed, self.payload = folder, feed, payload
        self.plain = (spark_submit, master)  # how a script without this package is started beside it
        self.client = StreamUpdateClient(str(root or folder / "root"), SparkSubmit(spark_submit, master=master))
        self.number = 0
        self.whole: float | None = None  # seconds the last update took, from the command until it was promoted
        self.live: float | None = None  # of these, until the new version's first commit
        try:
            self.client.submit(self.application(), "v0", app=APP, timeout=COMMIT_SECONDS)
        except BaseException:
            Managed.end(self)
            raise

    @property
    def deployment(self) -> str:
        return f"v{self.number}"

    def application(self) -> Application:
        """A version of its own, by its parameters."""
        return Application(file=str(APP_FILE), params=self.params())

    def params(self) -> dict[str, str]:
        more = {"payload": str(self.payload)} if self.payload else {}
        return {"input": str(self.feed.folder), "number": str(self.number), **more}

    def commits(self, deployment: str) -> CommitLog:
        uri = self.client.registry.app(APP).checkpoint(deployment, QUERY).uri
        return CommitLog(Path(urlsplit(uri).path))

    def settle(self) -> None:
        settle(self.commits(self.deployment), self.feed)

    def update(self, strategy: str) -> float:
        """The pause in seconds, as the update's record has it; of `naive-beside` the whole start, nothing pauses."""
        if strategy == NAIVE_BESIDE:
            return self.started_beside()
        self.number += 1
        options = UpdateOptions(
            application=self.application(),
            deployment=self.deployment,
            strategy=strategy,
            submit_timeout=BIG_SECONDS if self.payload else COMMIT_SECONDS,
            catch_up_timeout=BIG_SECONDS if self.payload and strategy == Follow.name else None,
        )
        began = time.time()
        self.client.update(options)
        pause = self.updated(began)
        if self.payload:
            self.free()
        return pause

    def started_beside(self) -> float:
        """Seconds from spark-submit of the script alone to its first commit, while the running version works on: what
        a standby's driver meets. It begins with nothing to restore, so it is no slower than on saved state."""
        began = time.time()
        with tempfile.TemporaryDirectory(dir=self.folder, prefix="beside-", ignore_cleanup_errors=True) as folder:
            plain = Plain(Path(folder), self.feed, *self.plain)
            try:
                plain.commits.wait(1)
                self.whole, self.live = None, min(plain.commits.times().values()) - began
            finally:
                plain.end()
        return self.live

    def free(self) -> None:
        """What no rollback needs: five updates of 5 GB filled a disk of 80 GB otherwise."""
        *older, _ = self.client.snapshots(APP)
        for snapshot in older:
            self.client.delete_snapshot(APP, snapshot.name)
        self.client.collect(APP, Retention(deployments=0))

    def updated(self, began: float) -> float:
        """The pause of the last update, which was asked for at `began`; ordinary batches have run since."""
        record = self.client.registry.app(APP).update(self.deployment)
        assert record is not None and record.pause_seconds is not None, record
        self.whole = clock.parse(record.step_times[Step.PROMOTE]).timestamp() - began
        commits, old = self.commits(self.deployment), self.commits(f"v{self.number - 1}")
        first = commits.times().get(old.newest() + 1)  # Spark purges old ones
        self.live = None if first is None else first - began
        commits.wait(commits.newest() + BATCHES_BETWEEN)
        return record.pause_seconds

    def parts(self) -> dict[str, float]:
        """Where the last update's pause went, when it was a standby's: seconds by `PARTS`."""
        old, new = f"v{self.number - 1}", self.deployment
        before, after = self.commits(old).times(), self.commits(new)
        last = max(before)
        drained, handed = self._event(old, "state", "draining"), self._event(old, "handed over")
        restoring, restored = self._event(new, "state", "restoring"), self._event(new, "restored")
        running, planned = self._event(new, "state", "running"), after.times("offsets")[last + 1]
        moments = [before[last], drained, handed, restoring, restored, running, planned, after.times()[last + 1]]
        moments = [max(moment, before[last]) for moment in moments]  # a drain waits for the batch in flight
        for at in range(len(moments) - 2, -1, -1):  # the query's thread does not wait for the one that started it
            moments[at] = min(moments[at], moments[at + 1])
        return {part: round(end - begun, 3) for part, (begun, end) in zip(PARTS, pairwise(moments), strict=True)}

    def end(self) -> None:
        for spec in self.client.registry.app(APP).deployments():
            self.client.drivers(APP).kill(spec.deployment)

    def _event(self, deployment: str, event: str, state: str | None = None) -> float:
        """When it last happened, seconds since the epoch."""
        text = self.client.registry.app(APP).deployment_folder(deployment).read("events.jsonl") or b""
        events = (json.loads(line) for line in text.splitlines())
        times = [e["at"] for e in events if e["event"] == event and e.get("state") == state]
        return clock.parse(times[-1]).timestamp()


def command_of(process: psutil.Process) -> str:
    """Empty for one that has ended: Hadoop starts short ones all the time where its native library is missing."""
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def settle(commits: CommitLog, feed: Feed) -> None:
    """Until all keys are counted, their state is saved whole, and ordinary batches run."""
    commits.wait(-(-feed.first_files // FILES_A_BATCH) + 2)
    feed.loaded.set()
    commits.wait_saved(time.time() - FEED_SECONDS)
    commits.wait(commits.newest() + BATCHES_BETWEEN)
