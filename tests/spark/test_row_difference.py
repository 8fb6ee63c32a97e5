"""Rows of two versions recorded and compared by Spark, beside plain Python on the same rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from airflow_provider_streamupdate.core.difference.comparison import NEW, OLD, Comparison
from airflow_provider_streamupdate.core.difference.request import (
    ComparisonRequest,
    ExpectedDifference,
    ExpectedDifferences,
)
from airflow_provider_streamupdate.core.difference.row_difference import CHANGED, ONLY_NEW, ONLY_OLD, RowDifference
from airflow_provider_streamupdate.core.serde import from_json, to_json
from airflow_provider_streamupdate.core.storage import Folder
from airflow_provider_streamupdate.streaming.engine import row_comparison
from airflow_provider_streamupdate.streaming.engine.row_comparison import (
    BATCH,
    Recording,
    columns_of,
    compare_recorded,
    compare_rows,
    recorder,
)
from tests.cases import one_is_fast


def recorded(frame: DataFrame) -> Recording:
    """Return rows as if they were recorded as batch 4."""
    named = frame.toDF(*(f"c{number}" for number in range(len(frame.columns)))).withColumn(BATCH, F.lit(4))
    return Recording(columns_of(frame.schema), lambda: named)


def compare(
    old: Recording,
    new: Recording,
    keys: Sequence[str] = (),
    *expected: str,
    columns: Sequence[str] = (),
    tolerance: float = 0.0,
) -> RowDifference:
    differences = [ExpectedDifference(query="q", where=where) for where in expected]
    differences += [ExpectedDifference(query="q", column=column) for column in columns]
    request = ComparisonRequest(keys={"q": tuple(keys)}, tolerance=tolerance)
    return compare_rows("q", old, new, request, ExpectedDifferences(differences=tuple(differences)))


@pytest.fixture
def comparison(tmp_path) -> Comparison:
    made = Comparison(Folder.open(str(tmp_path)))
    made.ask(ComparisonRequest(keys={"q": ("k",)}))
    made.expect([])
    return made


def record(comparison: Comparison, version: str, frame: DataFrame, batch: int = 0) -> None:
    recorder(comparison.rows(version, "q"))(frame, batch)


def compared(comparison: Comparison, spark) -> RowDifference:
    compare_recorded(spark, comparison)
    [difference] = comparison.findings().values()
    assert from_json(to_json(difference), RowDifference, "here") == difference
    return difference


def numbers(difference: RowDifference) -> dict[str, int]:
    names = ("equal", "changed", "only_old", "only_new", "expected")
    return {name: number for name in names if (number := getattr(difference, name))}


# against plain Python

KINDS: dict[str, dict[str, Any]] = {  # by type: values in SQL, and as Python should compare them
    "int": {"0": 0, "1": 1, "2": 2, "-7": -7},
    "bigint": {"0": 0, "1": 1, "1152921504606846976L": 2**60},
    "boolean": {"true": True, "false": False},
    "string": {"''": "", "'a'": "a", "'A'": "A", "'b '": "b ", "'ß'": "ß"},
    "double": {"0D": 0, "-0D": 0, "'NaN'": "nan", "1.5D": 1.5, "'Infinity'": "inf", "0.1D": 0.1},
    "float": {"0F": 0, "-0F": 0, "'NaN'": "nan", "1.5F": 1.5},
    "decimal(10,2)": {"1.50": "1.5", "-0.01": "-0.01", "0.00": "0"},
    "date": {"date'2020-02-29'": 1, "date'0001-01-01'": 2},
    "timestamp": {"timestamp_micros(4)": 4, "timestamp_micros(5)": 5},
    "timestamp_ntz": {"timestamp_ntz'2020-02-29 01:02:03.000004'": 4, "timestamp_ntz'1971-01-01'": 5},
    "binary": {"X''": "", "X'00'": "00", "X'FFFE'": "FFFE"},
    "array<int>": {"array()": (), "array(1)": (1,), "array(1, NULL)": (1, None), "array(NULL, 1)": (None, 1)},
    "array<double>": {"array(0D)": (0,), "array(-0D)": (0,), "array(double('NaN'))": ("nan",), "array(NULL)": (None,)},
    "struct<a: int, b: string>": {
        "struct(1, 'x')": (1, "x"), "struct(1, NULL)": (1, None), "struct(NULL, NULL)": (None, None)},
    "struct<a: double, b: array<struct<c: float>>>": {
        "struct(0D, array(struct(float('NaN'))))": (0, (("nan",),)),
        "struct(-0D, array(struct(float('NaN'))))": (0, (("nan",),)),
        "struct(0D, array(NULL))": (0, (None,)), "struct(0D, NULL)": (0, None)},
}  # fmt: skip


def plain_row(row: tuple, kinds: list[str]) -> tuple:
    return tuple(None if value == "NULL" else KINDS[kind][value] for value, kind in zip(row, kinds, strict=True))


def oracle(batches: dict[int, tuple[list[tuple], list[tuple]]], kinds: list[str], keys: list[int]) -> dict[str, int]:
    """Return the numbers of a RowDifference: differences of multisets, in each batch for itself."""
    counts: Counter[str] = Counter()
    for old, new in batches.values():
        before, after = (Counter(plain_row(row, kinds) for row in rows) for rows in (old, new))
        gone, added = (list(rows.elements()) for rows in (before - after, after - before))
        pairs = [Counter(tuple(row[at] for at in keys) for row in rows) for rows in (gone, added)]
        changed = (pairs[0] & pairs[1]).total() if keys else 0
        counts["equal"] += (before & after).total()
        counts += Counter(changed=changed, only_old=len(gone) - changed, only_new=len(added) - changed)
    return {name: number for name, number in counts.items() if number}


def mutated(dice: random.Random, rows: list[tuple], pool: list[tuple]) -> list[tuple]:
    """Return rows of which some are gone, some come twice, some have another value in a column, some are new."""
    result = []
    for row in rows:
        chance, at = dice.random(), dice.randrange(len(row))
        changed = (*row[:at], dice.choice(pool)[at], *row[at + 1 :]) if chance < 0.3 else row
        result += [changed] * (0 if chance < 0.1 else 2 if chance > 0.9 else 1)
    result += dice.choices(pool, k=dice.randrange(3))
    return dice.sample(result, len(result))


def version(
    spark, batches: dict[int, list[tuple]], kinds: list[str], names: list[str], order: Sequence[int] | None = None
) -> Recording:
    """Return the rows of several batches, with their columns in this order."""
    order = order or range(len(kinds))
    rows = [(*row, batch) for batch, rows in batches.items() for row in rows]
    types = [*kinds, "int"]
    cast = ([f"CAST({value} AS {kind})" for value, kind in zip(row, types, strict=True)] for row in rows)
    values = [f"({', '.join(row)})" for row in cast] or [f"({', '.join(f'CAST(NULL AS {kind})' for kind in types)})"]
    columns = ", ".join(f"p{at}" for at in range(len(kinds)))
    picked_columns = ", ".join(f"p{at}" for at in order)
    sql = f"SELECT {picked_columns}, batch FROM VALUES {', '.join(values)} AS t({columns}, batch)"
    picked = spark.sql(sql if rows else f"{sql} WHERE false")
    known = columns_of(picked.drop("batch").toDF(*(names[at] for at in order)).schema)
    return Recording(known, lambda: picked.toDF(*(f"c{number}" for number in range(len(known))), BATCH))


@pytest.mark.parametrize(("seed", "turns"), one_is_fast([(0, 3), *((seed, 8) for seed in (1, 3, 4, 6))]))
def test_random_rows_differ_as_plain_python_says(spark, seed: int, turns: int) -> None:
    dice, total = random.Random(seed), Counter[str]()
    for turn in range(turns):
        kinds = dice.sample(list(KINDS), dice.randrange(2, 6))
        names = [f"c{at}.x`y" if dice.random() < 0.2 else f"C{at}" for at in range(len(kinds))]
        keys = sorted(dice.sample(range(len(kinds)), dice.randrange(len(kinds))))
        pool = [tuple(dice.choice(["NULL", *KINDS[kind]]) for kind in kinds) for _ in range(dice.choice([1, 4, 12]))]
        order = dice.sample(range(len(kinds)), len(kinds))  # of the new version's columns
        batches = {}
        for batch in dice.sample([0, 3, 10, 11], 2):
            old = dice.choices(pool, k=dice.choice([0, 1, 8, 30]))
            batches[batch] = (old, mutated(dice, old, pool) if turn % 4 != 3 else dice.sample(old, len(old)))
        before = version(spark, {batch: old for batch, (old, _) in batches.items()}, kinds, names)
        after = version(spark, {batch: new for batch, (_, new) in batches.items()}, kinds, names, order)
        difference = compare(before, after, [names[at] for at in keys])
        assert difference.not_compared is None
        assert numbers(difference) == oracle(batches, kinds, keys), (kinds, keys, batches)
        assert bool(difference.problems) == bool(difference.samples) == (difference.differ > 0)
        for sample in difference.samples:
            assert (sample.old is None, sample.new is None) == (sample.kind == ONLY_NEW, sample.kind == ONLY_OLD)
        total += Counter(numbers(difference))
    assert total["equal"] and total["changed"] and total["only_old"] and total["only_new"]


# values

VALUES = [  # of both versions, and whether they are equal
    ("double('NaN')", "double('NaN')", True),
    ("0D", "-0D", True),
    ("named_struct('a', array(0D, double('NaN')))", "named_struct('a', array(-0D, double('NaN')))", True),
    ("cast(NULL AS int)", "cast(NULL AS int)", True),
    ("1D", "1.0000000000000002D", False),
    ("cast(NULL AS string)", "''", False),
    ("'a'", "'a '", False),
    ("'a'", "'A'", False),
    ("array(1, 2)", "array(2, 1)", False),
    ("named_struct('a', cast(NULL AS int))", "cast(NULL AS struct<a: int>)", False),
    ("X'00'", "X'0000'", False),
    ("timestamp_micros(1)", "timestamp_micros(2)", False),
    ("1.10", "1.11", False),
]
NOT_COMPARABLE = {
    "map('a', 1)": "map<string,int>",
    "array(named_struct('m', map('a', 1)))": "array<struct<m:map<string,int>>>",
    "named_struct()": "struct<>",
    "named_struct('a', 1, 'A', 2)": "struct<a:int,A:int>",
    "parse_json('1')": "variant",
    "make_interval(1)": "interval",
    "interval '1' month": "interval month",
    "interval '1' day": "interval day",
    "'a' COLLATE UTF8_LCASE": "string collate UTF8_LCASE",
    "NULL": "void",
}


def test_equal_values_after_they_were_recorded(spark, comparison: Comparison) -> None:
    """Beside columns that cannot be compared, and that Parquet may not hold."""
    others = [f"{value} AS o{at}" for at, value in enumerate(NOT_COMPARABLE)]
    for version, at in ((OLD, 0), (NEW, 1)):
        values = [f"{pair[at]} AS v{number}" for number, pair in enumerate(VALUES)]
        record(comparison, version, spark.sql(f"SELECT 'k' AS k, {', '.join([*values, *others])}"))
    comparison.expect([ExpectedDifference(query="q", column=f"o{at}") for at in range(len(others))])
    difference = compared(comparison, spark)
    assert difference.not_compared is None and numbers(difference) == {"changed": 1}
    assert difference.samples[0].differ == tuple(f"v{at}" for at, (*_, same) in enumerate(VALUES) if not same)
    assert comparison.recorded("q") == []


def test_uncompared_queries_are_never_equal(spark, comparison: Comparison) -> None:
    for value, kind in NOT_COMPARABLE.items():
        rows = recorded(spark.sql(f"SELECT {value} AS v, 1 AS k"))
        difference = compare(rows, rows)
        assert numbers(difference) == {}
        assert f"v is {kind}, which cannot be compared" in str(difference.not_compared)
    for version in (OLD, NEW):
        record(comparison, version, spark.sql("SELECT map('a', 1) AS v"))
    assert "v is map" in str(compared(comparison, spark).not_compared) and comparison.recorded("q") == []


@pytest.mark.parametrize(
    ("old", "new", "options", "reason"),
    [
        ("k, v", "k", {}, "the new version's rows have no v; to compare the other columns"),
        ("k, v", "k, v AS V", {}, "the new version's rows have no v"),
        ("k, v, v", "k, v", {}, "the old version's rows have two columns named v"),
        ("k, v", "k, v, v", {}, "the new version's rows have two columns named v"),
        ("k, v", "k, bigint(v) AS v", {}, "v was int and is bigint"),
        ("k, 1.0 AS v", "k, 1.00 AS v", {}, "v was decimal(2,1) and is decimal(3,2)"),
        ("named_struct('a', 1) AS v", "named_struct('b', 1) AS v", {}, "v was struct<a:int> and is struct<b:int>"),
        ("k, v", "k, v", {"keys": ("K", "x")}, "key K, x is no compared column; these are k, v"),
        ("k, v", "k, v", {"keys": ("k",), "columns": ("k",)}, "key k is no compared column"),
        ("k, v", "k, v", {"columns": ("x",)}, "expect_difference names x; the rows have k, v"),
        ("v", "v", {"columns": ("v",)}, "no column is left to compare"),
        ("k, v", "k, v", {"where": "k ="}, "expected difference 'k =' is no condition"),
        ("k, v", "k, v, 1 AS x", {"where": "x = 1"}, "is no condition on the columns k, v"),
        ("k, v", "k, v", {"where": "v"}, "is no condition"),
        ("k, v", "k, v", {"where": "sum(v) > 1"}, "is no condition"),
        ("k, v", "k, v", {"where": "explode(array(true))"}, "is no condition"),
    ],
)
def test_what_cannot_be_compared_as_requested(spark, old: str, new: str, options: dict[str, Any], reason: str) -> None:
    both = [recorded(spark.sql(f"SELECT {columns} FROM VALUES (1, 2) AS t(k, v)")) for columns in (old, new)]
    where = [options.pop("where")] if "where" in options else []
    difference = compare(*both, options.pop("keys", ()), *where, **options)
    assert reason in str(difference.not_compared) and numbers(difference) == {}


# what differs as expected, or by little

PAIRS = "SELECT * FROM VALUES {} AS t(k, c, n)"


@pytest.mark.parametrize(
    ("keys", "expected", "result"),
    [
        (("k",), (), {"equal": 1, "changed": 2, "only_old": 1, "only_new": 1}),
        ((), (), {"equal": 1, "only_old": 3, "only_new": 3}),
        (("k",), ("c = 'XX'",), {"equal": 1, "changed": 1, "only_old": 1, "only_new": 1, "expected": 1}),
        (("k",), ("n = 1",), {"equal": 1, "changed": 2, "only_old": 1, "only_new": 1}),  # of both rows of a pair
        (("k",), ("n = 1", "n = 9"), {"equal": 1, "changed": 1, "only_old": 1, "only_new": 1, "expected": 1}),
        (("k",), ("k > 3", "cast(NULL AS boolean)"), {"equal": 1, "changed": 2, "expected": 2}),
        (("k",), ("true",), {"equal": 1, "expected": 4}),
        ((), ("c = 'XX'",), {"equal": 1, "only_old": 2, "only_new": 2, "expected": 2}),
        (("k",), ("k IN (SELECT id FROM range(4))",), {"equal": 1, "only_old": 1, "only_new": 1, "expected": 2}),
    ],
)
def test_expected_differences(spark, keys: tuple[str, ...], expected: Any, result: Any) -> None:
    old, new = (
        recorded(spark.sql(PAIRS.format(values)))
        for values in (
            "(1, 'XX', 5), (2, 'b', 1), (3, 'c', 7), (4, 'd', 7)",
            "(1, 'XX', 6), (2, 'b', 9), (3, 'c', 7), (5, 'e', 7)",
        )
    )
    difference = compare(old, new, keys, *expected)
    assert numbers(difference) == result
    assert len(difference.samples) == difference.differ


def test_a_tolerance_is_for_floating_columns_of_pairs(spark) -> None:
    columns = "SELECT k, double(x) x, float(f) f, named_struct('d', double(s)) s FROM VALUES {} AS t(k, x, f, s)"
    old = "(1, 1, 1, 1), (2, 0, 0, 0), (3, 1, 1, 1), (4, 1, 1, 1)"
    old += ", (5, double('Infinity'), 1, 1), (6, double('NaN'), 1, 1)"
    new = "(1, 1.0009, 0.9991, 1), (2, 1e-300, 0, 0), (3, 1.002, 1, 1), (4, 1, 1, 1.0001), (5, 1, 1, 1), (6, 1, 1, 1)"
    both = [recorded(spark.sql(columns.format(values))) for values in (old, new)]
    assert numbers(compare(*both, ["k"])) == {"changed": 6}
    difference = compare(*both, ["k"], "k = 1", tolerance=0.001)
    assert numbers(difference) == {"equal": 1, "changed": 5}
    assert sorted(s.old["k"] or "" for s in difference.samples if s.old) == ["2", "3", "4", "5", "6"]


def test_samples_show_what_differs(spark) -> None:
    old = spark.sql("SELECT id AS k, X'00FF' AS raw, 'a' AS password, id AS n FROM range(30)")
    new = old.where("k < 25").withColumns({"n": F.col("n") + 1, "password": F.lit("b"), "extra": F.lit(1)})
    difference = compare(recorded(old), recorded(new), ["k"])
    assert numbers(difference) == {"changed": 25, "only_old": 5} and len(difference.samples) == 10
    first = difference.samples[0]
    assert (first.kind, first.batch, first.differ) == (CHANGED, 4, ("password", "n"))
    assert first.old == {"k": "0", "raw": "00FF", "password": "(hidden)", "n": "0"}
    assert difference.new_columns == ("extra",)


def rows(spark, *values: tuple[str, int]) -> DataFrame:
    pairs = ", ".join(f"('{key}', {number})" for key, number in values)
    return spark.sql(f"SELECT * FROM VALUES {pairs} AS t(k, n)")


def test_batches_are_compared_once_both_versions_have_them(spark, comparison: Comparison) -> None:
    comparison.expect([ExpectedDifference(query="q", where="n < 5")])
    compare_recorded(spark, comparison)
    assert comparison.findings() == {}
    for batch in (7, 8):
        record(comparison, OLD, rows(spark, ("a", 10), ("b", 2), ("c", batch)), batch)
    record(comparison, NEW, rows(spark, ("c", 7), ("a", 10)), 7)
    for _ in range(2):  # a batch is not counted again
        difference = compared(comparison, spark)
        assert (numbers(difference), difference.batches) == ({"equal": 2, "expected": 1}, (7,))
    record(comparison, NEW, rows(spark, ("c", 8), ("a", 11)), 8)
    difference = compared(comparison, spark)
    assert (numbers(difference), difference.batches) == ({"equal": 3, "changed": 1, "expected": 2}, (7, 8))
    assert comparison.recorded("q") == [] and not comparison.rows(OLD, "q").exists("7"), "compared, so no longer needed"
    for version in (OLD, NEW):
        record(comparison, version, rows(spark, ("a", 12)), 7)  # after a restart of both drivers
    assert compared(comparison, spark) == difference


@pytest.mark.parametrize("keys", [("k",), pytest.param((), marks=pytest.mark.slow)])
def test_many_batches_are_compared_in_one_pass_each_with_its_own(
    spark, comparison: Comparison, monkeypatch, keys
) -> None:
    """Of each key every batch has another number of rows, so that any mix of batches would be seen."""
    monkeypatch.setattr(row_comparison, "BATCHES_AT_ONCE", 4)
    comparison.ask(ComparisonRequest(keys={"q": keys}))
    for version in (OLD, NEW):
        for batch in (8, 9, 10, 11, 100, 101):
            values = [("same", 5), *[("twice", batch)] * (batch % 3 + 1), (f"{version} only", 100 - batch)]
            values += [("other", batch if version == OLD else batch + 1)]  # what is new in 8 is old in 9
            record(comparison, version, rows(spark, *values), batch)
    compared(comparison, spark)
    assert comparison.compared("q") == {8, 9, 10, 11}
    difference = compared(comparison, spark)
    assert comparison.recorded("q") == [] and (difference.span, len(difference.batches)) == ("8-101, 6 of them", 6)
    both, equal = 6 if keys else 0, 6 + sum(batch % 3 + 1 for batch in (8, 9, 10, 11, 100, 101))
    assert (difference.equal, difference.changed) == (equal, both)
    assert (difference.only_old, difference.only_new) == (12 - both, 12 - both)
    assert all("streamupdate" not in name for s in difference.samples for name in {**(s.old or {}), **(s.new or {})})


def test_a_batch_without_rows_and_one_that_runs_again(spark, comparison: Comparison) -> None:
    for value in ("a", "b"):  # after a failure, the same batch
        record(comparison, OLD, rows(spark, (value, 9)), 1)
    record(comparison, NEW, rows(spark, ("b", 9)), 1)
    for version in (OLD, NEW):
        record(comparison, version, rows(spark, ("x", 1)).where("false"), 2)
    difference = compared(comparison, spark)
    assert (numbers(difference), difference.batches) == ({"equal": 1}, (1, 2))


def test_settings_of_the_app_hide_no_difference(spark, comparison: Comparison) -> None:
    """Found from outside: times cut to milliseconds, and batches without the mark that they are whole."""
    hadoop, mark = spark.sparkContext._jsc.hadoopConfiguration(), "mapreduce.fileoutputcommitter.marksuccessfuljobs"
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
    hadoop.set(mark, "false")
    try:
        for version, micros in ((OLD, 1), (NEW, 2)):
            record(comparison, version, rows(spark, ("a", 1)).withColumn("at", F.timestamp_micros(F.lit(micros))))
        assert numbers(compared(comparison, spark)) == {"changed": 1}
        assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "TIMESTAMP_MILLIS"
    finally:
        hadoop.unset(mark)
