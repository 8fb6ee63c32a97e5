"""Changes Spark accepts by position and type, and gets wrong: each is refused, and the report says what changed.

The plans are made by real Spark; nothing needs to be run but the first version, whose snapshot they are compared with.
"""

from __future__ import annotations

import json
import sys

import pytest
from bench import Bench, row
from pyspark import cloudpickle
from pyspark.sql import functions as F
from test_restore_by_name import Seen, seen

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.streaming import source, stage
from tests.cases import one_is_fast

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Python workers cannot import test modules


def grouped(*keys: str, aggregates=None):
    made = aggregates or (lambda: [F.count("*").alias("n"), F.sum("a").alias("s")])
    return lambda bench: stage("totals", bench.source().groupBy(*keys).agg(*made()))


def window(*arguments: str, delay: str = "10 minutes"):
    def build(bench: Bench):
        stream = bench.source().withWatermark("ts", delay)
        return stage("w", stream.groupBy(F.window("ts", *arguments), "k").count())

    return build


def dedup(*columns: str):
    return lambda bench: stage("once", bench.source().dropDuplicates(list(columns)))


def hidden_rename(bench: Bench):
    source = bench.source().select(F.col("k2").alias("k"), "a")
    return stage("totals", source.groupBy("k").agg(F.count("*").alias("n"), F.sum("a").alias("s")))


def pruned(column: str):
    """Both sums are asked for, one is used: the optimizer keeps only that one in the state row."""

    def build(bench: Bench):
        both = stage("totals", bench.source().groupBy("k").agg(F.sum("a").alias("x"), F.sum("b").alias("y")))
        return both.select("k", F.col(column).alias("total"))

    return build


def selected(*columns: str):
    """The optimizer puts the selected columns into the aggregation, so their order is the order in the state row."""

    def build(bench: Bench):
        both = stage("totals", bench.source().groupBy("k").agg(F.sum("a").alias("x"), F.sum("b").alias("y")))
        return both.select("k", *columns)

    return build


def aggregated(*functions):
    return grouped("k", aggregates=lambda: [f() for f in functions])


class OtherVariable(Seen):
    def init(self, handle) -> None:
        self.count = handle.getValueState("hits", "n long")
        self.largest = handle.getMapState("largest", "k2 string", "a long")


class OtherType(Seen):
    def init(self, handle) -> None:
        self.count = handle.getValueState("count", "n string")
        self.largest = handle.getMapState("largest", "k2 string", "a long")


TRAPS = {
    "swapped grouping keys": (grouped("k", "k2"), grouped("k2", "k"), "update", "the order of keys"),
    "another key": (grouped("k"), grouped("k2"), "update", "keys"),
    "another column under the old name": (grouped("k"), hidden_rename, "update", "keys"),
    "sum to max": (aggregated(lambda: F.sum("a")), aggregated(lambda: F.max("a")), "update", "aggregates"),
    "sum of another column": (aggregated(lambda: F.sum("a")), aggregated(lambda: F.sum("b")), "update", "aggregates"),
    "pruned to the other sum": (pruned("x"), pruned("y"), "update", "aggregates"),
    "tumbling 10 to 15 minutes": (window("10 minutes"), window("15 minutes"), "append", "keys"),
    "tumbling to sliding": (window("10 minutes"), window("10 minutes", "5 minutes"), "append", "keys"),
    "window offset": (window("10 minutes"), window("10 minutes", "10 minutes", "3 minutes"), "append", "keys"),
    "watermark delay": (window("10 minutes"), window("10 minutes", delay="1 minute"), "append", "watermark"),
    "another deduplication column": (dedup("k"), dedup("k2"), "append", "keys"),
    "another state variable": (seen(Seen), seen(OtherVariable), "update", "state variables"),
    "another type of a state variable": (seen(Seen), seen(OtherType), "update", "value type"),
}


# Traps as well, but not refused: the state can be rewritten to what the new plan means (test_migration.py).
MIGRATED = {
    "swapped aggregates": (
        aggregated(lambda: F.sum("a"), lambda: F.sum("b")),
        aggregated(lambda: F.sum("b"), lambda: F.sum("a")),
        "update",
        (),
    ),
    "reordered select, which reorders the state row": (selected("x", "y"), selected("y", "x"), "update", ()),
    "tumbling 10 to 20 minutes": (window("10 minutes"), window("20 minutes"), "append", ("q/w",)),
}


@pytest.fixture
def bench(spark, tmp_path) -> Bench:
    return Bench(spark, tmp_path)


