"""The pause of an update: from the old version's last committed batch to the new one's first, by strategy and number of
keys in the state. One ordinary batch interval (0.5 s) is part of every row.

    naive         spark-submit of the same script on the same checkpoint, after SIGTERM (no update at all: no check,
                  no snapshot, no new plan)
    same-session  the query is stopped and started in its driver (what no new version can have: the floor)
    restart, standby   `streamupdate update` with that strategy

Times are those of the commit log's files. The rows of a size are taken in turns, so that the machine's moods meet all.
"""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.launcher import SparkSubmit, spark_environment
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.state.application import Application

ROOT = Path(__file__).resolve().parents[1]
APP_FILE = Path(__file__).parent / "apps" / "counts.py"
ROWS = 200  # a file of the feed
FEED_SECONDS = 0.2
FIRST_FILE = 1_000_000  # rows; more keys come in several files
COMMIT_SECONDS = 300.0


class Feed:
    """A folder that gets all keys once and then small files, for as long as the block lasts."""

    def __init__(self, folder: Path, keys: int) -> None:
        self.folder, self.keys = folder, keys
        self.files = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._feed, daemon=True)

    def __enter__(self) -> Feed:
        self.folder.mkdir(parents=True)
        for start in range(0, self.keys, FIRST_FILE):
            self._write(range(start, min(start + FIRST_FILE, self.keys)))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        while not self._over.wait(FEED_SECONDS):
            self._write(random.choices(range(self.keys), k=ROWS))

    def _write(self, keys: range | list[int]) -> None:
        temporary = self.folder.parent / "next.json"
        temporary.write_text("".join(f'{{"k":{key}}}\n' for key in keys))
        os.utime(temporary, (1_700_000_000 + self.files,) * 2)  # Spark orders files by their time
        os.rename(temporary, self.folder / f"{self.files:07d}.json")
        self.files += 1


class Plain:
    """The script without this package: `naive` and `same-session`."""

    def __init__(self, folder: Path, feed: Feed, spark_submit: str, master: str) -> None:
        self.checkpoint = folder / "checkpoint"
        self.log = open(folder / "driver.log", "ab")  # noqa: SIM115 (the driver writes it)
        self.command = [
            spark_submit,
            "--master",
            master,
            str(APP_FILE),
            "plain",
            str(feed.folder),
            str(self.checkpoint),
        ]
        self.environment = spark_environment(spark_submit, {})
        self.process = self._submit()
        self.commits = CommitLog(self.checkpoint / "commits")

    def naive(self) -> float:
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(60)
        before = self.commits.newest()
        self.process = self._submit()
        return self.commits.after(before)

    def same_session(self) -> float:
        # spark-submit's JVM is the group's leader, the script its child
        (script,) = (p for p in _children(self.process.pid) if "counts.py" in p[1])
        before = self.commits.newest()
        os.kill(script[0], signal.SIGUSR1)
        stopped = time.time()
        wait_for(lambda: self.commits.newest() != before or None, "a batch", COMMIT_SECONDS)
        return self.commits.gap_around(stopped)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _submit(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command, stdout=self.log, stderr=self.log, env=self.environment, start_new_session=True
        )


