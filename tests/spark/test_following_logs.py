"""Logs that Spark cuts while they are followed: the offset log, and a file source's, which it compacts."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable

import pytest
from bench import Bench, row
from followed_pair import Pair, counts, minutes, running_pair, updated, wait_for

from airflow_provider_streamupdate.core.checkpoint.checkpoint import Checkpoint
from airflow_provider_streamupdate.core.errors import DriverError, StorageError
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.engine import following
from tests.cases import one_is_fast

RETAINED = "spark.sql.streaming.minBatchesToRetain"
LOG = "spark.sql.streaming.fileSource.log"


@pytest.mark.parametrize("interval", one_is_fast(["2", "3"]))
def test_a_log_that_is_compacted(bench: Bench, spark, interval: str) -> None:
    """Across several compactions on each side of the takeover. A file that was forgotten would be read again."""
    for key, value in ((f"{LOG}.compactInterval", interval), (f"{LOG}.cleanupDelay", "0ms"), (RETAINED, "2")):
        spark.conf.set(key, value)
    with running_pair(bench, counts) as pair:
        updated(pair, minutes(0, 1), minutes(*range(2, 10)), minutes(*range(10, 16)), in_step=True)
        pair.right(counts)
        assert compactions(pair.running) and min(compactions(pair.own)) > pair.last_old
        assert len(pair.before) + len(pair.bench.emitted) == 16


def compactions(checkpoint: Checkpoint) -> list[int]:
    return [int(n.split(".")[0]) for n in checkpoint.folder.names("sources/0") if n.endswith(".compact")]


def test_all_entries_at_once(bench: Bench, spark) -> None:
    """The old version is many batches ahead when the following begins, over compactions; then both take turns."""
    spark.conf.set(f"{LOG}.compactInterval", "3")
    with running_pair(bench, counts) as pair:
        pair.begin(*minutes(0))
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
        pair.right(counts)


def behind(pair: Pair, begun: bool) -> None:
    """The new version stops looking while the old one goes on."""
    pair.begin(*minutes(0))
    if begun:
        pair.in_step(*minutes(1))
    for file in minutes(*range(2, 8)):
        pair.write(file)
    pair.old_reads_all()


@pytest.mark.parametrize("begun", one_is_fast([True, False]))
def test_an_entry_of_the_offset_log_that_was_removed(spark, tmp_path, begun: bool) -> None:
    spark.conf.set(RETAINED, "2")
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        behind(pair, begun)
        missing = 2 if begun else 1
        assert not pair.running.folder.exists(f"offsets/{missing}")
        words = f"fell too far behind .* at batch {missing - 1}, 6 behind, and entry {missing}"
        with pytest.raises(DriverError, match=words):
            pair.follower.step()
        assert pair.bench.emitted == {}


@pytest.mark.parametrize(("name", "several"), one_is_fast([("3", True), ("2", False), ("3", False)], 2))
def test_an_entry_of_a_source_s_log_that_was_removed(spark, tmp_path, name: str, several: bool) -> None:
    """several: a driver that ended between its source's log and its offset log leaves two entries to one batch"""
    with running_pair(Bench(spark, tmp_path), counts) as pair:
        behind(pair, True)
        if several:
            offsets = pair.running.folder.read("offsets/2").decode().replace('{"logOffset":2}', '{"logOffset":4}')
            pair.running.folder.write("offsets/2", offsets.encode())
        pair.running.folder.remove(f"sources/0/{name}")
        words = "has no entry 3, which batch 2 needs" if several else f"fell too far behind .* entry {name}"
        with pytest.raises(DriverError, match=words):
            pair.catch_up(7)
        assert pair.own.committed_batch() == (1 if several else int(name) - 1)


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


@pytest.mark.slow
def test_what_no_restart_needs_is_removed(bench: Bench, spark, monkeypatch) -> None:
    """A hot standby follows for good. Found by an outside review: its logs only grew."""
    monkeypatch.setattr(following, "PURGED_EVERY", 3)
    for key, value in ((f"{LOG}.compactInterval", "2"), (f"{LOG}.cleanupDelay", "1ms"), (RETAINED, "4")):
        spark.conf.set(key, value)
    with running_pair(bench, counts) as pair:
        updated(pair, minutes(0, 1), minutes(*range(2, 14)), minutes(14, 15), in_step=True)
        for log, most in (("offsets", 4 + 3 + 2), ("commits", 4 + 3 + 2), ("sources/0", 9)):
            assert 0 < len(pair.own.folder.names(log)) <= most, pair.own.folder.names(log)
        pair.right(counts)


