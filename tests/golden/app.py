"""The app whose checkpoints are kept: a query for each kind of stage, over numbers that Spark makes itself, so that
neither files nor times of the day are part of a checkpoint; and what each batch of it emits, in plain Python."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.streaming.state import GroupState

from airflow_provider_streamupdate.streaming import StreamingApp, source, stage

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Python workers cannot import test modules

NAME = "golden"
BATCH = 6  # rows
BEGIN = 600  # seconds, of event time: nothing is late before there is a watermark
STEP = 10  # seconds of event time from one row to the next
DELAY = 22  # seconds, of the watermark: nothing ends just at it
WINDOW, GAP = 60, 15  # seconds
FIRST = 4 * BATCH  # rows that a limit lets through, values that come but once

Emitted = dict[tuple[str, int], list[tuple]]


def rows(spark: SparkSession, name: str = "numbers") -> DataFrame:
    """``a``: 0, 1, 2 ...; ``k``: four times x, four times y, and so on; ``ts``: `STEP` seconds more a row."""
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", str(BATCH))
        .option("numPartitions", "1")
        .option("startTimestamp", "0")
        .option("advanceMillisPerBatch", "1000")
        .load()
    )
    return source(name, numbers).select(
        F.col("value").alias("a"),
        F.when(F.col("value") % 8 < 4, "x").otherwise("y").alias("k"),
        F.timestamp_seconds(F.col("value") * STEP + BEGIN).alias("ts"),
    )


def late(spark: SparkSession, name: str = "numbers") -> DataFrame:
    return rows(spark, name).withWatermark("ts", f"{DELAY} seconds")


def count_rows(key: tuple, frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
    import pandas as pd

    n = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((n,))
    yield pd.DataFrame({"k": [key[0]], "n": [n]})


class CountRows(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timers: Any) -> Iterator[Row]:
        n = (self.count.get()[0] if self.count.exists() else 0) + sum(1 for _ in rows)
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self) -> None:
        pass


class CountFrames(CountRows):
    """The same of pandas frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
        import pandas as pd

        n = (self.count.get()[0] if self.count.exists() else 0) + sum(len(frame) for frame in rows)
        self.count.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})


def totals(spark: SparkSession) -> DataFrame:
    return stage("totals", rows(spark).groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))


def windows(spark: SparkSession) -> DataFrame:
    counted = late(spark).groupBy(F.window("ts", f"{WINDOW} seconds")).agg(F.count("*").alias("n"))
    return stage("windows", counted).select(F.col("window.start").cast("long").alias("start"), "n")


def sessions(spark: SparkSession) -> DataFrame:
    counted = late(spark).groupBy(F.session_window("ts", f"{GAP} seconds"), "k").agg(F.count("*").alias("n"))
    return stage("sessions", counted).select(F.col("session_window.start").cast("long").alias("start"), "k", "n")


def once(spark: SparkSession) -> DataFrame:
    repeated = rows(spark).withColumn("m", F.col("a") % FIRST)
    return stage("once", repeated.dropDuplicates(["m"])).select("a")


def once_in_time(spark: SparkSession) -> DataFrame:
    keyed = late(spark).withColumn("m", F.col("a") % BATCH)  # in a batch no key comes twice
    return stage("once-in-time", keyed.dropDuplicatesWithinWatermark(["m"])).select("a")


def pairs(spark: SparkSession) -> DataFrame:
    """Each row with the one four rows later."""
    left = late(spark).select(F.col("a").alias("x"), F.col("ts").alias("x_ts"))
    right = late(spark, "later-numbers").select((F.col("a") - 4).alias("y"), F.col("ts").alias("y_ts"))
    return stage("pairs", left.join(right, F.expr("x = y and y_ts > x_ts and y_ts < x_ts + interval 1 minute"))).select(
        "x"
    )


def counting(spark: SparkSession) -> DataFrame:
    grouped = rows(spark).select("k", "a").groupBy("k")
    counted = grouped.applyInPandasWithState(count_rows, "k string, n long", "n long", "append", "NoTimeout")
    return stage("counting", counted)


def seen(spark: SparkSession) -> DataFrame:
    grouped = rows(spark).select("k", "a").groupBy("k")
    return stage("seen", grouped.transformWithState(CountRows(), "k string, n long", "Update", "None"))


