"""What is one text and not one thing: values that read alike, columns and fields that are called alike, rows whose
columns go by their places, and what decides partitions below something that looks at them.

Pairs of versions by real Spark's plans; an outside review found pairs like these carried, and the answer wrong; and
apps that could not be updated to themselves.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import functions as F
from test_meaning import Ground

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from airflow_provider_streamupdate.streaming import source, stage
from tests.cases import one_is_fast

ROWS = (
    "k string, k2 string, a int, b int, d double, ts timestamp, tn timestamp_ntz, nums array<int>, v string, "
    "s struct<x: int, y: int>"
)


@pytest.fixture
def ground(spark, tmp_path):
    return Ground(spark, tmp_path)


def planned(ground: Ground, build) -> AppPlan:
    """In the mode that a version has as an attribute."""
    return ground.plan(build, getattr(build, "mode", "update"))


def verdict(before: AppPlan, after: AppPlan) -> str:
    """Of the stages: ``carried`` where all are."""
    items = [i for i in compare(before, after, "test").items if i.thing == "stage"]
    assert items
    found = ("asked" if i.needs_agreement else i.verdict for i in items)
    return next((verdict for verdict in found if verdict != "carried"), "carried")


def appended(build):
    build.mode = "append"
    return build


def by(key: str, total: str = "sum(a)", **settings: str):
    """Grouped by a text of SQL, under settings."""

    def build(g):
        for name, value in settings.items():
            g.spark.conf.set(f"spark.sql.{name.replace('_', '.')}", value)
        return stage("t", g.read(ROWS).groupBy(F.expr(key).alias("key")).agg(F.expr(total).alias("x")))

    return build


def listed(values: str, key: str):
    return by(f"{key} in ({values})")


def moments(*times: str, zone: str = "America/New_York"):
    found = ", ".join(f"timestamp'{t}'" for t in times)
    return by(f"array_contains(array({found}), ts)", session_timeZone=zone)


def variant(of: str):
    return by("k", f"sum(if(schema_of_variant(if(a > 5, {of}, cast(2 as variant))) = 'STRING', a, 0))")


def texts(*bytes_: int) -> str:
    return ", ".join(f"cast(X'{b:02x}' as string)" for b in bytes_)


def of_time(text: str):
    return by(f"element_at(array({text}), a) < cast(tn as time)", timeType_enabled="true")


def asked(sql: str, *before: str):
    """SQL over the stream `rws` and the table `tabl`."""

    def build(g):
        g.read(ROWS).createOrReplaceTempView("rws")
        g.table().createOrReplaceTempView("tabl")
        for statement in before:
            g.spark.sql(statement)
        return stage("t", g.spark.sql(sql))

    return build


def values(rows: str, columns: str = "k, label", label: str = "label", where: str = "true"):
    return asked(
        f"select {label} as l, count(*) as n from rws join (select * from values {rows} as t({columns}) where {where}) "
        "using (k) group by all"
    )


ONE, TWO = "2025-11-02 05:30:00+00:00", "2025-11-02 06:30:00+00:00"  # one local time
DAY = "2025-01-01 00:00:00+00:00"
LAST = ", ".join(f"timestamp'2025-01-{n:02d} 00:00:00'" for n in range(1, 13))
ADDRESSES = ", ".join(f"'{n}@bee.de'" for n in range(12))
ARRAYS = ", ".join(f"array({n})" for n in range(12))
MONTHS = "('a', interval '1' month), ('b', interval '{}' month)"
DAYS = "('a', make_interval(0, 1, 0, {}, 0, 0, 0)), ('b', null)"
VARIABLE = "declare or replace variable x int default {}"
OF_A_TABLE = (
    "select label, count(*) as n from rws join (select * from tabl where weight > session.x) using (k) group by label"
)
IN_A_LIST = OF_A_TABLE.replace("weight > session.x", "array_contains(session.x, weight)")
IN_A_JOIN = (
    "select label, count(*) as n from rws left join tabl on rws.k = tabl.k and weight > session.x group by label"
)
LIST = "declare or replace variable x array<int> default array(1, {})"
MOMENT = "declare or replace variable x timestamp default timestamp'{}'"
OF_A_MOMENT = OF_A_TABLE.replace("weight > session.x", "timestamp_seconds(weight) > session.x")

VALUES = {
    "a moment in a list": (moments(ONE, DAY), moments(TWO, DAY)),
    "a moment in a map": (
        by(f"element_at(map(timestamp'{ONE}', 1), ts)", session_timeZone="America/New_York"),
        by(f"element_at(map(timestamp'{TWO}', 1), ts)", session_timeZone="America/New_York"),
    ),
    "a moment in a struct in a list": (
        by(f"array_contains(array(struct(timestamp'{ONE}' as ts)), struct(ts))", session_timeZone="America/New_York"),
        by(f"array_contains(array(struct(timestamp'{TWO}' as ts)), struct(ts))", session_timeZone="America/New_York"),
    ),
    "a variant of a date": (variant("cast(date'2020-01-01' as variant)"), variant("cast('2020-01-01' as variant)")),
    "a variant of a number": (variant("cast(1.5D as variant)"), variant("cast(1.5BD as variant)")),
    "a variant of bytes": (variant("cast(X'61' as variant)"), variant("cast('YQ==' as variant)")),
    "a variant of a list": (
        variant("cast(array(date'2020-01-01') as variant)"),
        variant("cast(array('2020-01-01') as variant)"),
    ),
    "a variant in a list": (
        variant("element_at(array(cast(1.5D as variant)), a)"),
        variant("element_at(array(cast(1.5BD as variant)), a)"),
    ),
    "a variant in a map": (
        variant("element_at(map(1, cast(1.5D as variant)), a)"),
        variant("element_at(map(1, cast(1.5BD as variant)), a)"),
    ),
    "bytes of a long list": (listed(texts(*range(240, 252)), "k"), listed(texts(*range(241, 253)), "k")),
    "addresses in a long list": (listed(ADDRESSES, "k"), listed(f"{ADDRESSES}, 'x@ace'", "k")),
    "null in a long list": (listed(f"{ADDRESSES}, null", "k"), listed(f"{ADDRESSES}, 'null'", "k")),
    "quotes of a collated text": (
        by("concat(k collate unicode, 'a' collate unicode, 'b' collate unicode) = 'x'"),
        by("concat(k collate unicode, 'a:\\'string collate UNICODE\\', b' collate unicode) = 'x'"),
    ),
    "bytes in a list": (
        by(f"array_contains(array({texts(250)}), k)"),
        by(f"array_contains(array({texts(251)}), k)"),
    ),
    "a long list of lists": (listed(ARRAYS, "array(a)"), listed(f"{ARRAYS}, array(77)", "array(a)")),
    "a zero with a sign": (by("array(0.0D)[a]"), by("array(-0.0D)[a]")),
    "a collation in a list": (
        by("array_contains(array('a'), k)"),
        by("array_contains(array('a' collate UTF8_LCASE), k)"),
    ),
    "a calendar's interval": (
        by("tn + array(make_interval(0, 1, 0, 30, 0, 0, 0))[a]"),
        by("tn + array(make_interval(0, 1, 0, 29, 24, 0, 0))[a]"),
    ),
    "a time of the day": (of_time("time'10:00:00'"), of_time("time'10:00:00.000001'")),
    "months given in the code": (values(MONTHS.format(2)), values(MONTHS.format(3))),
    "days given in the code": (
        values(DAYS.format(30), label="string(label)"),
        values(DAYS.format(31), label="string(label)"),
    ),
    "variants given in the code": (
        values("('a', cast(1.5D as variant))", label="schema_of_variant(label)"),
        values("('a', cast(1.5BD as variant))", label="schema_of_variant(label)"),
    ),
    "a null and a text given in the code": (values("('a', null), ('b', 'x')"), values("('a', 'NULL'), ('b', 'x')")),
    "a session's variable": (asked(OF_A_TABLE, VARIABLE.format(5)), asked(OF_A_TABLE, VARIABLE.format(6))),
    "a session's variable set": (
        asked(OF_A_TABLE, VARIABLE.format(5)),
        asked(OF_A_TABLE, VARIABLE.format(5), "set variable x = 7"),
    ),
    "a session's variable in a join": (asked(IN_A_JOIN, VARIABLE.format(5)), asked(IN_A_JOIN, VARIABLE.format(6))),
    "a session's list": (asked(IN_A_LIST, LIST.format(5)), asked(IN_A_LIST, LIST.format(6))),
    "a session's moment": (
        asked(OF_A_MOMENT, "set time zone 'America/New_York'", MOMENT.format(ONE)),
        asked(OF_A_MOMENT, "set time zone 'America/New_York'", MOMENT.format(TWO)),
    ),
}  # fmt: skip


def given(columns: str, rows=(("a", "b"), ("b", "c"), ("c", "a")), label: str = "label"):
    """A table that the code gives, by createDataFrame."""

    def build(g):
        table = g.spark.createDataFrame(list(rows), columns)
        return stage("t", g.read(ROWS).join(table, "k").groupBy(label).count())

    return build


def frame(*columns: str):
    """By pandas."""

    def build(g):
        import pandas

        table = g.spark.createDataFrame(pandas.DataFrame([["a", "b"], ["b", "c"]], columns=list(columns)))
        return stage("t", g.read(ROWS).join(table, "k").groupBy("label").count())

    return build


def of_python(schema: str):
    """By a data source in Python, whose rows are tuples."""

    def build(g):
        from pyspark.sql.datasource import DataSource, DataSourceReader

        class Pairs(DataSource):
            @classmethod
            def name(cls):
                return "pairs"

            def schema(self):
                return "k string, label string"

            def reader(self, schema):
                class Reader(DataSourceReader):
                    def read(self, partition):
                        yield ("a", "b")

                return Reader()

        g.spark.dataSource.register(Pairs)
        table = g.spark.read.schema(schema).format("pairs").load()
        return stage("t", g.read(ROWS).join(table, "k").groupBy("label").count())

    return build


def of_files(schema: str, form: str, **options: str):
    def build(g):
        table = g.table(schema=schema, form=form, **options)
        return stage("t", g.read(ROWS).join(table, "k").groupBy("label").count())

    return build


K_LABEL, LABEL_K = "k string, label string", "label string, k string"
LOOP = (
    "with recursive n(k, label, i) as (select k, label, 0 from tabl union all select k, label || i, i + 1 from n where "
    "i < {}) select label, count(*) as c from rws join n using (k) group by label"
)
OF_ITS_OWN = "create or replace temporary function f1(x int) returns int return x % {}"
OF_A_FUNCTION = OF_A_TABLE.replace("weight > session.x", "f1(weight) = 1")
ROWS_OF_A_FUNCTION = (
    "create or replace temporary function tf(x int) returns table (k string, label string) "
    "return select k, label from tabl where weight > x"
)
FROM_A_FUNCTION = "select label, count(*) as n from rws join tf({}) using (k) group by label"
MADE = {
    "by recursion": (asked(LOOP.format(3)), asked(LOOP.format(4))),
    "by a function in SQL": (asked(OF_A_FUNCTION, OF_ITS_OWN.format(3)), asked(OF_A_FUNCTION, OF_ITS_OWN.format(4))),
    "by a table function in SQL": (
        asked(FROM_A_FUNCTION.format(1), ROWS_OF_A_FUNCTION),
        asked(FROM_A_FUNCTION.format(2), ROWS_OF_A_FUNCTION),
    ),
}
POSITIONAL = {"orc.force.positional.evolution": "true"}
ROWS_BY_PLACE = {
    "rows of createDataFrame": (given(K_LABEL), given(LABEL_K)),
    "rows of pandas": (frame("k", "label"), frame("label", "k")),
    "rows of VALUES": (values("('a', 'b'), ('b', 'c')"), values("('a', 'b'), ('b', 'c')", "label, k")),
    "rows of a data source in Python": (of_python(K_LABEL), of_python(LABEL_K)),
    "rows of csv": (of_files(K_LABEL, "csv"), of_files(LABEL_K, "csv")),
    "rows of orc by place": (of_files(K_LABEL, "orc", **POSITIONAL), of_files(LABEL_K, "orc", **POSITIONAL)),
}
SAME = {
    "a table of json": (of_files(K_LABEL, "json"), of_files(LABEL_K, "json")),
    "a table of orc": (of_files(K_LABEL, "orc"), of_files(LABEL_K, "orc")),
    "a moment in a list": (
        by(f"array_contains(array(timestamp'{ONE}'), ts)"),
        by("array_contains(array(timestamp'2025-11-02 11:00:00+05:30'), ts)"),
    ),
    "a session's variable": (
        asked(OF_A_TABLE, VARIABLE.format(5)),
        asked(OF_A_TABLE, VARIABLE.format(6), "set variable x = 5"),
    ),
    "a session's variable and its value": (
        asked(OF_A_TABLE, VARIABLE.format(5)),
        asked(OF_A_TABLE.replace("session.x", "5")),
    ),
    "a shape on the map": (
        by("element_at(array(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')), a) is null"),
        by("element_at(array(st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')), a) is null"),
    ),
}


def unfolded(key: str, struct: str = "s", schema: str = ROWS):
    """The fields of a struct that has two of one name, each under a name of its own."""

    def build(g):
        rows = g.read(schema).select(F.expr(struct).alias("s")).select("s.*").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def of_function(key: str):
    def build(g):
        @F.udf("struct<x:int, x:int>", useArrow=False)
        def two(a):
            return (a % 2, 10 + a % 3)

        rows = g.read(ROWS).select(two("a").alias("s")).select("s.*").toDF("p", "q")
        return stage("t", rows.groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def of_batches(key: str, arrow: bool = True):
    """Of a function of whole batches, with two columns of one name."""

    def build(g):
        def same(batches):
            yield from batches

        rows = g.read(ROWS).select("a", "b")
        rows = rows.mapInArrow(same, "x int, x int") if arrow else rows.mapInPandas(same, "x int, x int")
        return stage("t", rows.toDF("p", "q").groupBy(F.lit(1).alias("one")).agg(F.sum(key).alias("x")))

    return build


def above_a_stage(column: str):
    """A stage's own column of two fields of one name."""

    def build(g):
        rows = g.read(ROWS).withWatermark("ts", "1 minute").groupBy(F.window("ts", "1 minute"))
        rows = stage("u", rows.agg(F.expr("max(struct(a as x, b as x))").alias("s"))).select("s.*").toDF("p", "q")
        return stage("t", rows.dropDuplicates([column]))

    return appended(build)


