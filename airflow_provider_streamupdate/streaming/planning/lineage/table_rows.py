"""What decides the rows of a table that a stream is joined with: every node of its plan, as it was written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import attrs

from ....core.plan.expressions import Call, Expression, Literal, Unknown, named
from ....core.plan.visitors import is_unknown
from ...catalyst.tree import OUTPUT, Node, is_tree, parse
from ..expressions.expression import details, drawn_here, expression, looks_at_partitions, option
from ..expressions.scope import Scope, digest

Columns = dict[int, Expression]
Described = tuple[str, list[Expression]]  # a node's name, and what decides its rows


class Traced(Protocol):
    """A plan with an expression for each column below each of its nodes. What is kept by node is kept by its id.

    sources, stages: names of the streaming leaves and of the stateful nodes
    partitions: what decides in which partition a row is, once that was asked for
    moves: whether something in the plan looks at that
    any_order: leaves of tables whose rows count in any order
    lookups, branches: how rows are found, by the columns of the tables that a stream is joined with
    """

    plan: Node
    sources: dict[int, str]
    stages: dict[int, str]
    partitions: dict[int, list[Expression]]
    moves: bool
    any_order: set[int]
    lookups: Columns
    branches: Columns

    def columns(self, node: Node) -> list[tuple[int, Expression]]: ...

    def inputs(self, node: Node) -> Scope: ...

    def expressions(self, node: Node, field: str) -> list[Expression]: ...

    def names(self, node: Node) -> set[str]: ...


EXISTENCE = "Existence"  # what IN and EXISTS become where they are a value, or below an OR

# Of a table's side: nodes that decide no rows.
NO_ROWS = frozenset(
    {
        "Project",
        "SubqueryAlias",
        "View",
        "ResolvedHint",
        "UnresolvedHint",
        "CollectMetrics",
        "PipeOperator",
        "SQLFunctionNode",
    }
)
# Of a table's side: nodes that decide the order of rows, and on which partition they are. It counts where anything else
# than these looks at it.
ORDER = frozenset({"Repartition", "RepartitionByExpression", "RebalancePartitions", "Sort"})
_OF_ANY_ORDER = NO_ROWS | ORDER | {"Filter", "Join", "Union", "Generate", "Expand"}
# Of a table's side: nodes whose rows are the same ones whatever the order of those below, and aggregate functions
# whose values are.
_OF_ANY_BRANCHES = _OF_ANY_ORDER | {"Aggregate", "Distinct", "Intersect", "Except"}
_ADD_UP = frozenset({"Count", "Sum", "Min", "Max", "Average"})
# Nodes whose rows do not depend on any column but those in their fields.
_BY_FIELDS = frozenset(
    {"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Tail", "Aggregate", "Window", "Generate",
     "Sample", "Repartition", "RepartitionByExpression", "RebalancePartitions", "Expand", "Union", "Deduplicate"}
)  # fmt: skip
# ``a right join b`` is ``b left join a``. Columns go by their ids, and by their places in the node's own order.
_TURNED = {"RightOuter": "LeftOuter", "LeftOuter": "RightOuter"}
# The fields of a plan's node that are the nodes below it.
BELOW = ("child", "left", "right", "children", "plan")


def _certain(found: Iterable[tuple[int, Expression]]) -> Columns:
    """Return what is said of each id of which one thing is said: one DataFrame may be used in several ways."""
    said: dict[int, set[Expression]] = {}
    for key, told in found:
        said.setdefault(key, set()).add(told)
    return {key: told.pop() for key, told in said.items() if len(told) == 1}


def _of_any_order(side: Node) -> bool:
    """Return whether a table's rows are the same in any order, on whichever partition they are."""
    if any(n.children and n.name not in _OF_ANY_ORDER for n in side.walk()):
        return False
    return not _looked_at(side)


