"""What a supervisor does about an app. Pure: it is given what was found, and the time."""

from __future__ import annotations

import attrs

from ...core.errors import InvalidInputError
from ...core.registry.deployment import (
    CANCELLED,
    DEAD_STATES,
    FAILED,
    FINISHED,
    NEW,
    RUNNING,
    SUSPENDED,
    Current,
    DriverState,
)
from ...core.registry.supervision import Supervision
from ...core.text_enum import TextEnum


@attrs.frozen(kw_only=True)
class Backoff:
    """Exponential delays between starts, named as in Flink's restart strategy. The first start has no delay.

    initial: seconds before the second start; multiplier: of each delay to the next; most: seconds at most
    attempts: starts in a row without a recovery, after which the app is left alone
    reset_after: seconds that a driver must have run, and committed, to count as recovered
    """

    initial: float = 5.0
    multiplier: float = 2.0
    most: float = 300.0
    attempts: int = 10
    reset_after: float = 600.0

    def __attrs_post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInputError("a supervisor needs at least one attempt (attempts)")
        if self.initial < 0 or self.most < self.initial or self.multiplier < 1:
            raise InvalidInputError(
                "the first delay must not be negative, the longest not shorter than it, and the multiplier at least 1"
            )

    def delay(self, attempts: int) -> float:
        """Return the seconds from the last start to the next one, after this many in a row."""
        if attempts == 0:
            return 0.0
        # the exponent is bounded, so that no number of attempts overflows
        return min(self.most, self.initial * self.multiplier ** min(attempts - 1, 64))


_ENDED_ON_REQUEST = (NEW, CANCELLED, FINISHED, SUSPENDED)


class Action(TextEnum):
    """The supervisor's reaction to an app."""

    NONE = "none"
    WAIT = "wait"
    START = "start"
    GIVE_UP = "give-up"
    RECOVERED = "recovered"
    STAND_BY = "stand-by"


@attrs.frozen(kw_only=True)
class Observation:
    """The state of an app when a supervisor looked at it.

    state: of the current deployment's driver; error: what it failed with
    committed: whether this driver has committed a batch, or has nothing to read
    updating: the deployment that an update under way brings in
    off: why the app is not supervised
    asked_to_end: the driver was suspended, or had been told to end, before it died
    evicted: a signal or its cluster ended it, after it had committed a batch
    taking_over: the hot standby that is about to replace it
    needs_standby: the app is to have a hot standby, could have one now, and has none
    """

    current: Current | None
    state: DriverState = NEW
    error: str | None = None
    committed: bool = False
    updating: str | None = None
    off: str | None = None
    asked_to_end: bool = False
    evicted: bool = False
    taking_over: str | None = None
    needs_standby: bool = False


@attrs.frozen
class Decision:
    """The decision about an app."""

    action: Action
    reason: str = ""  # why this is done, for people
    seconds: float = 0.0  # how long to wait


NOTHING = Decision(Action.NONE)


def starts_in_a_row(current: Current, known: Supervision) -> int:
    """How many a supervisor has made, none of which recovered; a driver that somebody else started ends the row. One
    that it was about to start when it died counts."""
    return known.attempts if known.epoch is not None and current.epoch <= known.epoch else 0


def decide(found: Observation, known: Supervision, backoff: Backoff, since_start: float) -> Decision:
    """since_start: seconds since the supervisor started the app's driver last"""
    current = found.current
    if found.off is not None or current is None or found.state in _ENDED_ON_REQUEST:
        return NOTHING
    mine = known.epoch is not None and current.epoch <= known.epoch  # also one that it was about to start
    attempts = 0 if found.evicted else starts_in_a_row(current, known)
    if found.state not in DEAD_STATES:
        recovered = not mine or (found.committed and since_start >= backoff.reset_after)
        if found.state == RUNNING and recovered and (known.attempts or known.gave_up):
            return Decision(Action.RECOVERED, "its driver runs")
        if found.needs_standby and found.state == RUNNING and found.updating is None:
            return Decision(Action.STAND_BY, "its hot standby has ended")
        return NOTHING
    if found.updating is not None:  # whoever works on it ends it or rolls it back
        during = f"its driver is {found.state} during an update to {found.updating}"
        return Decision(Action.NONE, f"{during}: run that update again, or roll it back")
    if found.asked_to_end:
        return Decision(Action.NONE, "its driver died after it was told to end, or suspended")
    if found.taking_over is not None:
        standby = f"its driver is {found.state}, and {found.taking_over}, its hot standby, takes over"
        return Decision(Action.NONE, standby)
    if mine and known.gave_up is not None:
        return NOTHING
    why = f"failed with {found.error}" if found.state == FAILED and found.error else f"is {found.state}"
    why = f"its driver {why}"
    if attempts >= backoff.attempts:
        return Decision(Action.GIVE_UP, f"{why} after {attempts} starts in a row, none of which recovered")
    left = backoff.delay(attempts) - since_start
    if left > 0:
        return Decision(Action.WAIT, why, left)
    return Decision(Action.START, why)
