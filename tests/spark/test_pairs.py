"""What decides a result is part of a stage's meaning: pairs of versions that differ in one thing, planned by real Spark
and compared by the rules. In `DIFFER` the state of the one is wrong for the other, in `SAME` it is right.

Each pair is the smallest of its class. Outside reviews found updates like these that were called carried and computed
wrong results (of many the run with its result is in test_traps.py), and apps that could not be
updated to themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
import pytest
from pairs import (
    ROWS,
    Ground,
    Version,
    counts,
    data_source,
    looked_up,
    per_key,
    retyped,
    turned,
    under,
    united,
    verdict,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.streaming import source, stage
from airflow_provider_streamupdate.streaming.planning.expressions.expression import _NULL_INTOLERANT
from airflow_provider_streamupdate.streaming.spark_internals.jvm import identity_function, sequence

DIFFER: dict[str, dict[str, tuple]] = {}  # by subject; a pair may have its output mode as the third
SAME: dict[str, tuple] = {}
NAMES = [f"v{n:02d}" for n in range(12)]
TWELVE, OTHERS, TURNED = (", ".join(f"'{n}'" for n in names)
                          for names in (NAMES, [n.replace("v", "w") for n in NAMES], NAMES[::-1]))  # fmt: skip


def count(rows: DataFrame, *keys: object) -> DataFrame:
    return stage("t", rows.groupBy(*keys).count())


def once(text: str, *columns: str) -> Callable[[Ground], DataFrame]:
    return lambda g: stage("t", (g.sql(text) if text else g.read()).dropDuplicates(list(columns)))


def windows(rows: DataFrame) -> DataFrame:
    return count(rows, F.window("ts", "10 minutes"), "k")


# Expressions: what Spark's JSON leaves out, and what its optimizer makes of them


def python(returns: str, keyword: str = "x") -> Version:
    def build(g: Ground) -> DataFrame:
        @F.udf(returns)
        def twice(x=0, y=0):
            return x * 2

        return count(g.read(), twice(**{keyword: F.col("a")}).alias("key"))

    return build


def shortened(length: int) -> Version:
    return lambda g: count(g.read(), F.udf(lambda text: text[:length], "string")("k").alias("key"))


SLIDING = counts("window(ts, '10 minutes', '5 minutes') w, k", "late")
SESSIONS = counts("session_window(ts, case when k2 in ('{}') then '5 minutes' else '9 minutes' end) w, k", "late")
TWO_DRAWS = "(select rand() r1, rand() r2 from rws)"
ONE_GENERATOR = "(select nums, explode(nums) x from rws where nums[0] > 0)"
TWO_GENERATORS = f"(select x, explode(nums) y from {ONE_GENERATOR})"
VIEWS = "rws lateral view explode(nums) as x lateral view explode(nums) as y"
DIFFER["expressions"] = {
    "a session's gap": (SESSIONS.format("a"), SESSIONS.format("b"), "append"),
    "an in-set": (per_key(f"sum(case when k2 in ({TWELVE}) then a end)"),
                  per_key(f"sum(case when k2 in ({OTHERS}) then a end)")),
    "an in-set in a key": (f"k2 in ({TWELVE})", f"k2 in ({OTHERS})"),
    "like any": tuple(per_key(f"sum(if(k2 like any ({', '.join(repr(f'%{n}_{x}') for n in NAMES)}), a, 0))")
        for x in "xy"),
    "an escape": ("k2 like 'a/_b' escape '/'", "k2 like 'a/_b' escape '!'"),
    "options of JSON": tuple(f"from_json(k2, 'x int', map('mode', '{mode}')).x" for mode in ("FAILFAST", "PERMISSIVE")),
    "options of CSV": ("from_csv(k2, 'x int', map('sep', ';'))", "from_csv(k2, 'x int', map('sep', ','))"),
    "options of a CSV text": ("to_csv(user, map('sep', ';'))", "to_csv(user, map('sep', ','))"),
    "try_add": (per_key("sum(a + b)"), per_key("sum(try_add(a, b))")),
    "try_cast": ("cast(k2 as int)", "try_cast(k2 as int)"),
    "bytes": ("bin = X'01'", "bin = X'02'"),
    "a lambda": ("transform(nums, x -> x + 1)", "transform(nums, x -> x + 2)"),
    "a lambda's variables": ("transform(nums, (x, i) -> x - i)", "transform(nums, (x, i) -> i - x)"),
    "a field": ("user.id", "user.country"),
    "a built struct": (per_key("max(struct(a, b))"), per_key("max(struct(b, a))")),
    "a format of times": ("date_format(ts, 'yyyy')", "date_format(ts, 'yy')"),
    "a moment": tuple(f"ts < timestamp'2026-01-01 00:00:0{n}+00:00'" for n in "01"),
    "a list or a set": (per_key("sort_array(collect_list(a))"), per_key("collect_set(a)")),
    "a null that becomes a value": ("k", "coalesce(k, '')"),
    "a Python function's type": (python("int"), python("string")),
    "a Python function's keyword": (python("int"), python("int", "y")),
    "a Python function's code": (shortened(1), shortened(2)),
    "a sliding window or a session": (SLIDING, SESSIONS.format("a"), "append"),
    "a subquery": tuple(counts(f"a + (select {m}(id) from range(3)) m", "rws") for m in ("max", "min")),
    "a subquery's rows": tuple(counts(f"a + (select max(id) from range({n})) m", "rws") for n in "34"),
    "which of two generators": tuple(f"select x, sum({y}) s from {TWO_GENERATORS} group by x" for y in "xy"),
    "a filter of one of two": tuple(f"select {c}, sum({c}) s from {TWO_GENERATORS} where x > 6 group by {c}"
        for c in "xy"),
    "which lateral view": tuple(f"select x, sum({y}) s from {VIEWS} group by x" for y in "xy"),
    "which of two random numbers": tuple(f"select r1 > 0.5 q, sum(if(r{n} > 0.5, 1, 0)) s from {TWO_DRAWS} group by 1"
        for n in "12"),
    "a generator that keeps rows": tuple(counts("n", f"(select {g}(nums) n from rws)")
        for g in ("explode", "explode_outer")),
}  # fmt: skip


def retyped_pair(old: str, new: str, version: Version) -> tuple:
    return version, retyped(old, new, version)


CI = "collate UTF8_LCASE"
LONG, COLLATED = ("a int", "a bigint"), ("country: string", f"country: string {CI}")
SIZES = per_key("sum(size(array_distinct(items.sku)))")
SKUS = [retyped("items array<string>", f"items array<struct<sku: string{c}>>", SIZES) for c in ("", f" {CI}")]
TEXTS = [("id: long, country: string", f"{x}: string, {y}: string") for x, y in (("id", "country"), ("country", "id"))]
DIFFER["types"] = {
    "a list of longs": retyped_pair(*LONG, per_key("collect_list(a)")),
    "a hash": retyped_pair(*LONG, per_key("sum(hash(a))")),
    "a text": retyped_pair("a int", "a double", per_key("max(cast(a as string))")),
    "a sketch": retyped_pair(*LONG, per_key("approx_count_distinct(a)")),
    "a percentile": retyped_pair(*LONG, per_key("percentile(a, 0.5)")),
    "a mode": retyped_pair(*LONG, per_key("mode(a)")),
    "a collation": retyped_pair("k2 string", f"k2 string {CI}", per_key("max(k2)")),
    "digits": tuple(per_key(f"sum(cast(a as decimal({digits})))") for digits in ("12,2", "11,3")),
    "a scale": retyped_pair("decimal(7,2)", "decimal(7,3)", per_key("sum(dec)")),
    "a struct's order": tuple(retyped(*each, once("", "user")) for each in TEXTS),
    "a struct's order in a maximum": tuple(retyped(*each, per_key("max(user)")) for each in TEXTS),
    "a field's collation": retyped_pair(*COLLATED, per_key("max(user.country)")),
    "a field's collation, compared": retyped_pair(*COLLATED, "user.country = lower(user.country)"),
    "a field's collation in a list": tuple(SKUS),
    "a field's collation in a struct": retyped_pair(*COLLATED,
        per_key("min_by(struct(user.country, a), struct(user.country, a))")),
}  # fmt: skip
SAME |= {
    "a field added": ("user.id", retyped("country: string", "country: string, town: string", "user.id")),
    "a field added in front": ("user.id", retyped("id: long", "town: string, id: long", "user.id")),
    "operands": ("a + b", "b + a"),
    "an order of IN": ("k2 in ('a', 'b', 'c')", "k2 in ('c', 'a', 'b')"),
    "an order of a long IN": (f"k2 in ({TWELVE})", f"k2 in ({TURNED})"),
    "a comparison": ("a < b", "b > a"),
    "and": ("a > 1 and b > 1 and d > 1", "d > 1 and (b > 1 and a > 1)"),
    "SQL or the API": (counts("upper(k2) u", "rws"), lambda g: count(g.read(), F.upper("k2"))),
    "a wider sum": retyped_pair(*LONG, per_key("sum(a)")),
    "a count of any type": retyped_pair("a int", "a string", per_key("count(a)")),
    "a lambda's names": ("transform(nums, x -> x + 1)", "transform(nums, element -> element + 1)"),
    "sixty minutes": tuple(counts(f"window(ts, '{size}') w", "rws") for size in ("60 minutes", "1 hour")),
    "a name in capitals": (per_key("sum(a)"), per_key("sum(a)").replace("k", "K")),
}  # fmt: skip

# Constants that read alike
ONE, TWO, DAY = "2025-11-02 05:30:00+00:00", "2025-11-02 06:30:00+00:00", "2025-01-01 00:00:00+00:00"  # one local time
ADDRESSES = ", ".join(f"'{n}@bee.de'" for n in range(12))
ARRAYS = ", ".join(f"array({n})" for n in range(12))
SHAPE = "element_at(array(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')), a) is null"


def here(version: Version) -> Version:
    return under(version, session_timeZone="America/New_York")


def variant(of: str) -> str:
    return per_key(f"sum(if(schema_of_variant(if(a > 5, {of}, cast(2 as variant))) = 'STRING', a, 0))")


def texts(*numbers: int) -> str:
    return ", ".join(f"cast(X'{n:02x}' as string)" for n in numbers)


def values(rows: str, label: str = "label", columns: str = "k, label") -> str:
    return counts(f"{label} l", f"rws join (select * from values {rows} as t({columns})) using (k)")


def of_session(text: str, *statements: str, **settings: str) -> Version:
    """A query that uses the session's variable x."""
    return under(
        text, *(s if s.startswith("set") else f"declare or replace variable x {s}" for s in statements), **settings
    )


