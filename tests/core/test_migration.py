"""The rules of migration: pure functions of two stage plans."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.core.checkpoint.join_state import COUNTS, ROWS, ROWS_BY_TIME, TIMES
from airflow_provider_streamupdate.core.checkpoint.snapshot import QuerySnapshot, SnapshotFile
from airflow_provider_streamupdate.core.compatibility.compatibility import compare
from airflow_provider_streamupdate.core.compatibility.migration import (
    Derived,
    Migration,
    NewKey,
    describe,
    plan_migration,
)
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, LOSS, MIGRATED, REFUSED
from airflow_provider_streamupdate.core.plan.expressions import Call, Column, Expression, Literal, Window
from airflow_provider_streamupdate.core.plan.plan import AggregateBuffer, Aggregation, StagePlan, StateSchema
from airflow_provider_streamupdate.core.snapshots.restore import plan_restore

from .builders import app_plan, expression, query_plan, stage_plan, watermark

COUNT = AggregateBuffer(function="Count", columns=1, initial=("0L",))
SUM = AggregateBuffer(function="Sum", columns=1, initial=("CAST(NULL AS BIGINT)",))
AVERAGE = AggregateBuffer(function="Average", columns=2, initial=("0.0D", "0L"))
FIRST = AggregateBuffer(function="First", columns=2, initial=("CAST(NULL AS BIGINT)", "false"))
SKETCH = AggregateBuffer(function="HyperLogLogPlusPlus", columns=2)
MINUTE = 60_000_000

# name of an aggregate -> its buffer and the types of its columns
KNOWN: dict[str, tuple[AggregateBuffer, list[Any]]] = {
    "count(1)": (COUNT, ["long"]),
    "count(s.a)": (COUNT, ["long"]),
    "count(s.d)": (COUNT, ["long"]),
    "count(s.x)": (COUNT, ["long"]),
    "sum(s.d)": (SUM, ["double"]),
    "sum(s.x)": (AggregateBuffer(function="Sum", columns=2), ["decimal(22,2)", "boolean"]),
    "average(s.d)": (AVERAGE, ["double", "long"]),
    "average(s.x)": (AVERAGE, ["decimal(22,2)", "long"]),
    "variancepop(s.d)": (AggregateBuffer(function="VariancePop", columns=3, initial=("0.0D",) * 3), ["double"] * 3),
    "skewness(s.d)": (AggregateBuffer(function="Skewness", columns=4, initial=("0.0D",) * 4), ["double"] * 4),
    "sum(s.a)": (SUM, ["long"]),
    "sum(s.b)": (SUM, ["long"]),
    "max(s.i)": (AggregateBuffer(function="Max", columns=1, initial=("CAST(NULL AS INT)",)), ["integer"]),
    "average(s.a)": (AVERAGE, ["double", "long"]),
    "first(s.a)": (FIRST, ["long", "boolean"]),
    "approx(s.a)": (SKETCH, ["long", "long"]),
}


def row(types: list[Any]) -> dict[str, Any]:
    fields = [{"name": f"f{i}", "type": t, "nullable": True, "metadata": {}} for i, t in enumerate(types)]
    return {"type": "struct", "fields": fields}


def stage(
    keys: Sequence[str | Expression], aggregates: list[str], types: dict[str, list[Any]] | None = None, **changes: Any
) -> StagePlan:
    kinds = {**{name: kind for name, (_, kind) in KNOWN.items()}, **(types or {})}
    key_types = [kinds.get(str(k), ["string"])[0] for k in keys]
    value_types = [t for name in aggregates for t in kinds[name]]
    return stage_plan(
        "totals",
        definition=Aggregation(
            keys=tuple(key if isinstance(key, Expression) else expression(key) for key in keys),
            aggregates=tuple(map(expression, aggregates)),
        ),
        schemas=(StateSchema(name="default", key=row(key_types), value=row(value_types)),),
        buffers=tuple(KNOWN[name][0] for name in aggregates),
        aggregated=tuple(Call("", expression(name).children) for name in aggregates),
        **changes,
    )


def window(size: int, start: int = 0, slide: int | None = None) -> Window:
    return Window(expression("s.t"), size * MINUTE, (slide or size) * MINUTE, start * MINUTE, "w")


def windowed(
    size: int, start: int = 0, slide: int | None = None, aggregates: tuple[str, ...] = ("count(1)",)
) -> StagePlan:
    key = window(size, start, slide)
    return stage([key, "s.k"], list(aggregates), {str(key): [{"type": "struct", "fields": []}]})


def migration(old: StagePlan, new: StagePlan, watermarks: tuple[str, ...] = ()) -> Migration:
    found = plan_migration(old, new, map(watermark, watermarks))
    assert isinstance(found, Migration), found
    return found


def test_aggregates_are_added_dropped_and_put_in_order() -> None:
    found = migration(
        stage(["s.k"], ["sum(s.a)", "count(1)"]), stage(["s.k"], ["count(1)", "average(s.a)", "sum(s.a)"])
    )
    assert (found.aggregates, found.keys, found.merge, found.moves) == ((1, None, 0), (NewKey(source=0),), False, False)
    assert found.steps == ("adds avg(s.a)", "puts the aggregates in their new order")
    assert found.losses == ()
    found = migration(stage(["s.k"], ["sum(s.a)", "count(1)"]), stage(["s.k"], ["count(1)"]))
    assert (found.aggregates, found.losses) == ((1,), ("the values of sum(s.a) are lost",))


@pytest.mark.parametrize(
    ("kept", "added", "places"),
    [
        (["sum(s.a)", "count(s.a)"], "average(s.a)", (0, 1)),
        (["count(s.d)", "sum(s.d)"], "average(s.d)", (1, 0)),
        (["sum(s.x)", "count(s.x)"], "average(s.x)", (0, 1)),
        (["average(s.a)"], "count(s.a)", (0,)),
        (["average(s.d)"], "sum(s.d)", (0,)),
        (["average(s.x)"], "sum(s.x)", (0,)),
        (["skewness(s.d)"], "variancepop(s.d)", (0,)),
        # rows without a value are counted, too; a double is no sum of integers; a moment less is kept
        (["sum(s.a)", "count(1)"], "average(s.a)", None),
        (["sum(s.b)", "count(s.a)"], "average(s.a)", None),
        (["average(s.a)"], "sum(s.a)", None),
        (["variancepop(s.d)"], "skewness(s.d)", None),
    ],
)
def test_an_added_aggregate_that_the_state_knows_is_computed_and_nothing_is_asked(
    kept: list[str], added: str, places: tuple[int, ...] | None
) -> None:
    old, new = stage(["s.k"], kept), stage(["s.k"], [*kept, added])
    assert migration(old, new).aggregates[-1] == (None if places is None else Derived(places=places))
    [item] = [i for i in compare(*(app_plan(query_plan(s)) for s in (old, new)), "s1").items if i.thing == "stage"]
    assert (item.verdict, item.needs_agreement) == ((LOSS, True) if places is None else (MIGRATED, False))


def test_a_computed_aggregate_is_merged_when_a_key_is_dropped_too() -> None:
    kept = ["sum(s.a)", "count(s.a)"]
    found = migration(stage(["s.k", "s.l"], kept), stage(["s.l"], [*kept, "average(s.a)"]))
    assert (found.aggregates[-1], found.merge, found.losses) == (Derived(places=(0, 1)), True, ())


def test_an_aggregate_of_another_argument_is_no_replacement_of_what_it_is_computed_from() -> None:
    found = migration(stage(["s.k"], ["average(s.d)"]), stage(["s.k"], ["sum(s.d)"]))
    assert (found.aggregates, found.losses) == ((Derived(places=(0,)),), ("the values of avg(s.d) are lost",))


def decimals(function: str, kind: str, columns: list[Any], unscaled: bool, name: str = "total") -> StagePlan:
    """A sum or an average of a column of decimals."""
    column = Column("s", "x", kind)
    inner = Call("unscaledvalue", (Call("scaled", (column,), (("type", Literal(kind)),)),)) if unscaled else column
    buffer = AggregateBuffer(function=function, columns=len(columns), operand=kind, unscaled=unscaled)
    return stage_plan(
        "totals",
        definition=Aggregation(keys=(expression("s.k"),), aggregates=(Call(function.lower(), (inner,)),)),
        schemas=(StateSchema(name="default", key=row(["string"]), value=row(columns)),),
        buffers=(buffer,),
        aggregated=(Call("", (column,)),),
        results=(name,),
    )


SUMS = {
    6: (["long"], True),
    8: (["long"], True),
    10: (["decimal(20,2)", "boolean"], False),
    18: (["decimal(28,2)", "boolean"], False),
}
AVERAGES = {
    6: (["double", "long"], True),
    10: (["double", "long"], True),
    18: (["decimal(28,2)", "long"], False),
}


@pytest.mark.parametrize("function", ["Sum", "Average"])
def test_decimals_get_more_digits_whatever_form_spark_keeps_their_sums_in(function: str) -> None:
    forms = SUMS if function == "Sum" else AVERAGES
    made = {digits: decimals(function, f"decimal({digits},2)", *form) for digits, form in forms.items()}
    for few, many in itertools.permutations(made, 2):
        report = compare(*(app_plan(query_plan(made[n])) for n in (few, many)), "s1")
        [item] = [i for i in report.items if i.thing == "stage"]
        assert item.verdict == (MIGRATED if few < many else REFUSED), (few, many, item)
        if few < many:
            name = "sum" if function == "Sum" else "avg"
            assert f"{name}(s.x): decimal({few},2) -> decimal({many},2)" in item.reason
            assert "unscaledvalue" not in item.reason


def test_the_columns_of_a_state_have_names_of_their_own_and_their_scale() -> None:
    value = {"type": "struct", "fields": [
        {"name": n, "type": t, "nullable": True, "metadata": {}}
        for n, t in (("sum", "long"), ("sum", "double"), ("count", "long"), ("sum", "double"), ("count", "long"))
    ]}  # fmt: skip
    unscaled = [
        AggregateBuffer(function=f, columns=n, operand="decimal(6,2)", unscaled=True)
        for f, n in (("Sum", 1), ("Average", 2))
    ]
    made = stage_plan(
        "totals",
        schemas=(StateSchema(name="default", key=row(["string"]), value=value),),
        buffers=(*unscaled, AVERAGE),
        results=("total", "mean", "mean"),
    )
    assert describe(made) == (
        "f0 string -> total_sum decimal(16,2), mean_sum decimal(16,2), mean_count bigint, mean_sum_2 double, "
        "mean_count_2 bigint"
    )
    assert describe(attrs.evolve(made, results=())) == (
        "f0 string -> sum decimal(16,2), sum_2 decimal(16,2), count bigint, sum_3 double, count_2 bigint"
    )


MARK = ("s.t delayed by 1000 ms",)
COUNT_ONLY = ["count(1)"]
PER_WINDOW = window(10)
HOUR = "hour(s.t, timeZoneId=UTC)"
CLOSED = "have left the state"


@pytest.mark.parametrize(
    ("old", "new", "watermarks", "words"),
    [
        (stage(["s.k"], ["sum(s.a)"]), stage(["s.k"], ["sum(s.b)"]), (), "sum(s.a) removed and sum(s.b) added"),
        (
            stage(["s.k"], COUNT_ONLY),
            stage(["s.k"], ["count(1)", "approx(s.a)"]),
            (),
            "the initial value of approx(s.a) is unknown",
        ),
        (stage(["s.k", "s.l"], ["first(s.a)"]), stage(["s.l"], ["first(s.a)"]), (), "first(s.a) of two groups"),
        # a key that the watermark closes; beside the window that does so others may be dropped
        (windowed(10), stage(["s.k"], COUNT_ONLY), MARK, CLOSED),
        *(
            (stage(keys, COUNT_ONLY), stage(kept, COUNT_ONLY), MARK, CLOSED)
            for keys, kept in (
                ([PER_WINDOW, HOUR], [HOUR]),
                ([HOUR, PER_WINDOW], [PER_WINDOW]),
                ([HOUR, "s.k"], ["s.k"]),
            )
        ),
        # windows that do not fit into each other, and sliding ones
        *((windowed(10), windowed(size), (), "no multiple") for size in (15, 5)),
        (windowed(10), windowed(20, 5), (), "offset"),
        (windowed(10, slide=5), windowed(20, slide=5), (), "write a migration function for "),
        (windowed(10), windowed(20, slide=10), (), "write a migration function for "),
        # other keys: the report names the state's form, which the function names (docs/guides/migrate.md)
        *(
            (stage(keys, COUNT_ONLY), stage(others, COUNT_ONLY), (), "write a migration function for 'f0 string")
            for keys, others in ((["s.k"], ["s.m"]), (["s.k", "s.l"], ["s.l", "s.k"]))
        ),
        # a float key
        (*(stage(["s.k"], COUNT_ONLY, {"s.k": [t]}) for t in ("float", "double")), (), "None"),
        # what is not understood is left to the other rules
        *(
            (
                *(attrs.evolve(stage(["s.k"], names), **changes) for names in (COUNT_ONLY, ["count(1)", "sum(s.a)"])),
                (),
                "None",
            )
            for changes in ({"buffers": ()}, {"kind": "limit", "operator": "globalLimit"})
        ),
        # nor is what could not be compared
        *(
            (stage([key], COUNT_ONLY), stage([key], ["count(1)", "sum(s.a)"]), (), "None")
            for key in ("python:shorten(s.k)", "?k")
        ),
    ],
)
def test_what_is_not_migrated(old: StagePlan, new: StagePlan, watermarks: tuple[str, ...], words: str) -> None:
    found = plan_migration(old, new, map(watermark, watermarks))
    assert not isinstance(found, Migration) and words in str(found)


@pytest.mark.parametrize(
    ("old", "new", "fits"),
    [
        ("integer", "long", True),
        ("byte", "integer", True),
        ("long", "integer", False),
        ("float", "double", False),
        ("integer", "double", False),
        ("decimal(10,2)", "decimal(12,3)", True),
        ("decimal(10,2)", "decimal(11,3)", True),
        ("decimal(10,2)", "decimal(10,3)", False),
        ("decimal(10,2)", "decimal(12,1)", False),
        ("string", "binary", False),
        (row(["integer"]), row(["long", "string"]), True),
        (row(["integer", "string"]), row(["integer"]), False),
        ({"type": "array", "elementType": "integer"}, {"type": "array", "elementType": "long"}, True),
    ],
)
def test_which_types_widen(old: Any, new: Any, fits: bool) -> None:
    found = plan_migration(*(stage(["s.k"], ["max(s.i)"], {"max(s.i)": [t]}) for t in (old, new)))
    assert isinstance(found, Migration) == fits
    assert found is None or isinstance(found, Migration)


def test_a_new_field_of_a_struct_has_to_be_nullable_and_last() -> None:
    old = row(["integer", "string"])
    required = row(["integer", "string", "long"])
    required["fields"] = [*required["fields"][:2], {**required["fields"][2], "nullable": False}]
    first = {**old, "fields": [{**old["fields"][0], "name": "new"}, *old["fields"]]}
    for new in (required, first):
        assert plan_migration(*(stage(["s.k"], ["max(s.i)"], {"max(s.i)": [t]}) for t in (old, new))) is None


def test_a_wider_key_moves_its_rows() -> None:
    found = migration(*(stage(["s.k"], ["count(1)"], {"s.k": [t]}) for t in ("integer", "long")))
    assert (found.moves, found.merge) == (True, False)


def test_a_key_is_dropped_when_all_aggregates_can_be_merged() -> None:
    found = migration(stage(["s.k", "s.l"], ["count(1)", "average(s.a)"]), stage(["s.l"], ["count(1)", "average(s.a)"]))
    assert (found.keys, found.merge, found.moves) == ((NewKey(source=1),), True, True)
    migration(windowed(10), stage(["s.k"], ["count(1)"]))
    migration(stage([PER_WINDOW, HOUR], COUNT_ONLY), stage([PER_WINDOW], COUNT_ONLY), MARK)


def test_what_cannot_be_merged_may_be_dropped_with_the_key() -> None:
    found = migration(stage(["s.k", "s.l"], ["count(1)", "first(s.a)"]), stage(["s.l"], ["count(1)"]))
    assert found.losses == ("the values of first(s.a) are lost",)


def test_windows_grow_to_a_multiple_with_a_loss_when_there_is_a_watermark() -> None:
    found = migration(windowed(10), windowed(60, start=20))
    assert found.keys[0].window is not None and found.keys[0].window.size == 60 * MINUTE
    assert (found.merge, found.losses) == (True, ())
    [loss] = migration(windowed(10), windowed(60), ("s.t delayed by 1000 ms",)).losses
    assert "lacks the rows of its parts" in loss


def test_a_function_of_the_app_goes_before_the_rules_but_only_for_its_state() -> None:
    old = stage(["s.k"], ["sum(s.a)"])
    new = stage(["s.l"], ["first(s.a)"], migrates=("f0 string -> f0 bigint",))
    assert describe(old) == "f0 string -> f0 bigint"
    assert migration(old, new).by_function
    assert not isinstance(plan_migration(stage(["s.k"], ["average(s.a)"]), new), Migration)
    assert plan_migration(new, new) is None


@pytest.mark.parametrize(
    ("kind", "operator"),
    [
        ("session-window", "sessionWindowStateStoreSaveExec"),
        ("deduplicate", "dedupe"),
        ("apply-in-pandas-with-state", "applyInPandasWithState"),
    ],
)
def test_other_kinds_are_migrated_by_a_function_only_and_only_to_another_form(kind: str, operator: str) -> None:
    def made(*keys: str, **changes: Any) -> StagePlan:
        return attrs.evolve(stage([*keys], ["count(1)"]), kind=kind, operator=operator, buffers=(), **changes)

    old, given = made("s.k"), {"migrates": ("f0 string -> f0 bigint",)}
    assert "write a migration function for 'f0 string -> f0 bigint'" in str(plan_migration(old, made("s.k", "s.l")))
    assert migration(old, made("s.k", "s.l", **given)).by_function
    assert "before and after the change" in str(plan_migration(old, made("s.l", **given)))


def join_plan(
    *left: tuple[str, str],
    keys: str = "s.k",
    provenance: str = "s",
    parts: tuple[str, ...] = (COUNTS, ROWS),
    migrates: tuple = (),
) -> StagePlan:
    """A join whose left side has these columns (name, type); the stores of each side."""

    def struct(*columns: tuple[str, str]) -> dict[str, Any]:
        return {
            "type": "struct",
            "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns],
        }

    matched = ("matched", "boolean")
    schemas = []
    for side, columns in (("left", left), ("right", (("b", "long"),))):
        known = {
            COUNTS: (struct(("field0", "string")), struct(("value", "long"))),
            ROWS: (struct(("field0", "string"), ("index", "long")), struct(*columns, matched)),
            TIMES: ({"encoder": {}, "row": struct(("field0", "string"), ("time", "long"))}, struct(("no", "void"))),
            ROWS_BY_TIME: (
                {"encoder": {}, "row": struct(("field0", "string"), ("time", "long"))},
                struct(*columns, matched),
            ),
        }
        for part in parts:
            key, value = known.get(part, known[ROWS])
            schemas.append(StateSchema(name=f"{side}-{part}", key=key, value=value))
    return stage_plan(
        "pairs",
        kind="join",
        operator="symmetricHashJoin",
        definition={"keys": [keys], "left columns": [f"{provenance}.{n}" for n, _ in left], "right columns": ["t.b"]},
        schemas=tuple(schemas),
        stores=tuple(s.name for s in schemas),
        migrates=migrates,
    )


LEFT = "field0 string -> a bigint, matched boolean"


@pytest.mark.parametrize("parts", [(COUNTS, ROWS), (TIMES, ROWS_BY_TIME)])
def test_a_join_s_side_is_rewritten_by_a_function_of_its_own(parts: tuple[str, ...]) -> None:
    joined = functools.partial(join_plan, parts=parts)
    old, wider = joined(("a", "long")), (("a", "long"), ("c", "long"))
    found = migration(old, joined(*wider, migrates=(f"left: {LEFT}",)))
    assert [(p.name, p.by_function) for p in found.parts] == [("left", True)]
    report = compare(app_plan(query_plan(old)), app_plan(query_plan(joined(*wider))), "snapshot s1")
    assert not report.compatible
    assert f"write a migration function for pairs/left from {LEFT!r} (@app.migrate)" in report.problems[0]
    assert plan_migration(old, old) is None


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (join_plan(("a", "long")), join_plan(("a", "long"), keys="s.l"), "before and after the change"),
        (join_plan(("a", "long")), join_plan(("a", "long"), provenance="other"), "before and after the change"),
        (
            join_plan(("a", "long"), parts=("other",)),
            join_plan(("a", "string"), parts=("other",)),
            "an unknown format",
        ),
    ],
)
def test_a_join_whose_state_cannot_be_told_or_read_is_refused_with_the_reason(
    old: StagePlan, new: StagePlan, words: str
) -> None:
    new = attrs.evolve(new, migrates=(f"left: {LEFT}", "right: field0 string -> b bigint, matched boolean"))
    report = compare(app_plan(query_plan(old)), app_plan(query_plan(new)), "snapshot s1")
    assert not report.compatible and words in report.problems[0]


def tws(*variables: tuple[str, str, Any], migrates: tuple[str, ...] = ()) -> StagePlan:
    """A transformWithState grouped by one string; its variables: name, kind, value's type (of a row)."""
    grouping = row(["string"])
    key = {"encoder": {}, "row": grouping, "user_key": ""}
    composite = {**key, "row": row([grouping, row(["string"])])}
    made = [StateSchema(name=n, key=composite if "Map" in kind else key, value=value) for n, kind, value in variables]
    return stage_plan(
        "totals",
        kind="transform-with-state",
        operator="transformWithStateInPySparkExec",
        definition={"keys": ["s.k"], "time mode": "None", "state variables": [f"{n}: {k}" for n, k, _ in variables]},
        schemas=tuple(made),
        migrates=migrates,
    )


