#!/usr/bin/env python
"""What a snapshot of a running app costs: keyed counts in RocksDB, which go on counting.

    first        the first snapshot of all keys: its time, and the bytes it adds to the root
    1 % changed  the next ones, after one key in a hundred was counted again
    throughput   rows a second with more input than the app can read: with nothing else, with a snapshot every few
                 seconds, and with one after the other, by turns

A snapshot links the state's files and copies what it cannot link; "new" are the bytes of files that no earlier snapshot
of the deployment holds, "changed" the bytes that Spark has written to the state's folder since the snapshot before.
Snapshots are asked for through the root, as `streamupdate save-snapshot` does. Beside it Flink's savepoints (over REST,
canonical and native), of the same keys counted by a job that goes on.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import click
from feed import COMMIT_SECONDS, CommitLog, Feed
from flink_rows import FlinkCluster, FlinkJob, find_flink
from spark_rows import APP, FILES_A_BATCH, Managed

from airflow_provider_streamupdate.control.waiting import wait_for

ROOT = Path(__file__).resolve().parents[1]

CHANGED = 0.01  # of the keys
FLOOD_ROWS = 20_000  # a file; the app reads four a batch
FLOOD_FILES = 12  # unread ones there always are
TURN_SECONDS = 20.0
# From the beginning of a snapshot to that of the next one; none is taken for None.
TURNS = {"alone": None, "with a snapshot every 5 s": 5.0, "with one after the other": 0.0}


@attrs.define
class Found:
    """Seconds of each, bytes added, and the bytes that Spark wrote meanwhile."""

    seconds: list[float] = attrs.field(factory=list)
    new: list[int] = attrs.field(factory=list)
    changed: list[int] = attrs.field(factory=list)

    def add(self, seconds: float, new: int, changed: int = 0) -> None:
        self.seconds.append(seconds)
        self.new.append(new)
        self.changed.append(changed)


class Ours:
    """The running app, and its snapshots."""

    def __init__(self, app: Managed, feed: Feed, say: Callable[[str], None]) -> None:
        self.app, self.feed, self.say = app, feed, say
        self.commits: CommitLog = app.commits(app.deployment)
        self._taken = 0
        self._known: set[tuple[int, int]] = set()

    def snapshots(self, repeat: int) -> dict[str, Found]:
        """The first snapshot, and later ones after changes."""
        found = {"first snapshot": Found(), f"snapshot, {CHANGED:.0%} changed": Found()}
        first, later = found.values()
        self.app.settle()
        for number in range(1 + repeat):
            if number:
                before = self.commits.newest()
                self.feed.change(CHANGED)
                self.commits.wait(before + 2)
                self.commits.wait_saved(time.time() - 1)
            (later if number else first).add(*self.snapshot())
        return found

    def snapshot(self) -> tuple[float, int, int]:
        """Take one: seconds, bytes it added, bytes of the state's files that are new since the last one."""
        self._taken += 1
        begun = time.monotonic()
        taken = self.app.client.save_snapshot(APP, f"s{self._taken}", timeout=COMMIT_SECONDS)
        seconds = time.monotonic() - begun
        files = [self.commits.checkpoint / f.path for q in taken.queries.values() for f in q.files]
        found = {(p.stat().st_ino, p.stat().st_size) for p in files if p.exists()}
        changed = sum(size for _, size in found - self._known)
        self._known |= found
        self.say(f"snapshot: {seconds:.2f} s, {taken.bytes_new:,} new of {taken.size:,} bytes, {changed:,} changed")
        return seconds, taken.bytes_new, changed

    def rates(self, repeat: int) -> dict[str, list[float]]:
        """Rows a second, by turns, of nothing but large files."""
        self.feed.quiet.set()
        wait_for(self._has_read_all, "the app to have read what is there", COMMIT_SECONDS)
        over = threading.Event()
        flooding = threading.Thread(target=self._flood, args=(over,))
        flooding.start()
        rates: dict[str, list[float]] = {turn: [] for turn in TURNS}
        try:
            self.commits.wait(self.commits.newest() + 8)
            for _ in range(repeat):
                for turn, found in rates.items():
                    found.append(self._rate(TURNS[turn]))
                    self.say(f"{turn}: {found[-1]:,.0f} rows/s")
        finally:
            over.set()
            flooding.join()
        return rates

    def _has_read_all(self) -> bool | None:
        status = self.app.client.status(APP).status
        return (status is not None and all(query.idle for query in status.queries.values())) or None

    def _flood(self, over: threading.Event) -> None:
        """Keep the app busy until it is `over`."""
        start, files = self.commits.newest(), self.feed.files
        while not over.wait(0.05):
            while self.feed.files - files - FILES_A_BATCH * (self.commits.newest() - start) < FLOOD_FILES:
                self.feed.write(random.choices(range(self.feed.keys), k=FLOOD_ROWS))

    def _rate(self, every: float | None) -> float:
        begun = time.time()
        while (left := begun + TURN_SECONDS - time.time()) > 0:
            next_one = time.time() + (left if every is None else every)
            if every is not None:
                self.snapshot()
            time.sleep(max(0.0, min(next_one, begun + TURN_SECONDS) - time.time()))
        times = [t for t in self.commits.times().values() if begun <= t <= begun + TURN_SECONDS]
        return (len(times) - 1) * FILES_A_BATCH * FLOOD_ROWS / (max(times) - min(times))


