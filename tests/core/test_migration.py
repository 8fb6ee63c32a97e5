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
    PartChange,
    describe,
    plan_migration,
)
from airflow_provider_streamupdate.core.compatibility.report import CompatibilityReport
from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, LOSS, MIGRATED, REFUSED, ReportItem
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


def row(*types: Any) -> dict[str, Any]:
    return struct(*((f"f{i}", t) for i, t in enumerate(types)))


def struct(*columns: tuple[str, Any]) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in columns]
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
        schemas=(StateSchema(name="default", key=row(*key_types), value=row(*value_types)),),
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


def items(old: StagePlan, new: StagePlan, *agree: str) -> tuple[CompatibilityReport, ReportItem]:
    """What a report says, and what of the stage."""
    report = compare(app_plan(query_plan(old)), app_plan(query_plan(new)), "snapshot s1", agree)
    [item] = [i for i in report.items if i.thing == "stage"]
    return report, item


K, KL, L = ["s.k"], ["s.k", "s.l"], ["s.l"]


@pytest.mark.parametrize(
    ("old", "new", "aggregates", "keys", "merge", "dropped"),
    [
        ((K, ["sum(s.a)", "count(1)"]), (K, ["count(1)", "average(s.a)", "sum(s.a)"]), (1, None, 0), (0,), False, []),
        ((K, ["sum(s.a)", "count(1)"]), (K, ["count(1)"]), (1,), (0,), False, ["sum(s.a)"]),
        # a computed one is merged when a key is dropped, too
        (
            (KL, ["sum(s.a)", "count(s.a)"]),
            (L, ["average(s.a)"]),
            (Derived(places=(0, 1)),),
            (1,),
            True,
            ["sum(s.a)", "count(s.a)"],
        ),
        # one of another argument is no replacement of what it is computed from
        ((K, ["average(s.d)"]), (K, ["sum(s.d)"]), (Derived(places=(0,)),), (0,), False, ["avg(s.d)"]),
        # what cannot be merged may be dropped with the key
        ((KL, ["count(1)", "first(s.a)"]), (L, ["count(1)"]), (0,), (1,), True, ["first(s.a)"]),
        ((KL, ["count(1)", "average(s.a)"]), (L, ["count(1)", "average(s.a)"]), (0, 1), (1,), True, []),
    ],
)
def test_what_a_migration_does(
    old: tuple[list[str], list[str]],
    new: tuple[list[str], list[str]],
    aggregates: tuple[Any, ...],
    keys: tuple[int, ...],
    merge: bool,
    dropped: list[str],
) -> None:
    found = migration(stage(*old), stage(*new))
    assert (found.aggregates, found.keys) == (aggregates, tuple(NewKey(source=key) for key in keys))
    assert (found.merge, found.moves) == (merge, merge)
    assert found.losses == ()  # whoever drops an aggregate has said so; no result of the new version needs it
    assert {f"drops {name} with its values" for name in dropped} == {s for s in found.steps if "its values" in s}


def test_the_steps_of_a_migration_are_told() -> None:
    found = migration(stage(K, ["sum(s.a)", "count(1)"]), stage(K, ["count(1)", "average(s.a)", "sum(s.a)"]))
    assert found.steps == ("adds avg(s.a)", "puts the aggregates in their new order")


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
    old, new = stage(K, kept), stage(K, [*kept, added])
    assert migration(old, new).aggregates[-1] == (None if places is None else Derived(places=places))
    _, item = items(old, new)
    assert (item.verdict, item.needs_agreement) == ((LOSS, True) if places is None else (MIGRATED, False))


