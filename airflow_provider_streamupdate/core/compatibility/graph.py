"""The graph of an app's queries: which rows go where, in one version or in two beside each other.

A plan holds the paths on which rows come to each stage and to the sink (`StagePlan.paths`, `QueryPlan.paths`). What a
plan does not say is left open (`QueryGraph.unknown`), not guessed.
"""

from __future__ import annotations

import hashlib

import attrs

from ..address import without_credentials
from ..plan.expressions import Call
from ..plan.plan import AppPlan, QueryPlan, Step, parts
from ..plan.rendering import describe_part, words
from ..text_enum import TextEnum
from .verdict import ReportItem

LONGEST = 500  # characters of a line; a digest stands for the rest, so that two lines differ when the texts do
SINK = "sink"
_SIDES = ("left", "right")  # of a join, around a step on one of them


class NodeKind(TextEnum):
    """The kinds of nodes, in their order. STEPS: filters, lookups in tables ... between two other nodes."""

    SOURCE = "source"
    STAGE = "stage"
    SINK = "sink"
    STEPS = "steps"


class Change(TextEnum):
    """The mark of a node or a query without a verdict."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"
    GONE = "gone"
    UNKNOWN = "not known"  # one version's plan does not say


Lines = tuple[str, ...]
Line = tuple[str, str]  # in words, and exactly


@attrs.frozen(kw_only=True)
class Node:
    """A source, a stage, the sink, or the steps between two of them. A picture adds verdicts."""

    id: str  # its kind and name; ``sink``: unique in its query, the same in both versions
    kind: NodeKind
    name: str  # a source's or a stage's; a sink's format; empty for steps
    old: Lines | None = None  # what it is in the old version, a line each; None: it is not in that version
    new: Lines | None = None
    mark: str | None = None  # the worst verdict on it, otherwise its change; None: nothing was compared
    reason: str = ""  # of the verdicts
    agreement: str | None = None  # "needed" or "agreed"; None: it needs none
    blocks: bool = False  # the update is refused because of it


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
    change: Change | None  # None: nothing was compared
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    unknown: tuple[str, ...] = ()  # a sentence for each version whose plan does not say what feeds the sink
    notes: tuple[ReportItem, ...] = ()  # verdicts on the query as a whole


@attrs.frozen(kw_only=True)
class Graph:
    """All queries of an app."""

    queries: tuple[QueryGraph, ...]
    compared: bool = False  # two versions; otherwise everything is `new`
    notes: tuple[ReportItem, ...] = ()  # verdicts on the app as a whole


def graph(new: AppPlan, old: AppPlan | None = None) -> Graph:
    """Return the graph of one version, or of two. Nodes are matched by name: rename the old plan first."""
    names = dict.fromkeys(query.name for plan in (new, old) if plan is not None for query in plan.queries)
    queries = (_query(name, old.query(name) if old else None, new.query(name), old is not None) for name in names)
    return Graph(queries=tuple(queries), compared=old is not None)


@attrs.frozen
class _Part:
    """A node in one version."""

    kind: NodeKind
    name: str
    lines: tuple[Line, ...]

    def shown(self, exactly: bool) -> Lines:
        return tuple(exact if exactly else words for words, exact in self.lines)


def _query(name: str, old: QueryPlan | None, new: QueryPlan | None, compared: bool) -> QueryGraph:
    (was, old_edges), (now, new_edges) = (_parts(plan) if plan else ({}, []) for plan in (old, new))
    nodes = [_node(each, was.get(each), now.get(each)) for each in {**now, **was}]
    which = "the new version's plan" if compared else "the plan"
    unknown = [text for plan, text in ((old, "the old version's plan"), (new, which)) if plan and plan.paths is None]
    change = Change.SAME if old and new else Change.NEW if new else Change.GONE
    return QueryGraph(
        name=name,
        change=change if compared else None,
        nodes=tuple(sorted(nodes, key=lambda node: list(NodeKind).index(node.kind))),
        edges=tuple(
            Edge(start=start, end=end, old=(start, end) in old_edges, new=(start, end) in new_edges)
            for start, end in dict.fromkeys((*new_edges, *old_edges))
        ),
        unknown=tuple(f"{text} does not say what feeds {SINK}" for text in unknown),
    )


def _node(name: str, was: _Part | None, now: _Part | None) -> Node:
    """Return the node of both versions. Its lines are in words, or exact where words do not tell the versions apart."""
    known = now or was
    assert known is not None
    exactly = bool(was and now and was != now and was.shown(False) == now.shown(False))
    old, new = (part.shown(exactly) if part else None for part in (was, now))
    return Node(id=name, kind=known.kind, name=known.name, old=old, new=new)


def _parts(query: QueryPlan) -> tuple[dict[str, _Part], list[tuple[str, str]]]:
    """Return the nodes of one version by their ids, and its edges. Stages come from the sources on."""
    found, edges = dict[str, _Part](), list[tuple[str, str]]()
    for source in query.sources:
        place = source.location and without_credentials(source.location)
        found[f"source {source.name}"] = _Part(NodeKind.SOURCE, source.name, _plain(source.format, place))
    for stage in sorted(query.stages, key=lambda each: each.operator_id, reverse=True):
        definition = sorted(parts(stage.definition).items())
        of_stage = (_line(f"{part}: {describe_part(v)}", f"{part}: {describe_part(v, str)}") for part, v in definition)
        found[f"stage {stage.name}"] = _Part(NodeKind.STAGE, stage.name, (*_plain(stage.kind), *of_stage))
    sink = query.sink
    of_sink = _plain(sink.format, f"{query.output_mode} mode", sink.place and without_credentials(sink.place))
    found[SINK] = _Part(NodeKind.SINK, sink.format, of_sink)
    filters = {*query.filters, *(each for stage in query.stages for each in stage.filters)}
    for (start, end), paths in _paths(query).items():
        if start not in found:  # a source that the planner could not name
            found[start] = _Part(NodeKind.SOURCE, start.partition(" ")[2], _plain("not known which"))
        steps = [_line(_in_words(step, step.expression in filters), str(step)) for path in paths for step in path]
        steps.sort(key=lambda line: "IS NOT NULL" in line[0])  # the optimizer's come last
        lines = (*_plain(f"{len(paths)} paths" if len(paths) > 1 else None), *steps)
        box = f"steps {start} > {end}"
        if lines:
            found[box] = _Part(NodeKind.STEPS, "", lines)
        edges += [(start, box), (box, end)] if lines else [(start, end)]
    return found, edges


def _paths(query: QueryPlan) -> dict[tuple[str, str], list[tuple[Step, ...]]]:
    """Return the steps of each path, by its two ends: from the nearest stage or source to each stage and to the sink.

    A plan's path begins at a source. Those that pass one stage are one path from there on: a stage has one reader.
    """
    found: dict[tuple[str, str], list[tuple[Step, ...]]] = {}
    for end, paths in (*((f"stage {stage.name}", stage.paths) for stage in query.stages), (SINK, query.paths)):
        for path in paths or ():
            passed = (stage for stage in query.stages if stage.name in path.stages)
            # Spark numbers operators from the sink on, so that the nearest one on a path has the lowest number.
            nearest = min(passed, key=lambda stage: stage.operator_id, default=None)
            start = f"source {path.source}" if nearest is None else f"stage {nearest.name}"
            known = found.setdefault((start, end), [])
            if nearest is None or not known:
                known.append(path.steps)
            else:  # a step is after the watermark if it is so on one of the paths
                known[0] = max(known[0], path.steps, key=lambda steps: (len(steps), sum(step.late for step in steps)))
    return found


def _in_words(step: Step, is_filter: bool) -> str:
    expression, side = step.expression, ""
    if isinstance(expression, Call) and expression.function in _SIDES:
        side, expression = f"{expression.function} ", expression.arguments[0]
    return f"{side}{'filter ' if is_filter else ''}{words(expression)}{', after the watermark' if step.late else ''}"


def _plain(*texts: str | None) -> tuple[Line, ...]:
    return tuple(_line(text, text) for text in texts if text)


def _line(shown: str, exact: str) -> Line:
    digest = hashlib.sha256(exact.encode(errors="surrogatepass")).hexdigest()[:8]
    return _bounded(shown, digest), _bounded(exact, digest)


def _bounded(text: str, digest: str) -> str:
    """Return the text as one line of bounded length."""
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… #{digest}"
