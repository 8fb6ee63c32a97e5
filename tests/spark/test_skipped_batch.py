"""A driver that died between a sink's commit and Spark's own: the next version finds the batch in the sink, which
skips it, and goes on with the state that the batch left."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable

import attrs
import pytest
from bench import ROCKSDB, Bench, by, feed, once, row, stage, stores

from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot
from airflow_provider_streamupdate.core.errors import ApplicationError
from airflow_provider_streamupdate.core.plan.plan import SinkPlan
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.streaming.restore.skipped import skipped_problem

STORES = stores("changelog hdfs rocksdb")
ONCE_ROWS = [row("a", 1)], [row("b", 1), row("a", 2)], [row("c", 1), row("a", 3)]
WINDOW_ROWS = [row("a", 1, 10)], [row("b", 2, 20, minute=1), row("a", 1, 10)], [row("a", 1, 10), row("c", 3, 30)]
WINDOW_ENDS = [row("a", 5, 50), row("z", 1, 1, minute=60)]  # of the first ones
SUMS = [("a", 8, 80), ("b", 2, 20), ("c", 3, 30)]


def sums(rows: list[dict]) -> list[tuple]:
    return sorted((r["k"], r["a"], r["b"]) for r in rows)


VALIDATION = "spark.sql.streaming.stateStore.commitValidation.enabled"


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
    bench.to_files()
    feed(bench, ONCE_ROWS)
    left = die_before_the_commit(bench, once)
    bench.write([row("c", 5), row("d", 1)])  # c came in the batch that is skipped
    bench.run(new, "append", snapshot=left)
    assert written(bench) == Counter("abcd")


def windows(*sums: str) -> Callable:
    """Sums by ten minutes; in another order the state is migrated."""
    made = by("window(ts, '10 minutes'); k", *(f"sum({c}) {c}" for c in sums), name="w", delay="0 minutes")
    return lambda bench: made(bench).select("k", *sums)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize(
    "how", ["aggregates in another order", pytest.param("more partitions", marks=pytest.mark.slow)]
)
def test_a_skipped_batch_s_state_is_migrated(spark, tmp_path, store: tuple, how: str) -> None:
    """The sink has the batch that was not committed, and the stage's state is rewritten in the same update."""
    bench = Bench(spark, tmp_path, *store)
    bench.to_files()
    feed(bench, WINDOW_ROWS)
    left = die_before_the_commit(bench, windows("a", "b"))
    new = windows("a", "b") if how == "more partitions" else windows("b", "a")
    if how == "more partitions":
        bench.spark.conf.set("spark.sql.shuffle.partitions", "3")
    assert bench.item(left, new, "append").verdict == "migrated"
    bench.write(WINDOW_ENDS)
    bench.run(new, "append", snapshot=left)
    out = [json.loads(line) for f in (tmp_path / "out").glob("*.json") for line in f.read_text().splitlines()]
    assert sums(out) == SUMS


@pytest.mark.slow
def test_a_batch_that_the_sink_lacks_is_run_again(spark, tmp_path) -> None:
    """The state it had left is written anew."""
    bench = Bench(spark, tmp_path, ROCKSDB, True)
    feed(bench, ONCE_ROWS[:2])
    left = die_before_the_commit(bench, once)
    lost = bench.emitted.pop(max(bench.emitted))
    bench.write([row("b", 5), row("d", 1)])
    bench.run(once, "append", snapshot=left)
    assert [r["k"] for r in lost] == ["b"]
    assert Counter(r["k"] for r in bench.all()) == Counter("abd")


def skipping(bench: Bench) -> None:
    """The sink is a function that does not look at the rows of a batch that it has. Spark has to be told to let it."""
    bench.spark.conf.set(VALIDATION, "false")

    def keep(batch, number: int) -> None:
        if number not in bench.emitted:
            bench.emitted[number] = [r.asDict(recursive=True) for r in batch.collect()]

    bench.sink, bench.sink_seen_batch = lambda writer: writer.foreachBatch(keep), "skips"


def refused(bench: Bench, left: str, new: Callable) -> str:
    """The problem that the check has; a restore has it too, and writes nothing."""
    report = bench.spark_check(left, new, "append")
    [problem] = report.problems
    with pytest.raises(ApplicationError, match="which did not commit"):
        bench.run(new, "append", snapshot=left)
    assert bench.registry.checkpoint(f"d{bench.deployments}", "q").files() == []
    return problem


def finish(bench: Bench, old: Callable) -> str:
    """The old version is started again; what it has left then."""
    plan, writers = bench.plan(old, "append")
    bench._read_all(writers, bench.registry.checkpoint("d1", "q"), plan)
    export(bench.registry, "d1", "finished", plan, True, {})
    return "finished"


