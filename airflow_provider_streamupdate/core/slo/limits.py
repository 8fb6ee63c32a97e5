"""How much worse than in the hours before a new version may do."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..difference.limits import parse_ratio, parse_share
from ..errors import InvalidInputError

OFF = "off"


@attrs.frozen(kw_only=True)
class SloLimits:
    """None: it is not compared. What each means is in `judging`.

    batch_time: seconds of a batch, as a multiple
    lag_growth: rows by which the lag grows, as a share of the rows that come in
    rows_out: rows out per row in, more or fewer, as a share
    state_growth: rows that a stage gains per row in, more, as a share
    nulls: share of nulls in a column of the output, more, in points of a whole
    """

    batch_time: float | None = 3.0
    lag_growth: float | None = 0.1
    rows_out: float | None = 0.5
    state_growth: float | None = 1.0
    nulls: float | None = 0.1

    @property
    def any(self) -> bool:
        """Whether anything is compared."""
        return any(value is not None for value in attrs.astuple(self))


NAMES = tuple(field.name.replace("_", "-") for field in attrs.fields(SloLimits))
NO_LIMITS = SloLimits(**dict.fromkeys(attrs.fields_dict(SloLimits)))


def parse_slo(given: Iterable[str]) -> SloLimits:
    """Limits from ``NAME=LIMIT``, ``NAME=off`` or ``off`` alone; what is not named has its default. InvalidInputError
    says what is wrong."""
    texts = [text.strip() for text in ([given] if isinstance(given, str) else given)]
    if OFF in texts:
        if len(texts) > 1:
            raise InvalidInputError(f"slo=off leaves nothing to limit: leave out {OFF!r}, or the others")
        return NO_LIMITS
    found: dict[str, float | None] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        field = name.replace("-", "_")
        if name not in NAMES or not equals:
            raise InvalidInputError(
                f"slo={text!r} is no limit; write NAME=LIMIT, NAME=off, or off alone; names: {', '.join(NAMES)}"
            )
        if field in found:
            raise InvalidInputError(f"slo={name} is given twice; which one is meant?")
        if value == OFF:
            found[field] = None
        else:
            parse = parse_ratio if field == "batch_time" else parse_share
            found[field] = parse(f"slo {name}", value)
    return SloLimits(**found)
