"""What a query did before the update."""

from __future__ import annotations

import attrs

from ..difference.figures import BatchFigures
from ..history.span import Span


@attrs.frozen(kw_only=True)
class Before:
    """spans: of the hours before, a minute each, oldest first; batches: the last ones of the old version

    Stages have the names that they have in the new version.

    changed: why rows out and state cannot be compared (empty: they can). uncounted: stages whose rows cannot be
    """

    spans: tuple[Span, ...] = ()
    batches: tuple[BatchFigures, ...] = ()
    changed: str = ""
    uncounted: frozenset[str] = frozenset()
