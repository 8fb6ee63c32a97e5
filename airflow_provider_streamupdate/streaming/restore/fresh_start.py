"""The check of a start without state in the driver, which can read the logs of file sinks."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from pyspark.sql import SparkSession

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.compatibility.report import CompatibilityReport, IncompatibleError
from ...core.compatibility.rules.sinks import kind_of
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.registry.registry import AppRegistry
from ...core.snapshots.fresh_start import compare_fresh, plans_before
from .. import spark_internals


def judge_start(
    app: AppRegistry, plan: AppPlan, agree: Iterable[str] = (), deployment: str | None = None
) -> CompatibilityReport:
    """Return what starting without state means for the queries; for a `deployment`, only for those that have committed
    no batch."""
    queries, logged = [], {}
    for query in plan.queries:
        own = Checkpoint(app.checkpoint(deployment, query.name)) if deployment else None
        if own is not None and own.committed_batch() is not None:
            continue
        queries.append(query)
        last, begun = _last_in_files(query), own.logged_batch() if own else None
        # What is in its log and not after the batch in its own offset log is that batch, in flight as its driver died.
        if last is not None and (begun is None or last > begun):
            logged[query.name] = last
    return compare_fresh(plans_before(app, deployment), attrs.evolve(plan, queries=tuple(queries)), logged, agree)


def check_start(app: AppRegistry, plan: AppPlan, agree: Iterable[str], deployment: str) -> None:
    """Raise IncompatibleError, with the report, when the deployment's start without state is refused."""
    report = judge_start(app, plan, agree, deployment)
    if not report.compatible:
        raise IncompatibleError(f"{deployment} cannot start without state: {'; '.join(report.problems)}", report)


def _last_in_files(query: QueryPlan) -> int | None:
    if not kind_of(query.sink.format).has_log:
        return None
    path = query.sink.path
    return spark_internals.file_sink_batch(SparkSession.active(), path) if path else None