@pytest.mark.parametrize("name", one_is_fast(TRAPS, 5))
def test_a_change_of_meaning_is_refused(name: str, bench: Bench) -> None:
    old, new, mode, reason = TRAPS[name]
    bench.write([row("a", 1)])
    snapshot = bench.run(old, mode)
    assert bench.check(snapshot, old, mode).compatible
    report = bench.check(snapshot, new, mode)
    assert not report.compatible
    assert any(i.reason.startswith(reason) for i in report.items if i.blocks), report.problems


@pytest.mark.parametrize("name", MIGRATED)
def test_a_change_that_can_be_made_good_is_migrated(name: str, bench: Bench) -> None:
    old, new, mode, agree = MIGRATED[name]
    bench.write([row("a", 1)])
    snapshot = bench.run(old, mode)
    report = bench.check(snapshot, new, mode)
    assert [i.verdict for i in report.items if i.thing == "stage"] == ["carried with loss" if agree else "migrated"]
    assert tuple(i.name for i in report.items if i.blocks) == agree


def shortened(length: int):
    def build(bench: Bench):
        shorten = F.udf(lambda text: text[:length], "string")
        return stage("totals", bench.source().groupBy(shorten("k").alias("key")).count())

    return build


def test_a_python_function_in_a_key_is_compared_by_its_code(bench: Bench) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(shortened(1))
    assert bench.check(snapshot, shortened(1)).compatible
    assert "keys changed from [Python function #" in bench.check(snapshot, shortened(2)).problems[0]


@pytest.mark.parametrize(
    ("called", "carried"),
    [
        ("java_method('java.lang.String', 'valueOf', k)", True),
        ("reflect('java.util.Objects', 'toString', k)", True),
        ("java_method('org.apache.commons.lang3.StringUtils', 'capitalize', k)", False),
        ("try_reflect('org.apache.commons.lang3.StringUtils', 'capitalize', k)", False),
    ],
)
def test_code_of_the_jvm_that_is_called_by_name_cannot_be_compared(bench: Bench, called: str, carried: bool) -> None:
    """An outside review exchanged the jar behind the class: the key was carried, and was another one."""

    def build(bench: Bench):
        return stage("totals", bench.source().groupBy(F.expr(called)).count())

    plan, _ = bench.plan(build)
    report = compare(plan, plan, "itself")
    assert report.compatible is carried
    assert carried or "java_method" in report.problems[0]


def mapped(factor: int):
    def build(bench: Bench):
        def double(frames):
            for frame in frames:
                yield frame.assign(a=frame["a"] * factor)

        return stage(
            "totals", bench.source().select("k", "a").mapInPandas(double, "k string, a long").groupBy("a").count()
        )

    return build


def test_a_key_from_map_in_pandas_is_compared_by_the_function_s_code(bench: Bench) -> None:
    old, same, other = (bench.plan(mapped(factor))[0] for factor in (2, 2, 3))
    assert compare(old, same, "the old plan").compatible
    assert "keys changed from [Python function #" in compare(old, other, "the old plan").problems[0]


def hourly(unit: str):
    """By the hour in which the query saw a row."""
    return lambda bench: stage(
        "totals", bench.source().groupBy(F.date_trunc(unit, F.current_timestamp()).alias("seen"), "k").count()
    )


def test_a_key_that_asks_for_the_time_is_refused(bench: Bench) -> None:
    """A dry run's optimizer takes the moment of planning for a constant, and drops it from the keys."""
    old, new = (bench.plan(hourly(unit))[0] for unit in ("hour", "day"))
    for plan in (old, new):
        assert "keys could not be traced to the source (?trunctimestamp(" in compare(old, plan, "it").problems[0]


def filled(*sources: str):
    """Keys of the first source cannot be null; those of another one can."""

    def build(bench: Bench):
        one, *others = (source(name, bench.source(name=name)).select("k") for name in sources)
        keys = one.select(F.coalesce("k", F.lit("")).alias("k"))
        for other in others:
            keys = keys.union(other)
        return stage("totals", keys.groupBy("k").count())

    return build


@pytest.mark.slow
def test_nulls_in_the_state_outlive_a_key_that_cannot_be_null_any_more(bench: Bench) -> None:
    """In Spark 4.3's state schemas every column can be null."""
    bench.write([row("a", 1)], "one")
    bench.write([{"a": 1}], "two")
    snapshot = bench.run(filled("one", "two"), "complete")
    bench.write([row("b", 1)], "one")
    bench.run(filled("one"), "complete", snapshot=snapshot, agree=("q/two",))
    assert {r["k"]: r["count"] for r in bench.emitted[max(bench.emitted)]} == {"a": 1, None: 1, "b": 1}


