"""An added aggregate begins with no rows, whatever else is migrated: every aggregate of Spark's registry,
against a batch over the rows that came after the update. That is a loss, which is agreed to; unless the state knows
what the aggregate needs (an average's sum and count): then it is computed, against a batch over all rows.

Where groups are merged as well (a key is dropped), a buffer that is made for each old group must not be added up: three
groups gave a product that began at 3, and no query at all for a buffer that is no number (found by make fuzz).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
from bench import Bench, feed, row, stage
from pyspark.sql import functions as F

from tests.cases import one_is_fast
from tests.sweep.corpus import registry

AT_ONCE = 25
# Arguments to try, the first that Spark takes; of these columns and of those of the input.
COLUMNS = {"d": "a / 4.0D", "flag": "a % 2 = 0", "list": "array(a)", "bytes": "encode(k2, 'utf-8')"}
COLUMNS["f"] = "cast(a AS float)"
FORMS = ("a", "d", "flag", "k2", "list", "bytes", "a, b", "d, a", "k2, a", "d, 0.25D", "a, 2", "k2, 3",
         "a, 0.1D, 0.9D, 7", "a, 5, 0.5D, 1", "f", "cast(a AS int), 10", "a, true")  # fmt: skip
# Each form of buffer: numbers, a struct, a flag, bytes; and one that begins with 1, which has a method only.
SOME = {
    **{name: f"{name}(a)" for name in ("avg", "bit_and", "collect_list", "mode")},
    "max_by": "max_by(a, b)",
    "any": "any(flag)",
    "product": "",
}
FIRST = [row("x", 1, 1, k2="p"), row("x", 2, 2, k2="q"), row("x", 3, 3, k2="r"), row("y", 4, 4, k2="p")]
THEN = [[row("x", 5, 1, k2="q"), row("y", 7, 2, k2="p")], [row("x", 8, 3, k2="p"), row("z", 9, 4, k2="r")]]


def _rows(bench: Bench):
    return bench.source().selectExpr("*", *(f"{text} AS {name}" for name, text in COLUMNS.items()))


@functools.cache
def calls(spark) -> dict[str, str]:
    """A call of each aggregate: to try all of them takes a minute."""
    frame = spark.sql("SELECT 'x' k, 'x' k2, 1L a, 1L b, now() ts")
    frame = frame.selectExpr("*", *(f"{text} AS {name}" for name, text in COLUMNS.items()))
    found = {"product": ""}
    all_names = [f.name for f in registry(spark) if f.group == "agg_funcs" and "kll" not in f.name]
    for name in all_names:
        for form in FORMS:
            try:
                frame.groupBy("k").agg(F.expr(f"{name}({form})")).collect()
            except Exception:  # Spark does not take it so
                continue
            found[name] = f"{name}({form})"
            break
    assert len(found) > 60
    return found


@pytest.mark.parametrize("dropped", one_is_fast([True, False]), ids=["added-and-a-key-dropped", "added"])
@pytest.mark.parametrize("part", ["some", *(pytest.param(n, marks=pytest.mark.slow) for n in range(3))])
def test_it_knows_the_rows_from_now_on_and_no_others(bench: Bench, spark, tmp_path, part, dropped) -> None:
    aggregates = SOME if part == "some" else calls(spark)
    names = list(aggregates) if part == "some" else list(aggregates)[part * AT_ONCE : (part + 1) * AT_ONCE]

    def made(of: list[str]) -> list:
        return [(F.product("d") if n == "product" else F.expr(aggregates[n])).alias(f"x_{n}") for n in of]

    def version(keys: tuple[str, ...], of: list[str]):
        return lambda bench: stage("totals", _rows(bench).groupBy(*keys).agg(F.count("a").alias("n"), *made(of)))

    def known(of: list[str]) -> list[str]:
        """Those of which it is known what they begin with (others are refused), and that a stream can have."""
        try:
            buffers = bench.plan(version(("k",), of))[0].queries[0].stages[0].buffers[1:]
        except Exception:
            buffers = ()
        if len(buffers) == len(of):  # some are the same by another name
            return [n for n, buffer in zip(of, buffers, strict=True) if buffer.initial]
        return [n for name in of for n in known([name])] if len(of) > 1 else []

    names = known(list(names))
    assert len(names) > 5
    bench.write(FIRST)
    snapshot = bench.run(version(("k", "k2") if dropped else ("k",), []))
    feed(bench, THEN)
    bench.emitted.clear()
    bench.run(version(("k",), names), snapshot=snapshot, agree=("q/totals",))
    found = bench.last("k")
    assert {key: r["n"] for key, r in found.items()} == {("x",): 5, ("y",): 2, ("z",): 1}
    later = Bench(spark, tmp_path / "later")
    later.folder.mkdir()
    feed(later, THEN)
    ordered = lambda b: _rows(b).coalesce(1).sortWithinPartitions("b")  # noqa: E731
    wanted = later.batch(lambda b: ordered(b).groupBy("k").agg(*made(names)))
    assert len(wanted) == 3
    differing = [
        (r["k"], column, found[(r["k"],)][column], value)
        for r in wanted
        for column, value in r.items()
        if repr(found[(r["k"],)][column]) != repr(value)
    ]
    assert not differing


KNOWN = "k string, k2 string, i int, a long, f float, d double, x decimal(12,2), y decimal(12,2)"
# Nulls, a group that has no value, values that no double holds, and sums that come out only in this order.
BEFORE = [
    {"k": "p", "k2": "u", "i": 1, "a": 2**53 + 1, "f": 0.1, "d": 0.1, "x": "1000000000.01", "y": "0.05"},
    {"k": "p", "k2": "v", "i": None, "a": None, "f": None, "d": None, "x": None, "y": None},
    {"k": "p", "k2": "u", "i": 3, "a": 4, "f": 0.7, "d": 1e16, "x": "0.02", "y": "-1.25"},
    {"k": "q", "k2": "u", "i": None, "a": None, "f": None, "d": None, "x": None, "y": None},
]
AFTER = [[{**row, "k": k} for row in BEFORE[:2]] for k in ("p", "r")]
SHARED = ("d", "x", "f")
STEPS = {
    "averages": (
        [f"{name}({c})" for c in (*SHARED, "i") for name in ("sum", "count")], [f"avg({c})" for c in (*SHARED, "i")]),
    "sums and counts": (
        [f"avg({c})" for c in (*SHARED, "i")],
        [*(f"sum({c})" for c in SHARED), *(f"count({c})" for c in (*SHARED, "i"))]),
    "moments": (
        ["kurtosis(d)", "stddev(f)", "covar_pop(d, f)"],
        ["skewness(d)", "var_pop(d)", "stddev(d)", "variance(f)", "std(f)", "covar_samp(d, f)"]),
}  # fmt: skip


def totals_by(*keys: str, of: list[str], rows: Callable = lambda bench: bench.source(KNOWN)) -> Callable:
    made = [F.expr(text).alias(f"c{i}") for i, text in enumerate(of)]
    return lambda bench: stage("totals", rows(bench).groupBy(*map(F.expr, keys)).agg(*made))


def about(value):
    """A value, of doubles up to the order in which they were added up."""
    return pytest.approx(value, rel=1e-12) if isinstance(value, float) else value


@pytest.mark.parametrize("dropped", one_is_fast([False, True]), ids=["added", "added-and-a-key-dropped"])
@pytest.mark.parametrize("name", STEPS)
def test_what_the_state_knows_is_computed_and_nothing_is_asked(bench: Bench, name: str, dropped: bool) -> None:
    """An average added to its sum and its count was of the rows after the update only."""
    kept, added = STEPS[name]
    if dropped and name == "moments":
        pytest.skip("moments of two groups cannot be put together")
    bench.write(BEFORE)
    snapshot = bench.run(totals_by(*(("k", "k2") if dropped else ("k",)), of=kept))
    bench.emitted.clear()
    new = totals_by("k", of=[*added, *kept])
    item = bench.item(snapshot, new)
    assert (item.verdict, item.needs_agreement) == ("migrated", False), item.reason
    feed(bench, AFTER)
    bench.run(new, snapshot=snapshot)
    wanted = {(r["k"],): r for r in bench.batch(new) if r["k"] != "q"}
    found = bench.last("k")
    assert found.keys() == wanted.keys()
    for key, expected in wanted.items():
        for column, value in expected.items():
            assert found[key][column] == about(value), (key, column)


def test_a_group_without_values_stays_without(bench: Bench) -> None:
    """A sum made of an average is null there, not zero."""
    bench.write(BEFORE)
    snapshot = bench.run(totals_by("k", of=["avg(d)", "avg(x)"]))
    bench.write([BEFORE[3]])
    new = totals_by("k", of=["sum(d)", "sum(x)", "count(d)", "avg(d)", "avg(x)"])
    bench.run(new, snapshot=snapshot)
    [row] = bench.emitted[max(b for b in bench.emitted if bench.emitted[b])]
    assert list(row.values()) == ["q", None, None, 0, None, None]


AT = [("p", 1, 2.5), ("p", 3, None), ("q", 4, None), ("p", 12, 1e16), ("q", 40, 0.1), ("p", 41, 0.7), ("q", 90, 1.0),
      ("z", 91, 0.2), ("z", 300, 0.3), ("z", 301, 0.3)]  # fmt: skip
TABLE = [("p", 0.1), ("q", None)]


def timed(bench: Bench, name: str = "in"):
    rows = bench.source("k string, d double, ts timestamp", name)
    return rows if bench.at_rest else rows.withWatermark("ts", "10 minutes")


def looked_up(bench: Bench):
    table = bench.spark.createDataFrame(TABLE, "k string, w double")
    return timed(bench).join(table, "k", "left").withColumn("d", F.col("w"))


def joined(bench: Bench):
    right = timed(bench, "other").select(F.col("k").alias("j"), F.col("ts").alias("at"))
    pairs = timed(bench).join(right, F.expr("k = j and at >= ts and at <= ts + interval 2 minutes"))
    return stage("pairs", pairs)


# The rows below the stage, its keys and its mode.
SHAPES = {
    "one group": (timed, [], "update"),
    "sliding windows": (timed, ["window(ts, '10 minutes', '5 minutes')", "k"], "append"),
    "a table's column": (looked_up, ["k"], "update"),
    "pairs of two streams": (joined, ["window(ts, '10 minutes')", "k"], "append"),
}


@pytest.mark.parametrize("name", one_is_fast(SHAPES))
def test_it_is_computed_in_stages_of_every_shape(bench: Bench, name: str) -> None:
    """Also of values that a filter lets through, and in the other order."""
    rows, keys, mode = SHAPES[name]
    some = " FILTER (WHERE d < 2)"
    kept = ["sum(d)", "count(*)", "count(d)", f"sum(d){some}", f"count(d){some}"]
    now = [f"avg(d){some}", f"count(d){some}", f"sum(d){some}", "count(*)", "count(d)", "avg(d)", "sum(d)"]
    old, new = (totals_by(*keys, of=of, rows=rows) for of in (kept, now))
    half = len(AT) // 2
    for part in (AT[:half], AT[half:-1], AT[-1:]):
        for to in ("in", "other") if "pairs" in name else ("in",):
            bench.write([{"k": k, "d": d, "ts": row(k, 0, minute=m)["ts"]} for k, m, d in part], to)
        if part == AT[:half]:
            snapshot = bench.run(old, mode)
            bench.emitted.clear()
    [item] = [i for i in bench.check(snapshot, new, mode).items if i.name == "q/totals"]
    assert (item.verdict, item.needs_agreement) == ("migrated", False), item.reason
    bench.run(new, mode, snapshot=snapshot)
    columns = [c for c in ("window", "k") if any(c in key for key in keys)]
    found, wanted = ({str([r[c] for c in columns]): r for r in rows} for rows in (bench.all(), bench.batch(new)))
    assert found.keys() & {str([r[c] for c in columns]) for r in bench.batch(old)}, "groups from before the update"
    for key, each in found.items():
        assert each == {column: about(value) for column, value in wanted[key].items()}