def of_a_state_function(column: str):
    def build(g):
        def f(key, batches, state):
            yield from batches

        rows = g.read(ROWS).groupBy("k").applyInPandasWithState(f, "x int, x int", "n int", "append", "NoTimeout")
        return stage("t", stage("u", rows).toDF("p", "q").dropDuplicates([column]))

    return appended(build)


def of_a_table(column: str, columns: str = "k string, x string, x string"):
    """A table with two columns of one name."""

    def build(g):
        table = g.spark.createDataFrame([("a", "b", "c")], columns).toDF("k", "p", "q")
        return stage("t", g.read(ROWS).join(table, "k").groupBy(column).count())

    return build


def of_values(column: str):
    return asked(
        f"select {column} as l, count(*) as n from rws join "
        "(select * from (values ('a', 'b', 'c') as t(k, x, x)) as u(k, p, q)) using (k) group by all"
    )


def of_both_sides(column: str):
    """Two columns of one name after a join."""

    def build(g):
        table = g.table().select("k", F.col("label").alias("v"))
        rows = g.read(ROWS).select("k", "v").join(table, "k").toDF("k", "p", "q")
        return stage("t", rows.groupBy(column).count())

    return build


def of_a_python_stream(column: str):
    """A stream of a data source in Python, with two columns of one name."""

    def build(g):
        from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

        class Twice(DataSource):
            @classmethod
            def name(cls):
                return "twice"

            def schema(self):
                return "x int, x int"

            def simpleStreamReader(self, schema):
                class Reader(SimpleDataSourceStreamReader):
                    def initialOffset(self):
                        return {"n": 0}

                    def read(self, start):
                        return iter([(1, 2)]), {"n": 1}

                    def readBetweenOffsets(self, start, end):
                        return iter([(1, 2)])

                return Reader()

        g.spark.dataSource.register(Twice)
        rows = g.spark.readStream.format("twice").load().toDF("p", "q")
        return stage("t", rows.groupBy(column).count())

    return build


