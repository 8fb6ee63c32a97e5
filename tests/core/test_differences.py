"""A refusal says what differs, in words a person can act on: not two texts, no digests, no names of Spark's classes."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.plan.differences import MOST, describe_differences
from airflow_provider_streamupdate.core.plan.expressions import (
    Call,
    Column,
    Expression,
    Literal,
    Python,
    Window,
    field_of,
)
from airflow_provider_streamupdate.core.plan.plan import PYTHON_IMPORTS, SinkPlan, StagePlan

from .builders import app_plan, expression, query_plan, stage_plan

A, B, K = (Column("source-1", name, "int") for name in "abk")


def parsed(*fields: str) -> Expression:
    kinds = tuple((name, Literal("string")) for name in fields)
    return Call("to_json", (Call("from_json", (K,), (("schema", Call("struct<>", (), kinds)),)),))


def read(name: str, **options: str) -> Expression:
    """Of a parsed text, what is read of it (parser_schema.py)."""
    given = Call("options", (), tuple((n, Literal(repr(value))) for n, value in options.items()))
    return Call("from_json", (K,), (("options", given), ("schema", Call("struct<>", (), ((name, Literal("int")),)))))


def looked_up(table: str) -> Expression:
    label, key = (Column(f"static:{table}", name, "string") for name in ("label", "k"))
    return Call("lookup", (label, Call("rows", (Call("equalto", (K, key)),), (("table", Literal(f"#{table[-2:]}")),))))


def function(digest: str, name: str = "classify", *arguments: Expression) -> Python:
    return Python(digest, name, arguments or (K,))


def windowed(seconds: int) -> Expression:
    names = ("a_long_name", "a_second_long_name", "a_third_long_name")
    of = Call("coalesce", tuple(Column("source-1", name, "timestamp") for name in names))
    return Window(of, seconds * 10**6, seconds * 10**6, 0, f"#{seconds}")


CASES: list[tuple[list[Expression], list[Expression], str]] = [
    ([A], [B], "a -> b"),
    ([K], [K, Call("upper", (A,))], "upper(a) is new"),
    ([A, K], [K], "a is gone"),
    ([A, K], [K, A], "their order: a, k -> k, a"),
    ([A], [A], ""),
    ([Call("sum", (A,)), K], [Call("max", (A,)), K], "sum(a) -> max(a)"),
    ([expression("sum(o.net)")], [expression("sum(o.gross)")], "o.net -> o.gross in sum(o.gross)"),
    ([function("1a2b")], [function("3c4d")], "the code of classify changed"),
    ([Call("upper", (function("1a2b"),))], [Call("upper", (function("3c4d"),))], "the code of classify changed"),
    ([function("1a2b")], [function("3c4d", "sort_out")], "classify(k) -> sort_out(k)"),
    ([function("1a2b")], [function("1a2b", "classify", A)], "k -> a in classify(a)"),
    ([read("n")], [read("n", dateformat="yyyy")], "options: dateformat its default -> 'yyyy'"),
    ([field_of(read("k"), "k")], [field_of(read("n"), "n")], "from_json(k).k -> from_json(k).n"),
    ([looked_up("rows#1f")], [looked_up("rows#2e")], "the rows of a table that the code gives changed"),
    ([looked_up("/labels#1f")], [looked_up("/labels#2e")], "what is read of /labels changed"),
    ([parsed("k")], [parsed("k", "coupon", "items")], "the schema has 2 fields more: coupon, items"),
    ([parsed("k", "old")], [parsed("k")], "the schema has 1 field less: old"),
    ([parsed("k", "l")], [parsed("l", "k")], "the fields of a schema are in another order"),
    ([Call("cast", (A,), (("dataType", Literal("int")),))], [Call("cast", (A,), (("dataType", Literal("long")),))],
     "int -> long in CAST(a AS long)"),
    ([field_of(A, "x")], [field_of(A, "y")], "x -> y in a.y"),
    ([windowed(900)], [windowed(300)], "...ond_long_name, a_third_long_name), 15 minutes) -> "
     "...ond_long_name, a_third_long_name), 5 minutes)"),
    ([Literal("1", "long")], [Literal("1", "integer")], "1 -> something that reads the same (--verbose shows it)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "told"), CASES, ids=[told or "nothing" for *_, told in CASES])
def test_what_differs(old: list[Expression], new: list[Expression], told: str) -> None:
    assert describe_differences(old, new) == told


def test_it_is_short_however_much_differs() -> None:
    long = [Call("concat", tuple(Column("orders", f"{name}_{n}") for n in range(40))) for name in "abcdefgh"]
    for old, new in (([], long), (long, []), (long, [K]), (long[:4], long[4:]), (long, long[::-1])):
        told = describe_differences(old, new)
        assert 0 < len(told) <= MOST + len("; and 99 more") and "more" in told


MANY = [f"column_{n}_of_a_wide_table" for n in range(60)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (stage_plan(definition={"keys": ["s.k"]}), stage_plan(definition={"keys": [f"s.{name}" for name in MANY]})),
        (stage_plan(definition={"keys": [f"upper(s.{'x' * 900})"]}), stage_plan(definition={"keys": ["?x"]})),
        (
            stage_plan(kind="transform-with-state", operator="t", definition={"code": "#1", "state variables": [
                f"{name}: ValueState" for name in MANY]}),
            stage_plan(kind="transform-with-state", operator="t", definition={"code": "#2", "keys": MANY}),
        ),
    ],
)  # fmt: skip
def test_a_problem_has_300_characters_and_its_details_have_all(old: StagePlan, new: StagePlan) -> None:
    report = compare(app_plan(query_plan(old)), app_plan(query_plan(new)), "s1")
    [item] = [item for item in report.items if item.blocks]
    assert len(item.reason) <= 300 and len(item.details) > 300, item.reason


def test_a_long_value_is_cut_and_what_to_do_is_not() -> None:
    sinks = (SinkPlan(format="kafka", options=dict.fromkeys(MANY, "x")) for _ in range(2))
    plans = (app_plan(attrs.evolve(query_plan(), sink=sink)) for sink in sinks)
    [item] = [item for item in compare(*plans, "s1", beside=()).items if item.name == "windows:fork"]
    assert len(item.reason) <= 300 and "(a Delta table's txn) accepts both" in item.reason


def test_what_importing_a_module_does_is_told_by_the_module_s_name() -> None:
    plans = (attrs.evolve(query_plan(), conf={PYTHON_IMPORTS: f"helpers#1a{n}, rates#3c4d"}) for n in "bc")
    [item] = [item for item in compare(*map(app_plan, plans), "s1").items if item.thing == "setting"]
    assert item.reason.startswith("python.imports changed (helpers): what importing") and "helpers#1ab" in item.details