def test_a_storage_that_fails_once_ends_no_following(bench: Bench, spark, monkeypatch) -> None:
    """Found from outside: what failed while old log entries were removed left a follower that waited for good."""
    monkeypatch.setattr(following, "PURGED_EVERY", 3)
    spark.conf.set(RETAINED, "4")
    failed: list[str] = []

    def fails(name: str, when: Callable[[str], bool]) -> None:
        real = getattr(Folder, name)

        def once(self: Folder, relative: str, *more: object):
            if self.base == pair.own.folder.base and name not in failed and when(relative):
                failed.append(name)
                raise StorageError("503")
            return real(self, relative, *more)

        monkeypatch.setattr(Folder, name, once)

    with running_pair(bench, counts) as pair:
        pair.begin(*minutes(0))
        fails("remove", lambda relative: relative.startswith("commits/"))
        fails("write", lambda relative: relative.startswith("offsets/"))
        for file in minutes(*range(1, 10)):
            with contextlib.suppress(StorageError):  # as the one who calls it has the patience
                pair.in_step(file)
        pair.old_reads_all()
        pair.end_old()
        pair.take_over()
        pair.write(*minutes(10))
        pair.new_reads_all()
        assert sorted(failed) == ["remove", "write"]
        pair.right(counts)


def test_a_file_that_is_too_old_is_passed_over_by_both(spark, tmp_path) -> None:
    """Found by an outside review: the follower did not forget what Spark forgets when it lists, and read it."""

    def aged(bench: Bench):
        return bench.source(maxFileAge="100s").select("k", "a")

    def put(name: str, age: int) -> None:
        file = pair.bench.input("in") / f".{name}"
        file.write_text(json.dumps(row(name, 1)) + "\n")
        os.utime(file, (1_700_000_000 + age,) * 2)
        file.rename(file.with_name(f"{name}.json"))

    with running_pair(Bench(spark, tmp_path), aged, mode="append") as pair:
        put("first", 0)
        pair.start_old()
        query = pair.queries._queries["q"]
        query.processAllAvailable()
        pair.follow()
        for name, age in (("second", 3), ("new", 1000), ("old", 2), ("newer", 1001)):
            put(name, age)
            query.processAllAvailable()
            pair.catch_up(pair.running.committed_batch())
        pair.end_old()
        pair.take_over()
        put("after", 1002)
        wait_for(lambda: pair.own.committed_batch() > pair.last_old, "a batch of its own")
        pair.follower.query.processAllAvailable()
        assert sorted(r["k"] for r in pair.all()) == ["after", "first", "new", "newer", "second"]


@pytest.mark.parametrize("change", ["removed", "rewritten"])
@pytest.mark.parametrize("when", one_is_fast(["meanwhile", "before"]))
def test_an_input_file_that_was_removed_or_changed_after_it_was_read(spark, tmp_path, change: str, when: str) -> None:
    """Spark takes one that is missing for an empty one: found from outside."""

    def changes(bench: Bench) -> None:
        for file in bench.input().glob("*.json"):
            if change == "removed":
                file.unlink()
            else:
                file.write_text(file.read_text().replace("b", "z"))

    with running_pair(Bench(spark, tmp_path), counts) as pair:
        pair.write([row("a", 1)])
        pair.write([row("b", 1), row("b", 2)])
        pair.start_old()
        pair.old_reads_all()
        if when == "before":
            changes(pair.bench)
        pair.follow(again=1 if when == "before" else 0)
        if when == "meanwhile":
            pair.write([row("b", 3)])
            pair.old_reads_all()
            changes(pair.bench)
        with pytest.raises(DriverError, match="was removed or changed since; use strategy standby"):
            pair.catch_up(pair.running.committed_batch())