def first(value: str):
    def build(bench: Bench):
        firsts = stage("firsts", bench.source().groupBy("k").agg(F.first(F.expr(value)).alias("i")))
        return firsts.select("k", F.col("i").isNull().alias("none"))  # PySpark has no calendar intervals

    return build


def test_a_null_interval_in_the_state_keeps_spark_from_loading_it(bench: Bench) -> None:
    months = first("if(a > 1, make_interval(1), null)")
    bench.write([row("a", 1)])
    snapshot = bench.run(months)
    refused = next(i for i in bench.check(snapshot, months).items if i.verdict == "refused")
    assert refused.reason.startswith("value columns first of the state are calendar intervals")
    bench.write([row("a", 1)])
    with pytest.raises(Exception, match="ROW_FORMAT_VALIDATION_FAILURE"):
        bench.run(months, snapshot=snapshot, agree=("q/firsts:same=to see what Spark does",))
    days = first("if(a > 1, make_dt_interval(1), null)")
    bench.unread = bench.files
    assert bench.check(bench.run(days), days).compatible


def test_agreeing_to_something_that_is_no_loss_is_an_error(bench: Bench) -> None:
    bench.write([row("a", 1)])
    snapshot = bench.run(grouped("k"))
    with pytest.raises(InvalidInputError, match="q/other"):
        bench.check(snapshot, grouped("k"), agree=("q/other",))


def looked_up(table: str, key: str = "k"):
    def build(bench: Bench):
        path = str(bench.folder / table)
        places = bench.spark.read.schema("id string, place string").json(path)
        found = bench.source().join(places, F.col(key) == F.col("id"))
        return stage("totals", found.groupBy("place").agg(F.sum("a").alias("s")))

    return build


def test_a_column_from_a_table_is_what_it_is_looked_up_by_and_in(bench: Bench) -> None:
    for table in ("cities", "rivers"):
        (bench.folder / table).mkdir()
        (bench.folder / table / "1.json").write_text(json.dumps({"id": "a", "place": table}))
    old = bench.plan(looked_up("cities"))[0]
    for new, same in ((looked_up("cities"), True), (looked_up("rivers"), False), (looked_up("cities", "k2"), False)):
        report = compare(old, bench.plan(new)[0], "the old plan")
        assert report.compatible is same, report.problems
        assert same or "keys changed from [lookup(" in report.problems[0]


def test_a_key_from_a_subquery_is_what_it_asks_for(bench: Bench) -> None:
    def keyed_by(subquery: str):
        def build(bench: Bench):
            bench.spark.range(3).createOrReplaceTempView("numbers")
            keyed = bench.source().selectExpr("k", f"a + ({subquery}) AS m")
            return stage("totals", keyed.groupBy("m").count())

        return bench.plan(build)[0]

    plan = keyed_by("SELECT max(id) FROM numbers")
    assert compare(plan, keyed_by("SELECT max(id) FROM numbers"), "itself").compatible
    for other in (
        "SELECT min(id) FROM numbers",
        "SELECT max(id) FROM numbers WHERE id < 2",
        "SELECT max(id) FROM range(4)",
    ):
        assert "keys changed" in compare(plan, keyed_by(other), "the other").problems[0]


def daily(bench: Bench):
    return stage("totals", bench.source().groupBy(F.to_date("ts").alias("day")).count())


def sessions_of(gap: str):
    def build(bench: Bench):
        stream = bench.source().withWatermark("ts", "10 minutes")
        return stage("w", stream.groupBy(F.session_window("ts", gap), "k").count())

    return build


def pairs_within(interval: str):
    def build(bench: Bench):
        left, right = (bench.source(name=n).withWatermark("ts", "1 minute") for n in ("left", "right"))
        left, right = left.toDF("k", "k2", "a", "b", "lts"), right.toDF("rk", "rk2", "ra", "rb", "rts")
        on = F.expr(f"k = rk AND rts BETWEEN lts AND lts + INTERVAL {interval}")
        return stage("pairs", left.join(right, on)).select("k", "a", "ra")

    return build


