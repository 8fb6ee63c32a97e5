"""The picture of an app's queries: the graph of its plans, with a report's verdicts and a driver's figures on it.

The page lays it out and draws it; `picture_lines` lists it as text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import attrs

from ..plan.graph import SINK, Edge, Graph, Node, NodeKind, QueryGraph, source_id, stage_id
from ..text_enum import TextEnum
from .verdict import ReportItem, Verdict

# Figures by query, node id (QUERY: the query as a whole) and name.
Figures = Mapping[str, Mapping[str, Mapping[str, float]]]
QUERY = ""
WIDTH = 100  # columns for a node's text, before its verdict
_SEVERITY = list(Verdict)
_NODES = {"source": source_id, "stage": stage_id, "sink": lambda _: SINK}
# Characters that break a line, or change the direction of what follows.
_CONTROL = dict.fromkeys(
    (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)


class Change(TextEnum):
    """The mark of a node or a query without a verdict."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "not known"  # one version's plan does not say


# A sign beside each mark, for readers who scan a column or see no colours.
SIGNS: dict[str, str] = {
    Verdict.CARRIED: "=",
    Verdict.MIGRATED: "~",
    Verdict.EMPTY: "+",
    Verdict.LOSS: "!",
    Verdict.IGNORED: "-",
    Verdict.REFUSED: "x",
    Change.CHANGED: "~",
    Change.NEW: "+",
    Change.GONE: "-",
    Change.UNKNOWN: "?",
}


@attrs.frozen(kw_only=True)
class PicturedNode(Node):
    """A node with its verdict and its figures."""

    mark: str | None = None  # the worst verdict on it, otherwise its change; None: nothing was compared
    reason: str = ""  # of the verdicts
    agreement: str | None = None  # "needed" or "agreed"; None: it needs none
    blocks: bool = False  # the update is refused because of it
    # of the last batch: rows_per_second that arrive, lag in rows, state_rows, batch_rows
    figures: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class PicturedQuery:
    """A query with its nodes."""

    name: str
    change: Change | None
    nodes: tuple[PicturedNode, ...]
    edges: tuple[Edge, ...]
    notes: tuple[ReportItem, ...] = ()  # verdicts on the query as a whole
    unknown: tuple[str, ...] = ()  # see `QueryGraph`
    # rows_per_second that arrive, processed_per_second, lag in rows, state_bytes
    figures: Mapping[str, float] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Picture:
    """All queries of an app."""

    compared: bool  # two versions; otherwise all nodes are `new`
    queries: tuple[PicturedQuery, ...]
    notes: tuple[ReportItem, ...] = ()  # verdicts on the app as a whole


def picture_of(graph: Graph, items: Iterable[ReportItem] = (), figures: Figures | None = None) -> Picture:
    """Return the picture. Each item is on its node, otherwise among the notes of its query, otherwise of the app."""
    nodes = {query.name: {node.id for node in query.nodes} for query in graph.queries}
    by_place: dict[tuple[str, str], list[ReportItem]] = {}
    for item in items:
        name, node = _place(item, nodes)
        by_place.setdefault((name, node if node in nodes.get(name, ()) else QUERY), []).append(item)
    queries = []
    for query in graph.queries:
        on_nodes = {node: found for (name, node), found in by_place.items() if name == query.name}
        queries.append(_query(query, on_nodes, (figures or {}).get(query.name, {}), graph.compared))
    return Picture(compared=graph.compared, queries=tuple(queries), notes=tuple(by_place.get((QUERY, QUERY), ())))


def _place(item: ReportItem, queries: Iterable[str]) -> tuple[str, str]:
    """Return the query and the node of an item: ``query/stage``, ``query/format`` of a sink, ``query:watermark``.

    A query's name may have a colon, and no slash.
    """
    if item.thing in _NODES:
        query, _, name = item.name.partition("/")
        return (query, _NODES[item.thing](name)) if query in queries else (QUERY, QUERY)
    fitting = [query for query in queries if item.thing != "app" and f"{item.name}:".startswith(f"{query}:")]
    return max(fitting, key=len, default=QUERY), QUERY


