"""An old version that is started again after a newer one has written to a sink that skips batch ids it has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

import attrs
import pytest
from bench import Bench, feed, once, row, set_join_format, stage, stores
from pyspark.sql import functions as F
from test_skipped_batch import STORES, twice, written

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.checkpoint.lz4 import raw_blocks
from airflow_provider_streamupdate.core.snapshots.export import export
from airflow_provider_streamupdate.streaming.engine.renumbering import skip_used_batch_ids

END = b"LZ4Block\x15" + bytes(12)  # of a stream

V2 = stores("changelog-v2 rocksdb-v2")


class Rollback(Bench):
    """Version d1 has read `before`, one key a batch, version d2 then `after`."""

    def __init__(self, spark, folder, store: tuple, old: Callable, new: Callable, **keys: str) -> None:
        """keys: that the old version reads `before`, and the newer one `after`; and another one at the `start`"""
        super().__init__(spark, folder, *store)
        self.to_files()
        self.old = old
        snapshot = None
        if start := keys.get("start"):
            self.keys(start)
            snapshot = self.run(once, "append")
        self.keys(keys.get("before", "ab"))
        snapshot = self.run(old, "append", snapshot=snapshot)
        self.deployment = f"d{self.deployments}"
        was = written(self)
        self.keys(keys.get("after", "cde"))
        self.run(new, "append", snapshot=snapshot, agree=("q/pairs",) if old is twice else ())
        self.of_the_newer = written(self) - was
        self.checkpoint = self.registry.checkpoint(self.deployment, "q")
        self.planned = self.plan(old, "append")

    def renumbered(self) -> dict:
        return skip_used_batch_ids(self.registry, self.deployment, self.planned[0])

    def go_on(self) -> None:
        plan, writers = self.planned
        self._read_all(writers, self.checkpoint, plan)

    def expected(self) -> Counter:
        """What Spark computes of all input at once, and what the newer version wrote: nothing is lost."""
        return Counter(r["k"] for r in self.batch(self.old)) + self.of_the_newer

    def state_files(self, top: str) -> list[str]:
        """The kinds of files of a store that an export takes, in the order of their versions."""
        files = Checkpoint(self.checkpoint).export(carry_in_flight=False).files
        found = (re.fullmatch(rf"state/{top}/(\d+)(_[^/]+)?\.(zip|changelog)", f.path) for f in files)
        return [kind for _, kind in sorted((int(m[1]), m[3]) for m in found if m)]


@pytest.mark.parametrize("store", [*STORES, *V2])
@pytest.mark.parametrize(("old", "new"), [(once, twice), pytest.param(twice, once, marks=pytest.mark.slow)])
def test_what_the_newer_version_wrote_is_computed_again_under_later_ids(
    spark, tmp_path, store: tuple, old: Callable, new: Callable
) -> None:
    bench = Rollback(spark, tmp_path, store, old, new)
    assert bench.renumbered() == {"q": (1, 4)}
    assert bench.renumbered() == {}
    bench.checkpoint.remove("commits/4")  # it died before the last of it
    assert bench.renumbered() == {"q": (1, 4)}
    exported = Checkpoint(bench.checkpoint).export(carry_in_flight=False)
    assert (exported.batch, exported.in_flight) == (4, None)
    feed(bench, ([row("f", 1), row("a", 1)], [row("f", 1), row("c", 1)]))
    bench.go_on()
    assert written(bench) == Counter("abcdef") + Counter("cde") == bench.expected()
    assert bench.renumbered() == {}


@pytest.mark.parametrize("store", [*STORES, *V2])
def test_a_store_of_more_files_than_batches_are_skipped(spark, tmp_path, store: tuple) -> None:
    """Some of its files have new numbers that others of them had."""
    bench = Rollback(spark, tmp_path, store, once, once, before="abcdef", after="gh")
    assert bench.renumbered() == {"q": (5, 7)}
    for key in "abcdefghi":
        bench.write([row(key, 2)])
    bench.go_on()
    assert written(bench) == bench.expected()


@pytest.mark.slow
@pytest.mark.parametrize("store", [STORES[0], V2[0]])
def test_changelogs_on_a_zip(spark, tmp_path, store: tuple) -> None:
    """Of the stage that was added on the way, beside one with nothing but changelogs."""
    bench = Rollback(spark, tmp_path, store, twice, once, start="ab", before="cde", after="fg")
    assert bench.state_files("0/0") == ["zip", "changelog", "changelog", "changelog"]
    assert bench.state_files("1/0") == ["changelog"] * 5
    assert bench.renumbered() == {"q": (4, 6)}
    assert bench.state_files("0/0") == ["zip", "changelog", "changelog", "changelog"]
    assert bench.state_files("1/0") == ["zip", *["changelog"] * 5]
    bench.keys("abcdefghi")
    bench.go_on()
    assert written(bench) == bench.expected()
    assert bench.spark_check(after_all(bench), twice, "append").compatible


def after_all(bench: Rollback) -> str:
    """A snapshot of what the version has then."""
    export(bench.registry, bench.deployment, "after", bench.registry.plan(bench.deployment), True, {})
    return "after"


def pairs(bench: Bench):
    """Each row with all rows of its key."""
    rows = bench.source().select("k", "a")
    left, right = rows.withColumnRenamed("a", "x"), rows.select(F.col("k").alias("k2"), F.col("a").alias("y"))
    found = stage("pairs", left.join(right, F.expr("k = k2")))
    return found.select(F.concat_ws("-", "k", "x", "y").alias("k"))


@pytest.mark.slow
@pytest.mark.parametrize("format", [2, 3])
@pytest.mark.parametrize("store", V2)
def test_a_join(spark, tmp_path, store: tuple, format: int) -> None:
    """Four stores a partition, or column families of one."""
    set_join_format(spark, format)
    bench = Rollback(spark, tmp_path, store, pairs, pairs, before="abab", after="ac")
    assert bench.renumbered() == {"q": (3, 5)}
    for number, key in enumerate("abcd"):
        bench.write([row(key, 2 + number)])
    bench.go_on()
    assert written(bench) == bench.expected()


@pytest.mark.slow
def test_spark_reads_what_is_written_in_lz4(spark) -> None:
    """The JVM's own stream, which compares the checksums."""
    jvm, texts = spark._jvm, [b"", b"x", b"fifteen bytes..", b"sixteen bytes...", bytes(range(256)) * 400]
    for text in texts:
        stream = jvm.java.io.ByteArrayInputStream(raw_blocks(text) + END)
        assert bytes(jvm.net.jpountz.lz4.LZ4BlockInputStream(stream).readAllBytes()) == text


