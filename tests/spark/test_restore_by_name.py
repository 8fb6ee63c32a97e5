"""State carried by name, on both stores, against an oracle in plain Python; a plan file as what a version is compared
with (`check --plan`); and changes around the stages."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest
from bench import (
    HDFS,
    JOIN_FORMAT,
    ROCKSDB,
    Bench,
    by,
    feed,
    once_and_totals,
    row,
    stage,
    stores,
    totals,
    totals_of,
)
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.plan_file import PlanFile
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from airflow_provider_streamupdate.streaming.restore.restorer import copy_ahead, metadata_ahead, restore_app
from tests.cases import one_is_fast

FIRST = [[row("a", 1), row("b", 2), row("a", 3)], [row("c", 4), row("a", 5, k2="y")]]
SECOND = [[row("a", 10), row("d", 20)], [row("b", 30, k2="y"), row("a", 1)]]


@pytest.fixture(params=stores("rocksdb changelog hdfs rocksdb-v2 changelog-v2"))
def bench(request, spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path, *request.param)


def test_an_unchanged_stage_keeps_its_state(bench: Bench) -> None:
    rows = feed(bench, FIRST)
    first = bench.run(totals)
    assert bench.spark_check(first, totals).compatible
    rows += feed(bench, SECOND)
    second = bench.run(totals, snapshot=first)
    assert bench.last("k") == totals_of(rows)
    assert bench.registry.plan("d2").query("q").stage("totals").operator_id == 0
    # Batch ids and the query's id go on: exactly-once sinks depend on both.
    before, after = (bench.saved(name).queries["q"] for name in (first, second))
    assert before.query_id == after.query_id
    assert (before.batch, after.batch) == (1, 3)
    assert sorted(bench.emitted) == [0, 1, 2, 3]


def test_a_rename_of_columns_is_no_change(bench: Bench) -> None:
    def renamed(bench: Bench):
        grouped = bench.source().selectExpr("a amount", "k key").groupBy("key")
        made = grouped.agg(F.count("*").alias("how_many"), F.sum("amount").alias("total"))
        return stage("totals", made).selectExpr("key k", "how_many n", "total s")

    rows = feed(bench, FIRST)
    first = bench.run(totals)
    rows += feed(bench, SECOND)
    bench.run(renamed, snapshot=first)
    assert bench.last("k") == totals_of(rows)


def test_an_added_filter_is_no_change(bench: Bench) -> None:
    def filtered(bench: Bench):
        made = F.count("*").alias("n"), F.sum("a").alias("s")
        return stage("totals", bench.source().where("a < 20").groupBy("k").agg(*made))

    rows = feed(bench, FIRST)
    first = bench.run(totals)
    stage_item = bench.item(first, filtered)
    assert stage_item.verdict == "carried" and "now a < 20" in stage_item.reason
    rows += [r for r in feed(bench, SECOND) if r["a"] < 20]
    bench.run(filtered, snapshot=first)
    assert bench.last("k") == totals_of(rows)


def test_unnamed_sources_that_change_places_go_on_with_their_own_offsets(bench: Bench) -> None:
    """Spark would go on at the other one's."""

    def union(*names: str) -> Callable:
        def build(bench: Bench):
            one, two = (bench.source(name=name).withColumn("k", F.concat(F.lit(name), "k")) for name in names)
            return one.union(two).groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s"))

        return build

    def wrote(name: str, files: list[list[dict]]) -> list[dict]:
        for rows in files:
            bench.write(rows, name)
        return [{**r, "k": name + r["k"]} for rows in files for r in rows]

    rows = wrote("eu", FIRST) + wrote("us", SECOND[:1])
    first = bench.run(union("eu", "us"))
    rows += wrote("eu", SECOND) + wrote("us", FIRST[:1])
    assert bench.spark_check(first, union("us", "eu")).compatible
    bench.run(union("us", "eu"), snapshot=first)
    assert bench.last("k") == totals_of(rows)


