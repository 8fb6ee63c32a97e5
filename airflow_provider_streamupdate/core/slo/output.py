"""What a query wrote to its sink, batch by batch, and how many nulls are among it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import attrs

from ..difference.limits import percent

FEWEST_ROWS = 20
FEWEST_BATCHES = 5  # before
SIGMAS = 3.0  # a count of rows that is a matter of chance is off by its root


@attrs.frozen(kw_only=True)
class Output:
    """Of one batch: its rows, and the nulls by column (of the columns whose nulls are known)."""

    batch: int
    rows: int
    nulls: dict[str, int]


@attrs.frozen(kw_only=True)
class Outputs:
    """Of a query: batches that the old version wrote, and the new one"""

    before: tuple[Output, ...]
    after: tuple[Output, ...]


def judge_nulls(found: Outputs, limit: float) -> list[tuple[bool | None, str]]:
    """The share of nulls of each column, against the most before, of a batch or of small ones together; a share may be
    higher by `limit`, in points of a whole. Whether it exceeds that (None: not compared), and what was found."""
    before, rows = [b for b in found.before if b.rows], sum(a.rows for a in found.after)
    if rows < FEWEST_ROWS or len(before) < FEWEST_BATCHES:
        return [(None, f"{rows} rows of the output and {len(before)} batches before can be read")]
    parts = _parts(before)
    if not (columns := _columns(found)):
        return [(None, "of no column the nulls are known in every batch")]
    judged = (_worse(column, parts, found.after, limit) for column in columns)
    worse: list[tuple[bool | None, str]] = [told for told in judged if told is not None]
    if worse:
        return worse
    told = f"none of {len(columns)} columns of {rows} rows has more nulls than before (by {percent(limit)} at most)"
    return [(False, told)]


def _columns(found: Outputs) -> list[str]:
    """Those whose nulls are known of every batch."""
    known = [set(b.nulls) for b in (*found.before, *found.after) if b.rows]
    return sorted(set.intersection(*known)) if known else []


def _parts(batches: Sequence[Output]) -> list[Output]:
    """Batches, small ones together until their rows are enough for a share; a rest goes with those before it."""
    parts: list[list[Output]] = []
    for batch in batches:
        if not parts or sum(b.rows for b in parts[-1]) >= FEWEST_ROWS:
            parts.append([])
        parts[-1].append(batch)
    if len(parts) > 1 and sum(b.rows for b in parts[-1]) < FEWEST_ROWS:
        parts[-2:] = [parts[-2] + parts[-1]]
    return [_together(part) for part in parts]


def _together(batches: Sequence[Output]) -> Output:
    columns = set.intersection(*(set(b.nulls) for b in batches))
    nulls = {column: sum(b.nulls[column] for b in batches) for column in columns}
    return Output(batch=batches[-1].batch, rows=sum(b.rows for b in batches), nulls=nulls)


def _worse(column: str, before: Sequence[Output], after: Sequence[Output], limit: float) -> tuple[bool, str] | None:
    rows = sum(a.rows for a in after)
    share = sum(a.nulls.get(column, 0) for a in after) / rows
    most = max(b.nulls[column] / b.rows for b in before)
    chance = SIGMAS * math.sqrt(most * (1 - most) / rows)
    if share <= most + limit + chance:
        return None
    return True, f"column {column} is null in {percent(share)} of {rows} rows; before, in {percent(most)} at most"
