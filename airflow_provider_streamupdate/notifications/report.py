"""The report on an update for the person on call: outcome, reason, what runs now, the next step, and links."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from ..core.errors import StreamUpdateError
from ..core.registry.update import HOW_ENDED, REFUSED, ROLLED_BACK, Outcome
from ..links.streamupdate import file_link
from ..plugins.masking import masked, reason_of

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient
    from ..control.status import AppStatus

_CORRECT = "correct the new version, and update again"
_NEXT: dict[Outcome | None, str] = {ROLLED_BACK: _CORRECT, REFUSED: _CORRECT}


@attrs.frozen(kw_only=True)
class Report:
    """A report on an app and its update."""

    app: str
    update: str | None = None  # its id; None: no update began
    outcome: str | None = None  # promoted, rolled-back, refused, superseded; None: it has not ended
    previous: str | None = None  # the deployment that ran before
    runs: str | None = None  # the deployment that runs now
    state: str | None = None  # of its driver
    strategy: str | None = None
    step: str | None = None  # the update's last one
    pause_seconds: float | None = None  # how long input waited
    reason: str | None = None  # of the outcome
    next_step: str | None = None  # None: nothing to do
    problem: str | None = None  # why this report is incomplete; None: it is complete
    links: dict[str, str] = attrs.field(factory=dict)  # addresses by name (``Streams``, ``Spark UI``, ``Driver log``)

    @property
    def subject(self) -> str:
        """The report in one line."""
        if self.update is None:
            return f"{self.app}: {'no update began' if self.problem is None else 'its state is not known'}"
        how = HOW_ENDED[None if self.outcome is None else Outcome(self.outcome)]
        return f"{self.app}: the update to {self.update} {how}"

    @property
    def text(self) -> str:
        """The whole report, a fact each line."""
        pause = None if self.pause_seconds is None else f"{self.pause_seconds:g} s"
        now = f"{self.runs} is {self.state}" if self.runs else self.state
        lines = {"Why": self.reason, "Now": now, "Pause": pause, "Next": self.next_step, "Not known": self.problem}
        facts = [f"{name}: {text}" for name, text in {**lines, **self.links}.items() if text]
        return "\n".join([self.subject, *facts])

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
        registry, status = client.registry.existing(app), client.status(app)
        runs = status.current.deployment if status.current else None
        found = {"runs": runs, "state": str(status.state), "next_step": status.outage and status.outage.help}
        links = {**links, **_links(client, status)}
        record = registry.update(update) if update else None
        if record is not None:
            same = {name: getattr(record, name) for name in ("strategy", "step", "pause_seconds")}
            outcome, reason = None if record.outcome is None else str(record.outcome), reason_of(registry, record)
            found |= {"update": record.new, "previous": record.old, "outcome": outcome, "reason": reason, **same}
            found["next_step"] = found["next_step"] or _NEXT.get(record.outcome)
    except StreamUpdateError as error:
        found["problem"] = str(error)
    return Report(app=app, links=links, **found)


def _links(client: StreamUpdateClient, status: AppStatus) -> dict[str, str]:
    if status.current is None:
        return {}
    log = file_link(client.drivers(status.app).log(status.current.deployment))
    found = {"Spark UI": status.status.spark_ui if status.status else None, "Driver log": log}
    return {name: address for name, address in found.items() if address}