ABOVE_X = looked_up("(select * from tabl where weight > session.x)")
LISTED_X = looked_up("(select * from tabl where array_contains(session.x, weight))")
MOMENT_X = looked_up("(select * from tabl where timestamp_seconds(weight) > session.x)")
JOINED_X = counts("label", "rws left join tabl on rws.k = tabl.k and weight > session.x")
INT, LIST = "int default {}", "array<int> default array(1, {})"
DIFFER["constants"] = {
    "a session's moment": tuple(of_session(MOMENT_X, "set time zone 'America/New_York'",
        f"timestamp default timestamp'{t}'") for t in (ONE, TWO)),
    "a moment in a list": tuple(here(f"array_contains(array(timestamp'{t}', timestamp'{DAY}'), ts)")
        for t in (ONE, TWO)),
    "a moment in a map": tuple(here(f"element_at(map(timestamp'{t}', 1), ts)") for t in (ONE, TWO)),
    "a moment in a struct": tuple(here(f"array_contains(array(struct(timestamp'{t}' as ts)), struct(ts))")
        for t in (ONE, TWO)),
    "a variant of a date": (variant("cast(date'2020-01-01' as variant)"), variant("cast('2020-01-01' as variant)")),
    "a variant of a number": (variant("cast(1.5D as variant)"), variant("cast(1.5BD as variant)")),
    "a variant of bytes": (variant("cast(X'61' as variant)"), variant("cast('YQ==' as variant)")),
    "a variant of a list": (variant("cast(array(date'2020-01-01') as variant)"),
        variant("cast(array('2020-01-01') as variant)")),
    "a variant in a list": tuple(variant(f"element_at(array(cast({n} as variant)), a)") for n in ("1.5D", "1.5BD")),
    "a variant in a map": tuple(variant(f"element_at(map(1, cast({n} as variant)), a)") for n in ("1.5D", "1.5BD")),
    "bytes of a long list": (f"k in ({texts(*range(240, 252))})", f"k in ({texts(*range(241, 253))})"),
    "addresses in a long list": (f"k in ({ADDRESSES})", f"k in ({ADDRESSES}, 'x@ace')"),
    "null in a long list": (f"k in ({ADDRESSES}, null)", f"k in ({ADDRESSES}, 'null')"),
    "a long list of lists": (f"array(a) in ({ARRAYS})", f"array(a) in ({ARRAYS}, array(77))"),
    "quotes of a collated text": (
        "concat(k collate unicode, 'a' collate unicode, 'b' collate unicode) = 'x'",
        r"concat(k collate unicode, 'a:\'string collate UNICODE\', b' collate unicode) = 'x'"),
    "bytes in a list": (f"array_contains(array({texts(250)}), k)", f"array_contains(array({texts(251)}), k)"),
    "a zero with a sign": ("array(0.0D)[a]", "array(-0.0D)[a]"),
    "a collation in a list": ("array_contains(array('a'), k)", f"array_contains(array('a' {CI}), k)"),
    "a calendar's interval": tuple(f"tn + array(make_interval(0, 1, 0, {n}, 0, 0))[a]" for n in ("30, 0", "29, 24")),
    "a time of the day": tuple(under(f"element_at(array(time'10:00:00{t}'), a) < cast(tn as time)",
        timeType_enabled="true")
                               for t in ("", ".000001")),
    "months given in the code": tuple(values(f"('a', interval '1' month), ('b', interval '{n}' month)")
        for n in (2, 3)),
    "days given in the code": tuple(values(f"('a', make_interval(0, 1, 0, {n}, 0, 0, 0)), ('b', null)", "string(label)")
        for n in (30, 31)),
    "variants given in the code": tuple(values(f"('a', cast({n} as variant))", "schema_of_variant(label)")
        for n in ("1.5D", "1.5BD")),
    "null given in the code": (values("('a', null), ('b', 'x')"), values("('a', 'NULL'), ('b', 'x')")),
    "a row more given in the code": (values("('a', 'x')"), values("('a', 'x'), ('a', 'y')")),
    "a session's variable": tuple(of_session(ABOVE_X, INT.format(n)) for n in (5, 6)),
    "a session's variable set": (of_session(ABOVE_X, INT.format(5)),
        of_session(ABOVE_X, INT.format(5), "set variable x = 7")),
    "a session's variable in a join": tuple(of_session(JOINED_X, INT.format(n)) for n in (5, 6)),
    "a session's list": tuple(of_session(LISTED_X, LIST.format(n)) for n in (5, 6)),
    "or of another one": ("k = 'a' or k2 = 'b'", "k in ('a', 'b')"),
    "or of another value": ("k = 'a' or k = 'b'", "k in ('a', 'c')"),
    "or of one more": ("k = 'a' or k = 'b'", "k = 'a' or k = 'b' or k = 'c'"),
    "not": ("k = 'a' or k = 'b'", "k not in ('a', 'b')"),
    "null is one": ("k = 'a' or k = 'b'", "k <=> 'a' or k <=> 'b'"),
    "or, and": ("k = 'a' or a = 2", "k = 'a' and a = 2"),
    "another unit": ("date_trunc('hour', ts)", "date_trunc('DAY', ts)"),
    "another day": ("next_day(date(ts), 'mon')", "next_day(date(ts), 'TUE')"),
    "a unit of a column": ("date_trunc(k, ts)", "date_trunc(k2, ts)"),
    "a text that is no unit": ("concat(k, 'hour')", "concat(k, 'HOUR')"),
}  # fmt: skip
SAME |= {
    "a moment written otherwise": tuple(here(f"array_contains(array(timestamp'{t}'), ts)")
        for t in (ONE, "2025-11-02 11:00:00+05:30")),
    "a variable's value": (of_session(ABOVE_X, INT.format(5)),
        of_session(ABOVE_X, INT.format(6), "set variable x = 5")),
    "a variable or its value": (of_session(ABOVE_X, INT.format(5)), ABOVE_X.replace("session.x", "5")),
    "a shape on the map": (SHAPE, SHAPE),
    "or of one column": ("k = 'a' or k = 'b'", "k in ('b', 'a')"),
    "or of one column and another": ("k = 'a' or a > 1 or 'b' = k", "a > 1 or k in ('a', 'b')"),
    "or of numbers": ("a = 1 or a in (3, 2)", "a in (1, 2) or a = 3"),
    "a unit in capitals": ("date_trunc('hour', ts)", "date_trunc('HOUR', ts)"),
    "a unit of a date": ("trunc(date(ts), 'month')", "trunc(date(ts), 'Month')"),
    "a day in capitals": ("next_day(date(ts), 'mon')", "next_day(date(ts), 'MON')"),
    "a field in other letters": ("from_json(v, 'x int, y int').x", "from_json(v, 'x int, y int').X"),
    "a field beside others": tuple(f"element_at(transform(nums, n -> struct(n as x, n as z)), 1).{x}" for x in "xX"),
}  # fmt: skip