@pytest.mark.parametrize("store", STORES)
def test_where_the_sink_does_not_tell_a_stage_is_migrated_once_the_batch_is_finished(
    spark, tmp_path, store: tuple
) -> None:
    """Nobody knows whether that batch runs again, and one state is not right for both."""
    bench = Bench(spark, tmp_path, *store)
    skipping(bench)
    feed(bench, WINDOW_ROWS)
    left = die_before_the_commit(bench, windows("a", "b"))
    problem = refused(bench, left, windows("b", "a"))
    assert "may have batch 2" in problem and "start the old version again" in problem
    left = finish(bench, windows("a", "b"))
    bench.write(WINDOW_ENDS)
    bench.run(windows("b", "a"), "append", snapshot=left)
    assert sums(bench.all()) == SUMS


@pytest.mark.parametrize("store", STORES)
def test_a_function_computes_its_batch_again_and_the_stage_is_migrated(spark, tmp_path, store: tuple) -> None:
    """As Spark sees to. The state that was left is of no use: it is made again."""
    bench = Bench(spark, tmp_path, *store)
    feed(bench, WINDOW_ROWS)
    left = die_before_the_commit(bench, windows("a", "b"))
    assert bench.spark_check(left, windows("b", "a"), "append").compatible
    bench.write(WINDOW_ENDS)
    bench.run(windows("b", "a"), "append", snapshot=left)
    assert sums(bench.all()) == SUMS


def test_spark_ends_a_query_whose_function_leaves_state_unmade(bench: Bench, spark) -> None:
    skipping(bench)
    spark.conf.set(VALIDATION, "true")
    bench.write([row("a", 1)])
    bench.emitted[0] = []
    with pytest.raises(Exception, match="STREAM_FAILED"):
        bench.run(once, "append")


def unrepeated(bench: Bench):
    return stage("rows", bench.source().dropDuplicates(["k", "a"])).select("k", "a")


def first_of_unrepeated(bench: Bench):
    return stage("first", unrepeated(bench).dropDuplicates(["k"]))


@pytest.mark.parametrize("store", STORES)
def test_an_added_stage_keeps_what_a_batch_that_runs_again_brings(spark, tmp_path, store: tuple) -> None:
    """The file sink does not have the batch in flight, though all of its state is there."""
    bench = Bench(spark, tmp_path, *store)
    bench.to_files()
    feed(bench, ONCE_ROWS[:2])
    left = die_before_the_commit(bench, unrepeated)
    (tmp_path / "out" / "_spark_metadata" / "1").unlink()
    bench.write([row("c", 1)])
    bench.run(first_of_unrepeated, "append", snapshot=left)
    spark.sparkContext._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()  # as a new driver has none
    bench.write([row("b", 5), row("d", 1)])
    bench.spark_alone(first_of_unrepeated, "append")
    assert written(bench) == Counter("aabcd")  # the first a came before there was the stage


def test_a_stage_is_not_added_where_the_sink_does_not_tell(bench: Bench) -> None:
    skipping(bench)
    feed(bench, ONCE_ROWS[:2])
    left = die_before_the_commit(bench, unrepeated)
    assert "no stage can be added" in refused(bench, left, first_of_unrepeated)
    left = finish(bench, unrepeated)
    bench.write([row("b", 5), row("d", 1), row("d", 2)])
    bench.run(first_of_unrepeated, "append", snapshot=left)
    assert Counter(r["k"] for r in bench.all()) == Counter("abab" + "d")


@pytest.mark.parametrize("changelog", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_in_format_2_a_batch_that_the_sink_has_is_refused(spark, tmp_path, changelog: bool) -> None:
    bench = Bench(spark, tmp_path, ROCKSDB, changelog, 2)
    bench.to_files()
    feed(bench, ONCE_ROWS[:2])
    left = die_before_the_commit(bench, once)
    assert "has batch 1" in refused(bench, left, once)
    (tmp_path / "out" / "_spark_metadata" / "1").unlink()  # it runs again
    bench.write([row("b", 5), row("d", 1)])
    bench.run(once, "append", snapshot=left)
    assert written(bench) == Counter("abd")


@pytest.mark.parametrize(
    ("format", "fork", "ahead", "problem"),
    [
        ("delta", False, True, True),
        ("delta", True, True, False),  # its query id is new to the table
        ("delta", False, False, False),  # the batch was not computed whole
        ("org.example.sink", False, True, True),
        ("kafka", False, True, False),
    ],
)
def test_which_sinks_may_skip_a_batch(bench: Bench, format: str, fork: bool, ahead: bool, problem: bool) -> None:
    old, new = (
        attrs.evolve(bench.plan(build, "append")[0].queries[0], sink=SinkPlan(format=format))
        for build in (windows("a", "b"), windows("b", "a"))
    )
    saved = QuerySnapshot(batch=3, query_id="id", files=(), in_flight=4, state_ahead=ahead)
    assert (skipped_problem(saved, old, new, fork) is not None) == problem
    assert skipped_problem(attrs.evolve(saved, in_flight=None, state_ahead=False), old, new, fork) is None
