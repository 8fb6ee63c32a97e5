"""`source(name, df)`: give a source a name by which its offsets are found after an update; and the plan of the
sources."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
from pyspark.sql import DataFrame, SparkSession

from ..core.compatibility.rules.sources.source_options import (
    CORRUPT,
    CORRUPT_RECORD,
    FILES,
    OF_THE_SESSION,
    ORC_BY_POSITION,
    TRIED,
    choosy,
    short_format,
)
from ..core.errors import ApplicationError
from ..core.names import check_name
from ..core.plan.plan import SourcePlan
from ..core.secret_names import redacted_in_plan
from . import spark_internals
from .catalyst.tree import Node, alias, aliases_above, parse

_PREFIX = "__source__"  # of the alias around the source


def source(name: str, df: DataFrame) -> DataFrame:
    """Name the one streaming source `df` reads; returns `df` with the name in its plan. Every way to name a column of
    `df` names the same column of what is returned.

    Names are unique within a query. ApplicationError when `df` reads no streaming source, several, or one that is
    named already.
    """
    check_name("source", name)
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise ApplicationError(f"source({name!r}): this is not a streaming DataFrame; build it from spark.readStream")
    plan = parse(spark_internals.plan_shape(df))
    leaves = list(_leaves(plan, ()))
    if len(leaves) != 1:
        raise ApplicationError(
            f"source({name!r}): the DataFrame reads {len(leaves)} streaming sources; name each of them where it is read"
        )
    [details] = spark_internals.streaming_sources(df)
    if given := next(filter(None, (alias(node, _PREFIX) for node in plan.walk())), details["name"]):
        raise ApplicationError(f"source({name!r}): the source already has the name {given!r}")
    return spark_internals.with_marker(df, leaves[0], _PREFIX + name)


def plan_sources(
    query: str, df: DataFrame, analyzed: Node
) -> tuple[tuple[SourcePlan, ...], tuple[str, ...], dict[str, str]]:
    """The sources; for each line of the offset log the name of its source; and these names by the leaf (`output_ids`).

    Leaves with the same columns (by id) are one source: a DataFrame used twice (MicroBatchExecution's
    toExecutionRelationMap is keyed by the whole relation). Two sources cannot share a name: ApplicationError.
    """
    plans: dict[str, SourcePlan] = {}
    order = []
    found = spark_internals.streaming_sources(df)
    names, aliases = _given_names(analyzed), _aliases(analyzed, found)
    for details in found:
        leaf = parse(details["leaf"])
        key = output_ids(leaf)
        if key not in plans:
            given = names.get(key) or details["name"]
            plan = _plan(leaf, details, given, len(plans) + 1)
            plan = attrs.evolve(plan, name=given or aliases.get(key, plan.name))
            plan = attrs.evolve(plan, session=_said_by_the_session(df.sparkSession, plan))
            if any(plan.name == other.name for other in plans.values()):
                raise ApplicationError(
                    f"query {query}: two sources are named {plan.name!r}; give each its own name (a DataFrame that is "
                    "joined with itself reads its source twice: read it twice, and name each reading)"
                )
            plans[key] = plan
        order.append(plans[key].name)
    return tuple(plans.values()), tuple(order), {key: plan.name for key, plan in plans.items()}


def streaming_leaves(plan: Node) -> list[Node]:
    return [n for n in plan.walk() if not n.children and n.streaming]


def _leaves(plan: Node, path: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The paths from the top to the streaming sources."""
    if plan.name != "CTERelationRef" and not plan.children and plan.streaming:
        yield path
    for index, child in enumerate(plan.children):
        yield from _leaves(child, (*path, index))


def output_ids(leaf: Node) -> str:
    """The identity of a relation in a plan: the expression ids of its columns."""
    return json.dumps([a.fields["exprId"]["id"] for a in leaf.expressions("output")])


def without_secrets(options: dict[str, str]) -> dict[str, str]:
    """Options in lower case, as Spark compares them; values that may be secret are left out of plans. A connection
    string stays: it also says which source it is. What is shown of it is hidden (core/redaction)."""
    hidden = redacted_in_plan(options)
    return {k.lower(): v if k.lower().endswith("connectionstring") else hidden[k] for k, v in sorted(options.items())}


