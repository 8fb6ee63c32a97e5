"""State moved to another state store provider, or into another number of partitions: every kind of stage, against
oracles in plain Python.

Version 2 is version 1 with other settings, given to the session as ``--conf`` does. All keys have rows before and
after, enough for every partition to have some: a row in a wrong partition or with other bytes would be counted anew, or
would never leave the state.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator

import attrs
import pytest
from bench import ROCKSDB, STORES, Bench, by, row, set_join_format, totals
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from test_stages import (
    END,
    ROWS,
    Alarm,
    counting,
    emitted,
    feed_join,
    flat,
    join,
    joined,
    running,
    running_best,
    sessions,
    sessions_of,
    without_end,
)

from airflow_provider_streamupdate.core.plan.state_stores import PARTITIONS, PROVIDER
from airflow_provider_streamupdate.core.snapshots.snapshots import SnapshotStore
from airflow_provider_streamupdate.streaming import stage
from airflow_provider_streamupdate.streaming.spark_internals import version as versions
from airflow_provider_streamupdate.streaming.spark_internals.version import ADAPTERS
from tests.cases import one_is_fast

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


# from a store with 2 partitions to another with so many
MOVES = [
    ("hdfs", "changelog", 3),
    ("rocksdb", "hdfs", 3),
    ("hdfs", "rocksdb", 2),
    ("changelog", "hdfs", 2),
    ("changelog", "rocksdb", 5),
    ("hdfs", "hdfs", 5),
    ("hdfs", "hdfs", 1),
    ("rocksdb", "changelog", 1),
]
# what only RocksDB holds
ROCKSDB_MOVES = [("changelog", "rocksdb", 5), ("rocksdb", "changelog", 1)]


def store(bench: Bench, name: str, partitions: int) -> None:
    """The session's settings, as --conf gives them."""
    provider, changelog = STORES[name][:2]
    bench.spark.conf.set(PROVIDER, provider)
    bench.spark.conf.set(CHANGELOG, str(changelog).lower())
    bench.spark.conf.set(PARTITIONS, str(partitions))


def feed(bench: Bench, files: list[list[dict]]) -> Callable[[], None]:
    return lambda: [bench.write(rows) for rows in files] and None


def moved(
    bench: Bench,
    build: Callable,
    mode: str,
    where: tuple,
    first: Callable,
    second: Callable,
    alone: tuple[str, ...] = (),
) -> None:
    """Version 1 reads what `first` writes; with other stores version 2, what `second` writes."""
    before, after, partitions = where
    store(bench, before, 2)
    first()
    snapshot = bench.run(build, mode)
    store(bench, after, partitions)
    elsewhere = STORES[before][0] != STORES[after][0]
    report = bench.check(snapshot, build, mode)
    for item in (i for i in report.items if i.thing == "stage"):
        stays = item.name.removeprefix("q/") in alone and not elsewhere
        assert item.verdict == ("carried" if stays else "migrated") and not item.needs_agreement, item
    assert bench.spark_check(snapshot, build, mode).compatible
    second()
    last = bench.run(build, mode, snapshot=snapshot)
    assert not bench.registry.checkpoint("d2", "q").exists("migration")
    for entry in bench.registry.checkpoint("d2", "q").names("offsets"):
        text = bench.registry.checkpoint("d2", "q").read(f"offsets/{entry}").decode()
        recorded = json.loads(text.split("\n")[1])["conf"]
        assert (recorded[PROVIDER], recorded[PARTITIONS]) == (STORES[after][0], str(partitions))
    saved = SnapshotStore(bench.registry).get(last).queries["q"]
    for planned in bench.registry.plan("d2").query("q").stages:
        parts = [f.path.split("/")[2] for f in saved.files if f.path.startswith(f"state/{planned.operator_id}/")]
        count = 1 if planned.name in alone else partitions
        assert {int(p) for p in parts if p.isdigit()} == set(range(count)), planned.name
    assert {i.verdict for i in bench.check(last, build, mode).items} == {"carried"}


def spread(minute: int, keys: int = 12, a: int = 1) -> list[dict]:
    return [row(f"key{i}", a + i, minute=minute) for i in range(keys)]


def windows(bench: Bench):
    grouped = by("window(ts, '10 minutes'); k", "sum(a) s", "avg(b) m", name="windows", delay="10 minutes")(bench)
    return grouped.select("k", F.date_format("window.start", "HH:mm"), F.col("s").cast("string"))


