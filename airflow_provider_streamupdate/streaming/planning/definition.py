"""What a stateful operator's state means: its keys, aggregates, condition, function ... traced to source columns.

One function a kind of stage. The parts are texts (lineage.py); the compatibility rules compare them. Sources: the
physical operators of Spark 4.3, which decide what lands in the state (StatefulAggregationStrategy,
StreamingDeduplicateExec, StreamingSymmetricHashJoinExec, FlatMapGroupsInPandasWithStateExec,
TransformWithStateInPySparkExec, StreamingGlobalLimitExec).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ...core.plan.plan import PYTHON, UNKNOWN
from ..catalyst import marks
from ..catalyst.tree import Node
from .expressions.expression import text
from .lineage.arrivals import sided
from .lineage.lineage import Lineage, aggregates
from .lineage.table_rows import join_type

# Spark's name of an operator -> the kind of stage
KINDS = {
    "stateStoreSave": "aggregate",
    "sessionWindowStateStoreSaveExec": "session-window",
    "dedupe": "deduplicate",
    "dedupeWithinWatermark": "deduplicate-within-watermark",
    "symmetricHashJoin": "join",
    "applyInPandasWithState": "apply-in-pandas-with-state",
    "transformWithStateInPySparkExec": "transform-with-state",
    "transformWithStateInPandasExec": "transform-with-state",
    "globalLimit": "limit",
}


def define(lineage: Lineage, node: Node, operator: dict[str, Any]) -> dict[str, Any]:
    """The definition of a stage of a known kind. `operator`: Spark's metadata of it."""
    env = lineage.inputs(node)
    kind = KINDS[operator["operatorInfo"]["operatorName"]]
    if kind in ("aggregate", "session-window"):
        return {"keys": lineage.texts(node, "groupingExpressions"), "aggregates": aggregates(node, env)}
    if kind in ("deduplicate", "deduplicate-within-watermark"):
        return {"keys": lineage.texts(node, "keys")}
    if kind == "join":
        return _join(lineage, node)
    if kind == "limit":
        return {"rows": text(node.expressions("limitExpr")[0], env)}
    if kind == "apply-in-pandas-with-state":
        return {
            "keys": lineage.texts(node, "groupingAttributes"),
            "timeout": _object(node, "timeout"),
            **_function(lineage, node, 0),
        }
    # transformWithState: the first columns of its input are the keys; its state variables are the processor's own.
    properties = json.loads(operator.get("operatorPropertiesJson") or "{}")
    count = int(node.fields.get("groupingAttributesLen") or 0)
    return {
        "keys": [t for _, t in lineage.columns(node.children[0])[:count]],
        "time mode": properties.get("timeMode", "?"),
        "initial state": bool(node.fields.get("hasInitialState")),
        "state variables": sorted(
            f"{v['stateName']}: {v['stateVariableType']}" + (" with TTL" if v.get("ttlEnabled") else "")
            for v in properties.get("stateVariables", [])
        ),
        **_function(lineage, node, count),
    }


# Expressions that ask for the time.
CLOCKS = ("CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now")
# Texts that are a date or a time of their own when they are cast (SpecialDatetimeValues); ``epoch`` is always the same.
_MOMENTS = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_ASKED = re.compile(
    rf"\b({'|'.join(c.lower() for c in CLOCKS)})\(|\bcast\('{_MOMENTS.pattern}[^']*', dataType=(date|timestamp)",
    re.IGNORECASE,
)


def asks_time(node: Node) -> bool:
    """Whether an expression asks for the time of the batch in which it is computed."""
    if node.name in CLOCKS:
        return True
    text_of = node.children[0].fields.get("value") if node.name == "Cast" and node.children else None
    timed = str(node.fields.get("dataType", "")).startswith(("date", "timestamp"))
    return timed and isinstance(text_of, str) and _MOMENTS.match(text_of) is not None


