"""Differences that the new version's author expects."""

from __future__ import annotations

from typing import Any

import attrs

from ..errors import InvalidInputError
from ..names import check_name


def _is_name(_instance: object, _field: Any, name: Any) -> None:
    check_name("query", name)


def _is_predicate(_instance: object, _field: Any, where: Any) -> None:
    if not isinstance(where, str) or not where.strip():
        raise InvalidInputError(
            f"where={where!r} is no condition; write one in SQL over the columns of the rows, e.g. \"carrier = 'XX'\""
        )


@attrs.frozen(kw_only=True)
class ExpectedDifference:
    """Rows of a query that may differ from the old version's.

    where: an SQL predicate over the columns that the query writes; a row for which it is NULL is not expected to differ
    """

    query: str = attrs.field(validator=_is_name)
    where: str = attrs.field(validator=_is_predicate)
