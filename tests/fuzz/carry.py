"""The oracle's state under another version, as the verdicts have it."""

from __future__ import annotations

from typing import Any

from airflow_provider_streamupdate.core.compatibility.verdict import CARRIED, EMPTY, LOSS, MIGRATED

from .meaning import Labels, functions, keys, meaning, stage_labels
from .oracle import EXEMPT, NOTHING, Clock, Group, Groups, Kept, Oracle, merged
from .spec import Aggregate, Counter, Join, Spec, Stage


class WrongVerdictError(Exception):
    """A verdict that says what cannot be right, whatever is emitted."""


def carry(old: Spec, states: dict[str, Any], new: Spec, verdicts: dict[str, str], clock: Clock) -> dict[str, Any]:
    """The state `new` goes on with; stages have their new names in `old`, too."""
    found = {}
    for stage in new.stages:
        verdict = verdicts[stage.name]
        if old.stage(stage.name) is None:
            if verdict != EMPTY:
                raise WrongVerdictError(f"stage {stage.name} is new, and {verdict}")
            continue
        if verdict not in (CARRIED, MIGRATED, LOSS):
            raise WrongVerdictError(f"stage {stage.name} was there before, and is {verdict}")
        was, below = stage_labels(old, stage.name)
        now, now_below = stage_labels(new, stage.name)
        if stage.name not in states:
            continue
        if isinstance(was, Aggregate) and isinstance(now, Aggregate) and verdict in (MIGRATED, LOSS):
            found[stage.name] = _migrated(was, below, states[stage.name], now, now_below)
            continue
        if isinstance(was, Counter) and isinstance(now, Counter) and was.variable != now.variable and verdict == LOSS:
            continue  # the new variable starts empty
        if meaning(was, below) != meaning(now, now_below):
            raise WrongVerdictError(f"stage {stage.name} is {verdict}, but means something else now")
        found[stage.name] = _kept(old, was, states[stage.name]) if verdict == LOSS else states[stage.name]
    return found


def _kept(old: Spec, stage: Stage, state: Any) -> Any:
    """A join's without the rows that filters above it kept out, because Spark puts them below it; for those it has,
    filters that are above it now do not hold."""
    if not isinstance(stage, Join):
        return state
    filters = {side: Oracle(old).first_filters(side) for side in state}
    return {
        side: [
            [{**row, EXEMPT: True}, met]
            for row, met in rows
            if all(f.keeps({f.column: row[c]}) for f, c in filters[side])
        ]
        for side, rows in state.items()
    }


def _computed(kept: dict[str, Kept], texts: list[str]) -> dict[str, Kept]:
    """What is known of added aggregates: a count of what an average is of, an average of what a sum and a count are of.
    (An average's sum of integers is a double, from which no sum is made.)"""
    found = {}
    for text in (t for t in texts if t not in kept):
        name, _, column = text.partition("(")
        known = {other: kept.get(f"{other}({column}") for other in ("sum", "count", "avg")}
        if name == "count" and known["avg"]:
            found[text] = known["avg"]
        elif name == "avg" and known["sum"] and known["count"]:
            found[text] = known["sum"]
    return found


def _migrated(old: Aggregate, below: Labels, state: Groups, new: Aggregate, now_below: Labels) -> Groups:
    """Groups under the new keys and windows, merged where they meet; an added aggregate has seen no row, unless
    others know what it needs."""
    wanted, texts = keys(new, now_below), functions(new, now_below)
    if not set(wanted) <= set(keys(old, below)):
        raise WrongVerdictError(f"stage {new.name} has keys its state does not hold")
    if old.window != new.window and not (old.window and new.window and new.window.size % old.window.size == 0):
        raise WrongVerdictError(f"stage {new.name} has windows its state does not hold")
    found: Groups = {}
    for group, kept in state.items():
        values = dict(group.keys)
        start = group.start
        if new.window and start is not None:
            start -= start % new.window.size if new.window != old.window else 0
        end = None if start is None or new.window is None else start + new.window.size
        target = Group(tuple((k, values[k]) for k in wanted), start, end)
        before = found.get(target, {})
        known = kept | _computed(kept, texts)
        found[target] = {t: merged(before.get(t, NOTHING), known.get(t, NOTHING)) for t in texts}
    return found
