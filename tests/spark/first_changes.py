"""What people change first in an app: a corpus of changes, and of app shapes modelled on public scripts.

A version of an app is data (`Version`), a change is a function from one version to the next, a shape makes a query of a
version. Each shape is rows -> one stage -> columns of the result, so that an oracle can be computed at rest: the stage
over the rows before, made by the old version, and the rows after, made by the new one (test_first_changes.py).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pandas as pd
from bench import Bench
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate import streaming

FIELDS = ("id string", "k string", "country string", "amount double", "n int", "at timestamp", "note string",
          "items array<struct<sku: string, n: int>>")  # fmt: skip
HELPER = '''"""Tiers of customers."""

import math

LIMIT = 10


def tier(n):
    if n is None:
        return "none"
    size = math.floor(n)
    return "large" if size >= LIMIT else "small"
'''


@attrs.frozen(kw_only=True)
class Version:
    """One version of an app; what does not apply to a shape has no part in it."""

    fields: tuple[str, ...] = FIELDS  # of the JSON in `value`
    parser: dict[str, str] = attrs.field(factory=dict)
    where: tuple[str, ...] = ("amount is not null", "n > 0")
    columns: tuple[str, ...] = ("upper(country) as land", "length(country) as size")  # beside the fields and the tier
    helper: str = HELPER
    key: tuple[str, ...] = ("k", "tier")
    aggregates: tuple[str, ...] = ("count(*) as c", "sum(amount) as s")
    window: tuple[str, ...] = ("10 minutes",)
    gap: str = "5 minutes"
    delay: str | None = "1 hour"
    timed: str = "at"
    seen: tuple[str, ...] = ("id", "at")
    matched: str = "id = order_id and paid_at between at and at + interval 1 hour"
    labels: tuple[tuple[str, str], ...] = (("a", "first"), ("b", "second"))
    label_columns: tuple[str, ...] = ("k", "label")
    lookup: str = "left"
    result: tuple[str, ...] = ("*",)  # columns of the result
    source: str | None = None
    stage: str | None = "main"
    reader: dict[str, str] = attrs.field(factory=dict)
    conf: dict[str, str] = attrs.field(factory=dict)
    build: str = "sql"  # how the same rows are written: "sql", "python"


Change = Callable[[Version], Version]


def function(version: Version) -> Callable[..., Any]:
    """The app's helper, as a function of a module of its own."""
    module = types.ModuleType("helper")
    exec(compile(version.helper, "helper.py", "exec"), module.__dict__)
    return module.tier


def rows(bench: Bench, v: Version, part: int | None = None) -> DataFrame:
    """The app's rows: parsed, filtered, with the helper's column. part: at rest, of the input before or after"""
    raw = bench.source("value string" if part is None else "value string, part int", **v.reader)
    if part is not None:
        raw = raw.where(f"part = {part}")
    elif v.source:
        raw = streaming.source(v.source, raw)
    parsed = raw.select(F.from_json("value", ", ".join(v.fields), v.parser).alias("p")).select("p.*")
    made = parsed.selectExpr("*", *v.columns) if v.build == "sql" else parsed.select("*", *map(F.expr, v.columns))
    made = made.withColumn("tier", F.udf(function(v), "string")("n"))
    for condition in v.where:
        made = made.where(condition)
    return made


def timed(made: DataFrame, v: Version) -> DataFrame:
    return made.withWatermark(v.timed, v.delay) if v.delay and made.isStreaming else made


def named(made: DataFrame, v: Version) -> DataFrame:
    return streaming.stage(v.stage, made) if v.stage and made.isStreaming else made


def grouped(made: DataFrame, v: Version, *keys: Any) -> DataFrame:
    return named(made.groupBy(*keys, *map(F.expr, v.key)).agg(*map(F.expr, v.aggregates)), v)


@attrs.frozen
class Shape:
    """One kind of app. above: the stage and what is above it, of rows; mode: its output mode"""

    above: Callable[[Bench, DataFrame, Version], DataFrame]
    mode: str = "update"
    only: tuple[str, ...] = ()  # the subjects of changes that apply to it, besides those of all


