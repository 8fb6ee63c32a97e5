"""The compatibility report: what becomes of every stage, source, sink and query, and why."""

from __future__ import annotations

import attrs

from ..errors import StreamUpdateError
from ..markdown import bullets, fenced, one_line, table
from .graph import Graph
from .picture import picture_lines, picture_of
from .verdict import ReportItem

BELOW = "(below)"  # the reason of a problem in a table of all verdicts


@attrs.frozen(kw_only=True)
class CompatibilityReport:
    """All verdicts for one new plan against one saved state (`source`: ``snapshot NAME`` or ``deployment ID``).

    graph: of both plans (None: nothing was compared with a plan)
    """

    app: str
    source: str
    items: tuple[ReportItem, ...]
    graph: Graph | None = None

    @property
    def compatible(self) -> bool:
        return not any(item.blocks for item in self.items)

    @property
    def problems(self) -> list[str]:
        """The reasons that block the update, a line each, with the next step."""
        return [
            f"{item.thing} {item.name}: {'; '.join([item.reason, *item.next_steps])}"
            for item in self.items
            if item.blocks
        ]

    @property
    def changes(self) -> list[str]:
        """The verdicts on what does not continue unchanged, a line each, with the reason and the agreement."""
        lines = []
        for item in self.items:
            if item.changed:
                agreed = f", agreed{f' ({item.because})' if item.because else ''}" if item.agreed else ""
                lines.append(f"{item.thing} {item.name}: {item.verdict}{agreed}: {item.reason}")
        return lines

    @property
    def picture(self) -> Graph | None:
        """The old version's queries beside the new one's, with the verdicts on them."""
        return None if self.graph is None else picture_of(self.graph, self.items)

    def to_markdown(self) -> str:
        rows = [(i.thing, i.name, i.verdict, BELOW if i.blocks else i.reason, _agreement(i)) for i in self.items]
        head = f"Compatibility of the new version of **{self.app}** with {self.source}: **{self.outcome}**"
        shown = [*fenced("text", picture_lines(self.picture)), ""] if self.picture else []
        lines = [head, "", *shown, *table(("thing", "name", "verdict", "reason", "agreement"), rows)]
        for item in (item for item in self.items if item.blocks):
            lines += [one_line(f"{item.thing} {item.name}: {item.reason}"), "", *bullets(item.next_steps)]
        return "\n".join(lines)

    @property
    def outcome(self) -> str:
        return "compatible" if self.compatible else "not compatible"


def _agreement(item: ReportItem) -> str:
    if not item.needs_agreement:
        return f"possible: {item.offer}" if item.offer else ""
    return ("agreed" + (f": {item.because}" if item.because else "")) if item.agreed else "needed"


class IncompatibleError(StreamUpdateError):
    """The new version cannot continue from the saved state; carries the report."""

    def __init__(self, message: str, report: CompatibilityReport) -> None:
        super().__init__(message)
        self.report = report
