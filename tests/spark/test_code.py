"""The digest of a Python function: equal for equal code, in another process, too; another one for any change in it;
and of what Spark makes of functions: broadcast variables, large ones, UDTFs, pandas, processors. More of each kind is
in tests/sweep (python_*.py)."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

from airflow_provider_streamupdate.streaming.code import CodeDigest, describe
from airflow_provider_streamupdate.streaming.spark_internals.jvm import module
from airflow_provider_streamupdate.streaming.spark_internals.plans.python_source import broadcasts
from tests.sweep.python_apps import run, write

HELPERS = """
LIMIT = 3

def double(x):
    return 2 * x

def unused(x):
    return x
"""

APP = """
import helpers
from helpers import double
import functools, re

SEEN = {"b": 2, "a": 1}
PATTERN = re.compile("a+")

class Base:
    step = 1
    def add(self, x):
        return x + self.step

class Count(Base):
    def __init__(self, start):
        self.start = start
    def __call__(self, key, rows):
        "Counts."
        def inner(r):
            return double(r) + helpers.LIMIT
        return self.add(self.start) + sum(inner(r) for r in rows) + SEEN["a"] + bool(PATTERN.match(key))

made = Count(7)

def f(key, rows):
    return made(key, rows)
"""
App = tuple[str, str]  # the app's file, and helpers.py


def described(folder: Path, *apps: App, hash_seed: str = "0") -> list[dict[str, Any]]:
    """What is said of each app's function in a process of its own, where the app is ``__main__``."""
    jobs = []
    for number, (app, helpers) in enumerate(apps):
        files = {"app.py": textwrap.dedent(app), "helpers.py": textwrap.dedent(helpers)}
        jobs.append({"folder": str(write(folder / str(number), files)), "inputs": (), "results": False})
    found = run(jobs, hash_seed)
    assert all("fails" not in outcome for outcome in found), found
    return found


def changed(old: str, new: str) -> App:
    assert old in APP + HELPERS
    return APP.replace(old, new), HELPERS.replace(old, new)


EQUAL = [
    ('"Counts."', '"Says something else."'),
    ("def f(key, rows):", "\n\n# moved down\ndef f(key, rows):"),
    ("return x\n", "return x + 1  # nobody uses it\n"),
]
DIFFERENT = [
    ("Count(7)", "Count(8)"),
    ("step = 1", "step = 2"),
    ("x + self.step", "x - self.step"),
    ('{"b": 2, "a": 1}', '{"b": 2, "a": 3}'),
    ('{"b": 2, "a": 1}', '{"a": 1, "b": 2}'),
    ('compile("a+")', 'compile("b+")'),
    ("double(r) + helpers.LIMIT", "double(r) - helpers.LIMIT"),
    ("2 * x", "3 * x"),
    ("LIMIT = 3", "LIMIT = 4"),
]


def test_the_same_computation_has_the_same_digest_and_no_other_has(tmp_path: Path) -> None:
    found = described(tmp_path, (APP, HELPERS), *(changed(*edit) for edit in (*EQUAL, *DIFFERENT)))
    [elsewhere] = described(tmp_path / "elsewhere", (APP, HELPERS), hash_seed="12345")
    first, *others = (outcome["digest"] for outcome in found)
    assert first and elsewhere["digest"] == first
    assert [edit for edit, digest in zip(EQUAL, others, strict=False) if digest != first] == []
    assert [edit for edit, digest in zip(DIFFERENT, others[len(EQUAL) :], strict=True) if digest == first] == []


def test_a_constant_that_workers_do_not_have_counts_as_the_driver_has_it_and_as_it_is_written(tmp_path: Path) -> None:
    """Workers import the module again: what they have is what is written there."""
    helpers = HELPERS.replace("return 2 * x", "return FACTOR * x").replace("LIMIT = 3", "LIMIT = 3\nFACTOR: int = 2")
    assert "FACTOR * x" in helpers
    for line in ("helpers.LIMIT = 4", "helpers.FACTOR = 3", "helpers.LIMIT = 3.0"):
        app = f"{APP}\n{line}\n"
        other = helpers.replace("LIMIT = 3", "LIMIT = 5").replace("FACTOR: int = 2", "FACTOR: int = 5")
        alone, again, written = described(tmp_path / line, (APP, helpers), (app, helpers), (app, other))
        assert len({outcome["digest"] for outcome in (alone, again, written)}) == 3, line