def two_subqueries(first: str, second: str):
    """Spark makes one struct of two subqueries of one table, with two fields of one name."""
    return asked(
        f"select k1, k2, count(*) as n from (select {first} > (select max(weight) v from tabl) as k1, "
        f"{second} > (select min(weight) v from tabl) as k2 from rws) group by k1, k2"
    )


def two_turned():
    return asked(
        "select k1, k2, count(*) as n from (select b > (select max(weight) v from tabl) as k2, "
        "a > (select min(weight) v from tabl) as k1 from rws) group by k1, k2"
    )


TWICE = "struct<x: int, x: int>"
NAMES = {
    "two subqueries": (two_subqueries("a", "b"), two_turned()),
    "a function's struct": (of_function("p"), of_function("q")),
    "a struct of a list": (
        unfolded("p", "element_at(transform(nums, n -> struct(n as x, n * 100 as x)), 1)"),
        unfolded("q", "element_at(transform(nums, n -> struct(n as x, n * 100 as x)), 1)"),
    ),
    "a struct of a struct": (
        unfolded("p", "element_at(transform(nums, n -> struct(struct(n as x, a as x) as y)), 1).y"),
        unfolded("q", "element_at(transform(nums, n -> struct(struct(n as x, a as x) as y)), 1).y"),
    ),
    "a source's struct": (
        unfolded("p", "s", f"s {TWICE}"),
        unfolded("q", "s", f"s {TWICE}"),
    ),
    "a function of batches": (of_batches("p"), of_batches("q")),
    "a function of pandas' batches": (of_batches("p", False), of_batches("q", False)),
    "a stage's struct": (above_a_stage("p"), above_a_stage("q")),
    "a state function's columns": (of_a_state_function("p"), of_a_state_function("q")),
    "a table's columns": (of_a_table("p"), of_a_table("q")),
    "the columns of VALUES": (of_values("p"), of_values("q")),
    "the columns of both sides": (of_both_sides("p"), of_both_sides("q")),
    "a Python stream's columns": (of_a_python_stream("p"), of_a_python_stream("q")),
}
SAME |= {
    "a field in other letters": (
        by("from_json(v, 'x int, y int').x"),
        by("from_json(v, 'x int, y int').X"),
    ),
    "a field beside others": (
        by("element_at(transform(nums, n -> struct(n as x, n as z)), 1).x"),
        by("element_at(transform(nums, n -> struct(n as x, n as z)), 1).X"),
    ),
    "by its place or its name": (unfolded("p"), unfolded("p", "struct(s.x as x, s.y as y)")),
}

