"""Some batches, or minutes, one after the other, taken together."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence

import attrs

from ..difference.figures import BatchFigures
from ..history.span import Span


@attrs.frozen(kw_only=True)
class Stretch:
    """rows_in: of all batches; rows_out: of those whose rows out are known, which are `batches` and read `told_in` rows
    (None: of none)
    gained: rows by stage, of the stages that are known at both ends (negative: lost)"""

    rows_in: int
    batches: int
    told_in: int
    rows_out: int | None
    gained: dict[str, int]

    @property
    def out_share(self) -> float | None:
        """Rows out per row in; None: unknown."""
        return self.rows_out / self.told_in if self.rows_out is not None and self.told_in else None

    def gain_share(self, stage: str) -> float | None:
        """Rows that the stage gained per row in; None: unknown."""
        return self.gained[stage] / self.rows_in if stage in self.gained and self.rows_in else None


def of_batches(batches: Sequence[BatchFigures]) -> Stretch:
    """The first batch is where the state is counted from: its rows are not among those that came in or went out."""
    later = batches[1:]
    told = [(b.rows_in or 0, b.rows_out) for b in later if b.rows_out is not None]
    return Stretch(
        rows_in=sum(b.rows_in or 0 for b in later),
        batches=len(told),
        told_in=sum(rows for rows, _ in told),
        rows_out=sum(rows for _, rows in told) if told else None,
        gained=_gained(batches[0].state_rows or {}, batches[-1].state_rows or {}),
    )


def windows(batches: Sequence[BatchFigures], length: int) -> Iterator[Stretch]:
    """Every stretch of so many batches."""
    for first in range(len(batches) - length + 1):
        yield of_batches(batches[first : first + length])


def of_minutes(runs: Iterable[Sequence[Span]], rows: int) -> Iterator[Stretch]:
    """Stretches that have at least so many rows in: a quiet minute goes with those after it. The first minute of a run
    is where the state is counted from."""
    for run in runs:
        start, part = run[:1], []
        for span in run[1:]:
            part.append(span)
            if sum(s.rows_in for s in part) >= max(rows, 1):
                yield _stretch(start[0], part)
                start, part = (span,), []


def _stretch(before: Span, spans: Sequence[Span]) -> Stretch:
    out = [s.rows_out for s in spans if s.timed]
    rows = sum(s.rows_in for s in spans)
    return Stretch(
        rows_in=rows,
        batches=sum(s.timed for s in spans),
        told_in=rows,
        rows_out=None if None in out else sum(n for n in out if n is not None),
        gained=_gained(before.state_rows, spans[-1].state_rows),
    )


def _gained(first: dict[str, int], last: dict[str, int]) -> dict[str, int]:
    return {stage: last[stage] - first[stage] for stage in first.keys() & last.keys()}


def of_ten_minutes(runs: Iterable[Sequence[Span]], batches: int = 0) -> Iterator[Sequence[Span]]:
    """Ten minutes each, of one run, or more until they have so many batches; a rest goes with the ones before."""
    for run in runs:
        parts: list[list[Span]] = []
        for span in run:
            if not parts or (len(parts[-1]) >= 10 and sum(s.timed for s in parts[-1]) >= batches):
                parts.append([])
            parts[-1].append(span)
        if len(parts) > 1 and (len(parts[-1]) < 10 or sum(s.timed for s in parts[-1]) < batches):
            parts[-2:] = [parts[-2] + parts[-1]]
        yield from parts


def high(values: Iterable[float]) -> float | None:
    """What 19 of 20 values do not exceed; None without any."""
    found = sorted(values)
    return found[math.ceil(len(found) * 0.95) - 1] if found else None


def middle(values: Iterable[float]) -> float:
    return statistics.median(values)