# Tables: which rows of which one are looked up, and by what


def table(column: str = "label", change: Callable = lambda table: table, **given: str) -> Version:
    return lambda g: count(g.read().join(change(g.table(**given)), "k"), column)


def given_by_python(label: str, schema: str = "k string, label string") -> Version:
    def build(g: Ground) -> DataFrame:
        g.spark.dataSource.register(data_source("pairs", K_LABEL, lambda: [("a", label)]))
        return count(g.read().join(g.spark.read.schema(schema).format("pairs").load(), "k"), "label")

    return build


def given(rows: object, columns: object, label: str = "label") -> Version:
    """A table that the code gives, by createDataFrame."""
    return lambda g: count(g.read().join(g.spark.createDataFrame(rows, columns), "k"), label)


def frame(*columns: str) -> Version:
    return given(pd.DataFrame([["a", "b"], ["b", "c"]], columns=list(columns)), None)


def catalogued(made: str) -> Version:
    def build(g: Ground) -> DataFrame:
        g.spark.sql("drop table if exists dim")
        where = made.format(g.input("table"), g.input("labels"))
        g.spark.sql(f"create table dim (k string, label string) using {where}")
        return count(g.read().join(g.spark.table("dim"), "k"), "label")

    return build


def transposed(*row: str) -> Version:
    def build(g: Ground) -> DataFrame:
        made = g.spark.createDataFrame([row], "idx string, c1 string, c2 string").transpose("idx")
        return count(g.read().join(made.toDF("k", "label"), "k"), "label")

    return build


