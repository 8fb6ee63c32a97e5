"""The rules for what a stage groups by and what it keeps for a group: keys, windows, aggregates, deduplication
columns."""

from __future__ import annotations

from collections.abc import Sequence

from ....plan.expressions import Call, Expression, Python
from ....plan.plan import in_order
from ....plan.rendering import words
from ....plan.visitors import is_window, sessions
from ...migration import added_aggregates
from ...report import LOSS, REFUSED
from ..rule import Facts, Rule, differ
from .change import BY_POSITION, RESTART, WRONG, StageChange, of

_GROUPED = ("aggregate", "session-window")


def _windows(keys: Sequence[Expression]) -> list[Expression]:
    return [key for key in keys if is_window(key) or sessions(key)]


@of(*_GROUPED)
def _session_gap(c: StageChange) -> Facts | None:
    old, new = ([found for key in keys if (found := sessions(key))] for keys in c.part("keys"))
    if not old or not new or [s.column for s in old[0]] != [s.column for s in new[0]]:
        return None
    return differ([s.gap for s in old[0]], [s.gap for s in new[0]])


@of(*_GROUPED)
def _window(c: StageChange) -> Facts | None:
    old, new = (_windows(keys) for keys in c.part("keys"))
    return differ(old, new) if old and new and _session_gap(c) is None else None


@of(*_GROUPED, "deduplicate", "deduplicate-within-watermark")
def _keys_swapped(c: StageChange) -> Facts | None:
    old, new = c.part("keys")
    return differ(old, new) if in_order(old) == in_order(new) else None


@of(*_GROUPED)
def _keys(c: StageChange) -> Facts | None:
    old, new = c.part("keys")
    windows = bool(_windows(old) and _windows(new)) and _others(old) == _others(new)
    return None if windows or in_order(old) == in_order(new) else differ(old, new)


def _others(keys: Sequence[Expression]) -> list[Expression]:
    windows = _windows(keys)
    return [key for key in keys if key not in windows]


@of("deduplicate", "deduplicate-within-watermark")
def _columns(c: StageChange) -> Facts | None:
    old, new = c.part("keys")
    return None if in_order(old) == in_order(new) else differ(old, new)


def _functions(aggregates: Sequence[Expression]) -> list[str]:
    """Return the names of the functions, whichever of their rows they are limited to."""
    return [_function(aggregate) for aggregate in aggregates]


def _function(aggregate: Expression) -> str:
    if isinstance(aggregate, Call) and aggregate.function in ("distinct", "filter") and aggregate.arguments:
        return _function(aggregate.arguments[0])
    if isinstance(aggregate, Call):
        return aggregate.function
    return aggregate.digest or aggregate.name if isinstance(aggregate, Python) else ""


@of(*_GROUPED)
def _aggregates_order(c: StageChange) -> Facts | None:
    old, new = c.part("aggregates")
    return differ(old, new) if in_order(old) == in_order(new) else None


@of(*_GROUPED)
def _aggregates_number(c: StageChange) -> Facts | None:
    old, new = c.part("aggregates")
    return differ(old, new) if len(old) != len(new) else None


@of(*_GROUPED)
def _aggregate_arguments(c: StageChange) -> Facts | None:
    old, new = c.part("aggregates")
    same = _functions(old) == _functions(new) and in_order(old) != in_order(new)
    return differ(old, new) if same else None


@of(*_GROUPED)
def _aggregate_function(c: StageChange) -> Facts | None:
    old, new = c.part("aggregates")
    others = len(old) == len(new) and _functions(old) != _functions(new)
    return differ(old, new) if others and in_order(old) != in_order(new) else None


@of("aggregate")
def _aggregates_added(c: StageChange) -> Facts | None:
    added = added_aggregates(c.old, c.new)
    return {"aggregates": words(added)} if added else None


_StageRule = Rule[StageChange]
AGGREGATES_ADDED = "stage.aggregates-added"

GROUPING_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.window",
        verdict=REFUSED,
        change="another window: size (a multiple or not), slide, offset or column; tumbling to sliding",
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
        reason="keys changed: session gap from {old} to {new}: sessions in the state were ended by the old gap"
        + RESTART,
        source="SessionWindowStateStoreSaveExec stores a session's end; measured: Spark restarts and mixes both gaps",
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_session_gap,
        migratable=True,
    ),
    _StageRule(
        id="stage.keys-order",
        verdict=REFUSED,
        change="the same grouping keys or deduplication columns in another order",
        reason="the order of keys changed from {old} to {new}: Spark reads the state's rows by position" + RESTART,
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
        agreeable=True,
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
        agreeable=True,
        applies=_columns,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregates-order",
        verdict=REFUSED,
        change="the same aggregates in another order in the state row; a reordered select right above an aggregation "
        "does that too, because the optimizer puts it into the aggregation",
        reason="the order of aggregates changed from {old} to {new}: Spark reads the state's rows by position"
        + RESTART,
        source=WRONG + "; CollapseProject, PhysicalAggregation",
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        applies=_aggregates_order,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregates-number",
        verdict=REFUSED,
        change="aggregates added or dropped; the optimizer drops one whose result is not used",
        reason="aggregates changed from {old} to {new}" + RESTART,
        source=BY_POSITION + "; it refuses another number of columns",
        tests=("spark/test_migration.py::test_dropped_added_and_reordered_aggregates",),
        applies=_aggregates_number,
        migratable=True,
    ),
    _StageRule(
        id=AGGREGATES_ADDED,
        verdict=LOSS,
        change="aggregates added, unless the state knows what they need (an average's sum and count, a count and a sum "
        "of an average, one moment of another)",
        reason="{aggregates} will cover only rows from this update on: existing groups lack the rows before it",
        source="the state holds buffers, not rows; Sum, Count, Average, CentralMomentAgg, Covariance: which buffers "
        "are the same",
        tests=(
            "spark/test_added_aggregates.py::test_it_knows_the_rows_from_now_on_and_no_others",
            "spark/test_added_aggregates.py::test_what_the_state_knows_is_computed_and_nothing_is_asked",
        ),
        applies=_aggregates_added,
    ),
    _StageRule(
        id="stage.aggregate-arguments",
        verdict=REFUSED,
        change="the same aggregate functions of other columns or with other parameters (the ordering of min_by, a "
        "filter, the accuracy of a sketch)",
        reason="aggregates changed from {old} to {new}: the state was built from other arguments" + RESTART,
        source=WRONG,
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        agreeable=True,
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
)