IF, CASE = "sum(if(a > 1, b, a))", "sum(case when a > 1 then b else a end)"


def kept(*aggregates: str, rows=lambda g: g.read(ROWS), session: bool = False):
    """Aggregates in the order of their buffers."""

    def build(g):
        keys = [F.session_window("ts", "5 minutes"), F.col("k2")] if session else [F.col("k")]
        made = [F.expr(text).alias(f"x{n}") for n, text in enumerate(aggregates)]
        return stage("t", rows(g).groupBy(*keys).agg(*made))

    return appended(build) if session else build


def renamed(g):
    """One column under two names, below a watermark: for Spark two."""
    return (
        g.read(ROWS).select("k", "k2", "ts", F.col("a").alias("x"), F.col("a").alias("y")).withWatermark("ts", "1 hour")
    )


def timed(g):
    return g.read(ROWS).withWatermark("ts", "1 hour")


def united(g):
    rows = g.read(ROWS).select("k", F.col("a").alias("x"), F.col("a").alias("y"))
    return rows.union(g.read(ROWS, "other").select("k", F.col("a"), F.col("a")))


def once_each(g):
    rows = g.read(ROWS).select("k", "b", F.col("a").alias("x"), F.col("a").alias("y"))
    return stage("u", rows.dropDuplicates(["k"]))


