"""What a comparison of rows is asked for, and the differences that the new version's author expects."""

from __future__ import annotations

import attrs

from ..errors import InvalidInputError
from ..names import check_name


@attrs.frozen(kw_only=True)
class ComparisonRequest:
    """The queries whose rows are compared."""

    keys: dict[str, tuple[str, ...]]  # by query: the columns that pair rows
    tolerance: float = 0.0  # the share by which floating columns of paired rows may differ


@attrs.frozen(kw_only=True)
class ExpectedDifference:
    """A difference that is no problem: rows of a query, or one of its columns."""

    query: str
    column: str | None = None  # it is not compared
    # An SQL predicate over the compared columns. A row for which it is null is not expected to differ.
    where: str | None = None

    def __attrs_post_init__(self) -> None:
        where, column = self.where, self.column
        check_name("query", self.query)
        if column is not None and not (isinstance(column, str) and column):
            raise InvalidInputError(f"column={column!r} is no name of a column")
        if where is not None and column is not None:
            raise InvalidInputError(
                f"where={where!r} and column={column!r} are two expected differences: call expect_difference twice"
            )
        if column is None and not (isinstance(where, str) and where.strip()):
            raise InvalidInputError(
                f"where={where!r} is no condition; write one in SQL over the columns of the rows, e.g. "
                "\"carrier = 'XX'\""
            )


@attrs.frozen(kw_only=True)
class ExpectedDifferences:
    """All differences that the new version's author expects."""

    differences: tuple[ExpectedDifference, ...] = ()

    def predicates(self, query: str) -> list[str]:
        """Return the predicates for rows of a query."""
        return [each.where for each in self.differences if each.query == query and each.where is not None]

    def columns(self, query: str) -> list[str]:
        """Return the columns of a query that are not compared."""
        return [each.column for each in self.differences if each.query == query and each.column is not None]