COUNTED = ("n", "ValueState", row(["integer"]))


@pytest.mark.parametrize(
    ("kind", "old", "new", "words"),
    [
        ("ValueState", row(["integer"]), row(["long", "string"]), "adds fields to or widens n: f0 string -> f0 int"),
        (
            "ListState",
            row(["integer"]),
            row(["long"]),
            "adds fields to or widens n: f0 string -> array<struct<f0:int>>",
        ),
        ("MapState", row(["integer"]), row(["long"]), "n: f0 string -> map<struct<f0:string>,struct<f0:int>>"),
        (
            "ValueState with TTL",
            row([row(["integer"]), "long"]),
            row([row(["integer", "string"]), "long"]),
            "adds fields to or widens n: f0 string -> f0 struct<f0:int>, f1 bigint",
        ),
        ("ValueState", row(["long"]), row(["integer"]), "write a migration function for totals/n from"),
        ("ValueState", row(["integer", "long"]), row(["integer"]), "write a migration function for totals/n from"),
        (
            "ValueState",
            row(["integer"]),
            row(["integer", "interval year"]),
            "type interval year, which cannot be written",
        ),
    ],
)
def test_state_variables_grow_by_themselves(kind: str, old: Any, new: Any, words: str) -> None:
    found = plan_migration(tws(("n", kind, old), ("m", *COUNTED[1:])), tws(("n", kind, new), ("m", *COUNTED[1:])))
    shown = found.steps[0] if isinstance(found, Migration) else str(found)
    assert words in shown
    if isinstance(found, Migration):
        assert [v.name for v in found.parts] == ["n"] and not found.parts[0].by_function


