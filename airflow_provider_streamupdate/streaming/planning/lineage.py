"""Lineage: what a key or an aggregate *is*, traced through projections down to source columns. Pure functions.

Spark's optimized plan is read (not the analyzed one), because the optimizer decides what lands in the state: an
aggregate whose result nobody uses is pruned, and its place in the state row goes to the next one. Two expressions
with equal texts compute the same from the same source columns; aliases, qualifiers and expression ids do not count.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from ...core.plan.plan import LATE, UNKNOWN, WindowKey, unknown
from ...core.union_branches import AFTER, union
from ..catalyst import marks
from ..catalyst.tree import BUFFER, OUTPUT, Node, is_tree, parse
from . import noise
from .digest import digest
from .expression import (
    PARTITIONS,
    Columns,
    details,
    drawn,
    drawn_here,
    expression_id,
    looks_at_partitions,
    not_null,
    shown_value,
    text,
)
from .windows import window_key

Column = tuple[int, str]  # expression id, text
_Asked = tuple[str, frozenset[str]]  # a condition, and what it says of columns: that they are not null

# Nodes that hand their input's columns on as they are; of any other node nothing is known.
_PASSES = frozenset(
    {"Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Deduplicate", "DeduplicateWithinWatermark", "Distinct",
     "GlobalLimit", "LocalLimit", "Tail", "Offset", "Sort", "Sample", "Repartition", "RepartitionByExpression",
     "RebalancePartitions", "ResolvedHint", "UnresolvedHint", "ReturnAnswer", "Join", "DeduplicateRelations",
     "UpdateEventTimeWatermarkColumn", "Inputs", "CollectMetrics", "PipeOperator", "SQLFunctionNode"}
)  # fmt: skip

# The fields of a node's own columns.
_OUTPUTS = ("outputAttrs", "outputAttributes", "output")
# Of a table's side: nodes that decide no rows.
_NO_ROWS = frozenset(
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
_ORDER = frozenset({"Repartition", "RepartitionByExpression", "RebalancePartitions", "Sort"})
_OF_ANY_ORDER = _NO_ROWS | _ORDER | {"Filter", "Join", "Union", "Generate", "Expand"}
# Of a table's side: nodes whose rows are the same ones whatever the order of those below, and aggregate functions
# whose values are.
_OF_ANY_BRANCHES = _OF_ANY_ORDER | {"Aggregate", "Distinct", "Intersect", "Except"}
_ADD_UP = frozenset({"Count", "Sum", "Min", "Max", "Average"})
# Nodes whose rows do not depend on any column but those in their fields.
_BY_FIELDS = frozenset(
    {"Filter", "Join", "Sort", "GlobalLimit", "LocalLimit", "Offset", "Tail", "Aggregate", "Window", "Generate",
     "Sample", "Repartition", "RepartitionByExpression", "RebalancePartitions", "Expand", "Union", "Deduplicate"}
)  # fmt: skip
# Of a stream's rows: nodes that make no other rows, nor more or fewer of them. Filters are told apart (`filters`). A
# LocalLimit is half of the limit above it, which is a stage (Dataset.limit makes both, the optimizer moves this one).
_SAME_ROWS = _NO_ROWS | {
    "Filter", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn", "Sort", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ReturnAnswer", "DeduplicateRelations", "Inputs", "ArrowEvalPython", "BatchEvalPython",
    "LocalLimit",
}  # fmt: skip
_NO_HINT = "hint=JoinHint(None, None)"  # what a join has that was given none
# ``a right join b`` is ``b left join a``. Columns go by their ids, and by their places in the node's own order.
_TURNED = {"RightOuter": "LeftOuter", "LeftOuter": "RightOuter"}
_EXISTENCE = "Existence"  # what IN and EXISTS become where they are a value, or below an OR
# Nodes whose Python function is given all rows of a batch.
_WHOLE = ("MapInPandas", "MapInArrow", "PythonMapInArrow")
# After the text of what makes the same as another below it, and yet not the same rows or values.
AGAIN = "′"
# Expression ids of a stage's own columns, downwards: no ids of Spark's.
_STAGES_OWN = -1000
# Of a node between a stream's sources and a stage: which rows a sample takes is chance, with any seed; and what Spark
# notes of it itself.
_ANY = ("seed", "timed", "isStreaming")
# The fields of a plan's node that are the nodes below it.
_BELOW = ("child", "left", "right", "children", "plan")


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


class Lineage:
    """Texts for the columns below each node of one plan. `sources` names the streaming leaves in pre-order;
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
        outer: Columns | None = None,
    ) -> None:
        self.plan = plan
        self._outer = {key: told for key, told in (outer or {}).items() if key != PARTITIONS}
        leaves = [n for n in plan.walk() if not n.children and n.streaming]
        self._sources = {id(n): name for n, name in zip(leaves, sources, strict=True)}
        stateful = [n for n in plan.walk() if n.stateful]
        self._stages = {id(n): name for n, name in zip(stateful, stages, strict=True)}
        self._twins = dict(_twins(plan))
        self._cache: dict[int, list[Column]] = {}
        self._inputs: dict[int, Columns] = {}
        self._partitions: dict[int, list[str]] = {}
        self._moves = _moves(plan)
        self._found: dict[int, str] = {}  # how lookups find their rows, by their nodes
        self._written: Columns = written.leaves() if written else {}
        self._lookups: Columns = written.lookups() if written else {}
        self._branches: Columns = written.branches() if written else {}

    def columns(self, node: Node) -> list[Column]:
        """The output columns of a plan node, in order."""
        if id(node) not in self._cache:
            self._cache[id(node)] = self._columns(node)
        return self._cache[id(node)]

    def inputs(self, node: Node) -> Columns:
        """The columns a node's expressions can refer to: not to be changed."""
        if id(node) not in self._inputs:
            self._inputs[id(node)] = self._inputs_of(node)
        return self._inputs[id(node)]

    def _inputs_of(self, node: Node) -> Columns:
        columns = {**self._outer, **{k: text for child in node.children for k, text in self.columns(child)}}
        if told := self._partitions_below(node):
            columns[PARTITIONS] = told
        return columns

    def _partitions_below(self, node: Node) -> str:
        """What decides on which partitions of a stream the rows are that come to a node, and in which order, in a
        query that has anything that does. (A stage puts them by its keys, which are told there.)"""
        if not self._moves or node.stateful:
            return ""
        return "; ".join(t for child in node.children if child.streaming for t in self._partitioned(child))

    def _partitioned(self, node: Node) -> list[str]:
        """What does so in a node and below it, from the top down."""
        if id(node) not in self._partitions:
            self._partitions[id(node)] = list(self._partitioning(node))
        return self._partitions[id(node)]

    def _partitioning(self, node: Node) -> Iterator[str]:
        if node.stateful or not node.streaming:
            return
        if node.name == "Union":
            branches = [self._in_place(branch) for branch in _branches(node)]
            known = not any(unknown(t) for branch in branches for t in branch)
            yield f"union(#{digest(branches)})" if known else f"{UNKNOWN}union"
            return
        if node.name in _ORDER:
            yield from (f"{name.lower()}({', '.join(told)})" for name, told in self._itself(node))
        if here := [*sorted(self._conditions(node)), *self._own_rows(node)]:  # which rows there are is part of it
            known = not any(map(unknown, here))
            yield f"{node.name.lower()}(#{digest(here)})" if known else f"{UNKNOWN}{node.name.lower()}"
        hint = details(node.name, {"hint": node.fields.get("hint")}) if node.name == "Join" else []
        if hint and hint != [_NO_HINT]:
            yield f"join({hint[0]})"
        for child in node.children:
            yield from self._partitioned(child)

    def _in_place(self, branch: Node) -> list[str]:
        """What tells a branch of a union from the others: its partitions come after those of the one before it."""
        filters, made = sorted(self._all_filters(branch)), sorted(self._rows_made(branch))
        return [*sorted(self.names(branch)), "where", *filters, "by", *made, "in", *self._partitioned(branch)]

    def windows(self, node: Node, keys: list[str]) -> tuple[WindowKey, ...]:
        """Those of a node's grouping keys (texts) that are time windows, as they were asked for below it."""
        made = {}
        for below in node.walk():
            env = self.inputs(below)
            for expression in below.expressions("projectList") + below.expressions("groupingExpressions"):
                if window := window_key(expression, lambda e, env=env: text(e, env)):  # type: ignore[misc]
                    made[text(expression, env)] = window
        return tuple(attrs.evolve(made[key], position=i) for i, key in enumerate(keys) if key in made)

    def texts(self, node: Node, field: str) -> list[str]:
        env = self.inputs(node)
        return [text(e, env) for e in node.expressions(field)]

    def names(self, node: Node) -> set[str]:
        """The sources and stages that feed a node, and its own name when it is a stage."""
        return {name for n in node.walk() for name in (self._sources.get(id(n)), self._stages.get(id(n))) if name}

    def stages_below(self, node: Node) -> list[str]:
        """The names of the stages below a node, sorted."""
        return sorted(self._stages[id(n)] for n in node.walk() if n is not node and id(n) in self._stages)

    def leaves(self) -> Columns:
        """The columns of sources and tables, and of all that is made of tables alone: what is cached is a leaf in an
        optimized plan."""
        return {k: t for n in self.plan.walk() if not n.children or not n.streaming for k, t in self.columns(n)}

    def lookups(self) -> Columns:
        """How rows of tables are found that a stream is joined with: the condition, and all that decides which rows the
        table's side has and in which order. By the ids of the tables' columns."""
        return _certain(
            (key, self._how(node, side))
            for node in self.plan.walk()
            if node.name == "Join" and node.streaming and not node.stateful
            for side in node.children
            if not side.streaming
            for key in self._leaf_ids(side)
        )

    def branches(self) -> Columns:
        """What decides the rows of the branches of unions of tables, by the ids of the tables' columns."""
        return _certain(
            (key, self.rows(side))
            for node in self.plan.walk()
            if node.name == "Union" and not node.streaming
            for side in node.children
            for key in self._leaf_ids(side)
        )

    def _how(self, join: Node, side: Node) -> str:
        """How the rows of a table's side are found."""
        kept = join_type(join)
        if side is join.children[0]:
            kept = _TURNED.get(kept, kept)
        kind = "" if kept == "Inner" else f"{kept}: "
        conditions = self.texts(join, "condition") or ["true"]
        return f"{kind}{conditions[0]}, {self.rows(side)}"

    def rows(self, side: Node) -> str:
        """A digest of what decides a table's rows; unknown when some of it is."""
        described = list(self._described(side))
        found = next((name for name, told in described if any(map(unknown, told))), None)
        return f"{UNKNOWN}{found} of a table" if found else f"#{digest(described)}"

    def _described(self, side: Node) -> Iterator[tuple[str, list[str]]]:
        """Everything that decides the rows of a side without streams, from the top down, a node each; the branches of a
        union in the order of their texts, where it is not theirs that counts."""
        return self._nodes(side, _ORDER if _of_any_order(side) else frozenset(), _of_any_branches(side))

    def _nodes(self, node: Node, left_out: frozenset[str], any_branches: bool) -> Iterator[tuple[str, list[str]]]:
        if node.name not in left_out:
            yield from self._itself(node)
        below = [list(self._nodes(child, left_out, any_branches)) for child in node.children]
        for nodes in sorted(below, key=str) if node.name == "Union" and any_branches else below:
            yield from nodes

    def _itself(self, node: Node) -> Iterator[tuple[str, list[str]]]:
        """A node, without those below it. What a projection makes is in the texts of the columns that are used, but for
        subqueries: the optimizer makes joins of them, whose conditions are in no column's text."""
        if node.name == "Project" and (asked := [e for e in node.expressions("projectList") if _asks(e)]):
            yield node.name, [text(e, self.inputs(node)) for e in asked]
        if node.name in _NO_ROWS:
            return
        if not node.children:
            yield node.name, [node.fields.get("identity") or f"{UNKNOWN}{node.name}"]
            return
        given = enumerate(node.fields.get(OUTPUT, ()))
        env = {**{key: f"column {place + 1}" for place, key in given}, **self.inputs(node)}
        made = [f for f in sorted(node.fields) if node.holds(f)]
        rest = {f: v for f, v in node.fields.items() if f not in made and f not in _BELOW and f != OUTPUT}
        if node.name == "Join" and join_type(node) == "Inner":
            rest["joinType"] = "Inner"  # of a cross join, too
        texts = [t for f in made for t in (f, *(text(e, env) for e in self._each(node, f)))]
        if node.name not in _BY_FIELDS:
            texts += [t for child in node.children for _, t in self.columns(child)]
        if node.name == "Union":
            texts.append(f"of {len(node.children)}")
        yield node.name, texts + details(node.name, rest)

    def _join(self, node: Node, below: list[list[Column]]) -> list[Column]:
        """What the other side gives depends on how it is found: by the stage's name for a stream-stream join, whose
        condition is compared there; by the condition and the other side's rows for a lookup in a table."""
        left, right = below
        if join_type(node) in ("LeftSemi", "LeftAnti"):
            return left
        if join_type(node) == _EXISTENCE:  # a column that says whether there is a row on the other side
            exists = expression_id(parse(node.fields["joinType"]["exists"]))
            return [*left, (exists, f"exists({self._way(node.children[1], node)})")]
        if node.stateful:
            return left + [(key, f"{self._stages[id(node)]}.{t}") for key, t in right]
        if not node.streaming:
            return left + right
        again = self._again(node, self._looked_up)
        found = [
            columns
            if child.streaming
            else [(key, f"lookup{again}({t}, {self._way(child, node)})") for key, t in columns]
            for child, columns in zip(node.children, below, strict=True)
        ]
        return found[0] + found[1]

    def _again(self, node: Node, told: Callable[[Node], str]) -> str:
        """What tells a node from those below it that make the same of the same (`told`), and yet other rows or values:
        two lookups in one table, two ``explode`` of one list. A sign for each of them."""
        mine = told(node)
        return AGAIN * sum(told(inner) == mine for child in node.children for inner in child.walk())

    def _looked_up(self, node: Node) -> str:
        if node.name != "Join" or node.stateful or not node.streaming:
            return ""
        if id(node) not in self._found:
            sides = [side for side in node.children if not side.streaming]
            self._found[id(node)] = " ".join(self._way(side, node) for side in sides)
        return self._found[id(node)]

    def _generated(self, node: Node) -> str:
        """What a node makes rows of, that makes several of one."""
        if node.name == "Generate":
            outer = "outer " if node.fields.get("outer") is True else ""
            return outer + text(node.expressions("generator")[0], self.inputs(node))
        if node.name.endswith("EvalPythonUDTF"):
            return text(node.expressions("udtf")[0], self.inputs(node))
        return ""

    def _way(self, side: Node, join: Node) -> str:
        """How rows of a table's side are found: as it was written, where that is known."""
        known = {self._lookups[k] for k in self._leaf_ids(side) if k in self._lookups}
        return known.pop() if len(known) == 1 else self._how(join, side)

    def _branch(self, side: Node) -> str:
        """What decides the rows of a branch of a union of tables: as it was written, where that is known."""
        known = {self._branches[k] for k in self._leaf_ids(side) if k in self._branches}
        return known.pop() if len(known) == 1 else self.rows(side)

    def _leaf_ids(self, node: Node) -> list[int]:
        return [k for leaf in node.walk() if not leaf.children for k, _ in self.columns(leaf)]

    def _union(self, node: Node, below: list[list[Column]]) -> list[Column]:
        """The order of branches does not count, but what belongs to one branch does: all columns have their branches in
        one order, that of the branches' texts. A text that tells nothing of its branch is marked with its sources; of
        branches that read the same, the filters and what else decides the rows say which are meant; where these are the
        same, too, a number does: what belongs together has the same one."""
        texts = [[t for _, t in columns] for columns in below]
        alike = [len({branch[i] for branch in texts}) == 1 for i in range(len(texts[0]))]
        names = [self.names(child) for child in node.children]
        branches: list[list[str]] = []
        known: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = []
        for number, (child, columns) in enumerate(zip(node.children, texts, strict=True)):
            others = set().union(*(n for i, n in enumerate(names) if i != number))
            if not child.streaming:
                only = f" of {self._branch(child)}"
            else:
                kept = sorted(self._all_filters(child)) if names[number] & others else []
                made = sorted(self._rows_made(child))
                only = (f" where {' and '.join(kept)}" if kept else "") + (f" by {', '.join(made)}" if made else "")
            passed = sorted(self._nearest_stages(child))
            branches.append(
                [
                    self._marked(t, names[number]) + ("" if alike[i] else only + _after(passed, t))
                    for i, t in enumerate(columns)
                ]
            )
            known.append((tuple(sorted(names[number])), only, tuple(passed)))
        ordered = sorted(zip(branches, known, strict=True))
        numbers = _numbers([which for _, which in ordered])
        return [
            (
                below[0][i][0],
                union([b[i] + ("" if same else n) for n, (b, _) in zip(numbers, ordered, strict=True)]),
            )
            for i, same in enumerate(alike)
        ]

    def _nearest_stages(self, node: Node) -> Iterator[str]:
        if id(node) in self._stages:
            yield self._stages[id(node)]
        else:
            for child in node.children:
                yield from self._nearest_stages(child)

    def _marked(self, text: str, names: set[str]) -> str:
        return text if any(f"{name}." in text for name in names) else f"{'+'.join(sorted(names))}: {text}"

    def below(self, node: Node) -> str:
        """A digest of what decides which rows reach a node: everything below it but projections."""
        described = [
            (inner.name, [text(e, self.inputs(inner)) for e in inner.expressions("condition")])
            for inner in list(node.walk())[1:]
            if inner.name != "Project"
        ]
        return digest([*described, [self._sources[id(n)] for n in node.walk() if id(n) in self._sources]])

    def arrivals(self, node: Node) -> tuple[str, ...]:
        """What makes other rows, or more or fewer of them, between a stage and its sources, sorted; and the columns it
        uses that have a watermark."""
        env = self.inputs(node)
        timed = {env[k] for k in node.fields.get("timed", ()) if k in env}
        sides = zip(self.sided(node), node.children, strict=True)
        made = [told(t) for told, child in sides for t in self._rows_made(child)]
        sources = Counter(name for child in node.children for name in self._sources_of(child))
        again = [f"{name}. {count} times" for name, count in sources.items() if count > 1]
        return tuple(sorted([*made, *again, *(f"event time {t}" for t in timed)]))

    def moving(self, node: Node) -> list[str]:
        """What decides which rows move a watermark, down to the stages and sources."""
        names = [*self._nearest_stages(node), *self._sources_of(node)]
        return [*sorted(self._all_filters(node)), *sorted(self._rows_made(node)), *sorted(names)]

    def _rows_made(self, node: Node) -> Iterator[str]:
        if node.stateful:
            if node.name == "Join":
                yield "a join of streams"
                for child in node.children:
                    yield from self._rows_made(child)
            return
        if not node.streaming or not node.children:
            return
        yield from self._own_rows(node)
        for child in node.children:
            yield from self._rows_made(child)

    def _own_rows(self, node: Node) -> Iterator[str]:
        """What one node that is no stage does so."""
        if node.name == "Join":
            yield from (f"lookup by {self._way(side, node)}" for side in node.children if not side.streaming)
        elif node.name == "Generate":
            yield self._generated(node)
        elif node.name in _WHOLE:
            made = self._whole(node)
            yield f"{node.name}({digest(made)}){self._on(node)}" if not unknown(made) else f"{UNKNOWN}{node.name}"
        elif node.name not in _SAME_ROWS and node.name != "Union":
            env = self.inputs(node)
            own = (*_OUTPUTS, "resultAttrs")
            fields = [f for f in sorted(node.fields) if f not in own and node.holds(f)]
            told = [text(e, env) for field in fields for e in self._each(node, field)]
            rest = {f: v for f, v in node.fields.items() if f not in (*fields, *own, *_BELOW, *_ANY)}
            told += details(node.name, rest)
            on = "" if node.name == "Expand" else self._on(node)
            yield f"{node.name}({digest(told)}){on}" if not any(map(unknown, told)) else f"{UNKNOWN}{node.name}"

    def _on(self, node: Node) -> str:
        """Of a node that looks at several rows at once: what has made them, and where they are."""
        told = [t for child in node.children if child.streaming for t in self._partitioned(child)]
        return f" on {'; '.join(told)}" if told else ""

    def paths(self, node: Node) -> tuple[tuple[str, ...], ...]:
        """The ways on which rows come to a stage, a list each, sorted: the source, the stages they pass, and, from the
        last of these on, the filters they meet and what makes other rows of them. What comes after a watermark (and
        so drops rows that have moved it) is marked so."""
        found = []
        for side, child in zip(self.sided(node), node.children, strict=True):
            for path in self._paths(child):
                asked = _asked(path.conditions)
                told = [(late, side(t)) for late, t, is_filter in path.items if not is_filter or t in asked]
                passed = [f"after {name}." for name in path.stages]
                found.append(
                    tuple(sorted([f"from {path.source}.", *passed, *((LATE if x else "") + t for x, t in told)]))
                )
        return tuple(sorted(found))

    def _paths(self, node: Node) -> Iterator[_Path]:
        if id(node) in self._sources:
            yield _Path(self._sources[id(node)])
        for child in node.children if node.streaming else ():
            for path in self._paths(child):
                if node.stateful:
                    yield _Path(path.source, (*path.stages, self._stages[id(node)]), timed=path.timed)
                elif node.name == "EventTimeWatermark":
                    yield attrs.evolve(path, timed=True)
                else:
                    env, parts = self.inputs(node), list(self._parts(node))
                    own = ((path.timed, text(each, env), True) for each in parts)
                    made = ((path.timed, t, False) for t in self._own_rows(node))
                    conditions = (*path.conditions, *(_as_asked(each, env) for each in parts))
                    yield attrs.evolve(path, items=(*path.items, *own, *made), conditions=conditions)

    def _each(self, node: Node, field: str) -> list[Node]:
        value = node.fields[field]
        nested = isinstance(value, list) and value and isinstance(value[0], list) and not isinstance(value[0][0], dict)
        return [parse(tree) for inner in value for tree in inner] if nested else node.expressions(field)

    def _sources_of(self, node: Node) -> Iterator[str]:
        """The sources whose rows come to a node, down to the stages below."""
        if id(node) in self._sources:
            yield self._sources[id(node)]
        elif not node.stateful:
            for child in node.children:
                yield from self._sources_of(child)

    def filters(self, node: Node) -> tuple[str, ...]:
        """The conditions a row has to meet to reach a node from its sources or from the stages below, sorted. That a
        column is not null is left out where something else that is asked on the same way says so: Spark adds it to
        that anyway."""
        sides = zip(self.sided(node), node.children, strict=True)
        return tuple(sorted({side(t) for side, child in sides for way in self._ways(child) for t in _asked(way)}))

    def _ways(self, node: Node) -> list[tuple[_Asked, ...]]:
        """The conditions on each way down to the next stages, to sources and tables."""
        if node.stateful:
            return [()]
        env = self.inputs(node)
        here = tuple(_as_asked(each, env) for each in self._parts(node))
        below = [way for child in node.children for way in self._ways(child)]
        return [(*here, *way) for way in below or [()]]

    def sided(self, node: Node) -> list[Callable[[str], str]]:
        """For each side of a node what is said of it: with the side, where a text does not say which it is of. It does
        by a source that the other side has not; there is none in what is made of constants or tables."""
        if len(node.children) != 2:
            return [str] * len(node.children)
        names = [self.names(child) for child in node.children]
        both = bool(set.intersection(*names))

        def told(side: str, own: set[str], text: str) -> str:
            return text if not both and any(f"{name}." in text for name in own) else f"{side} {text}"

        return [functools.partial(told, side, own) for side, own in zip(("left", "right"), names, strict=True)]

    def _all_filters(self, node: Node) -> Iterator[str]:
        """The conditions of a node and of those below it, down to the next stages."""
        for condition, env in self._all_conditions(node):
            yield text(condition, env)

    def _all_conditions(self, node: Node) -> Iterator[tuple[Node, Columns]]:
        if not node.stateful:
            yield from ((condition, self.inputs(node)) for condition in self._parts(node))
            for child in node.children:
                yield from self._all_conditions(child)

    def _conditions(self, node: Node) -> Iterator[str]:
        yield from (text(condition, self.inputs(node)) for condition in self._parts(node))

    def _parts(self, node: Node) -> Iterator[Node]:
        """The conditions of a filter that all have to be met."""
        conditions = node.expressions("condition") if node.name == "Filter" else []
        while conditions:
            condition = conditions.pop()
            if condition.name == "And":
                conditions += condition.children
            else:
                yield condition

    def _columns(self, node: Node) -> list[Column]:
        if not node.children:
            return self._leaf(node)
        below = [self.columns(child) for child in node.children]
        env = self.inputs(node)
        prefix = f"{self._stages[id(node)]}." if id(node) in self._stages else ""
        if node.name == "Project":
            return self._projected(node, env)
        if node.name == "Aggregate":
            return self._aggregated(node, env, prefix)
        if node.name == "Union":
            return self._union(node, below)
        if node.name == "Join":
            return self._join(node, below)
        if node.name == "Expand" and isinstance(node.fields["projections"], list):
            rows = [[text(parse(e), env) for e in projection] for projection in node.fields["projections"]]
            texts = [_either(list(column)) for column in zip(*rows, strict=True)]
            return [(expression_id(a), t) for a, t in zip(node.expressions("output"), texts, strict=True)]
        if node.name == "Generate":
            made = self._generated(node) + self._again(node, self._generated)
            given = enumerate(node.expressions("generatorOutput"))
            return _required(node, below[0]) + [(expression_id(a), f"{made}.{place + 1}") for place, a in given]
        if node.name == "Window" and not node.streaming:
            return below[0] + [_output(e, env) for e in node.expressions("windowExpressions")]
        if node.name.endswith("EvalPythonUDTF"):
            made = self._generated(node) + self._again(node, self._generated)
            given = enumerate(node.expressions("resultAttrs"))
            kept = {expression_id(a) for a in node.expressions("requiredChildOutput")}
            own = [column for column in below[0] if column[0] in kept]
            return own + [(expression_id(a), f"{made}.{place + 1}") for place, a in given]
        if node.name.endswith("EvalPython"):
            made_by = [text(e, env) for e in node.expressions("udfs")]
            return below[0] + [
                (expression_id(a), t) for a, t in zip(node.expressions("resultAttrs"), made_by, strict=True)
            ]
        if node.name in _WHOLE:
            # Of any number of rows it makes any number: a column is what the function, by its code, makes of them all.
            made = self._whole(node)
            return _named(made, node.expressions("output"))
        if node.name in ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow") and node.streaming:
            grouped = ", ".join(self.texts(node, "groupingAttributes"))
            made = f"{self._whole(node)} by ({grouped})"
            return _named(made, node.expressions("output"))
        if node.name in _PASSES:
            return [column for columns in below for column in columns]
        if OUTPUT in node.fields:
            return self._of_table(node, env)
        for field in _OUTPUTS:
            if made_here := node.expressions(field) if isinstance(node.fields.get(field), list) else []:
                called = marks.names([str(a.fields["name"]) for a in made_here])
                return [
                    (expression_id(a), self._made(node, prefix, a, name))
                    for a, name in zip(made_here, called, strict=True)
                ]
        return [(key, f"{UNKNOWN}{node.name}: {t}") for columns in below for key, t in columns]

    def _projected(self, node: Node, env: Columns) -> list[Column]:
        """The columns of a projection. What has another value each time it is asked for is told from what reads the
        same, here and below."""
        made = [_output(e, env) for e in node.expressions("projectList")]
        if not any(map(drawn, node.expressions("projectList"))):
            return made
        found = list(self._drawn_below(node))
        for number, expression in enumerate(node.expressions("projectList")):
            if drawn(expression):
                key, told = made[number]
                made[number] = key, told + AGAIN * found.count(told)
                found.append(told)
        return made

    def _drawn_below(self, node: Node) -> Iterator[str]:
        for child in node.children:
            for inner in child.walk():
                if inner.name == "Project":
                    yield from (text(e, self.inputs(inner)) for e in inner.expressions("projectList") if drawn(e))

    def _whole(self, node: Node) -> str:
        """A function of whole batches, which knows its columns by their names."""
        function = node.expressions("functionExpr")[0]
        env = self.inputs(node)
        names = [marks.name(str(a.fields.get("name", ""))) for a in function.children]
        told = [f"{name} = {text(a, env)}" for name, a in zip(names, function.children, strict=True)]
        return f"{text(function, env)} of ({', '.join(told)})"

    def _aggregated(self, node: Node, env: Columns, prefix: str) -> list[Column]:
        """A stage has keys and aggregates. What is made of them is computed here or in a projection above, as the
        optimizer likes (a column with a WITH expression moves all of them), and reads the same in both places."""
        outputs = node.expressions("aggregateExpressions")
        if not prefix:
            return [_output(e, env) for e in outputs]
        keys = {text(e, env) for e in node.expressions("groupingExpressions")}
        made: Columns = {}

        def replaced(expression: Node) -> Node:
            found = text(expression, env)
            if expression.name == "AggregateExpression" or found in keys:
                number = _STAGES_OWN - len(made)
                made[number] = prefix + found
                return Node("AttributeReference", {"exprId": {"id": number}, "name": found}, [])
            return attrs.evolve(expression, children=[replaced(child) for child in expression.children])

        own = [(expression_id(e), replaced(e)) for e in outputs]
        return [(key, text(e, {**env, **made})) for key, e in own]

    def _of_table(self, node: Node, env: Columns) -> list[Column]:
        """The columns of any other node of a table's side: those from below are what they were, since the node counts
        where rows are described; those it makes go by all that it is."""
        told = [t for name, texts in self._itself(node) for t in (name, *texts)]
        made = f"{UNKNOWN}{node.name}" if any(map(unknown, told)) else f"{node.name}(#{digest(told)})"
        return [(key, env.get(key, f"{made}.{place + 1}")) for place, key in enumerate(node.fields[OUTPUT])]

    def _leaf(self, node: Node) -> list[Column]:
        columns = node.expressions("output")
        if all(expression_id(a) in self._written for a in columns):
            return [(expression_id(a), self._written[expression_id(a)]) for a in columns]
        identity = node.fields.get("identity")
        read = f"static:{marks.escape(identity)}" if identity else f"{UNKNOWN}static:{node.name}"
        read += AGAIN * self._twins.get(id(node), 0)
        prefix = self._sources.get(id(node), read.replace(marks.TYPED, ":"))
        notes = {name: _noted(told) for name, told in (node.fields.get("notes") or {}).items()}
        called = [str(a.fields["name"]) for a in columns]
        shown = zip(called, marks.names(called), strict=True)
        names = [f"{prefix}.{told}{notes.get(name, '')}" for name, told in shown]
        return [
            (expression_id(a), marks.mark(name, a.fields["dataType"])) for a, name in zip(columns, names, strict=True)
        ]

    def _made(self, node: Node, prefix: str, column: Node, called: str) -> str:
        """A column that a node makes by itself: a stage's, or one of a node of which nothing is known."""
        if prefix:
            return marks.mark(prefix + called, column.fields["dataType"])
        return f"{UNKNOWN}{node.name}({digest(node.fields)}).{called}"


