"""Lineage: what a key or an aggregate *is*, traced through projections down to source columns. Pure functions.

Spark's optimized plan is read (not the analyzed one), because the optimizer decides what lands in the state: an
aggregate whose result nobody uses is pruned, and its place in the state row goes to the next one. Two equal expressions
compute the same from the same source columns; aliases, qualifiers and expression ids do not count.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ....core.plan.expressions import (
    EITHER,
    Branch,
    Call,
    Expression,
    Literal,
    Output,
    Unknown,
    field_of,
)
from ....core.plan.plan import Watermark, in_order
from ....core.plan.visitors import is_unknown, references, union
from ...catalyst import types
from ...catalyst.tree import BUFFER, OUTPUT, Node, is_tree, parse
from ..expressions import noise
from ..expressions.expression import details, drawn, expression, looks_at_partitions, option
from ..expressions.scope import Scope, column, digest, expression_id
from .arrivals import OUTPUTS, WHOLE, all_filters, generated, moving, nearest_stages, partitions_below, rows_made, whole
from .table_rows import (
    EXISTENCE,
    Columns,
    branch_rows,
    branches,
    describe_node,
    join_type,
    lookup_rows,
    lookups,
    of_any_order,
    rows,
    table_identity,
)

Traced = tuple[int, Expression]  # a column's expression id, and what it is

# Nodes that hand their input's columns on as they are; of any other node nothing is known.
_PASSES = frozenset(
    {"Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Deduplicate", "DeduplicateWithinWatermark", "Distinct",
     "GlobalLimit", "LocalLimit", "Tail", "Offset", "Sort", "Sample", "Repartition", "RepartitionByExpression",
     "RebalancePartitions", "ResolvedHint", "UnresolvedHint", "ReturnAnswer", "Join", "DeduplicateRelations",
     "UpdateEventTimeWatermarkColumn", "Inputs", "CollectMetrics", "PipeOperator", "SQLFunctionNode"}
)  # fmt: skip

# Expression ids of a stage's own columns, downwards: no ids of Spark's.
_GROUPING_ID = "spark_grouping_id"  # the column that an Expand makes for grouping sets (VirtualColumn)
_STAGES_OWN = -1000


class Lineage:
    """Expressions for the columns below each node of one plan. `sources` names the streaming leaves in pre-order;
    `stages` names the stateful nodes in pre-order (a stage's output columns are named after it).

    written: the lineage of the plan as the author wrote it (analyzed), when this is an optimized one. Sources and
        tables are described as they were written: the optimizer moves conditions of the stream into a table's side
    outer: of a subquery's plan, the columns around it
    """

    def __init__(
        self,
        plan: Node,
        sources: list[str],
        stages: list[str],
        written: Lineage | None = None,
        outer: Scope | None = None,
    ) -> None:
        self.plan = plan
        self._outer = attrs.evolve(outer or Scope(), partitions=(), subquery=_subquery)
        leaves = [n for n in plan.walk() if not n.children and n.streaming]
        self.sources = {id(n): name for n, name in zip(leaves, sources, strict=True)}
        stateful = [n for n in plan.walk() if n.stateful]
        self.stages = {id(n): name for n, name in zip(stateful, stages, strict=True)}
        self._twins = dict(_twins(plan))
        self._columns_of: dict[int, list[Traced]] = {}
        self._scopes: dict[int, Scope] = {}
        self.partitions: dict[int, list[Expression]] = {}
        self.moves = _moves(plan)
        self.any_order = set() if self.moves else of_any_order(plan)
        self._lookups_of: dict[int, tuple[Expression, ...]] = {}  # how lookups find their rows, by their nodes
        self._written: Columns = written.leaves() if written else {}
        self.lookups: Columns = lookups(written) if written else {}
        self.branches: Columns = branches(written) if written else {}

    def columns(self, node: Node) -> list[Traced]:
        """Return the output columns of a plan node, in order."""
        if id(node) not in self._columns_of:
            self._columns_of[id(node)] = self._columns(node)
        return self._columns_of[id(node)]

    def inputs(self, node: Node) -> Scope:
        """Return the columns a node's expressions can refer to."""
        if id(node) not in self._scopes:
            below = {key: each for child in node.children for key, each in self.columns(child)}
            scope = attrs.evolve(self._outer.including(below), partitions=partitions_below(self, node))
            self._scopes[id(node)] = scope
        return self._scopes[id(node)]

    def expressions(self, node: Node, field: str) -> list[Expression]:
        """Return the expressions in a field of a node."""
        scope = self.inputs(node)
        return [expression(e, scope) for e in node.expressions(field)]

    def names(self, node: Node) -> set[str]:
        """Return the sources and stages that feed a node, and its own name when it is a stage."""
        return {name for n in node.walk() for name in (self.sources.get(id(n)), self.stages.get(id(n))) if name}

    def stages_below(self, node: Node) -> list[str]:
        """Return the names of the stages below a node, sorted."""
        return sorted(self.stages[id(n)] for n in node.walk() if n is not node and id(n) in self.stages)

    def leaves(self) -> Columns:
        """Return the columns of sources and tables, and of all that is made of tables alone: what is cached is a leaf
        in an optimized plan."""
        return {k: t for n in self.plan.walk() if not n.children or not n.streaming for k, t in self.columns(n)}

    def _join(self, node: Node, below: list[list[Traced]]) -> list[Traced]:
        """Return the columns of a join. What the other side gives depends on how it is found: by the stage's name for a
        stream-stream join, whose condition is compared there; by the condition and the other side's rows for a lookup
        in a table."""
        left, right = below
        if join_type(node) in ("LeftSemi", "LeftAnti"):
            return left
        if join_type(node) == EXISTENCE:  # a column that says whether there is a row on the other side
            exists = expression_id(parse(node.fields["joinType"]["exists"]))
            return [*left, (exists, Call("exists", (lookup_rows(self, node.children[1], node),)))]
        if node.stateful:
            return left + [(key, Output(self.stages[id(node)], each)) for key, each in right]
        if not node.streaming:
            return left + right
        count = self._count_alike(node, self._looked_up)
        again = (("again", Literal(str(count))),) if count else ()
        found: list[list[Traced]] = [
            columns
            if child.streaming
            else [(key, Call("lookup", (each, lookup_rows(self, child, node)), again)) for key, each in columns]
            for child, columns in zip(node.children, below, strict=True)
        ]
        return found[0] + found[1]

    def _count_alike(self, node: Node, told: Callable[[Node], Any]) -> int:
        """Return how many nodes below one make the same of the same (`told`), and yet other rows or values: two lookups
        in one table, two ``explode`` of one list."""
        mine = told(node)
        return sum(told(inner) == mine for child in node.children for inner in child.walk())

    def _generated(self, node: Node) -> Expression:
        """Return what a node makes several rows of, told from those below it that make the same."""
        made = generated(self, node) or Unknown(node.name)
        return _repeated(made, self._count_alike(node, functools.partial(generated, self)))

    def _looked_up(self, node: Node) -> tuple[Expression, ...] | None:
        if node.name != "Join" or node.stateful or not node.streaming:
            return None
        if id(node) not in self._lookups_of:
            sides = [side for side in node.children if not side.streaming]
            self._lookups_of[id(node)] = tuple(lookup_rows(self, side, node) for side in sides)
        return self._lookups_of[id(node)]

    def _union(self, node: Node, below: list[list[Traced]]) -> list[Traced]:
        """Return the columns of a union. The order of branches does not count, but what belongs to one branch does: all
        columns have their branches in one order, that of the branches' texts. What tells nothing of its branch is
        marked with its sources; of branches that read the same, the filters and what else decides the rows say which
        are meant; where these are the same, too, a number does: what belongs together has the same one."""
        alike = [len({columns[i][1] for columns in below}) == 1 for i in range(len(below[0]))]
        branches = [([each for _, each in columns], *self._branch(node, n)) for n, columns in enumerate(below)]
        branches.sort(key=lambda branch: ([each.text for each in branch[0]], branch[1].text))
        numbers = _numbers([told for _, told, _ in branches])
        return [
            (below[0][i][0], union(_of_branch(*b, i, same, n) for b, n in zip(branches, numbers, strict=True)))
            for i, same in enumerate(alike)
        ]

    def _branch(self, node: Node, number: int) -> tuple[Branch, set[str]]:
        """Return what tells a branch of a union from the others, of whichever column, and the names that feed it."""
        child = node.children[number]
        names = self.names(child)
        others = set().union(*(self.names(other) for other in node.children if other is not child))
        stages, sources = tuple(sorted(nearest_stages(self, child))), tuple(sorted(names))
        if not child.streaming:
            return Branch(Literal(""), sources, (), (branch_rows(self, child),), stages), names
        where = in_order(all_filters(self, child)) if names & others else ()
        return Branch(Literal(""), sources, where, in_order(rows_made(self, child)), stages), names

    def _columns(self, node: Node) -> list[Traced]:
        if not node.children:
            return self._leaf(node)
        below = [self.columns(child) for child in node.children]
        if (make := _BY_NAME.get(node.name)) is not None:
            return make(self, node, below)
        if node.name in _PASSES:
            return [column for columns in below for column in columns]
        if node.name == "Window" and not node.streaming:
            scope = self.inputs(node)
            return below[0] + [_output(e, scope) for e in node.expressions("windowExpressions")]
        if node.name.endswith("EvalPythonUDTF"):
            made = self._generated(node)
            kept = {expression_id(a) for a in node.expressions("requiredChildOutput")}
            own = [column for column in below[0] if column[0] in kept]
            return own + _numbered(made, node.expressions("resultAttrs"))
        if node.name.endswith("EvalPython"):
            results = map(expression_id, node.expressions("resultAttrs"))
            return below[0] + list(zip(results, self.expressions(node, "udfs"), strict=True))
        if node.name in WHOLE:
            # Of any number of rows it makes any number: a column is what the function, by its code, makes of them all.
            return _named(whole(self, node), node.expressions("output"))
        if node.name in ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow") and node.streaming:
            groups = self.expressions(node, "groupingAttributes")
            return _named(Call("grouped by", (whole(self, node), *groups)), node.expressions("output"))
        if OUTPUT in node.fields:
            return self._of_table(node)
        for field in OUTPUTS:
            if made_here := node.expressions(field) if isinstance(node.fields.get(field), list) else []:
                called = types.names([str(a.fields["name"]) for a in made_here])
                return [(expression_id(a), self._own(node, a, name)) for a, name in zip(made_here, called, strict=True)]
        return [(key, Unknown(node.name, (each,))) for columns in below for key, each in columns]

    def _expanded(self, node: Node, below: list[list[Traced]]) -> list[Traced]:
        scope = self.inputs(node)
        made = [[expression(parse(e), scope) for e in projection] for projection in node.fields["projections"]]
        if _GROUPING_ID in (
            a.fields["name"] for a in node.expressions("output")
        ):  # each of these is a grouping set, whose rows are of groups of their own
            made.sort(key=lambda projection: sorted(map(str, projection)))
        columns = [_either(list(column)) for column in zip(*made, strict=True)]
        return list(zip(map(expression_id, node.expressions("output")), columns, strict=True))

    def _exploded(self, node: Node, below: list[list[Traced]]) -> list[Traced]:
        return _required(node, below[0]) + _numbered(self._generated(node), node.expressions("generatorOutput"))

    def _projected(self, node: Node, below: list[list[Traced]]) -> list[Traced]:
        """Return the columns of a projection. What has another value each time it is asked for is told from what is the
        same otherwise, here and below."""
        scope = self.inputs(node)
        made = [_output(e, scope) for e in node.expressions("projectList")]
        if not any(map(drawn, node.expressions("projectList"))):
            return made
        found = list(self._drawn_below(node))
        for number, each in enumerate(node.expressions("projectList")):
            if drawn(each):
                key, told = made[number]
                made[number] = key, _repeated(told, found.count(told))
                found.append(told)
        return made

    def _drawn_below(self, node: Node) -> Iterator[Expression]:
        for child in node.children:
            for inner in child.walk():
                if inner.name == "Project":
                    scope = self.inputs(inner)
                    yield from (expression(e, scope) for e in inner.expressions("projectList") if drawn(e))

    def _aggregated(self, node: Node, below: list[list[Traced]]) -> list[Traced]:
        """Return the columns of an aggregation. A stage has keys and aggregates. What is made of them is computed here
        or in a projection above, as the optimizer likes (a column with a WITH expression moves all of them), and is the
        same in both places."""
        scope, outputs = self.inputs(node), node.expressions("aggregateExpressions")
        if id(node) not in self.stages:
            return [_output(e, scope) for e in outputs]
        keys = {expression(e, scope) for e in node.expressions("groupingExpressions")}
        made: Columns = {}

        def replaced(inner: Node) -> Node:
            found = expression(inner, scope)
            if inner.name == "AggregateExpression" or found in keys:
                number = _STAGES_OWN - len(made)
                made[number] = Output(self.stages[id(node)], found)
                return Node("AttributeReference", {"exprId": {"id": number}, "name": found.text}, [])
            return attrs.evolve(inner, children=[replaced(child) for child in inner.children])

        own = [(expression_id(e), replaced(e)) for e in outputs]
        around = scope.including(made)
        return [(key, expression(e, around)) for key, e in own]

    def _of_table(self, node: Node) -> list[Traced]:
        """Return the columns of any other node of a table's side: those from below are what they were, since the node
        counts where rows are described; those it makes go by all that it is."""
        described = [(name, told) for name, told in describe_node(self, node)]
        unknown = any(is_unknown(each) for _, told in described for each in told)
        made = Unknown(node.name) if unknown else Call(node.name, (), (("is", Literal(f"#{digest(described)}")),))
        columns = self.inputs(node).columns
        return [
            (key, columns.get(key) or field_of(made, str(place + 1))) for place, key in enumerate(node.fields[OUTPUT])
        ]

    def _leaf(self, node: Node) -> list[Traced]:
        columns = node.expressions("output")
        if all(expression_id(a) in self._written for a in columns):
            return [(expression_id(a), self._written[expression_id(a)]) for a in columns]
        identity = table_identity(self, node)
        table = f"static:{identity}" + "′" * self._twins.get(id(node), 0)
        source = self.sources.get(id(node), table if identity else "")
        notes = {name: _noted(told) for name, told in (node.fields.get("notes") or {}).items()}
        called = [str(a.fields["name"]) for a in columns]
        found = []
        for attribute, name, shown in zip(columns, called, types.names(called), strict=True):
            path = f"{shown}{notes.get(name, '')}"
            kind = attribute.fields["dataType"]
            known = column(source, path, kind) if source else Unknown(f"static:{node.name}.{path}")
            found.append((expression_id(attribute), known))
        return found

    def _own(self, node: Node, attribute: Node, called: str) -> Expression:
        """Return a column that a node makes by itself: a stage's, or one of a node of which nothing is known."""
        if id(node) in self.stages:
            return column(self.stages[id(node)], called, attribute.fields["dataType"])
        return Unknown(f"{node.name}({digest(node.fields)}).{called}")


_Make = Callable[[Lineage, Node, list[list[Traced]]], list[Traced]]
_BY_NAME: dict[str, _Make] = {
    "Project": Lineage._projected,
    "Aggregate": Lineage._aggregated,
    "Union": Lineage._union,
    "Join": Lineage._join,
    "Expand": Lineage._expanded,
    "Generate": Lineage._exploded,
}


def _repeated(made: Expression, number: int) -> Expression:
    """Return what makes the same as `number` others below it, and yet not the same rows or values."""
    return Call("again", (made, Literal(str(number)))) if number else made


def _of_branch(
    columns: list[Expression], told: Branch, names: set[str], place: int, alike: bool, number: int
) -> Branch:
    """Return a column of a union on one branch. alike: it is the same on all branches"""
    named = references(columns[place])
    sources = () if named & names else told.sources
    if alike:
        return Branch(columns[place], sources)
    stages = tuple(name for name in told.stages if name not in named)
    return attrs.evolve(told, value=columns[place], sources=sources, stages=stages, number=number)


def _numbers(branches: list[Branch]) -> list[int]:
    """Return, for each branch of a union, what tells it from those that are described alike: 0 where there are none."""
    seen: Counter[Branch] = Counter()
    found = []
    for branch in branches:
        seen[branch] += 1
        found.append(seen[branch] if branches.count(branch) > 1 else 0)
    return found


def _noted(told: str) -> str:
    """Return what a source's schema notes of a column (spark_internals/plans/plans.py), after the column's name."""
    if "__metadata_col" in told:
        return " of its file"
    kind = "default" if "DEFAULT" in told else "char" if "CHAR" in told else "noted"
    return f" {kind}#{digest(told)}"


def _subquery(node: Node, scope: Scope) -> Expression:
    """Return a subquery: its columns, a digest of what decides its rows, and its other fields. scope: the columns
    around it, which it may refer to."""
    name, fields = node.name.lower(), node.fields
    arguments = [expression(child, scope) for child in node.children]
    told = {f: v for f, v in fields.items() if f not in ("plan", "outerAttrs", "joinCond", "childOutputs", "numCols")}
    if is_tree(fields.get("plan")):
        plan = parse(fields["plan"])
        if any(inner.streaming for inner in plan.walk()):
            return Unknown(f"{name} of a stream")
        lineage = Lineage(plan, [], [], outer=scope)
        arguments += [each for _, each in lineage.columns(plan)] + [rows(lineage, plan)]
        # No batch gives these another seed: Spark looks at the expressions of the plan around it only.
        told["seeds"] = [s for inner in plan.walk() for e in inner.all_expressions() for s in _seeds(e)] or None
    return Call(name, tuple(arguments), details(node.name, told, scope))


def _seeds(node: Node) -> Iterator[str]:
    if (place := noise.SEEDS.get(node.name)) is not None:
        yield expression(node.children[place], Scope()).text
    elif (seed := node.fields.get("randomSeed")) is not None:
        yield str(seed)


@attrs.frozen
class Aggregate:
    """An aggregate function of a stage.

    expression: with its filter
    computed_from: its operands, settings and filter, as a call of no function
    result: the name of the first column that is computed from it
    """

    expression: Expression
    computed_from: Call
    result: str


def aggregates(node: Node, scope: Scope) -> list[Aggregate]:
    """Return the aggregate functions in the order of their buffers in the state row (PhysicalAggregation). Two may be
    equal and have a buffer each, where Spark does not see that they are the same."""
    found: dict[Any, Aggregate] = {}
    for each in node.expressions("aggregateExpressions"):
        for inner in each.walk():
            if inner.name == "AggregateExpression":
                made = expression(inner, scope)
                computed_from, result = _computed_from(inner, scope), str(each.fields.get("name"))
                found.setdefault(inner.fields.get(BUFFER, made), Aggregate(made, computed_from, result))
    return list(found.values())


_DECIMAL = re.compile(r"'?decimal\(\d+, ?(\d+)\)'?")


def _computed_from(node: Node, scope: Scope) -> Call:
    function, *filters = node.children
    # DecimalAggregates puts UnscaledValue around short decimals: it is no other value.
    operands = [each.children[0] if each.name == "UnscaledValue" else each for each in function.children]
    arguments = [_any_precision(operand, scope) for operand in operands]
    arguments += [Call("filter", (expression(condition, scope),)) for condition in filters]
    arguments += [Literal("distinct")] if node.fields.get("isDistinct") is True else []
    return Call("", tuple(arguments), details(function.name, function.fields))


def _any_precision(operand: Node, scope: Scope) -> Expression:
    """Return an operand. Of a cast to a decimal only the scale counts: in ANSI mode a value that does not fit its
    precision is an error, so that there is none in the state."""
    decimal = _DECIMAL.fullmatch(option(operand.fields.get("dataType")).text) if operand.name == "Cast" else None
    if decimal is None or "ANSI" not in option(operand.fields.get("evalMode")).text:
        return expression(operand, scope)
    return expression(attrs.evolve(operand, fields={**operand.fields, "dataType": f"decimal(*,{decimal[1]})"}), scope)


def watermarks(lineage: Lineage) -> Iterator[Watermark]:
    """Yield every event-time watermark of the plan (`delay_ms`, which the door to Spark adds). Each once, and on how
    many branches when these have other rows: one DataFrame used twice is one watermark, two parts of one are two. Each
    node follows its own rows, and the slowest (or fastest) of them counts: where the branches have several delays,
    which rows have which."""
    found: dict[tuple[Expression, tuple[str, ...]], dict[int, set[str]]] = {}
    for node in lineage.plan.walk():
        if node.name == "EventTimeWatermark":
            place = lineage.expressions(node, "eventTime")[0], tuple(lineage.stages_below(node))
            moved_by = found.setdefault(place, {}).setdefault(node.fields["delay_ms"], set())
            moved_by.add(digest(moving(lineage, node)))
        elif node.name == "DeduplicateWithinWatermark" and node.fields.get("expiry_ms") is not None:
            yield Watermark(delay_ms=node.fields["expiry_ms"], above=(lineage.stages[id(node)],))
    for (timed, above), delays in found.items():
        for delay, moved_by in delays.items():
            rows = digest(sorted(moved_by)) if len(delays) > 1 else ""
            yield Watermark(delay_ms=delay, column=timed, above=above, branches=len(moved_by), rows=rows)


def _twins(plan: Node) -> Iterator[tuple[int, int]]:
    """Yield the leaves of tables that are joined with themselves, and which of those that read the same each is (the
    first is 0), from left to right."""
    if plan.name == "Join" and not plan.streaming:
        read: Counter[str | None] = Counter()
        for leaf in (n for n in plan.walk() if not n.children):
            yield id(leaf), read[leaf.fields.get("identity")]
            read[leaf.fields.get("identity")] += 1
    else:
        for child in plan.children:
            yield from _twins(child)


def _moves(plan: Node) -> bool:
    """Return whether anything looks at the rows of a partition, so that it counts what makes rows and moves them below
    it."""
    return any(looks_at_partitions(e) for n in plan.walk() for e in n.all_expressions())


def _required(generate: Node, below: list[Traced]) -> list[Traced]:
    """Return the columns that a Generate hands on: not those that nothing needs any more (unrequiredChildIndex). A
    union above it goes by place."""
    told = generate.fields.get("unrequiredChildIndex")
    left_out = set(map(int, re.findall(r"\d+", option(told).text))) if told else set()
    return [column for place, column in enumerate(below) if place not in left_out]


def _named(made: Expression, columns: list[Node]) -> list[Traced]:
    """Return the columns of what a node makes, which go by their names."""
    called = types.names([str(a.fields["name"]) for a in columns])
    return [(expression_id(a), field_of(made, name)) for a, name in zip(columns, called, strict=True)]


def _numbered(made: Expression, columns: list[Node]) -> list[Traced]:
    """Return the columns of what a node makes, which go by their places."""
    return [(expression_id(a), field_of(made, str(place))) for place, a in enumerate(columns, 1)]


def _output(node: Node, scope: Scope) -> Traced:
    return expression_id(node), expression(node, scope)


def _either(found: list[Expression]) -> Expression:
    return found[0] if len(set(found)) == 1 else Call(EITHER, tuple(found))