def decimals(function: str, kind: str, columns: list[Any], unscaled: bool, name: str = "total") -> StagePlan:
    """A sum or an average of a column of decimals."""
    column = Column("s", "x", kind)
    inner = Call("unscaledvalue", (Call("scaled", (column,), (("type", Literal(kind)),)),)) if unscaled else column
    buffer = AggregateBuffer(function=function, columns=len(columns), operand=kind, unscaled=unscaled)
    return stage_plan(
        "totals",
        definition=Aggregation(keys=(expression("s.k"),), aggregates=(Call(function.lower(), (inner,)),)),
        schemas=(StateSchema(name="default", key=row("string"), value=row(*columns)),),
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
AVERAGES = {6: (["double", "long"], True), 10: (["double", "long"], True), 18: (["decimal(28,2)", "long"], False)}


@pytest.mark.parametrize("function", ["Sum", "Average"])
def test_decimals_get_more_digits_whatever_form_spark_keeps_their_sums_in(function: str) -> None:
    forms = SUMS if function == "Sum" else AVERAGES
    made = {digits: decimals(function, f"decimal({digits},2)", *form) for digits, form in forms.items()}
    for few, many in itertools.permutations(made, 2):
        _, item = items(made[few], made[many])
        assert item.verdict == (MIGRATED if few < many else REFUSED), (few, many, item)
        if few < many:
            name = "sum" if function == "Sum" else "avg"
            assert f"{name}(s.x): decimal({few},2) -> decimal({many},2)" in item.reason
            assert "unscaledvalue" not in item.reason


def test_the_columns_of_a_state_have_names_of_their_own_and_their_scale() -> None:
    sums = ("sum", "long"), ("sum", "double"), ("count", "long"), ("sum", "double"), ("count", "long")
    unscaled = [
        AggregateBuffer(function=f, columns=n, operand="decimal(6,2)", unscaled=True)
        for f, n in (("Sum", 1), ("Average", 2))
    ]
    made = stage_plan(
        "totals",
        schemas=(StateSchema(name="default", key=row("string"), value=struct(*sums)),),
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


WRITE = "write a migration function for "


@pytest.mark.parametrize(
    ("old", "new", "watermarks", "words"),
    [
        (stage(K, ["sum(s.a)"]), stage(K, ["sum(s.b)"]), (), "sum(s.a) removed and sum(s.b) added"),
        (stage(K, COUNT_ONLY), stage(K, ["count(1)", "approx(s.a)"]), (), "initial value of approx(s.a) is unknown"),
        (stage(KL, ["first(s.a)"]), stage(L, ["first(s.a)"]), (), "first(s.a) of two groups"),
        # a key that the watermark closes; beside the window that does so others may be dropped
        (windowed(10), stage(K, COUNT_ONLY), MARK, CLOSED),
        (stage([PER_WINDOW, HOUR], COUNT_ONLY), stage([HOUR], COUNT_ONLY), MARK, CLOSED),
        (stage([HOUR, PER_WINDOW], COUNT_ONLY), stage([PER_WINDOW], COUNT_ONLY), MARK, CLOSED),
        (stage([HOUR, "s.k"], COUNT_ONLY), stage(K, COUNT_ONLY), MARK, CLOSED),
        # windows that do not fit into each other, and sliding ones
        (windowed(10), windowed(15), (), "no multiple"),
        (windowed(10), windowed(5), (), "no multiple"),
        (windowed(10), windowed(20, 5), (), "offset"),
        (windowed(10, slide=5), windowed(20, slide=5), (), WRITE),
        (windowed(10), windowed(20, slide=10), (), WRITE),
        # other keys: the report names the state's form, which the function names (docs/guides/migrate.md)
        (stage(K, COUNT_ONLY), stage(["s.m"], COUNT_ONLY), (), f"{WRITE}'f0 string"),
        (stage(KL, COUNT_ONLY), stage(["s.l", "s.m"], COUNT_ONLY), (), f"{WRITE}'f0 string"),
        # a float key
        (stage(K, COUNT_ONLY, {"s.k": ["float"]}), stage(K, COUNT_ONLY, {"s.k": ["double"]}), (), "None"),
        # what is not understood is left to the other rules, and so is what could not be compared
        *(
            (
                *(attrs.evolve(stage(K, names), **changes) for names in (COUNT_ONLY, ["count(1)", "sum(s.a)"])),
                (),
                "None",
            )
            for changes in ({"buffers": ()}, {"kind": "limit", "operator": "globalLimit"})
        ),
        *(
            (stage([key], COUNT_ONLY), stage([key], ["count(1)", "sum(s.a)"]), (), "None")
            for key in ("python:shorten(s.k)", "?k")
        ),
    ],
)
def test_what_is_not_migrated(old: StagePlan, new: StagePlan, watermarks: tuple[str, ...], words: str) -> None:
    found = plan_migration(old, new, map(watermark, watermarks))
    assert not isinstance(found, Migration) and words in str(found)


def fields(*changes: tuple[str, Any, bool]) -> dict[str, Any]:
    made = struct(*((name, kind) for name, kind, _ in changes))
    return {**made, "fields": [{**f, "nullable": c[2]} for f, c in zip(made["fields"], changes, strict=True)]}


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
        (row("integer"), row("long", "string"), True),
        (row("integer", "string"), row("integer"), False),
        # a new field of a struct has to be nullable and last
        (row("integer"), fields(("f0", "integer", True), ("f1", "long", False)), False),
        (row("integer"), fields(("new", "integer", True), ("f0", "integer", True)), False),
        ({"type": "array", "elementType": "integer"}, {"type": "array", "elementType": "long"}, True),
    ],
)
def test_which_types_widen(old: Any, new: Any, fits: bool) -> None:
    found = plan_migration(*(stage(K, ["max(s.i)"], {"max(s.i)": [t]}) for t in (old, new)))
    assert isinstance(found, Migration) if fits else found is None