def _numbers(branches: list[Any]) -> list[str]:
    """For each branch of a union what tells it from those that are described alike: nothing where there are none."""
    seen: Counter[Any] = Counter()
    found = []
    for which in branches:
        seen[which] += 1
        found.append(f" #{seen[which]}" if branches.count(which) > 1 else "")
    return found


def _noted(told: str) -> str:
    """What a source's schema notes of a column (spark_internals/plans.py), after the column's name."""
    if "__metadata_col" in told:
        return " of its file"
    return f" {'default' if 'DEFAULT' in told else 'char'}#{digest(told)}"


def _after(stages: list[str], text: str) -> str:
    """The stages that a branch's rows have passed, where a column's text does not name them."""
    return "".join(f"{AFTER}{name}." for name in stages if f"{name}." not in text)


def subquery(expression: Node, columns: Columns) -> str:
    """The text of a subquery: its columns, a digest of what decides its rows, and its other fields. columns: those
    around it, which it may refer to."""
    name, fields = expression.name.lower(), expression.fields
    children = [text(child, columns) for child in expression.children]
    told = {f: v for f, v in fields.items() if f not in ("plan", "outerAttrs", "joinCond", "childOutputs", "numCols")}
    if is_tree(fields.get("plan")):
        plan = parse(fields["plan"])
        if any(node.streaming for node in plan.walk()):
            return f"{UNKNOWN}{name} of a stream"
        inner = Lineage(plan, [], [], outer=columns)
        children += [t for _, t in inner.columns(plan)] + [inner.rows(plan)]
        # No batch gives these another seed: Spark looks at the expressions of the plan around it only.
        told["seeds"] = [s for node in plan.walk() for e in node.all_expressions() for s in _seeds(e)] or None
    return f"{name}({', '.join(children + details(expression.name, told))})"


