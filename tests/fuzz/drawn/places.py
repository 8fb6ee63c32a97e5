"""The places of an app in which an expression decides something, each as the app around it.

An app is built of its sources alone, as streams or at rest: at rest it computes the answer in one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tests.fuzz.drawn.python_key import python_key
from tests.fuzz.drawn.spec import Drawn
from tests.spark.bench import stage
from tests.sweep.judge import SETTINGS as SWEEPS

SETTINGS = {**SWEEPS, "spark.sql.ansi.enabled": "false", "spark.sql.shuffle.partitions": "2"}
DELAY = 60  # minutes a watermark waits
Rows = Callable[[str], DataFrame]
"""A source by its name: ``in``, ``more`` with the same rows, or ``lookup``, which is always at rest."""


@attrs.frozen
class Place:
    """build: the app; kind: of the text (``scalar``, ``aggregate`` or ``python``); modes: it can run in
    key: the columns whose last row counts in update mode; sources: their names; ends: the column that tells, in
    minutes, when a row is emitted in append mode; empty: at once; apart: it has no place for a filter below
    dropping: a stage below drops rows
    """

    build: Callable[[Drawn, Rows], DataFrame]
    kind: str = "scalar"
    modes: tuple[str, ...] = ("append",)
    key: tuple[str, ...] = ()
    sources: tuple[str, ...] = ("in",)
    ends: str = ""
    apart: bool = False
    dropping: bool = False


def build(drawn: Drawn, rows: Rows) -> DataFrame:
    made = PLACES[drawn.place].build(drawn, rows)
    return made.select(*(shown(made, name).alias(name) for name in made.columns))


def holds(text: str) -> Column:
    """A condition that follows from an expression's value, whatever its type."""
    return F.expr(condition(text))


def condition(text: str) -> str:
    return f"xxhash64({text}) % 2 = 0"


def shown(frame: DataFrame, name: str) -> Column:
    """A column's value as text: the same for the same value, and of floating numbers what an order of additions does
    not change."""
    kind = frame.schema[name].dataType.simpleString().lower()
    column = F.col(f"`{name}`")
    if kind in ("double", "float"):
        return F.format_string("%.9e", column.cast("double") + F.lit(0.0))
    if kind == "binary":
        return F.hex(column)
    if "collate" in kind and kind.startswith("string"):
        return F.lower(column.cast("string"))  # which of the equal ones a group is shown by is not known
    return column if kind in ("int", "bigint") else column.cast("string")


def _base(drawn: Drawn, rows: Rows) -> DataFrame:
    found = rows("in")
    return found.where(drawn.where) if drawn.where else found


def _counts() -> tuple[Column, ...]:
    return F.count("*").alias("n"), F.sum("c_small").alias("s"), F.max("c_int2").alias("m")


def _key(drawn: Drawn, rows: Rows) -> DataFrame:
    return stage("s", _base(drawn, rows).groupBy(F.expr(drawn.text).alias("k")).agg(*_counts()))


def _python(drawn: Drawn, rows: Rows) -> DataFrame:
    key = F.udf(python_key(drawn.text, drawn.inputs), "string")
    return stage("s", _base(drawn, rows).groupBy(key("id").alias("k")).agg(*_counts()))


def _keys(drawn: Drawn, rows: Rows) -> DataFrame:
    """By both expressions; by one of them when there is no second."""
    texts = {"k": drawn.text, **({"k2": drawn.second} if drawn.second else {})}
    if drawn.flipped:
        texts = dict(reversed(texts.items()))
    return stage("s", _base(drawn, rows).groupBy(*(F.expr(e).alias(k) for k, e in texts.items())).agg(*_counts()))


def _input(drawn: Drawn, rows: Rows) -> DataFrame:
    value = F.expr(drawn.text)
    made = F.count(value).alias("n"), F.sort_array(F.collect_list(value)).alias("x")
    return stage("s", _base(drawn, rows).groupBy("g").agg(*made))


def _bounds(drawn: Drawn, rows: Rows) -> DataFrame:
    value = F.expr(drawn.text)
    return stage("s", _base(drawn, rows).groupBy("g").agg(F.min(value).alias("x"), F.max(value).alias("y")))


def _aggregate(drawn: Drawn, rows: Rows) -> DataFrame:
    return stage("s", _base(drawn, rows).groupBy("g").agg(F.expr(drawn.text).alias("x")))


def _filtered(drawn: Drawn, rows: Rows) -> DataFrame:
    counted = F.expr(f"count(*) FILTER (WHERE {condition(drawn.text)})")
    return stage("s", _base(drawn, rows).groupBy("g").agg(counted.alias("n")))


def _distinct(drawn: Drawn, rows: Rows) -> DataFrame:
    return stage("s", _base(drawn, rows).select(F.expr(drawn.text).alias("k")).dropDuplicates(["k"]))