def test_a_stage_added_above_a_running_one_starts_empty_and_the_other_keeps_its_state(bench: Bench) -> None:
    """The deduplication is upstream: it gets operator id 1, the aggregation keeps 0. Repeats are seen from now on."""

    rows = feed(bench, FIRST)
    first = bench.run(totals)
    again = [[row("a", 1), row("a", 1), row("e", 7)], [row("a", 1), row("e", 7), row("e", 8)]]
    feed(bench, again)
    rows += [row("a", 1), row("e", 7), row("e", 8)]  # what is left after the new deduplication, itself empty at first
    second = bench.run(once_and_totals, "update", snapshot=first)
    assert bench.last("k") == totals_of(rows)

    # and removed again: its state is left behind, which has to be agreed to
    report = bench.check(second, totals)
    assert not report.compatible
    assert [(i.name, i.verdict) for i in report.items if i.blocks] == [("q/once", "ignored")]
    assert "--agree q/once" in report.problems[0]
    rows += feed(bench, SECOND)
    bench.run(totals, snapshot=second, agree=("q/once",))
    assert bench.last("k") == totals_of(rows)


def windows(**minutes: int):
    """A union of counts by windows of so many minutes, each a stage."""

    def build(bench: Bench):
        stream, united = bench.late(), None
        for name, length in minutes.items():
            made = F.count("*").alias("n"), F.sum("a").alias("s")
            counted = stage(name, stream.groupBy(F.window("ts", f"{length} minutes"), "k").agg(*made))
            branch = counted.selectExpr(f"'{name}' stage", "date_format(window.start, 'HH:mm') start", "k", "n", "s")
            united = branch if united is None else united.union(branch)
        return united

    return build


LONG, LONG_SHORT, SHORT_LONG = windows(long=60), windows(long=60, short=10), windows(short=10, long=60)


def closed_windows(rows: list[dict], name: str, minutes: int, watermark: int) -> Counter:
    """What append mode has emitted once the watermark stands at `watermark` (minutes)."""
    groups: dict[tuple, list[int]] = defaultdict(list)
    for r in rows:
        hours, mins = int(r["ts"][11:13]), int(r["ts"][14:16])
        start = (hours * 60 + mins) // minutes * minutes
        groups[start, r["k"]].append(r["a"])
    return Counter(
        (name, f"{start // 60:02d}:{start % 60:02d}", k, len(values), sum(values))
        for (start, k), values in groups.items()
        if start + minutes <= watermark
    )


def test_windows_added_and_reordered_keep_what_is_open(bench: Bench) -> None:
    """v1: one window; v2 adds another (a source used twice: two lines in the offset log); v3 swaps the ids."""
    first_rows = feed(bench, [[row("a", 1, minute=5), row("b", 2, minute=20)], [row("a", 3, minute=50)]])
    first = bench.run(LONG, "append")
    assert not bench.all()  # the hour is open: its rows must come out of carried state
    second_rows = feed(bench, [[row("a", 4, minute=55)], [row("a", 5, minute=62), row("b", 6, minute=66)]])
    second = bench.run(LONG_SHORT, "append", snapshot=first)
    third_rows = feed(bench, [[row("a", 7, minute=70)], [row("b", 8, minute=200)], [row("b", 9, minute=201)]])
    third = bench.run(SHORT_LONG, "append", snapshot=second)

    rows = first_rows + second_rows + third_rows
    watermark = 201 - 10
    expected = closed_windows(rows, "long", 60, watermark)
    expected += closed_windows(second_rows + third_rows, "short", 10, watermark)  # it began with the second version
    assert Counter(tuple(r.values()) for r in bench.all()) == expected
    assert len(expected) == 8
    ids = [bench.registry.plan(f"d{n}").query("q").stage("long").operator_id for n in (1, 2, 3)]
    assert ids == [0, 0, 1]
    assert bench.check(third, SHORT_LONG, "append").compatible