class CommitLog:
    """The times of a commit log's entries."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def times(self) -> dict[int, float]:
        names = [p for p in self.folder.glob("*") if p.name.isdigit()] if self.folder.exists() else []
        return {int(p.name): p.stat().st_mtime for p in names}

    def newest(self) -> int:
        return max(self.times(), default=-1)

    def after(self, batch: int) -> float:
        """Seconds from a batch's commit to the next one's, which is waited for."""
        wait_for(lambda: batch + 1 in self.times() or None, f"batch {batch + 1}", COMMIT_SECONDS, 0.1)
        times = self.times()
        return times[batch + 1] - times[batch]

    def gap_around(self, moment: float) -> float:
        times = sorted(self.times().values())
        later = next(t for t in times if t > moment)
        return later - times[times.index(later) - 1]

    def wait(self, batches: int) -> None:
        wait_for(lambda: self.newest() >= batches - 1 or None, f"{batches} batches", COMMIT_SECONDS, 0.5)


class Managed:
    """An app of this package: `restart` and `standby`."""

    def __init__(self, folder: Path, feed: Feed, spark_submit: str, master: str) -> None:
        self.client = StreamUpdateClient(str(folder / "root"), SparkSubmit(spark_submit, master=master))
        self.feed = feed
        self.number = 0
        self.client.submit(self.application(), "v0", app="counts", timeout=COMMIT_SECONDS)

    def application(self) -> Application:
        params = {"input": str(self.feed.folder), "number": str(self.number)}
        return Application(file=str(APP_FILE), params=params)

    def update(self, strategy: str) -> float:
        self.number += 1
        record = self.client.update(self.application(), f"v{self.number}", strategy=strategy, timeout=COMMIT_SECONDS)
        assert record.pause_seconds is not None
        return record.pause_seconds

    def end(self) -> None:
        for spec in self.client.deployments("counts"):
            self.client.drivers("counts").kill(spec.deployment)


def measure(
    keys: int, updates: int, spark_submit: str, master: str, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Seconds of each update, by row."""
    found: dict[str, list[float]] = {row: [] for row in ("naive", "same-session", "restart", "standby")}
    with tempfile.TemporaryDirectory(prefix="streamupdate-pause-") as scratch:
        folder = Path(scratch)
        for kind, rows in ((Plain, ("naive", "same-session")), (Managed, ("restart", "standby"))):
            (folder / kind.__name__).mkdir()
            with Feed(folder / kind.__name__ / "in", keys) as feed:
                running = kind(folder / kind.__name__, feed, spark_submit, master)
                try:
                    _settle(running, keys)
                    for _ in range(updates):
                        for row in rows:
                            seconds = _one(running, row)
                            found[row].append(seconds)
                            say(f"{keys} keys, {row}: {seconds:.2f} s")
                finally:
                    running.end()
    return found


def _settle(running: Plain | Managed, keys: int) -> None:
    """Until the first keys are counted and a few ordinary batches have run."""
    batches = keys // (4 * FIRST_FILE) + 6
    if isinstance(running, Plain):
        running.commits.wait(batches)
    else:
        running.client.wait_healthy("counts", batches=batches, timeout=COMMIT_SECONDS)


def _one(running: Plain | Managed, row: str) -> float:
    if isinstance(running, Managed):
        seconds = running.update(row)
    else:
        seconds = running.naive() if row == "naive" else running.same_session()
        running.commits.wait(running.commits.newest() + 4)
    return seconds


def _children(pid: int) -> list[tuple[int, str]]:
    import psutil

    return [(p.pid, " ".join(p.cmdline())) for p in psutil.Process(pid).children(recursive=True)]


@click.command(help=__doc__)
@click.option("--keys", default="10000,1000000", show_default=True, help="Sizes of the state, by commas.")
@click.option("--updates", default=5, show_default=True, help="Updates a row and size.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="All times as JSON on standard output.")
def main(keys: str, updates: int, master: str, spark_submit: str, as_json: bool) -> None:
    sizes = [int(size) for size in keys.split(",")]
    results = {}
    for size in sizes:
        results[size] = measure(size, updates, spark_submit, master, lambda line: print(line, file=sys.stderr))
    if as_json:
        print(json.dumps(results))
        return
    table = Table(title=f"Pause of an update in seconds: median (range) of {updates}")
    table.add_column("strategy")
    for size in sizes:
        table.add_column(f"{size:,} keys", justify="right")
    table.add_column("of naive", justify="right")
    for row in results[sizes[0]]:
        cells = [f"{statistics.median(t := results[s][row]):.2f} ({min(t):.2f}-{max(t):.2f})" for s in sizes]
        ratio = statistics.median(results[sizes[-1]][row]) / statistics.median(results[sizes[-1]]["naive"])
        table.add_row(row, *cells, f"{ratio:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
