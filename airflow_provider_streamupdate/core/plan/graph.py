"""The graph of an app's queries: which rows go where, in one version or in two beside each other.

A plan holds the paths on which rows come to each stage and to the sink (`StagePlan.paths`, `QueryPlan.paths`). What a
plan does not say is left open (`QueryGraph.unknown`), not guessed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from ..address import without_credentials
from ..text_enum import TextEnum
from .plan import FROM, LATE, PASSED, AppPlan, QueryPlan, SinkPlan, SourcePlan, StagePlan
from .wording import words

LONGEST = 500  # characters of a line; a digest stands for the rest, so that two lines differ when the texts do
SINK = "sink"
_SIDES = ("left ", "right ")  # of a join, before the text of a step on one of them
_LOOKUP = "lookup by "  # a join with a table (streaming/planning/lineage/arrivals.py)


class NodeKind(TextEnum):
    """The kinds of nodes. STEPS: filters, lookups in tables ... that rows meet between two other nodes."""

    SOURCE = "source"
    STEPS = "steps"
    STAGE = "stage"
    SINK = "sink"


Lines = tuple[str, ...]
_UNNAMED: Lines = ("not known which",)


@attrs.frozen(kw_only=True)
class Node:
    """A source, a stage, the sink, or the steps between two of them."""

    id: str  # unique in its query, the same in both versions
    kind: NodeKind
    name: str  # a source's or a stage's; a sink's format; empty for steps
    old: Lines | None = None  # what it is in the old version, a line each; None: it is not in that version
    new: Lines | None = None


@attrs.frozen(kw_only=True)
class Edge:
    """Rows go from node `start` to node `end`."""

    start: str
    end: str
    old: bool = False  # in the old version
    new: bool = False


@attrs.frozen(kw_only=True)
class QueryGraph:
    """The graph of one query."""

    name: str
    old: bool  # the old version has this query
    new: bool
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    unknown: tuple[str, ...] = ()  # what a version's plan does not say of the edges, a sentence each
    open_ends: tuple[str, ...] = ()  # ids of the nodes whose input one of the plans does not say

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for an edge without its nodes: a file may have been altered."""
        ends = {SINK, *(end for edge in self.edges for end in (edge.start, edge.end))}
        if lost := sorted(ends - {node.id for node in self.nodes}):
            raise ValueError(f"query {self.name!r} has no node {', '.join(lost)}")


@attrs.frozen(kw_only=True)
class Graph:
    """All queries of an app."""

    queries: tuple[QueryGraph, ...]
    compared: bool = False  # two versions; otherwise everything is `new`


def graph(new: AppPlan, old: AppPlan | None = None) -> Graph:
    """Return the graph of one version, or of two. Nodes are matched by name: rename the old plan first."""
    queries = [_query(old.query(query.name) if old else None, query, old is not None) for query in new.queries]
    queries += [_query(query, None, True) for query in (old.queries if old else ()) if new.query(query.name) is None]
    return Graph(queries=tuple(queries), compared=old is not None)


def source_id(name: str) -> str:
    return f"source {name}"


def stage_id(name: str) -> str:
    return f"stage {name}"


# The texts of the steps on each path, by its two ends.
_Paths = dict[tuple[str, str], list[Lines]]


def _query(old: QueryPlan | None, new: QueryPlan | None, compared: bool) -> QueryGraph:
    nodes = {node.id: node for node in _nodes(old, new)}
    old_paths, new_paths = _paths(old), _paths(new)
    for start, _ in (*new_paths, *old_paths):
        if start not in nodes:  # a source that the planner could not name
            in_old, in_new = (any(start == each for each, _ in paths) for paths in (old_paths, new_paths))
            nodes[start] = Node(
                id=start,
                kind=NodeKind.SOURCE,
                name=start.partition(" ")[2],
                old=_UNNAMED if in_old else None,
                new=_UNNAMED if in_new else None,
            )
    edges: list[Edge] = []
    for start, end in dict.fromkeys((*new_paths, *old_paths)):
        was, now = _step_lines(old_paths.get((start, end)), new_paths.get((start, end)), old, new)
        if was or now:
            box = Node(id=f"steps {start} > {end}", kind=NodeKind.STEPS, name="", old=was or None, new=now or None)
            nodes[box.id] = box
            edges += [Edge(start=s, end=e, old=bool(was), new=bool(now)) for s, e in ((start, box.id), (box.id, end))]
        if () in (was, now):
            edges.append(Edge(start=start, end=end, old=was == (), new=now == ()))
    unknown, open_ends = [], list[str]()
    for query, which in ((old, "the old version's plan"), (new, "the new version's plan" if compared else "the plan")):
        if ends := _open_ends(query):
            unknown.append(f"{which} does not say what feeds {', '.join(ends)}")
            open_ends += ends
    return QueryGraph(
        name=(new or old).name,  # type: ignore[union-attr]
        old=old is not None,
        new=new is not None,
        nodes=tuple(nodes.values()),
        edges=tuple(edges),
        unknown=tuple(unknown),
        open_ends=tuple(dict.fromkeys(open_ends)),
    )


def _open_ends(query: QueryPlan | None) -> list[str]:
    if query is None:
        return []
    stages = [stage_id(stage.name) for stage in query.stages if stage.paths is None]
    return stages + ([SINK] if query.paths is None else [])


