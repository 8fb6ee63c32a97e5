"""The figures that two versions report for the same batches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from decimal import Decimal

import attrs

from .figures import BatchFigures
from .limits import Limits, percent

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
        share = percent(difference / self.old if self.old else math.inf)
        direction = "more" if self.new > self.old else "less"
        moved = self.figure in (ROWS_IN, ROWS_OUT) and abs(self.new - self.old) != difference
        return f"{share} {'by batch' if moved else direction}"

    @property
    def too_much(self) -> bool:
        """Whether the change is above the limit."""
        return self.limit is not None and _exact(self.change) > _exact(self.limit) * _exact(self.old)

    @property
    def allowed(self) -> str | None:
        """The limit in words; None: there is none."""
        more = " more" if self.figure == SECONDS else ""
        return None if self.limit is None else f"{percent(self.limit)}{more}"


@attrs.frozen(kw_only=True)
class QueryDifference:
    """The figures of a query's batches that both versions have run."""

    query: str
    batches: tuple[BatchPair, ...] = ()
    figures: tuple[ComparedFigure, ...] = ()
    problems: tuple[str, ...] = ()  # a sentence for each limit that was exceeded or could not be checked
    not_compared: tuple[str, ...] = ()  # a sentence for each figure that could not be compared

    def figure(self, name: str, stage: str | None = None) -> ComparedFigure | None:
        return next((f for f in self.figures if (f.figure, f.stage) == (name, stage)), None)


@attrs.frozen(kw_only=True)
class _Outcome:
    """The comparison of one figure."""

    figure: ComparedFigure | None = None
    missing: str | None = None  # what could not be compared, and why
    unchecked: bool = False  # there is a limit, and nothing to hold to it


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
    before = {figures.batch: figures for figures in old}
    after = sorted((figures for figures in new if figures.batch in before), key=lambda figures: figures.batch)
    pairs = tuple(BatchPair(old=before[figures.batch], new=figures) for figures in after)
    if pairs:
        rows = (_rows(ROWS_IN, pairs, None), _rows(ROWS_OUT, pairs, limits.max_rows_changed))
        outcomes = [*rows, _seconds(pairs, limits.max_slower, timed), *_state(pairs, limits.max_state_changed)]
    else:
        outcomes = [_Outcome(missing="no batch was run by both versions", unchecked=limits.any)]
    figures = tuple(outcome.figure for outcome in outcomes if outcome.figure)
    problems = [
        f"{f.name} in {_batches(f.batches)}: {f.old:.6g} before, {f.new:.6g} now, {f.changed}; {f.allowed} is allowed"
        for f in figures
        if f.too_much
    ]
    problems += [f"{outcome.missing}: {UNCHECKED}" for outcome in outcomes if outcome.unchecked]
    return QueryDifference(
        query=query,
        batches=pairs,
        figures=figures,
        problems=tuple(f"query {query}: {text}" for text in problems),
        not_compared=tuple(f"query {query}: {outcome.missing}" for outcome in outcomes if outcome.missing),
    )


def _rows(name: str, pairs: Sequence[BatchPair], limit: float | None) -> _Outcome:
    """Compare the rows of those batches of which both versions report a number."""
    both = [(p.old.rows_in, p.new.rows_in) if name == ROWS_IN else (p.old.rows_out, p.new.rows_out) for p in pairs]
    batches = [pair.batch for pair in pairs]
    known = [(b, o, n) for b, (o, n) in zip(batches, both, strict=True) if o is not None and n is not None]
    unknown = [batch for batch in batches if batch not in {b for b, _, _ in known}]
    missing = f"{name} were not compared in {_batches(unknown)}: a version does not report them" if unknown else None
    needed = 1 if limit is None else min(MIN_BATCHES, len(pairs))
    if len(known) < needed:
        return _Outcome(missing=missing, unchecked=limit is not None)
    figure = ComparedFigure(
        figure=name,
        old=sum(o for _, o, _ in known),
        new=sum(n for _, _, n in known),
        change=sum(abs(n - o) for _, o, n in known),
        batches=tuple(b for b, _, _ in known),
        limit=limit,
    )
    return _Outcome(figure=figure, missing=missing)


def _seconds(
    pairs: Sequence[BatchPair], max_slower: float | None, timed: Sequence[BatchFigures] | None = None
) -> _Outcome:
    """Compare the medians over the batches with input."""
    with_input = [pair for pair in pairs if pair.old.rows_in or pair.new.rows_in]
    before = [pair.old for pair in with_input] if timed is None else [f for f in timed if f.rows_in]
    if min(len(with_input), len(before)) < MIN_BATCHES:
        few = f"{SECONDS} were not compared: fewer than {MIN_BATCHES} batches with input of each version"
        return _Outcome(missing=few, unchecked=max_slower is not None)
    old = statistics.median(figures.seconds for figures in before)
    new = statistics.median(pair.new.seconds for pair in with_input)
    figure = ComparedFigure(
        figure=SECONDS,
        old=old,
        new=new,
        change=float(max(_exact(new) - _exact(old), Decimal(0))),
        batches=tuple(pair.batch for pair in with_input),
        limit=None if max_slower is None else float(_exact(max_slower) - 1),
    )
    return _Outcome(figure=figure)


def _state(pairs: Sequence[BatchPair], limit: float | None) -> Iterator[_Outcome]:
    """Compare each stage that both versions have, after the last batch for which both counts are exact."""
    known = [(p.batch, p.old.state_rows, p.new.state_rows) for p in pairs]
    exact = [(batch, old, new) for batch, old, new in known if old is not None and new is not None]
    if not exact:
        yield _Outcome(missing=f"{STATE} were not compared: not reported exactly", unchecked=limit is not None)
        return
    batch, old, new = exact[-1]
    both = [stage for stage in old if stage in new]
    for stage in both:
        before, after = old[stage], new[stage]
        yield _Outcome(
            figure=ComparedFigure(
                figure=STATE,
                stage=stage,
                old=before,
                new=after,
                change=abs(after - before),
                batches=(batch,),
                limit=limit,
            )
        )
    for stage in [*(s for s in old if s not in new), *(s for s in new if s not in old)]:
        only = f"only the {'old' if stage in old else 'new'} version has it"
        yield _Outcome(
            missing=f"{STATE} of stage {stage} were not compared: {only}", unchecked=limit is not None and not both
        )


def _batches(batches: Sequence[int]) -> str:
    first, last = batches[0], batches[-1]
    if first == last:
        return f"batch {first}"
    return f"{'' if last - first < len(batches) else f'{len(batches)} of '}batches {first} to {last}"


def _exact(number: float) -> Decimal:
    """Return the number as it is written, so that 29 of 100 is not more than 29%."""
    return Decimal(repr(number))
