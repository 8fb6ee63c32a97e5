"""What became of an app, for the person on call: what happened, why, what runs now, what to do, and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..core.errors import StreamUpdateError
from ..core.registry.update import PROMOTED, REFUSED, ROLLED_BACK, SUPERSEDED, Outcome, UpdateRecord
from ..links.streamupdate import file_link
from ..plugins.masking import masked, reason_of

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient
    from ..control.status import AppStatus

_HOW = {
    PROMOTED: "was promoted",
    ROLLED_BACK: "was rolled back",
    REFUSED: "was refused; the old version was not touched",
    SUPERSEDED: "was not continued, and was superseded by another update",
    Outcome.CANCELLED: "was ended, since the app was cancelled",
    None: "has not ended",
}
_CORRECT = "correct the new version, and update again"
_NEXT: dict[Outcome | None, str] = {ROLLED_BACK: _CORRECT, REFUSED: _CORRECT}


@attrs.frozen(kw_only=True)
class Report:
    """app: its name; update: the id of the update (None: none was begun); outcome: how it ended (promoted, rolled-back,
        refused, superseded; None: it has not)
    previous: the deployment that ran before; runs: the one that runs now; state: what its driver does
    strategy, step: the update's strategy, and its last step; pause_seconds: for how long input waited
    reason: why it ended so; next_step: what to do; None: nothing
    problem: why not all of this is known; None: it is
    links: addresses by what they lead to (``Streams``, ``Spark UI``, ``Driver log``)
    """

    app: str
    update: str | None = None
    outcome: str | None = None
    previous: str | None = None
    runs: str | None = None
    state: str | None = None
    strategy: str | None = None
    step: str | None = None
    pause_seconds: float | None = None
    reason: str | None = None
    next_step: str | None = None
    problem: str | None = None
    links: dict[str, str] = attrs.field(factory=dict)

    @property
    def subject(self) -> str:
        """One line."""
        if self.update is None:
            return f"{self.app}: {'no update began' if self.problem is None else 'its state is not known'}"
        how = next(text for outcome, text in _HOW.items() if self.outcome == outcome)
        return f"{self.app}: the update to {self.update} {how}"

    @property
    def text(self) -> str:
        """All of it, in lines."""
        pause = None if self.pause_seconds is None else f"{self.pause_seconds:g} s"
        now = f"{self.runs} is {self.state}" if self.runs else self.state
        lines = {"Why": self.reason, "Now": now, "Pause": pause, "Next": self.next_step, "Not known": self.problem}
        told = [f"{name}: {text}" for name, text in {**lines, **self.links}.items() if text]
        return "\n".join([self.subject, *told])

    def to_dict(self) -> dict[str, Any]:
        """All fields, with `subject` and `text`, and without secrets that Airflow knows."""
        found: dict[str, Any] = masked({**attrs.asdict(self), "subject": self.subject, "text": self.text})
        return found


def report_of(client: StreamUpdateClient, app: str, update: str | None, links: dict[str, str]) -> Report:
    """The report on an app and on an update of it (None: none). What cannot be read is told as its problem.

    links: more addresses
    """
    found: dict[str, Any] = {}
    try:
        registry = client.registry.existing(app)
        status = client.status(app)
        found |= _now(status)
        links = {**links, **_links(client, status)}
        record = registry.update(update) if update else None
        if record is not None:
            found |= _of_update(record) | {"reason": reason_of(registry, record)}
            found["next_step"] = found["next_step"] or _NEXT.get(record.outcome)
    except StreamUpdateError as error:
        found["problem"] = str(error)
    return Report(app=app, links=links, **found)


def _now(status: AppStatus) -> dict[str, Any]:
    runs = status.current.deployment if status.current else None
    return {"runs": runs, "state": str(status.state), "next_step": status.next_step}


def _of_update(record: UpdateRecord) -> dict[str, Any]:
    return {
        "update": record.new,
        "outcome": None if record.outcome is None else str(record.outcome),
        "previous": record.old,
        "strategy": record.strategy,
        "step": record.step,
        "pause_seconds": record.pause_seconds,
    }


def _links(client: StreamUpdateClient, status: AppStatus) -> dict[str, str]:
    if status.current is None:
        return {}
    log = file_link(client.drivers(status.app).log(status.current.deployment))
    found = {"Spark UI": status.status.spark_ui if status.status else None, "Driver log": log}
    return {name: address for name, address in found.items() if address}
