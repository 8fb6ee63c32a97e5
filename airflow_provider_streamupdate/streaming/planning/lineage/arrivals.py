"""What produces the rows that reach a stage, drops some of them, and decides their partition: on each of their paths
from a source or from the stage below."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import attrs

from ....core.plan.plan import FROM, LATE, PASSED, UNKNOWN, unknown
from ...catalyst import marks
from ...catalyst.tree import Node
from ..expressions.digest import digest
from ..expressions.expression import Columns, details, not_null, text
from .table_rows import BELOW, NO_ROWS, ORDER, Traced, each, itself, way

# The fields of a node's own columns.
OUTPUTS = ("outputAttrs", "outputAttributes", "output")

# Of a stream's rows: nodes that make no other rows, nor more or fewer of them. Filters are told apart (`filters`). A
# LocalLimit is half of the limit above it, which is a stage (Dataset.limit makes both, the optimizer moves this one).
_SAME_ROWS = NO_ROWS | {
    "Filter", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "Sort", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ReturnAnswer", "DeduplicateRelations", "Inputs", "ArrowEvalPython", "BatchEvalPython",
    "LocalLimit",
}  # fmt: skip
_NO_HINT = "hint=JoinHint(None, None)"  # what a join has that was given none
# Of a node between a stream's sources and a stage: which rows a sample takes is chance, with any seed; and what Spark
# notes of it itself.
_ANY = ("seed", "timed", "isStreaming")
# Nodes whose Python function is given all rows of a batch.
WHOLE = ("MapInPandas", "MapInArrow", "PythonMapInArrow")
_Asked = tuple[str, frozenset[str]]  # a condition, and what it says of columns: that they are not null


@attrs.frozen
class _Path:
    """A way of rows from a source up.

    items: filters and what makes other rows, since the last of the stages: whether it comes after a watermark, its
        text, whether it is a filter
    timed: whether there is a watermark on it
    conditions: those of the filters
    """

    source: str
    stages: tuple[str, ...] = ()
    items: tuple[tuple[bool, str, bool], ...] = ()
    timed: bool = False
    conditions: tuple[_Asked, ...] = ()


def _as_asked(condition: Node, env: Columns) -> _Asked:
    return text(condition, env), frozenset(f"isnotnull({t})" for t in not_null(condition, env))


def _asked(conditions: Iterable[_Asked]) -> set[str]:
    """The conditions that no other condition on the same path implies."""
    given = dict(conditions)
    implied = {t for told, needs in given.items() for t in needs - {told}}
    return given.keys() - implied


def _branches(union: Node) -> Iterator[Node]:
    """The branches of a union, and of those that are one themselves, as the optimizer has them."""
    for branch in union.children:
        top = branch
        while top.name in NO_ROWS and len(top.children) == 1:
            top = top.children[0]
        yield from _branches(top) if top.name == "Union" else [branch]


def partitions_below(lineage: Traced, node: Node) -> str:
    """What decides on which partitions of a stream the rows are that come to a node, and in which order, in a
    query that has anything that does. (A stage puts them by its keys, which are told there.)"""
    if not lineage.moves or node.stateful:
        return ""
    return "; ".join(t for child in node.children if child.streaming for t in _partitioned(lineage, child))


def _partitioned(lineage: Traced, node: Node) -> list[str]:
    """What does so in a node and below it, from the top down."""
    if id(node) not in lineage.partitions:
        lineage.partitions[id(node)] = list(_partitioning(lineage, node))
    return lineage.partitions[id(node)]


def _partitioning(lineage: Traced, node: Node) -> Iterator[str]:
    if node.stateful or not node.streaming:
        return
    if node.name == "Union":
        branches = [_in_place(lineage, branch) for branch in _branches(node)]
        known = not any(unknown(t) for branch in branches for t in branch)
        yield f"union(#{digest(branches)})" if known else f"{UNKNOWN}union"
        return
    if node.name in ORDER:
        yield from (f"{name.lower()}({', '.join(told)})" for name, told in itself(lineage, node))
    # Which rows there are is part of it; the source's are told by itself.
    if node.children and (here := [*sorted(_conditions(lineage, node)), *_own_rows(lineage, node)]):
        known = not any(map(unknown, here))
        yield f"{node.name.lower()}(#{digest(here)})" if known else f"{UNKNOWN}{node.name.lower()}"
    hint = details(node.name, {"hint": node.fields.get("hint")}) if node.name == "Join" else []
    if hint and hint != [_NO_HINT]:
        yield f"join({hint[0]})"
    for child in node.children:
        yield from _partitioned(lineage, child)


def _in_place(lineage: Traced, branch: Node) -> list[str]:
    """What tells a branch of a union from the others: its partitions come after those of the one before it."""
    filters, made = sorted(all_filters(lineage, branch)), sorted(rows_made(lineage, branch))
    return [*sorted(lineage.names(branch)), "where", *filters, "by", *made, "in", *_partitioned(lineage, branch)]


def generated(lineage: Traced, node: Node) -> str:
    """What a node makes rows of, that makes several of one."""
    if node.name == "Generate":
        outer = "outer " if node.fields.get("outer") is True else ""
        return outer + text(node.expressions("generator")[0], lineage.inputs(node))
    if node.name.endswith("EvalPythonUDTF"):
        return text(node.expressions("udtf")[0], lineage.inputs(node))
    return ""


def whole(lineage: Traced, node: Node) -> str:
    """A function of whole batches, which knows its columns by their names."""
    function = node.expressions("functionExpr")[0]
    env = lineage.inputs(node)
    names = [marks.name(str(a.fields.get("name", ""))) for a in function.children]
    told = [f"{name} = {text(a, env)}" for name, a in zip(names, function.children, strict=True)]
    return f"{text(function, env)} of ({', '.join(told)})"


def below(lineage: Traced, node: Node) -> str:
    """A digest of what decides which rows reach a node: everything below it but projections."""
    described = [
        (inner.name, [text(e, lineage.inputs(inner)) for e in inner.expressions("condition")])
        for inner in list(node.walk())[1:]
        if inner.name != "Project"
    ]
    return digest([*described, [lineage.sources[id(n)] for n in node.walk() if id(n) in lineage.sources]])


def arrivals(lineage: Traced, node: Node) -> tuple[str, ...]:
    """What turns rows into others, or into more or fewer, between a stage and its sources, sorted; and the columns it
    uses that have a watermark."""
    env = lineage.inputs(node)
    timed = {env[k] for k in node.fields.get("timed", ()) if k in env}
    sides = zip(sided(lineage, node), node.children, strict=True)
    made = [told(t) for told, child in sides for t in rows_made(lineage, child)]
    sources = Counter(name for child in node.children for name in _sources_of(lineage, child))
    again = [f"{name}. {count} times" for name, count in sources.items() if count > 1]
    return tuple(sorted([*made, *again, *(f"event time {t}" for t in timed)]))


def moving(lineage: Traced, node: Node) -> list[str]:
    """What decides which rows advance a watermark, down to the stages and sources."""
    names = [*nearest_stages(lineage, node), *_sources_of(lineage, node)]
    return [*sorted(all_filters(lineage, node)), *sorted(rows_made(lineage, node)), *sorted(names)]


def rows_made(lineage: Traced, node: Node) -> Iterator[str]:
    if node.stateful:
        if node.name == "Join":
            yield "a join of streams"
            for child in node.children:
                yield from rows_made(lineage, child)
        return
    if not node.streaming or not node.children:
        return
    yield from _own_rows(lineage, node)
    for child in node.children:
        yield from rows_made(lineage, child)


def _own_rows(lineage: Traced, node: Node) -> Iterator[str]:
    """What one node that is no stage does so."""
    if node.name == "Join":
        yield from (f"lookup by {way(lineage, side, node)}" for side in node.children if not side.streaming)
    elif node.name == "Generate":
        yield generated(lineage, node)
    elif node.name in WHOLE:
        made = whole(lineage, node)
        yield f"{node.name}({digest(made)}){_on(lineage, node)}" if not unknown(made) else f"{UNKNOWN}{node.name}"
    elif node.name not in _SAME_ROWS and node.name != "Union":
        env = lineage.inputs(node)
        own = (*OUTPUTS, "resultAttrs")
        fields = [f for f in sorted(node.fields) if f not in own and node.holds(f)]
        told = [text(e, env) for field in fields for e in each(lineage, node, field)]
        rest = {f: v for f, v in node.fields.items() if f not in (*fields, *own, *BELOW, *_ANY)}
        told += details(node.name, rest)
        on = "" if node.name == "Expand" else _on(lineage, node)
        yield f"{node.name}({digest(told)}){on}" if not any(map(unknown, told)) else f"{UNKNOWN}{node.name}"


def _on(lineage: Traced, node: Node) -> str:
    """Of a node that looks at several rows at once: what has made them, and where they are."""
    told = [t for child in node.children if child.streaming for t in _partitioned(lineage, child)]
    return f" on {'; '.join(told)}" if told else ""


def paths(lineage: Traced, node: Node) -> tuple[tuple[str, ...], ...]:
    """The ways on which rows come to a stage, a list each, sorted: the source, the stages they pass, and, from the
    last of these on, the filters they meet and what makes other rows of them. What comes after a watermark (and
    so drops rows that have moved it) is marked so."""
    found = []
    for side, child in zip(sided(lineage, node), node.children, strict=True):
        for path in _paths(lineage, child):
            asked = _asked(path.conditions)
            told = [(late, side(t)) for late, t, is_filter in path.items if not is_filter or t in asked]
            passed = [f"{PASSED}{name}." for name in path.stages]
            found.append(tuple(sorted([f"{FROM}{path.source}.", *passed, *((LATE if x else "") + t for x, t in told)])))
    return tuple(sorted(found))


def _paths(lineage: Traced, node: Node) -> Iterator[_Path]:
    if id(node) in lineage.sources:
        yield _Path(lineage.sources[id(node)])
    for child in node.children if node.streaming else ():
        for path in _paths(lineage, child):
            if node.stateful:
                yield _Path(path.source, (*path.stages, lineage.stages[id(node)]), timed=path.timed)
            elif node.name == "EventTimeWatermark":
                yield attrs.evolve(path, timed=True)
            else:
                parts = list(_parts(lineage, node))
                env = lineage.inputs(node) if parts else {}
                own = ((path.timed, text(each, env), True) for each in parts)
                made = ((path.timed, t, False) for t in _own_rows(lineage, node))
                conditions = (*path.conditions, *(_as_asked(each, env) for each in parts))
                yield attrs.evolve(path, items=(*path.items, *own, *made), conditions=conditions)


def _sources_of(lineage: Traced, node: Node) -> Iterator[str]:
    """The sources whose rows come to a node, down to the stages below."""
    if id(node) in lineage.sources:
        yield lineage.sources[id(node)]
    elif not node.stateful:
        for child in node.children:
            yield from _sources_of(lineage, child)


def nearest_stages(lineage: Traced, node: Node) -> Iterator[str]:
    if id(node) in lineage.stages:
        yield lineage.stages[id(node)]
    else:
        for child in node.children:
            yield from nearest_stages(lineage, child)


def filters(lineage: Traced, node: Node) -> tuple[str, ...]:
    """The conditions a row has to meet to reach a node from its sources or from the stages below, sorted. That a
    column is not null is left out where something else that is asked on the same way says so: Spark adds it to
    that anyway."""
    sides = zip(sided(lineage, node), node.children, strict=True)
    return tuple(sorted({side(t) for side, child in sides for way in _ways(lineage, child) for t in _asked(way)}))


def _ways(lineage: Traced, node: Node) -> list[tuple[_Asked, ...]]:
    """The conditions on each path down to the next stages, to sources and tables."""
    if node.stateful:
        return [()]
    parts = list(_parts(lineage, node))
    env = lineage.inputs(node) if parts else {}
    here = tuple(_as_asked(each, env) for each in parts)
    below = [way for child in node.children for way in _ways(lineage, child)]
    return [(*here, *way) for way in below or [()]]


def sided(lineage: Traced, node: Node) -> list[Callable[[str], str]]:
    """For each side of a node what is said of it: with the side, where a text does not say which it is of. It does
    by a source that the other side has not; there is none in what is made of constants or tables."""
    if len(node.children) != 2:
        return [str] * len(node.children)
    names = [lineage.names(child) for child in node.children]
    both = bool(set.intersection(*names))

    def told(side: str, own: set[str], text: str) -> str:
        return text if not both and any(f"{name}." in text for name in own) else f"{side} {text}"

    return [functools.partial(told, side, own) for side, own in zip(("left", "right"), names, strict=True)]


def all_filters(lineage: Traced, node: Node) -> Iterator[str]:
    """The conditions of a node and of those below it, down to the next stages."""
    for condition, env in _all_conditions(lineage, node):
        yield text(condition, env)


def _all_conditions(lineage: Traced, node: Node) -> Iterator[tuple[Node, Columns]]:
    if not node.stateful:
        yield from ((condition, lineage.inputs(node)) for condition in _parts(lineage, node))
        for child in node.children:
            yield from _all_conditions(lineage, child)


def _conditions(lineage: Traced, node: Node) -> Iterator[str]:
    yield from (text(condition, lineage.inputs(node)) for condition in _parts(lineage, node))


def _parts(lineage: Traced, node: Node) -> Iterator[Node]:
    """The conditions of a filter that all have to be met."""
    conditions = node.expressions("condition") if node.name == "Filter" else []
    while conditions:
        condition = conditions.pop()
        if condition.name == "And":
            conditions += condition.children
        else:
            yield condition