def called(*which: str):
    """Of two functions with one code."""

    def build(g):
        def f(x):
            return (x or 0) % 3

        one, two = F.udf(f, "int"), F.udf(f, "int")
        made = {"p": F.sum(one("a")), "n": F.count("*"), "q": F.sum(two("a"))}
        return stage("t", g.read(ROWS).groupBy("k").agg(*(made[name].alias(name) for name in which)))

    return build


def chance(*filters: str):
    def build(g):
        rows = g.read(ROWS)
        for each in filters:
            rows = rows.where(each)
        return stage("t", rows.groupBy("k").count())

    return build


N = "count(*)"
BUFFERS = {
    "if and case": (kept(IF, N, CASE), kept(IF, CASE, N)),
    "if and case of a session": (
        kept(IF, N, CASE, rows=timed, session=True),
        kept(IF, CASE, N, rows=timed, session=True),
    ),
    "a column under two names": (
        kept("sum(x)", N, "sum(y)", rows=renamed),
        kept("sum(x)", "sum(y)", N, rows=renamed),
    ),
    "a column under two names in a union": (
        kept("sum(x)", N, "sum(y)", rows=united),
        kept("sum(x)", "sum(y)", N, rows=united),
    ),
    "a column under two names of a stage": (
        kept("max(x)", N, "max(y)", rows=once_each),
        kept("max(x)", "max(y)", N, rows=once_each),
    ),
    "coalesce": (
        kept("sum(coalesce(a, b))", N, "sum(coalesce(a, b, a))"),
        kept("sum(coalesce(a, b))", "sum(coalesce(a, b, a))", N),
    ),
    "once and twice": (kept(IF, N), kept(IF, N, CASE)),
    "by chance once and twice": (chance("rand() > 0.5"), chance("rand() > 0.5", "rand() > 0.5")),
}
SAME |= {
    "the first twice": (kept("first(a)", N, "first(a)"), kept("first(a)", "first(a)", N)),
    "a function made twice": (called("p", "n", "q"), called("p", "q", "n")),
    "twice for the author, once for Spark": (kept("sum(a)", N), kept("sum(a)", N, "sum(a)")),
    "sums in another order of operands": (kept("sum(a + b)", N, "sum(b + a)"), kept("sum(b + a)", N)),
    "if and case change places": (kept(IF, N, CASE), kept(CASE, N, IF)),
}


def located(moved, key: str = "spark_partition_id()"):
    """Grouped by where a row is, of rows that are moved."""
    return lambda g: stage("t", moved(g.read(ROWS)).groupBy(F.expr(key).alias("p")).agg(F.sum("a").alias("s")))


def whole(moved, arrow: bool = False):
    """One row of each partition."""

    def build(g):
        def top(batches):
            import pandas

            rows = list(batches)
            if rows:
                yield pandas.concat(rows).head(1)

        rows = moved(g.read(ROWS)).select("k", "a")
        rows = rows.mapInArrow(top, "k string, a int") if arrow else rows.mapInPandas(top, "k string, a int")
        return stage("t", rows.groupBy("k").count())

    return build


