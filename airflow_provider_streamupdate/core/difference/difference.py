"""The figures that two versions report for the same batches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

import attrs

from .figures import BatchFigures
from .limits import Limits, percent

ROUNDING = 1e-9  # of a share that is written in decimals
MIN_BATCHES = 3  # that a limit needs; the times of fewer say little
ROWS_IN, ROWS_OUT, SECONDS, STATE = "rows in", "rows out", "median seconds", "state rows"
UNCHECKED = "its limit cannot be checked"


@attrs.frozen(kw_only=True)
class BatchPair:
    """A batch that both versions have run."""

    old: BatchFigures
    new: BatchFigures

    @property
    def batch(self) -> int:
        return self.new.batch


@attrs.frozen(kw_only=True)
class ComparedFigure:
    """A figure of both versions."""

    figure: str  # ROWS_IN and ROWS_OUT: sums over the batches; SECONDS: the median; STATE: after the last batch
    stage: str | None = None  # of STATE
    old: int | float
    new: int | float
    # The change to which the limit is held. Of rows: the sum over the batches of how much each one differs, so that
    # ten more in one batch and ten fewer in another are twenty. Of seconds: 0 when there are fewer.
    change: int | float
    batches: tuple[int, ...]
    limit: float | None = None  # the allowed change as a share of the old figure; None: any

    @property
    def name(self) -> str:
        return f"{self.figure} of stage {self.stage}" if self.stage else self.figure

    @property
    def changed(self) -> str:
        """The change in words."""
        difference = self.change or abs(self.new - self.old)
        if not difference:
            return "none"
        moved = self.figure in (ROWS_IN, ROWS_OUT) and abs(self.new - self.old) != difference
        direction = "by batch" if moved else "more" if self.new > self.old else "less"
        return f"{percent(difference / self.old if self.old else math.inf)} {direction}"

    @property
    def too_much(self) -> bool:
        """Whether the change is above the limit, by more than rounding: 29 of 100 is not more than 29%."""
        return self.limit is not None and self.change > self.limit * self.old * (1 + ROUNDING)

    @property
    def allowed(self) -> str | None:
        """The limit in words; None: there is none."""
        more = " more" if self.figure == SECONDS else ""
        return None if self.limit is None else f"{percent(self.limit)}{more}"

    @property
    def problem(self) -> str:
        """A change above the limit, in words."""
        where, before, now = _batches(self.batches), f"{self.old:.6g} before", f"{self.new:.6g} now"
        return f"{self.name} in {where}: {before}, {now}, {self.changed}; {self.allowed} is allowed"


@attrs.frozen
class _Missing:
    """A figure that could not be compared."""

    reason: str
    unchecked: bool  # there is a limit, and nothing to hold to it


@attrs.frozen(kw_only=True)
class QueryDifference:
    """The figures of a query's batches that both versions have run."""

    query: str
    batches: tuple[BatchPair, ...] = ()
    figures: tuple[ComparedFigure, ...] = ()
    problems: tuple[str, ...] = ()  # a sentence for each limit that was exceeded or could not be checked
    not_compared: tuple[str, ...] = ()  # a sentence for each figure that could not be compared

    @property
    def summary(self) -> str:
        """The findings in a line."""
        changes = [f"{figure.name} {figure.changed}" for figure in self.figures if figure.changed != "none"]
        return f"query {self.query}, {len(self.batches)} batches, {', '.join(changes) or 'no difference'}"


def compare(
    old: Sequence[BatchFigures],
    new: Sequence[BatchFigures],
    query: str,
    limits: Limits | None = None,
    timed: Sequence[BatchFigures] | None = None,
) -> QueryDifference:
    """Compare what both versions report for the batches that both have run. A limited figure that is unknown is a
    problem.

    timed: figures of a driver with the old version's code that records rows, too. Its times replace the old version's.
    It may have run other batches
    """
    limits = limits or Limits()
    before, after = ({figures.batch: figures for figures in side} for side in (old, new))
    pairs = tuple(BatchPair(old=before[batch], new=after[batch]) for batch in sorted(before.keys() & after.keys()))
    outcomes = list(_outcomes(pairs, limits, timed))
    figures = tuple(outcome for outcome in outcomes if isinstance(outcome, ComparedFigure))
    missing = [outcome for outcome in outcomes if isinstance(outcome, _Missing)]
    problems = [figure.problem for figure in figures if figure.too_much]
    problems += [f"{each.reason}: {UNCHECKED}" for each in missing if each.unchecked]
    return QueryDifference(
        query=query,
        batches=pairs,
        figures=figures,
        problems=tuple(f"query {query}: {text}" for text in problems),
        not_compared=tuple(f"query {query}: {each.reason}" for each in missing),
    )