def self_join(condition: str) -> Version:
    """Both sides read one relation: Spark makes their aliases anew, not the relation (DeduplicateRelations)."""

    def build(g: Ground) -> DataFrame:
        rows = g.read().select(F.col("k").alias("k"), (F.col("a") + 1).alias("a"))
        joined = rows.alias("l").join(rows.alias("r"), F.expr(f"l.k = r.k and {condition}"))
        return stage("t", joined.select("l.k", F.col("l.a").alias("x"), F.col("r.a").alias("y")))

    return build


def three(column: str, condition: str = "true") -> str:
    joins = f"tabl v join tabl w on v.k = w.k and {condition} join tabl u on v.k = u.k"
    return looked_up(f"(select v.k, {column} x from {joins})", "x")


def exploded_table(where: str) -> str:
    letters = "explode(split(label, ''))"
    both = f"(select k, x, {letters} y from (select k, label, {letters} x from tabl))"
    return looked_up(f"(select k, y from {both} where {where})", "y")


def by_functions(text: str, *functions: str) -> Version:
    def build(g: Ground) -> DataFrame:
        g.table().createOrReplaceTempView("tabl")
        for function in functions:
            g.spark.sql(f"create or replace temporary function {function}")
        return g.made(text)

    return build


LOOP = (
    "with recursive n(k, label, i) as (select k, label, 0 from tabl union all select k, label || i, i + 1 from n where "
    "i < {}) select label, count(*) as c from rws join n using (k) group by label"
)
K_LABEL, LABEL_K = "k string, label string", "label string, k string"
BY_PLACE = {"orc.force.positional.evolution": "true"}
ROW_FUNCTION = "tf(x int) returns table (k string, label string) return select k, label from tabl where weight > x"
REMAINDER = "f1(x int) returns int return x % {}"
OF_F1 = looked_up("(select * from tabl where f1(weight) = 1)")
BOUNDS = "(select weight, weight lo, weight + 1 hi from tabl where weight between 1 and 3)"
BETWEEN = counts("weight", f"{{}} r join {BOUNDS} on {{}} between lo and hi")
PART = "(select k, '{}' f from tabl where weight = 1 union all select k, '{}' from tabl where weight > 1)"
LESS = "tabl v join tabl w on v.k = w.k and v.weight < w.weight"
TWO_LOOKUPS = "rws join tabl one on rws.k = one.k join tabl two on rws.k = two.k"
KNOWN = "(select rws.* from rws left semi join tabl on rws.k = tabl.k) s"
DIFFER["tables"] = {
    "by recursion": (LOOP.format(3), LOOP.format(4)),
    "by a function in SQL": tuple(by_functions(OF_F1, REMAINDER.format(n)) for n in (3, 4)),
    "by a table function in SQL": (by_functions(looked_up("tf(1)"), ROW_FUNCTION),
        by_functions(looked_up("tf(2)"), ROW_FUNCTION)),
    "a filter": tuple(looked_up(f"(select * from tabl where weight > {n})") for n in (1, 2)),
    "a long list": tuple(looked_up(f"(select * from tabl where k in ({names}))") for names in (TWELVE, OTHERS)),
    "an order": tuple(table(change=lambda t, by=by: t.orderBy(F.expr(by)).dropDuplicates(["k"]))
        for by in ("weight", "-weight")),
    "a limit": tuple(looked_up(f"(select * from tabl order by weight limit {n})") for n in (3, 4)),
    "options": (table(form="csv", sep=";"), table(form="csv", sep=",")),
    "places of columns": (table(form="csv"), table(form="csv", schema="k string, weight int, label string")),
    "a type": (table("weight"), table("weight", schema="k string, label string, weight bigint")),
    "a group": tuple(looked_up(f"(select k, {f}(label) label from tabl group by k)") for f in ("max", "min")),
    "rows without a match": (looked_up(), looked_up(how="left join")),
    "rows of the code": (given([("x", "one")], K_LABEL), given([("x", "two")], K_LABEL)),
    "which table": (looked_up("tabl"), looked_up("labl")),
    "by which column": tuple(counts("label", f"rws join tabl on rws.{c} = tabl.k") for c in ("k", "k2")),
    "which of two lookups": tuple(f"select one.label, sum({w}.weight) s from {TWO_LOOKUPS} group by 1"
        for w in ("one", "two")),
    "which of a table's generators": (exploded_table("x > 'f'"), exploded_table("y > 'f'")),
    "one of three": (three("w.weight"), three("u.weight")),
    "a condition of one of three": (three("v.weight", "v.label = 'x'"), three("v.weight", "w.label = 'x'")),
    "one of two uses": tuple(counts("label", f"{KNOWN} join tabl on s.{key} = tabl.k") for key in ("k", "k2")),
    "a side of a table": tuple(looked_up(f"(select v.k, {x}.label x from {LESS})", "x") for x in "vw"),
    "a branch of tables": tuple(looked_up(PART.format(*names), "f") for names in ("pq", "qp")),
    "between": (BETWEEN.format("rws", "a"), BETWEEN.format("rws", "b")),
    "what is cached": tuple(table("x", lambda t, f=f: t.groupBy("k").agg(F.expr(f"{f}(weight) x")).cache())
        for f in ("max", "min")),
    "a Python data source": (given_by_python("v1"), given_by_python("v2")),
    "rows of createDataFrame": (given([("a", "b"), ("b", "a")], K_LABEL), given([("a", "b"), ("b", "a")], LABEL_K)),
    "rows of pandas": (frame("k", "label"), frame("label", "k")),
    "rows of VALUES": (values("('a', 'b'), ('b', 'c')"), values("('a', 'b'), ('b', 'c')", columns="label, k")),
    "rows of a data source in Python": (given_by_python("b", K_LABEL), given_by_python("b", LABEL_K)),
    "rows of csv": (table(form="csv", schema=K_LABEL), table(form="csv", schema=LABEL_K)),
    "rows of orc by place": tuple(table(form="orc", schema=s, **BY_PLACE) for s in (K_LABEL, LABEL_K)),
    "at another location": (catalogued("json location '{}'"), catalogued("json location '{1}'")),
    "csv at another location": (catalogued("csv location '{}'"), catalogued("csv location '{1}'")),
    "transposed": (transposed("x", "a", "b"), transposed("x", "a", "c")),
    "all rows or a match": tuple(counts("label", f"rws {join}")
        for join in ("cross join tabl", "join tabl on v = label")),
    "all rows or none": tuple(counts("label", f"rws {join}") for join in ("cross join tabl", "left join tabl on true")),
    "turned and inner": (counts("label", "tabl right join rws using (k)"), looked_up()),
    "a product": (per_key("count(*)"), per_key("count(*)", "rws cross join range(2)")),
    "a stream joined with itself": (self_join("l.a < r.a"), self_join("r.a < l.a"), "append"),
}  # fmt: skip
SAME |= {
    "a table of json": (table(schema=K_LABEL), table(schema=LABEL_K)),
    "a table of orc": (table(form="orc", schema=K_LABEL), table(form="orc", schema=LABEL_K)),
    "a table's columns": (looked_up(), looked_up("(select label, k from tabl)")),
    "a filter of the stream": (looked_up(), looked_up(where="k > 'a'")),
    "a cross join": (counts("label", "rws cross join tabl"), counts("label", "rws join tabl")),
    "a left join turned": (looked_up(how="left join"), counts("label", "tabl right join rws using (k)")),
    "between beside another": (BETWEEN.format("rws", "a"),
        BETWEEN.format("(select * from rws where b between 0 and 100)", "a")),
    "with": (per_key("count(*)"), "with r as (select * from rws) select k, count(*) as x from r group by k"),
}  # fmt: skip