def iterated(moved):
    """A function of Python that sees one row after the other."""

    def build(g):
        import pandas

        def numbered(batches):
            yield from batches

        numbered.__annotations__ = {"batches": Iterator[pandas.Series], "return": Iterator[pandas.Series]}
        number = F.pandas_udf(numbered, "int")
        return stage("t", moved(g.read(ROWS)).groupBy(number("a").alias("n")).count())

    return build


def looked_for(moved, where: str = "true"):
    """In a table, of rows that are moved."""

    def build(g):
        table = moved(g.table()).withColumn("n", F.expr("spark_partition_id()")).where(where)
        return stage("t", g.read(ROWS).join(table, "k").groupBy("n").count())

    return build


def two_tables(first: str, second: str, pick=lambda table: table.limit(5)):
    """Of two tables one below the other."""

    def build(g):
        return stage("t", g.read(ROWS).join(pick(g.table(first).union(g.table(second))), "k").groupBy("label").count())

    return build


def two_streams(*names: str, moved=lambda rows: rows, key: str = "spark_partition_id()"):
    def build(g):
        parts = {name: source(name, g.read(ROWS, name)) for name in ("in", "other")}
        rows = moved(parts[names[0]].union(parts[names[1]]))
        return stage("t", rows.groupBy(F.expr(key).alias("p")).count())

    return build


def exploded_in_union(column: str):
    """The list itself is not needed above, and a union goes by place."""

    def build(g):
        parts = [g.read(ROWS).select(name, F.explode("nums").alias("x")) for name in ("v", column)]
        return stage("t", parts[0].union(parts[1]).groupBy("v").agg(F.sum("x").alias("s")))

    return build


def hinted(hint: str):
    def build(g):
        rows = g.read(ROWS).join(g.table().hint(hint) if hint else g.table(), "k")
        return stage("t", rows.groupBy(F.expr("spark_partition_id()").alias("p")).count())

    return build


def by_place(number: int, column: str = "k"):
    return lambda rows: rows.repartition(number, column)


def by_number(column: str, number: int = 4):
    return lambda rows: rows.repartitionById(number, F.col(column) % 4)


def still(rows):
    return rows


FILE = "input_file_name()"
PARTITIONS = {
    "another column": (located(by_place(4)), located(by_place(4, "k2"))),
    "another number": (located(by_place(4)), located(by_place(8))),
    "by ranges": (located(by_place(4)), located(lambda rows: rows.repartitionByRange(4, "k"))),
    "by numbers": (located(by_number("a")), located(by_number("b"))),
    "all in one": (located(still), located(lambda rows: rows.coalesce(1))),
    "moved at all": (located(still), located(by_place(4))),
    "a filter between": (
        located(lambda rows: rows.repartition(4, "k").where("a > 1")),
        located(lambda rows: rows.repartition(4, "k2").where("a > 1")),
    ),
    "the file of a row that was moved": (located(still, FILE), located(by_place(4), FILE)),
    "a function of partitions": (whole(by_number("a")), whole(by_number("b"))),
    "a function of partitions, by number": (whole(by_number("a")), whole(by_number("a", 5))),
    "a function of partitions in Arrow": (whole(by_place(4), True), whole(by_place(4, "k2"), True)),
    "a function that sees one row after the other": (iterated(by_place(4)), iterated(by_place(4, "k2"))),
    "a column beside an explode in a union": (exploded_in_union("k2"), exploded_in_union("k")),
    "two streams in another order": (two_streams("in", "other"), two_streams("other", "in")),
    "a hint to a join": (hinted(""), hinted("shuffle_hash")),
    "rows of a table": (looked_for(by_place(4)), looked_for(by_place(4, "label"))),
    "two tables in another order": (two_tables("table", "labels"), two_tables("labels", "table")),
    "two tables, and the place of a row": (
        two_tables("table", "labels", lambda table: table.withColumn("n", F.expr("spark_partition_id()"))),
        two_tables("labels", "table", lambda table: table.withColumn("n", F.expr("spark_partition_id()"))),
    ),
}
SAME |= {
    "nobody looks at partitions": (located(still, "k"), located(by_place(4), "k")),
    "nobody looks at a table's partitions": (
        two_tables("table", "labels", lambda table: table.repartition(4)),
        two_tables("labels", "table", still),
    ),
    "two tables that are counted": (
        two_tables("table", "labels", lambda table: table.groupBy("k", "label").count()),
        two_tables("labels", "table", lambda table: table.groupBy("k", "label").count()),
    ),
    "two streams in any order": (two_streams("in", "other", key="k"), two_streams("other", "in", key="k")),
    "two streams that are moved": (two_streams("in", "other"), two_streams("in", "other")),
    "a filter above or below": (
        located(lambda rows: rows.repartition(4, "k").where("a > 1")),
        located(lambda rows: rows.where("a > 1").repartition(4, "k")),
    ),
}