def _outcomes(
    pairs: Sequence[BatchPair], limits: Limits, timed: Sequence[BatchFigures] | None
) -> Iterator[ComparedFigure | _Missing]:
    if not pairs:
        yield _Missing("no batch was run by both versions", limits.any)
        return
    yield from _rows(ROWS_IN, "rows_in", pairs, None)
    yield from _rows(ROWS_OUT, "rows_out", pairs, limits.max_rows_changed)
    yield _seconds(pairs, limits.max_slower, timed)
    yield from _state(pairs, limits.max_state_changed)


def _rows(
    name: str, field: str, pairs: Sequence[BatchPair], limit: float | None
) -> Iterator[ComparedFigure | _Missing]:
    """Compare the rows of those batches of which both versions report a number. field: its name in BatchFigures"""
    every = [(pair.batch, getattr(pair.old, field), getattr(pair.new, field)) for pair in pairs]
    known = [each for each in every if None not in each]
    too_few = len(known) < (1 if limit is None else min(MIN_BATCHES, len(pairs)))
    if unknown := [batch for batch, *rows in every if None in rows]:
        reason = f"{name} were not compared in {_batches(unknown)}: a version does not report them"
        yield _Missing(reason, too_few and limit is not None)
    if not too_few:
        yield ComparedFigure(
            figure=name,
            old=sum(old for _, old, _ in known),
            new=sum(new for _, _, new in known),
            change=sum(abs(new - old) for _, old, new in known),
            batches=tuple(batch for batch, _, _ in known),
            limit=limit,
        )


def _seconds(
    pairs: Sequence[BatchPair], max_slower: float | None, timed: Sequence[BatchFigures] | None
) -> ComparedFigure | _Missing:
    """Compare the medians over the batches with input."""
    with_input = [pair for pair in pairs if pair.old.rows_in or pair.new.rows_in]
    before = [pair.old for pair in with_input] if timed is None else [f for f in timed if f.rows_in]
    if min(len(with_input), len(before)) < MIN_BATCHES:
        reason = f"{SECONDS} were not compared: fewer than {MIN_BATCHES} batches with input of each version"
        return _Missing(reason, max_slower is not None)
    old = statistics.median(figures.seconds for figures in before)
    new = statistics.median(pair.new.seconds for pair in with_input)
    return ComparedFigure(
        figure=SECONDS,
        old=old,
        new=new,
        change=max(new - old, 0.0),
        batches=tuple(pair.batch for pair in with_input),
        limit=None if max_slower is None else max_slower - 1,
    )


def _state(pairs: Sequence[BatchPair], limit: float | None) -> Iterator[ComparedFigure | _Missing]:
    """Compare each stage that both versions have, after the last batch for which both counts are exact."""
    limited = limit is not None
    for pair in reversed(pairs):
        old, new = pair.old.state_rows, pair.new.state_rows
        if old is not None and new is not None:
            break
    else:
        yield _Missing(f"{STATE} were not compared: not reported exactly", limited)
        return
    both = [stage for stage in old if stage in new]
    for stage in both:
        was, now = old[stage], new[stage]
        change, batches = abs(now - was), (pair.batch,)
        yield ComparedFigure(figure=STATE, stage=stage, old=was, new=now, change=change, batches=batches, limit=limit)
    for stage in {**old, **new}:
        if stage not in both:
            only = f"only the {'old' if stage in old else 'new'} version has it"
            yield _Missing(f"{STATE} of stage {stage} were not compared: {only}", limited and not both)


def _batches(batches: Sequence[int]) -> str:
    first, last = batches[0], batches[-1]
    if first == last:
        return f"batch {first}"
    return f"{'' if last - first < len(batches) else f'{len(batches)} of '}batches {first} to {last}"
