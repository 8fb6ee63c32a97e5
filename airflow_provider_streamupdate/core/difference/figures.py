"""The figures of a batch, as one version's driver reports them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs

BATCH_COLUMNS = ("query", "batch", "rows in", "old in", "rows out", "old out", "state rows", "old state", "seconds",
                 "old seconds")  # fmt: skip
KEPT = 50  # batches of a query
COLD_BATCHES = 3  # the first ones of a driver take longer than later ones: they are not compared


def _number(rows: int | None) -> int | None:
    """Return None for -1: Spark does not know the number."""
    return None if rows is None or rows < 0 else rows


def _is_time(_instance: object, _field: Any, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds={seconds!r} is no time")


@attrs.frozen(kw_only=True)
class BatchFigures:
    """One batch of a query."""

    batch: int = attrs.field(validator=attrs.validators.ge(0))
    rows_in: int | None = attrs.field(default=None, converter=_number)  # from all sources
    rows_out: int | None = attrs.field(default=None, converter=_number)  # to the sink; None: Spark does not report it
    state_rows: dict[str, int] | None = None  # by stage, after the batch; None: they are not exact
    seconds: float = attrs.field(validator=_is_time)  # of its execution

    @property
    def rows_kept(self) -> int | None:
        """State rows of all stages."""
        return None if self.state_rows is None else sum(self.state_rows.values())


def merge(*lists: Iterable[BatchFigures]) -> tuple[BatchFigures, ...]:
    """Return the last `KEPT` batches of all lists, in their order. Of a batch that ran again the later list counts."""
    by_batch = {figures.batch: figures for figures_list in lists for figures in figures_list}
    return tuple(by_batch[batch] for batch in sorted(by_batch)[-KEPT:])


def batch_row(query: str, new: BatchFigures, old: BatchFigures | None) -> tuple[Any, ...]:
    """Return a batch of both versions in the order of BATCH_COLUMNS; None where there is no figure."""
    names = ("rows_in", "rows_out", "rows_kept", "seconds")
    figures = (side and getattr(side, name) for name in names for side in (new, old))
    return (query, new.batch, *figures)
