"""The picture of an app's queries: their graph, with a report's verdicts on it.

The page lays it out, draws it, and adds what the driver reports; `picture_lines` lists it as text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

import attrs

from .graph import SINK, Change, Graph, Node, NodeKind, QueryGraph
from .verdict import ReportItem, Verdict

QUERY = ""  # in place of a node's id: the query as a whole; of both: the app
WIDTH = 100  # columns for a node's text, before its verdict
_SEVERITY = list(Verdict)
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


def picture_of(graph: Graph, items: Iterable[ReportItem] = ()) -> Graph:
    """Return the graph with each item on its node, otherwise among the notes of its query, otherwise of the app."""
    ids = {query.name: {node.id for node in query.nodes} for query in graph.queries}
    placed = defaultdict[tuple[str, str], list[ReportItem]](list)
    for item in items:
        placed[_place(item, ids)].append(item)
    queries = []
    for query in graph.queries:
        nodes = tuple(
            attrs.evolve(
                node,
                mark=_mark(query, node, placed[query.name, node.id]) if graph.compared else None,
                reason="; ".join(item.reason for item in placed[query.name, node.id]),
                agreement=_agreement(placed[query.name, node.id]),
                blocks=any(item.blocks for item in placed[query.name, node.id]),
            )
            for node in query.nodes
        )
        queries.append(attrs.evolve(query, nodes=nodes, notes=tuple(placed[query.name, QUERY])))
    return attrs.evolve(graph, queries=tuple(queries), notes=tuple(placed[QUERY, QUERY]))


def _place(item: ReportItem, ids: Mapping[str, set[str]]) -> tuple[str, str]:
    """Return the query and the node of an item: ``query/stage``, ``query/format`` of a sink, ``query:watermark``.

    A query's name may have a colon, and no slash.
    """
    if item.thing in ("source", "stage", "sink"):
        query, _, name = item.name.partition("/")
        node = SINK if item.thing == SINK else f"{item.thing} {name}"
        return (query, node if node in ids[query] else QUERY) if query in ids else (QUERY, QUERY)
    fitting = [query for query in ids if item.thing != "app" and f"{item.name}:".startswith(f"{query}:")]
    return max(fitting, key=len, default=QUERY), QUERY


def _mark(query: QueryGraph, node: Node, items: list[ReportItem]) -> str:
    if items:
        return max((item.verdict for item in items), key=_SEVERITY.index)
    if node.old == node.new:
        return Change.SAME
    if node.kind == NodeKind.STEPS and query.unknown and any(e.start == node.id and e.end == SINK for e in query.edges):
        return Change.UNKNOWN
    return Change.NEW if node.old is None else Change.GONE if node.new is None else Change.CHANGED


def _agreement(items: list[ReportItem]) -> str | None:
    asked = [item for item in items if item.needs_agreement]
    return None if not asked else "agreed" if all(item.agreed for item in asked) else "needed"


def picture_lines(picture: Graph) -> list[str]:
    """Return the picture as text: a line for each node, from the sources to the sink, with what feeds it."""
    lines = [_note(item) for item in picture.notes]
    for query in picture.queries:
        rows = list(_rows(query))
        width = min(WIDTH, max((len(text) for text, _ in rows), default=0))
        change = f" ({query.change})" if query.change in (Change.NEW, Change.GONE) else ""
        lines += [*([""] if lines else []), f"query {query.name}{change}"]
        lines += [f"  {_shortened(text, width):{width}}  {mark}" for text, mark in rows]
        lines += [*map(_note, query.notes), *(f"? {text}" for text in query.unknown)]
    # Control characters break a line, or change the direction of what follows.
    return ["".join(c if c.isprintable() else "\ufffd" for c in line).rstrip() for line in lines]


def _rows(query: QueryGraph) -> Iterator[tuple[str, str]]:
    """Yield each node's text and its mark. Steps come right before the node that they lead to."""
    steps = {node.id: node for node in query.nodes if node.kind == NodeKind.STEPS}
    before = {edge.end: edge.start for edge in query.edges if edge.end in steps}
    for node in query.nodes:
        if node.id in steps:
            continue
        into = [edge for edge in query.edges if edge.end == node.id]
        for start in dict.fromkeys(edge.start for edge in into if edge.start in steps):
            top, *more = _step_lines(steps[start])
            yield f"{before[start]} > {node.id}: {top}", _signed(steps[start].mark, steps[start].agreement)
            yield from ((f"    {line}", "") for line in more)
        was, now = (
            list(dict.fromkeys(before.get(edge.start, edge.start) for edge in into if getattr(edge, side)))
            for side in ("old", "new")
        )
        feeds = f", from {' and '.join(now or was)}" if now or was else ""
        moved = f" (was from {' and '.join(was)})" if was and now and set(was) != set(now) else ""
        kind, *other = dict.fromkeys(lines[0] for lines in (node.new, node.old) if lines)
        title = f"sink {node.name}" if node.kind == NodeKind.SINK else f"{node.id}, {kind}"
        yield f"{title}{f' (was {other[0]})' if other else ''}{feeds}{moved}", _signed(node.mark, node.agreement)


def _step_lines(box: Node) -> list[str]:
    """Return the steps; where they change, only what is added and what is gone."""
    was, now = Counter(box.old or ()), Counter(box.new or ())
    if box.mark != Change.CHANGED:
        return list((now or was).elements())
    return [f"+ {line}" for line in (now - was).elements()] + [f"- {line}" for line in (was - now).elements()]


def _signed(mark: str | None, agreement: str | None) -> str:
    """Return a mark with its sign, and whether it needs an agreement."""
    shown = f"{SIGNS[mark]} {mark}" if mark not in (None, Change.SAME) else ""
    return ", ".join(filter(None, (shown, {"needed": "needs agreement"}.get(agreement or "", agreement))))


def _shortened(text: str, width: int) -> str:
    """Return the text without its middle where it is too long: names and digests may be at either end."""
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"


def _note(item: ReportItem) -> str:
    sign, _, verdict = _signed(item.verdict, _agreement([item])).partition(" ")
    return f"{sign} {item.thing} {item.name}: {verdict}"
