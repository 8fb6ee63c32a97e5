"""What the expressions of a plan's node can refer to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from ....core.plan.expressions import Column, Expression, Unknown, to_rows
from ...catalyst.tree import Node
from ...catalyst.types import is_comparable, type_text


def _untraced_subquery(node: Node, _scope: Scope) -> Expression:
    return Unknown(node.name)


@attrs.frozen(eq=False)
class Scope:
    """columns: by expression id

    partitions: what decides the partitions and the order of the rows (none: nothing looks at them)
    lambdas: how many variables of lambda functions there are around
    subquery: traces a subquery of these columns (lineage.py)
    """

    columns: Mapping[int, Expression] = attrs.field(factory=dict)
    partitions: tuple[Expression, ...] = ()
    lambdas: int = 0
    subquery: Callable[[Node, Scope], Expression] = _untraced_subquery

    def including(self, columns: Mapping[int, Expression], lambdas: int = 0) -> Scope:
        """Return the scope with more columns, those of lambda functions among them."""
        return attrs.evolve(self, columns={**self.columns, **columns}, lambdas=self.lambdas + lambdas)


def expression_id(attribute: Node) -> int:
    return int(attribute.fields["exprId"]["id"])


def column(source: str, path: str, kind: Any) -> Expression:
    """Return a column of a type (as JSON). It is unknown where its type is."""
    made = Column(source, path, type_text(kind))
    return made if is_comparable(kind) else Unknown("a type whose code cannot be compared", (made,))


def digest(value: Any) -> str:
    """Return eight characters that stand for a value, or for values with expressions among them."""
    told = json.dumps(value, sort_keys=True, default=lambda v: to_rows(v) if isinstance(v, Expression) else str(v))
    return hashlib.sha256(told.encode()).hexdigest()[:8]
