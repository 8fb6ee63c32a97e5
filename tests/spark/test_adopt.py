"""Checkpoints of plain PySpark queries are adopted: the app that takes them over goes on with their state, batch ids
and offsets, against an oracle in plain Python; what is not of the given code is refused."""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from bench import HDFS, ROCKSDB, Bench, distinct, feed, once_and_totals, row, stage
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.core import errors
from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.snapshot import Snapshot
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport, IncompatibleError
from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan
from airflow_provider_streamupdate.core.serde import from_dict
from airflow_provider_streamupdate.core.snapshots.adoption import ONLY_QUERY, find_checkpoint, moved_on, save_adopted
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.agent import driver
from airflow_provider_streamupdate.streaming.restore.adoption import _source_problem

FIRST = [[row("a", 1), row("b", 2), row("a", 1)], [row("a", 3), row("c", 4), row("b", 2)]]
SECOND = [[row("a", 1), row("a", 9), row("d", 5)], [row("b", 7)]]


class Legacy:
    """A query that nothing here manages: plain PySpark with a checkpoint location of its own."""

    def __init__(self, bench: Bench, name: str = "legacy") -> None:
        self.bench = bench
        self.checkpoint = bench.folder / name
        self.fails_in: int | None = None

    def start(self, build: Callable, mode: str = "update", **trigger):
        def keep(batch, batch_id: int) -> None:
            if batch_id == self.fails_in:
                raise ValueError("a broken sink")
            self.bench.emitted[batch_id] = [r.asDict(recursive=True) for r in batch.collect()]

        writer = build(self.bench).writeStream.outputMode(mode).foreachBatch(keep)
        return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

    def run(self, build: Callable, mode: str = "update") -> None:
        self.start(build, mode, availableNow=True).awaitTermination()


@pytest.fixture(params=[ROCKSDB, HDFS], ids=["rocksdb", "hdfs"])
def bench(request, spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path, request.param)


def plan_driver(bench: Bench, build: Callable, checkpoints: dict[str, str], mode: str) -> dict:
    """The plan driver's answer, made in this process."""
    out = bench.folder / "plan.json"
    given = [f"{query}={uri}" for query, uri in checkpoints.items()]
    driver.plan(bench.app(build, mode), argparse.Namespace(out=str(out), set=[], adopt=given, adopt_own=False))
    answer = json.loads(out.read_text())
    if answer["error"]:
        raise getattr(errors, answer["error"]["type"])(answer["error"]["message"])
    return answer


def adopt(
    bench: Bench,
    build: Callable,
    checkpoint: Path,
    name: str = "adopted",
    mode: str = "update",
    query: str = ONLY_QUERY,
) -> Snapshot:
    """What the client does with the plan driver's answer (control/operations/snapshots/adopt.py needs more)."""
    answer = plan_driver(bench, build, {query: str(checkpoint)}, mode)
    report = from_dict(answer["report"], CompatibilityReport)
    if not report.compatible:
        raise IncompatibleError("\n".join(report.problems), report)
    plan = from_dict(answer["plan"], AppPlan)
    return save_adopted(bench.registry, name, name, plan, {"q": find_checkpoint(str(checkpoint))})


def plain(bench: Bench):
    """As somebody wrote it who knew nothing of stages."""
    once = bench.source().dropDuplicates(["k", "a"])
    return once.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))


def oracle(rows: list[dict]) -> dict[tuple, dict]:
    seen = {(r["k"], r["a"]) for r in rows}
    keys = {k for k, _ in seen}
    return {(k,): {"k": k, "n": sum(q == k for q, _ in seen), "s": sum(a for q, a in seen if q == k)} for k in keys}


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_a_plain_query_s_state_goes_on_in_the_app(bench: Bench) -> None:
    rows = feed(bench, FIRST)
    legacy = Legacy(bench)
    legacy.run(plain)
    before = tree(legacy.checkpoint)
    snapshot = adopt(bench, once_and_totals, legacy.checkpoint)
    assert tree(legacy.checkpoint) == before, "the checkpoint is only read"
    query = snapshot.queries["q"]
    assert (snapshot.kind, query.batch, query.in_flight) == ("adopted", 1, None)
    assert [s.name for s in snapshot.plan.query("q").stages] == ["totals", "once"]
    assert query.query_id == json.loads((legacy.checkpoint / "metadata").read_text())["id"]
    assert moved_on(snapshot) == []

    rows += feed(bench, SECOND)
    bench.run(once_and_totals, snapshot="adopted")
    assert bench.last("k") == oracle(rows)
    assert sorted(bench.emitted) == [0, 1, 2, 3]


