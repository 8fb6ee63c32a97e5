"""Aggregates, keys and types that do not follow from the saved state: each row is the old version, the new one, and
words of the reason (and a setting of both)."""

from __future__ import annotations

from pairs import Ground, Version
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.streaming import stage

KNOWN = "k string, k2 string, i int, a long, f float, d double, x decimal(12,2), y decimal(6,2), ts timestamp"
FROM_NOW_ON = "will cover only rows from this update on"


def by(keys: str, *aggregates: str, schema: str = KNOWN) -> Version:
    def build(g: Ground) -> DataFrame:
        return stage("t", g.read(schema).groupBy(*map(F.expr, keys.split("; "))).agg(*map(F.expr, aggregates)))

    return build


def retyped(old: str, new: str, aggregate: str, key: str = "k") -> tuple:
    """A column `x` of two types."""
    return tuple(by(key, aggregate, schema=f"k string, x {kind}, y decimal(6,2)") for kind in (old, new))


def added(kept: str, aggregate: str) -> tuple:
    """An aggregate that looks like what the kept ones know."""
    of = kept.split("; ")
    return by("k", *of), by("k", aggregate, *of), FROM_NOW_ON


# old version, new version, words of the reason (FROM_NOW_ON where it is a loss that is agreed to), settings of both
REFUSED: dict[str, tuple] = {
    "sum becomes max": (by("k", "sum(a)"), by("k", "max(a)"), "looks like a replacement"),
    "a key of deviations": (by("k; k2", "stddev(a)"), by("k", "stddev(a)"), "stddev"),
    "a narrower number": (*retyped("bigint", "int", "max(x)"), "value type"),
    "sums of doubles of longs": added("sum(cast(a as double)); count(a)", "avg(a)"),
    # sums of decimals
    "fewer digits": (*retyped("decimal(10,2)", "decimal(8,2)", "sum(x)"), ""),
    "fewer whole digits": (*retyped("decimal(10,2)", "decimal(11,4)", "max(x)"), ""),
    "plain numbers of another scale": (*retyped("decimal(8,2)", "decimal(8,3)", "sum(x)"), ""),
    "a product": (*retyped("decimal(10,2)", "decimal(18,2)", "sum(x * y)"), ""),
    # it was overlooked: the sum kept what the new filter does not let through
    "a filter of its text": (
        *retyped("decimal(6,2)", "decimal(8,3)", "sum(x) FILTER (WHERE cast(x AS string) LIKE '%.05')"), ""),
    "a hash": (*retyped("decimal(10,2)", "decimal(18,2)", "sum(hash(x))"), ""),
    # what only looks like what is known
    "sums of longs that may have wrapped": (*added("sum(a); count(a)", "avg(a)"), ("spark.sql.ansi.enabled", "false")),
    "sums of another type": added("sum(cast(i as bigint)); count(i)", "avg(i)"),
    "a count of another column": added("sum(d); count(f)", "avg(d)"),
    "a count of rows, which has those without a value": added("sum(d); count(*)", "avg(d)"),
    "another filter": added(
        "sum(d) FILTER (WHERE i > 1); count(d) FILTER (WHERE i > 1)", "avg(d) FILTER (WHERE i > 2)"),
    "intervals": added("sum(make_dt_interval(i)); count(make_dt_interval(i))", "avg(make_dt_interval(i))"),
    "a sum of longs of an average": added("avg(a)", "sum(a)"),
    "moments of two columns": added("covar_pop(d, f)", "corr(d, f)"),
}  # fmt: skip