def _asks(expression: Node) -> bool:
    """Whether an expression has a subquery in it."""
    return any(is_tree(inner.fields.get("plan")) for inner in expression.walk())


def _seeds(expression: Node) -> Iterator[str]:
    if (place := noise.SEEDS.get(expression.name)) is not None:
        yield text(expression.children[place], {})
    elif (seed := expression.fields.get("randomSeed")) is not None:
        yield str(seed)


def aggregates(node: Node, env: Columns) -> list[str]:
    """The aggregate functions in the order of their buffers in the state row (PhysicalAggregation). Two may have one
    text and a buffer each, where Spark does not see that they are the same; so the text comes again."""
    found: dict[Any, str] = {}
    for expression in node.expressions("aggregateExpressions"):
        for inner in expression.walk():
            if inner.name == "AggregateExpression":
                told = text(inner, env)
                found.setdefault(inner.fields.get(BUFFER, told), told)
    return list(found.values())


def watermarks(lineage: Lineage) -> list[str]:
    """Every event-time watermark of the plan: column, the stages below it, and delay (`delay_ms`, which the door to
    Spark adds). Sorted, each once, and on how many branches when these have other rows: one DataFrame used twice is
    one watermark, two parts of one are two."""
    found: dict[tuple[str, str], set[str]] = {}
    for node in (n for n in lineage.plan.walk() if n.name == "EventTimeWatermark"):
        text, _ = marks.split(lineage.texts(node, "eventTime")[0])
        above = "".join(f", above {name}" for name in lineage.stages_below(node))
        what = f"{above} delayed by {node.fields['delay_ms']} ms"
        found.setdefault((text, what), set()).add(digest(lineage.moving(node)))
    # Each node follows its own rows, and the slowest (or fastest) of them counts.
    return sorted(
        f"{column}{f' in {len(rows)} branches' if len(rows) > 1 else ''}{what}"
        for (column, what), rows in found.items()
    )


