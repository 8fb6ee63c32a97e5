"""Ways of rows: branches of a union, sides of a join and of a watermark."""

from __future__ import annotations

from collections.abc import Callable

from pairs import Ground, N, Version, count, counts, once, passed_on, per_key, turned, united, windows
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_provider_streamupdate.streaming import source, stage

DIFFER: dict[str, dict[str, tuple]] = {}
SAME: dict[str, tuple] = {}


def around(change: Callable[[Ground, DataFrame], DataFrame]) -> tuple:
    """The same above a watermark and below it."""
    return (
        lambda g: windows(change(g, g.late())),
        lambda g: windows(change(g, g.read()).withWatermark("ts", "1 hour")),
        "append",
    )


def early(g: Ground, rows: DataFrame) -> DataFrame:
    return rows.where(F.udf(lambda time: time.year < 2027, "boolean")("ts"))


def tiers(g: Ground) -> DataFrame:
    return g.spark.createDataFrame([("a", "gold")], "k string, tier string")


def parted(above: bool) -> Version:
    def build(g: Ground) -> DataFrame:
        parts = [g.read().where("a > 0"), g.read().where("a <= 0")]
        if above:
            return windows(parts[0].union(parts[1]).withWatermark("ts", "1 hour"))
        return windows(parts[0].withWatermark("ts", "1 hour").union(parts[1].withWatermark("ts", "1 hour")))

    return build


def twice_late(g: Ground) -> DataFrame:
    rows = g.late()
    return windows(rows.union(rows))


def two_watermarks(least: int) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read().where(f"a > {least}").withWatermark("ts", "1 hour")
        return windows(rows.union(g.late().where("b > 0")))

    return build