def _window(drawn: Drawn, rows: Rows) -> DataFrame:
    timed = rows("in").withWatermark("ts", f"{DELAY} minutes")
    window = F.window("ts", "30 minutes").alias("w")
    counted = stage("s", timed.groupBy(window, F.expr(drawn.text).alias("k")).agg(*_counts()))
    return counted.select(_minute("w.end").alias("w"), "k", "n", "s", "m")


def _session(drawn: Drawn, rows: Rows) -> DataFrame:
    timed = rows("in").withWatermark("ts", f"{DELAY} minutes")
    gap = f"session_window(ts, CASE WHEN {condition(drawn.text)} THEN '5 minutes' ELSE '10 minutes' END)"
    counted = stage("s", timed.groupBy(F.expr(gap).alias("w"), "g").agg(F.count("*").alias("n")))
    return counted.select(_minute("w.end").alias("w"), _minute("w.start").alias("b"), "g", "n")


def _join(drawn: Drawn, rows: Rows) -> DataFrame:
    """second: a condition above it"""
    right = rows("more").selectExpr("c_small AS r_key", "id AS r_id")
    joined = rows("in").join(right, F.expr("c_small = r_key") & (holds(drawn.text) if drawn.text else F.lit(True)))
    above = joined.where(holds(drawn.second)) if drawn.second else joined
    return stage("s", above).select("id", "r_id")


def _self_join(drawn: Drawn, rows: Rows) -> DataFrame:
    source = rows("in").select("g", "id", F.col("c_small2").alias("a"), F.expr(drawn.text).alias("v"))
    left, right = (source.select(*(F.col(c).alias(side + c) for c in source.columns)) for side in "lr")
    more, less = ("r", "l") if drawn.flipped else ("l", "r")
    on = F.expr(f"lg = rg AND {more}a > {less}a AND xxhash64({more}v) % 3 = 0")
    return stage("s", left.join(right, on)).select(F.col("lid").alias("id"), F.col("rid").alias("r_id"))


def _union(drawn: Drawn, rows: Rows) -> DataFrame:
    """Branches of one source: `text` where `third` holds, `second` where it does not."""
    source = rows("in")
    held = F.coalesce(holds(drawn.third), F.lit(False))
    one, other = (source.where(~held if drawn.flipped else held), source.where(held if drawn.flipped else ~held))
    both = one.select("g", F.expr(f"xxhash64({drawn.text})").alias("x")).union(
        other.select("g", F.expr(f"xxhash64({drawn.second}) + 1").alias("x"))
    )
    made = F.count("x").alias("n"), F.sort_array(F.collect_list("x")).alias("x")
    return stage("s", both.groupBy("g").agg(*made))


def _lookup(drawn: Drawn, rows: Rows) -> DataFrame:
    """A table at rest of the first batch's rows: `text` is looked up, where `second` holds."""
    table = rows("lookup").where(holds(drawn.second)) if drawn.second else rows("lookup")
    found = table.selectExpr("c_small2 AS t_key", f"{drawn.text} AS v")
    kind = "left" if drawn.flipped else "inner"
    joined = rows("in").join(found, F.expr("c_small = t_key"), kind)
    return stage("s", joined.groupBy(F.col("v").alias("k")).agg(*_counts()))


def _above(drawn: Drawn, rows: Rows) -> DataFrame:
    """A stage above a stage: values seen once, counted by something that follows from them."""
    once = stage("once", rows("in").select("c_small", "c_int2", F.expr(drawn.text).alias("k")).dropDuplicates(["k"]))
    return stage("s", once.groupBy(F.expr("xxhash64(k) % 7").alias("k")).agg(F.count("*").alias("n")))


def _minute(time: str) -> Any:
    return F.floor(F.unix_seconds(F.col(time)) / 60)


_UPDATES = ("update", "complete")
PLACES: dict[str, Place] = {
    "key": Place(_key, modes=_UPDATES, key=("k",)),
    "two keys": Place(_keys, modes=_UPDATES, key=("k", "k2")),
    "aggregate's input": Place(_input, modes=_UPDATES, key=("g",)),
    "least and greatest": Place(_bounds, modes=_UPDATES, key=("g",)),
    "aggregate": Place(_aggregate, kind="aggregate", modes=_UPDATES, key=("g",)),
    "aggregate's filter": Place(_filtered, modes=_UPDATES, key=("g",)),
    "deduplication's key": Place(_distinct),
    "window's key": Place(_window, ends="w"),
    "gap": Place(_session, ends="w"),
    "join's condition": Place(_join, sources=("in", "more")),
    "self join": Place(_self_join),
    "union": Place(_union, modes=_UPDATES, key=("g",), apart=True),
    "lookup": Place(_lookup, modes=_UPDATES, key=("k",), apart=True),
    "above a stage": Place(_above, modes=("update",), key=("k",), apart=True, dropping=True),
    "Python function": Place(_python, kind="python", modes=_UPDATES, key=("k",)),
}
