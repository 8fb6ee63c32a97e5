"""The rules for a stage: both plans have it under the same name. And for one that only one of them has."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from ..migration import variables
from ..plan import PYTHON, RESTORABLE_KINDS, UNKNOWN, QueryPlan, StagePlan, StateSchema
from ..report import CARRIED, EMPTY, IGNORED, LOSS, REFUSED
from ..stores import NAMES, PROVIDER, ROCKSDB, column_families
from .rule import Facts, Rule, differ

RESTART = "; give the changed stage another name to start it empty"
BY_POSITION = "StateSchemaCompatibilityChecker compares types by position, never names or expressions"
WRONG = BY_POSITION + "; measured: Spark restarts and computes wrong results"
FUNCTIONS = ("apply-in-pandas-with-state", "transform-with-state")
_WINDOW = re.compile(r"\(?window\(.*, #\w+\)+$")  # a sliding one is (window(...) | window(...)): a row is in several
_SESSION = re.compile(r"session_window\((.*), gap (.*), #\w+\)$")


@attrs.frozen(kw_only=True)
class StageChange:
    """A stage before and after, with the queries it is in."""

    old: StagePlan
    new: StagePlan
    before: QueryPlan
    after: QueryPlan

    def part(self, name: str) -> tuple[Any, Any]:
        return self.old.definition.get(name), self.new.definition.get(name)

    def lists(self, name: str) -> tuple[list[str], list[str]]:
        old, new = self.part(name)
        return list(old or ()), list(new or ())


def _of(*kinds: str) -> Callable[[Callable[[StageChange], Facts | None]], Callable[[StageChange], Facts | None]]:
    """Apply a predicate to stages that were and are of one of these kinds."""

    def limit(predicate: Callable[[StageChange], Facts | None]) -> Callable[[StageChange], Facts | None]:
        return lambda c: predicate(c) if c.old.kind == c.new.kind and c.new.kind in kinds else None

    return limit


def _changed(part: str) -> Callable[[StageChange], Facts | None]:
    return lambda c: differ(*c.part(part))


def _kind(c: StageChange) -> Facts | None:
    if (c.old.kind, c.old.operator) == (c.new.kind, c.new.operator):
        return None
    same = c.old.kind == c.new.kind
    return {"old": c.old.operator if same else c.old.kind, "new": c.new.operator if same else c.new.kind}


# Keys

_GROUPED = ("aggregate", "session-window")


def _windows(keys: list[str]) -> list[str]:
    return [k for k in keys if _WINDOW.match(k) or _SESSION.match(k)]


@_of(*_GROUPED)
def _session_gap(c: StageChange) -> Facts | None:
    old, new = ([m for k in keys if (m := _SESSION.match(k))] for keys in c.lists("keys"))
    return differ([m[2] for m in old], [m[2] for m in new]) if old and new and old[0][1] == new[0][1] else None


@_of(*_GROUPED)
def _window(c: StageChange) -> Facts | None:
    old, new = (_windows(keys) for keys in c.lists("keys"))
    return differ(old, new) if old and new and _session_gap(c) is None else None


@_of(*_GROUPED, "deduplicate", "deduplicate-within-watermark")
def _keys_swapped(c: StageChange) -> Facts | None:
    old, new = c.lists("keys")
    return differ(old, new) if sorted(old) == sorted(new) else None


@_of(*_GROUPED)
def _keys(c: StageChange) -> Facts | None:
    old, new = c.lists("keys")
    explained = sorted(old) == sorted(new) or (_windows(old) and _windows(new) and _others(old) == _others(new))
    return None if explained else differ(old, new)


def _others(keys: list[str]) -> list[str]:
    windows = _windows(keys)
    return [k for k in keys if k not in windows]


@_of("deduplicate", "deduplicate-within-watermark")
def _columns(c: StageChange) -> Facts | None:
    old, new = c.lists("keys")
    return None if sorted(old) == sorted(new) else differ(old, new)


# Aggregates


def _function(aggregate: str) -> str:
    return aggregate.removeprefix("distinct ").split("(", 1)[0]


@_of(*_GROUPED)
def _aggregates_order(c: StageChange) -> Facts | None:
    old, new = c.lists("aggregates")
    return differ(old, new) if sorted(old) == sorted(new) else None


@_of(*_GROUPED)
def _aggregates_number(c: StageChange) -> Facts | None:
    old, new = c.lists("aggregates")
    return differ(old, new) if len(old) != len(new) else None


@_of(*_GROUPED)
def _aggregate_arguments(c: StageChange) -> Facts | None:
    old, new = c.lists("aggregates")
    same = [_function(a) for a in old] == [_function(a) for a in new] and sorted(old) != sorted(new)
    return differ(old, new) if same else None


@_of(*_GROUPED)
def _aggregate_function(c: StageChange) -> Facts | None:
    old, new = c.lists("aggregates")
    others = len(old) == len(new) and [_function(a) for a in old] != [_function(a) for a in new]
    return differ(old, new) if others and sorted(old) != sorted(new) else None


def _filters(c: StageChange) -> Facts | None:
    if c.old.filters is None or c.new.filters is None:
        return None  # a plan of an earlier version of this package
    gone, added = (sorted({*a} - {*b}) for a, b in ((c.old.filters, c.new.filters), (c.new.filters, c.old.filters)))
    changes = [f"{word} {', '.join(texts)}" for word, texts in (("no longer", gone), ("now", added)) if texts]
    return {"changes": "; ".join(changes)} if changes else None


def _hidden_filters(c: StageChange) -> Facts | None:
    if c.old.filters is None or c.new.filters is None:
        return None
    gone = {*c.old.filters} - {*c.new.filters}
    hidden = gone if c.old.hidden is None else gone & {*c.old.hidden}
    return {"filters": ", ".join(sorted(hidden))} if hidden else None


# State functions


@_of(*FUNCTIONS)
def _code_unknown(c: StageChange) -> Facts | None:
    unknown = [str(code) for code in c.part("code") if not str(code).startswith("#")]
    return {"code": unknown[-1].removeprefix(PYTHON)} if unknown else None


@_of(*FUNCTIONS)
def _code(c: StageChange) -> Facts | None:
    return differ(*c.part("code")) if _code_unknown(c) is None else None


@_of(*FUNCTIONS)
def _input(c: StageChange) -> Facts | None:
    old, new = c.lists("input")
    return differ(sorted(set(old) - set(new)), sorted(set(new) - set(old)))


@_of(*FUNCTIONS)
def _input_order(c: StageChange) -> Facts | None:
    old, new = c.lists("input")
    return differ(old, new) if sorted(old) == sorted(new) else None


@_of("transform-with-state")
def _variable_changed(c: StageChange) -> Facts | None:
    old, new = variables(c.old), variables(c.new)
    both = sorted(name for name in old.keys() & new.keys() if old[name] != new[name])
    return differ([f"{n}: {old[n]}" for n in both], [f"{n}: {new[n]}" for n in both])


@_of("transform-with-state")
def _variable_gone(c: StageChange) -> Facts | None:
    gone = sorted(variables(c.old).keys() - variables(c.new).keys())
    return {"names": ", ".join(gone)} if gone else None


@_of("transform-with-state")
def _variable_new(c: StageChange) -> Facts | None:
    added = sorted(variables(c.new).keys() - variables(c.old).keys())
    return {"names": ", ".join(added)} if added else None


# What no rule above knows

_PARTS = {
    "aggregate": {"keys", "aggregates"},
    "session-window": {"keys", "aggregates"},
    "deduplicate": {"keys"},
    "deduplicate-within-watermark": {"keys"},
    "join": {"join type", "keys", "condition", "left columns", "right columns"},
    "limit": {"rows"},
    "apply-in-pandas-with-state": {"keys", "timeout", "code", "input"},
    "transform-with-state": {"keys", "time mode", "state variables", "code", "input", "initial state"},
}


def _other_part(c: StageChange) -> Facts | None:
    if c.old.kind != c.new.kind:
        return None
    for part in sorted({*c.old.definition, *c.new.definition} - _PARTS.get(c.new.kind, set())):
        if facts := differ(*c.part(part)):
            return {"part": part, **facts}
    return None


def _texts(value: Any) -> Iterator[str]:
    for inner in value if isinstance(value, (list, tuple)) else [value]:
        yield str(inner)


def _untraced(c: StageChange) -> Facts | None:
    for part, value in sorted(c.new.definition.items()):
        if found := [t for t in _texts(value) if part != "input" and _unknown(t)]:
            return {"part": part, "text": found[0]}
    return None


def _unknown(text: str) -> bool:
    """An unknown column anywhere in a text, not only at its beginning: ``max(?x)``."""
    return re.search(rf"(^|[ (,]){re.escape(UNKNOWN)}", text) is not None


def _python(c: StageChange) -> Facts | None:
    for part, value in sorted(c.new.definition.items()):
        if part not in ("code", "input") and (found := [t for t in _texts(value) if PYTHON in t]):
            return {"part": part, "text": found[0]}
    return None


def _ambiguous(c: StageChange) -> Facts | None:
    """Two unnamed stages that mean the same are told apart by their position alone: it may have changed."""
    if c.new.named or c.old.below == c.new.below:
        return None
    twins = [
        s.name
        for query in (c.before, c.after)
        for s in query.stages
        if s.name != c.new.name and not s.named and (s.kind, s.definition) == (c.new.kind, c.new.definition)
    ]
    return {"others": ", ".join(dict.fromkeys(twins))} if twins else None


# Schemas


def _schemas(c: StageChange) -> Iterator[tuple[StateSchema, str, Any, Any]]:
    """Key and value of every column family both have."""
    old = {s.name: s for s in c.old.schemas}
    for schema in c.new.schemas:
        if before := old.get(schema.name):
            yield schema, "key", before.key, schema.key
            yield schema, "value", before.value, schema.value


def _families(c: StageChange) -> Facts | None:
    """Stores and column families; those of transformWithState are its state variables."""
    if c.old.kind != c.new.kind or c.new.kind == "transform-with-state":
        return None
    old, new = (sorted({*s.stores, *(f.name for f in s.schemas)}) for s in (c.old, c.new))
    return differ(old, new)


def _type(c: StageChange) -> Facts | None:
    named = c.new.kind in FUNCTIONS
    for schema, part, old, new in _schemas(c) if c.old.kind == c.new.kind else ():
        if _types(old, named) != _types(new, named):
            where = "" if schema.name == "default" else f" {schema.name}"
            return {"part": part, "where": where, "old": old, "new": new}
    return None


def _nullable(c: StageChange) -> Facts | None:
    for schema, part, old, new in _schemas(c) if c.old.kind == c.new.kind else ():
        lost = [path for path, nullable in _nullability(new) if not nullable and dict(_nullability(old)).get(path)]
        if lost:
            return {"part": part, "columns": ", ".join(lost), "where": schema.name}
    return None


@_of("transform-with-state")
def _variable_nullability(c: StageChange) -> Facts | None:
    own = [(s.name, part, old, new) for s, part, old, new in _schemas(c) if not s.name.startswith("$")]
    values = [(name, old, new) for name, part, old, new in own if part == "value"]
    names = [n for n, old, new in values if _types(old, True) == _types(new, True) and _plain(old) != _plain(new)]
    return {"names": ", ".join(names)} if names else None


def _plain(schema: Any) -> Any:
    """A type without the metadata of its fields."""
    if isinstance(schema, dict):
        return {key: _plain(inner) for key, inner in schema.items() if key != "metadata"}
    return [_plain(inner) for inner in schema] if isinstance(schema, list) else schema


def _nullability(schema: Any, path: str = "") -> list[tuple[str, bool]]:
    """(position path, nullable) of every field."""
    found: list[tuple[str, bool]] = []
    fields = schema.get("fields", ()) if isinstance(schema, dict) else ()
    for number, field in enumerate(fields):
        here = f"{path}{number + 1}"
        found += [(here, bool(field.get("nullable", True))), *_nullability(field["type"], here + ".")]
    return found


def _types(schema: Any, names: bool) -> Any:
    """A Spark JSON type without names (unless they matter), nullability and metadata."""
    if isinstance(schema, dict):
        if schema.get("type") == "struct":
            return [
                "struct",
                *(
                    [f["name"], _types(f["type"], names)] if names else _types(f["type"], names)
                    for f in schema["fields"]
                ),
            ]
        return {k: _types(v, names) for k, v in schema.items() if k not in ("metadata", "containsNull")}
    return schema


def _same(c: StageChange) -> Facts | None:
    """Always: what is left when no other rule applies."""
    moved = "" if c.old.operator_id == c.new.operator_id else f", moved from {c.old.operator_id} to {c.new.operator_id}"
    return {"kind": c.new.kind, "where": f"operator {c.new.operator_id}{moved}"}


def _unknown_kind(c: StageChange) -> Facts | None:
    strange = [s for s in (c.old, c.new) if s.kind not in RESTORABLE_KINDS]
    return {"kind": strange[0].kind, "operator": strange[0].operator} if strange else None


_StageRule = Rule[StageChange]
_CHANGED = "{part} changed from {old} to {new}"

STAGE_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.same",
        verdict=CARRIED,
        change="nothing its state depends on: code around it, aliases of keys and aggregates, filters and projections "
        "that leave their meaning alone, the order of stages, other stages around it",
        reason="same {kind} ({where})",
        source="measured: no state byte is rewritten; its files go under the new operator id",
        tests=(
            "spark/test_restore_by_name.py::test_an_unchanged_stage_keeps_its_state",
            "spark/test_restore_by_name.py::test_a_rename_of_columns_is_no_change",
        ),
        applies=_same,
    ),
    _StageRule(
        id="stage.filters",
        verdict=CARRIED,
        change="a filter below it added, changed or removed: the new one holds for rows from now on",
        reason="rows from now on are filtered otherwise: {changes}; its state is of the rows that came before",
        source="Structured Streaming guide, Recovery semantics after changes in a streaming query: allowed",
        tests=("spark/test_restore_by_name.py::test_an_added_filter_is_no_change",),
        applies=_filters,
    ),
    _StageRule(
        id="stage.hidden-filter",
        verdict=LOSS,
        change="a filter removed or changed that is written above the stage, or follows from a join's condition, and "
        "that the optimizer had put below it (above an inner join, above the keys of an aggregation or a distinct)",
        reason="its state lacks the rows that {filters} kept out, though nothing below it says so: results that need "
        "these rows will be missing",
        source="PushPredicateThroughJoin, PushPredicateThroughNonJoin, InferFiltersFromConstraints; found by make fuzz",
        tests=("spark/test_hidden_filters.py::test_what_a_filter_above_kept_out_of_the_state_is_a_loss",),
        applies=_hidden_filters,
    ),
    _StageRule(
        id="stage.unknown-kind",
        verdict=REFUSED,
        change="a kind of stage that is not understood (flatMapGroupsWithState ...)",
        reason="state of a {kind} stage ({operator}) is not understood yet",
        source="no description of its state here",
        tests=("state/test_compatibility.py::test_a_stage_that_is_not_understood_is_refused",),
        applies=_unknown_kind,
    ),
    _StageRule(
        id="stage.kind",
        verdict=REFUSED,
        change="another kind of stage under the same name, e.g. a sliding window becomes a session window",
        reason="kind of stage changed from {old} to {new}" + RESTART,
        source="the operators' stores hold different rows; Spark checks the operator's name (OperatorStateMetadata)",
        tests=("spark/test_refused.py::test_sliding_to_session_windows_is_another_kind",),
        applies=_kind,
    ),
    _StageRule(
        id="stage.window",
        verdict=REFUSED,
        change="another window: size, slide, offset or column; tumbling to sliding; to a multiple or not",
        reason="keys changed: window from {old} to {new}" + RESTART,
        source=WRONG,
        tests=(
            "spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",
            "spark/test_migration.py::test_tumbling_windows_become_a_multiple",
        ),
        applies=_window,
        migratable=True,
    ),
    _StageRule(
        id="stage.session-gap",
        verdict=REFUSED,
        change="another gap of a session window",
        reason="keys changed: session gap from {old} to {new}: sessions in the state ended by the old gap" + RESTART,
        source="SessionWindowStateStoreSaveExec stores a session's end; measured: Spark restarts and mixes both gaps",
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_session_gap,
        migratable=True,
    ),
    _StageRule(
        id="stage.keys-order",
        verdict=REFUSED,
        change="the same grouping keys or deduplication columns in another order",
        reason="keys changed their order from {old} to {new}: the state's rows are by position" + RESTART,
        source=WRONG,
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_keys_swapped,
        migratable=True,
    ),
    _StageRule(
        id="stage.keys",
        verdict=REFUSED,
        change="other, more or fewer grouping keys; another column under the old name (a hidden rename upstream)",
        reason="keys changed from {old} to {new}" + RESTART,
        source=WRONG,
        tests=(
            "spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",
            "spark/test_migration.py::test_a_dropped_key_merges_its_groups_into_the_partition_they_belong_to",
            "spark/test_own_migration.py::test_sessions_lose_a_key_and_an_aggregate",
        ),
        applies=_keys,
        migratable=True,
    ),
    _StageRule(
        id="stage.deduplication-columns",
        verdict=REFUSED,
        change="other columns of a deduplication",
        reason="keys changed from {old} to {new}" + RESTART,
        source=WRONG,
        tests=(
            "spark/test_traps.py::test_another_deduplication_column",
            "spark/test_own_migration.py::test_a_deduplication_by_fewer_columns_knows_what_it_saw",
        ),
        applies=_columns,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregates-order",
        verdict=REFUSED,
        change="the same aggregates in another order in the state row; a reordered select right above an aggregation "
        "does that too, because the optimizer puts it into the aggregation",
        reason="aggregates changed their order from {old} to {new}: the state's rows are by position" + RESTART,
        source=WRONG + "; CollapseProject, PhysicalAggregation",
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_aggregates_order,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregates-number",
        verdict=REFUSED,
        change="aggregates added or dropped; one whose result nobody uses is dropped by the optimizer",
        reason="aggregates changed from {old} to {new}" + RESTART,
        source=BY_POSITION + "; another number of columns it refuses",
        tests=("spark/test_migration.py::test_dropped_added_and_reordered_aggregates",),
        applies=_aggregates_number,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregate-arguments",
        verdict=REFUSED,
        change="the same aggregate functions of other columns or with other parameters (the ordering of min_by, a "
        "filter, the accuracy of a sketch)",
        reason="aggregates changed from {old} to {new}: the state was built from other arguments" + RESTART,
        source=WRONG,
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_aggregate_arguments,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregate-function",
        verdict=REFUSED,
        change="another aggregate function (sum to max), with the same accumulator or another",
        reason="aggregates changed from {old} to {new}: the state holds other accumulators" + RESTART,
        source=WRONG,
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_aggregate_function,
        migratable=True,
    ),
    _StageRule(
        id="stage.join-type",
        verdict=REFUSED,
        change="another type of a stream-stream join",
        reason="join type changed from {old} to {new}: what was emitted or dropped so far followed the old one"
        + RESTART,
        source="StreamingSymmetricHashJoinExec: the type is not in the state; rows of one side may have been dropped",
        tests=("spark/test_join_changes.py::test_a_left_semi_join_has_not_kept_what_an_inner_one_needs",),
        applies=_of("join")(_changed("join type")),
    ),
    _StageRule(
        id="stage.join-keys",
        verdict=REFUSED,
        change="other join keys, or the same equalities in another order of the condition",
        reason="join keys changed from {old} to {new}: the state's rows are by position" + RESTART,
        source=WRONG + "; ExtractEquiJoinKeys",
        tests=(
            "spark/test_join_changes.py::test_another_column_does_not_find_what_lies_under_the_old_one",
            "spark/test_traps.py::test_the_order_of_a_join_s_equalities",
        ),
        applies=_of("join")(_changed("keys")),
        migratable=True,
    ),
    _StageRule(
        id="stage.join-condition",
        verdict=REFUSED,
        change="another condition beside a join's keys, e.g. another time range (their order does not count)",
        reason="join condition changed from {old} to {new}: rows were dropped and matched by the old one" + RESTART,
        source="StreamingJoinHelper.getStateValueWatermark: the time range decides what leaves the state",
        tests=(
            "spark/test_join_changes.py::test_a_wider_time_range_does_not_find_what_was_removed",
            "spark/test_refused.py::test_the_order_of_a_join_s_other_conditions_does_not_count",
        ),
        applies=_of("join")(_changed("condition")),
    ),
    _StageRule(
        id="stage.join-left",
        verdict=REFUSED,
        change="other columns of a join's left side (more are used above it, or they come from elsewhere)",
        reason="left columns of the join changed from {old} to {new}: the state holds whole rows" + RESTART,
        source=BY_POSITION,
        tests=("spark/test_refused.py::test_a_changed_select_above_a_join_changes_what_its_state_holds",),
        applies=_of("join")(_changed("left columns")),
        migratable=True,
    ),
    _StageRule(
        id="stage.join-right",
        verdict=REFUSED,
        change="other columns of a join's right side",
        reason="right columns of the join changed from {old} to {new}: the state holds whole rows" + RESTART,
        source=BY_POSITION,
        tests=("state/test_compatibility.py::test_joins",),
        applies=_of("join")(_changed("right columns")),
        migratable=True,
    ),
    _StageRule(
        id="stage.limit",
        verdict=LOSS,
        change="another number of rows of a limit",
        reason="limit changed from {old} to {new} rows: rows that came after the old limit was reached are gone, and "
        "what was emitted beyond a lower limit stays",
        source="StreamingGlobalLimitExec: the state is the number of rows so far",
        tests=("state/test_compatibility.py::test_another_limit_is_a_loss",),
        applies=_of("limit")(_changed("rows")),
    ),
    _StageRule(
        id="stage.function-keys",
        verdict=REFUSED,
        change="other grouping keys of a state function",
        reason="keys changed from {old} to {new}" + RESTART,
        source=BY_POSITION,
        tests=("state/test_compatibility.py::test_state_functions",),
        applies=_of(*FUNCTIONS)(_changed("keys")),
        migratable=True,
    ),
    _StageRule(
        id="stage.timeout",
        verdict=REFUSED,
        change="another kind of timeout of applyInPandasWithState (none, processing time, event time)",
        reason="timeout changed from {old} to {new}: the times in the state are of the old kind" + RESTART,
        source="FlatMapGroupsWithStateExecHelper.StateManagerImplV2: a timeout is a plain number in the state",
        tests=("spark/test_timeouts.py::test_another_kind_of_timeout_never_fires",),
        applies=_of("apply-in-pandas-with-state")(_changed("timeout")),
        migratable=True,
    ),
    _StageRule(
        id="stage.time-mode",
        verdict=REFUSED,
        change="another time mode of transformWithState (timers and times to live)",
        reason="time mode changed from {old} to {new}: timers in the state are of the old kind" + RESTART,
        source="TransformWithStateOperatorProperties.validateOperatorProperties refuses it, too",
        tests=("spark/test_time_to_live.py::test_what_spark_refuses_as_well_is_named",),
        applies=_of("transform-with-state")(_changed("time mode")),
    ),
    _StageRule(
        id="stage.variable-changed",
        verdict=REFUSED,
        change="another kind of a transformWithState variable (value, list, map), or time to live switched on or off",
        reason="state variables changed from {old} to {new}: give a changed variable another name",
        source="TransformWithStateOperatorProperties.validateOperatorProperties; a time to live is a column",
        tests=("spark/test_time_to_live.py::test_what_spark_refuses_as_well_is_named",),
        applies=_variable_changed,
    ),
    _StageRule(
        id="stage.variable-gone",
        verdict=REFUSED,
        change="a transformWithState variable that is gone or renamed",
        reason="state variables {names} are gone: what they hold would stay in the store, where a later variable of "
        "the name would find it; go on declaring them in init(), whether they are used or not" + RESTART,
        migratable=True,
        source="each variable is a column family of its own (TransformWithStateVariableInfo), which Spark keeps; "
        "measured: a variable that comes back has its old values",
        tests=("spark/test_stages.py::test_state_variables_come_and_go",),
        applies=_variable_gone,
    ),
    _StageRule(
        id="stage.variable-new",
        verdict=CARRIED,
        change="a new transformWithState variable: it starts empty",
        reason="state variables {names} are new and start empty",
        source="StateStore.createColFamilyIfAbsent; measured",
        tests=("spark/test_stages.py::test_state_variables_come_and_go",),
        applies=_variable_new,
    ),
    _StageRule(
        id="stage.code",
        verdict=LOSS,
        change="other code of a state function (its timeouts, times to live and timers are code)",
        reason="the state function's code changed: agree if the new code reads what the old one has kept",
        source="a digest over bytecode, constants, closures and what they refer to (streaming/code.py)",
        tests=(
            "spark/test_timeouts.py::test_a_longer_timeout_holds_for_what_is_set_from_now_on",
            "spark/test_time_to_live.py::test_a_longer_time_to_live_does_not_bring_back_what_expired_under_the_old_one",
            "spark/test_time_to_live.py::test_a_shorter_time_to_live_holds_for_what_is_written_from_now_on",
            "spark/test_restore_by_name.py::test_transform_with_state_keeps_its_variables_when_its_code_changes",
            "spark/test_code.py::test_what_may_compute_something_else_is_a_change",
        ),
        applies=_code,
    ),
    _StageRule(
        id="stage.code-unknown",
        verdict=LOSS,
        change="a state function whose code cannot be compared",
        reason="the code of the state function {code} cannot be compared: agree if the new code reads what the old one "
        "has kept",
        source="the function holds something that can neither be described nor pickled",
        tests=(
            "state/test_compatibility.py::test_code_that_cannot_be_compared_is_a_loss_even_when_nothing_seems_changed",
            "spark/test_code.py::test_what_cannot_be_loaded_has_no_digest",
        ),
        applies=_code_unknown,
    ),
    _StageRule(
        id="stage.input",
        verdict=LOSS,
        change="other columns into a state function, or another column under an old name",
        reason="the state function's input changed: {old} became {new}; agree if what it has kept still fits",
        source="a function reads columns by name; measured: a hidden rename upstream changes what it sees",
        tests=("spark/test_traps.py::test_a_hidden_rename_into_a_state_function",),
        applies=_input,
    ),
    _StageRule(
        id="stage.input-order",
        verdict=LOSS,
        change="the same columns into a state function in another order",
        reason="the state function's input columns changed their order from {old} to {new}; agree if it reads by name",
        source="a Row is read by position, too",
        tests=("state/test_compatibility.py::test_state_functions",),
        applies=_input_order,
    ),
    _StageRule(
        id="stage.definition",
        verdict=REFUSED,
        change="anything else in a stage's definition",
        reason=_CHANGED + RESTART,
        source="what is not known to be harmless is refused",
        tests=("state/test_compatibility.py::test_state_functions",),
        applies=_other_part,
    ),
    _StageRule(
        id="stage.untraced",
        verdict=REFUSED,
        change="keys, aggregates or conditions that cannot be traced to source columns, or that ask for the time "
        "(`current_timestamp`)",
        reason="{part} could not be traced to the source ({text})",
        source="equal texts say nothing about what they leave out; ComputeCurrentTime and CurrentBatchTimestamp: a "
        "running query's plan has other keys than a dry run's (measured)",
        tests=(
            "spark/test_refused.py::test_a_key_from_a_subquery_is_refused",
            "spark/test_refused.py::test_a_key_that_asks_for_the_time_is_refused",
        ),
        applies=_untraced,
    ),
    _StageRule(
        id="stage.python",
        verdict=REFUSED,
        change="keys or aggregates that depend on a Python or JVM function whose code cannot be compared (comparable "
        "Python code counts as part of the key: the same code is carried, other code is another key)",
        reason="{part} depend on a Python function ({text}), whose code cannot be compared; use Spark's functions",
        source="equal names say nothing about the code behind them",
        tests=(
            "spark/test_refused.py::test_a_python_function_in_a_key_is_compared_by_its_code",
            "state/test_rules.py::test_the_example_of_a_rule",
        ),
        applies=_python,
    ),
    _StageRule(
        id="stage.ambiguous",
        verdict=REFUSED,
        change="unnamed stages that mean the same, and are told apart by position alone, in a changed plan",
        reason="it has no name, means the same as {others}, and the plan below it changed: only its position tells "
        "them apart; name them with stage()",
        source="operator ids are given by position (IncrementalExecution)",
        tests=("state/test_compatibility.py::test_unnamed_stages_that_mean_the_same_are_not_told_apart_by_position",),
        applies=_ambiguous,
    ),
    _StageRule(
        id="stage.families",
        verdict=REFUSED,
        change="another layout of stores or column families (another state format version)",
        reason="the stores changed from {old} to {new}",
        source="SymmetricHashJoinStateManager: formats 1 and 2 have four stores, 3 and 4 column families",
        tests=("state/test_rules.py::test_the_example_of_a_rule",),
        applies=_families,
    ),
    _StageRule(
        id="stage.type",
        verdict=REFUSED,
        change="another type at the same place of the state (decimal precision and scale included)",
        reason="{part} type of the state{where} changed from {old} to {new}",
        source="UnsafeRow's layout follows the types; Spark refuses most of them itself",
        tests=(
            "spark/test_refused.py::test_another_precision_of_a_decimal_is_refused",
            "spark/test_migration.py::test_wider_numbers_and_longer_structs",
            "spark/test_own_migration.py::test_a_state_function_s_state_gains_a_field_and_keeps_its_timeouts",
        ),
        applies=_type,
        migratable=True,
    ),
    _StageRule(
        id="stage.nullability",
        verdict=REFUSED,
        change="a column of the state that could be null and now cannot",
        reason="{part} columns {columns} of the state {where} could be null and now cannot: old nulls would be read as "
        "values",
        source="generated code does not look at the null bits of columns that cannot be null; measured: in the schemas "
        "of Spark 4.3's aggregations every column can be",
        tests=(
            "state/test_compatibility.py::test_a_column_that_could_be_null_and_now_cannot_is_refused",
            "spark/test_refused.py::test_nulls_in_the_state_outlive_a_key_that_cannot_be_null_any_more",
        ),
        applies=_nullable,
    ),
    _StageRule(
        id="stage.variable-nullability",
        verdict=REFUSED,
        change="a field of a transformWithState variable that could not be null and now can",
        reason="fields of the state variables {names} became nullable: values in Avro would be read wrongly; leave "
        "them as they were, or give the variables other names",
        source="AvroStateEncoder: a nullable field is a union, which begins with an index; each row names the schema "
        "it was written under, and a restored checkpoint knows the new one only",
        tests=("state/test_compatibility.py::test_fields_of_a_state_variable_that_become_nullable_are_refused",),
        applies=_variable_nullability,
    ),
)


# Stages that only one of the plans has


@attrs.frozen(kw_only=True)
class LoneStage:
    """A stage that only one plan has; `twin` is one of the other plan that means the same under another name. stores:
    of a new one, the settings of its query's stores."""

    stage: StagePlan
    twin: StagePlan | None = None
    stores: Mapping[str, str] = attrs.field(factory=dict)


