"""What a query did before the update."""

from __future__ import annotations

import attrs

from ..difference.figures import BatchFigures
from ..history.span import Span


@attrs.frozen(kw_only=True)
class Before:
    """runs: minutes of one driver without a gap each, oldest first; batches: the last ones of the old version
    own: those runs that are the old version's, where they tell enough: what the one before it gave for a row may have
        been changed on purpose
    pace: batches a minute of its last driver, the mean (0: not known)
    quiet: seconds from the old version's last commit to its driver's last heartbeat

    Stages have the names that they have in the new version.

    changed: why rows out and state cannot be compared (empty: they can). uncounted: stages whose rows cannot be
    unread: files of those minutes that cannot be read
    rare: why more rows out, and a stage that grows, may be what comes once in a while (empty: it would be known)
    """

    runs: tuple[tuple[Span, ...], ...] = ()
    own: tuple[tuple[Span, ...], ...] = ()
    batches: tuple[BatchFigures, ...] = ()
    pace: float = 0.0
    quiet: float = 0.0
    changed: str = ""
    uncounted: frozenset[str] = frozenset()
    rare: str = ""
    unread: tuple[str, ...] = ()

    @property
    def spans(self) -> tuple[Span, ...]:
        """All minutes, oldest first."""
        return tuple(span for run in self.runs for span in run)
