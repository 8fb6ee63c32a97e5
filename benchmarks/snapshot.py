#!/usr/bin/env python
"""What a snapshot of a running app costs: keyed counts in RocksDB, which go on counting.

    first        the first snapshot of all keys: its time, and the bytes it adds to the root
    1 % changed  the next ones, after one key in a hundred was counted again
    throughput   rows a second with more input than the app can read, with nothing else and with one snapshot after the
                 other, by turns

A snapshot links the state's files and copies what it cannot link; "new" are the bytes of files that no earlier snapshot
of the deployment holds. Snapshots are asked for through the root, as `streamupdate save-snapshot` does.
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import attrs
import click
from pause import COMMIT_SECONDS, ROOT, CommitLog, Feed, Managed
from rich.console import Console
from rich.table import Table

CHANGED = 0.01  # of the keys
FLOOD_ROWS = 20_000  # a file; the app reads four a batch
FLOOD_FILES = 12  # unread ones there always are
TURN_SECONDS = 20.0


class Flood(Feed):
    """All keys once, and then what it is told to write."""

    def _feed(self) -> None:
        self._over.wait()

    def change(self) -> None:
        self._write(random.sample(range(self.keys), int(self.keys * CHANGED)))

    def flood(self, over: threading.Event, read: Callable[[], int]) -> None:
        """Keep the app busy until it is `over`; `read`: how many files it has read."""
        while not over.wait(0.05):
            while self.files - read() < FLOOD_FILES:
                self._write(random.choices(range(self.keys), k=FLOOD_ROWS))


@attrs.define
class Found:
    seconds: list[float] = attrs.field(factory=list)
    new: list[int] = attrs.field(factory=list)
    size: int = 0


def measure(
    keys: int, repeat: int, spark_submit: str, master: str, say: Callable[[str], None]
) -> tuple[Found, Found, dict[str, list[float]]]:
    """The first snapshots (one), the later ones, and rows a second: without and with snapshots."""
    with tempfile.TemporaryDirectory(prefix="streamupdate-snapshot-") as scratch:
        folder = Path(scratch)
        with Flood(folder / "in", keys) as feed:
            app = Managed(folder, feed, spark_submit, master)
            try:
                client, numbers = app.client, iter(range(10_000))
                commits = CommitLog(
                    Path(urlsplit(client.registry.app("counts").checkpoint("v0", "q").uri).path) / "commits"
                )
                commits.wait((feed.files + 3) // 4)
                first, later = Found(), Found()
                for found in (first, *[later] * repeat):
                    if found is later:
                        before = commits.newest()
                        feed.change()
                        commits.wait(before + 2)
                    started = time.monotonic()
                    taken = client.save_snapshot("counts", f"s{next(numbers)}", timeout=COMMIT_SECONDS)
                    found.seconds.append(time.monotonic() - started)
                    found.new.append(taken.bytes_new)
                    found.size = taken.size
                    say(f"{keys:,} keys: {found.seconds[-1]:.2f} s, {taken.bytes_new:,} new of {taken.size:,} bytes")
                return first, later, _rates(app, feed, commits, numbers, repeat, say)
            finally:
                app.end()


def _rates(
    app: Managed, feed: Flood, commits: CommitLog, numbers: Iterator[int], repeat: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    over, start, files = threading.Event(), commits.newest(), feed.files
    flooding = threading.Thread(target=feed.flood, args=(over, lambda: files + 4 * (commits.newest() - start)))
    flooding.start()
    rates: dict[str, list[float]] = {"alone": [], "with snapshots": []}
    try:
        commits.wait(start + 4)
        for _ in range(repeat):
            for turn, found in rates.items():
                begun, taken = time.time(), 0
                while (left := begun + TURN_SECONDS - time.time()) > 0:
                    if turn == "alone":
                        time.sleep(left)
                    else:
                        app.client.save_snapshot("counts", f"s{next(numbers)}", timeout=COMMIT_SECONDS)
                        taken += 1
                times = [t for t in commits.times().values() if begun <= t <= begun + TURN_SECONDS]
                found.append((len(times) - 1) * 4 * FLOOD_ROWS / (max(times) - min(times)))
                say(f"{turn}: {found[-1]:,.0f} rows/s" + (f", {taken} snapshots" if taken else ""))
    finally:
        over.set()
        flooding.join()
    return rates


@click.command(help=__doc__)
@click.option("--keys", default=5_000_000, show_default=True, help="Size of the state.")
@click.option("--repeat", default=5, show_default=True, help="Measurements of each.")
@click.option("--master", default="local[2]", show_default=True)
@click.option("--spark-submit", default=str(ROOT / ".venv-spark" / "bin" / "spark-submit"), show_default=True)
def main(keys: int, repeat: int, master: str, spark_submit: str) -> None:
    first, later, rates = measure(keys, repeat, spark_submit, master, lambda line: print(line, file=sys.stderr))
    table = Table(title=f"Snapshots of {keys:,} keys while they are counted: medians (ranges)")
    for column in ("snapshot", "seconds", "state, MB", "new, MB"):
        table.add_column(column, justify="left" if column == "snapshot" else "right")
    for name, found in (("first", first), (f"{CHANGED:.0%} changed", later)):
        new = [n / 1e6 for n in found.new]
        table.add_row(name, _shown(found.seconds), f"{found.size / 1e6:.1f}", _shown(new))
    Console(width=120).print(table)
    alone, busy = (statistics.median(found) for found in rates.values())
    lost = f"{1 - busy / alone:.1%} lost"
    print(f"throughput: {alone:,.0f} rows/s alone, {busy:,.0f} with one snapshot after the other ({lost})")


def _shown(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    main()
