"""What decides a result is part of a stage's meaning: pairs of versions that differ in one thing. The plans are made by
real Spark and compared by the rules; what the pairs of the first half compute under each other's state is wrong.

Each pair is the smallest of its class: a review with pairs like these found updates that were called carried and
computed wrong results.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.core.serde import from_dict, to_json
from airflow_provider_streamupdate.streaming import StreamingApp, source, stage
from airflow_provider_streamupdate.streaming.planning.planner import plan_app
from tests.cases import one_is_fast

USER = "user struct<id: long, country: string>"
SCHEMA = (
    f"k string, k2 string, a int, b int, d double, p decimal(7,2), ts timestamp, bin binary, {USER}, nums array<int>"
)
TWELVE = [f"v{n:02d}" for n in range(12)]
OTHERS = [f"w{n:02d}" for n in range(12)]


class Ground:
    """Where versions are planned: an input folder, a table, a session."""

    def __init__(self, spark, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.input("in"), self.input("other")

    def input(self, name: str) -> str:
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return str(path)

    def read(self, schema: str = SCHEMA, folder: str = "in", form: str = "json", **options: str):
        return self.spark.readStream.schema(schema).options(**options).format(form).load(self.input(folder))

    def table(
        self, name: str = "table", schema: str = "k string, label string, weight int", form: str = "json", **options
    ):
        return self.spark.read.schema(schema).options(**options).format(form).load(self.input(name))

    def plan(self, build, mode: str = "update") -> AppPlan:
        app = StreamingApp("app")

        @app.query("q")
        def query(spark, params):
            return build(self).writeStream.format("noop").outputMode(mode)

        plan = plan_app(self.spark, app.name, app.build(self.spark, {}))
        return from_dict(json.loads(to_json(plan)), AppPlan, "plan")  # as it is kept


@pytest.fixture
def ground(spark, tmp_path):
    return Ground(spark, tmp_path)


def totals(column):
    """Sums by a column: SQL text, or a function that makes a Column."""

    def build(g):
        key = F.expr(column) if isinstance(column, str) else column()
        return stage("t", g.read().groupBy(key.alias("key")).agg(F.sum("a").alias("s")))

    return build


def exploded(generator: str):
    return lambda g: stage("t", g.read().select(F.expr(generator).alias("n")).groupBy("n").count())


def either(*names: str):
    """The rows of two inputs, of one of them but some."""

    def build(g):
        rows = {
            "in": source("in", g.read()).where("a < 10").select("k"),
            "other": source("other", g.read(folder="other")).select("k"),
        }
        return stage("t", rows[names[0]].union(rows[names[1]]).groupBy("k").count())

    return build


def one(aggregate: str, schema: str = SCHEMA):
    return lambda g: stage("t", g.read(schema).groupBy("k").agg(F.expr(aggregate).alias("x")))


def typed(aggregate: str, kind: str):
    return one(aggregate, SCHEMA.replace("a int", f"a {kind}"))


def once(*columns: str, schema: str = SCHEMA):
    return lambda g: stage("t", g.read(schema).dropDuplicates(list(columns)))


def quoted(names: list[str]) -> str:
    return ", ".join(f"'{n}'" for n in names)


def branches(first: str, second: str):
    def build(g):
        rows = g.read()
        small, big = (
            rows.where(first).withColumn("size", F.lit("small")),
            rows.where(second).withColumn("size", F.lit("big")),
        )
        return stage("t", small.union(big).groupBy("size").count())

    return build


def looked_up(change=lambda table: table, name: str = "table", column: str = "label", kind: str = "inner", **table):
    def build(g):
        rows = g.read().join(change(g.table(name, **table)), "k", kind)
        return stage("t", rows.groupBy(column).count())

    return build


def self_join(condition: str):
    """Both sides read one relation: Spark makes their aliases anew, not the relation (DeduplicateRelations)."""

    def build(g):
        rows = g.read().select(F.col("k").alias("k"), (F.col("a") + 1).alias("a"))
        joined = rows.alias("l").join(rows.alias("r"), F.expr(f"l.k = r.k and {condition}"))
        return stage("t", joined.select("l.k", F.col("l.a").alias("x"), F.col("r.a").alias("y")))

    return build


def deduplicated(above: bool):
    def build(g):
        rows = g.read()
        if above:
            return stage(
                "t",
                stage("once", rows.dropDuplicates(["k"]))
                .withWatermark("ts", "1 hour")
                .groupBy(F.window("ts", "1 hour"))
                .count(),
            )
        rows = stage("once", rows.withWatermark("ts", "1 hour").dropDuplicates(["k"]))
        return stage("t", rows.groupBy(F.window("ts", "1 hour")).count())

    return build


def session(gap: str):
    def build(g):
        rows = g.read().withWatermark("ts", "1 hour")
        return stage("t", rows.groupBy(F.session_window("ts", F.expr(gap)), "k").count())

    return build


def python(returns: str, keyword: bool = False):
    def build(g):
        @F.udf(returns)
        def twice(x=0, y=0):
            return x * 2

        arguments = {"y" if keyword else "x": F.col("a")}
        return stage("t", g.read().groupBy(twice(**arguments).alias("key")).count())

    return build


SWAPPED = SCHEMA.replace("id: long, country: string", "country: string, id: long")
SWAPPED_ALIKE = (
    SCHEMA.replace("id: long, country: string", "id: string, country: string"),
    SCHEMA.replace("id: long, country: string", "country: string, id: string"),
)

DIFFERENT = {
    # 1. what Spark's JSON leaves out
    "in-set": (
        one(f"sum(case when k2 in ({quoted(TWELVE)}) then a end)"),
        one(f"sum(case when k2 in ({quoted(OTHERS)}) then a end)"),
    ),
    "in-set-key": (totals(f"k2 in ({quoted(TWELVE)})"), totals(f"k2 in ({quoted(OTHERS)})")),
    "like-any": (
        one(f"sum(case when k2 like any ({', '.join(repr(f'%{n}_x') for n in TWELVE)}) then a end)"),
        one(f"sum(case when k2 like any ({', '.join(repr(f'%{n}_y') for n in TWELVE)}) then a end)"),
    ),
    "escape": (totals("k2 like 'a/_b' escape '/'"), totals("k2 like 'a/_b' escape '!'")),
    "json-options": (
        totals("from_json(k2, 'x int', map('mode', 'FAILFAST')).x"),
        totals("from_json(k2, 'x int', map('mode', 'PERMISSIVE')).x"),
    ),
    "csv-options": (totals("from_csv(k2, 'x int', map('sep', ';'))"), totals("from_csv(k2, 'x int', map('sep', ','))")),
    "to-csv-options": (totals("to_csv(user, map('sep', ';'))"), totals("to_csv(user, map('sep', ','))")),
    "try-add": (one("sum(a + b)"), one("sum(try_add(a, b))")),
    "try-cast": (totals("cast(k2 as int)"), totals("try_cast(k2 as int)")),
    "binary": (totals("bin = X'01'"), totals("bin = X'02'")),
    "lambda": (totals("transform(nums, x -> x + 1)"), totals("transform(nums, x -> x + 2)")),
    "lambda-variables": (totals("transform(nums, (x, i) -> x - i)"), totals("transform(nums, (x, i) -> i - x)")),
    "session-gap": (
        session("case when k2 in ('a') then '5 minutes' else '9 minutes' end"),
        session("case when k2 in ('b') then '5 minutes' else '9 minutes' end"),
    ),
    # 2. types
    "list-of-longs": (typed("collect_list(a)", "int"), typed("collect_list(a)", "bigint")),
    "hash": (typed("sum(hash(a))", "int"), typed("sum(hash(a))", "bigint")),
    "text": (typed("max(cast(a as string))", "int"), typed("max(cast(a as string))", "double")),
    "sketch": (typed("approx_count_distinct(a)", "int"), typed("approx_count_distinct(a)", "bigint")),
    "percentile": (typed("percentile(a, 0.5)", "int"), typed("percentile(a, 0.5)", "bigint")),
    "mode": (typed("mode(a)", "int"), typed("mode(a)", "bigint")),
    "collation": (one("max(k2)"), one("max(k2)", SCHEMA.replace("k2 string", "k2 string collate UTF8_LCASE"))),
    # 3. fields of structs
    "field": (totals("user.id"), totals("user.country")),
    "struct-swapped": (once("user", schema=SWAPPED_ALIKE[0]), once("user", schema=SWAPPED_ALIKE[1])),
    "max-struct": (one("max(user)", SWAPPED_ALIKE[0]), one("max(user)", SWAPPED_ALIKE[1])),
    "built-struct": (one("max(struct(a, b))"), one("max(struct(b, a))")),
    # 4. Python functions
    "python-type": (python("int"), python("string")),
    "python-keyword": (python("int"), python("int", keyword=True)),
    # 5. branches of a union
    "branches": (branches("a < 10", "a >= 10"), branches("a >= 10", "a < 10")),
    # 6. a lookup
    "lookup-filter": (looked_up(lambda t: t.where("weight > 1")), looked_up(lambda t: t.where("weight > 2"))),
    "lookup-in": (
        looked_up(lambda t: t.where(F.col("k").isin(TWELVE))),
        looked_up(lambda t: t.where(F.col("k").isin(OTHERS))),
    ),
    "lookup-order": (
        looked_up(lambda t: t.orderBy("weight").dropDuplicates(["k"])),
        looked_up(lambda t: t.orderBy(F.desc("weight")).dropDuplicates(["k"])),
    ),
    "lookup-limit": (
        looked_up(lambda t: t.orderBy("weight").limit(3)),
        looked_up(lambda t: t.orderBy("weight").limit(4)),
    ),
    "lookup-options": (looked_up(form="csv", sep=";"), looked_up(form="csv", sep=",")),
    "lookup-place": (looked_up(form="csv"), looked_up(form="csv", schema="k string, weight int, label string")),
    "lookup-type": (
        looked_up(column="weight"),
        looked_up(column="weight", schema="k string, label string, weight bigint"),
    ),
    "lookup-group": (
        looked_up(lambda t: t.groupBy("k").agg(F.max("label").alias("label"))),
        looked_up(lambda t: t.groupBy("k").agg(F.min("label").alias("label"))),
    ),
    "lookup-kind": (looked_up(), looked_up(kind="left")),
    "lookup-rows": (
        lambda g: stage(
            "t",
            g.read()
            .join(g.spark.createDataFrame([("x", "one")], "k string, label string"), "k")
            .groupBy("label")
            .count(),
        ),
        lambda g: stage(
            "t",
            g.read()
            .join(g.spark.createDataFrame([("x", "two")], "k string, label string"), "k")
            .groupBy("label")
            .count(),
        ),
    ),
    # 7. a stream joined with itself
    "self-join": (self_join("l.a < r.a"), self_join("r.a < l.a")),
    # 9. a watermark across a deduplication
    "watermark": (deduplicated(False), deduplicated(True)),
    # and more of the same classes
    "generator": (exploded("explode(nums)"), exploded("explode_outer(nums)")),
    "time-format": (totals("date_format(ts, 'yyyy')"), totals("date_format(ts, 'YYYY')".replace("YYYY", "yy"))),
    "point-in-time": (
        totals("ts < timestamp'2026-01-01 00:00:00+00:00'"),
        totals("ts < timestamp'2026-01-01 00:00:01+00:00'"),
    ),
    "decimal": (one("sum(p)"), one("sum(p)", SCHEMA.replace("decimal(7,2)", "decimal(7,3)"))),
    "null-order": (one("sort_array(collect_list(a))"), one("collect_set(a)")),
}


@pytest.mark.parametrize("name", one_is_fast(DIFFERENT, 22))
def test_a_difference_that_decides_results_is_never_carried(ground, name):
    old, new = (
        ground.plan(build, "append" if "join" in name or "watermark" in name or "session" in name else "update")
        for build in DIFFERENT[name]
    )
    report = compare(old, new, "test")
    assert not report.compatible, report.to_markdown()


SAME = {
    "renamed-field-added": (
        totals("user.id"),
        lambda g: stage(
            "t",
            g.read(SCHEMA.replace("country: string", "country: string, town: string"))
            .groupBy(F.col("user.id").alias("key"))
            .agg(F.sum("a").alias("s")),
        ),
    ),
    "field-added-in-front": (
        totals("user.id"),
        lambda g: stage(
            "t",
            g.read(SCHEMA.replace("id: long", "town: string, id: long"))
            .groupBy(F.col("user.id").alias("key"))
            .agg(F.sum("a").alias("s")),
        ),
    ),
    "operands": (totals("a + b"), totals("b + a")),
    "in-order": (totals("k2 in ('a', 'b', 'c')"), totals("k2 in ('c', 'a', 'b')")),
    "in-set-order": (totals(f"k2 in ({quoted(TWELVE)})"), totals(f"k2 in ({quoted(TWELVE[::-1])})")),
    "comparison": (totals("a < b"), totals("b > a")),
    "and": (totals("a > 1 and b > 1 and d > 1"), totals("d > 1 and (b > 1 and a > 1)")),
    "sql": (totals("upper(k2)"), totals(lambda: F.upper("k2"))),
    "wider-sum": (typed("sum(a)", "int"), typed("sum(a)", "bigint")),
    "any-count": (typed("count(a)", "int"), typed("count(a)", "string")),
    "lambda-names": (
        totals("transform(nums, x -> x + 1)"),
        totals(lambda: F.transform("nums", lambda element: element + 1)),
    ),
    "hours": (
        lambda g: stage("t", g.read().groupBy(F.window("ts", "60 minutes")).count()),
        lambda g: stage("t", g.read().groupBy(F.window("ts", "1 hour")).count()),
    ),
    "branch-order": (either("in", "other"), either("other", "in")),
    "lookup-columns": (looked_up(), looked_up(lambda t: t.select("label", "k"))),
    "stream-filter": (
        looked_up(),
        lambda g: stage("t", g.read().where("k > 'a'").join(g.table(), "k").groupBy("label").count()),
    ),
    "with": (
        lambda g: stage("t", g.read().groupBy("k").count()),
        lambda g: (
            g.read().createOrReplaceTempView("rows"),
            stage("t", g.spark.sql("with r as (select * from rows) select k, count(*) from r group by k")),
        )[1],
    ),
}


@pytest.mark.parametrize("name", one_is_fast(SAME, 8))
def test_what_decides_no_result_is_carried(ground, name):
    old, new = (ground.plan(build) for build in SAME[name])
    report = compare(old, new, "test")
    assert report.compatible, report.to_markdown()


@pytest.mark.parametrize("name", one_is_fast([*SAME, *DIFFERENT], 10))
def test_a_version_is_itself(ground, name):
    build = {**DIFFERENT, **SAME}[name][1]
    mode = "append" if "join" in name or "watermark" in name or "session" in name else "update"
    report = compare(ground.plan(build, mode), ground.plan(build, mode), "test")
    assert {item.verdict for item in report.items} == {"carried"}, report.to_markdown()


def test_a_type_that_the_state_does_not_show(ground):
    old, new = (ground.plan(typed("collect_list(a)", kind)) for kind in ("int", "bigint"))
    [item] = [i for i in compare(old, new, "test").items if i.thing == "stage"]
    assert item.rules == ("stage.column-type",)
    assert "source-1.a from int to bigint" in item.reason


def test_the_author_may_know_better(ground):
    old, new = ground.plan(totals("k2 || 'a'")), ground.plan(totals("substr(k2 || 'a', 1)"))
    report = compare(old, new, "test")
    assert [i.offer for i in report.items if i.thing == "stage"] == ["q/t:same"]
    with pytest.raises(InvalidInputError, match="without a reason"):
        compare(old, new, "test", ["q/t:same"])
    agreed = compare(old, new, "test", ["q/t:same=it is the whole text"])
    assert agreed.compatible
    [item] = [i for i in agreed.items if i.thing == "stage"]
    assert (item.verdict, item.agreed) == ("carried with loss", True)
    assert item.because == "it is the whole text"