def test_keys_get_wider_and_windows_grow() -> None:
    found = migration(*(stage(["s.k"], ["count(1)"], {"s.k": [t]}) for t in ("integer", "long")))
    assert (found.moves, found.merge) == (True, False)
    # the key of a window is dropped where no watermark has closed any or beside another
    migration(windowed(10), stage(K, COUNT_ONLY))
    migration(stage([PER_WINDOW, HOUR], COUNT_ONLY), stage([PER_WINDOW], COUNT_ONLY), MARK)
    # windows grow to a multiple with a loss when there is a watermark
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
    assert f"{WRITE}'f0 string -> f0 bigint'" in str(plan_migration(old, made("s.k", "s.l")))
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
    key, timed = ("field0", "string"), {"encoder": {}, "row": struct(("field0", "string"), ("time", "long"))}
    schemas = []
    for side, columns in (("left", left), ("right", (("b", "long"),))):
        value = struct(*columns, ("matched", "boolean"))
        known = {
            COUNTS: (struct(key), struct(("value", "long"))),
            ROWS: (struct(key, ("index", "long")), value),
            TIMES: (timed, struct(("no", "void"))),
            ROWS_BY_TIME: (timed, value),
        }
        for part in parts:
            of_part = known.get(part, known[ROWS])
            schemas.append(StateSchema(name=f"{side}-{part}", key=of_part[0], value=of_part[1]))
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


A_LONG = ("a", "long")


@pytest.mark.parametrize("parts", [(COUNTS, ROWS), (TIMES, ROWS_BY_TIME)])
def test_a_join_s_side_is_rewritten_by_a_function_of_its_own(parts: tuple[str, ...]) -> None:
    joined = functools.partial(join_plan, parts=parts)
    old, wider = joined(A_LONG), (A_LONG, ("c", "long"))
    found = migration(old, joined(*wider, migrates=(f"left: {LEFT}",)))
    assert [(p.name, p.by_function) for p in found.parts] == [("left", True)]
    report, _ = items(old, joined(("c", "long")))  # in place of the old column
    assert not report.compatible
    assert f"{WRITE}pairs/left from {LEFT!r} (@app.migrate)" in report.problems[0]
    assert plan_migration(old, old) is None


def test_a_join_s_column_more_is_null_where_that_is_agreed_to() -> None:
    old, wider = join_plan(A_LONG), join_plan(("c", "long"), A_LONG)
    report, _ = items(old, wider)
    assert f"a migration function for pairs/left from {LEFT!r}" in report.problems[0] and not report.compatible
    assert migration(old, wider).parts == (PartChange(name="left", by_function=False, keys=(0,), columns=(None, 0)),)
    [back] = migration(wider, old).parts
    assert back.columns == (1,) and not migration(wider, old).losses
    never_null = attrs.evolve(wider, schemas=tuple(_never_null(schema) for schema in wider.schemas))
    assert f"{WRITE}pairs/left" in str(plan_migration(old, never_null))
    assert f"{WRITE}pairs/left" in str(plan_migration(old, attrs.evolve(wider, never_null=(expression("s.c"),))))


def test_a_side_with_two_columns_of_one_name_is_not_rewritten_in_column_families() -> None:
    twice, by_time = (A_LONG, A_LONG, ("c", "long")), (TIMES, ROWS_BY_TIME)
    assert "two columns of one name" in str(
        plan_migration(join_plan(*twice, parts=by_time), join_plan(A_LONG, parts=by_time))
    )


def _never_null(schema: StateSchema) -> StateSchema:
    fields = [{**field, "nullable": False} for field in schema.value["fields"]]
    return attrs.evolve(schema, value={**schema.value, "fields": fields})


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (join_plan(A_LONG), join_plan(A_LONG, keys="s.l"), "before and after the change"),
        (join_plan(A_LONG), join_plan(A_LONG, provenance="other"), "before and after the change"),
        (
            join_plan(A_LONG, parts=("other",)),
            join_plan(("a", "string"), parts=("other",)),
            "its state format is unknown",
        ),
    ],
)
def test_a_join_whose_state_cannot_be_told_or_read_is_refused_with_the_reason(
    old: StagePlan, new: StagePlan, words: str
) -> None:
    new = attrs.evolve(new, migrates=(f"left: {LEFT}", "right: field0 string -> b bigint, matched boolean"))
    report, item = items(old, new)
    assert not report.compatible and words in f"{item.reason} {item.details}"


