"""A version that starts from an older snapshot in the place of another: what Spark does with batches that run again."""

from __future__ import annotations

from collections import Counter

from bench import Bench, passed
from test_skipped_batch import written

from airflow_provider_streamupdate.core.snapshots.repeated_batches import add_replayed_batches, batches_again
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore


def by_twos(bench: Bench):
    """The same, in other batches."""
    return bench.spark.readStream.option("maxFilesPerTrigger", "2").schema("k string, a long").json(str(bench.input()))


def test_rows_that_come_in_another_batch_the_second_time_are_lost_in_a_sink_that_skips(bench: Bench, tmp_path) -> None:
    bench.to_files()
    bench.keys("ab")
    older = bench.run(passed, "append")
    bench.keys("cd")
    bench.run(passed, "append", snapshot=older)

    saved, (plan, _) = SnapshotStore(bench.registry).get(older), bench.plan(by_twos, "append", older)
    again = batches_again(bench.registry, saved, running=False)
    assert again == {"q": "batches 2 to 3"}
    report = add_replayed_batches(bench.saved(older).compare(plan, ()), saved.plan, plan, again, ())
    assert [i.name for i in report.items if i.verdict == "refused"] == ["q:again"]

    bench.keys("ef")
    bench.run(by_twos, "append", snapshot=older)
    assert written(bench) == Counter("abcd")  # e and f were in batch 3, which the sink has
