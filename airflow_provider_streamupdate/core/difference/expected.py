"""Differences that the new version's author expects."""

from __future__ import annotations

from typing import Any

import attrs

from ..errors import InvalidInputError
from ..names import check_name


def _is_name(_instance: object, _field: Any, name: Any) -> None:
    check_name("query", name)


def _is_predicate(instance: ExpectedDifference, _field: Any, where: Any) -> None:
    if where is None and instance.column is not None:
        return
    if where is not None and instance.column is not None:
        raise InvalidInputError(
            f"a difference is expected of rows (where={where!r}) or of a column (column={instance.column!r}), not of "
            "both: call expect_difference twice"
        )
    if not isinstance(where, str) or not where.strip():
        raise InvalidInputError(
            f"where={where!r} is no condition; write one in SQL over the columns of the rows, e.g. \"carrier = 'XX'\""
        )


def _is_column(_instance: object, _field: Any, column: Any) -> None:
    if column is not None and not (isinstance(column, str) and column):
        raise InvalidInputError(f"column={column!r} is no name of a column")


@attrs.frozen(kw_only=True)
class ExpectedDifference:
    """What may differ from the old version's in a query: some rows, or a column of all of them.

    where: an SQL predicate over the columns that the query writes; a row for which it is NULL is not expected to differ
    column: a column that is not compared
    """

    query: str = attrs.field(validator=_is_name)
    column: str | None = attrs.field(default=None, validator=_is_column)
    where: str | None = attrs.field(default=None, validator=_is_predicate)
