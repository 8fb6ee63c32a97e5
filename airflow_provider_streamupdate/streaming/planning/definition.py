"""What a stateful operator's state means: its keys, aggregates, condition, function ... traced to source columns.

Sources: the physical operators of Spark 4.3, which decide what lands in the state (StatefulAggregationStrategy,
StreamingDeduplicateExec, StreamingSymmetricHashJoinExec, FlatMapGroupsInPandasWithStateExec,
TransformWithStateInPySparkExec, StreamingGlobalLimitExec).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from ...core.plan.expressions import Call, Expression, Literal, Python, Unknown, named
from ...core.plan.plan import (
    Aggregation,
    Deduplication,
    Definition,
    Join,
    Limit,
    NotUnderstood,
    PandasFunction,
    Processor,
    StateVariable,
)
from ..catalyst.tree import Node
from ..catalyst.types import is_comparable, type_text, user_types
from .expressions.expression import expression
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


def define(lineage: Lineage, node: Node, operator: dict[str, Any]) -> Definition:
    """Return the definition of a stage. operator: Spark's metadata of it"""
    match KINDS.get(operator["operatorInfo"]["operatorName"]):
        case "aggregate" | "session-window":
            found = (each.expression for each in aggregates(node, lineage.inputs(node)))
            return Aggregation(keys=_keys(lineage, node, "groupingExpressions"), aggregates=tuple(found))
        case "deduplicate" | "deduplicate-within-watermark":
            return Deduplication(keys=_keys(lineage, node, "keys"))
        case "join":
            return _join(lineage, node)
        case "limit":
            return Limit(rows=lineage.expressions(node, "limitExpr")[0])
        case "apply-in-pandas-with-state":
            return PandasFunction(
                keys=_keys(lineage, node, "groupingAttributes"),
                code=_code(node),
                input=_input(lineage, node, 0),
                timeout=_object(node, "timeout"),
            )
        case "transform-with-state":
            return _processor(lineage, node, json.loads(operator.get("operatorPropertiesJson") or "{}"))
    return NotUnderstood()


def _keys(lineage: Lineage, node: Node, field: str) -> tuple[Expression, ...]:
    return tuple(lineage.expressions(node, field))


def _processor(lineage: Lineage, node: Node, properties: dict[str, Any]) -> Processor:
    """Return a transformWithState: the first columns of its input are the keys; its state variables are its own."""
    count = int(node.fields.get("groupingAttributesLen") or 0)
    variables = (
        StateVariable(name=v["stateName"], kind=v["stateVariableType"], ttl=bool(v.get("ttlEnabled")))
        for v in properties.get("stateVariables", [])
    )
    return Processor(
        keys=tuple(each for _, each in lineage.columns(node.children[0])[:count]),
        code=_code(node),
        input=_input(lineage, node, count),
        time_mode=properties.get("timeMode", "?"),
        initial_state=bool(node.fields.get("hasInitialState")),
        state_variables=tuple(sorted(variables, key=str)),
    )


# Expressions that ask for the time.
CLOCKS = ("CurrentTimestamp", "CurrentDate", "CurrentTime", "LocalTimestamp", "Now")
# Texts that are a date or a time of their own when they are cast (SpecialDatetimeValues); ``epoch`` is always the same.
_MOMENTS = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)


def asks_time(node: Node) -> bool:
    """Return whether an expression asks for the time of the batch in which it is computed."""
    if node.name in CLOCKS:
        return True
    text_of = node.children[0].fields.get("value") if node.name == "Cast" and node.children else None
    timed = str(node.fields.get("dataType", "")).startswith(("date", "timestamp"))
    return timed and isinstance(text_of, str) and _MOMENTS.match(text_of) is not None


def with_clocks(definition: Definition, written: Definition) -> Definition:
    """Return a definition in which what asks for the time is marked as not comparable. written: as the author wrote it
    (the analyzed plan)

    The plan of a dry run is another one than that of a running query there: the optimizer takes the moment of planning
    for a constant (ComputeCurrentTime), and drops it from grouping keys; a running query's batch time is none
    (MicroBatchExecution: CurrentBatchTimestamp). Measured: a key by the hour and one by the day looked the same.
    """
    found: dict[str, Any] = {}
    for part, value in attrs.asdict(written, recurse=False).items():
        asking = [e for e in (value if isinstance(value, tuple) else (value,)) if _shows_time(e)]
        if part != "input" and asking:
            marked = (Unknown("asks for the time", (e,)) if e in asking else e for e in _listed(value))
            found[part] = tuple(marked) if isinstance(value, tuple) else next(marked)
    return attrs.evolve(definition, **found) if found else definition


