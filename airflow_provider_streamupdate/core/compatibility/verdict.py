"""What the compatibility check says of one thing: a verdict and why."""

from __future__ import annotations

import attrs

from ..text_enum import TextEnum


class Verdict(TextEnum):
    """The fate of a thing's state, from harmless to impossible. LOSS and IGNORED need agreement."""

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
    continues: the name that the unnamed source or stage had which this one continues (None: it had this name)
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
    continues: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything but an unchanged continuation was found."""
        return self.verdict != CARRIED or self.continues is not None or any(not r.endswith(".same") for r in self.rules)

    @property
    def blocks(self) -> bool:
        return self.verdict == REFUSED or (self.needs_agreement and not self.agreed)