def _given_names(plan: Node) -> dict[str, str]:
    """The names given with `source`, by the leaf's columns."""
    return {
        output_ids(leaf): name
        for node in plan.walk()
        if (name := alias(node, _PREFIX))
        for leaf in streaming_leaves(node)
    }


def _aliases(plan: Node, found: list[dict[str, Any]]) -> dict[str, str]:
    """Return what PySpark's own ``alias()`` right behind `load` says, by the leaf's columns. Of two readings of one
    place none: nobody would notice that their aliases were exchanged."""
    places = {
        output_ids(parse(d["leaf"])): (d["format"], d["table"], d["path"], d["options"].get("path")) for d in found
    }
    aliases, several = aliases_above(plan), Counter(map(str, places.values()))
    leaves = [(output_ids(leaf), aliases.get(id(leaf))) for leaf in streaming_leaves(plan)]
    return {key: name for key, name in leaves if name and several[str(places.get(key))] == 1}


def _plan(leaf: Node, details: dict[str, Any], given: str | None, number: int) -> SourcePlan:
    options = without_secrets(details["options"])
    columns = leaf.expressions("output")
    return SourcePlan(
        name=given or f"source-{number}",
        named=given is not None,
        native=details["name"] is not None,
        format=details["format"],
        location=details["table"] or details["path"] or _location(options),
        columns={a.fields["name"]: a.fields["dataType"] for a in columns},
        options=options,
        order=tuple(a.fields["name"] for a in columns),
        code=details["code"],
    )


def _said_by_the_session(spark: SparkSession, source: SourcePlan) -> dict[str, str]:
    """Return the session's values of options that it gives a default: of those that the source was given, so that
    giving the session's value is no change, and of those that rules need."""
    kind, options = short_format(source.format), source.options
    if kind not in FILES:
        return {}
    said = {option: spark_internals.session_setting(spark, key) for option, key in OF_THE_SESSION.items()
            if option in options or (option == CORRUPT and kind in TRIED)}  # fmt: skip
    if said.get(CORRUPT) == CORRUPT_RECORD and CORRUPT not in options:
        del said[CORRUPT]  # what is assumed of a plan that does not say
    by_position = spark_internals.hadoop_setting(spark, ORC_BY_POSITION) if kind == "orc" else None
    return said if by_position is None else {**said, ORC_BY_POSITION: by_position}


def columns_read(
    sources: tuple[SourcePlan, ...], leaf_names: dict[str, str], optimized: Node
) -> tuple[SourcePlan, ...]:
    """The sources, with the columns that are read of those where it matters. (Where a source is used twice, it is read
    twice.)"""
    found: dict[str, list[tuple[str, ...]]] = {s.name: [] for s in sources if choosy(s)}
    for leaf, above in with_what_is_above(optimized, ()) if found else ():
        if leaf.streaming and (name := leaf_names.get(output_ids(leaf))) in found:
            found[str(name)].append(names_read(leaf, above))
    return tuple(attrs.evolve(s, read=tuple(sorted(found[s.name]))) if s.name in found else s for s in sources)


def with_what_is_above(node: Node, above: tuple[Node, ...]) -> Iterator[tuple[Node, tuple[Node, ...]]]:
    """The leaves, each with the nodes above it, the nearest first."""
    if not node.children:
        yield node, above
    for child in node.children:
        yield from with_what_is_above(child, (node, *above))


def names_read(leaf: Node, above: tuple[Node, ...]) -> tuple[str, ...]:
    """The columns that Spark reads: those that the filters and the projections right above it use; all of them where
    there is no projection (FileSourceStrategy, PhysicalOperation)."""
    names = {json.dumps(a.fields["exprId"]["id"]): str(a.fields["name"]) for a in leaf.expressions("output")}
    used: set[str] = set()
    for node in above:
        if node.name not in ("Filter", "Project"):
            break
        used |= {json.dumps(e.fields["exprId"]["id"]) for e in node.all_expressions() if "exprId" in e.fields}
        if node.name == "Project":
            return tuple(sorted(name for key, name in names.items() if key in used))
    return tuple(sorted(names.values()))


def _location(options: dict[str, str]) -> str | None:
    if "host" in options and "port" in options:
        return f"{options['host']}:{options['port']}"
    return next((options[k] for k in ("path", "subscribe", "subscribepattern", "assign") if options.get(k)), None)