def _listed(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple) else (value,)


_CLOCK_CALLS = tuple(name.lower() for name in CLOCKS)


def _shows_time(value: Any) -> bool:
    return isinstance(value, Expression) and any(
        isinstance(node, Call) and (node.function in _CLOCK_CALLS or _is_moment(node)) for node in value.walk()
    )


def _is_moment(call: Call) -> bool:
    """Return whether a text is made a date or a time of its own."""
    if call.function != "cast" or not call.arguments or not isinstance(call.arguments[0], Literal):
        return False
    timed = dict(call.options).get("dataType", Literal("")).text.strip("'").startswith(("date", "timestamp"))
    return timed and _MOMENTS.match(call.arguments[0].value.strip("'\"")) is not None


def _input(lineage: Lineage, node: Node, keys: int) -> tuple[Call, ...]:
    """Return what a Python state function reads by which name. The projection below holds the grouping keys first, and
    then the columns the function is given."""
    [function] = node.expressions("functionExpr")
    columns = lineage.inputs(node).columns
    names = {a.fields["exprId"]["id"]: a.fields["name"] for a in function.children if a.name == "AttributeReference"}
    given = lineage.columns(node.children[0])[keys:]
    return tuple(named(str(names[key]), columns.get(key) or each) for key, each in given if key in names)


def _code(node: Node) -> Python:
    """Return the code of a state function and of what it uses, and the user-defined types of what it keeps, whose
    classes make its values."""
    [function] = node.expressions("functionExpr")
    fields = function.fields
    types = {type_text(kind): is_comparable(kind) for kind in user_types(node.fields.get("stateType"))}
    kept = tuple(("keeps", Literal(t) if known else Unknown(t)) for t, known in sorted(types.items()))
    if code := fields.get("code"):
        uses = fields.get("uses", {}).get("rendered")
        return Python(
            str(code),
            str(fields.get("name") or ""),
            options=(*((("uses", Literal(str(uses))),) if uses else ()), *kept),
        )
    why = fields.get("uncomparable")
    return Python("", f"{fields.get('name')}" + (f": {why}" if why else ""), options=kept)


def _join(lineage: Lineage, node: Node) -> Join:
    """Return the join. Its keys are in the order of the condition's equalities, which is the order of the state's key
    columns (ExtractEquiJoinKeys; StreamingSymmetricHashJoinExec)."""
    left, right = (dict(lineage.columns(child)) for child in node.children)
    scope = lineage.inputs(node)
    side = sided(lineage, node)
    by_side = scope.including({k: side[0](t) for k, t in left.items()} | {k: side[1](t) for k, t in right.items()})
    keys, rest = [], []
    conditions = node.expressions("condition")
    for part in _conjuncts(conditions[0]) if conditions else ():
        sides = [_references(side) for side in part.children] if part.name in ("EqualTo", "EqualNullSafe") else []
        known = len(sides) == 2 and all(sides)
        if known and sides[0] <= left.keys() and sides[1] <= right.keys():
            keys.append(Call(part.name.lower(), tuple(expression(each, scope) for each in part.children)))
        elif known and sides[0] <= right.keys() and sides[1] <= left.keys():
            keys.append(Call(part.name.lower(), tuple(expression(each, scope) for each in part.children[::-1])))
        else:
            rest.append(expression(part, by_side))
    return Join(
        join_type=join_type(node),
        keys=tuple(keys),
        condition=tuple(rest),
        left_columns=tuple(left.values()),
        right_columns=tuple(right.values()),
    )


def _conjuncts(condition: Node) -> Iterator[Node]:
    if condition.name == "And":
        for child in condition.children:
            yield from _conjuncts(child)
    else:
        yield condition


def _references(expression: Node) -> set[int]:
    return {n.fields["exprId"]["id"] for n in expression.walk() if n.name == "AttributeReference"}


def _object(node: Node, field: str) -> str:
    """Return the simple name of a Scala object in a field."""
    value = node.fields.get(field)
    return str(value["object"]).strip("$").rsplit("$", 1)[-1].rsplit(".", 1)[-1] if isinstance(value, dict) else "?"
