"""`stage(name, df)`: give a stateful operator a name its state can be found by after an update."""

from __future__ import annotations

from pyspark.sql import DataFrame

from ..state.errors import ApplicationError
from ..state.names import check_name
from . import spark_internals
from .tree import Node, alias, parse

# An alias leaves a SubqueryAlias in the analyzed plan and costs nothing at run time (measured).
_PREFIX = "__stage__"


def stage(name: str, df: DataFrame) -> DataFrame:
    """Name the stateful operator nearest the top of `df`'s plan; returns `df` under an alias.

    Names are unique within a query. ApplicationError when the plan has no stateful operator above the previously
    named one, or two of them side by side (name each branch instead).
    """
    check_name("stage", name)
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise ApplicationError(f"stage({name!r}): this is not a streaming DataFrame; build it from spark.readStream")
    found = _nearest(parse(spark_internals.plan_shape(df)))
    if not found:
        raise ApplicationError(
            f"stage({name!r}): the plan has no stateful operator (aggregation, deduplication, transformWithState ...) "
            "above the previously named stage; call stage() right after the stateful step"
        )
    if len(found) > 1:
        raise ApplicationError(
            f"stage({name!r}): the plan has {len(found)} stateful operators side by side "
            f"({', '.join(n.name for n in found)}); call stage() on each branch before they are put together"
        )
    return df.alias(_PREFIX + name)


def stage_names(plan: Node) -> list[str | None]:
    """The names of the stateful operators of an analyzed plan, in pre-order; None for one without a name."""
    named: dict[int, str] = {}
    for node in plan.walk():
        if name := _marker(node):
            for operator in _nearest(node.children[0])[:1]:
                named[id(operator)] = name
    return [named.get(id(n)) for n in plan.walk() if n.stateful]


def _nearest(plan: Node) -> list[Node]:
    """The stateful operators with none above them, looking no further than the previous stage marker."""
    if plan.stateful:
        return [plan]
    if _marker(plan):
        return []
    return [found for child in plan.children for found in _nearest(child)]


def _marker(node: Node) -> str | None:
    return alias(node, _PREFIX)