def _of_any_branches(side: Node) -> bool:
    """Return whether a table's rows are the same with the branches of a union in any order."""
    if not any(n.name == "Union" for n in side.walk()):
        return True
    for node in side.walk():
        if node.children and node.name not in _OF_ANY_BRANCHES:
            return False
        functions = (e.children[0] for e in node.all_expressions() if e.name == "AggregateExpression")
        if node.name == "Aggregate" and any(f.name not in _ADD_UP for f in functions):
            return False
    return not _looked_at(side)


def _looked_at(side: Node) -> bool:
    """Return whether anything looks at the partitions of a table's rows: a random number does, by its seed."""
    return any(looks_at_partitions(e) or drawn_here(e) for n in side.walk() for e in n.all_expressions())


def _asks(expression: Node) -> bool:
    """Return whether an expression has a subquery in it."""
    return any(is_tree(inner.fields.get("plan")) for inner in expression.walk())


def lookups(lineage: Traced) -> Columns:
    """Return how rows of tables are found that a stream is joined with: the condition, and all that decides which rows
    the table's side has and in which order. By the ids of the tables' columns."""
    return _certain(
        (key, _how(lineage, node, side))
        for node in lineage.plan.walk()
        if node.name == "Join" and node.streaming and not node.stateful
        for side in node.children
        if not side.streaming
        for key in _leaf_ids(lineage, side)
    )


def branches(lineage: Traced) -> Columns:
    """Return what decides the rows of the branches of unions of tables, by the ids of the tables' columns."""
    return _certain(
        (key, rows(lineage, side))
        for node in lineage.plan.walk()
        if node.name == "Union" and not node.streaming
        for side in node.children
        for key in _leaf_ids(lineage, side)
    )


def _how(lineage: Traced, join: Node, side: Node) -> Expression:
    """Return how the rows of a table's side are found."""
    kept = join_type(join)
    if side is join.children[0]:
        kept = _TURNED.get(kept, kept)
    kind = () if kept == "Inner" else (("join", Literal(kept)),)
    conditions = lineage.expressions(join, "condition") or [Literal("true")]
    return Call("rows", (conditions[0],), (*kind, ("table", rows(lineage, side))))


def rows(lineage: Traced, side: Node) -> Expression:
    """Return a digest of what decides a table's rows; unknown when some of it is."""
    described = list(_described(lineage, side))
    found = next((name for name, told in described if any(map(is_unknown, told))), None)
    return Unknown(f"{found} of a table") if found else Literal(f"#{digest(described)}")


def _described(lineage: Traced, side: Node) -> Iterator[Described]:
    """Yield everything that decides the rows of a side without streams, from the top down, a node each; the branches of
    a union in the order of their texts, where it is not theirs that counts."""
    return _nodes(lineage, side, ORDER if _of_any_order(side) else frozenset(), _of_any_branches(side))


def _nodes(lineage: Traced, node: Node, left_out: frozenset[str], any_branches: bool) -> Iterator[Described]:
    if node.name not in left_out:
        yield from describe_node(lineage, node)
    below = [list(_nodes(lineage, child, left_out, any_branches)) for child in node.children]
    for nodes in sorted(below, key=str) if node.name == "Union" and any_branches else below:
        yield from nodes


