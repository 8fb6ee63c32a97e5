"""The figures of a query's batches, as Spark reports them, over repeated looks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

import attrs
from pyspark.sql.streaming import StreamingQuery

from ...core.difference.figures import COLD_BATCHES, BatchFigures, merge
from ...core.plan.plan import StagePlan
from .. import spark_internals
from ..spark_internals import ExecutedBatch
from .state_rows import figures

Seconds = Callable[[StreamingQuery, int], Mapping[int, float]]


class BatchReports:
    """known: of the last batches, in their order. after: the batch before the first one that is looked for
    seconds: how long a query's batches from a first one on took, where its own reports do not say"""

    def __init__(self, after: int = -1, seconds: Seconds | None = None) -> None:
        self._seconds = seconds
        self.known: tuple[BatchFigures, ...] = ()
        self._last = after
        self._cold: tuple[int, ...] = ()  # the first batches that were seen

    def update(self, query: StreamingQuery, stages: Sequence[StagePlan], committed: int) -> tuple[ExecutedBatch, ...]:
        """Note the batches executed since the last call, and return them. committed: the last committed batch"""
        executed = self._timed(query, _executed(query, self._last))
        self._cold = (*self._cold, *(e.batch for e in executed))[:COLD_BATCHES]
        if executed:
            self._last = executed[-1].batch
        self.known = _with_rows_out(merge(self.known, (figures(e, stages) for e in executed)), query, committed)
        return executed

    def _timed(self, query: StreamingQuery, executed: tuple[ExecutedBatch, ...]) -> tuple[ExecutedBatch, ...]:
        if self._seconds is None or not executed:
            return executed
        with contextlib.suppress(Exception):  # a query whose JVM is going down has none
            seconds = self._seconds(query, executed[0].batch)
            return tuple(attrs.evolve(e, seconds=seconds[e.batch]) for e in executed if e.batch in seconds)
        return ()

    @property
    def warm(self) -> tuple[BatchFigures, ...]:
        """Without the first batches of the driver, which take longer than later ones."""
        return tuple(figures for figures in self.known if figures.batch not in self._cold)


def _executed(query: StreamingQuery, after: int) -> tuple[ExecutedBatch, ...]:
    with contextlib.suppress(Exception):  # a query whose JVM is going down has none
        return tuple(spark_internals.executed_batches(query, after))
    return ()


def _with_rows_out(known: tuple[BatchFigures, ...], query: StreamingQuery, committed: int) -> tuple[BatchFigures, ...]:
    """Add the number of rows of the last batch, where it has ended and its sink does not report them."""
    if not known or known[-1].batch != committed or known[-1].rows_out is not None:
        return known
    with contextlib.suppress(Exception):  # a query whose JVM is going down has none
        written = spark_internals.rows_written(query)
        if written is not None and written[0] == committed:
            return (*known[:-1], attrs.evolve(known[-1], rows_out=written[1]))
    return known