def in_window(key: str, size: str = "1 day"):
    def build(g):
        rows = g.read(ROWS).select(F.window("ts", size).alias("w"), "*")
        return stage("t", rows.groupBy(F.expr(key).alias("key")).count())

    return build


OWN_WINDOWS = {
    "another start": (in_window("struct(k as start, w.end as end)"), in_window("struct(k2 as start, w.end as end)")),
    "another unit": (
        in_window("struct(1 as start, unix_seconds(w.end) as end)"),
        in_window("struct(1 as start, unix_millis(w.end) as end)"),
    ),
    "another day": (
        in_window("struct(date(ts) as start, to_date(w.end) as end)"),
        in_window("struct(to_date(v) as start, to_date(w.end) as end)"),
    ),
    "the same start": (
        in_window("struct(timestamp'2026-01-01' as start, w.end as end)", "1 hour"),
        in_window("struct(timestamp'2026-01-01' as start, w.end as end)", "2 hours"),
    ),
    "turned": (in_window("w"), in_window("struct(w.end as start, w.start as end)")),
    "moved": (in_window("w"), in_window("struct(w.start as start, w.end + interval 1 hour as end)")),
}
SAME |= {"a window under another name": (in_window("w"), in_window("window(ts, '1 day')"))}


def joined(condition: str, how: str = "left", left=lambda rows: rows, right=lambda rows: rows):
    """Two streams with a column each of a constant list."""

    def build(g):
        sides = []
        for name, made in (("in", left), ("other", right)):
            rows = source(name, g.read(ROWS, name)).withWatermark("ts", "10 minutes").select("k", "ts")
            sides.append(made(rows.select("*", F.explode(F.expr("array(1, 2)")).alias("h"))))
        times = "r.ts >= l.ts and r.ts <= l.ts + interval 1 hour"
        found = sides[0].alias("l").join(sides[1].alias("r"), F.expr(f"l.k = r.k and {condition} and {times}"), how)
        return stage("t", found.select("l.k", F.col("l.h").alias("x"), F.col("r.h").alias("y")))

    return appended(build)


def crossed(rows):
    return rows.crossJoin(rows.sparkSession.range(3).withColumnRenamed("id", "h2"))


SIDES = {
    "smaller than the other": (joined("l.h < r.h"), joined("r.h < l.h")),
    "smaller by one": (joined("l.h + 1 > r.h"), joined("r.h + 1 > l.h")),
    "of a table": (
        joined("l.h2 < r.h2", left=crossed, right=crossed),
        joined("r.h2 < l.h2", left=crossed, right=crossed),
    ),
    "rows made on the other side": (
        joined("l.h <= r.h", "inner", left=lambda rows: rows.select("*", F.expr("explode(array(7, 8)) as z"))),
        joined("l.h <= r.h", "inner", right=lambda rows: rows.select("*", F.expr("explode(array(7, 8)) as z"))),
    ),
}
SAME |= {"turned as a whole": (joined("l.h < r.h"), joined("r.h > l.h"))}


def catalogued(made: str):
    """A table of the catalog."""

    def build(g):
        g.spark.sql("drop table if exists dim")
        g.spark.sql(
            f"create table dim (k string, label string) using {made.format(g.input('table'), g.input('labels'))}"
        )
        return stage("t", g.read(ROWS).join(g.spark.table("dim"), "k").groupBy("label").count())

    return build


TABLES = {
    "at another location": (catalogued("json location '{}'"), catalogued("json location '{1}'")),
    "csv at another location": (catalogued("csv location '{}'"), catalogued("csv location '{1}'")),
}


def transposed(*row: str):
    def build(g):
        table = g.spark.createDataFrame([row], "idx string, c1 string, c2 string").transpose("idx")
        return stage("t", g.read(ROWS).join(table.toDF("k", "label"), "k").groupBy("label").count())

    return build


GIVEN = {"transposed": (transposed("x", "a", "b"), transposed("x", "a", "c"))}


def looked_up(join):
    """In a table."""
    return lambda g: stage("t", join(g.read(ROWS), g.table()).groupBy("label").count())


def with_all(rows, table):
    return rows.crossJoin(table.select("label"))


LOOKUPS = {
    "all rows or a match": (looked_up(with_all), looked_up(lambda r, t: r.join(t, F.expr("v = label")))),
    "all rows or none": (looked_up(with_all), looked_up(lambda r, t: r.join(t.select("label"), F.lit(True), "left"))),
    "turned and inner": (
        looked_up(lambda r, t: t.join(r, "k", "right")),
        looked_up(lambda r, t: r.join(t, "k", "inner")),
    ),
}
SAME |= {
    "a cross join": (looked_up(with_all), looked_up(lambda r, t: r.join(t.select("label")))),
    "a left join turned": (
        looked_up(lambda r, t: r.join(t, "k", "left")),
        looked_up(lambda r, t: t.join(r, "k", "right")),
    ),
}

