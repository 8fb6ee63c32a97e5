"""What a rule of the SLO gate says, and what all rules count by."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..difference.figures import COLD_BATCHES, BatchFigures
from ..registry.deployment import QueryStatus

PATIENCE_SECONDS = 60.0  # for what looks worse to get better
LONGEST_SECONDS = 300.0  # for batches to judge by, or for one to end
HUNG_SECONDS = 5.0  # a batch that takes less long is not waited for
FEWEST_BATCHES = 5  # of the new version, warm ones
ENOUGH_BATCHES = COLD_BATCHES + FEWEST_BATCHES
FEWEST_BEFORE = 10  # batches or minutes
RECENT_BATCHES = 10  # the last ones, whose time counts
MORE_ROWS = 1.25  # batches with more rows than that, as a multiple of the most before, are those of a backlog
SIGMAS = 3.0  # a count of rows that is a matter of chance is off by its root


@attrs.frozen
class Finding:
    """What a rule says of a query. exceeded, why, open, ends: see Judgement"""

    exceeded: bool | None
    why: str
    open: float = 0.0
    ends: bool = False


Found = list[Finding]


def warm(query: QueryStatus) -> tuple[BatchFigures, ...]:
    """The batches of its driver, without the first ones."""
    first = query.batch if query.first_batch is None else query.first_batch
    return tuple(f for f in query.figures if f.batch >= first + COLD_BATCHES)


def with_rows(batches: Sequence[BatchFigures]) -> list[BatchFigures]:
    """Those that had any to read."""
    return [b for b in batches if b.rows_in]


def few(known: int) -> Finding:
    return Finding(None, f"{known} batches with rows are known, and {FEWEST_BATCHES} are needed")


def done(recent: Sequence[BatchFigures]) -> float:
    """Rows a second of work."""
    return sum(b.rows_in or 0 for b in recent) / max(sum(b.seconds for b in recent), 1e-9)
