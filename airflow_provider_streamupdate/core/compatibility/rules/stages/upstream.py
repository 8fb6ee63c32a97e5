"""The rule for a stage whose rows come from another stage that changes: its state holds the rows that the other stage
gave it before."""

from __future__ import annotations

from ....plan.plan import StagePlan, in_order, parts
from ...report import LOSS
from ..rule import Facts, Rule
from .change import StageChange

# The parts of a stage's definition that are in each of its columns: the stage above compares those itself.
_IN_COLUMNS = ("aggregates",)


def _other_rows(old: StagePlan, new: StagePlan) -> list[str]:
    """Return the changed parts of a definition that make it give other rows, or more or fewer. Keys in another order
    give the same."""
    before, after = parts(old.definition), parts(new.definition)
    changes = sorted(name for name in {*before, *after} - {*_IN_COLUMNS} if before.get(name) != after.get(name))
    return [name for name in changes if name != "keys" or in_order(old.keys) != in_order(new.keys)]


def _upstream(c: StageChange) -> Facts | None:
    changes = []
    for name in sorted({name for path in c.new.paths for name in path.stages}):
        old, new = c.before.stage(name), c.after.stage(name)
        if old is None or new is None:
            continue
        if found := ["kind"] if old.kind != new.kind else _other_rows(old, new):
            changes.append(f"{name} ({', '.join(found)})")
    return {"changes": "; ".join(changes)} if changes else None


UPSTREAM_RULES: tuple[Rule[StageChange], ...] = (
    Rule[StageChange](
        id="stage.upstream",
        verdict=LOSS,
        change="another stage below it, whose rows it receives, has other keys, another window or condition, or other "
        "code, even if that stage is migrated or agreed to. Aggregates added, removed or reordered there do not count",
        reason="it receives other rows from stage {changes}, which changes; its state holds the rows that came before",
        source="measured: an aggregation that loses a key is migrated, and the count above it holds groups of the old "
        "keys",
        tests=("spark/test_upstream.py::test_a_stage_above_one_that_gives_other_rows_is_agreed_to",),
        applies=_upstream,
    ),
)
