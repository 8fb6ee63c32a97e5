"""Sums and averages of decimals in the state: decimals that get more digits, and the app's own function, which is given
sums with their scale. The optimizer keeps those of short decimals as plain numbers (DecimalAggregates). The oracle is
one Spark batch of the new version over all rows."""

from __future__ import annotations

import pytest
from bench import Bench, by, row
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.errors import ApplicationError
from tests.cases import one_is_fast

# column -> its type before and after: a sum and an average each keep their scale or not, before and after
TYPES = {
    "p": ("decimal(6,3)", "decimal(8,3)"),
    "q": ("decimal(8,2)", "decimal(18,2)"),
    "r": ("decimal(10,2)", "decimal(18,2)"),
    "s": ("decimal(11,2)", "decimal(18,4)"),
    "t": ("decimal(12,2)", "decimal(20,2)"),
}
OLD, NEW = (", ".join(f"{c} {kinds[i]}" for c, kinds in TYPES.items()) for i in (0, 1))


def amounts(k: str, value: str | None, k2: str = "x") -> dict:
    return {"k": k, "k2": k2, "a": None if value is None else round(float(value)), **dict.fromkeys(TYPES, value)}


FIRST = [amounts("a", "-0.13"), amounts("a", "999.99", "y"), amounts("a", None), amounts("b", "0.01"),
         amounts("none", None), amounts("c", "-999.99")]  # fmt: skip
SECOND = [amounts("a", "-250.25"), amounts("b", None), amounts("none", None), amounts("d", "7.1")]
WIDE = amounts("b", "12345.67")  # for the new types alone


def version(schema: str, cast: str, keys: str = "k"):
    functions = ("sum", "avg", "min", "max", "count")
    made = [f"{f}({c}) {f}_{c}" for c in TYPES for f in functions]
    made += [f"{f}(cast(a AS {cast})) {f}_cast" for f in functions]
    return by(keys, *made, schema=f"k string, k2 string, a long, {schema}")


@pytest.mark.parametrize("dropped", one_is_fast([True, False]), ids=["wider-and-a-key-dropped", "wider"])
def test_decimals_get_more_digits_under_every_aggregate(bench: Bench, dropped: bool) -> None:
    """An average was refused: `average(unscaledvalue(..)) removed and average(..) added`."""
    old, new = version(OLD, "decimal(10,2)", "k; k2" if dropped else "k"), version(NEW, "decimal(18,2)")
    bench.write(FIRST)
    snapshot = bench.run(old)
    bench.emitted.clear()
    item = bench.item(snapshot, new)
    assert (item.verdict, item.needs_agreement) == ("migrated", False), item.reason
    for column, (was, now) in TYPES.items():
        assert f"avg({column}): {was} -> {now}" in item.reason
    assert "avg(CAST(a AS decimal(*,2))): decimal(10,2) -> decimal(18,2)" in item.reason
    bench.write([*SECOND, {**WIDE, "p": "12.345"}])
    bench.run(new, snapshot=snapshot)
    wanted = {(row["k"],): row for row in bench.batch(new) if row["k"] != "c"}
    assert bench.last("k") == wanted


def test_an_average_that_a_double_has_rounded_is_not_taken_for_exact(bench: Bench) -> None:
    old, new = (by("k", "avg(r)", schema=f"k string, r {kind}") for kind in ("decimal(11,2)", "decimal(18,2)"))
    many = 100_000  # times the largest value: more than 2**53 hundredths
    (bench.input() / "0000.json").write_text('{"k": "a", "r": 999999999.99}\n' * many)
    bench.files, bench.unread = 1, many
    snapshot = bench.run(old)
    with pytest.raises(Exception, match="an average in the state of stage totals has a sum that a double has rounded"):
        bench.run(new, snapshot=snapshot)


STATE = (
    "k string -> total_sum decimal(18,2), mean_sum decimal(20,2), mean_count bigint, whole_sum bigint, "
    "long_sum decimal(22,2), long_count bigint"
)


def by_key(key: str):
    made = ("sum(q) total", "avg(r) mean", "sum(a) whole", "avg(t) long")
    return by(f"{key} key", *made, schema=f"k string, k2 string, a long, {OLD}")


