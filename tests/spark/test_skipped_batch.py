"""A driver that died between a sink's commit and Spark's own: the next version finds the batch in the sink, which
skips it, and goes on with the state that the batch left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import pytest
from bench import HDFS, ROCKSDB, Bench, row, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.state.export import export

STORES = [
    pytest.param((HDFS,), id="hdfs"),
    pytest.param((ROCKSDB, False), id="rocksdb", marks=pytest.mark.slow),
    pytest.param((ROCKSDB, True), id="changelog"),
]


def once(bench: Bench):
    return stage("once", bench.source().dropDuplicates(["k"])).select("k", "a")


def twice(bench: Bench):
    """With a stage more, which starts empty, and changes the first one's operator id."""
    return stage("pairs", once(bench).dropDuplicates(["k", "a"]))


def written(bench: Bench) -> Counter:
    """What readers of the file sink see: the files its own log names, each once (a compacted log names it again)."""
    log = bench.folder / "out" / "_spark_metadata"
    entries = [json.loads(line) for f in log.iterdir() if f.name[0] != "." for line in f.read_text().split("\n")[1:]]
    files = (bench.folder / "out" / name for name in {entry["path"].rpartition("/")[2] for entry in entries})
    return Counter(json.loads(line)["k"] for file in files for line in file.read_text().splitlines())


def die_before_the_commit(bench: Bench, build: Callable) -> str:
    """As if the driver had been killed then; the snapshot that an update takes of what it left."""
    bench.run(build, "append")
    checkpoint = bench.registry.checkpoint("d1", "q")
    checkpoint.remove(f"commits/{max(int(n) for n in checkpoint.names('commits'))}")
    export(bench.registry, "d1", "left", bench.registry.plan("d1"), True, {})
    return "left"


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("new", [once, pytest.param(twice, marks=pytest.mark.slow)])
def test_a_batch_that_the_sink_has_is_skipped_and_its_state_goes_on(
    spark, tmp_path, store: tuple, new: Callable
) -> None:
    bench = Bench(spark, tmp_path, *store)
    bench.sink = lambda writer: writer.format("json").option("path", str(tmp_path / "out"))
    for rows in ([row("a", 1)], [row("b", 1), row("a", 2)], [row("c", 1), row("a", 3)]):
        bench.write(rows)
    left = die_before_the_commit(bench, once)
    bench.write([row("c", 5), row("d", 1)])  # c came in the batch that is skipped
    bench.run(new, "append", snapshot=left)
    assert written(bench) == Counter("abcd")


def windows(*sums: str) -> Callable:
    """Sums by ten minutes; in another order the state is migrated."""

    def build(bench: Bench):
        rows = bench.source().withWatermark("ts", "0 minutes").groupBy(F.window("ts", "10 minutes"), "k")
        return stage("w", rows.agg(*(F.sum(c).alias(c) for c in sums))).select("k", *sums)

    return build


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "how", ["aggregates in another order", pytest.param("more partitions", marks=pytest.mark.slow)]
)
def test_a_skipped_batch_s_state_is_migrated(spark, tmp_path, store: tuple, how: str) -> None:
    """The sink has the batch that was not committed, and the stage's state is rewritten in the same update."""
    bench = Bench(spark, tmp_path, *store)
    bench.sink = lambda writer: writer.format("json").option("path", str(tmp_path / "out"))
    for rows in ([row("a", 1, 10)], [row("b", 2, 20, minute=1), row("a", 1, 10)], [row("a", 1, 10), row("c", 3, 30)]):
        bench.write(rows)
    left = die_before_the_commit(bench, windows("a", "b"))
    new = windows("a", "b")
    if how == "more partitions":
        bench.spark.conf.set("spark.sql.shuffle.partitions", "3")
    else:
        new = windows("b", "a")
    verdicts = {i.name: i.verdict for i in bench.check(left, new, "append").items}
    assert verdicts["q/w"] == "migrated"
    bench.write([row("a", 5, 50), row("z", 1, 1, minute=60)])  # the window of the first ones ends
    bench.run(new, "append", snapshot=left)
    out = [json.loads(line) for f in (tmp_path / "out").glob("*.json") for line in f.read_text().splitlines()]
    assert sorted((r["k"], r["a"], r["b"]) for r in out) == [("a", 8, 80), ("b", 2, 20), ("c", 3, 30)]


@pytest.mark.slow
def test_a_batch_that_the_sink_lacks_is_run_again(spark, tmp_path) -> None:
    """The state it had left is written anew."""
    bench = Bench(spark, tmp_path, ROCKSDB, True)
    for rows in ([row("a", 1)], [row("b", 1), row("a", 2)]):
        bench.write(rows)
    left = die_before_the_commit(bench, once)
    lost = bench.emitted.pop(max(bench.emitted))
    bench.write([row("b", 5), row("d", 1)])
    bench.run(once, "append", snapshot=left)
    assert [r["k"] for r in lost] == ["b"]
    assert Counter(r["k"] for r in bench.all()) == Counter("abd")