class Seen(StatefulProcessor):
    """Counts a key's rows and remembers the largest value; `bonus` is code, not state."""

    bonus = 0

    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n long")
        self.largest = handle.getMapState("largest", "k2 string", "a long")

    def handleInputRows(self, key, rows: Iterator[Row], timers) -> Iterator[Row]:
        n = self.count.get()[0] if self.count.exists() else 0
        for r in rows:
            n += 1
            before = self.largest.getValue((r.k2,))[0] if self.largest.containsKey((r.k2,)) else 0
            self.largest.updateValue((r.k2,), (max(before, r.a),))
        self.count.update((n,))
        best = max(value[0] for _, value in self.largest.iterator())
        yield Row(k=key[0], n=n + self.bonus, best=best)

    def close(self) -> None:
        pass


class SeenWithBonus(Seen):
    bonus = 100


def seen(processor):
    def build(bench: Bench):
        grouped, schema = bench.source().groupBy("k"), "k string, n long, best long"
        return stage("seen", grouped.transformWithState(processor(), schema, "Update", "None"))

    return build


@pytest.mark.slow  # in test_stages.py as well, but for other code
def test_transform_with_state_keeps_its_variables_when_its_code_changes(rocksdb: Bench) -> None:
    rows = feed(rocksdb, FIRST)
    first = rocksdb.run(seen(Seen))
    assert not metadata_ahead(rocksdb.saved(first), *rocksdb.plan(seen(Seen), snapshot=first))  # it holds paths
    rows += feed(rocksdb, SECOND)
    report = rocksdb.check(first, seen(SeenWithBonus))
    assert [(i.verdict, i.rules) for i in report.items if i.blocks] == [("carried with loss", ("stage.code",))]
    rocksdb.run(seen(SeenWithBonus), snapshot=first, agree=("q/seen",))
    expected = {}
    for k in {r["k"] for r in rows}:
        mine = [r for r in rows if r["k"] == k]
        bonus = 100 if any(r in rows[len(rows) - 4 :] for r in mine) else 0  # its last row came under version 2
        expected[(k,)] = {"k": k, "n": len(mine) + bonus, "best": max(r["a"] for r in mine)}
    assert rocksdb.last("k") == expected


def test_metadata_made_ahead_of_a_restore_is_what_the_restore_would_write(rocksdb: Bench) -> None:
    rows = feed(rocksdb, FIRST)
    first = rocksdb.run(totals)
    saved, (plan, writers) = rocksdb.saved(first), rocksdb.plan(totals, snapshot=first)
    ahead = metadata_ahead(saved, plan, writers)
    other = attrs.evolve(ahead["q"], files={"state/0/_metadata/metadata": b"of another configuration"}, conf={})
    for deployment, made in (("ahead", ahead), ("anew", None), ("other", {"q": other})):
        restore_app(saved, plan, writers, rocksdb.registry, deployment, ahead=made)
    found = {d: files_of(rocksdb.registry.checkpoint(d, "q")) for d in ("ahead", "anew", "other")}
    assert set(ahead["q"].files) < set(found["anew"])
    assert found["ahead"] == found["anew"] == found["other"]
    rows += feed(rocksdb, SECOND)
    rocksdb._read_all(writers, rocksdb.registry.checkpoint("ahead", "q"), plan)
    assert rocksdb.last("k") == totals_of(rows)


def test_state_that_was_copied_ahead_is_not_copied_again(rocksdb: Bench, monkeypatch) -> None:
    """As on an object store, where nothing can be linked; while version 1 goes on."""
    rows = feed(rocksdb, FIRST)
    first = rocksdb.run(totals)
    rows += feed(rocksdb, SECOND)
    second = rocksdb.run(totals, snapshot=first)
    plan, writers = rocksdb.plan(totals, snapshot=second)
    monkeypatch.setattr(Folder, "links", False)
    rounds = iter([first, second, second])
    copied = copy_ahead(lambda: rocksdb.saved(next(rounds)), plan, rocksdb.registry, "new")
    monkeypatch.undo()
    checkpoint = rocksdb.registry.checkpoint("new", "q")
    assert copied["q"] and set(copied["q"]) == set(checkpoint.files())
    checkpoint.write("state/0/0/left-behind", b"by another standby")
    brought: list[str] = []
    copy_from = Folder.copy_from
    monkeypatch.setattr(Folder, "copy_from", lambda *a: brought.append(a[-1]) or copy_from(*a))
    restore_app(rocksdb.saved(second), plan, writers, rocksdb.registry, "new", copied=copied)
    assert brought and not set(brought) & set(copied["q"])
    assert not checkpoint.exists("state/0/0/left-behind")
    rows += feed(rocksdb, [[row("a", 50)]])
    rocksdb._read_all(writers, checkpoint, plan)
    assert rocksdb.last("k") == totals_of(rows)


