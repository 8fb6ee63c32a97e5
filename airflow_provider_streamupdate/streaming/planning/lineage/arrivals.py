"""What produces the rows that reach a stage, drops some of them, and decides their partition: on each of their paths
from a source or from the stage below."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from ....core.plan.expressions import EITHER, Call, Column, Expression, Literal, Unknown, named
from ....core.plan.plan import Path, Step, in_order
from ....core.plan.visitors import is_unknown, references
from ...catalyst import types
from ...catalyst.tree import Node
from ..expressions.expression import details, expression, not_null
from ..expressions.parser_schema import SHAPE, narrowed
from ..expressions.scope import Scope, digest
from .table_rows import BELOW, NO_ROWS, ORDER, Traced, describe_node, field_trees, lookup_rows, options

# The fields of a node's own columns.
OUTPUTS = ("outputAttrs", "outputAttributes", "output")

# Of a stream's rows: nodes that make no other rows, nor more or fewer of them. Filters are told apart (`filters`). A
# LocalLimit is half of the limit above it, which is a stage (Dataset.limit makes both, the optimizer moves this one).
_SAME_ROWS = NO_ROWS | {
    "Filter", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "Sort", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ReturnAnswer", "DeduplicateRelations", "Inputs", "ArrowEvalPython", "BatchEvalPython",
    "LocalLimit",
}  # fmt: skip
_NO_HINT = "JoinHint(None, None)"  # what a join has that was given none
# Of a node between a stream's sources and a stage: which rows a sample takes is chance, with any seed; and what Spark
# notes of it itself.
_ANY = ("seed", "timed", "never_null", "isStreaming")
# Nodes whose Python function is given all rows of a batch.
WHOLE = ("MapInPandas", "MapInArrow", "PythonMapInArrow")
# A condition, and what it says of columns: that they are not null.
_Condition = tuple[Expression, frozenset[Expression]]


@attrs.frozen
class _RowPath:
    """A way of rows from a source up.

    steps: filters and what makes other rows, since the last of the stages
    timed: whether there is a watermark on it
    conditions: those of the filters
    """

    source: str
    stages: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()
    timed: bool = False
    conditions: tuple[_Condition, ...] = ()


def _condition(node: Node, scope: Scope) -> _Condition:
    return expression(node, scope), frozenset(Call("isnotnull", (each,)) for each in not_null(node, scope))


def _required(conditions: Iterable[_Condition]) -> set[Expression]:
    """Return the conditions that no other condition on the same path implies."""
    given = dict(conditions)
    implied = {each for told, needs in given.items() for each in needs - {told}}
    return given.keys() - implied


def _branches(union: Node) -> Iterator[Node]:
    """Yield the branches of a union, and of those that are one themselves, as the optimizer has them."""
    for branch in union.children:
        top = branch
        while top.name in NO_ROWS and len(top.children) == 1:
            top = top.children[0]
        yield from _branches(top) if top.name == "Union" else [branch]


def partitions_below(lineage: Traced, node: Node) -> tuple[Expression, ...]:
    """Return what decides on which partitions of a stream the rows are that come to a node, and in which order, in a
    query that has anything that does. (A stage puts them by its keys, which are told there.)"""
    if not lineage.moves or node.stateful:
        return ()
    return tuple(t for child in node.children if child.streaming for t in _partitioned(lineage, child))


def _partitioned(lineage: Traced, node: Node) -> list[Expression]:
    """Return what does so in a node and below it, from the top down."""
    if id(node) not in lineage.partitions:
        lineage.partitions[id(node)] = list(_partitioning(lineage, node))
    return lineage.partitions[id(node)]


def _partitioning(lineage: Traced, node: Node) -> Iterator[Expression]:
    if node.stateful or not node.streaming:
        return
    if node.name == "Union":
        yield _digested("union", [each for branch in _branches(node) for each in _in_place(lineage, branch)])
        return
    if node.name in ORDER:
        yield from (Call(name.lower(), tuple(told)) for name, told in describe_node(lineage, node))
    # Which rows there are is part of it; the source's are told by itself.
    if node.children and (here := [*in_order(_own_filters(lineage, node)), *_own_rows(lineage, node)]):
        yield _digested(node.name.lower(), here)
    hint = details(node.name, {"hint": node.fields.get("hint")}) if node.name == "Join" else ()
    if hint and hint[0][1].text != _NO_HINT:
        yield Call("join", (), hint)
    for child in node.children:
        yield from _partitioned(lineage, child)


def _digested(name: str, told: list[Expression], on: Iterable[Expression] = ()) -> Expression:
    """Return a digest of what a node does to rows, and what decides where they are; unknown where some of it is."""
    return (
        Unknown(name) if any(map(is_unknown, told)) else Call(name, tuple(on), (("does", Literal(f"#{digest(told)}")),))
    )


def _in_place(lineage: Traced, branch: Node) -> list[Expression]:
    """Return what tells a branch of a union from the others: its partitions come after those of the one before it."""
    filters, made = in_order(all_filters(lineage, branch)), in_order(rows_made(lineage, branch))
    names = (Literal(name) for name in sorted(lineage.names(branch)))
    parts = ("names", names), ("where", filters), ("by", made), ("in", _partitioned(lineage, branch))
    return [Call(name, tuple(told)) for name, told in parts]


def generated(lineage: Traced, node: Node) -> Expression | None:
    """Return what a node makes rows of, that makes several of one."""
    if node.name == "Generate":
        made = expression(node.expressions("generator")[0], lineage.inputs(node))
        return Call("outer", (made,)) if node.fields.get("outer") is True else made
    if node.name.endswith("EvalPythonUDTF"):
        return expression(node.expressions("udtf")[0], lineage.inputs(node))
    return None


def whole(lineage: Traced, node: Node) -> Expression:
    """Return a function of whole batches, which knows its columns by their names."""
    function = node.expressions("functionExpr")[0]
    scope = lineage.inputs(node)
    names = [types.name(str(a.fields.get("name", ""))) for a in function.children]
    told = [named(name, expression(a, scope)) for name, a in zip(names, function.children, strict=True)]
    return Call("of", (expression(function, scope), *told))


def below(lineage: Traced, node: Node) -> str:
    """Return a digest of what decides which rows reach a node: everything below it but projections."""
    described = [
        (inner.name, [expression(e, lineage.inputs(inner)) for e in inner.expressions("condition")])
        for inner in list(node.walk())[1:]
        if inner.name != "Project"
    ]
    return digest([*described, [lineage.sources[id(n)] for n in node.walk() if id(n) in lineage.sources]])


def arrivals(lineage: Traced, node: Node) -> Iterator[Expression]:
    """Yield what turns rows into others, or into more or fewer, between a stage and its sources; and the columns it
    uses that have a watermark."""
    columns = lineage.inputs(node).columns
    for side, child in zip(sided(lineage, node), node.children, strict=True):
        yield from map(side, rows_made(lineage, child))
    sources = Counter(name for child in node.children for name in _sources_of(lineage, child))
    for name, count in sources.items():
        if count > 1:
            yield Call("times", (Column(name, ""), Literal(str(count))))
    timed = {columns[k] for k in node.fields.get("timed", ()) if k in columns}
    yield from (Call("event time", (column,)) for column in timed)


def moving(lineage: Traced, node: Node) -> list[Any]:
    """Return what decides which rows advance a watermark, down to the stages and sources."""
    names = [*nearest_stages(lineage, node), *_sources_of(lineage, node)]
    return [*in_order(all_filters(lineage, node)), *in_order(rows_made(lineage, node)), *sorted(names)]


def rows_made(lineage: Traced, node: Node) -> Iterator[Expression]:
    """Yield what makes other rows, or more or fewer of them, in a node and below it, down to the next stages."""
    if node.stateful:
        if node.name == "Join":
            yield Literal("a join of streams")
            for child in node.children:
                yield from rows_made(lineage, child)
        return
    if not node.streaming or not node.children:
        return
    yield from _own_rows(lineage, node)
    for child in node.children:
        yield from rows_made(lineage, child)


def _own_rows(lineage: Traced, node: Node) -> Iterator[Expression]:
    """Yield what one node that is no stage does so."""
    if node.name == "Join":
        sides = (side for side in node.children if not side.streaming)
        yield from (Call("lookup", (lookup_rows(lineage, side, node),)) for side in sides)
    elif node.name == "Generate":
        yield narrowed(generated(lineage, node) or Unknown(node.name), SHAPE)
    elif node.name == "Expand":  # a column that is the same in each of the rows that it makes of one tells nothing
        several = (told for _, told in lineage.columns(node) if isinstance(told, Call) and told.function == EITHER)
        count = Literal(str(len(node.fields["projections"])))
        yield _digested(node.name, [count, *sorted(several, key=str)], ())
    elif node.name in WHOLE:
        yield _digested(node.name, [whole(lineage, node)], _on(lineage, node))
    elif node.name not in _SAME_ROWS and node.name != "Union":
        scope = lineage.inputs(node)
        own = (*OUTPUTS, "resultAttrs")
        fields = [f for f in sorted(node.fields) if f not in own and node.holds(f)]
        told = [expression(e, scope) for field in fields for e in field_trees(node, field)]
        rest = {f: v for f, v in node.fields.items() if f not in (*fields, *own, *BELOW, *_ANY)}
        told += options(node.name, rest)
        yield _digested(node.name, told, _on(lineage, node))


def _on(lineage: Traced, node: Node) -> Iterator[Expression]:
    """Yield, for a node that looks at several rows at once, what has made them, and where they are."""
    for child in node.children:
        yield from _partitioned(lineage, child) if child.streaming else ()


def paths(lineage: Traced, node: Node) -> Iterator[Path]:
    """Yield the ways on which rows come to a stage."""
    for side, child in zip(sided(lineage, node), node.children, strict=True):
        for way in _row_paths(lineage, child):
            required = _required(way.conditions)
            filters = {expression for expression, _ in way.conditions}
            steps = (s for s in way.steps if s.expression not in filters or s.expression in required)
            told = tuple(attrs.evolve(step, expression=side(step.expression)) for step in steps)
            yield Path(way.source, way.stages, told)


def _row_paths(lineage: Traced, node: Node) -> Iterator[_RowPath]:
    if id(node) in lineage.sources:
        yield _RowPath(lineage.sources[id(node)])
    for child in node.children if node.streaming else ():
        for way in _row_paths(lineage, child):
            if node.stateful:
                yield _RowPath(way.source, (*way.stages, lineage.stages[id(node)]), timed=way.timed)
            elif node.name == "EventTimeWatermark":
                yield attrs.evolve(way, timed=True)
            else:
                conditions = _conditions(lineage, node)
                here = (*(told for told, _ in conditions), *_own_rows(lineage, node))
                steps = (*way.steps, *(Step(told, late=way.timed) for told in here))
                yield attrs.evolve(way, steps=steps, conditions=(*way.conditions, *conditions))


def _conditions(lineage: Traced, node: Node) -> list[_Condition]:
    """Return the conditions of a node itself."""
    return [_condition(each, lineage.inputs(node)) for each in _parts(node)]


def _sources_of(lineage: Traced, node: Node) -> Iterator[str]:
    """Yield the sources whose rows come to a node, down to the stages below."""
    if id(node) in lineage.sources:
        yield lineage.sources[id(node)]
    elif not node.stateful:
        for child in node.children:
            yield from _sources_of(lineage, child)


def nearest_stages(lineage: Traced, node: Node) -> Iterator[str]:
    """Yield the stages from which rows come to a node, or the node's own name when it is one."""
    if id(node) in lineage.stages:
        yield lineage.stages[id(node)]
    else:
        for child in node.children:
            yield from nearest_stages(lineage, child)