def test_a_time_zone_has_no_part_in_a_join_within_hours(bench: Bench) -> None:
    for interval, verdict in (("90 MINUTES", "carried"), ("2 DAYS", "refused"), ("1 MONTH", "refused")):
        plans = []
        for zone in ("UTC", "Asia/Tokyo"):
            bench.spark.conf.set("spark.sql.session.timeZone", zone)
            plans.append(bench.plan(pairs_within(interval))[0])
        items = compare(*plans, "the old plan").items
        assert {i.verdict for i in items if i.thing == "stage"} == {verdict}, interval


def test_another_time_zone_is_another_key_where_the_key_depends_on_it_and_a_loss_elsewhere(bench: Bench) -> None:
    plans = {}
    for zone in ("UTC", "Etc/UTC", "Asia/Tokyo"):
        bench.spark.conf.set("spark.sql.session.timeZone", zone)
        builds = (daily, sessions_of("1 day"), grouped("k"), sessions_of("90 minutes"))
        plans[zone] = [bench.plan(build, "complete")[0] for build in builds]
    for old, new in zip(plans["UTC"], plans.pop("Etc/UTC"), strict=True):
        assert compare(old, new, "the old plan").compatible  # another name of it
    reports = [compare(*pair, "the old plan") for pair in zip(*plans.values(), strict=True)]
    for of_days in reports[:2]:
        assert {i.verdict for i in of_days.items if i.thing == "stage"} == {"refused"}
    for report in reports[2:]:
        assert [(i.name, i.verdict) for i in report.items if i.blocks] == [
            ("q:spark.sql.session.timeZone", "carried with loss")
        ]


def test_a_column_under_another_case_is_no_change(bench: Bench) -> None:
    old, new = bench.plan(grouped("k"))[0], bench.plan(grouped("K"))[0]
    assert compare(old, new, "the old plan").compatible


def test_another_precision_of_a_decimal_is_refused(bench: Bench) -> None:
    def summed(kind: str):
        return grouped("k", aggregates=lambda: [F.sum(F.col("a").cast(kind)).alias("s")])

    old, new = (bench.plan(summed(kind))[0] for kind in ("decimal(12,2)", "decimal(10,2)"))
    report = compare(old, new, "the old plan")
    assert {r for i in report.items if i.blocks for r in i.rules} == {"stage.aggregate-arguments", "stage.type"}


def test_a_null_that_becomes_a_value_is_another_key(bench: Bench) -> None:
    def keyed(column):
        return lambda bench: stage("totals", bench.source().groupBy(column.alias("key")).count())

    old, new = bench.plan(keyed(F.col("k")))[0], bench.plan(keyed(F.coalesce("k", F.lit(""))))[0]
    assert not compare(old, new, "the old plan").compatible


def test_sliding_to_session_windows_is_another_kind(bench: Bench) -> None:
    versions = (window("10 minutes", "5 minutes"), sessions_of("5 minutes"))
    old, new = (bench.plan(b, "append")[0] for b in versions)
    report = compare(old, new, "the old plan")
    assert {r for i in report.items if i.blocks for r in i.rules} >= {"stage.kind"}


def test_the_order_of_a_join_s_other_conditions_does_not_count(bench: Bench) -> None:
    def pairs(condition: str):
        def build(bench: Bench):
            left = bench.source(name="left").select(F.col("k").alias("lk"), F.col("a").alias("la"))
            right = bench.source(name="right").select(F.col("k").alias("rk"), F.col("a").alias("ra"))
            return stage("pairs", left.join(right, F.expr(condition)))

        return build

    texts = ("lk = rk AND la > ra AND la <> 7 + ra", "la <> 7 + ra AND rk = lk AND la > ra", "lk = rk AND la > ra")
    plans = [bench.plan(pairs(text), "append")[0] for text in texts]
    assert compare(plans[0], plans[1], "the old plan").compatible
    assert "join condition changed" in compare(plans[0], plans[2], "the old plan").problems[0]


def test_a_changed_select_above_a_join_changes_what_its_state_holds(bench: Bench) -> None:
    def pairs(*columns: str):
        def build(bench: Bench):
            left = bench.source(name="left").select(
                F.col("k").alias("lk"), F.col("a").alias("la"), F.col("b").alias("lb")
            )
            right = bench.source(name="right").select(F.col("k").alias("rk"))
            return stage("pairs", left.join(right, F.expr("lk = rk"))).select(*columns)

        return build

    old, new = (bench.plan(pairs(*columns), "append")[0] for columns in (("lk", "la"), ("lk", "lb")))
    assert "left columns of the join changed" in compare(old, new, "the old plan").problems[0]