def seen_in_frames(spark: SparkSession) -> DataFrame:
    grouped = rows(spark).select("k", "a").groupBy("k")
    return stage("seen", grouped.transformWithStateInPandas(CountFrames(), "k string, n long", "Update", "None"))


def first(spark: SparkSession) -> DataFrame:
    return stage("first", rows(spark).select("a").limit(FIRST))


QUERIES = {
    "totals": (totals, "update"),
    "windows": (windows, "append"),
    "sessions": (sessions, "append"),
    "once": (once, "append"),
    "once-in-time": (once_in_time, "append"),
    "pairs": (pairs, "append"),
    "counting": (counting, "append"),
    "seen": (seen, "update"),
    "seen-in-frames": (seen_in_frames, "update"),
    "first": (first, "append"),
}
# Every kind of stage and every store, not each with each.
_KEPT = {
    "hdfs": ("totals", "sessions", "pairs", "counting"),
    "rocksdb": ("windows", "once-in-time", "seen"),
    "changelog": ("totals", "pairs", "first"),
    "rocksdb-v2": ("sessions", "pairs"),
    "changelog-v2": ("totals", "once", "seen"),
}


def queries_kept(store: str, spark: str) -> tuple[str, ...]:
    """The queries of a store's archive that this version of Spark has written. Spark 4.0 gives a StatefulProcessor
    pandas frames only."""
    frames = {"seen": "seen-in-frames"} if spark < "4.1" else {}
    return tuple(frames.get(name, name) for name in _KEPT[store])


def app(names: tuple[str, ...], emitted: Emitted) -> StreamingApp:
    """The app with these of its queries; what they emit is kept by query and batch."""
    made = StreamingApp(NAME)

    def add(name: str) -> None:
        build, mode = QUERIES[name]

        def keep(batch: DataFrame, batch_id: int) -> None:
            emitted[name, batch_id] = sorted(tuple(row) for row in batch.collect())

        @made.query(name, seen_batch="replaces")
        def query(spark: SparkSession, params: Any) -> Any:
            return build(spark).writeStream.outputMode(mode).foreachBatch(keep)

    for name in names:
        add(name)
    return made


def expected(name: str, batch: int) -> list[tuple]:
    """What a batch of a query emits."""
    values = range(BATCH * batch, BATCH * (batch + 1))
    before = range(BATCH * (batch + 1))  # these too

    def closed(end: int) -> bool:
        return _watermark(batch - 1) < end <= _watermark(batch)

    if name in ("totals", "counting", "seen", "seen-in-frames"):
        counts = Counter(map(_key, before))
        touched = sorted(set(map(_key, values)))
        if name == "totals":
            return [(k, counts[k], sum(a for a in before if _key(a) == k)) for k in touched]
        return [(k, counts[k]) for k in touched]
    if name == "windows":
        starts = Counter(_time(a) // WINDOW * WINDOW for a in before)
        return sorted((start, n) for start, n in starts.items() if closed(start + WINDOW))
    if name == "sessions":
        runs = Counter(a // 4 for a in before)
        ends = {run: _time(4 * run + 3) + GAP for run in runs}
        return sorted((_time(4 * run), _key(4 * run), n) for run, n in runs.items() if closed(ends[run]))
    if name in ("once", "first"):
        return [(a,) for a in values if a < FIRST]
    if name == "pairs":
        return [(a - 4,) for a in values if a >= 4]
    if name == "once-in-time":
        return _once_in_time(batch)
    raise AssertionError(name)


def _once_in_time(batch: int) -> list[tuple]:
    known: dict[int, int] = {}
    found: list[tuple] = []
    for at in range(batch + 1):
        found = []
        for a in range(BATCH * at, BATCH * (at + 1)):
            if a % BATCH not in known:
                known[a % BATCH] = _time(a) + DELAY
                found.append((a,))
        known = {m: expires for m, expires in known.items() if expires > _watermark(at)}
    return found


def _key(a: int) -> str:
    return "xy"[a // 4 % 2]


def _time(a: int) -> int:
    return BEGIN + a * STEP


def _watermark(batch: int) -> int:
    """In seconds, while the batch runs."""
    return _time(BATCH * batch - 1) - DELAY if batch > 0 else 0
