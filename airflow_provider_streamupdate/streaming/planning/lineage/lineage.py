"""Lineage: what a key or an aggregate *is*, traced through projections down to source columns. Pure functions.

Spark's optimized plan is read (not the analyzed one), because the optimizer decides what lands in the state: an
aggregate whose result nobody uses is pruned, and its place in the state row goes to the next one. Two expressions
with equal texts compute the same from the same source columns; aliases, qualifiers and expression ids do not count.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ....core.plan.plan import EXPIRY, UNKNOWN, WindowKey, unknown
from ....core.union_branches import AFTER, union
from ...catalyst import marks
from ...catalyst.tree import BUFFER, OUTPUT, Node, is_tree, parse
from ..expressions import noise
from ..expressions.digest import digest
from ..expressions.expression import (
    PARTITIONS,
    Columns,
    details,
    drawn,
    expression_id,
    looks_at_partitions,
    shown_value,
    text,
)
from ..expressions.windows import window_key
from .arrivals import OUTPUTS, WHOLE, all_filters, generated, moving, nearest_stages, partitions_below, rows_made, whole
from .table_rows import EXISTENCE, branch, branches, given, itself, join_type, lookups, rows, way

Column = tuple[int, str]  # expression id, text

# Nodes that hand their input's columns on as they are; of any other node nothing is known.
_PASSES = frozenset(
    {"Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Deduplicate", "DeduplicateWithinWatermark", "Distinct",
     "GlobalLimit", "LocalLimit", "Tail", "Offset", "Sort", "Sample", "Repartition", "RepartitionByExpression",
     "RebalancePartitions", "ResolvedHint", "UnresolvedHint", "ReturnAnswer", "Join", "DeduplicateRelations",
     "UpdateEventTimeWatermarkColumn", "Inputs", "CollectMetrics", "PipeOperator", "SQLFunctionNode"}
)  # fmt: skip

# After the text of what makes the same as another below it, and yet not the same rows or values.
AGAIN = "′"
# Expression ids of a stage's own columns, downwards: no ids of Spark's.
_STAGES_OWN = -1000


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
        self.sources = {id(n): name for n, name in zip(leaves, sources, strict=True)}
        stateful = [n for n in plan.walk() if n.stateful]
        self.stages = {id(n): name for n, name in zip(stateful, stages, strict=True)}
        self._twins = dict(_twins(plan))
        self._cache: dict[int, list[Column]] = {}
        self._inputs: dict[int, Columns] = {}
        self.partitions: dict[int, list[str]] = {}
        self.moves = _moves(plan)
        self._found: dict[int, str] = {}  # how lookups find their rows, by their nodes
        self._written: Columns = written.leaves() if written else {}
        self.lookups: Columns = lookups(written) if written else {}
        self.branches: Columns = branches(written) if written else {}

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
        if told := partitions_below(self, node):
            columns[PARTITIONS] = told
        return columns

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
        return {name for n in node.walk() for name in (self.sources.get(id(n)), self.stages.get(id(n))) if name}

    def stages_below(self, node: Node) -> list[str]:
        """The names of the stages below a node, sorted."""
        return sorted(self.stages[id(n)] for n in node.walk() if n is not node and id(n) in self.stages)

    def leaves(self) -> Columns:
        """The columns of sources and tables, and of all that is made of tables alone: what is cached is a leaf in an
        optimized plan."""
        return {k: t for n in self.plan.walk() if not n.children or not n.streaming for k, t in self.columns(n)}

    def _join(self, node: Node, below: list[list[Column]]) -> list[Column]:
        """What the other side gives depends on how it is found: by the stage's name for a stream-stream join, whose
        condition is compared there; by the condition and the other side's rows for a lookup in a table."""
        left, right = below
        if join_type(node) in ("LeftSemi", "LeftAnti"):
            return left
        if join_type(node) == EXISTENCE:  # a column that says whether there is a row on the other side
            exists = expression_id(parse(node.fields["joinType"]["exists"]))
            return [*left, (exists, f"exists({way(self, node.children[1], node)})")]
        if node.stateful:
            return left + [(key, f"{self.stages[id(node)]}.{t}") for key, t in right]
        if not node.streaming:
            return left + right
        again = self._again(node, self._looked_up)
        found = [
            columns
            if child.streaming
            else [(key, f"lookup{again}({t}, {way(self, child, node)})") for key, t in columns]
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
            self._found[id(node)] = " ".join(way(self, side, node) for side in sides)
        return self._found[id(node)]

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
                only = f" of {branch(self, child)}"
            else:
                kept = sorted(all_filters(self, child)) if names[number] & others else []
                made = sorted(rows_made(self, child))
                only = (f" where {' and '.join(kept)}" if kept else "") + (f" by {', '.join(made)}" if made else "")
            passed = sorted(nearest_stages(self, child))
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

    def _marked(self, text: str, names: set[str]) -> str:
        return text if any(f"{name}." in text for name in names) else f"{'+'.join(sorted(names))}: {text}"

    def _columns(self, node: Node) -> list[Column]:
        if not node.children:
            return self._leaf(node)
        below = [self.columns(child) for child in node.children]
        env = self.inputs(node)
        prefix = f"{self.stages[id(node)]}." if id(node) in self.stages else ""
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
            made = generated(self, node) + self._again(node, functools.partial(generated, self))
            given = enumerate(node.expressions("generatorOutput"))
            return _required(node, below[0]) + [(expression_id(a), f"{made}.{place + 1}") for place, a in given]
        if node.name == "Window" and not node.streaming:
            return below[0] + [_output(e, env) for e in node.expressions("windowExpressions")]
        if node.name.endswith("EvalPythonUDTF"):
            made = generated(self, node) + self._again(node, functools.partial(generated, self))
            given = enumerate(node.expressions("resultAttrs"))
            kept = {expression_id(a) for a in node.expressions("requiredChildOutput")}
            own = [column for column in below[0] if column[0] in kept]
            return own + [(expression_id(a), f"{made}.{place + 1}") for place, a in given]
        if node.name.endswith("EvalPython"):
            made_by = [text(e, env) for e in node.expressions("udfs")]
            return below[0] + [
                (expression_id(a), t) for a, t in zip(node.expressions("resultAttrs"), made_by, strict=True)
            ]
        if node.name in WHOLE:
            # Of any number of rows it makes any number: a column is what the function, by its code, makes of them all.
            made = whole(self, node)
            return _named(made, node.expressions("output"))
        if node.name in ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow") and node.streaming:
            grouped = ", ".join(self.texts(node, "groupingAttributes"))
            made = f"{whole(self, node)} by ({grouped})"
            return _named(made, node.expressions("output"))
        if node.name in _PASSES:
            return [column for columns in below for column in columns]
        if OUTPUT in node.fields:
            return self._of_table(node, env)
        for field in OUTPUTS:
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
        told = [t for name, texts in itself(self, node) for t in (name, *texts)]
        made = f"{UNKNOWN}{node.name}" if any(map(unknown, told)) else f"{node.name}(#{digest(told)})"
        return [(key, env.get(key, f"{made}.{place + 1}")) for place, key in enumerate(node.fields[OUTPUT])]

    def _leaf(self, node: Node) -> list[Column]:
        columns = node.expressions("output")
        if all(expression_id(a) in self._written for a in columns):
            return [(expression_id(a), self._written[expression_id(a)]) for a in columns]
        identity = given(self, node)
        read = f"static:{marks.escape(identity)}" if identity else f"{UNKNOWN}static:{node.name}"
        read += AGAIN * self._twins.get(id(node), 0)
        prefix = self.sources.get(id(node), read.replace(marks.TYPED, ":"))
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
    """What a source's schema notes of a column (spark_internals/plans/plans.py), after the column's name."""
    if "__metadata_col" in told:
        return " of its file"
    kind = "default" if "DEFAULT" in told else "char" if "CHAR" in told else "noted"
    return f" {kind}#{digest(told)}"


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
        children += [t for _, t in inner.columns(plan)] + [rows(inner, plan)]
        # No batch gives these another seed: Spark looks at the expressions of the plan around it only.
        told["seeds"] = [s for node in plan.walk() for e in node.all_expressions() for s in _seeds(e)] or None
    return f"{name}({', '.join(children + details(expression.name, told))})"


def _seeds(expression: Node) -> Iterator[str]:
    if (place := noise.SEEDS.get(expression.name)) is not None:
        yield text(expression.children[place], {})
    elif (seed := expression.fields.get("randomSeed")) is not None:
        yield str(seed)


def aggregates(node: Node, env: Columns) -> list[str]:
    """Return the aggregate functions in the order of their buffers in the state row (PhysicalAggregation). Two may have
    one text and a buffer each, where Spark does not see that they are the same; so the text comes again."""
    return [text(expression, env) for expression, _ in _aggregates(node, env)]


def arguments(node: Node, env: Columns) -> list[str]:
    """Return what each of the aggregate functions is computed from: its operands, settings and filter."""
    return [", ".join(_arguments(expression, env)) for expression, _ in _aggregates(node, env)]


def results(node: Node, env: Columns) -> list[str]:
    """Return the name of the first column that is computed from each of the aggregate functions."""
    return [name for _, name in _aggregates(node, env)]


def _aggregates(node: Node, env: Columns) -> list[tuple[Node, str]]:
    found: dict[Any, tuple[Node, str]] = {}
    for column in node.expressions("aggregateExpressions"):
        for inner in column.walk():
            if inner.name == "AggregateExpression":
                found.setdefault(inner.fields.get(BUFFER, text(inner, env)), (inner, str(column.fields.get("name"))))
    return list(found.values())


_DECIMAL = re.compile(r"'?decimal\(\d+, ?(\d+)\)'?")


def _arguments(expression: Node, env: Columns) -> Iterator[str]:
    function, *filters = expression.children
    for operand in function.children:
        # DecimalAggregates puts this around short decimals: it is no other value.
        plain = operand.children[0] if operand.name == "UnscaledValue" else operand
        yield _any_precision(plain, env)
    yield from details(function.name, function.fields)
    yield from (f"filter ({text(condition, env)})" for condition in filters)
    yield from ["distinct"] if expression.fields.get("isDistinct") is True else []


def _any_precision(operand: Node, env: Columns) -> str:
    """The text of an operand. Of a cast to a decimal only the scale counts: in ANSI mode a value that does not fit its
    precision is an error, so that there is none in the state."""
    decimal = _DECIMAL.fullmatch(shown_value(operand.fields.get("dataType"))) if operand.name == "Cast" else None
    if decimal is None or "ANSI" not in shown_value(operand.fields.get("evalMode")):
        return text(operand, env)
    return text(attrs.evolve(operand, fields={**operand.fields, "dataType": f"decimal(*,{decimal[1]})"}), env)


def watermarks(lineage: Lineage) -> list[str]:
    """Every event-time watermark of the plan: column, the stages below it, and delay (`delay_ms`, which the door to
    Spark adds). Sorted, each once, and on how many branches when these have other rows: one DataFrame used twice is
    one watermark, two parts of one are two."""
    found: dict[tuple[str, str], dict[int, set[str]]] = {}
    for node in (n for n in lineage.plan.walk() if n.name == "EventTimeWatermark"):
        text, _ = marks.split(lineage.texts(node, "eventTime")[0])
        above = "".join(f", above {name}" for name in lineage.stages_below(node))
        delays = found.setdefault((text, above), {})
        delays.setdefault(node.fields["delay_ms"], set()).add(digest(moving(lineage, node)))
    told = [
        f"{EXPIRY}, above {lineage.stages[id(node)]} delayed by {node.fields['expiry_ms']} ms"
        for node in lineage.plan.walk()
        if node.name == "DeduplicateWithinWatermark" and node.fields.get("expiry_ms") is not None
    ]
    for (column, above), delays in found.items():
        told += _delays(column, above, delays)
    return sorted(told)


def _delays(column: str, above: str, delays: dict[int, set[str]]) -> Iterator[str]:
    """Each node follows its own rows, and the slowest (or fastest) of them counts: where the branches have several
    delays, which rows have which."""
    for delay, moved_by in delays.items():
        several = f" in {len(moved_by)} branches" if len(moved_by) > 1 else ""
        which = f" of rows {digest(sorted(moved_by))}" if len(delays) > 1 else ""
        yield f"{column}{several}{which}{above} delayed by {delay} ms"


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


def _moves(plan: Node) -> bool:
    """Whether anything looks at the rows of a partition, so that it counts what makes rows and moves them below it."""
    return any(looks_at_partitions(e) for n in plan.walk() for e in n.all_expressions())


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
