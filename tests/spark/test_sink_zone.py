"""Times in the files of a sink that do not say their zone, in a query without state."""

from __future__ import annotations

import pytest
from bench import HDFS, Bench, row

PLAIN = {"timestampFormat": "yyyy-MM-dd HH:mm:ss"}
ZONE = "spark.sql.session.timeZone"


def times(bench: Bench):
    return bench.source().select("k", "ts")


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
    folder, plain = bench.to_files(kind, **options), bench.sink
    bench.sink = lambda writer: plain(writer).partitionBy(*partitions) if partitions else plain(writer)
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


def test_orc_is_written_by_java_s(spark, tmp_path, zone_of_java) -> None:
    bench = Bench(spark, tmp_path, HDFS)
    folder = bench.to_files("orc")
    bench.write([row("x", 1)])
    zone_of_java("UTC")
    snapshot = bench.run(times, "append")
    zone_of_java("Asia/Tokyo")
    [item] = [i for i in bench.check(snapshot, times, "append").items if i.blocks]
    assert item.rules == ("sink.zone",) and "Java's zone" in item.reason
    bench.write([row("x", 1)])
    bench.run(times, "append", snapshot=snapshot, agree=(item.name,))
    assert spark.read.orc(folder).distinct().count() == 2
