"""The graph of an app's queries: which rows go where. Of one version, or of two, one beside the other.

A plan tells it by the ways on which rows come to each stage and to the sink (`StagePlan.paths`, `QueryPlan.paths`).
What a plan does not tell is left open (`QueryGraph.unknown`), not guessed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ..address import without_credentials
from ..text_enum import TextEnum
from .expressions import Call, Expression
from .plan import AppPlan, Path, QueryPlan, SinkPlan, SourcePlan, StagePlan, Step, parts
from .rendering import describe_part, words

LONGEST = 500  # characters of a line; what is cut off is told by a digest, so that two lines differ when the texts do
SINK = "sink"
_SIDES = ("left", "right")  # of a join, around what is said of one of them


class NodeKind(TextEnum):
    """The kind of a query's node. STEPS: filters, lookups in tables ... that rows meet between two other nodes."""

    SOURCE = "source"
    STEPS = "steps"
    STAGE = "stage"
    SINK = "sink"


Lines = tuple[str, ...]
Steps = tuple[Step, ...]


@attrs.frozen(kw_only=True)
class Node:
    """A source, a stage, the sink, or the steps between two of them.

    id: unique in its query, the same in both versions
    name: a source's or a stage's; a sink's format; none for steps
    old, new: what it is in each version, a line each; the first one for steps and others alike says most (None: it is
        not in that version)
    """

    id: str
    kind: NodeKind
    name: str
    old: Lines | None = None
    new: Lines | None = None


@attrs.frozen(kw_only=True)
class Edge:
    """Rows go from node `start` to node `end`, on so many ways in each version: two for a DataFrame that is united with
    itself, 0 where the version has no such edge."""

    start: str
    end: str
    old: int = 0
    new: int = 0


@attrs.frozen(kw_only=True)
class QueryGraph:
    """One query. old, new: whether the version has it

    unknown: what a version's plan does not tell of the edges, in words; into: the nodes of which it does not tell all
        that feeds them, by id
    """

    name: str
    old: bool
    new: bool
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    unknown: tuple[str, ...] = ()
    into: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        """One from a file may be altered: ValueError where its edges are between nodes that it has not."""
        known = {node.id for node in self.nodes}
        ends = {SINK, *(end for edge in self.edges for end in (edge.start, edge.end))}
        if lost := sorted(ends - known):
            raise ValueError(f"query {self.name!r} has no node {', '.join(lost)}")


@attrs.frozen(kw_only=True)
class Graph:
    """All queries of an app. compared: of two versions; else all is `new`."""

    queries: tuple[QueryGraph, ...]
    compared: bool = False


def graph(new: AppPlan, old: AppPlan | None = None) -> Graph:
    """Return the graph of a version, or of two. Nodes are the same in both when their names are: rename the old plan
    first."""
    queries = [_query(old.query(query.name) if old else None, query, old is not None) for query in new.queries]
    queries += [_query(query, None, True) for query in (old.queries if old else ()) if new.query(query.name) is None]
    return Graph(queries=tuple(queries), compared=old is not None)


def source_id(name: str) -> str:
    return f"source {name}"


def stage_id(name: str) -> str:
    return f"stage {name}"


@attrs.frozen
class _Leg:
    """A way of rows from one node to the next, with the steps on it in order."""

    start: str
    end: str
    steps: Steps = ()