def everything(bench: Bench):
    """Six kinds of stages in one query, each a branch of a union: (which, three texts)."""
    branches = {
        "windows": windows(bench),
        "sessions": sessions(bench).select("k", "start", F.concat_ws("/", "n", "s")),
        "distinct": stage("pairs", bench.late().select("k", "a").distinct()).select("k", "a", F.lit("")),
        "within": stage("seen", bench.late().dropDuplicatesWithinWatermark(["k"])).select("k", "a", F.lit("")),
        "counting": counting(bench).select("k", "n", "s"),
        "first": stage("first", bench.late().limit(15)).select("k", "a", F.lit("")),
    }
    united = None
    for name, branch in branches.items():
        texts = branch.toDF("x", "y", "z").select(F.lit(name).alias("which"), *(F.col(c).cast("string") for c in "xyz"))
        united = texts if united is None else united.union(texts)
    return united


def everything_of(files: list[list[dict]]) -> Counter:
    """The oracle of `everything`, without the rows that only end it."""
    rows = flat(files)
    sums: Counter = Counter()
    for r in rows:
        sums[r["k"], f"{r['ts'][11:15]}0"] += r["a"]
    found = Counter({("windows", k, start, str(s)): 1 for (k, start), s in sums.items()})
    for (k, start, n, s), times in sessions_of(rows).items():
        found["sessions", k, start, f"{n}/{s}"] += times
    found.update({("distinct", r["k"], str(r["a"]), ""): 1 for r in rows})
    first_by_key = {r["k"]: r for r in reversed(rows)}
    found.update({("within", r["k"], str(r["a"]), ""): 1 for r in first_by_key.values()})
    for (k, n, s), times in running(files).items():
        found["counting", k, str(n), str(s)] += times
    found.update(Counter(("first", r["k"], str(r["a"]), "") for r in rows[:15]))
    return found


FIRST = [spread(1), spread(2, 2, 100)]  # 14 rows: the limit lets one more pass
SECOND = [spread(3), spread(4, 14, 50)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "version"), [*((where, 1) for where in MOVES), *((where, 2) for where in ROCKSDB_MOVES)], ids=str
)
def test_every_kind_of_stage_moves_between_stores_and_partitions(spark, tmp_path, where: tuple, version: int) -> None:
    """version: of the checkpoint's format"""
    bench = Bench(spark, tmp_path, ROCKSDB, True, version)
    moved(bench, everything, "append", where, feed(bench, FIRST), feed(bench, [*SECOND, *END]), alone=("first",))
    found = Counter({k: n for k, n in emitted(bench).items() if k[1] != "end"})
    assert found == everything_of(FIRST + SECOND)


def test_totals_go_on_in_the_default_store(bench: Bench) -> None:
    moved(bench, totals, "update", ("changelog", "hdfs", 3), feed(bench, FIRST), feed(bench, SECOND))
    assert emitted(bench) == running(FIRST + SECOND)


def test_sessions_of_a_union_go_on_in_other_partitions(bench: Bench) -> None:
    """Their key is a session window of each branch."""

    def united(bench: Bench):
        both = bench.source().union(bench.source(name="more")).withWatermark("ts", "10 minutes")
        counted = stage("visits", both.groupBy("k", F.session_window("ts", "5 minutes")).agg(F.count("*").alias("n")))
        return counted.select("k", F.date_format("session_window.start", "HH:mm"), "n")

    def feed_both(*batches: list[dict]) -> Callable[[], None]:
        return lambda: [bench.write(rows, name) for rows in batches for name in ("in", "more")] and None

    moved(bench, united, "append", ("rocksdb", "hdfs", 3), feed_both(spread(1)), feed_both(spread(2, 14), *END))
    found = Counter({k: n for k, n in emitted(bench).items() if k[0] != "end"})
    assert found == Counter((k, start, 2 * n) for k, start, n, _ in sessions_of(spread(1) + spread(2, 14)))


def test_sessions_go_on_in_rocksdb(bench: Bench) -> None:
    moved(bench, sessions, "append", ("hdfs", "rocksdb", 3), feed(bench, FIRST), feed(bench, [SECOND[0], *END]))
    assert emitted(bench) == sessions_of(flat([*FIRST, SECOND[0]]))


@pytest.mark.slow
def test_sessions_go_on_in_other_partitions_when_there_are_none(bench: Bench) -> None:
    """Version 1 lets none of its rows pass; each partition has a store of its own all the same."""

    def of_known(bench: Bench):
        window = F.session_window("ts", "5 minutes")
        counted = bench.late().where("k <> 'nobody'").groupBy("k", window).agg(F.count("*").alias("n"))
        return stage("sessions", counted).select("k", F.date_format("session_window.start", "HH:mm"), "n")

    nobody = [row("nobody", 0, minute=1)]
    moved(bench, of_known, "append", ("hdfs", "rocksdb", 3), feed(bench, [nobody]), feed(bench, [SECOND[0], *END]))
    assert emitted(bench) == Counter((k, start, n) for k, start, n, _ in sessions_of(SECOND[0]))