def test_the_app_s_own_function_is_given_values_and_names(bench: Bench) -> None:
    """It was given cents in a double, and three columns called `sum`: -272.375 came out in place of -0.125."""
    old, new = by_key("k"), by_key("upper(k)")

    def merged(rows: DataFrame) -> DataFrame:
        columns = ("total_sum", "mean_sum", "mean_count", "whole_sum", "long_sum", "long_count")
        kinds = {"total_sum": "decimal(18,2)", "mean_sum": "decimal(20,2)", "long_sum": "decimal(22,2)"}
        sums = [F.sum(f"value.{c}").cast(kinds.get(c, "bigint")).alias(c) for c in columns]
        groups = rows.groupBy(F.upper("key.k").alias("key")).agg(*sums)
        return groups.select(F.struct("key").alias("key"), F.struct(*columns).alias("value"))

    bench.write([*FIRST, amounts("A", "0.25"), amounts("B", "-0.26")])
    snapshot = bench.run(old)
    bench.emitted.clear()
    before = bench.item(snapshot, new)
    assert before.verdict == "refused"
    bench.migrations["totals", STATE] = merged
    item = bench.item(snapshot, new)
    assert f"the app's own function rewrites {STATE}" in item.reason
    bench.write(SECOND)
    bench.run(new, snapshot=snapshot)
    wanted = {(row["key"],): row for row in bench.batch(new) if row["key"] != "C"}
    assert bench.last("key") == wanted


def test_a_function_that_returns_sums_without_their_scale_is_told_the_types(bench: Bench) -> None:
    bench.write(FIRST)
    snapshot = bench.run(by_key("k"))
    bench.migrations["totals", STATE] = lambda rows: rows.select(
        "key", rows["value"].withField("mean_sum", F.lit(1.0)).alias("value")
    )
    with pytest.raises(ApplicationError, match=r"return a DataFrame\(.*sum decimal\(20,2\)"):
        bench.run(by_key("upper(k)"), snapshot=snapshot)


@pytest.mark.slow
def test_a_session_s_sums_are_given_with_their_scale_too(bench: Bench) -> None:
    def visits(keys: str):
        grouped = by(
            f"{keys}; session_window(ts, '5 minutes')", "sum(q) total", "avg(r) mean", name="visits",
            delay="10 minutes", schema=f"k string, k2 string, ts timestamp, {OLD}",
        )  # fmt: skip
        start = "date_format(session_window.start, 'HH:mm') start"
        return lambda bench: grouped(bench).selectExpr("k", start, "total", "mean")

    def at(minute: int, k: str, value: str) -> dict:
        return {**row(k, 0, minute=minute), **dict.fromkeys(TYPES, value)}

    sums_of = {"total_sum": "decimal(18,2)", "mean_sum": "decimal(20,2)"}

    def halved(rows: DataFrame) -> DataFrame:
        value = [F.col(f"value.{c}") for c in ("k", "session_window")]
        sums = [(F.col(f"value.{c}") / 2).cast(kind).alias(c) for c, kind in sums_of.items()]
        key = F.struct("key.k", "key.sessionStartTime").alias("key")
        return rows.select(key, F.struct(*value, *sums, "value.count").alias("value"))

    state = (
        "k2 string, k string, sessionStartTime timestamp -> k2 string, k string, "
        "session_window struct<start:timestamp,end:timestamp>, total_sum decimal(18,2), mean_sum decimal(20,2), "
        "count bigint"
    )
    bench.write([at(1, "a", "-0.50"), at(2, "a", "8.26"), at(1, "b", "3.00")])
    snapshot = bench.run(visits("k2; k"), "append")
    bench.migrations["visits", state] = halved
    bench.write([at(4, "a", "0.12")])
    for minute in (900, 901):
        bench.write([at(minute, "end", "0")])
    bench.run(visits("k"), "append", snapshot=snapshot)
    found = {(r["k"], r["start"]): (str(r["total"]), str(r["mean"])) for r in bench.all()}
    assert found == {("a", "00:01"): ("4.00", "1.333333"), ("b", "00:01"): ("1.50", "1.500000")}
