"""What the files on rows ask of a `lineage.Lineage`, which rests on them itself."""

from __future__ import annotations

from typing import Protocol

from ...catalyst.tree import Node
from ..expressions.expression import Columns


class Traced(Protocol):
    """A plan with texts for the columns below each of its nodes. What is kept by node is kept by the node's id.

    sources, stages: names of the streaming leaves and of the stateful nodes
    partitions: what decides in which partition a row is, once that was asked for
    moves: whether something in the plan looks at that
    lookups, branches: texts by the columns of the tables that a stream is joined with
    """

    plan: Node
    sources: dict[int, str]
    stages: dict[int, str]
    partitions: dict[int, list[str]]
    moves: bool
    lookups: Columns
    branches: Columns

    def columns(self, node: Node) -> list[tuple[int, str]]: ...

    def inputs(self, node: Node) -> Columns: ...

    def texts(self, node: Node, field: str) -> list[str]: ...

    def names(self, node: Node) -> set[str]: ...