def _paths(query: QueryPlan | None) -> _Paths:
    """Return the paths from the nearest stages and sources to each stage and to the sink.

    A plan's path begins at a source. Those that pass one stage are one path from there on: a stage has one reader.
    """
    found: _Paths = {}
    ends = [(stage_id(stage.name), stage.paths) for stage in query.stages] + [(SINK, query.paths)] if query else []
    for end, paths in ends:
        from_stages: dict[str, Counter[str]] = {}  # how often each step is on the path that has it most often
        for path in paths or ():
            late = {text for text in path if text.startswith(LATE)}  # its text begins as what it passes does
            passed = {_name(text, PASSED) for text in path if text.startswith(PASSED) and text not in late}
            steps = [text for text in path if text in late or not text.startswith((FROM, PASSED))]
            # Spark numbers operators from the sink on, so that the nearest one on a path has the lowest number.
            nearest = min((s for s in query.stages if s.name in passed), key=_operator, default=None) if query else None
            if nearest is not None:
                counts = from_stages.setdefault(stage_id(nearest.name), Counter())
                counts |= Counter(steps)
                continue
            for source in (_name(text, FROM) for text in path if text.startswith(FROM)):
                found.setdefault((source_id(source), end), []).append(tuple(sorted(steps)))
        for start, counts in from_stages.items():
            for text in [text for text in counts if LATE + text in counts]:  # late on one path is late
                counts[LATE + text] = max(counts[LATE + text], counts.pop(text))
            found[start, end] = [tuple(sorted(counts.elements()))]
    return found


def _operator(stage: StagePlan) -> int:
    return stage.operator_id


def _name(text: str, prefix: str) -> str:
    return text.removeprefix(prefix).removesuffix(".")


def _step_lines(
    was: list[Lines] | None, now: list[Lines] | None, old: QueryPlan | None, new: QueryPlan | None
) -> tuple[Lines | None, Lines | None]:
    """Return the steps between two nodes in both versions. None: no path; (): one path without steps.

    They are in words, or by their exact texts where words do not tell them apart.
    """

    def lines(paths: list[Lines] | None, query: QueryPlan | None, exactly: bool) -> Lines | None:
        if paths is None:
            return None
        filters = _filters(query)
        texts = [text for path in paths for text in path]
        shown = sorted((_line(t, t) if exactly else _step(t, filters) for t in texts), key=lambda s: "IS NOT NULL" in s)
        return ((f"{len(paths)} paths",) if len(paths) > 1 else ()) + tuple(shown)

    exactly = lines(was, old, False) == lines(now, new, False) and sorted(was or ()) != sorted(now or ())
    return lines(was, old, exactly), lines(now, new, exactly)


def _filters(query: QueryPlan | None) -> set[str]:
    """Return the texts that are filters anywhere in a version."""
    texts = [query.filters, *(stage.filters for stage in query.stages)] if query else []
    return {text for each in texts for text in each or ()}


def _step(text: str, filters: set[str]) -> str:
    """Return a step in words."""
    plain = text.removeprefix(LATE)
    side = next((each for each in _SIDES if plain.startswith(each)), "")
    kind = "filter " if plain in filters else ""
    late = ", after the watermark" if text.startswith(LATE) else ""
    plain = plain.removeprefix(side)
    lookup, separator, by = plain.rpartition(_LOOKUP)  # its condition, and a digest of the table's rows
    shown = f"{_LOOKUP}{_in_words(by.rpartition(', #')[0] or by)}" if separator and not lookup else _in_words(plain)
    return _line(f"{side}{kind}{shown}{late}", text)


def _in_words(text: str) -> str:
    """Return a text in words; as it is where that would take long (it is cut anyway) or is nested too deep."""
    try:
        return words(text) if len(text) <= 4 * LONGEST else text
    except RecursionError:
        return text


def _line(shown: str, text: str) -> str:
    """Return `shown` as one line of bounded length. `text` is the exact text that it stands for."""
    shown = " ".join(shown.split())
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}… #{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _nodes(old: QueryPlan | None, new: QueryPlan | None) -> Iterator[Node]:
    """Yield sources, stages from the sources on, and the sink; those of the old version alone after the others."""
    old_sources, new_sources = ({s.name: s for s in (query.sources if query else ())} for query in (old, new))
    for name in dict.fromkeys((*new_sources, *old_sources)):
        was, now = (_source(each[name]) if name in each else None for each in (old_sources, new_sources))
        yield Node(id=source_id(name), kind=NodeKind.SOURCE, name=name, old=was, new=now)
    old_stages, new_stages = (
        {s.name: s for s in sorted(query.stages if query else (), key=_operator, reverse=True)} for query in (old, new)
    )
    for name in dict.fromkeys((*new_stages, *old_stages)):
        before, after = old_stages.get(name), new_stages.get(name)
        exactly = bool(before and after and before.definition != after.definition and _stage(before) == _stage(after))
        was, now = (_stage(each, exactly) if each else None for each in (before, after))
        yield Node(id=stage_id(name), kind=NodeKind.STAGE, name=name, old=was, new=now)
    was, now = (None if query is None else _sink(query.sink, query.output_mode) for query in (old, new))
    yield Node(id=SINK, kind=NodeKind.SINK, name=(new or old).sink.format, old=was, new=now)  # type: ignore[union-attr]


def _source(source: SourcePlan) -> Lines:
    return _single_lines((source.format, source.location and without_credentials(source.location)))


def _sink(sink: SinkPlan, output_mode: str) -> Lines:
    return _single_lines((sink.format, f"{output_mode} mode", sink.place and without_credentials(sink.place)))


def _single_lines(texts: Sequence[str | None]) -> Lines:
    return tuple(_line(text, text) for text in texts if text)


def _stage(stage: StagePlan, exactly: bool = False) -> Lines:
    lines = [stage.kind]
    for part, value in sorted(stage.definition.items()):
        texts = value if isinstance(value, (list, tuple)) else [value]
        shown = ", ".join(str(text) if exactly else _in_words(str(text)) for text in texts)
        lines.append(_line(f"{part}: {shown}", f"{part}: {value}"))
    return tuple(lines)
