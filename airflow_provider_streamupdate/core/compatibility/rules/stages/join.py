"""The rules for a stream-stream join."""

from __future__ import annotations

from ...migration import filed_otherwise
from ...verdict import REFUSED
from ..rule import Facts, Rule
from .change import WRONG, StageChange, any_changed, changed, of

_StageRule = Rule[StageChange]


@of("join")
def _filed_otherwise(c: StageChange) -> Facts | None:
    sides = filed_otherwise(c.old, c.new)
    return {"sides": " and ".join(sides)} if sides else None


JOIN_RULES: tuple[Rule[StageChange], ...] = (
    _StageRule(
        id="stage.join-type",
        verdict=REFUSED,
        change="another type of a stream-stream join",
        reason="join type changed from {old} to {new}: rows so far were emitted and dropped by the old type",
        restart=True,
        source="StreamingSymmetricHashJoinExec: the type is not in the state; rows of one side may have been dropped",
        tests=("spark/test_join_changes.py::test_a_left_semi_join_has_not_kept_what_an_inner_one_needs",),
        applies=of("join")(changed("join_type")),
    ),
    _StageRule(
        id="stage.join-rows",
        verdict=REFUSED,
        change="other join keys, or the same equalities in another order of the condition; other columns of one of the "
        "sides (more are used above it, or they come from elsewhere)",
        reason="the join's rows changed: {changes}; the state holds whole rows, by position",
        restart=True,
        source=WRONG + "; ExtractEquiJoinKeys",
        tests=(
            "spark/test_join_changes.py::test_another_column_does_not_find_what_lies_under_the_old_one",
            "spark/test_traps.py::test_the_order_of_a_join_s_equalities",
            "spark/test_layout_changes.py::test_columns_of_a_join_s_side",
            "spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",
        ),
        agreeable=True,
        applies=of("join")(any_changed("keys", "left_columns", "right_columns")),
        migratable=True,
    ),
    _StageRule(
        id="stage.join-time",
        verdict=REFUSED,
        change="another column with a watermark on a join's side, in state format 4, which keeps rows by its time",
        reason="the watermark of the {sides} side is on another column, and the state keeps rows by the old one's time",
        restart=True,
        source="SymmetricHashJoinStateManagerV4; measured: matches of rows that were kept before are lost",
        tests=("spark/test_found_from_outside.py::test_a_watermark_on_another_column_finds_the_rows_of_format_4",),
        applies=_filed_otherwise,
        migratable=True,
    ),
    _StageRule(
        id="stage.join-condition",
        verdict=REFUSED,
        change="another condition besides a join's keys, e.g. another time range (the order of conditions does not "
        "count)",
        reason="join condition changed: {change}. Rows so far were dropped and matched by the old condition",
        restart=True,
        source="StreamingJoinHelper.getStateValueWatermark: the time range decides what leaves the state",
        tests=(
            "spark/test_join_changes.py::test_a_wider_time_range_does_not_find_what_was_removed",
            "spark/test_pairs.py::test_what_decides_a_result_is_not_carried_and_a_version_is_itself",
        ),
        agreeable=True,
        applies=of("join")(changed("condition")),
    ),
)
