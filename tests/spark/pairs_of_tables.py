"""Tables: which rows of which one are looked up, and by what."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from pairs import Ground, Version, count, counts, data_source, looked_up, per_key, values
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DIFFER: dict[str, dict[str, tuple]] = {}
SAME: dict[str, tuple] = {}


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


def transposed(*row: str) -> Version:
    def build(g: Ground) -> DataFrame:
        made = g.spark.createDataFrame([row], "idx string, c1 string, c2 string").transpose("idx")
        return count(g.read().join(made.toDF("k", "label"), "k"), "label")

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
    "a filter": tuple(looked_up(f"(select * from tabl where weight > {n})") for n in (1, 2)),
    "options": (table(form="csv", sep=";"), table(form="csv", sep=",")),
    "a type": (table("weight"), table("weight", schema="k string, label string, weight bigint")),
    "a group": tuple(looked_up(f"(select k, {f}(label) label from tabl group by k)") for f in ("max", "min")),
    "rows without a match": (looked_up(), looked_up(how="left join")),
    "rows of the code": (given([("x", "one")], K_LABEL), given([("x", "two")], K_LABEL)),
    "by which column": tuple(counts("label", f"rws join tabl on rws.{c} = tabl.k") for c in ("k", "k2")),
    "which of two lookups": tuple(f"select one.label, sum({w}.weight) s from {TWO_LOOKUPS} group by 1"
        for w in ("one", "two")),
    "which of a table's generators": (exploded_table("x > 'f'"), exploded_table("y > 'f'")),
    "one of three": (three("w.weight"), three("u.weight")),
    "one of two uses": tuple(counts("label", f"{KNOWN} join tabl on s.{key} = tabl.k") for key in ("k", "k2")),
    "a side of a table": tuple(looked_up(f"(select v.k, {x}.label x from {LESS})", "x") for x in "vw"),
    "a branch of tables": tuple(looked_up(PART.format(*names), "f") for names in ("pq", "qp")),
    "between": (BETWEEN.format("rws", "a"), BETWEEN.format("rws", "b")),
    "what is cached": tuple(table("x", lambda t, f=f: t.groupBy("k").agg(F.expr(f"{f}(weight) x")).cache())
        for f in ("max", "min")),
    "rows of pandas": (frame("k", "label"), frame("label", "k")),
    "rows of VALUES": (values("('a', 'b'), ('b', 'c')"), values("('a', 'b'), ('b', 'c')", columns="label, k")),
    "rows of a data source in Python": (given_by_python("b", K_LABEL), given_by_python("b", LABEL_K)),
    "rows of csv": (table(form="csv", schema=K_LABEL), table(form="csv", schema=LABEL_K)),
    "rows of orc by place": tuple(table(form="orc", schema=s, **BY_PLACE) for s in (K_LABEL, LABEL_K)),
    "transposed": (transposed("x", "a", "b"), transposed("x", "a", "c")),
    "all rows or a match": tuple(counts("label", f"rws {join}")
        for join in ("cross join tabl", "join tabl on v = label")),
    "a product": (per_key("count(*)"), per_key("count(*)", "rws cross join range(2)")),
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
}  # fmt: skip

# What IN and EXISTS are as a value or below an OR (an ExistenceJoin)
WITHIN = {
    "in, as a value": counts("k in (select k from {t}) x", "rws"),
    "exists, as a value": counts("case when exists(select 1 from {t} where {t}.k = rws.k) then 1 else 0 end x", "rws"),
    "in, below an or": counts("k", "rws where k in (select k from {t}) or a > 3"),
}
DIFFER["within"] = {name: (text.format(t="tabl"), text.format(t="labl")) for name, text in WITHIN.items()}
