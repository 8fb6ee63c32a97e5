"""What importing the module of one Python function does holds for all functions of the worker that imports it.

Shown by a real run (an outside review): v1 `select(third(a) key, b).dropDuplicates(["key"])`, third is
str(Decimal(a) / 7); v2 shows another column beside the key by a function whose module sets
`decimal.getcontext().prec = 4`. One worker computes both, the key of 1 becomes '0.1429', and v2 emitted its row
a second time."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from bench import HDFS, Bench, blocking, stage
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import PYTHON_IMPORTS
from airflow_provider_streamupdate.streaming.planning.author import Declarations
from airflow_provider_streamupdate.streaming.planning.planner import plan_app

STORE = HDFS  # of `bench`

KEY = "from decimal import Decimal\n\ndef third(a):\n    return str(Decimal(a) / 7)\n"
SHOW = "def show(b):\n    return f'<{b}>'\n"
PRECISE = "import decimal\ndecimal.getcontext().prec = {}\n"
ASKED = {f"q:{PYTHON_IMPORTS}"}


@pytest.fixture
def module(tmp_path: Path, monkeypatch) -> Iterator[Callable[[str, str], Any]]:
    """Writes a module of the app's and imports it."""
    folder, made = tmp_path / "app", set()
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(name: str, text: str) -> Any:
        (folder / f"{name}.py").write_text(text)
        sys.modules.pop(name, None)
        importlib.invalidate_caches()
        made.add(name)
        return importlib.import_module(name)

    yield write
    for name in made:
        sys.modules.pop(name, None)


SCHEMA = "k string, a int, ts timestamp"


def keyed(bench: Bench, module, beside: str = ""):
    """A stream with the key that a Python function makes."""
    return bench.source(SCHEMA).withColumn("key", F.udf(module("key_of", beside + KEY).third)("a"))


def app(bench: Bench, module, second=None, **migrations: Callable):
    """The plan of an app with the deduplication by such a key, and a second query."""
    writers = {"q": stage("t", keyed(bench, module).dropDuplicates(["key"])).writeStream.format("noop")}
    declared = Declarations("app", migrations={(name, "totals"): made for name, made in migrations.items()})
    return plan_app(bench.spark, declared, writers | ({"p": second} if second else {}))


def names(old, new) -> set[str]:
    return {i.name for i in blocking(old, new)}


def shown(module: Callable[[str, str], Any], beside: str, deduplicated: bool = True) -> Callable:
    def build(bench: Bench):
        rows, show = keyed(bench, module), F.udf(module("fmt", beside + SHOW).show)
        if deduplicated:
            return stage("t", rows.dropDuplicates(["key"])).select("key", show("k").alias("shown"))
        third, counted = F.udf(module("key_of", KEY).third), bench.source(SCHEMA).groupBy("k").count()
        return stage("t", counted).select("k", third("count").alias("n"), show("k").alias("shown"))

    return build


def asked(bench: Bench, old: Callable, new: Callable) -> set[str]:
    return names(bench.plan(old)[0], bench.plan(new)[0])


FOUR = PRECISE.format(4)


def test_what_another_function_s_module_sets_counts(bench: Bench, module) -> None:
    for old, new, found in (
        (FOUR, FOUR, set()),
        ("", FOUR, ASKED),
        (FOUR, PRECISE.format(5), ASKED),
        (FOUR, "", ASKED),
    ):
        assert asked(bench, shown(module, old), shown(module, new)) == found


def test_what_cannot_be_compared_is_asked_about_though_nothing_has_changed(bench: Bench, module) -> None:
    """A migration function that holds what no pickle takes."""
    held = (i for i in "ab")
    plan = app(bench, module, t=lambda state: next(held) and state)
    [item] = blocking(plan, plan)
    assert (item.name, item.rules) == (f"q:{PYTHON_IMPORTS}", ("setting.imports-unknown",))
    assert "migration of t (it cannot be pickled" in item.reason
    assert not any(i.blocks for i in compare(plan, plan, "s1", agree=[item.name]).items)