def _query(old: QueryPlan | None, new: QueryPlan | None, compared: bool) -> QueryGraph:
    unknown: list[str] = []
    into: list[str] = []
    ways: list[list[_Leg]] = []
    for query, which in ((old, "the old version's plan"), (new, "the new version's plan" if compared else "the plan")):
        found, untold, ends = _legs(query) if query else ([], "", [])
        ways.append(found)
        unknown += [f"{which} does not tell {untold}"] if untold else []
        into += ends
    described = list(_nodes(old, new))
    nodes = {node.id: node for node in described}
    for side, found in zip(("old", "new"), ways, strict=True):
        for start in {way.start for way in found} - {node.id for node in described}:  # a source that could not be told
            nodes.setdefault(start, Node(id=start, kind=NodeKind.SOURCE, name=start.partition(" ")[2]))
            here: dict[str, Any] = {side: ("not known which",)}
            nodes[start] = attrs.evolve(nodes[start], **here)
    edges: Counter[tuple[str, str, str]] = Counter()
    steps: list[Node] = []
    for start, end in dict.fromkeys((way.start, way.end) for found in ways[::-1] for way in found):
        told = [sorted((way.steps for way in found if (way.start, way.end) == (start, end)), key=str) for found in ways]
        for number, (was, now) in enumerate(_paired(*told), 1):
            box = f"steps {number} {start} > {end}"
            if was or now:
                steps.append(_steps(box, was or (), now or (), old, new))
            for side, passed in (("old", was), ("new", now)):
                if passed is not None:
                    edges.update((*ends, side) for ends in ([(start, box), (box, end)] if passed else [(start, end)]))
    pairs = dict.fromkeys((start, end) for start, end, _ in edges)
    return QueryGraph(
        name=(new or old).name,  # type: ignore[union-attr]
        old=old is not None,
        new=new is not None,
        nodes=(*nodes.values(), *steps),
        edges=tuple(Edge(start=s, end=e, old=edges[s, e, "old"], new=edges[s, e, "new"]) for s, e in pairs),
        unknown=tuple(unknown),
        into=tuple(dict.fromkeys(into)),
    )


def _paired(old: list[Steps], new: list[Steps]) -> Iterator[tuple[Steps | None, Steps | None]]:
    """The steps of the ways between two nodes in both versions: equal ones first, then what is left, in order."""
    same = Counter(old) & Counter(new)
    yield from ((steps, steps) for steps in same.elements())
    rest = [list((Counter(side) - same).elements()) for side in (old, new)]
    for number in range(max(map(len, rest))):
        was, now = (side[number] if number < len(side) else None for side in rest)
        yield was, now


def _legs(query: QueryPlan) -> tuple[list[_Leg], str, list[str]]:
    """Return the ways of rows in one version; what its plan does not tell of them, and the ends of those."""
    found: list[_Leg] = []
    for stage in query.stages:
        found += _into(stage_id(stage.name), stage.paths, query)
    if query.paths is not None:
        return [*found, *_into(SINK, query.paths, query)], "", []
    fed = {way.start for way in found}
    starts = [stage_id(s.name) for s in query.stages] + [source_id(s.name) for s in query.sources]
    found += [_Leg(start, SINK) for start in starts if start not in fed]  # where else would its rows go
    return found, "the steps before the sink", [SINK]


def _into(end: str, paths: Sequence[Path], query: QueryPlan) -> Iterator[_Leg]:
    """Yield the ways from the nearest stages and sources to a node. Those that pass one stage are one way from there
    on, since a stage has one reader."""
    from_stages: dict[str, Counter[Step]] = {}  # the steps, as often as the path with most of them has them
    for path in paths:
        # Spark numbers operators from the sink on, so that of those on one path the nearest has the lowest number.
        passed = (s for s in query.stages if s.name in path.stages)
        nearest = min(passed, key=lambda s: s.operator_id, default=None)
        if nearest is None:
            yield _Leg(source_id(path.source), end, path.steps)
        else:
            steps = from_stages.setdefault(stage_id(nearest.name), Counter())
            steps |= Counter(path.steps)
    for start, steps in from_stages.items():
        for step in [step for step in steps if not step.late]:
            late = attrs.evolve(step, late=True)
            if late in steps:  # late on one path is late
                steps[late] = max(steps[late], steps.pop(step))
        yield _Leg(start, end, tuple(sorted(steps.elements(), key=str)))


