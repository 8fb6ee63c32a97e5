"""The type of a source column, where the state does not show it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.verdict import ReportItem
from airflow_provider_streamupdate.core.plan.expressions import Column
from airflow_provider_streamupdate.core.plan.rename import rename
from airflow_provider_streamupdate.core.plan.spark_types import form

from .builders import app_plan, query_plan, stage_plan


def judged(parts: dict[str, Any], old: dict[str, str], new: dict[str, str]) -> ReportItem:
    before, after = (app_plan(query_plan(stage_plan(**parts, types=types))) for types in (old, new))
    return next(i for i in compare(before, after, "test").items if i.thing == "stage")


def keyed(*keys: str, aggregate: str = "count(1)") -> dict[str, Any]:
    return {"definition": {"keys": [*keys], "aggregates": [aggregate]}}


def aggregating(text: str) -> dict[str, Any]:
    return keyed("source-1.origin", aggregate=text)


@pytest.mark.parametrize(
    ("aggregate", "old", "new", "verdict"),
    [
        ("collect_list(source-1.a)", "int", "bigint", "refused"),
        ("sum(hash(source-1.a, 42))", "int", "bigint", "refused"),
        ("approxcountdistinct(source-1.a)", "int", "bigint", "refused"),
        ("sum(source-1.a)", "int", "bigint", "carried"),
        ("sum(source-1.a)", "bigint", "int", "refused"),
        ("sum(source-1.a)", "int", "string", "refused"),
        ("sum(source-1.a)", "decimal(10,2)", "decimal(12,3)", "carried"),
        ("average(source-1.a)", "smallint", "int", "carried"),
        ("average(source-1.a)", "float", "double", "refused"),
        ("count(source-1.a)", "int", "string", "carried"),
        ("count(source-1.a) filter (equalto(source-1.a, 1))", "int", "string", "refused"),
        ("max(source-1.a)", "int", "bigint", "carried"),  # here the state's own types are equal: the layout's rules say
        ("max(source-1.a)", "struct<x int, y int>", "struct<y int, x int>", "refused"),
        ("first(source-1.a)", "struct<x int, y string>", "struct<x bigint, y string, z struct<w int>>", "carried"),
        ("first(source-1.a)", "struct<x struct<p int, q int>>", "struct<x struct<q int, p int>>", "refused"),
        ("first(source-1.a)", "array<int>", "array<bigint>", "carried"),
        ("first(source-1.a)", "array<struct<x int, y int>>", "array<struct<y int, x int>>", "refused"),
        ("first(source-1.a)", "map<string, int>", "map<string, bigint>", "carried"),
        ("max(source-1.a)", "string", "string collate UTF8_LCASE", "refused"),
        ("max(source-1.a)", "decimal(10,2)", "decimal(12,3)", "carried"),
        ("max(source-1.a.x)", "int", "int", "carried"),
    ],
)
def test_what_depends_on_a_column_s_type(aggregate: str, old: str, new: str, verdict: str) -> None:
    found = judged(aggregating(aggregate), {"source-1.a": old}, {"source-1.a": new})
    assert found.verdict == verdict, found
    assert ("stage.column-type" in found.rules) == (verdict == "refused")


def test_a_computed_key_and_a_field_beside_one() -> None:
    types = {"source-1.a": "int"}, {"source-1.a": "bigint"}
    plain = keyed("source-1.a")
    assert judged(plain, *types).verdict == "carried"  # the state's own types are equal here
    computed = keyed("cast(source-1.a, dataType=string)")
    assert judged(computed, *types).verdict == "refused"
    stage = keyed("source-1.user.id", aggregate="max(source-1.user.idle)")
    old = {"source-1.user.id": "bigint", "source-1.user.idle": "int"}
    found = judged(stage, old, {**old, "source-1.user.id": "string"})
    assert found.verdict == "carried"  # a key that the state holds as it is


def test_a_state_function_s_input() -> None:
    definition = {"keys": ["source-1.k"], "code": "#1", "input": ["x = source-1.x"], "timeout": "NoTimeout"}
    stage = {"kind": "apply-in-pandas-with-state", "operator": "applyInPandasWithState", "definition": definition}
    assert judged(stage, {"source-1.x": "int"}, {"source-1.x": "bigint"}).verdict == "carried"
    found = judged(stage, {"source-1.x": "int"}, {"source-1.x": "double"})
    assert (found.verdict, found.rules) == ("carried with loss", ("stage.input-type",))


def test_a_renamed_source_keeps_its_types() -> None:
    plan = app_plan(query_plan(stage_plan(types={"source-1.origin": "string"})))
    assert rename(plan, {"source-1": "flights"}).queries[0].stages[0].types == {Column("flights", "origin"): "string"}


MAP = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}


def test_what_may_be_null_has_no_part_in_a_form_wherever_it_is_said() -> None:
    """A map's values, an array's, a struct's fields, one inside the other: one normaliser for all who compare."""
    array = {"type": "array", "elementType": MAP, "containsNull": True}
    row = {"type": "struct", "fields": [{"name": "m", "type": array, "nullable": True, "metadata": {"a": 1}}]}
    never = json.loads(json.dumps(row).replace("true", "false"))
    assert row != never
    for names in (True, False):
        assert form(row, names) == form(never, names)
        assert form([row, {"row": row}], names) == form([never, {"row": never}], names)
    renamed = json.loads(json.dumps(row).replace('"m"', '"n"'))
    assert form(row) == form(renamed) and form(row, names=True) != form(renamed, names=True)
    assert form(row) != form(json.loads(json.dumps(row).replace("long", "integer")))