def _twins(plan: Node) -> Iterator[tuple[int, int]]:
    """The leaves of tables that are joined with themselves, and which of those that read the same each is (the first is
    0), from left to right."""
    if plan.name == "Join" and not plan.streaming:
        read: Counter[str | None] = Counter()
        for leaf in (n for n in plan.walk() if not n.children):
            yield id(leaf), read[leaf.fields.get("identity")]
            read[leaf.fields.get("identity")] += 1
    else:
        for child in plan.children:
            yield from _twins(child)


def _of_any_order(side: Node) -> bool:
    """Whether a table's rows are the same in any order, on whichever partition they are."""
    if any(n.children and n.name not in _OF_ANY_ORDER for n in side.walk()):
        return False
    return not _looked_at(side)


def _of_any_branches(side: Node) -> bool:
    """Whether a table's rows are the same with the branches of a union in any order."""
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
    """Whether anything looks at the partitions of a table's rows: a random number does, by its seed."""
    return any(looks_at_partitions(e) or drawn_here(e) for n in side.walk() for e in n.all_expressions())


def _as_asked(condition: Node, env: Columns) -> _Asked:
    return text(condition, env), frozenset(f"isnotnull({t})" for t in not_null(condition, env))


def _asked(conditions: Iterable[_Asked]) -> set[str]:
    """The conditions that no other one of the same way implies."""
    given = dict(conditions)
    implied = {t for told, needs in given.items() for t in needs - {told}}
    return given.keys() - implied