# An app that takes by names that are data what its helpers have.
BY_NAME = {
    "its table": "from sys import modules as loaded\nimport helpers\n"
    "def f(key, rows):\n    return loaded['helpers'].LIMIT\n",
    "the subclasses": "import helpers\nclass Base: pass\nclass One(Base): n = helpers.LIMIT\n"
    "def f(key, rows):\n    return Base.__subclasses__()[0].n + helpers.double(1)\n",
}


def test_where_names_are_data_all_of_the_app_counts(tmp_path: Path) -> None:
    changed_helpers = HELPERS.replace("LIMIT = 3", "LIMIT = 4")
    for name, app in BY_NAME.items():
        one, other = described(tmp_path / name, (app, HELPERS), (app, changed_helpers))
        [again] = described(tmp_path / f"{name} again", (app, HELPERS), hash_seed="12345")
        assert one["digest"] and one["digest"] == again["digest"] and one["digest"] != other["digest"], name
        assert one["unknown"] == []


# An app, its helpers, and what stands for ``@@`` in them: two versions.
LOOKED_AT = [
    ("import abc\nclass A(abc.ABC): pass\nclass B: pass\n@@\ndef f(k, r): return isinstance(B(), A)\n", "",
     "", "A.register(B)"),
    ("import helpers\ndef f(k, r): return list(vars(helpers.C))\n", "class C:\n    @@\n",
     "a = 1; b = 2", "b = 2; a = 1"),
]  # fmt: skip


def test_what_code_can_look_at_counts(tmp_path: Path) -> None:
    apps = [
        (app.replace("@@", text), helpers.replace("@@", text))
        for app, helpers, one, other in LOOKED_AT
        for text in (one, one, other)
    ]
    found = [outcome["digest"] for outcome in described(tmp_path, *apps)]
    assert None not in found and found[::3] == found[1::3]
    assert all(one != other for one, other in zip(found[::3], found[2::3], strict=True))


def test_what_a_module_fills_when_it_is_imported_is_what_workers_have(tmp_path: Path) -> None:
    """Plug-ins: what the module's own statements put into its list, workers have as well."""
    helpers = """
        HANDLERS, NAMED = [], {}

        def registered(function):
            HANDLERS.append(function)
            NAMED[function.__name__] = function
            return function

        @registered
        def one(x):
            return x + 1
    """
    app = "import helpers\ndef f(key, rows):\n    return [g(1) for g in helpers.HANDLERS], helpers.NAMED\n"
    same = [(app, helpers), (app, helpers), (app, helpers + "\n        OTHER = 3\n")]
    others = [(app, helpers.replace("x + 1", "x + 2")), (app + "helpers.HANDLERS.append(len)\n", helpers)]
    others += [(app + "helpers.NAMED['x'] = len\n", helpers), (app, helpers + "\n        HANDLERS.append(len)\n")]
    first, again, beside, *rest = described(tmp_path, *same, *others)
    assert first["digest"] and first["digest"] == again["digest"] == beside["digest"] and first["unknown"] == []
    assert first["digest"] not in [outcome["digest"] for outcome in rest]


def test_where_the_app_lies_is_nothing(tmp_path: Path) -> None:
    """Each deployment has a folder of its own."""
    read = "import os\nfrom pathlib import Path\nHERE = {}\ndef f(k, r): return open(f'{{HERE}}/table.txt')\n"
    ways = ("Path(__file__).parent", "os.path.dirname(os.path.abspath(__file__))")
    apps = [read.format(place) for here in ways for place in (here, here, f"Path('/x') if 1 else {here}")]
    found = [outcome["digest"] for outcome in described(tmp_path, *((app, HELPERS) for app in apps))]
    for one, other, elsewhere in (found[:3], found[3:]):
        assert one == other != elsewhere


