"""The figures of two versions for the same batches, beside each other."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import attrs

from .figures import BatchFigures
from .limits import Limits, percent

MIN_BATCHES = 3  # with input; the times of fewer say little

ROWS_IN, ROWS_OUT, SECONDS, STATE = "rows in", "rows out", "median seconds", "state rows"


@attrs.frozen(kw_only=True)
class BatchPair:
    """A batch that both versions have run."""

    old: BatchFigures
    new: BatchFigures

    @property
    def batch(self) -> int:
        return self.new.batch

    @property
    def with_input(self) -> bool:
        """Whether either version is known to have read rows in it."""
        return bool(self.old.rows_in or self.new.rows_in)


@attrs.frozen(kw_only=True)
class ComparedFigure:
    """A figure of both versions over `batches`: ROWS_IN and ROWS_OUT summed up, SECONDS the median, STATE of a stage
    after the last one. limit: how much of a change is allowed, as a share of the old one (None: any)."""

    figure: str
    stage: str | None = None
    old: int | float
    new: int | float
    batches: tuple[int, ...]
    limit: float | None = None

    @property
    def name(self) -> str:
        return f"{self.figure} of stage {self.stage}" if self.stage else self.figure

    @property
    def change(self) -> float:
        """(new - old) / old; infinite when there is something new where there was nothing."""
        if self.old == self.new:
            return 0.0
        return (self.new - self.old) / self.old if self.old else math.inf

    @property
    def changed(self) -> str:
        """The change in words."""
        if self.change == 0:
            return "none"
        return percent(abs(self.change)) + (" more" if self.change > 0 else " less")

    @property
    def too_much(self) -> bool:
        """Whether the change is above the limit. Less time is no problem."""
        if self.limit is None or self.old == self.new or (self.figure == SECONDS and self.new < self.old):
            return False
        return abs(_exact(self.new) - _exact(self.old)) > _exact(self.limit) * _exact(self.old)


@attrs.frozen(kw_only=True)
class QueryDifference:
    """A query's batches that both versions have run, and what was found.

    problems: each a sentence: a limit that was passed, or one that there was nothing to compare with
    not_compared: each a sentence: which figure could not be compared, in which batches, and why
    """

    query: str
    batches: tuple[BatchPair, ...] = ()
    figures: tuple[ComparedFigure, ...] = ()
    problems: tuple[str, ...] = ()
    not_compared: tuple[str, ...] = ()

    def figure(self, name: str, stage: str | None = None) -> ComparedFigure | None:
        return next((f for f in self.figures if (f.figure, f.stage) == (name, stage)), None)


def compare(
    old: Sequence[BatchFigures],
    new: Sequence[BatchFigures],
    query: str,
    limits: Limits | None = None,
    timed: Sequence[BatchFigures] | None = None,
) -> QueryDifference:
    """What both versions tell of the batches that both have run. A figure that a limit was asked for and that nobody
    knows is a problem: what is unknown may be anything.

    timed: of a driver with the old version's code that works as the new one does, whose times count instead; it may
        have run other batches than are compared
    """
    limits = limits or Limits()
    before = {figures.batch: figures for figures in old}
    pairs = tuple(
        BatchPair(old=before[figures.batch], new=figures)
        for figures in sorted(new, key=lambda f: f.batch)
        if figures.batch in before
    )
    if not pairs:
        why = f"query {query}: no batch was run by both versions (old: {_span(before)}; new: {_span(_ids(new))})"
        problems = (f"{why}, so that its limits cannot be checked",) if limits.any else ()
        return QueryDifference(query=query, problems=problems, not_compared=(why,))
    found = [_rows_in(pairs), _rows_out(pairs, limits), _seconds(pairs, limits, timed), *_state(pairs, limits)]
    figures = tuple(part.figure for part in found if part.figure)
    wrong = [_sentence(figure, pairs) for figure in figures if figure.too_much]
    wrong += _moved([figure for figure in figures if not figure.too_much], pairs)
    unknown = [f"{p.missing}: {LIMIT_UNCHECKED}" for p in found if p.missing and p.limited and not p.figure]
    return QueryDifference(
        query=query,
        batches=pairs,
        figures=figures,
        problems=tuple(f"query {query}: {text}" for text in (*wrong, *unknown)),
        not_compared=tuple(f"query {query}: {part.missing}" for part in found if part.missing),
    )


LIMIT_UNCHECKED = "its limit cannot be checked"


@attrs.frozen(kw_only=True)
class _Part:
    """What became of one figure: it, or what is missing of it and why, or both."""

    figure: ComparedFigure | None = None
    missing: str | None = None
    limited: bool = False


def _rows_in(pairs: Sequence[BatchPair]) -> _Part:
    return _summed(ROWS_IN, pairs, [(p.old.rows_in, p.new.rows_in) for p in pairs], None)


def _rows_out(pairs: Sequence[BatchPair], limits: Limits) -> _Part:
    return _summed(ROWS_OUT, pairs, [(p.old.rows_out, p.new.rows_out) for p in pairs], limits.max_rows_changed)


def _summed(
    figure: str, pairs: Sequence[BatchPair], rows: Sequence[tuple[int | None, int | None]], limit: float | None
) -> _Part:
    """Over the batches for which both are known."""
    known = [(p.batch, o, n) for p, (o, n) in zip(pairs, rows, strict=True) if o is not None and n is not None]
    missing = _missing(figure, pairs, [o is None for o, _ in rows], [n is None for _, n in rows])
    if not known:
        return _Part(missing=missing, limited=limit is not None)
    if limit is not None and len(known) < (needed := min(MIN_BATCHES, len(pairs))):
        few = f"known of {_count(len(known), 'batch', 'batches')}, at least {needed} are needed"
        return _Part(missing=f"{figure} were not compared: {few}", limited=True)
    batches, before, after = zip(*known, strict=True)
    compared = ComparedFigure(figure=figure, old=sum(before), new=sum(after), batches=batches, limit=limit)
    return _Part(figure=compared, missing=missing, limited=limit is not None)


def _seconds(pairs: Sequence[BatchPair], limits: Limits, timed: Sequence[BatchFigures] | None) -> _Part:
    """The medians over the batches with input: a batch without any takes its time for other reasons."""
    limited = limits.max_slower is not None
    with_input = [p for p in pairs if p.with_input]
    before = [p.old for p in with_input] if timed is None else [f for f in timed if f.rows_in]
    if (known := min(len(with_input), len(before))) < MIN_BATCHES:
        of = "" if timed is None else " that were recorded of the old version's code, too"
        few = f"{SECONDS} were not compared: {_count(known, 'batch', 'batches')} with input{of}, at least {MIN_BATCHES}"
        return _Part(missing=f"{few} are needed", limited=limited)
    return _Part(
        figure=ComparedFigure(
            figure=SECONDS,
            old=statistics.median(f.seconds for f in before),
            new=statistics.median(p.new.seconds for p in with_input),
            batches=tuple(p.batch for p in with_input),
            limit=float(_exact(limits.max_slower) - 1) if limits.max_slower is not None else None,
        ),
        limited=limited,
    )


def _state(pairs: Sequence[BatchPair], limits: Limits) -> Iterator[_Part]:
    """Each stage that both versions have, after the last batch for which both counts are exact."""
    limit = limits.max_state_changed
    limited = limit is not None
    missing = _missing(
        STATE, pairs, [p.old.state_rows is None for p in pairs], [p.new.state_rows is None for p in pairs]
    )
    known = [(p.batch, p.old.state_rows, p.new.state_rows) for p in pairs]
    last = next(((b, o, n) for b, o, n in reversed(known) if o is not None and n is not None), None)
    if last is None:
        yield _Part(missing=missing, limited=limited)
        return
    batch, old, new = last
    if batch != pairs[-1].batch:
        yield _Part(missing=missing)
    both = [stage for stage in old if stage in new]
    for stage in both:
        compared = ComparedFigure(
            figure=STATE, stage=stage, old=old[stage], new=new[stage], batches=(batch,), limit=limit
        )
        yield _Part(figure=compared, limited=limited)
    alone = [("old", stage) for stage in old if stage not in new] + [
        ("new", stage) for stage in new if stage not in old
    ]
    for version, stage in alone:
        # With no stage in common the limit has nothing to hold to; beside others, one more or less is only told.
        yield _Part(
            missing=f"{STATE} of stage {stage} were not compared: only the {version} version has it",
            limited=limited and not both,
        )


def _missing(figure: str, pairs: Sequence[BatchPair], old: Sequence[bool], new: Sequence[bool]) -> str | None:
    """For which batches a figure is not known, and of which version."""
    both = [p.batch for p, o, n in zip(pairs, old, new, strict=True) if o and n]
    lacking = {
        "either version": both,
        "the old version": [p.batch for p, o, n in zip(pairs, old, new, strict=True) if o and not n],
        "the new version": [p.batch for p, o, n in zip(pairs, old, new, strict=True) if n and not o],
    }
    told = [f"not known of {whose} in {_batches(ids)}" for whose, ids in lacking.items() if ids]
    return f"{figure} were not compared: {', '.join(told)}" if told else None


def _sentence(figure: ComparedFigure, pairs: Sequence[BatchPair]) -> str:
    """How a limit was passed."""
    allowed = percent(figure.limit or 0.0)
    if figure.figure == SECONDS:
        slower = f"{figure.new / figure.old:.3g} times" if figure.old else "infinitely many times"
        most = f"{1 + (figure.limit or 0.0):.6g} times is allowed"
        return (
            f"the median time of {_batches(figure.batches)} is {slower} the old version's "
            f"({_seconds_text(figure.old)} before, {_seconds_text(figure.new)} now); {most}"
        )
    where = "after" if figure.figure == STATE else "in"
    text = (
        f"{figure.name} changed by {percent(abs(figure.change))} {where} {_batches(figure.batches)} "
        f"({figure.old} before, {figure.new} now); {allowed} is allowed"
    )
    worst = _worst(figure, pairs) if figure.figure == ROWS_OUT and len(figure.batches) > 1 else None
    return f"{text}; {worst}" if worst else text


def _moved(figures: Sequence[ComparedFigure], pairs: Sequence[BatchPair]) -> Iterator[str]:
    """Rows that one batch has more and another one fewer: their sum says nothing of them."""
    for figure in figures:
        if figure.figure != ROWS_OUT or figure.limit is None:
            continue
        both = [(p.old.rows_out or 0, p.new.rows_out or 0) for p in pairs if p.batch in figure.batches]
        moved = sum(abs(new - old) for old, new in both)
        if _exact(moved) > _exact(figure.limit) * _exact(figure.old):
            yield (
                f"{figure.name} of single batches changed by {_count(moved, 'row', 'rows')} together in "
                f"{_batches(figure.batches)} ({figure.old} before, {figure.new} now); {percent(figure.limit)} is "
                f"allowed; {_worst(figure, pairs)}"
            )


def _worst(figure: ComparedFigure, pairs: Sequence[BatchPair]) -> str:
    """The batch in which the rows to the sink differ most."""
    differ = {p.batch: (p.new.rows_out or 0) - (p.old.rows_out or 0) for p in pairs if p.batch in figure.batches}
    batch, by = max(differ.items(), key=lambda item: (abs(item[1]), -item[0]))
    return f"most in batch {batch}, {_count(abs(by), 'row', 'rows')} {'more' if by > 0 else 'fewer'}"


def _seconds_text(seconds: float) -> str:
    return f"{seconds:.3g} s"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _batches(ids: Sequence[int]) -> str:
    """``batch 7`` or ``batches 3 to 5, 8``."""
    return f"batch {ids[0]}" if len(ids) == 1 else f"batches {_runs(ids)}"


def _span(ids: Iterable[int]) -> str:
    return _runs(sorted(ids)) or "none"


def _ids(figures: Iterable[BatchFigures]) -> list[int]:
    return [f.batch for f in figures]


def _runs(ids: Sequence[int]) -> str:
    """Ascending numbers, those that follow each other as ``3 to 5``."""
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in runs)


def _exact(number: int | float | None) -> Decimal:
    """As it is written, so that 29 of 100 is not more than 29%."""
    return Decimal(repr(number))
