"""What a supervisor does about an app, as a function of what it finds."""

from __future__ import annotations

import attrs
import pytest

from airflow_provider_streamupdate.control.supervision.decision import Action, Backoff, Observation, decide
from airflow_provider_streamupdate.core.errors import InvalidInputError
from airflow_provider_streamupdate.core.registry.deployment import FINAL_STATES, Current, DriverState
from airflow_provider_streamupdate.core.registry.supervision import Supervision

BACKOFF = Backoff(initial=10, multiplier=2, most=60, attempts=3, reset_after=100)
DEAD = Observation(current=Current(deployment="v1", epoch=4), state=DriverState.LOST)
NEVER = float("inf")
STARTED_ONCE = Supervision(attempts=1, epoch=4, started_at="2026-01-01T00:00:00+00:00")


@pytest.mark.parametrize("state", DriverState)
def test_only_lost_failed_and_stopped_drivers_are_started(state: DriverState) -> None:
    action = decide(attrs.evolve(DEAD, state=state), Supervision(), BACKOFF, NEVER).action
    assert action == (Action.START if state in ("lost", "failed", "stopped") else Action.NONE)
    assert state not in FINAL_STATES or state in ("lost", "failed", "stopped", "cancelled", "finished")


def test_what_is_left_alone() -> None:
    for found, known in (
        (Observation(current=None), Supervision()),
        (attrs.evolve(DEAD, updating="v2"), Supervision()),
        (attrs.evolve(DEAD, off="it is being mended"), Supervision()),
        (attrs.evolve(DEAD, asked_to_end=True), Supervision()),
        (DEAD, attrs.evolve(STARTED_ONCE, gave_up="it fails")),
    ):
        assert decide(found, known, BACKOFF, NEVER).action is Action.NONE, (found, known)


def test_starts_in_a_row_wait_longer_and_are_given_up_with_their_cause() -> None:
    assert [BACKOFF.delay(n) for n in range(6)] == [0, 10, 20, 40, 60, 60]
    assert Backoff().delay(10**9) == 300
    waiting = decide(DEAD, STARTED_ONCE, BACKOFF, 4)
    assert (waiting.action, waiting.seconds) == (Action.WAIT, 6)
    assert decide(DEAD, STARTED_ONCE, BACKOFF, 10).action is Action.START
    failed = attrs.evolve(DEAD, state=DriverState.FAILED, error="ValueError: no such column")
    thrice = attrs.evolve(STARTED_ONCE, attempts=3)
    given_up = decide(failed, thrice, BACKOFF, NEVER)
    assert given_up.action is Action.GIVE_UP
    assert given_up.reason == (
        "its driver failed with ValueError: no such column after 3 starts in a row, none of which recovered"
    )
    # a start that was counted and not made is not forgotten: the supervisor died between the two
    assert decide(DEAD, attrs.evolve(thrice, epoch=5), BACKOFF, NEVER).action is Action.GIVE_UP
    # an eviction is no step of it: its node was drained, nothing is wrong with the app, and it is started at once
    evicted = attrs.evolve(failed, error="the cluster ended it", evicted=True, committed=True)
    assert decide(evicted, thrice, BACKOFF, 0).action is Action.START


def test_recovered_is_what_ran_for_long_or_what_somebody_else_started() -> None:
    running = attrs.evolve(DEAD, state=DriverState.RUNNING, committed=True)
    assert decide(running, STARTED_ONCE, BACKOFF, 99).action is Action.NONE
    assert decide(running, STARTED_ONCE, BACKOFF, 100).action is Action.RECOVERED
    assert decide(attrs.evolve(running, committed=False), STARTED_ONCE, BACKOFF, 1e6).action is Action.NONE
    assert decide(running, Supervision(), BACKOFF, NEVER).action is Action.NONE
    # a driver that somebody else started begins anew
    theirs = attrs.evolve(DEAD, current=Current(deployment="v1", epoch=5))
    for known in (attrs.evolve(STARTED_ONCE, attempts=3), attrs.evolve(STARTED_ONCE, gave_up="it fails")):
        assert decide(theirs, known, BACKOFF, 0).action is Action.START
        assert decide(attrs.evolve(theirs, state=DriverState.RUNNING), known, BACKOFF, 0).action is Action.RECOVERED
        assert decide(attrs.evolve(theirs, state=DriverState.STARTING), known, BACKOFF, 0).action is Action.NONE


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"initial": -1}, {"initial": 9, "most": 8}, {"multiplier": 0.5}])
def test_a_backoff_that_makes_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        Backoff(**wrong)


def test_hot_standbys_take_over_from_the_dead_and_are_started_for_what_runs() -> None:
    left = decide(attrs.evolve(DEAD, taking_over="v1-standby-1"), Supervision(), BACKOFF, NEVER)
    assert left.action is Action.NONE
    assert left.reason == "its driver is lost, and v1-standby-1, its hot standby, takes over"
    runs = attrs.evolve(DEAD, state=DriverState.RUNNING, needs_standby=True, committed=True)
    assert decide(runs, Supervision(), BACKOFF, NEVER).action is Action.STAND_BY
    for found in (
        attrs.evolve(runs, updating="v2"),
        attrs.evolve(runs, off="it is being mended"),
        attrs.evolve(runs, needs_standby=False),
        attrs.evolve(runs, state=DriverState.SUSPENDED),
        attrs.evolve(runs, state=DriverState.STARTING),
    ):
        assert decide(found, Supervision(), BACKOFF, NEVER).action is Action.NONE, found
    assert decide(attrs.evolve(DEAD, needs_standby=True), Supervision(), BACKOFF, NEVER).action is Action.START
