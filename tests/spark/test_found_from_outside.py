"""What a tester found who had read nothing of the code: versions that were carried and computed something else, and
rewrites that failed where the check had said that they are possible."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest
from bench import Bench, set_join_format, stage
from pairs import Ground, verdict
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from airflow_provider_streamupdate.streaming.code.digest import CodeDigest, describe
from tests.cases import one_is_fast

STEPS = ("def step_a(x):\n    return x + 'a'\n", "def step_b(x):\n    return x * 2\n")
PRECISE = "import decimal\n\ndef setup():\n    decimal.getcontext().prec = {}\n"
KEY = "def key(a):\n    return str(decimal.Decimal(a) / 7)\n"
OVER_A_MODULE = """
import steps

def key(a):
    r = str(a)
    for name, step in list(steps.__dict__.items()):
        if name.startswith("step_"):
            r = step(r)
    return r
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch):
    """What the digest of `app.key` is where the modules have these texts."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def describe_app(**texts: str) -> CodeDigest:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return describe(cloudpickle.dumps((importlib.import_module("app").key, StringType())))

    yield describe_app
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


def test_a_function_that_goes_over_a_module_s_dict_sees_the_order_of_its_functions(told) -> None:
    """key(1) is '1a1a' in one version and '11a' in the other."""
    one = told(app=OVER_A_MODULE, steps="".join(STEPS))
    other = told(app=OVER_A_MODULE, steps="".join(STEPS[::-1]))
    assert one != other


@pytest.mark.parametrize(
    ("function", "statement"),
    [
        ("def setup():\n    decimal.getcontext().prec = 9\n", "from base import *\n"),
        ("def len(x):\n    return 9\n", "decimal.getcontext().prec = len('four')\n"),
        ("def setup2():\n    setup()\n", "try:\n    setup2()\nexcept NameError:\n    pass\n"),
    ],
    ids=["a star import that has the same name", "a builtin's name", "where a missing name is passed over"],
)
def test_where_a_function_stands_counts_if_a_statement_between_uses_its_name(told, function, statement) -> None:
    """In one order decimals have 4 digits, in the other 9 (28 in the last case)."""
    before = "from base import setup\nimport decimal\n" if "setup2" in function else "import decimal\n"
    after = ("" if "setup2" in function or "len" in function else "setup()\n") + KEY
    base = PRECISE.format(4)
    one = told(base=base, app=before + function + statement + after)
    other = told(base=base, app=before + statement + function + after)
    assert one != other


KEYS = ("l.i = r.i", "l.m = r.m")
NEAR = "r.ts >= l.ts AND r.ts <= l.ts + INTERVAL 9 MINUTES"
SIDES = "i int, m bigint, a bigint, ts timestamp"


def pairs(*keys: str):
    """Left rows with what is right of them."""

    def build(bench: Bench):
        left, right = (bench.late(schema=SIDES, name=side).alias(side[0]) for side in ("left", "right"))
        joined = stage("pairs", left.join(right, F.expr(" AND ".join([*keys, NEAR])), "left_outer"))
        return joined.selectExpr("l.a x", "r.a y")

    return build


def rows_of(first: int, minute: int) -> list[dict]:
    return [{"i": n, "m": n % 3, "a": first + n, "ts": f"2026-01-01T00:{minute:02d}:00Z"} for n in range(12)]


@pytest.mark.parametrize("version", one_is_fast([4, 2, 3]))
def test_a_join_s_equalities_in_another_order_find_the_rows_from_before(rocksdb: Bench, version: int) -> None:
    """Keys of an int and a bigint: in column families (formats 3 and 4) rows lie in other partitions."""
    set_join_format(rocksdb.spark, version)
    rocksdb.write(rows_of(100, 1), "left")
    rocksdb.write(rows_of(200, 1)[:1], "right")
    first = rocksdb.run(pairs(*KEYS), "append")
    rocksdb.write(rows_of(300, 50)[:1], "left")
    rocksdb.write(rows_of(200, 2)[1:], "right")
    assert rocksdb.item(first, pairs(*KEYS[::-1]), "append").verdict == "migrated"
    rocksdb.run(pairs(*KEYS[::-1]), "append", snapshot=first)
    found = sorted((r["x"], r["y"]) for r in rocksdb.all())
    assert found == [(100 + n, 200 + n) for n in range(12)]


def test_a_column_that_cannot_be_null_is_not_added_as_null(rocksdb: Bench) -> None:
    """The report says null, an old row has 0."""

    def more(bench: Bench):
        left, right = (bench.late(schema=SIDES, name=side).alias(side[0]) for side in ("left", "right"))
        left = left.select("*", F.expr("coalesce(i, 42) more")).alias("l")
        joined = stage("pairs", left.join(right, F.expr(f"l.m = r.m AND {NEAR}"), "left_outer"))
        return joined.selectExpr("l.a x", "r.a y", "l.more")

    rocksdb.write(rows_of(100, 1)[:3], "left")
    rocksdb.write([], "right")
    first = rocksdb.run(pairs("l.m = r.m"), "append")
    item = rocksdb.item(first, more, "append")
    if item.verdict == "refused":
        return
    rocksdb.write([], "left")
    rocksdb.write(rows_of(200, 2)[:3], "right")
    rocksdb.run(more, "append", snapshot=first, agree=("q/pairs",))
    assert "will be null" in item.reason and {r["more"] for r in rocksdb.all()} == {None}


@pytest.mark.parametrize("version", one_is_fast([4, 3]))
def test_a_column_called_matched_is_refused_or_moved(rocksdb: Bench, version: int) -> None:
    """The restore fails where the check said that the state is migrated."""
    set_join_format(rocksdb.spark, version)

    def named(*columns: str):
        def build(bench: Bench):
            left, right = (bench.late(schema=SIDES, name=side).alias(side[0]) for side in ("left", "right"))
            left = left.selectExpr(*columns).alias("l")
            joined = stage("pairs", left.join(right, F.expr(f"l.m = r.m AND {NEAR}"), "left_outer"))
            return joined.selectExpr("l.a x", "r.a y", "l.matched")

        return build

    rocksdb.write(rows_of(100, 1)[:3], "left")
    rocksdb.write(rows_of(200, 1)[:1], "right")
    first = rocksdb.run(named("m", "a", "ts", "i matched"), "append")
    new = named("i matched", "ts", "a", "m")
    if rocksdb.item(first, new, "append").verdict == "refused":
        return
    rocksdb.write(rows_of(300, 50)[:1], "left")
    rocksdb.write(rows_of(200, 2)[1:3], "right")
    rocksdb.run(new, "append", snapshot=first)
    assert sorted((r["x"], r["y"], r["matched"]) for r in rocksdb.all()) == [(100 + n, 200 + n, n) for n in range(3)]


@pytest.mark.parametrize("before", [None, "5"])
def test_the_default_of_a_parsed_field_counts(ground: Ground, before: str | None) -> None:
    """A text without the field gives the default: 5 or null, then 7."""

    def version(default: str | None):
        notes = {"EXISTS_DEFAULT": default, "CURRENT_DEFAULT": default} if default else {}
        schema = StructType([StructField("k", StringType()), StructField("n", IntegerType(), metadata=notes)])
        return lambda g: stage("t", g.read().select(F.from_json("v", schema).alias("p")).groupBy("p.n").count())

    one, other = (ground.plan(version(default)) for default in (before, "7"))
    assert verdict(one, other) in ("asked", "refused")


@pytest.mark.parametrize("version", one_is_fast([4, 2]))
def test_a_watermark_on_another_column_finds_the_rows_of_format_4(rocksdb: Bench, version: int) -> None:
    """Format 4 keeps rows by the event time of the old column. Agreed is only to rows that are late, and none is."""
    set_join_format(rocksdb.spark, version)

    def joined(column: str):
        def build(bench: Bench):
            left = bench.source("k long, a long, ts timestamp, ts2 timestamp", "left")
            right = bench.late("5 minutes", schema=SIDES, name="right").alias("r")
            left = (left.withWatermark(column, "5 minutes") if left.isStreaming else left).alias("l")
            near = "l.k = r.m AND r.ts >= l.ts2 AND r.ts <= l.ts2 + INTERVAL 9 MINUTES"
            return stage("pairs", left.join(right, F.expr(near))).selectExpr("l.a x", "r.a y", "l.ts", "l.ts2")

        return build

    def at(key: int, minute: int, **more: str) -> dict:
        return {"k": key, "m": key, "a": 100 * minute + key, "ts": f"2026-01-01T00:{minute:02d}:00Z", **more}

    def both(key: int, minute: int) -> dict:
        return at(key, minute, ts2=f"2026-01-01T00:{minute + 30}:00Z")

    rocksdb.write([both(n, 1 + n) for n in range(4)], "left")
    rocksdb.write([at(n, 1) for n in range(4)], "right")
    first = rocksdb.run(joined("ts"), "append")
    rocksdb.write([both(9, 12)], "left")
    rocksdb.write([at(8, 31)], "right")
    rocksdb.write([both(9, 13)], "left")
    rocksdb.write([at(n, 32 + n) for n in range(4)], "right")
    report = rocksdb.check(first, joined("ts2"), "append")
    if any(i.blocks for i in report.items if i.thing == "stage"):
        return
    rocksdb.run(joined("ts2"), "append", snapshot=first, agree=("q:watermark",))
    found = sorted((r["x"], r["y"]) for r in rocksdb.all())
    assert found == [(100 * (1 + n) + n, 100 * (32 + n) + n) for n in range(4)]