def _steps(name: str, was: Steps, now: Steps, old: QueryPlan | None, new: QueryPlan | None) -> Node:
    """Return the steps of one way in both versions, in words; exactly where words do not tell them apart."""
    shown = [
        tuple(sorted((_step(step, _filters(query)) for step in steps), key=_is_of_the_optimizer))
        for steps, query in ((was, old), (now, new))
    ]
    if shown[0] == shown[1] and was != now:
        shown = [tuple(_line(str(step), str(step)) for step in steps) for steps in (was, now)]
    return Node(id=name, kind=NodeKind.STEPS, name="", old=shown[0] or None, new=shown[1] or None)


def _is_of_the_optimizer(step: str) -> bool:
    """Return whether it looks as if the optimizer had put it there: those come last."""
    return step.startswith("filter ") and "IS NOT NULL" in step


def _filters(query: QueryPlan | None) -> set[Expression]:
    """Return what is a filter anywhere in a version."""
    if query is None:
        return set()
    return {*query.filters, *(each for stage in query.stages for each in stage.filters)}


def _step(step: Step, filters: set[Expression]) -> str:
    """Return a step in words."""
    expression, side = step.expression, ""
    kind = "filter " if expression in filters else ""
    if isinstance(expression, Call) and expression.function in _SIDES:
        side, expression = f"{expression.function} ", expression.arguments[0]
    late = ", after the watermark" if step.late else ""
    return _line(f"{side}{kind}{words(expression)}{late}", str(step))


def _line(shown: str, text: str) -> str:
    """Return a line for people, as long as is useful. text: what it stands for exactly"""
    shown = " ".join(shown.split())
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}… #{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"


def _nodes(old: QueryPlan | None, new: QueryPlan | None) -> Iterator[Node]:
    """Sources, stages from the sources on, and the sink; those of the old version alone after the others."""
    for kind, found, described, key in (
        (NodeKind.SOURCE, "sources", _source, source_id),
        (NodeKind.STAGE, "stages", _stage, stage_id),
    ):
        parts: list[dict[str, Any]] = [
            {part.name: part for part in sorted(getattr(q, found), key=_order)} if q else {} for q in (old, new)
        ]
        for name in dict.fromkeys((*parts[1], *parts[0])):
            was, now = (described(side[name]) if name in side else None for side in parts)
            was, now = _told_apart(was, now, parts[0].get(name), parts[1].get(name))
            yield Node(id=key(name), kind=kind, name=name, old=was, new=now)
    was, now = (None if q is None else _sink(q.sink, q.output_mode) for q in (old, new))
    yield Node(id=SINK, kind=NodeKind.SINK, name=(new or old).sink.format, old=was, new=now)  # type: ignore[union-attr]


def _order(part: SourcePlan | StagePlan) -> int:
    return -part.operator_id if isinstance(part, StagePlan) else 0


def _told_apart(
    was: Lines | None, now: Lines | None, old: SourcePlan | StagePlan | None, new: SourcePlan | StagePlan | None
) -> tuple[Lines | None, Lines | None]:
    """The lines of a stage by its exact texts, where words do not tell two meanings apart."""
    if was is None or was != now or not isinstance(old, StagePlan) or not isinstance(new, StagePlan):
        return was, now
    return (was, now) if old.definition == new.definition else (_stage(old, exactly=True), _stage(new, exactly=True))


def _source(source: SourcePlan) -> Lines:
    return tuple(_line(text, text) for text in (source.format, _shown(source.location)) if text)


def _stage(stage: StagePlan, exactly: bool = False) -> Lines:
    lines = [stage.kind]
    for part, value in sorted(parts(stage.definition).items()):
        exact = describe_part(value, str)
        lines.append(_line(f"{part}: {exact if exactly else describe_part(value)}", f"{part}: {exact}"))
    return tuple(lines)


def _shown(location: str | None) -> str | None:
    """A location without the secrets that an address may have: reports go to Airflow's database."""
    return location and without_credentials(location)


def _sink(sink: SinkPlan, output_mode: str) -> Lines:
    told = (sink.format, f"{output_mode} mode", _shown(sink.place))
    return tuple(_line(text, text) for text in told if text)