def _query(
    query: QueryGraph,
    items: Mapping[str, list[ReportItem]],
    figures: Mapping[str, Mapping[str, float]],
    compared: bool,
) -> PicturedQuery:
    before_open_end = {edge.start for edge in query.edges if edge.end in query.open_ends}
    nodes = []
    for node in query.nodes:
        here = items.get(node.id, [])
        worst = max(here, key=lambda item: _SEVERITY.index(item.verdict), default=None)
        nodes.append(
            PicturedNode(
                **attrs.asdict(node, recurse=False),
                mark=worst.verdict if worst else _change(node, node.id in before_open_end) if compared else None,
                reason="; ".join(item.reason for item in here),
                agreement=_agreement(here),
                blocks=any(item.blocks for item in here),
                figures=figures.get(node.id, {}),
            )
        )
    change = Change.SAME if query.old and query.new else Change.NEW if query.new else Change.GONE
    return PicturedQuery(
        name=query.name,
        change=change if compared else None,
        nodes=tuple(nodes),
        edges=query.edges,
        notes=tuple(items.get(QUERY, ())),
        unknown=query.unknown,
        figures=figures.get(QUERY, {}),
    )


def _change(node: Node, before_open_end: bool) -> Change:
    if before_open_end and node.kind == NodeKind.STEPS and node.old != node.new:
        return Change.UNKNOWN
    if node.old is None or node.new is None:
        return Change.NEW if node.old is None else Change.GONE
    return Change.SAME if node.old == node.new else Change.CHANGED


def _agreement(items: Iterable[ReportItem]) -> str | None:
    asked = [item for item in items if item.needs_agreement]
    return None if not asked else "agreed" if all(item.agreed for item in asked) else "needed"


def picture_lines(picture: Picture) -> list[str]:
    """Return the picture as text: a line for each node, from the sources to the sink, with what feeds it."""
    lines = [_note(item) for item in picture.notes]
    for query in picture.queries:
        rows = list(_rows(query))
        width = min(WIDTH, max((len(text) for text, _ in rows), default=0))
        change = f" ({query.change})" if query.change in (Change.NEW, Change.GONE) else ""
        lines += [*([""] if lines else []), f"query {query.name}{change}"]
        lines += [f"  {_shortened(text, width):{width}}  {mark}" for text, mark in rows]
        lines += [*map(_note, query.notes), *(f"? {text}" for text in query.unknown)]
    return [line.translate(_CONTROL).rstrip() for line in lines]


def _rows(query: PicturedQuery) -> Iterator[tuple[str, str]]:
    """Yield each node's text and its mark. Steps come right before the node that they lead to."""
    steps = {node.id: node for node in query.nodes if node.kind == NodeKind.STEPS}
    before = {edge.start: edge.end for edge in query.edges if edge.start in steps}
    origin = {edge.end: edge.start for edge in query.edges if edge.end in steps}
    for node in query.nodes:
        if node.id in steps:
            continue
        for box in (box for box in steps.values() if before[box.id] == node.id):
            top, *more = _step_lines(box)
            yield f"{origin[box.id]} > {node.id}: {top}", _mark(box)
            yield from ((f"    {line}", "") for line in more)
        was, now = (
            list(
                dict.fromkeys(
                    origin.get(e.start, e.start) for e in query.edges if e.end == node.id and getattr(e, side)
                )
            )
            for side in ("old", "new")
        )
        title = node.id if node.kind != NodeKind.SINK else f"sink {node.name}"
        first = [lines[0] for lines in (node.new, node.old) if lines]
        kind = first[:1] if node.kind != NodeKind.SINK else []
        other = f" (was {first[1]})" if len(first) == 2 and first[0] != first[1] else ""
        feeds = f", from {' and '.join(now or was)}" if now or was else ""
        moved = f" (was from {' and '.join(was)})" if was and now and set(was) != set(now) else ""
        yield f"{', '.join([title, *kind])}{other}{feeds}{moved}", _mark(node)


def _step_lines(box: PicturedNode) -> list[str]:
    """Return the steps; where they change, only what is added and what is gone."""
    was, now = Counter(box.old or ()), Counter(box.new or ())
    if box.mark != Change.CHANGED:
        return list((now or was).elements())
    return [f"+ {line}" for line in (now - was).elements()] + [f"- {line}" for line in (was - now).elements()]


def _mark(node: PicturedNode) -> str:
    mark = f"{SIGNS[node.mark]} {node.mark}" if node.mark not in (None, Change.SAME) else ""
    agreement = {"needed": "needs agreement", "agreed": "agreed", None: ""}[node.agreement]
    return ", ".join(filter(None, (mark, agreement)))


def _shortened(text: str, width: int) -> str:
    """Return the text without its middle where it is too long: names and digests may be at either end."""
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"


def _note(item: ReportItem) -> str:
    agreement = "" if not item.needs_agreement else ", agreed" if item.agreed else ", needs agreement"
    return f"{SIGNS[item.verdict]} {item.thing} {item.name}: {item.verdict}{agreement}"
