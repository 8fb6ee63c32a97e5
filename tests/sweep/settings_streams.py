# ruff: noqa: E501 (queries)
"""Streaming queries under other settings: from the start, and from a restart in the middle.

    python -m tests.sweep.settings_streams STREAMS.json [--minutes 30] [--which uncompared]

Each query reads three files, one a batch. It is run with the defaults (A), with a setting changed (B), and with the
setting changed after the second file (A then B), as an update that changes it would. A setting of which B or A then B
emit other rows than A changes a result. Settings are tried in groups, as settings.py does.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from .settings import RESTARTED, Found, Results, Run, arguments, forget, halves, session_with, start
from .settings_outcome import condition
from .settings_registry import settings
from .settings_trace import read_since

Build = Callable[[SparkSession, Path], DataFrame]
SLOW = {
    (f"spark.sql.{key}", "100000")
    for key in ("shuffle.partitions", "leafNodeDefaultParallelism", "files.minPartitionNum")
}
ENDS_WITHIN = 40.0  # seconds: one takes about 5; with hundred thousand partitions it would take minutes
ROWS = "k string, a long, f double, ts timestamp"
FILES = (
    # late rows, a gap, a double that does not add up exactly, a null key, another day
    [("x", 1, 0.1, "10:00:00"), ("y", 2, 0.2, "10:04:00"), ("x", 3, 0.3, "10:11:00"), (None, 4, 0.4, "10:12:00")],
    [("x", 5, 0.5, "10:02:00"), ("y", 6, 0.6, "10:35:00"), ("z", 7, 0.7, "10:35:30"), ("x", 1, 0.1, "10:00:00")],
    [("y", 8, 0.8, "10:31:00"), ("x", 9, 0.9, "11:30:00"), ("y", 2, 0.2, "10:04:00"), ("w", 10, 1.0, "10:36:00")],
)


def write_streams(folder: Path, files: range) -> None:
    for number in files:
        for side, minutes in (("left", 0), ("right", 3)):
            path = folder / side / f"{number}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [{"k": k, "a": a + minutes, "f": f, "ts": f"2024-01-01T{t}.000"} for k, a, f, t in FILES[number]]
            path.write_text("".join(json.dumps(r) + "\n" for r in rows))
            # Spark reads by time of change, in milliseconds, which files that are written at once share: in which order
            # they are read, and with it which rows are late, would be chance.
            os.utime(path, (1_700_000_000 + number,) * 2)


def _ended(query: StreamingQuery) -> bool:
    """Wait for its end: False when it takes longer than ENDS_WITHIN seconds, or its thread dies, of which Spark does not
    tell (a StackOverflowError)."""
    thread = query._jsq.streamingQuery().queryExecutionThread()  # type: ignore[attr-defined]
    deadline = time.time() + ENDS_WITHIN
    while thread.isAlive() and time.time() < deadline:
        if query.awaitTermination(1):
            return True
    alive, ended = thread.isAlive(), query.awaitTermination(1)
    if alive and not ended:
        query.stop()
    return bool(ended)


def _side(s: SparkSession, folder: Path, side: str = "left", delay: str = "10 minutes") -> DataFrame:
    reader = s.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder / side)).withWatermark("ts", delay)


def _count(key: tuple[str], frames: object, state: object) -> object:
    n = sum(len(f) for f in frames) + (state.get[0] if state.exists else 0)  # type: ignore[attr-defined]
    state.update((n,))  # type: ignore[attr-defined]
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


def _join(s: SparkSession, folder: Path, kind: str) -> DataFrame:
    left = _side(s, folder).select(F.col("k").alias("lk"), F.col("a").alias("la"), F.col("ts").alias("lt"))
    right = _side(s, folder, "right", "20 minutes")
    near = F.expr("lk = k AND lt >= ts - INTERVAL 5 MINUTES AND lt <= ts + INTERVAL 5 MINUTES")
    return left.join(right, near, kind).select("lk", "la", "a", "ts")


QUERIES: dict[str, tuple[str, Build]] = {
    "windows": ("append", lambda s, d: _side(s, d).groupBy(F.window("ts", "10 minutes"), "k").agg(F.sum("a"), F.sum("f"))),
    "totals": ("update", lambda s, d: _side(s, d).groupBy("k").agg(F.count("*"), F.avg("f"), F.max("ts"), F.sum("a"))),
    "all": ("complete", lambda s, d: _side(s, d).groupBy(F.date_format("ts", "HH")).agg(F.collect_set("k"))),
    "two watermarks": ("append", lambda s, d: _side(s, d).union(_side(s, d, "right", "1 hour").where("a % 2 = 0")).groupBy(F.window("ts", "10 minutes")).count()),
    "inner join": ("append", lambda s, d: _join(s, d, "inner")),
    "left join": ("append", lambda s, d: _join(s, d, "left_outer")),
    "once": ("append", lambda s, d: _side(s, d).dropDuplicates(["k", "a"])),
    "once in time": ("append", lambda s, d: _side(s, d).dropDuplicatesWithinWatermark(["k"])),
    "sessions": ("append", lambda s, d: _side(s, d).groupBy(F.session_window("ts", "5 minutes"), "k").agg(F.sum("a"))),
    "two stages": ("append", lambda s, d: _side(s, d).groupBy(F.window("ts", "5 minutes"), "k").count().groupBy(F.window("window", "10 minutes")).agg(F.sum("count"))),
    "a limit": ("append", lambda s, d: _side(s, d).limit(6)),
    "pandas state": ("update", lambda s, d: _side(s, d).groupBy("k").applyInPandasWithState(_count, "k string, n long", "n long", "update", "NoTimeout")),
    "no state": ("append", lambda s, d: _side(s, d).where("a > 1").selectExpr("k", "a / 2", "cast(ts AS date)")),
    "never": ("append", lambda s, d: _side(s, d).where("false").dropDuplicates(["k"])),
    "distinct": ("append", lambda s, d: _side(s, d).select("k", F.col("a").cast("int")).distinct()),
}  # fmt: skip


@attrs.define
class Streams:
    spark: SparkSession
    folder: Path
    expected: dict[str, tuple[str, ...]] = attrs.field(factory=dict)

    def run(self, name: str, parts: tuple[dict[str, str], ...]) -> tuple[str, ...]:
        """The rows emitted, sorted. parts: the settings of each run; the files are shared out between the runs."""
        mode, build = QUERIES[name]
        place = self.folder / uuid.uuid4().hex
        rows: list[str] = []

        def keep(df: DataFrame, batch: int) -> None:
            rows.extend(map(repr, df.collect()))

        try:
            for number, flips in enumerate(parts):
                write_streams(place, range(3) if len(parts) == 1 else (range(2), range(2, 3))[number])
                session = session_with(self.spark, flips)
                try:
                    writer = build(session, place).writeStream.outputMode(mode).foreachBatch(keep)
                    query = writer.option("checkpointLocation", str(place / "saved")).trigger(availableNow=True).start()
                    if not _ended(query):
                        rows.append("does not end")
                finally:
                    forget(self.spark, flips)
        except Exception as error:
            rows.append(f"error {condition(error)}")
        finally:
            shutil.rmtree(place, ignore_errors=True)
        return tuple(sorted(rows))

    def changed(self, flips: dict[str, str], names: list[str], enough: int = 3) -> dict[str, str]:
        """What the settings change of the queries named, until so many are found: where one makes queries endless, each
        costs its whole time."""
        found: dict[str, str] = {}
        for name in names:
            if len({text.removesuffix(RESTARTED) for text in found}) >= enough:
                break
            for said, parts in ((name, (flips,)), (name + RESTARTED, ({}, flips))):
                rows = self.run(name, parts)
                if rows != self.expected[said]:
                    found[said] = "errors" if any(r.startswith("error ") for r in rows) else "values"
        return found

    def group(self, flips: dict[str, str]) -> list[Found] | None:
        """As settings.Sweep.group."""
        together = self.changed(flips, list(QUERIES))
        if not together:
            return None
        names = sorted({t.removesuffix(RESTARTED) for t in together})[:3]
        return halves(flips, lambda some: self.changed(some, names, len(names) if len(some) == 1 else 1), {})


def sweep(path: Path, minutes: float, wanted: Callable[[str], bool]) -> bool:
    """As settings.sweep: whether all were tried in the time."""
    folder = Path(tempfile.mkdtemp(prefix="streamupdate-streams-"))
    spark = start(folder)
    streams, results, read = Streams(spark, folder), Results.of(path), set[str]()
    run = Run(results, minutes)
    for name in list(QUERIES):
        read_since(spark)
        streams.expected[name] = streams.run(name, ({},))
        streams.expected[name + RESTARTED] = streams.run(name, ({}, {}))
        read |= read_since(spark)
        run.say(f"{name}: {len(streams.expected[name])} rows")
        if streams.run(name, ({},)) != streams.expected[name]:
            run.say(f"not repeatable: {name}")
            del QUERIES[name]
    known = settings(spark)
    results.read[""] = read
    for key, value in sorted(SLOW):
        run.say(f"not tried: {key}={value} (each batch would have that many tasks; smaller numbers are tried)")
    tries = [(s.key, v) for s in known for v in s.values if s.key in read and wanted(s.key) and (s.key, v) not in SLOW]
    save = partial(results.save, known, len(QUERIES))
    done = run.settle(tries, results.harmless.setdefault("", set()), streams.group, save)
    save()
    return done


if __name__ == "__main__":
    given = arguments(__doc__)
    sys.exit(0 if sweep(given.results, given.minutes, given.wanted) else 1)