class OneVariable(StatefulProcessor):
    """Nothing but a value: no other variable, timer or time to live."""

    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers) -> Iterator[Row]:
        self.count.update(((self.count.get()[0] if self.count.exists() else 0) + len(list(rows)),))
        yield Row(k=key[0], n=self.count.get()[0])

    def close(self) -> None:
        pass


@pytest.mark.slow
def test_a_single_state_variable_goes_on_in_other_partitions(bench: Bench) -> None:
    """Its one column family bears a name as well."""

    def counts(bench: Bench):
        grouped = bench.source().groupBy("k")
        return stage("one", grouped.transformWithState(OneVariable(), "k string, n long", "Update", "None"))

    moved(bench, counts, "update", ("rocksdb", "rocksdb", 3), feed(bench, [spread(1)]), feed(bench, [spread(2, 14)]))
    assert emitted(bench) == Counter((k, n) for k, n, _ in running([spread(1), spread(2, 14)]).elements())


LEFT = spread(1, 10)
RIGHT = spread(2, 14, 100)[6:]
LEFT_LATER, RIGHT_LATER = spread(3, 14, 200)[8:], spread(4, 4, 300)
# The kind, its state's format, the move, and the checkpoint's format.
JOINS = [
    *(
        (kind, 2, move, 1)
        for kind, move in zip(("inner", "left_outer", "full_outer", "left_semi"), MOVES, strict=False)
    ),
    *(("full_outer", 2, where, 1) for where in MOVES[4:]),
    *(("full_outer", version, where, 1) for version in (3, 4) for where in ROCKSDB_MOVES),
    *(("full_outer", version, ("changelog", "rocksdb", 3), 2) for version in (3, 4)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version", "where", "format"), JOINS, ids=str)
def test_joins_of_every_state_format_move(spark, tmp_path, kind: str, version: int, where: tuple, format: int) -> None:
    set_join_format(spark, version)
    bench = Bench(spark, tmp_path, ROCKSDB, True, format)
    first, second = (
        functools.partial(feed_join, bench, *sides) for sides in ((LEFT, RIGHT), (LEFT_LATER, RIGHT_LATER, True))
    )
    moved(bench, join(kind), "append", where, first, second)
    assert without_end(emitted(bench)) == joined(kind, LEFT + LEFT_LATER, RIGHT + RIGHT_LATER)


@pytest.mark.parametrize(("version", "partitions"), one_is_fast([(4, 2), (3, 3)]))
def test_what_cannot_move_is_refused_by_the_check(bench: Bench, version: int, partitions: int) -> None:
    set_join_format(bench.spark, version)
    store(bench, "rocksdb", 2)
    feed_join(bench, LEFT, RIGHT)
    snapshot = bench.run(join("inner"), "append")
    store(bench, "hdfs", partitions)
    found = bench.item(snapshot, join("inner"), "append")
    assert (found.verdict, found.rules) == ("refused", ("store.provider-refused",))


def test_column_families_are_refused_by_a_spark_that_cannot_rewrite_them(bench: Bench, monkeypatch) -> None:
    """As Spark 4.0 and 4.1 on their own."""
    monkeypatch.setattr(versions, "adapter", lambda: attrs.evolve(ADAPTERS["4.3"], rewrites_families=False))
    set_join_format(bench.spark, 3)
    store(bench, "rocksdb", 2)
    feed_join(bench, LEFT, RIGHT)
    snapshot = bench.run(join("inner"), "append")
    assert not bench.spark_check(snapshot, join("inner"), "append").problems
    store(bench, "rocksdb", 3)
    [problem] = bench.spark_check(snapshot, join("inner"), "append").problems
    assert (
        "stage pairs would have to be migrated" in problem and "no StateRewriter, which Spark 4.2, 4.3 have" in problem
    )


def alarm(bench: Bench):
    schema = "k string, at string, n long"
    return stage("alarm", bench.late().groupBy("k").transformWithState(Alarm(), schema, "Append", "EventTime"))


ALARMS = Counter({(f"key{i}", "00:11", 1 + (i < 3) + (i < 5)): 1 for i in range(12)})
FUNCTIONS = {
    "values, lists and maps with time to live": (ROWS, FIRST, SECOND, running_best(FIRST + SECOND)),
    "timers": (alarm, [spread(1), spread(2, 3)], [spread(5, 5), *END], ALARMS),
}


@pytest.mark.slow
@pytest.mark.parametrize("where", ROCKSDB_MOVES, ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_state_functions_keep_moves_to_other_partitions(bench: Bench, name: str, where: tuple) -> None:
    build, first, second, expected = FUNCTIONS[name]
    moved(bench, build, "append", where, feed(bench, first), feed(bench, second))
    assert without_end(emitted(bench)) == expected