def describe_node(lineage: Traced, node: Node) -> Iterator[Described]:
    """Yield a node, without those below it. What a projection makes is in the columns that are used, but for
    subqueries: the optimizer makes joins of them, whose conditions are in no column."""
    if node.name == "Project" and (asked := [e for e in node.expressions("projectList") if _asks(e)]):
        yield node.name, [expression(e, lineage.inputs(node)) for e in asked]
    if node.name in NO_ROWS:
        return
    if not node.children:
        identity = table_identity(lineage, node)
        yield node.name, [Literal(identity) if identity else Unknown(node.name)]
        return
    scope = lineage.inputs(node)
    places = {key: Literal(f"column {place + 1}") for place, key in enumerate(node.fields.get(OUTPUT, ()))}
    scope = attrs.evolve(scope, columns={**places, **scope.columns})
    made = [f for f in sorted(node.fields) if node.holds(f)]
    rest = {f: v for f, v in node.fields.items() if f not in made and f not in BELOW and f != OUTPUT}
    if node.name == "Join" and join_type(node) == "Inner":
        rest["joinType"] = "Inner"  # of a cross join, too
    told = [t for f in made for t in (Literal(f), *(expression(e, scope) for e in field_trees(node, f)))]
    if node.name not in _BY_FIELDS:
        told += [t for child in node.children for _, t in lineage.columns(child)]
    if node.name == "Union":
        told.append(Literal(f"of {len(node.children)}"))
    yield node.name, [*told, *options(node.name, rest)]


def options(name: str, fields: dict[str, Any]) -> list[Expression]:
    """Return the fields of a node that count."""
    return [named(field, value) for field, value in details(name, fields)]


def table_identity(lineage: Traced, leaf: Node) -> str | None:
    """Return what a table is; where anything looks at the partitions of rows, with how many the code gives it."""
    identity, count = leaf.fields.get("identity"), leaf.fields.get("partitions")
    if identity and identity.startswith("rows#"):
        in_order, _, in_any = identity.removeprefix("rows#").partition("|")
        identity = f"rows#{in_any if id(leaf) in lineage.any_order else in_order}"
    return f"{identity} in {count} partitions" if identity and count and lineage.moves else identity


def of_any_order(plan: Node) -> set[int]:
    """Return the leaves of tables whose rows a stream finds by a join, and of which nothing looks at the order: no
    aggregate function, no stage that keeps the first row of several."""
    for node in plan.walk():
        functions = {e.children[0].name for e in node.all_expressions() if e.name == "AggregateExpression"}
        if node.streaming and (
            functions - _ADD_UP or (node.children and node.name not in {*_OF_ANY_BRANCHES, "EventTimeWatermark"})
        ):
            return set()
    sides = (side for n in plan.walk() if n.name == "Join" and n.streaming for side in n.children if not side.streaming)
    return {id(leaf) for side in sides if _of_any_order(side) for leaf in side.walk() if not leaf.children}


def lookup_rows(lineage: Traced, side: Node, join: Node) -> Expression:
    """Return how rows of a table's side are found: as it was written, where that is known."""
    known = {lineage.lookups[k] for k in _leaf_ids(lineage, side) if k in lineage.lookups}
    return known.pop() if len(known) == 1 else _how(lineage, join, side)


def branch_rows(lineage: Traced, side: Node) -> Expression:
    """Return what decides the rows of a branch of a union of tables: as it was written, where that is known."""
    known = {lineage.branches[k] for k in _leaf_ids(lineage, side) if k in lineage.branches}
    return known.pop() if len(known) == 1 else rows(lineage, side)


def _leaf_ids(lineage: Traced, node: Node) -> list[int]:
    return [k for leaf in node.walk() if not leaf.children for k, _ in lineage.columns(leaf)]


def field_trees(node: Node, field: str) -> list[Node]:
    """Return the expressions in a field, also in lists of lists."""
    value = node.fields[field]
    nested = isinstance(value, list) and value and isinstance(value[0], list) and not isinstance(value[0][0], dict)
    return [parse(tree) for inner in value for tree in inner] if nested else node.expressions(field)


def join_type(node: Node) -> str:
    """Return ``Inner``, ``LeftOuter`` ... ``Cross`` is an inner join for all that Spark does with it but for one thing:
    it may be without a condition where a setting forbids that of others (CheckCartesianProducts)."""
    value = node.fields.get("joinType")
    if isinstance(value, dict) and "exists" in value:
        return EXISTENCE
    told = option(value).text.strip("$") if value else ""
    return "Inner" if told == "Cross" else told
