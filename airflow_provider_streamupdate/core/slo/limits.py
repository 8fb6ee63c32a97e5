"""How much worse than in the hours before a new version may do."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from ..difference.limits import parse_ratio, parse_share
from ..errors import InvalidInputError

PATIENCE_SECONDS = 60.0  # that a version which exceeds a limit has to do better
LONGEST_SECONDS = 300.0  # that batches are waited for


@attrs.frozen(kw_only=True)
class SloLimits:
    """The limits; None: not compared. Their rules are in `rules` and `nulls`."""

    batch_time: float | None = 3.0  # seconds of a batch, as a multiple
    lag_growth: float | None = 0.1  # rows by which the lag grows, as a share of the rows that come in
    rows_out: float | None = 0.5  # rows out, more or fewer, as a share
    state_growth: float | None = 1.0  # rows that a stage gains, more, as a share
    nulls: float | None = 0.1  # the share of nulls in a column of the output, more, in points


NAMES = tuple(field.name.replace("_", "-") for field in attrs.fields(SloLimits))
NO_LIMITS = SloLimits(**dict.fromkeys(attrs.fields_dict(SloLimits)))


def parse_slo(given: Iterable[str]) -> SloLimits:
    """Parse ``NAME=LIMIT``, ``NAME=off`` or ``off`` alone; InvalidInputError says what is wrong."""
    texts = [text.strip() for text in ([given] if isinstance(given, str) else given)]
    if texts == ["off"]:
        return NO_LIMITS
    limits: dict[str, float | None] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        field = name.replace("-", "_")
        if name not in NAMES or not equals:
            raise InvalidInputError(
                f"slo={text!r} is no limit; write NAME=LIMIT, NAME=off, or off alone; names: {', '.join(NAMES)}"
            )
        if field in limits:
            raise InvalidInputError(f"slo={name} is given twice; which one is meant?")
        parse = parse_ratio if field == "batch_time" else parse_share
        limits[field] = None if value == "off" else parse(f"slo {name}", value)
    return SloLimits(**limits)