def test_a_running_query_is_adopted_and_has_to_be_stopped(rocksdb: Bench) -> None:
    rows = feed(rocksdb, FIRST)
    legacy = Legacy(rocksdb)
    query = legacy.start(plain, processingTime="0 seconds")
    query.processAllAvailable()
    first = adopt(rocksdb, once_and_totals, legacy.checkpoint, query="q")
    assert query.isActive and moved_on(first) == []

    rows += feed(rocksdb, SECOND[:1])
    query.processAllAvailable()
    [went_on] = moved_on(first)
    assert "has continued from batch 1 to batch 2" in went_on and str(legacy.checkpoint) in went_on
    query.stop()
    again = adopt(rocksdb, once_and_totals, legacy.checkpoint, name="adopted-2")
    assert again.queries["q"].batch == 2 and moved_on(again) == []
    rows += feed(rocksdb, SECOND[1:])
    rocksdb.run(once_and_totals, snapshot="adopted-2")
    assert rocksdb.last("k") == oracle(rows) and sorted(rocksdb.emitted) == [0, 1, 2, 3]


def test_a_batch_that_was_logged_and_not_committed_is_run_again_as_it_was(rocksdb: Bench) -> None:
    rows = feed(rocksdb, [*FIRST, *SECOND[:1]])
    legacy = Legacy(rocksdb)
    legacy.fails_in = 2
    with pytest.raises(Exception, match="a broken sink"):
        legacy.run(plain)
    snapshot = adopt(rocksdb, once_and_totals, legacy.checkpoint)
    assert (snapshot.queries["q"].batch, snapshot.queries["q"].in_flight) == (1, 2)
    rows += feed(rocksdb, SECOND[1:])
    rocksdb.run(once_and_totals, snapshot="adopted")
    assert {r["k"] for r in rocksdb.emitted[2]} == {"a", "d"}, "the third file alone"
    assert rocksdb.last("k") == oracle(rows)
    legacy.fails_in = None
    legacy.run(plain)
    assert moved_on(snapshot), "it was run on after all"


class Count(StatefulProcessor):
    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows: Iterator[Row], timers) -> Iterator[Row]:
        n = (self.count.get()[0] if self.count.exists() else 0) + sum(1 for _ in rows)
        self.count.update((n,))
        yield Row(k=key[0], n=n)

    def close(self) -> None:
        pass


def counted(bench: Bench):
    grouped = bench.source().groupBy("k")
    return stage("counted", grouped.transformWithState(Count(), "k string, n long", "Update", "None"))


@pytest.mark.slow
def test_a_checkpoint_that_was_moved_is_adopted(rocksdb: Bench) -> None:
    """transformWithState's metadata names its schemas by absolute paths, which lead nowhere any more."""
    rows = feed(rocksdb, FIRST)
    legacy = Legacy(rocksdb)
    legacy.run(counted)
    moved = rocksdb.folder / "moved" / "ck"
    moved.parent.mkdir()
    shutil.move(legacy.checkpoint, moved)
    adopt(rocksdb, counted, moved)
    rows += feed(rocksdb, SECOND)
    rocksdb.run(counted, snapshot="adopted")
    assert rocksdb.last("k") == {(k,): {"k": k, "n": sum(r["k"] == k for r in rows)} for k in {r["k"] for r in rows}}


def joined(bench: Bench):
    schema = "k string, a long"
    left = bench.source(schema, "left").withColumnRenamed("a", "l")
    right = bench.source(schema, "right").withColumnRenamed("a", "r")
    return stage("pairs", left.join(right, "k"))


def test_a_join_s_two_sources_go_on(rocksdb: Bench) -> None:
    feed_to = [("left", row("a", 1)), ("right", row("b", 2)), ("left", row("b", 3))]
    for to, r in feed_to:
        rocksdb.write([r], to)
    legacy = Legacy(rocksdb)
    legacy.run(joined, "append")
    adopt(rocksdb, joined, legacy.checkpoint, mode="append")
    rocksdb.write([row("a", 4)], "right")
    rocksdb.write([row("c", 5)], "left")
    rocksdb.run(joined, "append", snapshot="adopted")
    pairs = [{"k": "b", "l": 3, "r": 2}, {"k": "a", "l": 1, "r": 4}]
    assert rocksdb.all() == pairs


@pytest.fixture(scope="module")
def wrote(spark_session, tmp_path_factory) -> Legacy:
    """It counted by k, of two batches."""
    bench = Bench(spark_session, tmp_path_factory.mktemp("wrote"), ROCKSDB)
    feed(bench, FIRST)
    legacy = Legacy(bench)
    legacy.run(lambda b: b.source().groupBy("k").agg(F.count("*").alias("n")))
    for key in ("providerClass", "rocksdb.changelogCheckpointing.enabled"):
        spark_session.conf.unset(f"spark.sql.streaming.stateStore.{key}")  # they are in the checkpoint
    return legacy