def files_of(checkpoint: Folder) -> dict[str, bytes | None]:
    return {path: checkpoint.read(path) for path in checkpoint.files()}


@pytest.mark.parametrize("asked", one_is_fast(["3", "4"]))
def test_a_join_in_a_format_that_its_store_does_not_have_is_itself(spark, tmp_path, asked: str) -> None:
    """Spark takes another one at the first start and records that."""
    if spark.version < "4.3":
        pytest.skip("Spark before 4.3 takes no other one: its query fails at the start")

    def build(bench: Bench):
        left, right = (bench.source(name=side).select(F.col("k").alias(f"{side}k"), "a") for side in ("l", "r"))
        return stage("pairs", left.join(right, F.expr("lk = rk"))).select("lk")

    spark.conf.set(JOIN_FORMAT, asked)
    bench = Bench(spark, tmp_path, HDFS)
    bench.write([row("a", 1)], "l")
    bench.write([row("a", 2)], "r")
    for app, mode in ((build, "append"), (lambda b: stage("n", b.source(name="l").groupBy("k").count()), "update")):
        report = bench.spark_check(bench.run(app, mode), app, mode)
        assert {i.verdict for i in report.items} == {"carried"}, report.to_markdown()


averages = by("window(ts, '1 hour'); k", "avg(a) mean", "count(*) n", name="s", delay="10 minutes")


@pytest.mark.parametrize("provider", [ROCKSDB, HDFS])
def test_a_plan_file_is_compatible_with_its_own_version(spark, tmp_path: Path, provider: str) -> None:
    """An average has two columns in a state row, and a window key of two: format 1 keeps its keys in the value, too."""
    bench = Bench(spark, tmp_path, provider)
    first, _ = bench.plan(averages)
    file = tmp_path / "plan.json"
    file.write_bytes(to_json(first))
    kept = PlanFile.read(str(file))
    assert set(kept.recorded) == {"q"}
    again = plan_app(spark, Declarations("bench"), bench.app(averages).build(spark, {}), recorded=kept.recorded)
    assert again.queries[0].stages[0].schemas == first.queries[0].stages[0].schemas
    report = compare(kept.plan, again, kept.source)
    assert report.compatible, report.problems


@pytest.mark.slow
def test_other_code_other_assets_and_other_names_of_steps_around_a_stage(spark, tmp_path) -> None:
    """A function above it, a file of prices below it and the alias of a step change; all hold from now on."""

    def sales(step: str, percent: int) -> Callable:
        def build(bench: Bench):
            prices = bench.spark.read.schema("k string, price long").json(str(tmp_path / "prices"))
            priced = bench.source().alias(step).join(prices, "k")
            totals = stage("totals", priced.groupBy("k").agg(F.sum("price").alias("s")))
            taxed = F.udf(lambda s: s * (100 + percent) // 100, "long")
            return totals.select("k", taxed("s").alias("s"))

        return build

    def price(of_a: int) -> None:
        (tmp_path / "prices" / "prices.json").write_text(json.dumps({"k": "a", "price": of_a}) + "\n")

    bench = Bench(spark, tmp_path, HDFS)
    (tmp_path / "prices").mkdir()
    price(100)
    bench.write([row("a", 1), row("a", 1)])
    snapshot = bench.run(sales("read", 0))
    price(1000)
    assert {i.verdict for i in bench.check(snapshot, sales("received", 10)).items} == {"carried"}
    bench.write([row("a", 1)])
    bench.run(sales("received", 10), snapshot=snapshot)
    assert [r["s"] for r in bench.all()] == [200, (200 + 1000) * 110 // 100]
