"""Both ends of a query that goes on: options of its sources, and its sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench import HDFS, Bench, by, once, row, stage
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

STORE = HDFS  # of `bench`

pytestmark = pytest.mark.slow


totals = by("k", "sum(a) s")


def told(bench: Bench, snapshot: str, build: Callable, mode: str = "append", thing: str = "sink") -> tuple:
    item = bench.item(snapshot, build, mode, thing=thing)
    return item.verdict, item.rules


def separated(sep: str) -> Callable:
    """Lines of text, a file a batch."""

    def build(bench: Bench):
        reader = bench.spark.readStream.schema("k string, a long").option("sep", sep).option("maxFilesPerTrigger", "1")
        return stage("totals", reader.csv(str(bench.input())).groupBy("k").agg(F.sum("a").alias("s")))

    return build


def write_lines(bench: Bench, text: str) -> None:
    (bench.input() / f"{bench.files:04d}.csv").write_text(text)
    bench.files += 1


def test_rows_are_read_by_other_options_from_now_on(bench: Bench) -> None:
    write_lines(bench, "a,1\nb,2\n")
    snapshot = bench.run(separated(","))
    assert told(bench, snapshot, separated(";"), "update", "source") == ("carried with loss", ("source.options",))
    write_lines(bench, "a;3\n")
    bench.run(separated(";"), snapshot=snapshot, agree=("q/source-1",))
    assert {k: r["s"] for (k,), r in bench.last("k").items()} == {"a": 4, "b": 2}


def test_a_file_sink_that_begins_in_the_middle_fails_alone_and_is_refused(bench: Bench) -> None:
    bench.spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    bench.write([row("a", 1)])
    snapshot = bench.run(once, "append")
    bench.to_files()
    bench.keys("bcdef")
    assert told(bench, snapshot, once) == ("refused", ("sink.files",))
    with pytest.raises(StreamingQueryException):  # its log misses the batches before when it is compacted
        bench.spark_alone(once, "append")


def test_a_file_sink_with_other_options_goes_on(bench: Bench) -> None:
    folder = Path(bench.to_files())
    bench.write([row("a", 1), row("b", 2)])
    snapshot = bench.run(once, "append")
    bench.to_files(ignoreNullFields="false")
    verdict, rules = told(bench, snapshot, once)
    assert verdict == "carried" and "sink.options" in rules
    bench.write([row("a", 3), row("c", 4)])
    bench.run(once, "append", snapshot=snapshot)
    lines = sorted(line for file in folder.glob("*.json") for line in file.read_text().split())
    assert lines == ['{"k":"a","a":1}', '{"k":"b","a":2}', '{"k":"c","a":4}']


def test_a_file_sink_whose_files_are_written_otherwise_is_agreed_to(bench: Bench) -> None:
    bench.to_files("csv", header="true")
    bench.write([row("a", 1)])
    snapshot = bench.run(once, "append")
    bench.to_files("csv", header="false")
    assert told(bench, snapshot, once) == ("carried with loss", ("sink.options", "sink.file-options"))
    bench.to_files("csv", header="true", compression="gzip")
    assert told(bench, snapshot, once)[0] == "carried"


def test_a_file_sink_whose_files_lie_otherwise_is_agreed_to(bench: Bench) -> None:
    """Read as one folder afterwards, Spark takes its files for none of one table."""
    folder = Path(bench.to_files())
    bench.write([row("a", 1), row("b", 2)])
    snapshot, plain = bench.run(once, "append"), bench.sink
    bench.sink = lambda writer: plain(writer).partitionBy("k")
    verdict, rules = told(bench, snapshot, once)
    assert verdict == "carried with loss" and "sink.layout" in rules
    bench.write([row("c", 4)])
    bench.run(once, "append", snapshot=snapshot, agree=("q/json",))
    assert (folder / "k=c").is_dir() and [path for path in folder.iterdir() if path.suffix == ".json"]
    found = bench.spark.read.schema("k string, a long").json(str(folder)).collect()
    assert sorted(str(r["k"]) for r in found) != ["a", "b", "c"]


@pytest.mark.parametrize("written", ["{}", "{}/", "file:{}", "file://{}", "{}//"])
def test_a_file_sink_in_the_same_folder_is_the_same(bench: Bench, written: str) -> None:
    folder = bench.to_files()
    bench.write([row("a", 1)])
    snapshot = bench.run(once, "append")
    bench.to_files(path=written.format(folder))
    assert told(bench, snapshot, once)[0] == "carried"


def test_another_kind_of_sink_gets_what_comes_from_now_on(bench: Bench) -> None:
    bench.write([row("a", 1), row("b", 2)])
    snapshot = bench.run(totals, "complete")
    bench.sink = lambda writer: writer.format("memory")
    assert told(bench, snapshot, totals, "complete") == ("carried with loss", ("sink.format",))
    bench.write([row("a", 3)])
    bench.run(totals, "complete", snapshot=snapshot, agree=("q/memory",))
    assert sorted(tuple(r) for r in bench.spark.table("q").collect()) == [("a", 4), ("b", 2)]
