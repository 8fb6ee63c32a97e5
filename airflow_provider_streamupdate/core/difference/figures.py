"""The figures of a batch, as one version's driver tells them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs

KEPT = 50  # batches of a query
COLD_BATCHES = 3  # the first ones of a driver, which take longer than later ones: they are not compared


def _known(rows: int | None) -> int | None:
    """Spark says -1 where it does not know a number of rows."""
    return None if rows is None or rows < 0 else rows


def _is_time(_instance: object, _field: Any, seconds: float) -> None:
    if not (math.isfinite(seconds) and seconds >= 0):
        raise ValueError(f"seconds={seconds!r} is no time")


@attrs.frozen(kw_only=True)
class BatchFigures:
    """One batch of a query. rows_in: from all sources; rows_out: to the sink (None: Spark does not report it for this
    sink); state_rows: by stage, after the batch (None: they may be counted twice, or in part); seconds: its
    execution took."""

    batch: int = attrs.field(validator=attrs.validators.ge(0))
    rows_in: int | None = attrs.field(default=None, converter=_known)
    rows_out: int | None = attrs.field(default=None, converter=_known)
    state_rows: dict[str, int] | None = None
    seconds: float = attrs.field(validator=_is_time)

    @property
    def rows_kept(self) -> int | None:
        """State rows of all stages."""
        return None if self.state_rows is None else sum(self.state_rows.values())


def merge(*lists: Iterable[BatchFigures]) -> tuple[BatchFigures, ...]:
    """All batches in their order, the last `KEPT` of them. A batch that was run again has the figures of the later
    list: those of two runs are never mixed."""
    found = {figures.batch: figures for figures_list in lists for figures in figures_list}
    return tuple(found[batch] for batch in sorted(found)[-KEPT:])
