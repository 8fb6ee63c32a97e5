"""The records of an update (``updates/<new deployment>.json``) and of a rollback, by which they are continued."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from .. import clock
from ..names import named
from ..text_enum import TextEnum

if TYPE_CHECKING:  # it would import cattrs, which the command line does without
    from .deployment import Current

RUN_FOR_SECONDS = 10.0  # a new version runs so long before it is called healthy, unless told otherwise
RUN_FOR_VARIABLE = "STREAMUPDATE_VERIFY_FOR"  # of the environment: another value for that
# The strategies, by name, each with a line that helps to choose (control/update/strategies).
STRATEGY_SUMMARIES = {
    "restart": "the old version ends, then the new one is started",
    "standby": "the new version gets ready beside the old one, which then hands over (two drivers until then)",
    "follow": "the new version runs the old one's batches, too, muted, until it takes over (twice the work until then)",
    "parallel": "both versions run, the new one from a snapshot and into its own sinks, until it has caught up",
    "in_flight": "only reloadable parameters differ, and the running driver continues with them",
}
DEFAULT_STRATEGY = "standby"


class Step(TextEnum):
    """A step of an update, in order: what a record, a DAG's task, the page and the metrics call it.

    docs/update-dag.md says what each does in each strategy; an update has those of its strategy.
    """

    PLAN = "plan"
    CHECK = "check"
    REHEARSE = "rehearse"
    PREPARE = "prepare"
    SNAPSHOT_AND_CANCEL = "snapshot_and_cancel"
    SUBMIT_FROM_SNAPSHOT = "submit_from_snapshot"
    VERIFY = "verify"
    PROMOTE = "promote"


class Outcome(TextEnum):
    """How an update ended."""

    PROMOTED = "promoted"
    ROLLED_BACK = "rolled-back"
    REFUSED = "refused"
    SUPERSEDED = "superseded"  # abandoned before another version was brought in
    CANCELLED = "cancelled"  # somebody cancelled the app meanwhile


PROMOTED, ROLLED_BACK = Outcome.PROMOTED, Outcome.ROLLED_BACK
REFUSED, SUPERSEDED = Outcome.REFUSED, Outcome.SUPERSEDED
# What is said of an update that ended so, or (None) has not.
HOW_ENDED: dict[Outcome | None, str] = {
    PROMOTED: "was promoted",
    ROLLED_BACK: "was rolled back",
    REFUSED: "was refused; the old version was not touched",
    SUPERSEDED: "was not continued, and was superseded by another update",
    Outcome.CANCELLED: "was ended, since the app was cancelled",
    None: "has not ended",
}


@attrs.frozen(kw_only=True)
class Attempt:
    """One try of a step."""

    step: Step
    began_at: str = attrs.field(validator=clock.is_moment)
    ended_at: str | None = attrs.field(default=None, validator=clock.is_moment)  # None: under way, or its process died
    by: str = ""  # who ran it: a user and host, or a task of a DAG's run
    # the span in which it ran, as W3C Trace Context writes it; None: no trace is kept of that
    traceparent: str | None = None
    error: str | None = None  # what it failed with


@attrs.frozen(kw_only=True)
class UpdateRecord:
    """The record of an update."""

    app: str = attrs.field(validator=named("app"))
    old: str | None = attrs.field(validator=named("deployment"))  # deployment that ran before
    new: str = attrs.field(validator=named("deployment"))
    started_at: str = attrs.field(validator=clock.is_moment)
    digest: str = ""  # of the new application
    strategy: str = "restart"  # how the old one is replaced (control/update/strategies)
    in_place: bool = False  # no deployment is brought in: the old one continues, and `new` is the update's own id
    old_dead: bool = False  # the old version's driver had failed, was lost or had finished when the update began
    step: Step = Step.PLAN  # the last one that was done
    step_times: dict[Step, str] = attrs.field(factory=dict, validator=clock.is_moment)  # when each was done
    snapshot: str | None = attrs.field(default=None, validator=named("snapshot"))
    # when every byte of `snapshot` was last verified
    snapshot_checked_at: str | None = attrs.field(default=None, validator=clock.is_moment)
    outcome: Outcome | None = None  # None while under way
    reason: str | None = None
    # from the old version's last commit, or the begin of its drain if nothing waited then, to the new one's first
    # commit, or its first look that found nothing to read (None: there was no pause)
    pause_seconds: float | None = None
    paused_at: str | None = attrs.field(default=None, validator=clock.is_moment)  # when that began
    verified: tuple[str, ...] = ()
    # when `outcome` was written (None: under way)
    ended_at: str | None = attrs.field(default=None, validator=clock.is_moment)
    # the tries of the steps, in the order in which they began
    attempts: tuple[Attempt, ...] = ()
    asked_by: str = ""  # who asked for it: a user and host, or a DAG's run

    def under_way(self, current: str | None) -> bool:
        """Return whether the update has not ended, and one of its versions is the current deployment."""
        return self.outcome is None and current in (self.old, self.new)

    @property
    def runs(self) -> str:
        """The deployment that runs after the update has ended."""
        return self.old if self.in_place and self.old else self.new


@attrs.frozen(kw_only=True)
class RollbackRecord:
    """The record of a rollback."""

    number: int  # 1 for an app's first one
    app: str = attrs.field(validator=named("app"))
    left: str = attrs.field(validator=named("deployment"))  # the one that was ended
    back_to: str = attrs.field(validator=named("deployment"))  # the one that runs again
    started_at: str = attrs.field(validator=clock.is_moment)
    asked_by: str = ""  # who asked for it (a user and host, or a DAG's run)
    reason: str | None = None  # why, where an update failed, or nothing was started
    ended_at: str | None = attrs.field(default=None, validator=clock.is_moment)  # None: under way or interrupted
    from_epoch: int | None = None  # the app's when it began; None: nothing ran
    epoch: int | None = None  # of the driver that runs since (None: not yet, or the one before was never stopped)
    # the queries whose sink functions skip batch ids they have seen, as the caller declared: what they compute
    # again gets ids after those of the deployment that was left
    later_ids: tuple[str, ...] = ()

    def under_way(self, current: Current | None) -> bool:
        """Return whether it has not ended, and nothing else was started since. No clock is asked."""
        if current is None or self.ended_at is not None or self.from_epoch is None:
            return False
        claimed = {self.left: 0, self.back_to: 1}.get(current.deployment)
        return claimed is not None and current.epoch <= self.from_epoch + claimed
