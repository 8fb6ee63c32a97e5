"""How a query's lag and watermark went over the last minutes, from what its drivers wrote down. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import attrs

from ...core import clock
from ...core.history.span import Span

LAG_MINUTES = 15  # over which a lag is said to grow
WATERMARK_MINUTES = 30  # over which a watermark is said to stand
STANDS = 0.9  # of the time that has passed: a watermark whose age grew by more has stood still


@attrs.frozen(kw_only=True)
class Trend:
    """spans: a minute each, oldest first, of one query; an hour of them is enough"""

    spans: tuple[Span, ...] = ()

    def _last(self, minutes: int) -> Sequence[Span]:
        if not self.spans:
            return ()
        end = clock.parse(self.spans[-1].at)
        return [span for span in self.spans if end - clock.parse(span.at) < timedelta(minutes=minutes)]

    @property
    def _lags(self) -> list[float]:
        return [span.lag for span in self._last(LAG_MINUTES) if span.lag is not None]

    @property
    def lag_grows(self) -> bool | None:
        """Whether it is larger than it was; None where too little was written down."""
        lags = self._lags
        return None if len(lags) < LAG_MINUTES // 3 else lags[-1] > lags[0]

    @property
    def least_lag(self) -> float:
        """Rows, in the time over which it is said to grow; 0 where none is known."""
        return min(self._lags, default=0.0)

    def behind_since(self, limit: float) -> str | None:
        """The moment (ISO) since when the lag has been above a limit, as far as it was written down."""
        found = None
        for span in reversed(self.spans):
            if span.lag is None:
                continue
            if span.lag <= limit:
                break
            found = span.at
        return found

    @property
    def first_at(self) -> str | None:
        """Where the time begins over which a watermark is said to stand."""
        known = [span for span in self._last(WATERMARK_MINUTES) if span.watermark_age is not None]
        return known[0].at if known else None

    @property
    def watermark_stands(self) -> bool:
        """Whether it did not move although rows came in; False where too little was written down."""
        last = self._last(WATERMARK_MINUTES)
        ages = [(clock.parse(s.at), s.watermark_age) for s in last if s.watermark_age is not None]
        if len(ages) < WATERMARK_MINUTES // 2 or not sum(span.rows_in for span in last):
            return False
        (first, before), (then, after) = ages[0], ages[-1]
        return after - before >= STANDS * (then - first).total_seconds() > 0