def test_a_state_variable_has_a_function_of_its_own() -> None:
    old, texts = tws(COUNTED), ("n", "ValueState", row(["string"]))
    found = migration(old, tws(texts, migrates=("n: f0 string -> f0 int",)))
    assert found.parts[0].by_function and "the app's own function rewrites n" in found.steps[0]
    assert isinstance(plan_migration(old, tws(texts, migrates=("m: f0 string -> f0 int",))), str)
    kept = row([row(["integer"]), "long"])
    given = ("n: f0 string -> f0 struct<f0:int>, f1 bigint",)
    living = tws(("n", "ValueState with TTL", row([row(["string"]), "long"])), migrates=given)
    assert migration(tws(("n", "ValueState with TTL", kept)), living).parts[0].by_function


def test_a_state_variable_that_is_gone_is_removed_from_the_store() -> None:
    old, new = tws(COUNTED, ("gone", "ListState", row(["long"]))), tws(COUNTED, ("added", "ListState", row(["long"])))
    assert migration(old, new).dropped == ("gone",)
    assert plan_migration(new, tws(COUNTED, ("added", "ListState", row(["long"])), ("more", *COUNTED[1:]))) is None
    report = compare(app_plan(query_plan(old)), app_plan(query_plan(new)), "snapshot s1", ("windows/totals",))
    assert report.compatible and [i.verdict for i in report.items if i.thing == "stage"] == [LOSS]


