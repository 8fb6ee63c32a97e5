"""Some batches, one after the other, taken together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import attrs

from ..difference.figures import BatchFigures
from ..history.span import Span


@attrs.frozen(kw_only=True)
class Stretch:
    """rows_out: None where it is not known of each batch. gained: rows by stage, of the stages that are known at both
    ends (negative: lost)"""

    rows_in: int
    rows_out: int | None
    gained: dict[str, int]

    @property
    def out_share(self) -> float | None:
        """Rows out per row in; None: unknown."""
        return self.rows_out / self.rows_in if self.rows_out is not None and self.rows_in else None

    def gain_share(self, stage: str) -> float | None:
        """Rows that the stage gained per row in; None: unknown."""
        return self.gained[stage] / self.rows_in if stage in self.gained and self.rows_in else None


def of_batches(batches: Sequence[BatchFigures]) -> Stretch:
    """The first batch is where the state is counted from: its rows are not among those that came in or went out."""
    later = batches[1:]
    out = [b.rows_out for b in later]
    first, last = (batches[at].state_rows or {} for at in (0, -1))
    return Stretch(
        rows_in=sum(b.rows_in or 0 for b in later),
        rows_out=None if None in out else sum(rows for rows in out if rows is not None),
        gained={stage: last[stage] - first[stage] for stage in first.keys() & last.keys()},
    )


def windows(batches: Sequence[BatchFigures], length: int) -> Iterator[Stretch]:
    """Every stretch of so many batches."""
    for first in range(len(batches) - length + 1):
        yield of_batches(batches[first : first + length])


def of_minutes(spans: Sequence[Span]) -> Iterator[Stretch]:
    """A stretch for each minute but the first one of a run of them, which has nothing to count its state from."""
    for before, span in pairwise(spans):
        if span.rows_in:
            stages = before.state_rows.keys() & span.state_rows.keys()
            gained = {stage: span.state_rows[stage] - before.state_rows[stage] for stage in stages}
            yield Stretch(rows_in=span.rows_in, rows_out=span.rows_out, gained=gained)


def high(values: Iterable[float]) -> float | None:
    """What 19 of 20 values do not exceed; None without any."""
    found = sorted(values)
    return found[math.ceil(len(found) * 0.95) - 1] if found else None


def middle(values: Iterable[float]) -> float:
    return statistics.median(values)