def measure(
    keys: int, repeat: int, spark_submit: str, master: str, say: Callable[[str], None]
) -> tuple[dict[str, Found], dict[str, list[float]]]:
    """Snapshots by kind, and rows a second without and with them."""
    with scratch(keys) as (folder, feed):
        app = Managed(folder, feed, spark_submit, master)
        try:
            ours = Ours(app, feed, say)
            return ours.snapshots(repeat), ours.rates(repeat)
        finally:
            app.end()


def measure_flink(keys: int, repeat: int, say: Callable[[str], None]) -> dict[str, Found]:
    with scratch(keys) as (folder, feed), FlinkCluster(find_flink(ROOT / ".venv-flink"), folder) as cluster:
        job = FlinkJob(cluster, folder, feed)
        found = {f"Flink's savepoint, {kind.lower()}": Found() for kind in ("CANONICAL", "NATIVE")}
        for _ in range(repeat):
            for name, ones in found.items():
                job.wait_more(feed.change(CHANGED))
                ones.add(*job.savepoint(name.rpartition(" ")[2].upper()))
                say(f"{name}: {ones.seconds[-1]:.2f} s, {ones.new[-1]:,} bytes")
        return found


@contextmanager
def scratch(keys: int) -> Iterator[tuple[Path, Feed]]:
    with tempfile.TemporaryDirectory(prefix="streamupdate-snapshot-", ignore_cleanup_errors=True) as folder:
        with Feed(Path(folder) / "in", keys) as feed:
            yield Path(folder), feed


@click.command(help=__doc__)
@click.option("--keys", default=5_000_000, show_default=True, help="Size of the state.")
@click.option("--repeat", default=5, show_default=True, help="Measurements of each.")
@click.option("--only", type=click.Choice(["ours", "flink"]), help="Only these.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), show_default=True)
def main(keys: int, repeat: int, only: str | None, master: str, spark_submit: str) -> None:
    def say(line: str) -> None:
        print(line, file=sys.stderr)

    found: dict[str, Found] = {}
    rates: dict[str, list[float]] = {}
    if only != "flink":
        found, rates = measure(keys, repeat, spark_submit, master, say)
    if only != "ours":
        found |= measure_flink(keys, repeat, say)
    print(f"| of {keys:,} keys | seconds | written, MB | changed, MB |\n|---|---|---|---|")
    for name, ones in found.items():
        written, changed = _shown([n / 1e6 for n in ones.new]), _shown([n / 1e6 for n in ones.changed])
        print(f"| {name} | {_shown(ones.seconds)} | {written} | {changed if any(ones.changed) else ''} |")
    if rates:
        alone = statistics.median(rates["alone"])
        print("\n| throughput | rows a second | lost |\n|---|---|---|")
        for turn, of in rates.items():
            # each turn against the one alone just before it: the machine's moods meet both
            lost = statistics.median(1 - rate / before for rate, before in zip(of, rates["alone"], strict=True))
            print(f"| {turn} | {statistics.median(of):,.0f} | {lost:.1%} ({1 - statistics.median(of) / alone:.1%}) |")


def _shown(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f}; {len(values)})"


if __name__ == "__main__":
    main()
