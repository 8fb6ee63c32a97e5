"""How long a supervisor waits before it starts a driver again, and when it gives up."""

from __future__ import annotations

import attrs

from ...core.errors import InvalidInputError


@attrs.frozen(kw_only=True)
class Backoff:
    """Named as Flink's exponential-delay restart strategy. The first start in a row has no delay.

    initial: seconds before the second start; multiplier: of each delay to the next; most: seconds at most
    attempts: starts in a row without a recovery, after which the app is left alone
    reset_after: seconds that a driver must have run, and committed, to count as recovered
    """

    initial: float = 5.0
    multiplier: float = 2.0
    most: float = 300.0
    attempts: int = 10
    reset_after: float = 600.0

    def __attrs_post_init__(self) -> None:
        if self.attempts < 1:
            raise InvalidInputError("a supervisor needs at least one attempt (attempts)")
        if self.initial < 0 or self.most < self.initial or self.multiplier < 1:
            raise InvalidInputError(
                "the first delay must not be negative, the longest not shorter than it, and the multiplier at least 1"
            )

    def delay(self, attempts: int) -> float:
        """Seconds from the last start to the next one, after so many in a row."""
        if attempts == 0:
            return 0.0
        # the exponent is bounded, so that no number of attempts overflows
        return min(self.most, self.initial * self.multiplier ** min(attempts - 1, 64))