def counted(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    return grouped(made, v)


def windowed(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    found = grouped(timed(made, v), v, F.window(v.timed, *v.window).alias("w"))
    return found.withColumn("w", F.col("w.start"))


def sessions(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    found = grouped(timed(made, v), v, F.session_window(v.timed, v.gap).alias("w"))
    return found.withColumn("w", F.col("w.end"))


def once(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    return named(timed(made, v).dropDuplicates(list(v.seen)), v).drop("items")


def once_counted(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    seen = timed(made, v).dropDuplicates(list(v.seen))
    return grouped(streaming.stage("seen", seen) if seen.isStreaming else seen, v)


def paid(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    raw = bench.source("order_id string, paid double, paid_at timestamp, part int", "payments")
    if not raw.isStreaming and bench.first_part:
        raw = raw.where("part = 0")
    raw = raw.drop("part")
    right = raw.withWatermark("paid_at", "1 hour") if raw.isStreaming else raw
    return named(timed(made, v).join(right, F.expr(v.matched)), v).drop("items")


def looked_up(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    table = bench.spark.createDataFrame(pd.DataFrame(list(v.labels), columns=list(v.label_columns)))
    return grouped(made.join(table, "k", v.lookup), attrs.evolve(v, key=(*v.key, "label")))


def exploded(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    return grouped(made.select("*", F.explode("items").alias("i")).select("*", "i.sku"), attrs.evolve(v, key=("sku",)))


def stateful(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    def add_up(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        total = (state.get[0] if state.exists else 0.0) + sum(float(frame["amount"].sum()) for frame in frames)
        state.update((total,))
        yield pd.DataFrame({"k": [key[0]], "s": [total]})

    if not made.isStreaming:
        return made.groupBy("k").agg(F.sum("amount").alias("s"))
    given = made.select("k", "amount").groupBy("k")
    return named(given.applyInPandasWithState(add_up, "k string, s double", "s double", "update", "NoTimeout"), v)


def newest(bench: Bench, made: DataFrame, v: Version) -> DataFrame:
    """Change data: the last amount of each id."""
    return grouped(made, attrs.evolve(v, key=("id",), aggregates=("max_by(amount, at) as amount", "max(at) as at")))


AGGREGATES, WINDOW, LATE = "aggregates", "window", "late"
SHAPES = {
    "totals": Shape(counted, only=(AGGREGATES,)),
    "windows": Shape(windowed, only=(AGGREGATES, WINDOW, LATE)),
    "sessions": Shape(sessions, "append", only=(AGGREGATES, LATE)),
    "deduplication": Shape(once, "append", only=("seen", LATE)),
    "deduplication, then totals": Shape(once_counted, only=(AGGREGATES, "seen", LATE)),
    "join of streams": Shape(paid, "append", only=("join", LATE)),
    "lookup": Shape(looked_up, only=(AGGREGATES, "lookup")),
    "exploded items": Shape(exploded, only=("exploded",)),
    "state function": Shape(stateful),
    "change data": Shape(newest),
}


def put(**values: Any) -> Change:
    return lambda v: attrs.evolve(v, **values)


def more(part: str, *values: str, first: bool = False) -> Change:
    def change(v: Version) -> Version:
        old = getattr(v, part)
        return attrs.evolve(v, **{part: (*values, *old) if first else (*old, *values)})

    return change


def text(part: str, old: str, new: str) -> Change:
    """Replace a text in one of a version's parts."""

    def change(v: Version) -> Version:
        value = getattr(v, part)
        made = value.replace(old, new) if isinstance(value, str) else tuple(each.replace(old, new) for each in value)
        assert made != value, (part, old)
        return attrs.evolve(v, **{part: made})

    return change


def both(one: Change, other: Change) -> Change:
    return lambda v: other(one(v))


def helper(old: str, new: str) -> Change:
    return text("helper", old, new)


CHANGES: dict[str, dict[str, Change]] = {
    "": {  # of every shape
        "nothing": put(),
        "a field more, at the end": more("fields", "coupon string"),
        "a field more, in front": more("fields", "coupon string", first=True),
        "three fields more": more("fields", "coupon string", "tax double", "late boolean"),
        "a field more, and shown": both(more("fields", "coupon string"), more("columns", "coupon is null as bare")),
        "a field that nobody reads gone": put(fields=tuple(f for f in FIELDS if not f.startswith("note"))),
        "another type of a field that nobody reads": text("fields", "note string", "note int"),
        "a field more in a struct": text("fields", "n: int>", "n: int, price: double>"),
        "fields in another order": put(fields=FIELDS[::-1]),
        "an option of the parser": put(parser={"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSS]X"}),
        "a filter more": more("where", "n < 1000"),
        "a filter on a new field": both(more("fields", "coupon string"), more("where", "coupon is null")),
        "another threshold": text("where", "n > 0", "n > 1"),
        "a filter gone": put(where=("amount is not null",)),
        "filters in another order": put(where=("n > 0", "amount is not null")),
        "filters in one": put(where=("amount is not null and n > 0",)),
        "a filter by the helper": more("where", "tier <> 'none'"),
        "a column more": more("columns", "amount * 2 as twice"),
        "columns in another order": put(columns=Version().columns[::-1]),
        "a column that nobody reads gone": put(columns=Version().columns[:1]),
        "select instead of selectExpr": put(build="python"),
        "a comment in the helper": helper("import math\n", "# floor, for ages\nimport math\n"),
        "a docstring": helper("def tier(n):\n", 'def tier(n):\n    """The tier of a number."""\n'),
        "type hints": helper("def tier(n):", "def tier(n: float | None) -> str:"),
        "a local variable renamed": helper("size", "whole"),
        "a function that nobody calls": helper("def tier", "def other(x):\n    return x\n\n\ndef tier"),
        "a class that nobody uses": helper("def tier", "class Other:\n    limit = 3\n\n\ndef tier"),
        "a logger": helper("LIMIT = 10", 'import logging\n\nlog = logging.getLogger("app")\nLIMIT = 10'),
        "a main block": helper("LIMIT = 10", 'LIMIT = 10\n\nif __name__ == "__main__":\n    print(LIMIT)'),
        "a part of the helper moved out": both(
            helper("math.floor(n)", "whole(n)"),
            helper("def tier", "def whole(n):\n    return math.floor(n)\n\n\ndef tier"),
        ),
        "the helper's limit": helper("LIMIT = 10", "LIMIT = 12"),
        "the helper's branch": helper('return "none"', 'return "unknown"'),
        "a constant written out": helper(">= LIMIT", ">= 10"),
        "a result column more": more("result", "1 as one"),
        "the source named": put(source="orders"),
        "files a batch": put(reader={"maxFilesPerTrigger": "2"}),
        "the newest files first": put(reader={"latestFirst": "true"}),
        "another number of partitions": put(conf={"spark.sql.shuffle.partitions": "3"}),
        "an optimizer's setting": put(conf={"spark.sql.optimizer.maxIterations": "90"}),
        "another time zone": put(conf={"spark.sql.session.timeZone": "Europe/Berlin"}),
    },
    AGGREGATES: {
        "an aggregate's other name": text("aggregates", "as s", "as total"),
        "an average of what is kept": more("aggregates", "avg(amount) as mean"),
        "a minimum more": more("aggregates", "min(amount) as least"),
        "a maximum more": more("aggregates", "max(n) as most"),
        "a distinct count more": more("aggregates", "approx_count_distinct(country) as lands"),
        "an aggregate gone": put(aggregates=("count(*) as c",)),
        "aggregates in another order": put(aggregates=("sum(amount) as s", "count(*) as c")),
        "count of a column that is never null": text("aggregates", "count(*)", "count(1)"),
        "another sum": text("aggregates", "sum(amount)", "sum(amount * 2)"),
        "a sum of another column": text("aggregates", "sum(amount)", "sum(n)"),
        "a maximum for a sum": text("aggregates", "sum(amount)", "max(amount)"),
        "a rounded result": put(result=("*", "round(s, 1) as rounded")),
        "a result column gone": put(result=("c",)),
        "a key more": more("key", "country"),
        "a key gone": put(key=("k",)),
        "keys in another order": put(key=("tier", "k")),
        "a key's other name": put(key=("k as kind", "tier")),
        "a key in capitals": put(key=("upper(k) as k", "tier")),
        "another key": put(key=("country", "tier")),
        "the stage renamed": put(stage="totals"),
        "the stage's name gone": put(stage=None),
    },
    WINDOW: {
        "windows twice as long": put(window=("20 minutes",)),
        "windows half as long": put(window=("5 minutes",)),
        "windows that slide": put(window=("10 minutes", "5 minutes")),
        "windows that begin later": put(window=("10 minutes", "10 minutes", "1 minute")),
        "windows written otherwise": put(window=("600 seconds",)),
    },
    LATE: {
        "a longer delay": put(delay="2 hours"),
        "a shorter delay": put(delay="10 minutes"),
    },
    "seen": {
        "one column less": put(seen=("id",)),
        "one column more": put(seen=("id", "at", "k")),
        "the columns in another order": put(seen=("at", "id")),
    },
    "join": {
        "a longer range": text("matched", "1 hour", "2 hours"),
        "conditions in another order": put(matched="paid_at between at and at + interval 1 hour and id = order_id"),
        "a condition more": text("matched", "id =", "paid > 0 and id ="),
    },
    "lookup": {
        "a row more": put(labels=(*Version().labels, ("c", "third"))),
        "rows in another order": put(labels=Version().labels[::-1]),
        "another label": put(labels=(("a", "FIRST"), ("b", "second"))),
        "an inner join": put(lookup="inner"),
        "a column more in the table": put(
            labels=(("a", "first", "x"), ("b", "second", "y")), label_columns=("k", "label", "extra")
        ),
    },
    "exploded": {
        "a field more in the items": text("fields", "n: int>", "n: int, price: double>"),
        "the items' fields in another order": text("fields", "sku: string, n: int", "n: int, sku: string"),
    },
}  # fmt: skip


def changes_of(shape: str) -> Iterator[tuple[str, Change]]:
    for subject in ("", *SHAPES[shape].only):
        yield from CHANGES[subject].items()


PAIRS = [(shape, name) for shape in SHAPES for name, _ in changes_of(shape)]


def query(v: Version, shape: str) -> Callable[[Bench], DataFrame]:
    """The query of a version, as the bench runs it."""

    def build(bench: Bench) -> DataFrame:
        for key, value in v.conf.items():
            bench.spark.conf.set(key, value)
        made = SHAPES[shape].above(bench, rows(bench, v), v)
        return made.selectExpr(*v.result)

    return build