def test_what_cannot_be_loaded_has_no_digest() -> None:
    assert describe(b"not a pickle").digest is None
    lost = cloudpickle.dumps((Fraction(1), None)).replace(b"Fraction", b"Gonetion")
    assert describe(lost).digest is None


# Spark's own functions. Each maker gives another digest for each of its variants, and the same one for the same.


def in_jvm(spark, function: Any) -> CodeDigest:
    """function: of the JVM (SimplePythonFunction)"""
    byte = module(spark, "scala.reflect.ClassTag").Byte()
    return describe(bytes(function.command().toArray(byte)), broadcasts(function))


def of(spark, function: Any, returns: Any = "int", **more: Any) -> CodeDigest:
    return in_jvm(spark, UserDefinedFunction(function, returns, **more)._judf.func())


def broadcast(spark, value: int) -> CodeDigest:
    """It counts by its value, not by its number."""
    held = spark.sparkContext.broadcast({"a": 1, "b": [value]})
    return of(spark, lambda x: held.value["a"] + x)


def megabyte(spark, last: int) -> CodeDigest:
    """Spark pickles it as a broadcast variable (_prepare_for_python_RDD)."""
    table = bytes(1_200_000) + bytes([last])
    return of(spark, lambda x: table[x])


def returning(spark, which: int) -> CodeDigest:
    return of(spark, lambda x: x, ("a int, b string", "a int, b binary", "b string, a int")[which])


def table_function(spark, by: int) -> CodeDigest:
    class Rows:
        def eval(self, x: int):
            for i in range(x):
                yield (i * by,)

    return in_jvm(spark, F.udtf(Rows, returnType="y: int")._judtf.func())


def over_iterators(spark, by: int) -> CodeDigest:
    def scale(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for part in parts:
            yield part * by

    return of(spark, scale, "long", evalType=PythonEvalType.SQL_SCALAR_PANDAS_ITER_UDF)


def processor(spark, variant: int) -> CodeDigest:
    limit, by, name = 3 + (variant == 1), 1 + (variant == 2), "nm"[variant == 0]

    def helper(x: int) -> int:
        return x * by

    class Count(StatefulProcessor):
        def __init__(self) -> None:
            self.limit = limit

        def init(self, handle: Any) -> None:
            self.n = handle.getValueState(name, "n int")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
            yield helper(len(list(rows))) + self.limit

        def close(self) -> None: ...

    return describe(cloudpickle.dumps((Count(), None)))


@pytest.mark.parametrize("made", [broadcast, megabyte, returning, table_function, over_iterators, processor])
def test_what_a_function_of_spark_is_made_of_counts(spark, made) -> None:
    variants = (0, 1, 2)
    found = [made(spark, variant).digest for variant in variants]
    assert None not in found and len(set(found)) == len(variants)
    assert [made(spark, variant).digest for variant in variants] == found


def test_a_destroyed_broadcast_variable_is_unknown(spark) -> None:
    held = spark.sparkContext.broadcast([1])
    udf = UserDefinedFunction(lambda x: held.value[0], "int")._judf.func()
    assert len(broadcasts(udf)) == 1
    held.destroy()
    found = in_jvm(spark, udf)
    assert found.digest is None
    [reason] = found.unknown
    assert "the value of a broadcast variable cannot be loaded" in reason


def test_what_an_accumulator_holds_and_how_a_type_is_written_is_nothing(spark) -> None:
    """Workers only add to it; how many there were before it does not count."""

    def digest() -> str | None:
        count = spark.sparkContext.accumulator(0)
        return of(spark, lambda x: count.add(1) or x).digest

    assert digest() and digest() == digest()
    assert len({of(spark, lambda x: x, t).digest for t in ("a int, b string", "struct<a:int,b:string>")}) == 1
