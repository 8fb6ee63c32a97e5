"""An old version that is started again after a newer one has written to a sink that skips batch ids it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import attrs
import pytest
from bench import Bench, row
from test_skipped_batch import STORES, once, twice, written

from airflow_provider_streamupdate.state.checkpoint import Checkpoint
from airflow_provider_streamupdate.state.errors import StreamUpdateError
from airflow_provider_streamupdate.streaming.renumbering import go_on_after_others


class Rollback(Bench):
    """Version d1 has read a and b in batches 0 and 1, version d2 then c, d and e in batches 2 to 4."""

    def __init__(self, spark, folder, store: tuple, old: Callable, new: Callable) -> None:
        super().__init__(spark, folder, *store)
        self.sink = lambda writer: writer.format("json").option("path", str(folder / "out"))
        self.old = old
        for key in "ab":
            self.write([row(key, 1)])
        before = self.run(old, "append")
        for key in "cde":
            self.write([row(key, 1)])
        self.run(new, "append", snapshot=before, agree=("q/pairs",) if old is twice else ())
        self.checkpoint = self.registry.checkpoint("d1", "q")
        self.planned = self.plan(old, "append")

    def renumbered(self) -> dict:
        return go_on_after_others(self.registry, "d1", self.planned[0])

    def go_on(self) -> None:
        plan, writers = self.planned
        self._read_all(writers, self.checkpoint, plan)


@pytest.mark.parametrize("store", STORES)
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
    for rows in ([row("f", 1), row("a", 1)], [row("f", 1), row("c", 1)]):
        bench.write(rows)
    bench.go_on()
    assert written(bench) == Counter("abcdef") + Counter("cde")  # nothing is lost; both versions wrote c, d and e
    assert bench.renumbered() == {}


def test_spark_alone_does_not_go_on(spark, tmp_path) -> None:
    """It skips the first batch without computing it, and the next one does not find its state."""
    bench = Rollback(spark, tmp_path, (), once, once)
    bench.write([row("f", 1)])
    with pytest.raises(Exception, match="CANNOT_LOAD_STATE_STORE"):
        bench.go_on()


def test_a_sink_that_has_nothing_of_others_changes_nothing(spark, tmp_path) -> None:
    bench = Bench(spark, tmp_path)
    bench.sink = lambda writer: writer.format("json").option("path", str(tmp_path / "out"))
    bench.write([row("a", 1)])
    bench.run(once, "append")
    checkpoint = bench.registry.checkpoint("d1", "q")
    plan, _ = bench.plan(once, "append")
    assert go_on_after_others(bench.registry, "d1", plan) == {}
    checkpoint.remove("commits/0")  # its own batch in flight, which its sink has
    assert go_on_after_others(bench.registry, "d1", plan) == {}


def test_of_delta_the_newer_version_s_own_log_tells(spark, tmp_path) -> None:
    """There is no Delta for this Spark (docs/ground.md): the table is not asked in any case."""
    bench = Rollback(spark, tmp_path, (), once, once)
    plan, writers = bench.planned
    (query,) = plan.queries
    sink = attrs.evolve(query.sink, format="delta")
    bench.planned = attrs.evolve(plan, queries=(attrs.evolve(query, sink=sink),)), writers
    assert bench.renumbered() == {"q": (1, 4)}


@pytest.mark.slow
def test_state_in_format_2_is_left_alone_with_a_reason(spark, tmp_path) -> None:
    bench = Rollback(spark, tmp_path, (STORES[1].values[0][0], True, 2), once, once)
    before = bench.checkpoint.files()
    with pytest.raises(StreamUpdateError, match=r"has batches up to 4 of another version.*format v2"):
        bench.renumbered()
    assert bench.checkpoint.files() == before