def with_clocks(definition: dict[str, Any], written: dict[str, Any]) -> dict[str, Any]:
    """A definition in which what asks for the time is marked as not comparable. `written`: as the author wrote it (the
    analyzed plan).

    The plan of a dry run is another one than that of a running query there: the optimizer takes the moment of planning
    for a constant (ComputeCurrentTime), and drops it from grouping keys; a running query's batch time is none
    (MicroBatchExecution: CurrentBatchTimestamp). Measured: a key by the hour and one by the day looked the same.
    """
    found = dict(definition)
    for part, texts in written.items():
        every = texts if isinstance(texts, list) else [texts]
        if part != "input" and any(_ASKED.search(str(t)) for t in every):
            found[part] = [UNKNOWN + t if _ASKED.search(t) else t for t in map(str, every)]
    return found


def _function(lineage: Lineage, node: Node, keys: int) -> dict[str, Any]:
    """A Python state function: its code, and what it reads by which name."""
    [function] = node.expressions("functionExpr")
    env = lineage.inputs(node)
    # The projection below holds the grouping keys first, and then the columns the function is given.
    named = {a.fields["exprId"]["id"]: a.fields["name"] for a in function.children if a.name == "AttributeReference"}
    columns = lineage.columns(node.children[0])[keys:]
    return {
        "code": _code(function.fields) + _kept(node.fields.get("stateType")),
        "input": [f"{named[k]} = {env.get(k, t)}" for k, t in columns if k in named],
    }


def _kept(kind: Any) -> str:
    """The user-defined types of what a function keeps, whose classes make its values; nothing where there are none."""
    told = sorted({marks.type_text(k) for k in _types(kind) if "code" in k})
    return f", keeps {', '.join(told)}" if told else ""


def _types(kind: Any) -> Iterator[dict[str, Any]]:
    """A type as JSON, and all in it."""
    if isinstance(kind, dict):
        yield kind
    for inner in kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ():
        yield from _types(inner)


def _code(fields: dict[str, Any]) -> str:
    """The digest of a state function's code and of what it uses; or why it cannot be compared."""
    if code := fields.get("code"):
        uses = fields.get("uses", {}).get("rendered")
        return f"#{code}" + (f" with {uses}" if uses else "")
    why = fields.get("uncomparable")
    return f"{PYTHON}{fields.get('name')}" + (f": {why}" if why else "")


def _join(lineage: Lineage, node: Node) -> dict[str, Any]:
    """Join keys in the order of the condition's equalities, which is the order of the state's key columns
    (ExtractEquiJoinKeys; StreamingSymmetricHashJoinExec); the order of the other conditions does not count."""
    left, right = (dict(lineage.columns(child)) for child in node.children)
    env = {**left, **right}
    told = sided(lineage, node)
    by_side = {**{k: told[0](t) for k, t in left.items()}, **{k: told[1](t) for k, t in right.items()}}
    keys, rest = [], []
    conditions = node.expressions("condition")
    for part in _conjuncts(conditions[0]) if conditions else ():
        sides = [_references(side) for side in part.children] if part.name in ("EqualTo", "EqualNullSafe") else []
        if len(sides) == 2 and all(sides) and sides[0] <= left.keys() and sides[1] <= right.keys():
            keys.append(f"{text(part.children[0], env)} {_equals(part)} {text(part.children[1], env)}")
        elif len(sides) == 2 and all(sides) and sides[0] <= right.keys() and sides[1] <= left.keys():
            keys.append(f"{text(part.children[1], env)} {_equals(part)} {text(part.children[0], env)}")
        else:
            rest.append(text(part, by_side))
    return {
        "join type": join_type(node),
        "keys": keys,
        "condition": sorted(rest),
        "left columns": [t for _, t in lineage.columns(node.children[0])],
        "right columns": [t for _, t in lineage.columns(node.children[1])],
    }


def _conjuncts(condition: Node) -> Iterator[Node]:
    if condition.name == "And":
        for child in condition.children:
            yield from _conjuncts(child)
    else:
        yield condition


def _references(expression: Node) -> set[int]:
    return {n.fields["exprId"]["id"] for n in expression.walk() if n.name == "AttributeReference"}


def _equals(node: Node) -> str:
    return "=" if node.name == "EqualTo" else "<=>"


def _object(node: Node, field: str) -> str:
    """The simple name of a Scala object in a field."""
    value = node.fields.get(field)
    return str(value["object"]).strip("$").rsplit("$", 1)[-1].rsplit(".", 1)[-1] if isinstance(value, dict) else "?"
