"""The picture as text: a tree for each query, from the sink down to the sources, as Spark prints plans. Rows go up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...plan.graph import SINK, Edge, NodeKind
from ..verdict import ReportItem, Verdict
from .picture import Change, Picture, PicturedNode, PicturedQuery

WIDTH = 68  # columns for the tree, before the verdicts; of longer lines, the middle is left out
# A sign beside each word, so that a column of them can be looked through.
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
# What breaks a line, or changes the direction of what follows.
_CONTROL = dict.fromkeys(
    (*range(32), *range(127, 160), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)


def drawn(picture: Picture) -> list[str]:
    """Return the lines of the drawing, each of one line: names and expressions cannot break it."""
    lines: list[str] = []
    for note in picture.notes:
        lines.append(_note(note))
    for query in picture.queries:
        lines += [""] if lines else []
        lines += _query(query)
    return [line.translate(_CONTROL).rstrip() for line in lines]


def _query(query: PicturedQuery) -> Iterator[str]:
    change = f" ({query.change})" if query.change in (Change.NEW, Change.GONE) else ""
    yield f"query {query.name}{change}"
    rows = list(_rows(query))
    width = min(WIDTH, max((len(tree) for tree, _ in rows), default=0))
    for tree, told in rows:
        yield f"{_cut(tree, width):{width}}  {told}" if told else tree
    yield from map(_note, query.notes)
    yield from (f"? {each}" for each in query.unknown)


def _cut(text: str, width: int) -> str:
    """Its beginning and its end: in a deep tree the name is at the end."""
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"


def _rows(query: PicturedQuery) -> Iterator[tuple[str, str]]:
    """The lines of the tree, and what is told beside each. A node that feeds several is drawn at the first of them.
    What is not known to feed anything comes at the end."""
    nodes = {node.id: node for node in query.nodes}
    into: dict[str, list[Edge]] = {}
    for edge in query.edges:
        into.setdefault(edge.end, []).append(edge)
    seen: set[str] = set()
    fed = {edge.start for edge in query.edges}
    for top in (SINK, *(name for name in nodes if name not in fed and name != SINK), *nodes):
        left: list[tuple[str, str, str, Edge | None]] = [] if top in seen else [(top, "", "", None)]
        while left:
            name, before, below, way = left.pop()
            node, again = nodes[name], name in seen
            seen.add(name)
            label, *more = _labels(node)
            yield (
                f"{before}{label}{_ways(way)}",
                ", ".join(["(above)", *_moved(query, node, way)]) if again else _told(query, node, way),
            )
            edges = [] if again else into.get(name, [])
            yield from ((f"{below}{'│' if len(edges) > 1 else ' '}    {line}", "") for line in ([] if again else more))
            for number, inner in enumerate(reversed(edges)):  # the last one is drawn last
                branch, under = ("└─ ", "   ") if number == 0 else ("├─ ", "│  ")
                if len(edges) == 1:  # a long chain needs no room to the right
                    branch, under = "↑ ", ""
                left.append((inner.start, f"{below}{branch}", f"{below}{under}", inner))


def _labels(node: PicturedNode) -> list[str]:
    """What a node is: as it is in the new version; where steps differ, as they were, too."""
    if node.kind == NodeKind.STEPS:
        was, now = node.old or (), node.new or ()
        if node.mark != Change.CHANGED:
            return list(now or was)
        added, gone = Counter(now) - Counter(was), Counter(was) - Counter(now)
        same = Counter(now) - added
        return [
            *same.elements(),
            *(f"+ {line}" for line in added.elements()),
            *(f"- {line}" for line in gone.elements()),
        ]
    lines = node.new if node.new is not None else node.old or ()
    other = f" (was {node.old[0]})" if node.old and node.new and node.old[0] != node.new[0] else ""
    if node.kind == NodeKind.SINK:
        return [f"sink {node.name}{other}"]
    return [", ".join((f"{node.kind} {node.name}", *lines[:1])) + other]


def _ways(edge: Edge | None) -> str:
    if edge is None:
        return ""
    ways = edge.new or edge.old
    was = f", was {edge.old}" if edge.old and edge.new and edge.old != edge.new else ""
    return f" ({ways} time{'s' if ways > 1 else ''}{was})" if ways > 1 or was else ""


def _told(query: PicturedQuery, node: PicturedNode, edge: Edge | None) -> str:
    """The verdict or the change, and what becomes of the way to the next node."""
    mark = node.mark if node.mark not in (None, Change.SAME) else ""
    told = [f"{SIGNS[mark]} {mark}"] if mark else []
    told += [{"needed": "needs agreement", "agreed": "agreed"}[node.agreement]] if node.agreement else []
    return ", ".join([*told, *_moved(query, node, edge)])


def _moved(query: PicturedQuery, node: PicturedNode, edge: Edge | None) -> list[str]:
    """What becomes of a way that only one version has, where both have its beginning and tell what leads to its end."""
    if edge is None or node.old is None or node.new is None or bool(edge.old) == bool(edge.new):
        return []
    not_told = {*query.into, *(each.id for each in query.nodes if each.mark == Change.UNKNOWN)}
    return [] if edge.end in not_told else ["goes here now" if edge.new else "went here before"]


def _note(item: ReportItem) -> str:
    agreement = "" if not item.needs_agreement else ", agreed" if item.agreed else ", needs agreement"
    return f"{SIGNS[item.verdict]} {item.thing} {item.name}: {item.verdict}{agreement}"
