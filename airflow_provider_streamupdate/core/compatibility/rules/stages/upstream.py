"""The rule for a stage whose rows come from another stage that changes: its state holds the rows that the other stage
gave it before."""

from __future__ import annotations

from ....plan.plan import LATE, PASSED, StagePlan
from ...report import LOSS
from ..rule import Facts, Rule
from .change import StageChange

# The parts of a stage's definition that are in the text of each of its columns: the stage above compares those itself.
_IN_COLUMNS = ("aggregates",)


def _passed(stage: StagePlan) -> list[str]:
    """The stages that its rows pass, by name."""
    texts = {text.removeprefix(LATE) for path in stage.paths or () for text in path}
    return sorted(text.removeprefix(PASSED).removesuffix(".") for text in texts if text.startswith(PASSED))


def _other_rows(old: StagePlan, new: StagePlan) -> list[str]:
    """The changed parts of a definition that make it give other rows, or more or fewer. Keys in another order give the
    same."""
    parts = sorted({*old.definition, *new.definition} - {*_IN_COLUMNS})
    pairs = [(part, old.definition.get(part), new.definition.get(part)) for part in parts]
    return [
        part
        for part, was, now in pairs
        if was != now and not (part == "keys" and sorted(map(str, was or ())) == sorted(map(str, now or ())))
    ]


def _upstream(c: StageChange) -> Facts | None:
    changes = []
    for name in _passed(c.new):
        old, new = c.before.stage(name), c.after.stage(name)
        if old is None or new is None:
            continue
        parts = ["kind"] if old.kind != new.kind else _other_rows(old, new)
        if parts:
            changes.append(f"{name} ({', '.join(parts)})")
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
