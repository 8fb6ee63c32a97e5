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
from .expressions import Call, Expression
from .plan import AppPlan, QueryPlan, SinkPlan, SourcePlan, StagePlan, Step, parts
from .rendering import describe_part, words

LONGEST = 500  # characters of a line; a digest stands for the rest, so that two lines differ when the texts do
SINK = "sink"
_SIDES = ("left", "right")  # of a join, around a step on one of them


class NodeKind(TextEnum):
    """The kinds of nodes. STEPS: filters, lookups in tables ... that rows meet between two other nodes."""

    SOURCE = "source"
    STEPS = "steps"
    STAGE = "stage"
    SINK = "sink"


Lines = tuple[str, ...]
Steps = tuple[Step, ...]
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


# The steps on each path, by its two ends.
_Paths = dict[tuple[str, str], list[Steps]]


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
    return [SINK] if query is not None and query.paths is None else []


def _paths(query: QueryPlan | None) -> _Paths:
    """Return the paths from the nearest stages and sources to each stage and to the sink.

    A plan's path begins at a source. Those that pass one stage are one path from there on: a stage has one reader.
    """
    found: _Paths = {}
    ends = [(stage_id(stage.name), stage.paths) for stage in query.stages] + [(SINK, query.paths)] if query else []
    for end, paths in ends:
        from_stages: dict[str, Counter[Step]] = {}  # how often each step is on the path that has it most often
        for path in paths or ():
            passed = (stage for stage in query.stages if stage.name in path.stages) if query else ()
            # Spark numbers operators from the sink on, so that the nearest one on a path has the lowest number.
            nearest = min(passed, key=_operator, default=None)
            if nearest is None:
                found.setdefault((source_id(path.source), end), []).append(path.steps)
            else:
                counts = from_stages.setdefault(stage_id(nearest.name), Counter())
                counts |= Counter(path.steps)
        for start, counts in from_stages.items():
            for step in [step for step in counts if not step.late]:
                late = attrs.evolve(step, late=True)
                if late in counts:  # late on one path is late
                    counts[late] = max(counts[late], counts.pop(step))
            found[start, end] = [tuple(sorted(counts.elements(), key=str))]
    return found


def _operator(stage: StagePlan) -> int:
    return stage.operator_id


def _step_lines(
    was: list[Steps] | None, now: list[Steps] | None, old: QueryPlan | None, new: QueryPlan | None
) -> tuple[Lines | None, Lines | None]:
    """Return the steps between two nodes in both versions. None: no path; (): one path without steps.

    They are in words, or by their exact texts where words do not tell them apart.
    """

    def lines(paths: list[Steps] | None, query: QueryPlan | None, exactly: bool) -> Lines | None:
        if paths is None:
            return None
        filters = _filters(query)
        steps = [step for path in paths for step in path]
        texts = (_line(str(step), str(step)) if exactly else _step(step, filters) for step in steps)
        shown = sorted(texts, key=lambda text: "IS NOT NULL" in text)
        return ((f"{len(paths)} paths",) if len(paths) > 1 else ()) + tuple(shown)

    exactly = lines(was, old, False) == lines(now, new, False) and Counter(was or ()) != Counter(now or ())
    return lines(was, old, exactly), lines(now, new, exactly)


def _filters(query: QueryPlan | None) -> set[Expression]:
    """Return the expressions that are filters anywhere in a version."""
    return {*query.filters, *(each for stage in query.stages for each in stage.filters)} if query else set()


def _step(step: Step, filters: set[Expression]) -> str:
    """Return a step in words."""
    expression, side = step.expression, ""
    kind = "filter " if expression in filters else ""
    if isinstance(expression, Call) and expression.function in _SIDES:
        side, expression = f"{expression.function} ", expression.arguments[0]
    late = ", after the watermark" if step.late else ""
    return _line(f"{side}{kind}{words(expression)}{late}", str(step))


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
    for part, value in sorted(parts(stage.definition).items()):
        exact = describe_part(value, str)
        lines.append(_line(f"{part}: {exact if exactly else describe_part(value)}", f"{part}: {exact}"))
    return tuple(lines)
