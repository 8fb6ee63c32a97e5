"""Lineage: what a key or an aggregate *is*, traced through projections down to source columns. Pure functions.

Spark's optimized plan is read (not the analyzed one), because the optimizer decides what lands in the state: an
aggregate whose result nobody uses is pruned, and its place in the state row goes to the next one. Two expressions
with equal texts compute the same from the same source columns; aliases, qualifiers and expression ids do not count.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import attrs

from ..state.branches import union
from ..state.clock import duration
from ..state.plan import PYTHON, UNKNOWN, WindowKey
from .tree import Node, parse

_NOISE = frozenset(
    {"exprId", "qualifier", "resultId", "metadata", "explicitMetadata", "nonInheritableMetadataKeys", "evalContext",
     "initialSeed", "origin", "nullable", "resultIds"}
)  # fmt: skip
_CHILD_FIELDS = frozenset(
    {"child", "left", "right", "children", "first", "second", "third", "aggregateFunction", "filter", "predicate",
     "trueValue", "falseValue", "elseValue", "branches", "arguments", "value", "key", "list", "mode"}
)  # fmt: skip

Column = tuple[int, str]  # expression id, text


class Lineage:
    """Texts for the columns below each node of one plan. `sources` names the streaming leaves in pre-order;
    `stages` names the stateful nodes in pre-order (a stage's output columns are named after it)."""

    def __init__(self, plan: Node, sources: list[str], stages: list[str]) -> None:
        self.plan = plan
        leaves = [n for n in plan.walk() if not n.children and n.streaming]
        self._sources = {id(n): name for n, name in zip(leaves, sources, strict=True)}
        stateful = [n for n in plan.walk() if n.stateful]
        self._stages = {id(n): name for n, name in zip(stateful, stages, strict=True)}
        self._cache: dict[int, list[Column]] = {}

    def columns(self, node: Node) -> list[Column]:
        """The output columns of a plan node, in order."""
        if id(node) not in self._cache:
            self._cache[id(node)] = self._columns(node)
        return self._cache[id(node)]

    def inputs(self, node: Node) -> dict[int, str]:
        """The columns a node's expressions can refer to."""
        return {k: text for child in node.children for k, text in self.columns(child)}

    def windows(self, node: Node, keys: list[str]) -> tuple[WindowKey, ...]:
        """Those of a node's grouping keys (texts) that are time windows, as they were asked for below it."""
        made = {}
        for below in node.walk():
            env = self.inputs(below)
            for expression in below.expressions("projectList") + below.expressions("groupingExpressions"):
                if window := window_key(expression, env):
                    made[text(expression, env)] = window
        return tuple(attrs.evolve(made[key], position=i) for i, key in enumerate(keys) if key in made)

    def texts(self, node: Node, field: str) -> list[str]:
        env = self.inputs(node)
        return [text(e, env) for e in node.expressions(field)]

    def _join(self, node: Node, below: list[list[Column]]) -> list[Column]:
        """What the other side gives depends on how it is found: by the stage's name for a stream-stream join, whose
        condition is compared there; by the condition for a lookup in a table."""
        left, right = below
        if join_type(node) in ("LeftSemi", "LeftAnti"):
            return left
        if node.stateful:
            return left + [(key, f"{self._stages[id(node)]}.{t}") for key, t in right]
        conditions = [text(c, self.inputs(node)) for c in node.expressions("condition")] or ["true"]
        sides = [
            columns if child.streaming else [(key, f"lookup({t}, {conditions[0]})") for key, t in columns]
            for child, columns in zip(node.children, below, strict=True)
        ]
        return sides[0] + sides[1]

    def _union(self, node: Node, below: list[list[Column]]) -> list[Column]:
        """The order of branches does not count, but what belongs to one branch does: all columns have their branches in
        one order, that of the branches' texts. A text that tells nothing of its branch is marked with its sources."""
        branches = [
            [self._marked(text, child) for _, text in columns]
            for child, columns in zip(node.children, below, strict=True)
        ]
        ordered = sorted(branches)
        return [(below[0][i][0], union([b[i] for b in ordered])) for i in range(len(below[0]))]

    def _marked(self, text: str, branch: Node) -> str:
        names = {name for n in branch.walk() for name in (self._sources.get(id(n)), self._stages.get(id(n))) if name}
        return text if any(f"{name}." in text for name in names) else f"{'+'.join(sorted(names))}: {text}"

    def below(self, node: Node) -> str:
        """A digest of what decides which rows reach a node: everything below it but projections."""
        described = [
            (inner.name, [text(e, self.inputs(inner)) for e in inner.expressions("condition")])
            for inner in list(node.walk())[1:]
            if inner.name != "Project"
        ]
        return _digest([*described, [self._sources[id(n)] for n in node.walk() if id(n) in self._sources]])

    def filters(self, node: Node) -> tuple[str, ...]:
        """The conditions a row has to meet to reach a node from its sources or from the stages below, sorted. That a
        column is not null, which Spark adds to what is asked of it anyway, is left out."""
        found = {t for child in node.children for inner in self._reached(child) for t in self._conditions(inner)}
        asked = {t: m[1] for t in found if (m := re.fullmatch(r"isnotnull\((.*)\)", t))}
        return tuple(sorted(t for t in found if t not in asked or not any(asked[t] in o for o in found - {t})))

    def _reached(self, node: Node) -> Iterator[Node]:
        """A node and those below it, down to the next stages."""
        if not node.stateful:
            yield node
            for child in node.children:
                yield from self._reached(child)

    def _conditions(self, node: Node) -> Iterator[str]:
        conditions = node.expressions("condition") if node.name == "Filter" else []
        while conditions:
            condition = conditions.pop()
            if condition.name == "And":
                conditions += condition.children
            else:
                yield text(condition, self.inputs(node))

    def _columns(self, node: Node) -> list[Column]:
        if not node.children:
            identity = node.fields.get("identity")
            static = f"static:{identity}" if identity else f"{UNKNOWN}static:{node.name}"
            prefix = self._sources.get(id(node), static)
            return [(_id(a), f"{prefix}.{a.fields['name']}") for a in node.expressions("output")]
        below = [self.columns(child) for child in node.children]
        env = self.inputs(node)
        prefix = f"{self._stages[id(node)]}." if id(node) in self._stages else ""
        if node.name == "Project":
            return [_output(e, env) for e in node.expressions("projectList")]
        if node.name == "Aggregate":
            return [(k, prefix + t) for k, t in (_output(e, env) for e in node.expressions("aggregateExpressions"))]
        if node.name == "Union":
            return self._union(node, below)
        if node.name == "Expand":
            rows = [[text(parse(e), env) for e in projection] for projection in node.fields["projections"]]
            texts = [_either(list(column)) for column in zip(*rows, strict=True)]
            return [(_id(a), t) for a, t in zip(node.expressions("output"), texts, strict=True)]
        if node.name == "Generate":
            made = text(node.expressions("generator")[0], env)
            new = [(_id(a), f"{made}.{a.fields['name']}") for a in node.expressions("generatorOutput")]
            return below[0] + new
        if node.name.endswith("EvalPython"):
            made_by = [text(e, env) for e in node.expressions("udfs")]
            return below[0] + [(_id(a), t) for a, t in zip(node.expressions("resultAttrs"), made_by, strict=True)]
        if node.name in ("MapInPandas", "MapInArrow", "PythonMapInArrow"):
            # Of any number of rows it makes any number: a column is what the function, by its code, makes of them all.
            made = text(node.expressions("functionExpr")[0], env)
            return [(_id(a), f"{made}.{a.fields['name']}") for a in node.expressions("output")]
        for field in ("outputAttrs", "outputAttributes", "output"):
            if made_here := node.expressions(field) if isinstance(node.fields.get(field), list) else []:
                made_of = prefix or f"{UNKNOWN}{node.name}({_digest(node.fields)})."
                return [(_id(a), f"{made_of}{a.fields['name']}") for a in made_here]
        if node.name == "Join":
            return self._join(node, below)
        return [column for columns in below for column in columns]


def text(expression: Node, env: dict[int, str]) -> str:
    """A canonical, readable text of an expression; columns as `env` has them."""
    name, fields = expression.name, expression.fields
    if name == "AttributeReference":
        return env.get(_id(expression), f"{UNKNOWN}{fields['name']}")
    if name == "Alias":
        return text(expression.children[0], env)
    if name == "Literal":
        return _literal(fields)
    if name == "UnscaledValue":
        # DecimalAggregates sums short decimals as plain numbers: then the scale is part of what the sum means.
        env = {**env, **{_id(n): f"{text(n, env)}: {n.fields['dataType']}" for n in expression.walk() if _is_column(n)}}
    children = [text(child, env) for child in expression.children]
    if name == "AggregateExpression":
        distinct = "distinct " if fields.get("isDistinct") is True else ""
        filtered = f" filter ({children[1]})" if len(children) > 1 else ""
        return f"{distinct}{children[0]}{filtered}"
    if name == "GetStructField":
        return f"{children[0]}.{fields.get('ordinal')}"
    if "UDF" in name or "UserDefined" in name or "Udf" in name:
        # Comparable by the digest of its code (spark_internals adds it); a name says nothing about what it computes.
        code = f"python#{fields['code']}" if fields.get("code") else f"{PYTHON}{fields.get('name') or name}"
        return f"{code}({', '.join(children)})"
    if name.endswith("Subquery"):
        return f"{UNKNOWN}{name.lower()}"  # its own plan is not looked into
    if (window := _window(expression, env)) is not None:
        return window
    if name == "KnownNullable":
        return children[0]
    if name == "TimestampAddInterval" and not _of_days(expression.children[1]):
        fields = {**fields, "timeZoneId": "UTC"}  # no zone has a part in it
    details = [
        f"{k}={zone(v) if k == 'timeZoneId' else _plain(v)}"
        for k, v in sorted(fields.items())
        if k not in _NOISE | _CHILD_FIELDS and v is not None
    ]
    return f"{name.lower()}({', '.join(children + details)})"


_DAY = 86_400_000_000  # microseconds
_OF_A_CALENDAR = re.compile("day|week|month|year")


def _of_days(interval: Node) -> bool:
    """Whether an interval may have days or more, which are added as such, so that how long they are depends on the time
    zone (DateTimeUtils: timestampAddInterval, timestampAddDayTime); smaller units are added as they are."""
    kind, value = str(interval.fields.get("dataType")), str(interval.fields.get("value"))
    if interval.name != "Literal" or _OF_A_CALENDAR.search(f"{kind} {value}"):
        return True
    return kind != "interval" and not (value.lstrip("-").isdigit() and abs(int(value)) < _DAY)


def aggregates(node: Node, env: dict[int, str]) -> list[str]:
    """The distinct aggregate functions in the order of their buffers in the state row (PhysicalAggregation)."""
    found = [
        text(inner, env)
        for e in node.expressions("aggregateExpressions")
        for inner in e.walk()
        if inner.name == "AggregateExpression"
    ]
    return list(dict.fromkeys(found))


def watermarks(lineage: Lineage) -> list[str]:
    """Every event-time watermark of the plan: column and delay (`delay_ms`, which the door to Spark adds). Sorted, each
    once: one DataFrame used twice is one watermark."""
    nodes = [n for n in lineage.plan.walk() if n.name == "EventTimeWatermark"]
    return sorted({f"{lineage.texts(n, 'eventTime')[0]} delayed by {n.fields['delay_ms']} ms" for n in nodes})


def _is_tree(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and "num-children" in value[0]


def window_key(expression: Node, env: dict[int, str]) -> WindowKey | None:
    """What F.window was asked for, read from what Spark's TimeWindowing rule makes of it; None for any other
    expression. `position` is left at 0."""
    if expression.name == "Alias":
        return window_key(expression.children[0], env)
    if expression.name == "KnownNullable":
        return window_key(expression.children[0], env)
    if not _is_window(expression):
        return None
    inner = list(expression.walk())
    columns = {text(n.children[0], env) for n in inner if n.name == "PreciseTimestampConversion" and _to_long(n)}
    remainders = [n for n in inner if n.name == "Remainder"]
    slides = {n.children[1].fields.get("value") for n in remainders}
    starts = {_offset(n.children[0]) for n in remainders}
    ends = [n for n in expression.children[3].walk() if n.name == "Add" and n.children[1].name == "Literal"]
    if len(columns) != 1 or len(slides) != 1 or len(starts) != 1 or not ends:
        return None
    size, slide = int(ends[0].children[1].fields["value"]), int(slides.pop() or 0)
    return WindowKey(position=0, column=columns.pop(), size=size, slide=slide, start=starts.pop())


def _is_window(expression: Node) -> bool:
    return (
        expression.name == "CreateNamedStruct"
        and len(expression.children) == 4
        and [c.fields.get("value") for c in expression.children[::2]] == ["start", "end"]
    )


def _offset(dividend: Node) -> int:
    """TimeWindowing takes ``(time - startTime) % slide``."""
    if dividend.name == "Subtract" and dividend.children[1].name == "Literal":
        return int(dividend.children[1].fields["value"])
    return 0


_TIME = "its column"  # which is in the text itself, where branches of a union can be told apart


def _window(expression: Node, env: dict[int, str]) -> str | None:
    """``window(column, size, slide, #digest)`` for what Spark's TimeWindowing rule makes of F.window, and
    ``session_window(column, gap)`` for what SessionWindowing makes of F.session_window; None for any other expression.
    A digest of the whole expression but for its column stays in the text, so that no detail is lost."""
    if not _is_window(expression):
        return None
    gaps = [n for n in expression.children[3].walk() if n.name == "TimestampAddInterval"]
    if len(gaps) == 1 and text(gaps[0].children[0], env) == text(_unconverted(expression.children[1]), env):
        gap = text(gaps[0].children[1], env)
        column = text(gaps[0].children[0], env)
        shape = _digest([text(c, env).replace(column, _TIME) for c in expression.children])
        return f"session_window({column}, gap {gap}, #{shape})"
    window = window_key(expression, env)
    if window is None:
        return None
    inner = [text(c, env) for child in expression.children for c in child.children]
    shape = _digest([t.replace(window.column, _TIME) for t in inner])
    sliding = "" if window.tumbling else f", every {duration(window.slide)}"
    return f"window({window.column}, {duration(window.size)}{sliding}, #{shape})"


def _unconverted(node: Node) -> Node:
    while node.name in ("PreciseTimestampConversion", "KnownNullable"):
        node = node.children[0]
    return node


def _is_column(node: Node) -> bool:
    return node.name == "AttributeReference"


def _to_long(node: Node) -> bool:
    return node.fields.get("toType") == "long"


def _output(expression: Node, env: dict[int, str]) -> Column:
    return _id(expression), text(expression, env)


def _id(attribute: Node) -> int:
    return int(attribute.fields["exprId"]["id"])


def _literal(fields: dict[str, Any]) -> str:
    value, kind = fields.get("value"), fields.get("dataType")
    return (
        repr(value) if kind == "string" else f"{value}" if kind in ("integer", "boolean") else f"{value}:{_plain(kind)}"
    )


def zone(name: str) -> str:
    """A time zone's name; one for all names of UTC, which machines call differently."""
    return "UTC" if name in ("Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Z", "GMT", "Etc/GMT", "+00:00") else name


def _plain(value: Any) -> str:
    """A field's value without expression ids; trees inside it as texts."""
    if _is_tree(value):
        return text(parse(value), {})
    if isinstance(value, dict):
        if "object" in value:
            return str(value["object"]).rsplit(".", 1)[-1].strip("$")
        return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in sorted(value.items()) if k not in _NOISE) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(v) for v in value) + "]"
    return str(value)


def _either(texts: list[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else "(" + " | ".join(texts) + ")"


def join_type(node: Node) -> str:
    """``Inner``, ``LeftOuter`` ..."""
    value = node.fields.get("joinType")
    return _plain(value).strip("$") if value else ""


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:8]