def two(*keys: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read()
        for key in keys:
            rows = stage("t" if key == "k" else "other", rows.dropDuplicates([key]))
        return rows

    return build


def branch_of(*order: int) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read()
        branches = [stage("d", rows.dropDuplicates(["k"])), rows]
        first, second = (branches[i] for i in order)
        return count(first.selectExpr("concat(k, 'A') key").union(second.selectExpr("concat(k, 'B') key")), "key")

    return build


def by_event_time(first: str, second: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read().withWatermark(first, "1 minute").withWatermark(second, "1 minute").select("k", "ts", "ts2")
        made = rows.groupBy("k").applyInPandasWithState(passed_on, "k string", "n long", "append", "EventTimeTimeout")
        return stage("t", made)

    return build


def watermarked(column: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read().withColumn("copy", F.col("ts")).withWatermark(column, "10 minutes")
        return count(rows, F.window("ts", "10 minutes"))

    return build


def deduplicated(above: bool) -> Version:
    def build(g: Ground) -> DataFrame:
        if above:
            rows = stage("once", g.read().dropDuplicates(["k"])).withWatermark("ts", "1 hour")
        else:
            rows = stage("once", g.late().dropDuplicates(["k"]))
        return count(rows, F.window("ts", "1 hour"))

    return build


def joined(
    condition: str, how: str = "left", left: Callable = lambda rows: rows, right: Callable = lambda rows: rows
) -> Version:
    """Two streams with a column each of a constant list."""

    def build(g: Ground) -> DataFrame:
        sides = []
        for name, made in (("in", left), ("other", right)):
            rows = source(name, g.read(folder=name)).withWatermark("ts", "10 minutes").select("k", "ts")
            sides.append(made(rows.select("*", F.explode(F.expr("array(1, 2)")).alias("h"))))
        times = "r.ts >= l.ts and r.ts <= l.ts + interval 1 hour"
        found = sides[0].alias("l").join(sides[1].alias("r"), F.expr(f"l.k = r.k and {condition} and {times}"), how)
        return stage("t", found.select("l.k", F.col("l.h").alias("x"), F.col("r.h").alias("y")))

    return build


def crossed(rows: DataFrame) -> DataFrame:
    return rows.crossJoin(rows.sparkSession.range(3).withColumnRenamed("id", "h2"))


def rows_made(rows: DataFrame) -> DataFrame:
    return rows.select("*", F.expr("explode(array(7, 8)) as z"))


def above_a_join(condition: str, *numbers: int) -> str:
    condition = condition.replace("NUMBERS", f"values {', '.join(f'({n})' for n in numbers) or '(0)'} as n(m)")
    return f"select rws.k, oth.a from rws join oth on rws.k = oth.k where {condition}"


def defaulted(value: str) -> Version:
    note = {"CURRENT_DEFAULT": value, "EXISTS_DEFAULT": value}
    schema = StructType([StructField("k", StringType(), True, note), StructField("a", LongType())])
    return lambda g: count(g.read(schema), "k")


def in_window(key: str, size: str = "1 day") -> str:
    return counts(f"{key} key", f"(select window(ts, '{size}') w, * from rws)")


IN = "rws.a in (select m from NUMBERS)"
EXISTS = "exists (select 1 from NUMBERS where m = rws.a)"
HALF, TEN = counts("a", "(select a from rws where a > 0 union all select a from rws)"), "window(ts, '10 minutes') w, k"
CONDITIONS = [
    "rws.k = oth.k and rws.a > oth.a and rws.a <> 7 + oth.a",
    "rws.a <> 7 + oth.a and oth.k = rws.k and rws.a > oth.a",
    "rws.k = oth.k and rws.a > oth.a",
]
TWO = "select {} from rws union all select {} from rws"
SIDES = "select l.k, r.a from {} l join {} r on l.k = r.k and l.a < r.a"
EXPLODED = "(select k, a, explode_outer(items) e from rws)"
OTHER_JOIN = "select rws.k, oth.a from rws join oth on {}"
DIFFER["ways"] = {
    "a filter on the time": around(lambda g, rows: rows.where("ts < timestamp'2026-01-02 00:00:00'")),
    "a Python filter on the time": around(early),
    "a table": around(lambda g, rows: rows.join(tiers(g), "k")),
    "explode": around(lambda g, rows: rows.withColumn("item", F.explode("items"))),
    "a watermark on each branch": (parted(True), parted(False), "append"),
    "a watermark across a deduplication": (deduplicated(False), deduplicated(True), "append"),
    "a watermark on a copy": (watermarked("ts"), watermarked("copy")),
    "deduplications in another order": (two("k", "k2"), two("k2", "k"), "append"),
    "a deduplication on the other branch": (branch_of(0, 1), branch_of(1, 0)),
    "a hidden filter that a branch has, too": (lambda g: g.made(HALF).where("a > 0"), HALF),
    "filters on other branches": (per_key(N, "(select k from rws where a > 0 union all select k from rws where b > 0)"),
                                  per_key(N, "(select k from rws where a > 0 and b > 0 union all select k from rws)")),
    "the watermark that was asked for last": (by_event_time("ts", "ts2"), by_event_time("ts2", "ts"), "append"),
    "filters of branches": turned(
        united("'small' x, 1 y from rws where {}", "'big', 1 from rws where {}"), "a < 10", "a >= 10"),
    "columns of two branches": turned(united("k x, {} y from rws", "k2, {} from rws"), "a", "b"),
    "three branches": turned(united("k x, {} y from rws", "k2, {} from rws", "k, b from rws"), "a", "b"),
    "deduplicated branches": (once(TWO.format("k x, k2 y", "k2, k"), "x", "y"),
        once(TWO.format("k x, k y", "k2, k2"), "x", "y")),
    "a generator in a branch": turned(
        united("'{}' x, explode_outer(items) y from rws", "'{}', explode_outer(array(k)) from rws", total="count(y)"),
        "p", "q"),
    "a product in a branch": turned(united("1 x, {} y from rws cross join range(2)", "1, {} from rws"), "a", "b"),
    "a union with itself": (per_key(N), per_key(N, "(select k from rws union all select k from rws)")),
    "a join of streams below": (counts(TEN, "late"),
        counts(TEN, "(select late.k, late.ts from late join oth on late.k = oth.k)"), "append"),
    "columns in rows": tuple(counts("n", f"(select a, k, k2 from rws) unpivot (v for n in ({names}))")
        for names in ("k, k2", "k2")),
    "an explode on a side": (SIDES.format(EXPLODED, "rws"), SIDES.format("rws", EXPLODED), "append"),
    "the smaller side": (joined("l.h < r.h"), joined("r.h < l.h"), "append"),
    "a side of a table": (*(joined(c, left=crossed, right=crossed) for c in ("l.h2 < r.h2", "r.h2 < l.h2")), "append"),
    "rows made on the other side": (joined("l.h <= r.h", "inner", left=rows_made),
        joined("l.h <= r.h", "inner", right=rows_made), "append"),
    "a join's other conditions": (OTHER_JOIN.format(CONDITIONS[0]), OTHER_JOIN.format(CONDITIONS[2]), "append"),
    "a select above a join": (*(f"select rws.k, rws.{c} from rws join oth on rws.k = oth.k" for c in "ab"), "append"),
    "IN above a join": (above_a_join(IN, 7), above_a_join(IN, 3, 7), "append"),
    "EXISTS above a join, removed": (above_a_join(EXISTS, 7), above_a_join("true"), "append"),
    "a default of the source": (defaulted("'x'"), defaulted("'y'")),
    "a window's other start": (in_window("struct(k as start, w.end as end)"),
        in_window("struct(k2 as start, w.end as end)")),
    "a window's other unit": tuple(in_window(f"struct(1 as start, unix_{u}(w.end) as end)")
        for u in ("seconds", "millis")),
    "a window moved": (in_window("w"), in_window("struct(w.start as start, w.end + interval 1 hour as end)")),
}  # fmt: skip
ORDERS = [["k x, a y from rws", "k2, b from rws"], ["k2 x, b y from rws", "k, a from rws"]]
POSITIVE = "(select k from rws where a > {} union all select k from rws where b > 0)"
SAME |= {
    "a filter that the optimizer puts below the watermark": around(lambda g, rows: rows.where("a > 0")),
    "another filter on a branch": (per_key(N, POSITIVE.format(0)), per_key(N, POSITIVE.format(5))),
    "another filter below one of two watermarks": (two_watermarks(0), two_watermarks(5), "append"),
    "branches in another order": (united(*ORDERS[0]), united(*ORDERS[1])),
    "three branches in another order": (united(*ORDERS[0], "k, b from rws"),
        united("k2 x, b y from rws", "k, b from rws", "k, a from rws")),
    "streams in another order": (per_key(N, "(select k from rws where a < 10 union all select k from oth)"),
                                 per_key(N, "(select k from oth union all select k from rws where a < 10)")),
    "a filter above the watermark, which is new": (lambda g: windows(g.late()),
        lambda g: windows(g.late().where("ts < timestamp'2026-01-02'")), "append"),
    "a new stage below": (lambda g: count(g.read(), "k"),
        lambda g: count(stage("d", g.read().dropDuplicates(["k", "a"])), "k")),
    "one watermark used twice": (twice_late, twice_late, "append"),
    "metrics": (lambda g: count(g.read(), "k"),
        lambda g: count(g.read().observe("seen", F.count("*").alias("n")), "k")),
    "sides turned as a whole": (joined("l.h < r.h"), joined("r.h > l.h"), "append"),
    "a join's conditions in another order": (*map(OTHER_JOIN.format, CONDITIONS[:2]), "append"),
    "a window under another name": (in_window("w"), in_window("window(ts, '1 day')")),
}  # fmt: skip
