"""The picture of an app's queries: its graph, with the verdicts of a report and the figures of a driver on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from ...plan.graph import SINK, Edge, Graph, Lines, Node, NodeKind, QueryGraph, source_id, stage_id
from ...text_enum import TextEnum
from ..verdict import ReportItem, Verdict
from .places import Place, placed

# Of each query by the id of a node ("" for the query as a whole), by the figure's name.
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]
_SEVERITY = list(Verdict)
_NODES = {"source": source_id, "stage": stage_id, "sink": lambda _: SINK}
ALL = ""


class Change(TextEnum):
    """What is told of a node, or of a query, on which there is no verdict."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "not known"  # a version's plan does not tell it


@attrs.frozen(kw_only=True)
class PicturedNode:
    """A node of the graph (`core/plan/graph.py`: id, kind, name, old, new).

    mark: the report's verdict on it, else what changes (none: nothing was compared)
    reason: the verdict's; agreement: ``needed`` or ``agreed`` (none: it needs none)
    blocks: the update is refused for it
    old_at, new_at: its place in each version (None: it is not in that version)
    figures: ``rows_per_second`` that arrive, ``lag`` in rows, ``state_rows``, ``batch_rows``: of the last batch
    """

    id: str
    kind: NodeKind
    name: str
    old: Lines | None
    new: Lines | None
    mark: str | None = None
    reason: str = ""
    agreement: str | None = None
    blocks: bool = False
    old_at: Place | None = None
    new_at: Place | None = None
    figures: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class PicturedQuery:
    """A query.

    notes: the verdicts on what holds for the query as a whole
    unknown, into: see `QueryGraph`
    figures: ``rows_per_second`` that arrive, ``processed_per_second``, ``lag`` in rows, ``state_bytes``
    """

    name: str
    change: Change | None
    nodes: tuple[PicturedNode, ...]
    edges: tuple[Edge, ...]
    notes: tuple[ReportItem, ...] = ()
    unknown: tuple[str, ...] = ()
    into: tuple[str, ...] = ()
    figures: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Picture:
    """compared: of two versions; else all nodes are `new`. notes: the verdicts on the app as a whole"""

    compared: bool
    queries: tuple[PicturedQuery, ...]
    notes: tuple[ReportItem, ...] = ()


def pictured(graph: Graph, items: Iterable[ReportItem] = (), figures: Figures | None = None) -> Picture:
    """Return the picture. Each item is on the node that it is about, or in the notes of its query, or of the app."""
    nodes = {query.name: {node.id for node in query.nodes} for query in graph.queries}
    on: dict[tuple[str, str], list[ReportItem]] = {}
    for item in items:
        name, node = _place_of(item, nodes)
        on.setdefault((name, node if node in nodes.get(name, ()) else ALL), []).append(item)
    queries = []
    for query in graph.queries:
        told = {node: found for (name, node), found in on.items() if name == query.name}
        queries.append(_query(query, told, (figures or {}).get(query.name, {}), graph.compared))
    return Picture(compared=graph.compared, queries=tuple(queries), notes=tuple(on.get((ALL, ALL), ())))


def _place_of(item: ReportItem, queries: Iterable[str]) -> tuple[str, str]:
    """The query and the node that an item is about: ``query/stage``, ``query/format`` of a sink, ``query:watermark``.
    A query's name may have a colon, and no slash."""
    if item.thing in _NODES:
        query, _, name = item.name.partition("/")
        return (query, _NODES[item.thing](name)) if query in queries else (ALL, ALL)
    of = [query for query in queries if item.thing != "app" and f"{item.name}:".startswith(f"{query}:")]
    return max(of, key=len, default=ALL), ALL


def _query(
    query: QueryGraph,
    on: Mapping[str, list[ReportItem]],
    figures: Mapping[str, Mapping[str, float]],
    compared: bool,
) -> PicturedQuery:
    places = placed(query)
    nodes = []
    untold = {edge.start for edge in query.edges if edge.end in query.into}
    for node in query.nodes:
        told = max(on.get(node.id, ()), key=lambda item: _SEVERITY.index(item.verdict), default=None)
        nodes.append(
            PicturedNode(
                **attrs.asdict(node, recurse=False),
                mark=told.verdict if told else _change(node, node.id in untold) if compared else None,
                reason="; ".join(item.reason for item in on.get(node.id, ())),
                agreement=_agreement(on.get(node.id, ())),
                blocks=any(item.blocks for item in on.get(node.id, ())),
                old_at=None if node.old is None else places.old.get(node.id),
                new_at=None if node.new is None else places.new.get(node.id),
                figures=figures.get(node.id, {}),
            )
        )
    change = Change.SAME if query.old and query.new else Change.NEW if query.new else Change.GONE
    return PicturedQuery(
        name=query.name,
        change=change if compared else None,
        nodes=tuple(nodes),
        edges=query.edges,
        notes=tuple(on.get(ALL, ())),
        unknown=query.unknown,
        into=query.into,
        figures=figures.get(ALL, {}),
    )


def _change(node: Node, untold: bool) -> Change:
    if untold and node.kind == NodeKind.STEPS and node.old != node.new:
        return Change.UNKNOWN
    if node.old is None:
        return Change.NEW
    if node.new is None:
        return Change.GONE
    return Change.SAME if node.old == node.new else Change.CHANGED


def _agreement(items: Iterable[ReportItem]) -> str | None:
    asked = [item for item in items if item.needs_agreement]
    return None if not asked else "agreed" if all(item.agreed for item in asked) else "needed"