@pytest.fixture
def legacy(spark, wrote: Legacy, tmp_path: Path) -> Legacy:
    """The same, with a checkpoint that may be damaged."""
    copy = Legacy(wrote.bench)
    copy.checkpoint = Path(shutil.copytree(wrote.checkpoint, tmp_path / "legacy"))
    return copy


@pytest.mark.parametrize(
    ("location", "fits"),
    [("/a b", True), ("file:///a b/", True), ("/a", False), ("a b", True), ("/a b/in*", True), ("/a b/1.json", True)],
)
def test_a_file_source_s_folder_is_compared_where_it_is_known(tmp_path: Path, location: str, fits: bool) -> None:
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_text('v1\n{"path":"file:///a%20b/1.json","timestamp":1,"batchId":0}')
    source = SourcePlan(name="s", named=False, format="json", location=location)
    plan = QueryPlan(name="q", output_mode="update", sink=SinkPlan(format="noop"), sources=(source,), stages=())
    plan = attrs.evolve(plan, source_order=("s",))
    problem = _source_problem(source, plan, {"s": '{"logOffset":0}'}, Checkpoint(Folder.open(str(tmp_path))))
    assert (problem is None) == fits
    kafka = attrs.evolve(source, format="kafka", options={"subscribe": "t, u"})
    for offset, carried in (('{"t":{"0":1}}', True), ('{"v":{"0":1}}', False), ('{"logOffset":0}', False), ("-", True)):
        assert (_source_problem(kafka, plan, {"s": offset}, Checkpoint(Folder.open(str(tmp_path)))) is None) == carried


def counts(key: str = "k", source: str = "in"):
    return lambda b: stage("counts", b.source(name=source).groupBy(key).agg(F.count("*").alias("n")))


def both(b: Bench):
    return stage("counts", b.source().union(b.source(name="other")).groupBy("k").agg(F.count("*").alias("n")))


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (once_and_totals, "stage q/totals: the checkpoint's state is .* -> count bigint, but the plan's is .*sum"),
        (distinct("k"), "operator 0 is stateStoreSave in the checkpoint, but dedupe in the plan"),
        (counts("a"), "stage q/counts: the checkpoint's state is k string -> .*, but the plan's is a bigint"),
        (counts("k2"), "stage q/counts: the checkpoint's state is k string -> .*, but the plan's is k2 string"),
        (lambda b: b.source().select("k"), r"stage q/operator-0: the plan has no such operator \(stateStoreSave\)"),
        (
            counts(source="elsewhere"),
            "source q/source-1: it has read .*/in/.*, but the plan's source reads .*/elsewhere",
        ),
        (both, "the offset log has 1 sources per entry, but the plan reads 2"),
    ],
    ids=["other-aggregates", "other-operator", "other-type", "other-key", "stateless", "other-folder", "two-sources"],
)
def test_a_checkpoint_of_other_code_is_refused(legacy: Legacy, build, problem: str) -> None:
    with pytest.raises(IncompatibleError, match=problem) as error:
        adopt(legacy.bench, build, legacy.checkpoint)
    assert "give the file (and parameters) of the code that wrote the checkpoint" in str(error.value)


def test_what_is_no_checkpoint_is_refused(legacy: Legacy) -> None:
    bench, here = legacy.bench, legacy.checkpoint
    for checkpoint, query, words in (
        (bench.folder / "nowhere", ONLY_QUERY, "nowhere is not a checkpoint: it has no metadata and no offsets; give"),
        (bench.folder / "in", ONLY_QUERY, "is not a checkpoint"),
        (here, "p", "the app's queries are q; give the checkpoint of each: q=PATH"),
    ):
        with pytest.raises(errors.InvalidInputError, match=words):
            adopt(bench, counts(), checkpoint, query=query)
    shutil.rmtree(legacy.checkpoint / "commits")
    with pytest.raises(errors.InvalidInputError, match=r"no batch has committed in checkpoint .*legacy"):
        adopt(bench, counts(), legacy.checkpoint)


def test_state_that_is_gone_is_refused(legacy: Legacy) -> None:
    shutil.rmtree(legacy.checkpoint / "state" / "0" / "1")
    (legacy.checkpoint / "state" / "0" / "1").mkdir()
    for zipped in (legacy.checkpoint / "state" / "0" / "0").glob("2.zip"):
        zipped.unlink()
    with pytest.raises(IncompatibleError, match=r"query q: .*has no files for version 2"):
        adopt(legacy.bench, counts(), legacy.checkpoint)