CHOICES = {
    "of another one": (by("k = 'a' or k2 = 'b'"), by("k in ('a', 'b')")),
    "another value": (by("k = 'a' or k = 'b'"), by("k in ('a', 'c')")),
    "one more": (by("k = 'a' or k = 'b'"), by("k = 'a' or k = 'b' or k = 'c'")),
    "not": (by("k = 'a' or k = 'b'"), by("k not in ('a', 'b')")),
    "null is one": (by("k = 'a' or k = 'b'"), by("k <=> 'a' or k <=> 'b'")),
    "both": (by("k = 'a' or a = 2"), by("k = 'a' and a = 2")),
}
SAME |= {
    "or of one column": (by("k = 'a' or k = 'b'"), by("k in ('b', 'a')")),
    "or of one column and another": (by("k = 'a' or a > 1 or 'b' = k"), by("a > 1 or k in ('a', 'b')")),
    "or of numbers": (by("a = 1 or a in (3, 2)"), by("a in (1, 2) or a = 3")),
}

UNITS = {
    "another one": (by("date_trunc('hour', ts)"), by("date_trunc('DAY', ts)")),
    "another day": (by("next_day(date(ts), 'mon')"), by("next_day(date(ts), 'TUE')")),
    "of a column": (by("date_trunc(k, ts)"), by("date_trunc(k2, ts)")),
    "a text": (by("concat(k, 'hour')"), by("concat(k, 'HOUR')")),
}
SAME |= {
    "a unit in capitals": (by("date_trunc('hour', ts)"), by("date_trunc('HOUR', ts)")),
    "a unit of a date": (by("trunc(date(ts), 'month')"), by("trunc(date(ts), 'Month')")),
    "a day in capitals": (by("next_day(date(ts), 'mon')"), by("next_day(date(ts), 'MON')")),
}

GROUPS = (
    VALUES,
    ROWS_BY_PLACE,
    {f"rows made {name}": pair for name, pair in MADE.items()},
    NAMES,
    BUFFERS,
    PARTITIONS,
    {f"a window of one's own: {name}": pair for name, pair in OWN_WINDOWS.items()},
    {f"two sides: {name}": pair for name, pair in SIDES.items()},
    {f"a table: {name}": pair for name, pair in TABLES.items()},
    {f"given rows: {name}": pair for name, pair in GIVEN.items()},
    {f"a lookup: {name}": pair for name, pair in LOOKUPS.items()},
    {f"a choice: {name}": pair for name, pair in CHOICES.items()},
    {f"a unit: {name}": pair for name, pair in UNITS.items()},
)
PAIRS = {name: pair for group in GROUPS for name, pair in group.items()}


@pytest.mark.parametrize("name", [case for group in GROUPS for case in one_is_fast(group)])
def test_they_are_told_apart_and_each_is_itself(ground, name) -> None:
    old, new = PAIRS[name]
    before, after = planned(ground, old), planned(ground, new)
    assert verdict(before, after) != "carried"
    assert verdict(before, planned(ground, old)) == verdict(after, planned(ground, new)) == "carried"


@pytest.mark.parametrize("name", one_is_fast(SAME, 10))
def test_the_same_is_carried(ground, name) -> None:
    old, new = SAME[name]
    assert verdict(planned(ground, old), planned(ground, new)) == "carried"


def of_groups(*keys: str):
    """A stage above another one that has these keys."""

    def build(g):
        rows = g.read(ROWS).withWatermark("ts", "1 minute").groupBy(F.window("ts", "1 minute"), *keys)
        rows = stage("u", rows.agg(F.sum("a").alias("x")))
        return stage("t", rows.groupBy(F.window(F.window_time("window"), "1 hour").alias("w")).agg(F.count("x")))

    return appended(build)


def test_a_stage_above_groups_that_change_is_agreed_to(ground) -> None:
    """The one below is migrated: it drops a key and merges its groups."""
    before, after = planned(ground, of_groups("k", "k2")), planned(ground, of_groups("k"))
    [item] = [i for i in compare(before, after, "test").items if i.name.endswith("t")]
    assert item.needs_agreement and "stage.upstream" in item.rules
    assert verdict(before, planned(ground, of_groups("k", "k2"))) == "carried"


def test_another_number_of_partitions_that_are_looked_at_is_agreed_to(ground) -> None:
    seen, unseen = located(lambda rows: rows.repartition("k")), located(lambda rows: rows.repartition("k"), "k")
    before = [planned(ground, build) for build in (seen, unseen)]
    ground.spark.conf.set("spark.sql.shuffle.partitions", "5")
    after = [planned(ground, build) for build in (seen, unseen)]
    found = [verdict(*pair) for pair in zip(before, after, strict=True)]
    assert found == ["asked", "migrated"]