def tws(*variables: tuple[str, str, Any], migrates: tuple[str, ...] = ()) -> StagePlan:
    """A transformWithState grouped by one string; its variables: name, kind, value's type (of a row)."""
    grouping = row("string")
    key = {"encoder": {}, "row": grouping, "user_key": ""}
    composite = {**key, "row": row(grouping, row("string"))}
    made = [StateSchema(name=n, key=composite if "Map" in kind else key, value=value) for n, kind, value in variables]
    return stage_plan(
        "totals",
        kind="transform-with-state",
        operator="transformWithStateInPySparkExec",
        definition={"keys": ["s.k"], "time mode": "None", "state variables": [f"{n}: {k}" for n, k, _ in variables]},
        schemas=tuple(made),
        migrates=migrates,
    )


COUNTED = ("n", "ValueState", row("integer"))


@pytest.mark.parametrize(
    ("kind", "old", "new", "words"),
    [
        ("ValueState", row("integer"), row("long", "string"), "adds fields to or widens n: f0 string -> f0 int"),
        ("ListState", row("integer"), row("long"), "adds fields to or widens n: f0 string -> array<struct<f0:int>>"),
        ("MapState", row("integer"), row("long"), "n: f0 string -> map<struct<f0:string>,struct<f0:int>>"),
        (
            *("ValueState with TTL", row(row("integer"), "long"), row(row("integer", "string"), "long")),
            "adds fields to or widens n: f0 string -> f0 struct<f0:int>, f1 bigint",
        ),
        ("ValueState", row("long"), row("integer"), f"{WRITE}totals/n from"),
        ("ValueState", row("integer", "long"), row("integer"), f"{WRITE}totals/n from"),
        ("ValueState", row("integer"), row("integer", "interval year"), "type interval year, which cannot be written"),
    ],
)
def test_state_variables_grow_by_themselves(kind: str, old: Any, new: Any, words: str) -> None:
    found = plan_migration(tws(("n", kind, old), ("m", *COUNTED[1:])), tws(("n", kind, new), ("m", *COUNTED[1:])))
    shown = found.steps[0] if isinstance(found, Migration) else str(found)
    assert words in shown
    if isinstance(found, Migration):
        assert [v.name for v in found.parts] == ["n"] and not found.parts[0].by_function


def test_a_state_variable_has_a_function_of_its_own() -> None:
    old, texts = tws(COUNTED), ("n", "ValueState", row("string"))
    found = migration(old, tws(texts, migrates=("n: f0 string -> f0 int",)))
    assert found.parts[0].by_function and "the app's own function rewrites n" in found.steps[0]
    assert isinstance(plan_migration(old, tws(texts, migrates=("m: f0 string -> f0 int",))), str)
    kept = row(row("integer"), "long")
    given = ("n: f0 string -> f0 struct<f0:int>, f1 bigint",)
    living = tws(("n", "ValueState with TTL", row(row("string"), "long")), migrates=given)
    assert migration(tws(("n", "ValueState with TTL", kept)), living).parts[0].by_function


def test_a_state_variable_that_is_gone_is_removed_from_the_store() -> None:
    old, new = tws(COUNTED, ("gone", "ListState", row("long"))), tws(COUNTED, ("added", "ListState", row("long")))
    assert migration(old, new).dropped == ("gone",)
    assert plan_migration(new, tws(COUNTED, ("added", "ListState", row("long")), ("more", *COUNTED[1:]))) is None
    report = compare(app_plan(query_plan(old)), app_plan(query_plan(new)), "snapshot s1", ("windows/totals",))
    assert report.compatible and [i.verdict for i in report.items if i.thing == "stage"] == [LOSS]


def test_the_report_says_what_is_done_and_asks_for_agreement_to_a_loss_only() -> None:
    one, two = stage(K, ["average(s.a)"]), stage(K, ["average(s.a)", "count(s.a)"])
    more = stage(K, ["average(s.a)", "sum(s.b)"])
    for old, new, agree, verdict, asked, compatible in (
        (one, one, (), CARRIED, False, True),
        (one, two, (), MIGRATED, False, True),
        (two, one, (), MIGRATED, False, True),
        (one, more, (), LOSS, True, False),
        (one, more, ("windows/totals",), LOSS, True, True),
        (one, stage(K, ["sum(s.a)"]), (), REFUSED, False, False),
    ):
        report, item = items(old, new, *agree)
        assert (item.verdict, item.needs_agreement, report.compatible) == (verdict, asked, compatible)


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