def filters(lineage: Traced, node: Node) -> set[Expression]:
    """Return the conditions a row has to meet to reach a node from its sources or from the stages below. That a column
    is not null is left out where something else that is asked on the same way says so: Spark adds it to that anyway."""
    sides = zip(sided(lineage, node), node.children, strict=True)
    return {side(each) for side, child in sides for way in _down(lineage, child) for each in _required(way)}


def _down(lineage: Traced, node: Node) -> list[tuple[_Condition, ...]]:
    """Return the conditions on each path down to the next stages, to sources and tables."""
    if node.stateful:
        return [()]
    here = tuple(_conditions(lineage, node))
    below = [way for child in node.children for way in _down(lineage, child)]
    return [(*here, *way) for way in below or [()]]


def sided(lineage: Traced, node: Node) -> list[Callable[[Expression], Expression]]:
    """Return, for each side of a node, how something is said of it: with the side, where an expression does not show
    which it is of. It does by a source that the other side has not; there is none in what is made of constants or
    tables."""
    if len(node.children) != 2:
        return [_as_it_is] * len(node.children)
    names = [lineage.names(child) for child in node.children]
    both = bool(set.intersection(*names))

    def mark_side(side: str, own: set[str], each: Expression) -> Expression:
        return each if not both and references(each) & own else Call(side, (each,))

    return [functools.partial(mark_side, side, own) for side, own in zip(("left", "right"), names, strict=True)]


def _as_it_is(each: Expression) -> Expression:
    return each


def all_filters(lineage: Traced, node: Node) -> Iterator[Expression]:
    """Yield the conditions of a node and of those below it, down to the next stages."""
    if not node.stateful:
        yield from _own_filters(lineage, node)
        for child in node.children:
            yield from all_filters(lineage, child)


def _own_filters(lineage: Traced, node: Node) -> Iterator[Expression]:
    yield from (expression(each, lineage.inputs(node)) for each in _parts(node))


def _parts(node: Node) -> Iterator[Node]:
    """Yield the conditions of a filter that all have to be met."""
    conditions = node.expressions("condition") if node.name == "Filter" else []
    while conditions:
        condition = conditions.pop()
        if condition.name == "And":
            conditions += condition.children
        else:
            yield condition