# In the report and in the restore


def test_the_report_says_what_is_done_and_asks_for_agreement_to_a_loss_only() -> None:
    def verdict(old: StagePlan, new: StagePlan, agree: tuple[str, ...] = ()) -> tuple[str, bool, bool]:
        found = compare(app_plan(query_plan(old)), app_plan(query_plan(new)), "snapshot s1", agree)
        [item] = [i for i in found.items if i.thing == "stage"]
        return item.verdict, item.needs_agreement, found.compatible

    one, two = stage(["s.k"], ["average(s.a)"]), stage(["s.k"], ["average(s.a)", "count(s.a)"])
    assert verdict(one, one) == (CARRIED, False, True)
    assert verdict(one, two) == (MIGRATED, False, True)
    assert verdict(two, one) == (LOSS, True, False)
    assert verdict(two, one, ("windows/totals",)) == (LOSS, True, True)
    assert verdict(one, stage(["s.k"], ["sum(s.a)"]))[0] == REFUSED


def test_the_files_of_a_migrated_stage_are_not_moved() -> None:
    files = tuple(
        SnapshotFile(path=p, size=1, object=p)
        for p in ("metadata", "offsets/3", "state/0/0/4.zip", "state/0/0/SSTs/a.sst", "state/1/0/4.zip")
    )
    snapshot = QuerySnapshot(batch=3, query_id="q", files=files)
    kept = stage_plan("kept", 1)
    old, new = stage(["s.k"], ["count(1)"]), stage(["s.k"], ["count(1)", "sum(s.a)"], operator_id=1)
    plan = plan_restore(snapshot, query_plan(old, kept), query_plan(attrs.evolve(kept, operator_id=0), new))
    assert [(f.path, to) for f, to in plan.moves] == [("metadata", "metadata"), ("state/1/0/4.zip", "state/0/0/4.zip")]
    [rewritten] = plan.migrated
    assert (rewritten.old, rewritten.new, plan.empty) == (old, new, ())
