"""`stage(name, df)`: give a stateful operator a name by which its state is found after an update."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame

from ..core.errors import ApplicationError
from ..core.names import check_name
from . import spark_internals
from .catalyst.tree import Node, alias, aliases_above, parse

_PREFIX = "__stage__"  # of the alias around what the operator reads: its first child, or that of its local limit
_Path = tuple[int, ...]  # to a node from the top: the index of a child at each node


def stage(name: str, df: DataFrame) -> DataFrame:
    """Name the stateful operator nearest the top of `df`'s plan; returns `df` with the name in its plan. Every way to
    name a column of `df` names the same column of what is returned.

    Names are unique within a query. ApplicationError when the plan has no stateful operator above the previously
    named one, or two of them side by side (name each branch instead).
    """
    check_name("stage", name)
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise ApplicationError(f"stage({name!r}): this is not a streaming DataFrame; build it from spark.readStream")
    plan = parse(spark_internals.plan_shape(df))
    found = list(_nearest(plan, (), dict(_definitions(plan, ()))))
    if not found:
        raise ApplicationError(
            f"stage({name!r}): the plan has no stateful operator (aggregation, deduplication, transformWithState ...) "
            "above the previously named stage; call stage() right after the stateful step"
        )
    if len(found) > 1:
        raise ApplicationError(
            f"stage({name!r}): the plan has {len(found)} stateful operators side by side "
            f"({', '.join(n.name for _, n in found)}); call stage() on each branch before they are combined"
        )
    ((path, operator),) = found
    below = (0,) * (2 if _limits(operator) else 1)
    return spark_internals.with_marker(df, (*path, *below), _PREFIX + name)


def stage_names(plan: Node) -> list[str | None]:
    """The names of the stateful operators of an analyzed plan, in pre-order; None for one without a name."""
    return [_name(node) for node in plan.walk() if node.stateful]


def stage_aliases(plan: Node) -> list[str | None]:
    """Return what PySpark's own ``alias()`` right above each of them says: it may be there for a join, so that another
    one is no other name."""
    aliases = aliases_above(plan)
    return [aliases.get(id(node)) for node in plan.walk() if node.stateful]


def _nearest(plan: Node, path: _Path, definitions: dict[int, tuple[_Path, Node]]) -> Iterator[tuple[_Path, Node]]:
    """The stateful operators without a name that have no other one above them.

    definitions: what ``WITH`` defines, by the number that references have
    """
    if plan.stateful:
        if _name(plan) is None:
            yield path, plan
    elif plan.name == "CTERelationRef":
        where, defined = definitions[plan.fields["cteId"]]
        yield from _nearest(defined, where, definitions)
    else:
        children = len(plan.children)
        wanted = range(children - 1 if plan.name == "WithCTE" else 0, children)  # what it defines comes before its plan
        for index in wanted:
            yield from _nearest(plan.children[index], (*path, index), definitions)


def _definitions(plan: Node, path: _Path) -> Iterator[tuple[int, tuple[_Path, Node]]]:
    if plan.name == "CTERelationDef":
        yield plan.fields["id"], (path, plan)
    for index, child in enumerate(plan.children):
        yield from _definitions(child, (*path, index))


def _limits(operator: Node) -> bool:
    """Return whether the operator is one of the two nodes of a limit. Spark treats them as one while they are
    adjacent."""
    return operator.name == "GlobalLimit" and operator.children[0].name == "LocalLimit"


def _name(operator: Node) -> str | None:
    node = operator.children[0] if _limits(operator) else operator
    below = node.children[0].children  # under the projection that hides the alias
    return alias(below[0], _PREFIX) if len(below) == 1 else None
