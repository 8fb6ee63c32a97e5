"""A start without state looks at what file sinks have: they would skip its first batches."""

from __future__ import annotations

from collections import Counter

import pytest
from bench import Bench, once
from test_skipped_batch import written

from airflow_provider_streamupdate.core.compatibility.report import IncompatibleError
from airflow_provider_streamupdate.streaming.restore.fresh_start import check_start, judge_start


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    """Deployment d1 has written a and b to a file sink, in batches 0 and 1."""
    made = Bench(spark, tmp_path)
    into(made, "out")
    made.keys("ab")
    made.run(once, "append")
    return made


def into(bench: Bench, folder: str) -> None:
    bench.sink = lambda writer: writer.format("json").option("path", str(bench.folder / folder))


def test_a_file_sink_that_has_batches_is_refused(bench: Bench) -> None:
    """The second half is what would happen."""
    plan, _ = bench.plan(once, "append")
    [item] = judge_start(bench.registry, plan).items
    assert (item.name, item.verdict) == ("q:fresh", "refused") and "has batches up to 1" in item.reason
    with pytest.raises(IncompatibleError, match="Write to another folder"):
        check_start(bench.registry, plan, (), "d2")

    for file in sorted(bench.input().iterdir()):
        file.unlink()
    bench.keys("cd")
    bench.run(once, "append")
    assert written(bench) == Counter("ab")  # c and d were in batches 0 and 1


def test_another_folder_is_not(bench: Bench) -> None:
    into(bench, "elsewhere")
    plan, _ = bench.plan(once, "append")
    check_start(bench.registry, plan, (), "d2")


@pytest.mark.parametrize("left", [("0", "1"), ("1",), ()], ids=["before its first commit", "later", "all committed"])
def test_a_deployment_s_own_batches_do_not_stand_in_its_way(bench: Bench, left: tuple[str, ...]) -> None:
    """Its driver died between the sink's commit and Spark's own."""
    for batch in left:
        bench.registry.checkpoint("d1", "q").remove(f"commits/{batch}")
    check_start(bench.registry, bench.registry.plan("d1"), (), "d1")


def test_a_batch_in_its_own_log_that_did_not_reach_the_sink_is_no_excuse_for_later_ones(bench: Bench) -> None:
    """It died in batch 0, and another one has written batches 0 and 1 to the folder since."""
    checkpoint = bench.registry.checkpoint("d1", "q")
    for path in ("commits/0", "commits/1", "offsets/1"):
        checkpoint.remove(path)
    with pytest.raises(IncompatibleError, match="has batches up to 1"):
        check_start(bench.registry, bench.registry.plan("d1"), (), "d1")
