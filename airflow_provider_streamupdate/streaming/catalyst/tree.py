"""Catalyst trees as data: Spark's TreeNode.toJSON parsed into nodes. Pure Python, no Spark."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs

from ...core.names import is_name, is_positional

STATEFUL = {
    # logical operator -> Spark's names for it in the operator metadata (StateStoreWriter.shortName)
    "Aggregate": ("stateStoreSave", "sessionWindowStateStoreSaveExec"),
    "Distinct": ("stateStoreSave",),
    "Deduplicate": ("dedupe",),
    "DeduplicateWithinWatermark": ("dedupeWithinWatermark",),
    "Join": ("symmetricHashJoin",),
    "FlatMapGroupsWithState": ("flatMapGroupsWithState",),
    "FlatMapGroupsInPandasWithState": ("applyInPandasWithState", "flatMapGroupsInPandasWithState"),
    "TransformWithState": ("transformWithStateExec",),
    "TransformWithStateInPySpark": ("transformWithStateInPySparkExec", "transformWithStateInPandasExec"),
    "GlobalLimit": ("globalLimit",),
}


# Classes that Spark 4.0 has under another name
_RENAMED = {"TimeAdd": "TimestampAddInterval", "TransformWithStateInPandas": "TransformWithStateInPySpark"}

# The ids of the columns that a node of a table's side gives, as Spark says (spark_internals/plans/plans.py).
OUTPUT = "output ids"
# Of an aggregate function: a number that those have in common that Spark keeps in one buffer (the same).
BUFFER = "buffer"


@attrs.define(eq=False)
class Node:
    """`name` is the class without its package; `fields` everything but the children; `plain` marks a limit that Spark
    plans without state (see `parse_plan`)."""

    name: str
    fields: dict[str, Any]
    children: list[Node]
    plain: bool = False
    _parsed: dict[str, list[Node]] = attrs.field(factory=dict, init=False, repr=False)
    # its expression, and in which scope (planning/expressions)
    traced: tuple[Any, Any] | None = attrs.field(default=None, init=False, repr=False)

    def walk(self) -> Iterator[Node]:
        """Pre-order. (In a loop: a plan's nodes are walked many times, and a generator in a generator is slow.)"""
        left = [self]
        while left:
            node = left.pop()
            yield node
            left += node.children[::-1]

    @property
    def streaming(self) -> bool:
        """Whether a streaming source feeds it."""
        if not self.children:
            return "Streaming" in self.name or self.fields.get("isStreaming") is True
        return any(child.streaming for child in self.children)

    @property
    def stateful(self) -> bool:
        """Whether Spark plans it as a stateful operator (UnsupportedOperationChecker, SparkStrategies)."""
        if self.name not in STATEFUL or self.plain or not self.streaming:
            return False
        return self.name != "Join" or all(child.streaming for child in self.children)

    def all_expressions(self) -> Iterator[Node]:
        """Every node of every expression tree in its fields, those of the plans of subqueries, too."""
        for field in self.fields:
            for expression in self._trees(field):
                for inner in expression.walk():
                    yield inner
                    if is_tree(inner.fields.get("plan")):
                        for node in parse(inner.fields["plan"]).walk():
                            yield from (node, *node.all_expressions())

    def _trees(self, field: str) -> list[Node]:
        """The expression trees of a field, parsed once."""
        if field not in self._parsed:
            self._parsed[field] = [parse(tree) for tree in _trees(self.fields.get(field))]
        return self._parsed[field]

    def holds(self, field: str) -> bool:
        """Whether a field holds expressions."""
        return any(True for _ in _trees(self.fields.get(field)))

    def expressions(self, field: str) -> list[Node]:
        """The expression trees of a field that holds one or a list of them."""
        return list(self._trees(field))


def _trees(value: Any) -> Iterator[list[dict[str, Any]]]:
    if is_tree(value):
        yield value
    elif isinstance(value, list):
        for inner in value:
            yield from _trees(inner)


def parse_plan(nodes: list[dict[str, Any]], output_mode: str) -> Node:
    """A logical plan. A limit keeps state in append mode, or with no streaming aggregation below it; elsewhere it only
    cuts each batch's result (IncrementalExecution: StreamingGlobalLimitStrategy)."""
    plan = parse(nodes)
    for node in plan.walk():
        if node.name == "GlobalLimit" and output_mode != "append":
            node.plain = any(n.name == "Aggregate" and n.streaming for n in node.walk())
    return plan


def parse(nodes: list[dict[str, Any]]) -> Node:
    """Build the tree from TreeNode.toJSON's pre-order list (each node says how many children follow)."""
    position = 0

    def build() -> Node:
        nonlocal position
        raw = dict(nodes[position])
        position += 1
        name = _simple(raw.pop("class"))
        count = int(raw.pop("num-children"))
        return Node(name, raw, [build() for _ in range(count)])

    return build()


@functools.cache
def _simple(name: str) -> str:
    """A class's name without its package and what it is in, as the newest Spark has it."""
    simple = name.rsplit(".", 1)[-1].rsplit("$", 1)[-1]
    return _RENAMED.get(simple, simple)


def is_tree(value: Any) -> bool:
    """Whether a field's value is a tree of Spark's JSON."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def alias(node: Node, prefix: str) -> str | None:
    """The name of a SubqueryAlias that begins with `prefix`, without it; None for any other node."""
    if node.name != "SubqueryAlias":
        return None
    identifier = node.fields.get("identifier")
    name = str(identifier.get("name", "")) if isinstance(identifier, dict) else str(identifier)
    return name[len(prefix) :] if name.startswith(prefix) else None


def aliases_above(plan: Node) -> dict[int, str]:
    """Return what the author gave with ``alias()``, by the id of the node that is right below it. Left out are those of
    tables, which have a catalog, those that are given twice, or as a name as well, and those that look like a number
    (``aggregate-1``)."""
    found, taken = dict[int, str](), set[str]()
    for node in plan.walk():
        name, identifier = alias(node, ""), node.fields.get("identifier")
        qualified = bool(identifier.get("qualifier")) if isinstance(identifier, dict) else "." in str(identifier)
        if name and name.startswith("__"):
            taken.add(name.rpartition("__")[2])  # of a stage or a source
        elif name and is_name(name) and not is_positional(name) and not qualified:
            found[id(node.children[0])] = name
    times = Counter(found.values())
    return {key: name for key, name in found.items() if times[name] == 1 and name not in taken}
