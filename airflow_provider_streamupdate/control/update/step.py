"""The steps of an update by name, and how long they took. A DAG has a task for each."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from ...core import clock
from ...core.registry.update import PROMOTED, UpdateRecord
from ...core.text_enum import TextEnum


class Step(TextEnum):
    """A step of an update. Its value is the name of the task in a DAG."""

    PLAN = "plan"
    CHECK = "check"
    REHEARSE = "rehearse"
    STANDBY = "standby"
    SNAPSHOT = "snapshot"
    SUBMIT = "submit"
    VERIFY = "verify"
    PROMOTE = "promote"


# What an update's record calls the steps when they are done; a strategy has its own name for STANDBY.
NOTED = {
    Step.PLAN: "planned",
    Step.CHECK: "checked",
    Step.REHEARSE: "rehearsed",
    Step.SNAPSHOT: "snapshotted",
    Step.SUBMIT: "submitted",
    Step.VERIFY: "verified",
    Step.PROMOTE: "promoted",
}


KNOWN = 5  # the newest updates that count


def step_seconds(record: UpdateRecord) -> list[tuple[str, str, float]]:
    """Return the steps of an update in order: name, time of completion (ISO), and seconds since the step before."""
    found, before = [], record.started_at
    for name, at in sorted(record.step_times.items(), key=lambda item: item[1]):
        found.append((name, at, round((clock.parse(at) - clock.parse(before)).total_seconds(), 3)))
        before = at
    return found


def usual_step_times(updates: Iterable[UpdateRecord], strategy: str) -> str | None:
    """Return the median time of each step in the newest promoted updates with this strategy; None without any.

    updates: oldest first
    """
    known = [u for u in updates if u.outcome == PROMOTED and u.strategy == strategy][-KNOWN:]
    steps: dict[str, list[float]] = {}
    for record in known:
        for name, _, seconds in step_seconds(record):
            steps.setdefault(name, []).append(seconds)
    told = [f"{name} {statistics.median(took):.0f} s" for name, took in steps.items() if statistics.median(took) >= 1]
    if not told:
        return None
    times = "the last time" if len(known) == 1 else f"median of {len(known)} updates"
    return f"earlier durations of the steps ({times}): {', '.join(told)}"
