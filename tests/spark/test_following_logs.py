"""Logs that Spark cuts while they are followed: the offset log, and a file source's, which it compacts."""

from __future__ import annotations

import pytest
from bench import Bench, row, stage
from followed_pair import Pair, running_pair, updated
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import DriverError

RETAINED = "spark.sql.streaming.minBatchesToRetain"
LOG = "spark.sql.streaming.fileSource.log"


def counts(bench: Bench):
    return stage("counts", bench.source().groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))


def minutes(*numbers: int, keys: str = "ab") -> list[list[dict]]:
    return [[row(k, n, minute=n) for k in keys] for n in numbers]


@pytest.mark.parametrize("interval", ["2", "3"])
def test_a_log_that_is_compacted(spark, tmp_path, interval: str) -> None:
    """Across several compactions on each side of the takeover. A file that was forgotten would be read again."""
    for key, value in ((f"{LOG}.compactInterval", interval), (f"{LOG}.cleanupDelay", "0ms"), (RETAINED, "2")):
        spark.conf.set(key, value)
    bench = Bench(spark, tmp_path)
    with running_pair(bench, counts) as pair:
        updated(pair, minutes(0, 1), minutes(*range(2, 10)), minutes(*range(10, 16)), in_step=True)
        assert pair.last("k") == {(r["k"],): r for r in bench.batch(counts)}
        assert compactions(pair.running) and min(compactions(pair.own)) > pair.last_old
        assert len(pair.before) + len(pair.bench.emitted) == 16


def compactions(checkpoint: Checkpoint) -> list[int]:
    return [int(n.split(".")[0]) for n in checkpoint.folder.names("sources/0") if n.endswith(".compact")]


def test_all_entries_at_once(spark, tmp_path) -> None:
    """The old version is many batches ahead when the following begins, over compactions; then both take turns."""
    spark.conf.set(f"{LOG}.compactInterval", "3")
    bench = Bench(spark, tmp_path)
    with running_pair(bench, counts) as pair:
        for file in minutes(0):
            pair.write(file)
        pair.start_old()
        pair.old_reads_all()
        pair.follow()
        for file in minutes(*range(1, 9)):
            pair.write(file)
        pair.old_reads_all()
        assert pair.follower.behind == 8
        pair.end_old()
        pair.same_states()
        pair.take_over()
        for file in minutes(9, 10):
            pair.write(file)
        pair.new_reads_all()
        assert pair.last("k") == {(r["k"],): r for r in bench.batch(counts)}


def behind(pair: Pair, begun: bool) -> None:
    """The new version stops looking while the old one goes on."""
    pair.write(minutes(0)[0])
    pair.start_old()
    pair.old_reads_all()
    pair.follow()
    if begun:
        pair.write(minutes(1)[0])
        pair.old_reads_all()
        pair.catch_up(1)
    for file in minutes(*range(2, 8)):
        pair.write(file)
    pair.old_reads_all()


@pytest.mark.parametrize("begun", [False, True])
def test_an_entry_of_the_offset_log_that_was_removed(spark, tmp_path, begun: bool) -> None:
    spark.conf.set(RETAINED, "2")
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        behind(pair, begun)
        missing = 2 if begun else 1
        assert not pair.running.folder.exists(f"offsets/{missing}")
        with pytest.raises(
            DriverError, match=f"fell too far behind .* at batch {missing - 1}, 6 behind, and entry {missing}"
        ):
            pair.follower.step()
        assert pair.bench.emitted == {}


@pytest.mark.parametrize("name", ["2", "3"])
def test_an_entry_of_a_source_s_log_that_was_removed(spark, tmp_path, name: str) -> None:
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        behind(pair, True)
        pair.running.folder.remove(f"sources/0/{name}")
        with pytest.raises(DriverError, match=f"fell too far behind .* entry {name}"):
            pair.catch_up(7)
        assert pair.own.committed_batch() == int(name) - 1


def test_one_of_several_entries_of_a_batch_that_was_removed(spark, tmp_path) -> None:
    """A driver that ended between its source's log and its offset log leaves two entries to one batch."""
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        behind(pair, True)
        offsets = pair.running.folder.read("offsets/2").decode().replace('{"logOffset":2}', '{"logOffset":4}')
        pair.running.folder.write("offsets/2", offsets.encode())
        pair.running.folder.remove("sources/0/3")
        with pytest.raises(DriverError, match="has no entry 3, which batch 2 needs"):
            pair.follower.step()


def test_an_error_while_it_follows_is_raised(spark, tmp_path) -> None:
    def fails(bench: Bench):
        return counts(bench).where("n < 3 or raise_error('three') is null")

    with running_pair(Bench(spark, tmp_path), counts, fails) as pair:
        with pytest.raises(Exception, match="three"):
            updated(pair, minutes(0), minutes(1, 2, 3), [])
        assert pair.bench.emitted == {}
        assert pair.own.committed_batch() == 1


def test_a_batch_that_the_old_version_never_committed_ends_the_following(spark, tmp_path) -> None:
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        behind(pair, True)
        pair.queries.stop()
        pair.catch_up(7)
        with pytest.raises(DriverError, match="has followed to batch 7, but the other version ended with batch 6"):
            pair.follower.at(6)
