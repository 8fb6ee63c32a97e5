"""Agreements: what the author states about an update that the check cannot know.

A loss is agreed to by its name in the report (``windows/daily``). A stage that is refused because it is written
differently, although its state has the same form, may be declared to mean the same: ``windows/daily:same=REASON``. The
reason is kept in the report.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..errors import InvalidInputError
from .verdict import LOSS, REFUSED, ReportItem

SAME = ":same"


def agreements(given: Iterable[str]) -> dict[str, str | None]:
    """Return {name: reason (None: not given)} from ``name`` or ``name=reason``. InvalidInputError for a stage that is
    declared to mean the same without a reason."""
    found: dict[str, str | None] = {}
    for entry in given:
        name, _, reason = str(entry).partition("=")
        found[name.strip()] = reason.strip() or None
    for name in (n for n, reason in found.items() if n.endswith(SAME) and reason is None):
        raise InvalidInputError(
            f"the agreement {name} declares that a stage means the same, without a reason; write {name}=REASON (the "
            "report keeps it)"
        )
    return found


def agree(items: Iterable[ReportItem], given: Iterable[str]) -> tuple[ReportItem, ...]:
    """Return the items with the agreements applied. InvalidInputError for a name that no item has: it would hide a
    mistake."""
    named = agreements(given)
    made = tuple(_agreed(item, named) for item in items)
    possible = names_to_agree_to(made)
    if unknown := sorted(named.keys() - possible):
        raise InvalidInputError(
            f"agreed losses {', '.join(unknown)} are not losses of this change "
            f"(losses: {', '.join(sorted(possible)) or 'none'}); correct the names"
        )
    return made


def names_to_agree_to(items: Iterable[ReportItem]) -> set[str]:
    """Return the names under which the items' losses can be agreed to."""
    names = {item.name for item in items if item.needs_agreement}
    return names | {item.offer for item in items if item.offer}


def _agreed(item: ReportItem, named: dict[str, str | None]) -> ReportItem:
    if item.needs_agreement and item.name in named:
        return attrs.evolve(item, agreed=True, because=named[item.name])
    if item.verdict == REFUSED and item.offer in named:
        because = named[str(item.offer)]
        reason = f"continues as the same, as its author declares ({because}); the check found: {item.reason}"
        return attrs.evolve(item, verdict=LOSS, needs_agreement=True, agreed=True, because=because, reason=reason)
    return item
