"""Both ends of a query that goes on: options of its sources, and its sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bench import HDFS, Bench, row, stage
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

STORE = HDFS  # of `bench`

pytestmark = pytest.mark.slow


def item(bench: Bench, snapshot: str, build: Callable, thing: str, mode: str = "update") -> tuple[str, tuple[str, ...]]:
    [found] = [i for i in bench.check(snapshot, build, mode).items if i.thing == thing]
    return found.verdict, found.rules


def totals(bench: Bench):
    return stage("totals", bench.source().groupBy("k").agg(F.sum("a").alias("s")))


def once(bench: Bench):
    return stage("once", bench.source().dropDuplicates(["k"])).select("k", "a")


def separated(by: str) -> Callable:
    """Lines of text, a file a batch."""

    def build(bench: Bench):
        reader = bench.spark.readStream.schema("k string, a long").option("sep", by).option("maxFilesPerTrigger", "1")
        return stage("totals", reader.csv(str(bench.input())).groupBy("k").agg(F.sum("a").alias("s")))

    return build


def write_lines(bench: Bench, text: str) -> None:
    (bench.input() / f"{bench.files:04d}.csv").write_text(text)
    bench.files += 1


def test_rows_are_read_by_other_options_from_now_on(bench: Bench) -> None:
    write_lines(bench, "a,1\nb,2\n")
    snapshot = bench.run(separated(","))
    assert item(bench, snapshot, separated(";"), "source") == ("carried with loss", ("source.options",))
    write_lines(bench, "a;3\n")
    bench.run(separated(";"), snapshot=snapshot, agree=("q/source-1",))
    assert {k: r["s"] for (k,), r in bench.last("k").items()} == {"a": 4, "b": 2}


def files(folder: Path, **options: str) -> Callable:
    return lambda writer: writer.format("json").option("path", str(folder)).options(**options)


def written(folder: Path) -> list[str]:
    return sorted(line for file in folder.glob("*.json") for line in file.read_text().split())


def test_a_file_sink_that_begins_in_the_middle_fails_alone_and_is_refused(bench: Bench) -> None:
    bench.spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    bench.write([row("a", 1)])
    snapshot = bench.run(once, "append")
    bench.sink = files(bench.folder / "out")
    for k in "bcdef":
        bench.write([row(k, 1)])
    assert item(bench, snapshot, once, "sink", "append") == ("refused", ("sink.files",))
    with pytest.raises(StreamingQueryException):  # its log misses the batches before when it is compacted
        bench.spark_alone(once, "append")


def test_a_file_sink_with_other_options_goes_on(bench: Bench) -> None:
    folder = bench.folder / "out"
    bench.sink = files(folder)
    bench.write([row("a", 1), row("b", 2)])
    snapshot = bench.run(once, "append")
    bench.sink = files(folder, ignoreNullFields="false")
    verdict, rules = item(bench, snapshot, once, "sink", "append")
    assert verdict == "carried" and "sink.options" in rules
    bench.write([row("a", 3), row("c", 4)])
    bench.run(once, "append", snapshot=snapshot)
    assert written(folder) == ['{"k":"a","a":1}', '{"k":"b","a":2}', '{"k":"c","a":4}']


def test_a_file_sink_whose_files_are_written_otherwise_is_agreed_to(bench: Bench) -> None:
    bench.sink = lambda writer: files(bench.folder / "out", header="true")(writer).format("csv")
    bench.write([row("a", 1)])
    snapshot = bench.run(once, "append")
    bench.sink = lambda writer: files(bench.folder / "out", header="false")(writer).format("csv")
    assert item(bench, snapshot, once, "sink", "append") == ("carried with loss", ("sink.options", "sink.file-options"))
    bench.sink = lambda writer: files(bench.folder / "out", header="true", compression="gzip")(writer).format("csv")
    assert item(bench, snapshot, once, "sink", "append")[0] == "carried"


def test_a_file_sink_whose_files_lie_otherwise_is_agreed_to(bench: Bench) -> None:
    """Read as one folder afterwards, Spark takes its files for none of one table."""
    folder = bench.folder / "out"
    bench.sink = files(folder)
    bench.write([row("a", 1), row("b", 2)])
    snapshot = bench.run(once, "append")
    bench.sink = lambda writer: files(folder)(writer).partitionBy("k")
    verdict, rules = item(bench, snapshot, once, "sink", "append")
    assert verdict == "carried with loss" and "sink.layout" in rules
    bench.write([row("c", 4)])
    bench.run(once, "append", snapshot=snapshot, agree=("q/json",))
    assert (folder / "k=c").is_dir() and [path for path in folder.iterdir() if path.suffix == ".json"]
    found = bench.spark.read.schema("k string, a long").json(str(folder)).collect()
    assert sorted(str(r["k"]) for r in found) != ["a", "b", "c"]


@pytest.mark.parametrize("written", ["{}", "{}/", "file:{}", "file://{}", "{}//"])
def test_a_file_sink_in_the_same_folder_is_the_same(bench: Bench, written: str) -> None:
    folder = bench.folder / "out"
    bench.sink = files(folder)
    bench.write([row("a", 1)])
    snapshot = bench.run(once, "append")
    bench.sink = lambda writer: files(folder)(writer).option("path", written.format(folder))
    assert item(bench, snapshot, once, "sink", "append")[0] == "carried"


def test_another_kind_of_sink_gets_what_comes_from_now_on(bench: Bench) -> None:
    bench.write([row("a", 1), row("b", 2)])
    snapshot = bench.run(totals, "complete")
    bench.sink = lambda writer: writer.format("memory")
    assert item(bench, snapshot, totals, "sink", "complete") == ("carried with loss", ("sink.format",))
    bench.write([row("a", 3)])
    bench.run(totals, "complete", snapshot=snapshot, agree=("q/memory",))
    assert sorted(tuple(r) for r in bench.spark.table("q").collect()) == [("a", 4), ("b", 2)]
