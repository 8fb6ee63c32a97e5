"""Times in the files of a sink that do not say their zone, in a query without state."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from bench import HDFS, Bench, row

PLAIN = {"timestampFormat": "yyyy-MM-dd HH:mm:ss"}
ZONE = "spark.sql.session.timeZone"


def times(bench: Bench):
    return bench.source().select("k", "ts")


def to_files(bench: Bench, kind: str, *partitions: str, **options: str) -> str:
    folder = str(bench.folder / "out")

    def written(writer):
        made = writer.partitionBy(*partitions) if partitions else writer
        return made.format(kind).options(**options).option("path", folder)

    bench.sink = written
    return folder


@pytest.mark.parametrize(
    ("kind", "partitions", "options", "asked"),
    [
        ("parquet", ("ts",), {}, True),
        ("csv", (), PLAIN, True),
        ("json", (), PLAIN, True),
        ("parquet", (), {}, False),
        ("json", (), {}, False),
        ("csv", (), {**PLAIN, "timeZone": "UTC"}, False),
    ],
)
def test_times_without_a_zone_are_written_by_the_session_s(
    kind: str, partitions: tuple[str, ...], options: dict[str, str], asked: bool, spark, tmp_path
) -> None:
    """Of what is not asked about all rows have one time, in whichever zone they are read."""
    bench = Bench(spark, tmp_path, HDFS)
    folder = to_files(bench, kind, *partitions, **options)
    bench.write([row("x", 1)])
    snapshot = bench.run(times, "append")
    assert not [i for i in bench.check(snapshot, times, "append").items if i.blocks]
    spark.conf.set(ZONE, "Asia/Tokyo")
    blocking = [i for i in bench.check(snapshot, times, "append").items if i.blocks]
    assert [i.rules for i in blocking] == ([("sink.zone",)] if asked else [])
    bench.write([row("x", 1)])
    bench.run(times, "append", snapshot=snapshot, agree=tuple(i.name for i in blocking))
    read = spark.read.schema("k string, ts timestamp").format(kind).options(**options).load(folder)
    assert read.distinct().count() == (2 if asked else 1)


@pytest.fixture
def zone_of_java(spark) -> Iterator[Callable[[str], None]]:
    kind = spark._jvm.java.util.TimeZone
    before = kind.getDefault()
    yield lambda name: kind.setDefault(kind.getTimeZone(name))
    kind.setDefault(before)


def test_orc_is_written_by_java_s(spark, tmp_path, zone_of_java) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    folder = to_files(bench, "orc")
    bench.write([row("x", 1)])
    zone_of_java("UTC")
    snapshot = bench.run(times, "append")
    zone_of_java("Asia/Tokyo")
    [item] = [i for i in bench.check(snapshot, times, "append").items if i.blocks]
    assert item.rules == ("sink.zone",) and "Java's zone" in item.reason
    bench.write([row("x", 1)])
    bench.run(times, "append", snapshot=snapshot, agree=(item.name,))
    assert spark.read.orc(folder).distinct().count() == 2
