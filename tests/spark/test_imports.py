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
from bench import HDFS, Bench, stage
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, DataSourceReader

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.plan import PYTHON_IMPORTS
from airflow_provider_streamupdate.streaming.planning.author import Declarations

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


def shown(module: Callable[[str, str], Any], beside: str, deduplicated: bool = True) -> Callable:
    def build(bench: Bench):
        third, show = F.udf(module("key_of", KEY).third), F.udf(module("fmt", beside + SHOW).show)
        read = bench.source("k string, a int, ts timestamp").withColumn("key", third("a"))
        if deduplicated:
            return stage("t", read.dropDuplicates(["key"])).select("key", show("k").alias("shown"))
        return stage("t", read.groupBy("k").count()).select("k", third("count").alias("n"), show("k").alias("shown"))

    return build


def asked(bench: Bench, old: Callable, new: Callable) -> set[str]:
    return {i.name for i in compare(bench.plan(old)[0], bench.plan(new)[0], "s1").items if i.blocks}


def test_what_another_function_s_module_sets_counts(bench: Bench, module) -> None:
    four, same = PRECISE.format(4), shown(module, PRECISE.format(4))
    assert asked(bench, same, same) == set()
    assert asked(bench, shown(module, ""), shown(module, four)) == ASKED
    assert asked(bench, shown(module, four), shown(module, PRECISE.format(5))) == ASKED
    assert asked(bench, shown(module, four), shown(module, "")) == ASKED


def test_what_cannot_be_compared_is_asked_about_though_nothing_has_changed(bench: Bench, module) -> None:
    """A migration function that holds what no pickle takes."""
    from airflow_provider_streamupdate.streaming.planning.planner import plan_app

    third, held = F.udf(module("key_of", KEY).third), (i for i in "ab")
    read = bench.source("k string, a int, ts timestamp").withColumn("key", third("a"))
    writers = {"q": stage("t", read.dropDuplicates(["key"])).writeStream.format("noop")}
    app = Declarations("app", migrations={("t", "totals"): lambda state: next(held) and state})
    plan = plan_app(bench.spark, app, writers)
    (item,) = (i for i in compare(plan, plan, "s1").items if i.blocks)
    assert (item.name, item.rules) == (f"q:{PYTHON_IMPORTS}", ("setting.imports-unknown",))
    assert "?migration of t (it cannot be pickled" in item.reason
    assert not any(i.blocks for i in compare(plan, plan, "s1", agree=[item.name]).items)


def test_what_a_migration_function_s_module_sets_counts(bench: Bench, module) -> None:
    """Its functions run in the same workers, before the queries do."""
    from airflow_provider_streamupdate.streaming.planning.planner import plan_app

    def app(beside: str, *names: str):
        third = F.udf(module("key_of", KEY).third)
        read = bench.source("k string, a int, ts timestamp").withColumn("key", third("a"))
        writers = {"q": stage("t", read.dropDuplicates(["key"])).writeStream.format("noop")}
        migrate = module("moved", f"{beside}def migrate(state):\n    return state\n").migrate
        app = Declarations("app", migrations={(name, "totals"): migrate for name in names})
        return plan_app(bench.spark, app, writers)

    old = app("")
    for new, found in ((app("", "t"), set()), (app(PRECISE.format(4), "t"), ASKED), (app(PRECISE.format(4)), set())):
        assert {i.name for i in compare(old, new, "s1").items if i.blocks} == found


@pytest.mark.parametrize(
    "beside", ["import logging\nLOG = logging.getLogger(__name__)\n", "LIMIT = 3\n", "import re\n"]
)
def test_what_only_gives_values_to_names_does_not(bench: Bench, module, beside: str) -> None:
    assert asked(bench, shown(module, ""), shown(module, beside)) == set()


def test_where_python_has_no_part_in_the_state_it_is_not_asked_about(bench: Bench, module) -> None:
    old, new = (shown(module, text, deduplicated=False) for text in ("", PRECISE.format(4)))
    assert asked(bench, old, new) == set()


def test_another_query_of_the_app_counts(bench: Bench, module) -> None:
    """Its tasks run in the same workers."""
    from airflow_provider_streamupdate.streaming.planning.planner import plan_app

    def both(beside: str):
        third, show = F.udf(module("key_of", KEY).third), F.udf(module("fmt", beside + SHOW).show)
        read = bench.source("k string, a int, ts timestamp")
        first = stage("t", read.withColumn("key", third("a")).dropDuplicates(["key"]))
        writers = {"q": first.writeStream.format("noop"), "p": read.select(show("k")).writeStream.format("noop")}
        return plan_app(bench.spark, Declarations("app"), writers)

    old, new = both(""), both(PRECISE.format(4))
    assert compare(old, old, "s1").compatible
    assert {i.name for i in compare(old, new, "s1").items if i.blocks} == ASKED


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


@pytest.mark.parametrize("kind", ["table", "foreach", "type"])
def test_what_else_is_python_counts(bench: Bench, module, kind: str) -> None:
    """A table of a Python data source, the object given to foreach, the class of a user-defined type."""
    from airflow_provider_streamupdate.streaming.planning.planner import plan_app

    def app(beside: str):
        third = F.udf(module("key_of", KEY).third)
        read = bench.source("k string, a int, ts timestamp").withColumn("key", third("a"))
        if kind == "table":
            module("beside_rows", f"{beside}K = 'x'\n")
            bench.spark.dataSource.register(Rows)
            table = bench.spark.read.format("rows_of_python").load()
            second = bench.source("k string").join(table, "k").writeStream.format("noop")
        elif kind == "foreach":
            show = module("rows", f"{beside}def show(row):\n    print(row)\n").show
            second = read.select("k").writeStream.foreach(show)
        else:
            text = (
                f"from pyspark.sql.types import IntegerType, UserDefinedType\n{beside}"
                "class Kind(UserDefinedType):\n    @classmethod\n    def sqlType(cls):\n        return IntegerType()\n"
                "    @classmethod\n    def module(cls):\n        return 'kinds'\n"
                "    def serialize(self, obj):\n        return obj\n"
                "    def deserialize(self, datum):\n        return datum\n"
            )
            made = F.udf(lambda a: a, module("kinds", text).Kind())
            second = read.select(made("a").alias("m")).writeStream.format("noop")
        first = stage("t", read.dropDuplicates(["key"]))
        return plan_app(bench.spark, Declarations("app"), {"q": first.writeStream.format("noop"), "p": second})

    old = app("")
    for beside, found in (("", set()), (PRECISE.format(4), ASKED)):
        assert {i.name for i in compare(old, app(beside), "s1").items if i.blocks and i.thing == "setting"} == found


def test_what_a_new_stage_of_python_brings_says_nothing_of_a_state_without(bench: Bench, module) -> None:
    """The stage that was saved holds nothing that Python has computed."""

    def counted(bench: Bench):
        return stage("n", bench.source("k string, a int, ts timestamp").groupBy("k").count())

    def with_python(bench: Bench):
        third = F.udf(module("key_of", PRECISE.format(4) + KEY).third)
        read = bench.source("k string, a int, ts timestamp").withColumn("key", third("a"))
        return stage("n", stage("t", read.dropDuplicates(["key"])).groupBy("k").count())

    assert PYTHON_IMPORTS not in "".join(asked(bench, counted, with_python))