def _moves(plan: Node) -> bool:
    """Whether anything looks at the rows of a partition, so that it counts what makes rows and moves them below it."""
    return any(looks_at_partitions(e) for n in plan.walk() for e in n.all_expressions())


def _branches(union: Node) -> Iterator[Node]:
    """The branches of a union, and of those that are one themselves, as the optimizer has them."""
    for branch in union.children:
        top = branch
        while top.name in _NO_ROWS and len(top.children) == 1:
            top = top.children[0]
        yield from _branches(top) if top.name == "Union" else [branch]


def _certain(found: Iterable[tuple[int, str]]) -> Columns:
    """What is said of each id, of those of which one thing is said: one DataFrame may be used in several ways."""
    said: dict[int, set[str]] = {}
    for key, told in found:
        said.setdefault(key, set()).add(told)
    return {key: told.pop() for key, told in said.items() if len(told) == 1}


def _required(generate: Node, below: list[Column]) -> list[Column]:
    """The columns that a Generate hands on: not those that nothing needs any more (unrequiredChildIndex). A union above
    it goes by place."""
    told = generate.fields.get("unrequiredChildIndex")
    left_out = set(map(int, re.findall(r"\d+", shown_value(told)))) if told else set()
    return [column for place, column in enumerate(below) if place not in left_out]


def _named(made: str, columns: list[Node]) -> list[Column]:
    """The columns of what a node makes, which go by their names."""
    called = marks.names([str(a.fields["name"]) for a in columns])
    return [(expression_id(a), f"{made}.{name}") for a, name in zip(columns, called, strict=True)]


def _output(expression: Node, env: Columns) -> Column:
    return expression_id(expression), text(expression, env)


def _either(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else "(" + " | ".join(texts) + ")"


def join_type(node: Node) -> str:
    """``Inner``, ``LeftOuter`` ... ``Cross`` is an inner join for all that Spark does with it but for one thing: it may
    be without a condition where a setting forbids that of others (CheckCartesianProducts)."""
    value = node.fields.get("joinType")
    if isinstance(value, dict) and "exists" in value:
        return _EXISTENCE
    told = shown_value(value).strip("$") if value else ""
    return "Inner" if told == "Cross" else told
