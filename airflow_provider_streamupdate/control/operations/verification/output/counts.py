"""The rows that were written, and the nulls among them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.frozen
class RowCounts:
    """The rows of a file or a batch, and the nulls by column, of the columns whose nulls are known."""

    rows: int
    nulls: dict[str, int]

    def share(self, column: str) -> float:
        return self.nulls[column] / self.rows


def add_up(counts: Iterable[RowCounts]) -> RowCounts:
    """Return all together, with the columns whose nulls are known of each that has rows."""
    full = [one for one in counts if one.rows]
    columns = set.intersection(*(set(one.nulls) for one in full)) if full else set()
    return RowCounts(sum(one.rows for one in full), {name: sum(one.nulls[name] for one in full) for name in columns})
