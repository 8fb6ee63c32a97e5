"""Whether a query falls back further than ever before."""

from __future__ import annotations

from collections.abc import Sequence

from ..difference.figures import BatchFigures
from ..registry.deployment import QueryStatus
from .before import Before
from .finding import FEWEST_BEFORE, RECENT_BATCHES, Finding, Found, done, with_rows

LAG_MORE = 1.5  # as in health: what makes an app behind


def lag_growth(now: QueryStatus, batches: Sequence[BatchFigures], before: Before, limit: float) -> Found:
    """Whether a query that is further behind than ever before falls back further: by the rows that came in a second
    before, against those it now gets done."""
    most = max((s.lag_most for s in before.spans if s.lag_most is not None), default=None)
    recent = with_rows(batches)[-RECENT_BATCHES:]
    if now.lag is None or most is None:
        return [Finding(None, "its lag is not known" if now.lag is None else "its lag before is not known")]
    biggest = max(b.rows_in or 0 for b in batches)
    if now.lag <= most * LAG_MORE + biggest:
        return [Finding(False, f"it is {now.lag:.0f} rows behind; before, {most:.0f} at most")]
    hour = before.spans[-60:]
    if len(hour) < FEWEST_BEFORE:
        return [Finding(None, f"only {len(hour)} minutes before are known, which do not tell how much comes in")]
    comes = sum(s.rows_in for s in hour) / (60 * len(hour))
    rate = done(recent)
    least = comes * (1 - limit)
    told = f"it is {now.lag:.0f} rows behind (before, {most:.0f} at most) and gets {rate:.1f} rows a second done"
    return [Finding(rate < least, f"{told}; {comes:.1f} came in before (at least {least:.1f} are needed)")]
