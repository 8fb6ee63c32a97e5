"""What is read of a struct, a list or a map: fields may be added beside that, and nothing else may change."""

from __future__ import annotations

import pytest
from bench import Bench, stage
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import AppPlan
from tests.cases import one_is_fast

SCHEMA = (
    "k string, s struct<x: int, y: string>, l array<struct<n: string, q: int>>, "
    "m map<string, struct<n: string, q: int>>, d array<struct<w: int, i: array<struct<v: int>>>>"
)
ADDED = SCHEMA
for old, new in (
    ("x: int, y: string", "z: int, x: int, y: string"),
    ("n: string, q: int", "n: string, u: struct<q: int>, q: int, z: string"),
    ("w: int", "z: int, w: int"),
    ("v: int", "v: int, z: string"),
):
    ADDED = ADDED.replace(old, new)

# Each with what it is changed to, which is another meaning, and a type of what it reads that is another one.
READ = {
    "exists(l, e -> e.q > 1)": ("exists(l, e -> e.q > 2)", "q: int", "q: bigint"),
    "forall(l, e -> e.q > 1)": ("exists(l, e -> e.q > 1)", "q: int", "q: bigint"),
    "transform(l, e -> e.n)": ("transform(l, (e, i) -> concat(e.n, i))", "n: string", "n: int"),
    "transform(l, (e, i) -> e.q + i)": ("transform(l, (e, i) -> e.q - i)", "q: int", "q: bigint"),
    "aggregate(l, 0, (t, e) -> t + e.q)": ("aggregate(l, 1, (t, e) -> t + e.q)", "q: int", "q: tinyint"),
    "aggregate(l, 0, (t, e) -> t + e.q, t -> t * 2)": (
        "aggregate(l, 0, (t, e) -> t + e.q, t -> t * 3)",
        "q: int",
        "q: tinyint",
    ),
    "exists(l, e -> exists(l, f -> e.q > f.q + 1))": (
        "exists(l, e -> exists(l, f -> f.q > e.q + 1))",
        "q: int",
        "q: long",
    ),
    "exists(d, e -> exists(e.i, f -> f.v > e.w))": (
        "exists(d, e -> exists(e.i, f -> f.v < e.w))",
        "v: int",
        "v: bigint",
    ),
    "transform(d, e -> size(e.i))": ("transform(d, e -> e.w)", "i: array<struct<v: int>>", "i: map<string, int>"),
    "size(l)": ("size(m)", "l array<struct<n: string, q: int>>", "l array<int>"),
    "size(m)": ("size(l)", "m map<string, struct<n: string, q: int>>", "m map<string, string>"),
    "l is null": ("l is not null", "l array<struct<n: string, q: int>>", "l array<string>"),
    "s is null": ("l is null", "s struct<x: int, y: string>", "s array<int>"),
    "s is not null": ("s.x is not null", "s struct<x: int, y: string>", "s array<int>"),
    "l[0].n": ("l[1].n", "n: string", "n: int"),
    "get(l, 0).n": ("l[0].n", "n: string", "n: int"),
    "element_at(l, 1).q": ("element_at(l, 2).q", "q: int", "q: string"),
    "try_element_at(l, 1).q": ("element_at(l, 1).q", "q: int", "q: string"),
    "m['a: b'].n": ("m['a: c'].n", "n: string", "n: int"),
    "element_at(m, 'a').q": ("element_at(m, 'b').q", "q: int", "q: string"),
    "d[0].i[1].v": ("d[1].i[0].v", "v: int", "v: string"),
    "exists(d[0].i, e -> e.v > 0)": ("exists(d[1].i, e -> e.v > 0)", "v: int", "v: bigint"),
}
# What is in the list's elements is read whole, or comes out again.
WHOLE = (
    "filter(l, e -> e.q > 1)",
    "transform(l, e -> e)",
    "transform(l, e -> to_json(e))",
    "exists(l, e -> e in (l[0], l[1]))",
    "array_sort(l)",
    "array_sort(l, (e, f) -> e.q - f.q)",
    "l[0]",
    "exists(l, e -> e.q > 1) and size(array_union(l, l)) > 1",
)


def grouped(key: str, schema: str = SCHEMA):
    def build(bench: Bench):
        reader = bench.spark.read if bench.at_rest else bench.spark.readStream
        rows = reader.schema(schema).json(str(bench.input()))
        return stage("counts", rows.groupBy(F.expr(key).alias("key")).count())

    return build


def plan(bench: Bench, key: str, schema: str = SCHEMA) -> AppPlan:
    made: AppPlan = bench.plan(grouped(key, schema))[0]
    return made


def compatible(old: AppPlan, new: AppPlan) -> bool:
    return compare(old, new, "test").compatible


@pytest.mark.parametrize("key", one_is_fast(READ, 5))
def test_fields_may_be_added_beside_what_is_read_and_nothing_else_may_change(bench: Bench, key: str) -> None:
    other, kind, changed = READ[key]
    assert kind in SCHEMA
    saved = plan(bench, key)
    assert compatible(saved, plan(bench, key))
    assert compatible(saved, plan(bench, key, ADDED))
    assert not compatible(saved, plan(bench, other))
    assert not compatible(saved, plan(bench, key, SCHEMA.replace(kind, changed)))


@pytest.mark.parametrize("key", one_is_fast(WHOLE, 3))
def test_what_is_read_whole_counts_whole(bench: Bench, key: str) -> None:
    saved = plan(bench, key)
    assert compatible(saved, plan(bench, key))
    assert not compatible(saved, plan(bench, key, SCHEMA.replace("q: int>>, m", "q: int, z: string>>, m")))


def test_rows_go_to_the_key_that_a_batch_gives_them(bench: Bench) -> None:
    """Saved with the old fields, continued with the new ones: as one batch over all input says."""
    key = "concat(exists(l, e -> e.q > 1), size(l), l[0].n, s is null, d[0].i[0].v)"
    line = {"l": [{"n": "a", "q": 2, "z": "u"}], "d": [{"w": 1, "i": [{"v": 1, "z": "x"}]}], "s": {"x": 1, "z": 5}}
    bench.write([line, {**line, "s": None}])
    saved = bench.run(grouped(key))
    bench.write([line, {**line, "l": [{"z": "u", "n": "b"}]}])
    new = grouped(key, ADDED)
    assert not [item for item in bench.check(saved, new).items if item.blocks]
    bench.run(new, snapshot=saved)
    assert {k[0]: row["count"] for k, row in bench.last("key").items()} == {
        row["key"]: row["count"] for row in bench.batch(new)
    }