def test_spark_alone_does_not_go_on(spark, tmp_path) -> None:
    """It skips the first batch without computing it, and the next one does not find its state."""
    bench = Rollback(spark, tmp_path, (), once, once)
    bench.write([row("f", 1)])
    with pytest.raises(Exception, match="CANNOT_LOAD_STATE_STORE"):
        bench.go_on()


def test_a_sink_that_has_nothing_of_others_changes_nothing(bench: Bench, tmp_path) -> None:
    bench.to_files()
    bench.write([row("a", 1)])
    bench.run(once, "append")
    checkpoint = bench.registry.checkpoint("d1", "q")
    plan, _ = bench.plan(once, "append")
    assert skip_used_batch_ids(bench.registry, "d1", plan) == {}
    checkpoint.remove("commits/0")  # its own batch in flight, which its sink has
    assert skip_used_batch_ids(bench.registry, "d1", plan) == {}


def test_of_delta_the_newer_version_s_own_log_tells(spark, tmp_path) -> None:
    """There is no Delta for this Spark (docs/ground.md): the table is not asked in any case."""
    bench = Rollback(spark, tmp_path, (), once, once)
    plan, writers = bench.planned
    (query,) = plan.queries
    sink = attrs.evolve(query.sink, format="delta")
    bench.planned = attrs.evolve(plan, queries=(attrs.evolve(query, sink=sink),)), writers
    assert bench.renumbered() == {"q": (1, 4)}
