"""The compatibility report: what becomes of every stage, source, sink and query, and why."""

from __future__ import annotations

import attrs

from ..errors import StreamUpdateError
from ..text_enum import TextEnum


class Verdict(TextEnum):
    """What becomes of a thing's state, from harmless to impossible. LOSS and IGNORED need agreement."""

    CARRIED = "carried"  # it continues
    MIGRATED = "migrated"  # it continues, its rows rewritten for the new plan
    EMPTY = "empty"  # new: it starts without state
    LOSS = "carried with loss"  # it continues, and some results are not what the new version alone would give
    IGNORED = "ignored"  # gone from the plan: its state is left behind
    REFUSED = "refused"  # it cannot be continued correctly


CARRIED, MIGRATED, EMPTY = Verdict.CARRIED, Verdict.MIGRATED, Verdict.EMPTY
LOSS, IGNORED, REFUSED = Verdict.LOSS, Verdict.IGNORED, Verdict.REFUSED


@attrs.frozen(kw_only=True)
class ReportItem:
    """One verdict.

    thing: stage, source, sink, query, app, watermark or setting
    name: ``query/stage`` for a stage, ``query:watermark`` for what holds for a query as a whole
    rules: ids of the rules it follows from (docs/compatibility.md)
    offer: for a refusal, the name under which the author may declare that it means the same (None: not possible)
    because: the reason given with an agreement
    """

    thing: str
    name: str
    verdict: Verdict
    reason: str
    needs_agreement: bool = False
    agreed: bool = False
    rules: tuple[str, ...] = ()
    offer: str | None = None
    because: str | None = None

    @property
    def blocks(self) -> bool:
        return self.verdict == REFUSED or (self.needs_agreement and not self.agreed)


@attrs.frozen(kw_only=True)
class CompatibilityReport:
    """All verdicts for one new plan against one saved state (`source`: ``snapshot NAME`` or ``deployment ID``)."""

    app: str
    source: str
    items: tuple[ReportItem, ...]

    @property
    def compatible(self) -> bool:
        return not any(item.blocks for item in self.items)

    @property
    def problems(self) -> list[str]:
        """What blocks the update, a line each, with the next step."""
        lines = []
        for item in self.items:
            if item.verdict == REFUSED:
                lines.append(f"{item.thing} {item.name}: {item.reason}{_offer(item)}")
            elif item.blocks:
                lines.append(f"{item.thing} {item.name}: {item.reason}; agree to it with --agree {item.name}")
        return lines

    def to_markdown(self) -> str:
        rows = [
            f"| {i.thing} | {_cell(i.name)} | {i.verdict} | {_cell(i.reason)} | {_agreement(i)} |" for i in self.items
        ]
        head = f"Compatibility of the new version of **{self.app}** with {self.source}: **{self.outcome}**"
        return "\n".join(
            [head, "", "| thing | name | verdict | reason | agreement |", "|---|---|---|---|---|", *rows, ""]
        )

    @property
    def outcome(self) -> str:
        return "compatible" if self.compatible else "not compatible"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _offer(item: ReportItem) -> str:
    return (
        f"; if you know that it means the same, agree with a reason: --agree '{item.offer}=REASON'"
        if item.offer
        else ""
    )


def _agreement(item: ReportItem) -> str:
    if not item.needs_agreement:
        return f"possible: {item.offer}" if item.offer else ""
    return ("agreed" + (f": {_cell(item.because)}" if item.because else "")) if item.agreed else "needed"


class IncompatibleError(StreamUpdateError):
    """The new version cannot continue from the saved state; carries the report."""

    def __init__(self, message: str, report: CompatibilityReport) -> None:
        super().__init__(message)
        self.report = report
