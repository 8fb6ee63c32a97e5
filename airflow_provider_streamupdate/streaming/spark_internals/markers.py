"""Names inside a plan. An alias (a SubqueryAlias) stays in the analyzed plan, and costs nothing at run time (measured);
but what is above it can no longer name a column by an alias below it. So a projection above it gives the columns back
as they were. The optimizer removes both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from .jvm import module, named, scala_seq, sequence, static

_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical"


def with_marker(df: DataFrame, path: Sequence[int], name: str) -> DataFrame:
    """`df` with the alias `name` around one node of its analyzed plan. What names a column of `df` names the same one
    of what is returned: by name, by an alias, as a column of a DataFrame, with a star; hidden columns, too.

    path: the way to the node from the top: at each node the index of the child
    """
    spark = df.sparkSession
    plan = _replaced(spark, df._jdf.queryExecution().analyzed(), path, name)
    made = module(spark, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, plan)
    return DataFrame(made, spark)


def _replaced(spark: Any, plan: Any, path: Sequence[int], name: str) -> Any:
    if not path:
        return _marked(spark, plan, name)
    children = sequence(plan.children())
    children[path[0]] = _replaced(spark, children[path[0]], path[1:], name)
    return plan.withNewChildren(scala_seq(spark._jvm, children))


def _marked(spark: Any, node: Any, name: str) -> Any:
    project, around = (named(spark._jvm, f"{_LOGICAL}.{kind}") for kind in ("Project", "SubqueryAlias"))
    identifier = static(spark._jvm, "org.apache.spark.sql.catalyst.AliasIdentifier#apply")(name)
    made = project(node.output(), around(identifier, node))
    # Columns of the source's files, and those that a join by names (USING) hides: an alias hides the second kind.
    made.setTagValue(module(spark, f"{_LOGICAL}.Project").hiddenOutputTag(), node.metadataOutput())
    return made