def _initial_state(c: LoneStage) -> Facts | None:
    return {} if c.stage.definition.get("initial state") else None


def _families_without_rocksdb(c: LoneStage) -> Facts | None:
    provider = c.stores.get(PROVIDER, ROCKSDB)
    return {"store": NAMES.get(provider, provider)} if column_families(c.stage) and provider != ROCKSDB else None


def _gone(c: LoneStage) -> Facts | None:
    hints = [] if c.stage.named else ["it has no name: name it with stage() so that it can be matched"]
    if c.twin is not None:
        rename = f"{c.stage.name}={c.twin.name}"
        hints.append(f"it means the same as the new stage {c.twin.name}: the rename {rename} carries it")
    return {"hint": f" ({'; '.join(hints)})" if hints else ""}


_LoneRule = Rule[LoneStage]

NEW_STAGE_RULES: tuple[Rule[LoneStage], ...] = (
    _LoneRule(
        id="stage.new",
        verdict=EMPTY,
        change="a new stage",
        reason="new stage: starts without state",
        source="measured: an empty store of the snapshot's version in every partition",
        tests=(
            "spark/test_restore_by_name.py::test_a_stage_added_above_a_running_one_starts_empty_and_the_other_keeps_its_state",
        ),
        applies=lambda c: {},
    ),
    _LoneRule(
        id="stage.new-unknown",
        verdict=REFUSED,
        change="a new stage of a kind that is not understood",
        reason="an empty state for a new {kind} stage ({operator}) cannot be made yet",
        source="no description of its state here",
        tests=("state/test_compatibility.py::test_a_stage_that_is_not_understood_is_refused",),
        applies=lambda c: (
            None if c.stage.kind in RESTORABLE_KINDS else {"kind": c.stage.kind, "operator": c.stage.operator}
        ),
    ),
    _LoneRule(
        id="stage.new-initial-state",
        verdict=REFUSED,
        change="a new transformWithState with an initial state",
        reason="Spark reads an initial state in batch 0 only, and the query goes on from a later one: it would start "
        "empty; start the query anew, or let the first rows of a key set its state",
        source="IncrementalExecution: hasInitialState = currentBatchId == 0 && hasInitialState",
        tests=("state/test_compatibility.py::test_a_new_stage_with_an_initial_state_is_refused",),
        applies=_initial_state,
    ),
    _LoneRule(
        id="stage.new-families",
        verdict=REFUSED,
        change="a new stage whose state lies in column families (transformWithState; joins of state formats 3 and 4), "
        "in a query on the default store",
        reason="its state lies in column families, which only RocksDB has, and the query's is in {store}: set "
        f"{PROVIDER}={ROCKSDB}, which moves the state of its other stages, too",
        source="HDFSBackedStateStoreProvider.init refuses column families; found by the fuzz",
        tests=("state/test_stores.py::test_a_new_stage_that_needs_rocksdb_is_refused_without",),
        applies=_families_without_rocksdb,
    ),
)

GONE_STAGE_RULES: tuple[Rule[LoneStage], ...] = (
    _LoneRule(
        id="stage.gone",
        verdict=IGNORED,
        change="a stage that is gone, or has another name without a rename",
        reason="the new version has no such stage{hint}",
        source="state is matched by name alone",
        tests=("state/test_compatibility.py::test_a_removed_stage_needs_agreement_and_says_how_to_give_it",),
        applies=_gone,
    ),
)
