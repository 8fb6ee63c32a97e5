"""A watermark that comes, goes, moves to another column or gets another source: what Spark does with the state from
before is what the report says, and is agreed to by the watermark's name alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bench import Bench, row
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import source, stage

SCHEMA = "k string, ts timestamp, other timestamp"


def at(k: str, ts: int, other: int = 0) -> dict:
    return {"k": k, "ts": row("", 0, minute=ts)["ts"], "other": row("", 0, minute=other)["ts"]}


def counted(column: str | None, mode: str = "update") -> Callable[[Bench], DataFrame]:
    """Counts of windows by `ts`, with a watermark on this column."""

    def build(bench: Bench) -> DataFrame:
        rows = bench.source(SCHEMA)
        rows = rows.withWatermark(column, "10 minutes") if column else rows
        found = stage("w", rows.groupBy(F.window("ts", "10 minutes"), "k").count())
        return found.select("k", F.date_format("window.start", "HH:mm").alias("start"), "count")

    return build


def once(column: str | None) -> Callable[[Bench], DataFrame]:
    def build(bench: Bench) -> DataFrame:
        rows = bench.source(SCHEMA)
        rows = rows.withWatermark(column, "10 minutes") if column else rows
        return stage("w", rows.dropDuplicates(["k", "ts"])).select("k", F.date_format("ts", "HH:mm").alias("start"))

    return build


OLD, LATE, NOW = at("a", 5), at("a", 6), at("z", 200)
CHANGES = {  # versions; rows before, rows after in files; what the new version must emit of "a"
    # the watermark comes to 190, and closes the window of a: a row that comes two batches later is dropped
    "added": (counted(None), counted("ts"), [OLD], [[NOW], [NOW], [LATE]], []),
    "added, in time": (counted(None), counted("ts"), [OLD], [[LATE]], [("a", "00:00", 2)]),
    # the old watermark has closed the window of a: a late row begins it anew
    "removed": (counted("ts"), counted(None), [OLD, NOW, NOW], [[LATE]], [("a", "00:00", 1)]),
    "removed, open": (counted("ts"), counted(None), [OLD], [[LATE]], [("a", "00:00", 2)]),
    "removed from a deduplication": (once("ts"), once(None), [OLD, NOW, NOW], [[OLD]], [("a", "00:05")]),
    "added to a deduplication": (once(None), once("ts"), [OLD], [[NOW], [OLD], [LATE]], []),
    # by `other` the old watermark came to 190: the windows by ts behind it are closed
    "moved": (counted("other"), counted("ts"), [OLD, at("z", 0, 200), NOW], [[LATE]], []),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_each_change_of_a_watermark_loses(bench: Bench, name: str) -> None:
    old, new, before, after, expected = CHANGES[name]
    for each in before:
        bench.write([each])
    snapshot = bench.run(old)
    report = bench.check(snapshot, new)
    assert [(i.name, i.rules) for i in report.items if i.blocks] == [
        ("q:watermark", (f"watermark.{'column' if name == 'moved' else name.split(',')[0].split(' ')[0]}",))
    ]
    bench.emitted.clear()
    for rows in after:
        bench.write(rows)
    bench.run(new, snapshot=snapshot, agree=("q:watermark",))
    assert [tuple(r.values()) for r in bench.all() if r["k"] == "a"] == expected


def test_another_source_below_a_watermark(bench: Bench) -> None:
    """The state continues, and the watermark; rows of the new source behind it are late."""

    def version(*names: str) -> Callable[[Bench], DataFrame]:
        def build(bench: Bench) -> DataFrame:
            first, *others = (source(name, bench.source(SCHEMA, name)) for name in names)
            for other in others:
                first = first.union(other)
            rows = first.withWatermark("ts", "10 minutes")
            found = stage("w", rows.groupBy(F.window("ts", "10 minutes"), "k").count())
            return found.select("k", F.date_format("window.start", "HH:mm").alias("start"), "count")

        return build

    for rows in ([at("a", 5)], [at("b", 25)], [at("c", 26)]):  # the watermark comes to 16
        bench.write(rows, "one")
    snapshot = bench.run(version("one"))
    report = bench.check(snapshot, version("one", "two"))
    assert report.compatible, report.problems
    [mark] = [i for i in report.items if i.thing == "watermark"]
    assert (mark.verdict, mark.rules) == ("carried", ("watermark.new-source",)) and "source two" in mark.reason
    bench.emitted.clear()
    bench.write([at("b", 24), at("a", 6)], "two")  # a's is late
    bench.write([at("c", 29)], "one")
    bench.run(version("one", "two"), snapshot=snapshot)
    assert {tuple(r.values()) for r in bench.all()} == {("b", "00:20", 2), ("c", "00:20", 2)}