# Two things of one name


def unfolded(key: str, struct: str = "s", schema: str = ROWS) -> Version:
    """The fields of a struct that has two of one name, each under a name of its own."""

    def build(g: Ground) -> DataFrame:
        rows = g.read(schema).select(F.expr(struct).alias("s")).select("s.*").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def of_function(key: str) -> Version:
    def build(g: Ground) -> DataFrame:
        two = F.udf(lambda a: (a % 2, 10 + a % 3), "struct<x:int, x:int>", useArrow=False)
        rows = g.read().select(two("a").alias("s")).select("s.*").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def unchanged(batches: Iterator) -> Iterator:
    yield from batches


def of_batches(key: str, method: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = getattr(g.read().select("a", "b"), method)(unchanged, "x int, x int").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def above_a_stage(column: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.late().groupBy(F.window("ts", "1 minute")).agg(F.expr("max(struct(a as x, b as x))").alias("s"))
        return stage("t", stage("u", rows).select("s.*").toDF("p", "q").dropDuplicates([column]))

    return build


def passed_on(key: object, batches: Iterator, state: object) -> Iterator:
    yield from batches


def of_a_state_function(column: str) -> Version:
    def build(g: Ground) -> DataFrame:
        rows = g.read().groupBy("k").applyInPandasWithState(passed_on, "x int, x int", "n int", "append", "NoTimeout")
        return stage("t", stage("u", rows).toDF("p", "q").dropDuplicates([column]))

    return build


def of_a_python_stream(column: str) -> Version:
    def build(g: Ground) -> DataFrame:
        g.spark.dataSource.register(data_source("twice", "x int, x int", lambda: [(1, 2)]))
        return count(g.spark.readStream.format("twice").load().toDF("p", "q"), column)

    return build


def by_name(method: str, first: str, second: str) -> Version:
    """A function of batches, which takes columns by their names."""

    def keep(parts: Iterator) -> Iterator:
        for part in parts:
            yield part[["x"]] if method == "mapInPandas" else part.select(["x"])

    def build(g: Ground) -> DataFrame:
        columns = g.read().select(F.col("a").alias(first), F.col("b").alias(second))
        return count(getattr(columns, method)(keep, "x long"), "x")

    return build


def both(pairs: Callable[[str], Version], *more: str) -> tuple:
    return (pairs("p"), pairs("q"), *more)


TWICE = "struct<x: int, x: int>"
SUBQUERIES = "select k1, k2, count(*) n from (select {} from rws) group by k1, k2"
XX = "(values ('a', 'b', 'c') as t(k, x, x)) as u(k, p, q)"
GREATEST, LEAST = "(select max(weight) v from tabl)", "(select min(weight) v from tabl)"
DIFFER["names"] = {
    "two subqueries": (SUBQUERIES.format(f"a > {GREATEST} k1, b > {LEAST} k2"),
        SUBQUERIES.format(f"b > {GREATEST} k2, a > {LEAST} k1")),
    "a function's struct": both(of_function),
    "a struct of a list": both(lambda x: unfolded(x,
        "element_at(transform(nums, n -> struct(n as x, n * 100 as x)), 1)")),
    "a struct of a struct": both(lambda x: unfolded(x,
        "element_at(transform(nums, n -> struct(struct(n as x, a as x) as y)), 1).y")),
    "a source's struct": both(lambda x: unfolded(x, "s", f"s {TWICE}")),
    "a function of batches": both(lambda x: of_batches(x, "mapInArrow")),
    "a function of pandas' batches": both(lambda x: of_batches(x, "mapInPandas")),
    "a stage's struct": both(above_a_stage, "append"),
    "a state function's columns": both(of_a_state_function, "append"),
    "a table's columns": both(lambda x: lambda g: count(
        g.read().join(g.spark.createDataFrame([("a", "b", "c")], "k string, x string, x string").toDF("k", "p", "q"),
        "k"), x)),
    "the columns of VALUES": both(lambda x: counts(x, f"rws join (select * from {XX}) using (k)")),
    "the columns of both sides": both(lambda x: lambda g: count(
        g.read().select("k", "v").join(g.table().select("k", F.col("label").alias("v")), "k").toDF("k", "p", "q"), x)),
    "a Python stream's columns": both(of_a_python_stream),
    "a batch function's columns": (by_name("mapInPandas", "x", "y"), by_name("mapInPandas", "y", "x")),
    "an Arrow function's columns": (by_name("mapInArrow", "x", "y"), by_name("mapInArrow", "y", "x")),
    "the file's name hidden": tuple(lambda g, more=more: count(g.read(f"k string, a int{more}"), "_metadata.file_name")
                                    for more in ("", ", _metadata struct<file_name: string>")),
}  # fmt: skip
SAME["by its place or its name"] = (unfolded("p"), unfolded("p", "struct(s.x as x, s.y as y)"))

# Buffers: aggregates in the order in which the state has them
IF, CASE, N = "sum(if(a > 1, b, a))", "sum(case when a > 1 then b else a end)", "count(*)"


def kept(*aggregates: str, rows: Callable[[Ground], DataFrame] = Ground.read, session: bool = False) -> Version:
    def build(g: Ground) -> DataFrame:
        keys = [F.session_window("ts", "5 minutes"), F.col("k2")] if session else [F.col("k")]
        made = [F.expr(text).alias(f"x{n}") for n, text in enumerate(aggregates)]
        return stage("t", rows(g).groupBy(*keys).agg(*made))

    return build


def pruned(column: str) -> Version:
    """Both sums are asked for, one is used: the optimizer keeps only that one in the state row."""
    return lambda g: g.made(kept("sum(a)", "sum(b)")).select("k", column)


def renamed(g: Ground) -> DataFrame:
    """One column under two names, below a watermark: for Spark two."""
    return g.read().select("k", "k2", "ts", F.col("a").alias("x"), F.col("a").alias("y")).withWatermark("ts", "1 hour")


def two_branches(g: Ground) -> DataFrame:
    rows = g.read().select("k", F.col("a").alias("x"), F.col("a").alias("y"))
    return rows.union(g.read(folder="other").select("k", F.col("a"), F.col("a")))


def once_each(g: Ground) -> DataFrame:
    return stage("u", g.read().select("k", "b", F.col("a").alias("x"), F.col("a").alias("y")).dropDuplicates(["k"]))


def called(*which: str) -> Version:
    """Of two functions with one code."""

    def build(g: Ground) -> DataFrame:
        one, two = (F.udf(lambda x: (x or 0) % 3, "int") for _ in range(2))
        made = {"p": F.sum(one("a")), "n": F.count("*"), "q": F.sum(two("a"))}
        return stage("t", g.read().groupBy("k").agg(*(made[name].alias(name) for name in which)))

    return build


def places(first: str, second: str, **more) -> tuple:
    return kept(first, N, second, **more), kept(first, second, N, **more)


DIFFER["buffers"] = {
    "of a session": (*places(IF, CASE, rows=Ground.late, session=True), "append"),
    "if and case": places(IF, CASE),
    "a column under two names": places("sum(x)", "sum(y)", rows=renamed),
    "a column under two names in a union": places("sum(x)", "sum(y)", rows=two_branches),
    "a column under two names of a stage": places("max(x)", "max(y)", rows=once_each),
    "coalesce": places("sum(coalesce(a, b))", "sum(coalesce(a, b, a))"),
    "once and twice": (kept(IF, N), kept(IF, N, CASE)),
    "by chance once and twice": tuple(per_key(N, f"(select * from (select * from rws where rand() > 0.5){more})")
        for more in ("", " where rand() > 0.5")),
    "pruned to the other sum": (pruned("x0"), pruned("x1")),
}  # fmt: skip
SAME |= {
    "the first twice": places("first(a)", "first(a)"),
    "a function made twice": (called("p", "n", "q"), called("p", "q", "n")),
    "twice for the author, once for Spark": (kept("sum(a)", N), kept("sum(a)", N, "sum(a)")),
    "sums in another order of operands": (kept("sum(a + b)", N, "sum(b + a)"), kept("sum(b + a)", N)),
    "if and case change places": (kept(IF, N, CASE), kept(CASE, N, IF)),
}

# Ways of rows: branches of a union, sides of a join and of a watermark, partitions


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


def limited(first: bool) -> Version:
    def build(g: Ground) -> DataFrame:
        if first:
            return stage("d", stage("t", g.read().limit(10)).dropDuplicates(["k"]))
        return stage("t", stage("d", g.read().dropDuplicates(["k"])).limit(10))

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


def mapped(*keys: str) -> Version:
    def doubled(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for frame in frames:
            yield pd.concat([frame, frame])

    def build(g: Ground) -> DataFrame:
        rows = g.read()
        left = rows.select("k").mapInPandas(doubled, "k string").select(F.lit(keys[0]).alias("key"))
        return count(left.union(rows.select(F.lit(keys[1]))), "key")

    return build


def grouped(number: int) -> Version:
    def first(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.head(number)

    return lambda g: count(g.read().select("k", "a").groupBy("k").applyInPandas(first, "k string, a long"), "k")


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


IN, MOST = "rws.a in (select m from NUMBERS)", "rws.a > (select max(m) from NUMBERS)"
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
    "a semi join": around(lambda g, rows: rows.join(tiers(g), "k", "left_semi")),
    "explode": around(lambda g, rows: rows.withColumn("item", F.explode("items"))),
    "a watermark on each branch": (parted(True), parted(False), "append"),
    "a watermark across a deduplication": (deduplicated(False), deduplicated(True), "append"),
    "a watermark on a copy": (watermarked("ts"), watermarked("copy")),
    "deduplications in another order": (two("k", "k2"), two("k2", "k"), "append"),
    "a limit and a deduplication": (limited(True), limited(False), "append"),
    "a deduplication on the other branch": (branch_of(0, 1), branch_of(1, 0)),
    "a hidden filter that a branch has, too": (lambda g: g.made(HALF).where("a > 0"), HALF),
    "filters on other branches": (per_key(N, "(select k from rws where a > 0 union all select k from rws where b > 0)"),
                                  per_key(N, "(select k from rws where a > 0 and b > 0 union all select k from rws)")),
    "the watermark that was asked for last": (by_event_time("ts", "ts2"), by_event_time("ts2", "ts"), "append"),
    "filters of branches": turned(
        united("'small' x, 1 y from rws where {}", "'big', 1 from rws where {}"), "a < 10", "a >= 10"),
    "signs of two branches": turned(united("k x, {} y from rws", "k2, {} from rws"), "1", "-1"),
    "columns of two branches": turned(united("k x, {} y from rws", "k2, {} from rws"), "a", "b"),
    "a filter on both": turned(united("k x, {} y from rws where b > 1", "k2, {} from rws where b > 1"), "a", "b"),
    "three branches": turned(united("k x, {} y from rws", "k2, {} from rws", "k, b from rws"), "a", "b"),
    "deduplicated branches": (once(TWO.format("k x, k2 y", "k2, k"), "x", "y"),
        once(TWO.format("k x, k y", "k2, k2"), "x", "y")),
    "a generator in a branch": turned(
        united("'{}' x, explode_outer(items) y from rws", "'{}', explode_outer(array(k)) from rws", total="count(y)"),
        "p", "q"),
    "a product in a branch": turned(united("1 x, {} y from rws cross join range(2)", "1, {} from rws"), "a", "b"),
    "a column beside an explode in a union": tuple(united("v x, explode(nums) y from rws",
        f"{c}, explode(nums) from rws") for c in ("k2", "k")),
    "a Python function in a branch": (mapped("p", "q"), mapped("q", "p")),
    "a union with itself": (per_key(N), per_key(N, "(select k from rws union all select k from rws)")),
    "a join of streams below": (counts(TEN, "late"),
        counts(TEN, "(select late.k, late.ts from late join oth on late.k = oth.k)"), "append"),
    "a group's function": (grouped(1), grouped(2)),
    "columns in rows": tuple(counts("n", f"(select a, k, k2 from rws) unpivot (v for n in ({names}))")
        for names in ("k, k2", "k2")),
    "an explode on a side": (SIDES.format(EXPLODED, "rws"), SIDES.format("rws", EXPLODED), "append"),
    "the smaller side": (joined("l.h < r.h"), joined("r.h < l.h"), "append"),
    "the side that is smaller by one": (joined("l.h + 1 > r.h"), joined("r.h + 1 > l.h"), "append"),
    "a side of a table": (*(joined(c, left=crossed, right=crossed) for c in ("l.h2 < r.h2", "r.h2 < l.h2")), "append"),
    "rows made on the other side": (joined("l.h <= r.h", "inner", left=rows_made),
        joined("l.h <= r.h", "inner", right=rows_made), "append"),
    "a join's other conditions": (OTHER_JOIN.format(CONDITIONS[0]), OTHER_JOIN.format(CONDITIONS[2]), "append"),
    "a select above a join": (*(f"select rws.k, rws.{c} from rws join oth on rws.k = oth.k" for c in "ab"), "append"),
    "IN above a join": (above_a_join(IN, 7), above_a_join(IN, 3, 7), "append"),
    "a subquery above a join": (above_a_join(MOST, 5), above_a_join(MOST, 1), "append"),
    "EXISTS above a join, removed": (above_a_join(EXISTS, 7), above_a_join("true"), "append"),
    "a default of the source": (defaulted("'x'"), defaulted("'y'")),
    "a window's other start": (in_window("struct(k as start, w.end as end)"),
        in_window("struct(k2 as start, w.end as end)")),
    "a window's other unit": tuple(in_window(f"struct(1 as start, unix_{u}(w.end) as end)")
        for u in ("seconds", "millis")),
    "a window's other day": tuple(in_window(f"struct({d} as start, to_date(w.end) as end)")
        for d in ("date(ts)", "to_date(v)")),
    "a window's other size": tuple(in_window("struct(timestamp'2026-01-01' as start, w.end as end)", size)
        for size in ("1 hour", "2 hours")),
    "a window turned": (in_window("w"), in_window("struct(w.end as start, w.start as end)")),
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

# Partitions, where something looks at them


def located(moved: Callable, key: str = "spark_partition_id()") -> Version:
    return lambda g: stage("t", moved(g.read()).groupBy(F.expr(key).alias("p")).agg(F.sum("a").alias("s")))


def whole(moved: Callable, method: str = "mapInPandas") -> Version:
    """One row of each partition."""

    def top(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        rows = list(batches)
        if rows:
            yield pd.concat(rows).head(1)

    return lambda g: count(getattr(moved(g.read()).select("k", "a"), method)(top, "k string, a int"), "k")


def iterated(moved: Callable) -> Version:
    """A function of Python that sees one row after the other."""

    def numbered(batches):
        yield from batches

    numbered.__annotations__ = {"batches": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return lambda g: count(moved(g.read()), F.pandas_udf(numbered, "int")("a").alias("n"))


def numbered_table(moved: Callable) -> Version:
    return lambda g: count(g.read().join(moved(g.table()).withColumn("n", F.spark_partition_id()), "k"), "n")


def two_tables(*names: str, pick: Callable = lambda table: table.limit(5)) -> Version:
    return lambda g: count(g.read().join(pick(g.table(names[0]).union(g.table(names[1]))), "k"), "label")


def two_streams(*names: str, key: str = "spark_partition_id()") -> Version:
    def build(g: Ground) -> DataFrame:
        parts = {name: source(name, g.read(folder=name)) for name in ("in", "other")}
        return count(parts[names[0]].union(parts[names[1]]), F.expr(key).alias("p"))

    return build


def hinted(hint: str) -> Version:
    return lambda g: count(
        g.read().join(g.table().hint(hint) if hint else g.table(), "k"), F.spark_partition_id().alias("p")
    )


def by_place(number: int, column: str = "k") -> Callable:
    return lambda rows: rows.repartition(number, column)


def by_number(column: str, number: int = 4) -> Callable:
    return lambda rows: rows.repartitionById(number, F.col(column) % 4)


def still(rows: DataFrame) -> DataFrame:
    return rows


FILE, TABLES = "input_file_name()", ("table", "labels")
DIFFER["partitions"] = {
    "a function of partitions": (whole(by_number("a")), whole(by_number("b"))),
    "another column": (located(by_place(4)), located(by_place(4, "k2"))),
    "another number": (located(by_place(4)), located(by_place(8))),
    "by ranges": (located(by_place(4)), located(lambda rows: rows.repartitionByRange(4, "k"))),
    "by numbers": (located(by_number("a")), located(by_number("b"))),
    "all in one": (located(still), located(lambda rows: rows.coalesce(1))),
    "moved at all": (located(still), located(by_place(4))),
    "a filter between": tuple(located(lambda rows, c=c: rows.repartition(4, c).where("a > 1")) for c in ("k", "k2")),
    "the file of a row that was moved": (located(still, FILE), located(by_place(4), FILE)),
    "a function of partitions, by number": (whole(by_number("a")), whole(by_number("a", 5))),
    "a function of partitions in Arrow": (whole(by_place(4), "mapInArrow"), whole(by_place(4, "k2"), "mapInArrow")),
    "a function that sees one row after the other": (iterated(by_place(4)), iterated(by_place(4, "k2"))),
    "two streams in another order": (two_streams("in", "other"), two_streams("other", "in")),
    "a hint to a join": (hinted(""), hinted("shuffle_hash")),
    "rows of a table": (numbered_table(by_place(4)), numbered_table(by_place(4, "label"))),
    "two tables in another order": (two_tables(*TABLES), two_tables(*TABLES[::-1])),
    "two tables, and the place of a row": tuple(two_tables(*names,
        pick=lambda t: t.withColumn("n", F.spark_partition_id()))
                                                for names in (TABLES, TABLES[::-1])),
}  # fmt: skip
SAME |= {
    "nobody looks at partitions": (located(still, "k"), located(by_place(4), "k")),
    "nobody looks at a table's partitions": (two_tables(*TABLES, pick=lambda t: t.repartition(4)),
        two_tables(*TABLES[::-1], pick=still)),
    "two tables that are counted": tuple(two_tables(*names, pick=lambda t: t.groupBy("k", "label").count())
        for names in (TABLES, TABLES[::-1])),
    "two streams in any order": (two_streams("in", "other", key="k"), two_streams("other", "in", key="k")),
    "two streams that are moved": (two_streams("in", "other"),) * 2,
    "a filter above or below": (located(lambda rows: rows.repartition(4, "k").where("a > 1")),
        located(lambda rows: rows.where("a > 1").repartition(4, "k"))),
}  # fmt: skip

# The rule that names the difference, of some.
RULES = {
    "a join's other conditions": "stage.join-condition",
    "a select above a join": "stage.join-rows",
    "a sliding window or a session": "stage.kind",
    "digits": "stage.type",
    "a product": "stage.rows",
    "a filter on the time": "stage.ways",
    "an in-set in a key": "stage.keys",
}
CASES = [
    pytest.param(subject, name, id=f"{subject}: {name}", marks=[] if number < 3 or name in RULES else pytest.mark.slow)
    for subject, pairs in DIFFER.items()
    for number, name in enumerate(pairs)
]


@pytest.fixture
def ground(spark, tmp_path) -> Ground:
    return Ground(spark, tmp_path)


def mode_of(pair: tuple) -> str:
    return pair[2] if len(pair) > 2 else "update"


@pytest.mark.parametrize(("subject", "name"), CASES)
def test_what_decides_a_result_is_not_carried_and_a_version_is_itself(ground: Ground, subject: str, name: str) -> None:
    pair = DIFFER[subject][name]
    old, new, again = (ground.plan(version, mode_of(pair)) for version in (*pair[:2], pair[1]))
    verdicts = {verdict(old, new), verdict(new, old)}
    assert verdicts <= {"asked", "refused"} or (subject == "buffers" and verdicts == {"migrated"})
    assert RULES.get(name) in [None, *(rule for item in compare(old, new, "test").items for rule in item.rules)]
    assert verdict(new, again) == "carried"


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if i % 4 else []) for i, n in enumerate(SAME)])
def test_what_decides_no_result_is_carried(ground: Ground, name: str) -> None:
    pair = SAME[name]
    old, new = (ground.plan(version, mode_of(pair)) for version in pair[:2])
    report = compare(old, new, "test")
    assert verdict(old, new) in ("carried", "empty") and report.compatible, report.to_markdown()


def test_a_type_that_the_state_does_not_show(ground: Ground) -> None:
    old, new = (ground.plan(version) for version in DIFFER["types"]["a list of longs"])
    [item] = [i for i in compare(old, new, "test").items if i.thing == "stage"]
    assert item.rules == ("stage.column-type",)
    assert "source-1.a from int to bigint" in item.reason.replace("in.a", "source-1.a")


def test_the_author_may_know_better(ground: Ground) -> None:
    old, new = ground.plan("k2 || 'a'"), ground.plan("substr(k2 || 'a', 1)")
    report = compare(old, new, "test")
    assert [i.offer for i in report.items if i.thing == "stage"] == ["q/t:same"]
    with pytest.raises(InvalidInputError, match="without a reason"):
        compare(old, new, "test", ["q/t:same"])
    agreed = compare(old, new, "test", ["q/t:same=it is the whole text"])
    [item] = [i for i in agreed.items if i.thing == "stage"]
    assert agreed.compatible and (item.verdict, item.agreed) == ("carried with loss", True)
    assert item.because == "it is the whole text"


def test_another_number_of_partitions_that_are_looked_at_is_agreed_to(ground: Ground) -> None:
    versions = [located(lambda rows: rows.repartition("k"), key) for key in ("spark_partition_id()", "k")]
    before = [ground.plan(version) for version in versions]
    ground.spark.conf.set("spark.sql.shuffle.partitions", "5")
    after = [ground.plan(version) for version in versions]
    assert [verdict(*pair) for pair in zip(before, after, strict=True)] == ["asked", "migrated"]


def test_a_hidden_filter_that_is_not_implied_is_agreed_to_when_it_goes(ground: Ground) -> None:
    """When it comes, no group is told again in update mode."""
    below = per_key(N, "(select * from rws where coalesce(k, 'q') <> 'zz')")
    old, new = ground.plan(lambda g: g.made(below).where("k is not null")), ground.plan(below)
    assert verdict(old, new) == "asked"


def test_a_stage_s_rows_that_come_from_one_stage_less(ground: Ground) -> None:
    """Counts of one deduplication's rows or of two's, which are both there."""

    def version(both: bool) -> Version:
        def build(g: Ground) -> DataFrame:
            one, two = (stage(n, g.read().dropDuplicates([key])).select("k") for n, key in (("d1", "k"), ("d2", "k2")))
            counted = count(one.union(two) if both else one, "k").select("k")
            return counted if both else counted.union(two)

        return build

    items = compare(ground.plan(version(True)), ground.plan(version(False)), "test").items
    assert any(i.blocks and i.name == "q/t" for i in items)


# An expression with each of those that are taken for null when an operand is.
INTOLERANT = """a = b; a < b; a <= b; a > b; a >= b; not (a = b); cast(a as string); a + b; a - b; a * b; a / b; a % b;
pmod(a, b); a div b; -a; abs(a); k like k2; k rlike k2; startswith(k, k2); endswith(k, k2); contains(k, k2);
upper(k); lower(k); length(k); substring(k, 1, 2); a & b; a | b; a ^ b; ~a; s.x; hour(ts); minute(ts); second(ts);
year(ts); month(ts); dayofmonth(ts)"""


def test_what_is_taken_for_null_intolerant_is_so_for_spark(spark) -> None:
    rows = spark.createDataFrame([], ROWS)
    seen, other = set(), set()
    for text in INTOLERANT.split(";"):
        plan = rows.select(F.expr(text))._jdf.queryExecution().analyzed()
        for node in sequence(plan.expressions().apply(0).map(identity_function(spark._jvm))):
            name = node.getClass().getSimpleName()
            if name in _NULL_INTOLERANT:
                seen.add(name)
                other |= set() if node.nullIntolerant() else {name}
    assert other == set()
    assert seen == _NULL_INTOLERANT - {"PreciseTimestampConversion"}  # which only Spark's own rules make
