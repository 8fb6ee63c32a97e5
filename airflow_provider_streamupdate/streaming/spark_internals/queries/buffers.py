"""How Spark keeps aggregates between batches, and of which inputs a stateful operator drops late rows: read from a
physical plan."""

from __future__ import annotations

import re
from typing import Any

from ....core.plan.plan import AggregateBuffer
from ..jvm import asking, class_names, identity_function, is_a, lines, sequence
from ..plans.expressions import timed
from ..version import STATEFUL

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_AGGREGATES = f"{_EXPRESSIONS}.aggregate"
_FUNCTION = f"{_AGGREGATES}.AggregateExpression#aggregateFunction"
_INITIAL = f"{_AGGREGATES}.DeclarativeAggregate#initialValues"
_COLUMNS = f"{_AGGREGATES}.AggregateFunction#aggBufferAttributes"
_TREE = "org.apache.spark.sql.catalyst.trees.TreeNode"
_TYPE = (f"{_EXPRESSIONS}.Expression#dataType", "org.apache.spark.sql.types.DataType#catalogString")
_UNSCALED = f"{_EXPRESSIONS}.UnscaledValue"
_WRITER = f"{STATEFUL}.StateStoreWriter"
_SIZE = "scala.collection.SeqOps#size"


def aggregate_buffers(jvm: Any, plan: Any) -> dict[int, tuple[AggregateBuffer, ...]]:
    """Return the buffers of each StateStoreSaveExec's aggregates, and of a session window's, in the order of the state
    row (StreamingAggregationStateManager: the value is the aggregation's input without the keys, and that input is the
    aggregates' aggBufferAttributes, one after the other)."""
    found = {}
    inner = plan.map(identity_function(jvm))
    for number, name in enumerate(class_names(jvm, inner)):
        if name.endswith("StateStoreSaveExec"):
            node = inner.apply(number)
            # The nearest below: with code generation there are nodes in between.
            below = node.child().map(identity_function(jvm))
            names = map(_simple, class_names(jvm, below))
            nearest = below.apply(next(i for i, name in enumerate(names) if "Aggregate" in name))
            found[int(node.stateInfo().get().operatorId())] = _buffers(jvm, nearest.aggregateExpressions())
    return found


def _buffers(jvm: Any, expressions: Any) -> tuple[AggregateBuffer, ...]:
    """expressions: a scala.Seq of AggregateExpression. DeclarativeAggregate has initial values as expressions;
    TypedImperativeAggregate keeps one serialized object. Other ImperativeAggregates (a HyperLogLog, for example) fill
    their buffer in code: not known."""
    functions = expressions.map(asking(jvm, _FUNCTION))
    declarative, typed = (is_a(jvm, f"{_AGGREGATES}.{name}Aggregate") for name in ("Declarative", "TypedImperative"))
    values = functions.filter(declarative).map(asking(jvm, _INITIAL))
    counts = iter(lines(jvm, values.map(asking(jvm, _SIZE))))
    texts = iter(lines(jvm, values.flatMap(identity_function(jvm)).map(asking(jvm, f"{_EXPRESSIONS}.Expression#sql"))))
    operands = _operands(jvm, functions)
    found = []
    for number, (name, columns, is_declarative, is_typed) in enumerate(
        zip(
            class_names(jvm, functions),
            lines(jvm, functions.map(asking(jvm, _COLUMNS, _SIZE))),
            lines(jvm, functions.map(declarative)),
            lines(jvm, functions.map(typed)),
            strict=True,
        )
    ):
        initial: tuple[str, ...] = ()
        if is_declarative == "true":
            initial = tuple(next(texts) for _ in range(int(next(counts))))
        elif is_typed == "true":
            function = functions.apply(number)
            initial = (f"X'{bytes(function.serialize(function.createAggregationBuffer())).hex()}'",)
        operand, unscaled = operands[number]
        found.append(
            AggregateBuffer(
                function=_simple(name), columns=int(columns), initial=initial, operand=operand, unscaled=unscaled
            )
        )
    return tuple(found)


def _operands(jvm: Any, functions: Any) -> list[tuple[str, bool]]:
    """Return the type of the only operand of each function, and whether the function is given a decimal without its
    scale."""
    children = asking(jvm, f"{_TREE}#children")
    counts = [int(count) for count in lines(jvm, functions.map(asking(jvm, f"{_TREE}#children", _SIZE)))]
    operands = functions.flatMap(children)
    types = lines(jvm, operands.map(asking(jvm, *_TYPE)))
    bare = [name.endswith(".UnscaledValue") for name in class_names(jvm, operands)]
    if any(bare):
        decimals = operands.filter(is_a(jvm, _UNSCALED)).flatMap(children).map(asking(jvm, *_TYPE))
        scaled = iter(lines(jvm, decimals))
        types = [next(scaled) if is_bare else kind for kind, is_bare in zip(types, bare, strict=True)]
    found, at = [], 0
    for count in counts:
        found.append((types[at], bare[at]) if count == 1 else ("", False))
        at += count
    return found


def event_times(jvm: Any, plan: Any) -> dict[int, dict[int, int]]:
    """Return for each stateful operator the id of the column by which rows are late, by the number of the input that
    has one. Only there are late rows dropped (WatermarkSupport.findEventTimeColumn; for a join the same by side): the
    optimizer removes a column that nothing above reads. Spark refuses two, or takes the first."""
    writers = plan.map(identity_function(jvm)).filter(is_a(jvm, _WRITER))
    return {
        int(node.stateInfo().get().operatorId()): {
            number: columns[0]
            for number, child in enumerate(sequence(node.children()))
            if (columns := timed(jvm, child.output()))
        }
        for node in sequence(writers)
    }


def _simple(name: str) -> str:
    """A class's name without what it is in (Class.getSimpleName)."""
    return re.split(r"[.$]", name)[-1]
