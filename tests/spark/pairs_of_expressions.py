"""Expressions: what Spark's JSON leaves out, what its optimizer makes of them, and their types."""

from __future__ import annotations

from pairs import (
    CI,
    NAMES,
    OTHERS,
    TURNED,
    TWELVE,
    Ground,
    Version,
    count,
    counts,
    once,
    per_key,
    retyped,
    retyped_pair,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DIFFER: dict[str, dict[str, tuple]] = {}
SAME: dict[str, tuple] = {}


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
DIFFER["expressions"] = {
    "a session's gap": (SESSIONS.format("a"), SESSIONS.format("b"), "append"),
    "an in-set in a key": (f"k2 in ({TWELVE})", f"k2 in ({OTHERS})"),
    "like any": tuple(per_key(f"sum(if(k2 like any ({', '.join(repr(f'%{n}_{x}') for n in NAMES)}), a, 0))")
        for x in "xy"),
    "an escape": ("k2 like 'a/_b' escape '/'", "k2 like 'a/_b' escape '!'"),
    "options of JSON": tuple(f"from_json(k2, 'x int', map('mode', '{mode}')).x" for mode in ("FAILFAST", "PERMISSIVE")),
    "options of a CSV text": ("to_csv(user, map('sep', ';'))", "to_csv(user, map('sep', ','))"),
    "bytes": ("bin = X'01'", "bin = X'02'"),
    "a lambda's variables": ("transform(nums, (x, i) -> x - i)", "transform(nums, (x, i) -> i - x)"),
    "a built struct": (per_key("max(struct(a, b))"), per_key("max(struct(b, a))")),
    "a moment": tuple(f"ts < timestamp'2026-01-01 00:00:0{n}+00:00'" for n in "01"),
    "a Python function's type": (python("int"), python("string")),
    "a Python function's keyword": (python("int"), python("int", "y")),
    "a Python function's code": (shortened(1), shortened(2)),
    "operands of which one may raise": ("a is null or cast(k as int) > 1", "cast(k as int) > 1 or a is null"),
    "operands of which one may divide by zero": ("a is null or a % b = 1", "a % b = 1 or a is null"),
    "a sliding window or a session": (SLIDING, SESSIONS.format("a"), "append"),
    "a subquery's rows": tuple(counts(f"a + (select max(id) from range({n})) m", "rws") for n in "34"),
    "which of two generators": tuple(f"select x, sum({y}) s from {TWO_GENERATORS} group by x" for y in "xy"),
    "a filter of one of two": tuple(f"select {c}, sum({c}) s from {TWO_GENERATORS} where x > 6 group by {c}"
        for c in "xy"),
    "which of two random numbers": tuple(f"select r1 > 0.5 q, sum(if(r{n} > 0.5, 1, 0)) s from {TWO_DRAWS} group by 1"
        for n in "12"),
    "a generator that keeps rows": tuple(counts("n", f"(select {g}(nums) n from rws)")
        for g in ("explode", "explode_outer")),
}  # fmt: skip


LONG, COLLATED = ("a int", "a bigint"), ("country: string", f"country: string {CI}")
SIZES = per_key("sum(size(array_distinct(items.sku)))")
SKUS = [retyped("items array<string>", f"items array<struct<sku: string{c}>>", SIZES) for c in ("", f" {CI}")]
TEXTS = [("id: long, country: string", f"{x}: string, {y}: string") for x, y in (("id", "country"), ("country", "id"))]
DIFFER["types"] = {
    "a list of longs": retyped_pair(*LONG, per_key("collect_list(a)")),
    "a hash": retyped_pair(*LONG, per_key("sum(hash(a))")),
    "a text": retyped_pair("a int", "a double", per_key("max(cast(a as string))")),
    "a percentile": retyped_pair(*LONG, per_key("percentile(a, 0.5)")),
    "a collation": retyped_pair("k2 string", f"k2 string {CI}", per_key("max(k2)")),
    "digits": tuple(per_key(f"sum(cast(a as decimal({digits})))") for digits in ("12,2", "11,3")),
    "a struct's order": tuple(retyped(*each, once("", "user")) for each in TEXTS),
    "a field's collation": retyped_pair(*COLLATED, per_key("max(user.country)")),
    "a field's collation, compared": retyped_pair(*COLLATED, "user.country = lower(user.country)"),
    "a field's collation in a list": tuple(SKUS),
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

# What is read of a struct, a list or a map: fields may be added beside that, and nothing else may change.
NESTED = (
    "k string, s struct<x: int, y: string>, l array<struct<n: string, q: int>>, "
    "m map<string, struct<n: string, q: int>>, d array<struct<w: int, i: array<struct<v: int>>>>"
)
ADDED = NESTED
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
    "aggregate(l, 0, (t, e) -> t + e.q, t -> t * 2)": (
        "aggregate(l, 0, (t, e) -> t + e.q, t -> t * 3)", "q: int", "q: tinyint"),
    "exists(d, e -> exists(e.i, f -> f.v > e.w))": (
        "exists(d, e -> exists(e.i, f -> f.v < e.w))", "v: int", "v: bigint"),
    "transform(d, e -> size(e.i))": ("transform(d, e -> e.w)", "i: array<struct<v: int>>", "i: map<string, int>"),
    "size(l)": ("size(m)", "l array<struct<n: string, q: int>>", "l array<int>"),
    "l is null": ("l is not null", "l array<struct<n: string, q: int>>", "l array<string>"),
    "s is null": ("l is null", "s struct<x: int, y: string>", "s array<int>"),
    "l[0].n": ("l[1].n", "n: string", "n: int"),
    "element_at(l, 1).q": ("element_at(l, 2).q", "q: int", "q: string"),
    "m['a: b'].n": ("m['a: c'].n", "n: string", "n: int"),
    "d[0].i[1].v": ("d[1].i[0].v", "v: int", "v: string"),
}  # fmt: skip
# What is in the list's elements is read whole, or comes out again.
WHOLE = (
    "filter(l, e -> e.q > 1)",
    "transform(l, e -> e)",
    "exists(l, e -> e in (l[0], l[1]))",
    "array_sort(l, (e, f) -> e.q - f.q)",
    "l[0]",
)


def of_nested(key: str, schema: str = NESTED) -> Version:
    return lambda g: count(g.read(schema), F.expr(key).alias("key"))


DIFFER["fields"] = {
    **{f"{key}, another": (of_nested(key), of_nested(other)) for key, (other, _, _) in READ.items()},
    **{f"{key}, of another type": (of_nested(key), of_nested(key, NESTED.replace(kind, changed)))
       for key, (_, kind, changed) in READ.items()},
    **{f"{key}, whole": (of_nested(key), of_nested(key, NESTED.replace("q: int>>, m", "q: int, z: string>>, m")))
       for key in WHOLE},
}  # fmt: skip
SAME |= {f"{key}, beside fields that are added": (of_nested(key), of_nested(key, ADDED)) for key in READ}
