"""Where the nodes of a query's picture go: in columns from the sources to the sink, in rows that do not cross."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter

import attrs

from ...plan.graph import SINK, Edge, Node, NodeKind, QueryGraph


@attrs.frozen(kw_only=True)
class Place:
    """column: from 0, the sources'; row: from 0, a half where a node lies between two others."""

    column: int
    row: float


@attrs.frozen(kw_only=True)
class Places:
    """By a node's id. One place for both versions, where there is an order of columns in which no edge of either goes
    backwards; else (stages that change their order) each version has its own."""

    old: dict[str, Place]
    new: dict[str, Place]


def placed(query: QueryGraph) -> Places:
    both = _placed(query.nodes, query.edges)
    if both is not None:
        return Places(old=both, new=both)
    sides = []
    for side in ("old", "new"):
        nodes = [node for node in query.nodes if getattr(node, side) is not None]
        edges = [edge for edge in query.edges if getattr(edge, side)]
        sides.append(_placed(nodes, edges) or {})  # a plan is a tree: one version has no circle
    return Places(old=sides[0], new=sides[1])


def _placed(nodes: Sequence[Node], edges: Iterable[Edge]) -> dict[str, Place] | None:
    """None where edges make a circle."""
    into: dict[str, list[str]] = {node.id: [] for node in nodes}
    for edge in edges:
        into[edge.end].append(edge.start)
    try:
        downwards = list(TopologicalSorter(into).static_order())
    except CycleError:
        return None
    before_sink = _before_sink(nodes, into, downwards)
    rows = _rows(into)
    last = max(before_sink.values(), default=0)
    sources = {node.id for node in nodes if node.kind == NodeKind.SOURCE}
    return {
        name: Place(column=0 if name in sources else last - steps, row=rows[name])
        for name, steps in before_sink.items()
    }


def _before_sink(nodes: Sequence[Node], into: dict[str, list[str]], downwards: list[str]) -> dict[str, int]:
    """How many edges each node is before the sink, at most. One of which it is not known where its rows go is before
    it, too, and a source before a stage."""
    least = {NodeKind.SINK: 0, NodeKind.STAGE: 1, NodeKind.STEPS: 1, NodeKind.SOURCE: 2}
    loose = {node.id for node in nodes} - {start for starts in into.values() for start in starts}
    found = {node.id: least[node.kind] if node.id in loose else 0 for node in nodes}
    for end in reversed(downwards):
        for start in into[end]:
            found[start] = max(found[start], found[end] + 1)
    return found


def _rows(into: dict[str, list[str]]) -> dict[str, float]:
    """Each node that rows come from in a row of its own, from the sink down; any other in the middle of those that feed
    it and have no row yet. So what feeds one node lies together, and no two nodes in one place."""
    rows: dict[str, float] = {}
    taken = 0
    for top in (SINK, *into):
        left: list[tuple[str, tuple[str, ...] | None]] = [(top, None)] if top in into else []
        while left:
            name, below = left.pop()
            if below is not None:
                rows[name] = (min(own := [rows[each] for each in below]) + max(own)) / 2
            elif name not in rows:
                below = tuple(each for each in dict.fromkeys(into[name]) if each not in rows)
                if below:
                    rows[name] = float("nan")  # under way: its turn comes once those below it have theirs
                    left += [(name, below), *((each, None) for each in reversed(below))]
                else:
                    rows[name], taken = float(taken), taken + 1
    return rows
