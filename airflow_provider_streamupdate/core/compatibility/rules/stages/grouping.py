"""The rules for what a stage groups by and what it keeps for a group: keys, windows, aggregates, deduplication
columns."""

from __future__ import annotations

from collections.abc import Sequence

from ....plan.expressions import Call, Expression, Python
from ....plan.plan import in_order
from ....plan.rendering import words
from ....plan.visitors import is_window, sessions
from ...migration import added_aggregates
from ...verdict import LOSS, REFUSED
from ..rule import Facts, Rule, differ
from .change import WRONG, StageChange, of

_GROUPED = ("aggregate", "session-window")
_KEYED = (*_GROUPED, "deduplicate", "deduplicate-within-watermark")


def _windows(keys: Sequence[Expression]) -> list[Expression]:
    return [key for key in keys if is_window(key) or sessions(key)]


@of(*_KEYED)
def _window(c: StageChange) -> Facts | None:
    old, new = (_windows(keys) for keys in c.part("keys"))
    return differ(old, new) if old and new else None


@of(*_KEYED)
def _keys_order(c: StageChange) -> Facts | None:
    old, new = c.part("keys")
    return differ(old, new) if in_order(old) == in_order(new) else None


@of(*_KEYED)
def _keys(c: StageChange) -> Facts | None:
    old, new = c.part("keys")
    windows = bool(_windows(old) and _windows(new)) and _others(old) == _others(new)
    return None if windows or in_order(old) == in_order(new) else differ(old, new)


def _others(keys: Sequence[Expression]) -> list[Expression]:
    windows = _windows(keys)
    return [key for key in keys if key not in windows]


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
def _aggregate_arguments(c: StageChange) -> Facts | None:
    old, new = c.part("aggregates")
    same = _functions(old) == _functions(new) and in_order(old) != in_order(new)
    return differ(old, new) if same else None


@of(*_GROUPED)
def _aggregates(c: StageChange) -> Facts | None:
    return differ(*c.part("aggregates")) if _aggregate_arguments(c) is None else None


@of(*_GROUPED)
def _aggregates_added(c: StageChange) -> Facts | None:
    added = added_aggregates(c.old, c.new)
    return {"aggregates": words(added)} if added else None


_StageRule = Rule[StageChange]
AGGREGATES_ADDED = "stage.aggregates-added"

GROUPING_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.window",
        verdict=REFUSED,
        change="another window: size (a multiple or not), slide, offset, column or the gap of sessions; tumbling to "
        "sliding",
        reason="window changed: {change}",
        restart=True,
        source=WRONG + "; SessionWindowStateStoreSaveExec stores a session's end, by the old gap",
        tests=(
            "spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",
            "spark/test_migration.py::test_tumbling_windows_become_a_multiple",
        ),
        applies=_window,
        migratable=True,
    ),
    _StageRule(
        id="stage.keys-order",
        verdict=REFUSED,
        change="the same grouping keys or deduplication columns in another order",
        reason="keys changed {change}: Spark reads the state's rows by position",
        restart=True,
        source=WRONG,
        tests=(
            "spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",
            "spark/test_layout_changes.py::test_a_deduplication_by_its_columns_in_another_order_knows_what_it_saw",
            "spark/test_layout_changes.py::test_keys_and_aggregates_of_sessions_change_places",
        ),
        applies=_keys_order,
        migratable=True,
    ),
    _StageRule(
        id="stage.keys",
        verdict=REFUSED,
        change="other, more or fewer grouping keys or deduplication columns; another column under the old name (a "
        "hidden rename upstream)",
        reason="keys changed: {change}",
        restart=True,
        source=WRONG,
        tests=(
            "spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",
            "spark/test_migration.py::test_a_dropped_key_merges_its_groups_into_the_partition_they_belong_to",
            "spark/test_own_migration.py::test_sessions_lose_a_key_and_an_aggregate",
            "spark/test_traps.py::test_another_deduplication_column",
            "spark/test_own_migration.py::test_a_deduplication_by_fewer_columns_knows_what_it_saw",
        ),
        agreeable=True,
        applies=_keys,
        migratable=True,
    ),
    _StageRule(
        id="stage.aggregates",
        verdict=REFUSED,
        change="other aggregate functions (sum to max), more or fewer of them (the optimizer drops one whose result is "
        "not used), or another order in the state row; a reordered select right above an aggregation does that too, "
        "because the optimizer puts it into the aggregation",
        reason="aggregates changed: {change}. Spark reads their values by position",
        restart=True,
        source=WRONG + "; it refuses another number of columns; CollapseProject, PhysicalAggregation",
        tests=(
            "spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",
            "spark/test_migration.py::test_dropped_added_and_reordered_aggregates",
        ),
        applies=_aggregates,
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
        reason="aggregates changed: {change}. The state was built from other arguments",
        restart=True,
        source=WRONG,
        tests=("spark/test_traps.py::test_spark_alone_is_wrong_and_the_check_names_it_and_refuses_or_migrates",),
        agreeable=True,
        applies=_aggregate_arguments,
        migratable=True,
    ),
)