def test_what_a_migration_function_s_module_sets_counts(bench: Bench, module) -> None:
    """Its functions run in the same workers, before the queries do."""

    def migrating(beside: str, *of: str):
        migrate = module("moved", f"{beside}def migrate(state):\n    return state\n").migrate
        return app(bench, module, **dict.fromkeys(of, migrate))

    old = migrating("")
    for beside, of, found in (("", ("t",), set()), (FOUR, ("t",), ASKED), (FOUR, (), set())):
        assert names(old, migrating(beside, *of)) == found


@pytest.mark.parametrize(
    "beside", ["import logging\nLOG = logging.getLogger(__name__)\n", "LIMIT = 3\n", "import re\n"]
)
def test_what_only_gives_values_to_names_does_not(bench: Bench, module, beside: str) -> None:
    assert asked(bench, shown(module, ""), shown(module, beside)) == set()


def test_where_python_has_no_part_in_the_state_it_is_not_asked_about(bench: Bench, module) -> None:
    assert asked(bench, *(shown(module, text, deduplicated=False) for text in ("", FOUR))) == set()


class Rows(DataSource):
    """A table written in Python."""

    @classmethod
    def name(cls) -> str:
        return "rows_of_python"

    def schema(self) -> str:
        return "k string"

    def reader(self, schema: Any) -> DataSourceReader:
        return Reader()


class Reader(DataSourceReader):
    def read(self, partition: Any) -> Iterator[tuple[str]]:
        import beside_rows  # type: ignore[import-not-found]

        yield (beside_rows.K,)


KIND = """from pyspark.sql.types import IntegerType, UserDefinedType
{}class Kind(UserDefinedType):
    @classmethod
    def sqlType(cls):
        return IntegerType()
    @classmethod
    def module(cls):
        return 'kinds'
    def serialize(self, obj):
        return obj
    def deserialize(self, datum):
        return datum
"""


def of_a_function(bench: Bench, module, beside: str):
    return bench.source(SCHEMA).select(F.udf(module("fmt", beside + SHOW).show)("k")).writeStream.format("noop")


def of_a_table(bench: Bench, module, beside: str):
    module("beside_rows", f"{beside}K = 'x'\n")
    bench.spark.dataSource.register(Rows)
    table = bench.spark.read.format("rows_of_python").load()
    return bench.source("k string").join(table, "k").writeStream.format("noop")


def of_foreach(bench: Bench, module, beside: str):
    show = module("rows", f"{beside}def show(row):\n    print(row)\n").show
    return bench.source(SCHEMA).select("k").writeStream.foreach(show)


def of_a_type(bench: Bench, module, beside: str):
    made = F.udf(lambda a: a, module("kinds", KIND.format(beside)).Kind())
    return bench.source(SCHEMA).select(made("a").alias("m")).writeStream.format("noop")


@pytest.mark.parametrize("second", [of_a_function, of_a_table, of_foreach, of_a_type])
def test_what_python_another_query_of_the_app_has_counts(bench: Bench, module, second: Callable) -> None:
    """Its tasks run in the same workers."""
    old = app(bench, module, second(bench, module, ""))
    for beside, found in (("", set()), (FOUR, ASKED)):
        items = blocking(old, app(bench, module, second(bench, module, beside)), "setting")
        assert {i.name for i in items} == found


def test_what_a_new_stage_of_python_brings_says_nothing_of_a_state_without(bench: Bench, module) -> None:
    """The stage that was saved holds nothing that Python has computed."""

    def counted(bench: Bench):
        return stage("n", bench.source(SCHEMA).groupBy("k").count())

    def with_python(bench: Bench):
        return stage("n", stage("t", keyed(bench, module, FOUR).dropDuplicates(["key"])).groupBy("k").count())

    assert PYTHON_IMPORTS not in "".join(asked(bench, counted, with_python))
