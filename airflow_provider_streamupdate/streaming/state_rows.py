"""How many rows the stages of a query hold, and how many have left since the driver's start."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

Reported = Sequence[tuple[int, Sequence[tuple[int, int]]]]  # batch, and rows held and removed of each stage


@attrs.frozen(kw_only=True)
class StateRows:
    """batch: the last one that was counted; rows, removed: of each stage, in the order of operator ids (removed is None
    where reports are missing: then what has left is not known)"""

    batch: int
    rows: tuple[int, ...] | None = None
    removed: tuple[int, ...] | None = ()

    def after(self, reported: Reported) -> StateRows:
        """With what was reported of later batches, oldest first."""
        now = self
        for batch, stages in reported:
            left = tuple(removed for _, removed in stages)
            total: tuple[int, ...] | None = None
            if now.removed is not None and batch == now.batch + 1:
                total = tuple(map(sum, zip(now.removed, left, strict=False))) if now.removed else left
            now = StateRows(batch=batch, rows=tuple(rows for rows, _ in stages), removed=total)
        return now
