"""Whether the flows of a pipeline can go on from the checkpoints that are there."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from ...core.checkpoint.checkpoint import Checkpoint
from ...core.compatibility.agreement import agree
from ...core.compatibility.report import CompatibilityReport
from ...core.compatibility.verdict import EMPTY, LOSS, REFUSED, ReportItem
from ...core.plan.plan import AppPlan, QueryPlan
from ...core.plan.state_stores import as_recorded
from ...core.storage import Folder
from ...streaming import spark_internals
from ...streaming.restore.restorer import check_restorable
from ...streaming.restore.saved_state import SavedState
from ...streaming.restore.skipped import in_sink
from ..record import PipelineRecord, is_unchanged, logged_batch, newest_version, version_folder
from .pipeline import Pipeline

_ADOPT = "tell which code it was: streamupdate pipeline adopt SPEC, with the spec of the code that ran last"


@attrs.frozen(kw_only=True)
class Verdicts:
    """The comparison of a pipeline's flows with their checkpoints.

    report: the verdicts
    plan: the new code's plan of the flows that have a checkpoint
    saved: the state that they continue from
    new: flows without a checkpoint
    left: flows whose checkpoint stays as it is, because its code is unknown
    """

    report: CompatibilityReport
    plan: AppPlan
    saved: SavedState
    new: tuple[str, ...]
    left: tuple[str, ...]


def compare_flows(
    pipeline: Pipeline,
    storage: Folder,
    record: PipelineRecord | None,
    agreed: Iterable[str],
    renames: Mapping[str, str],
) -> Verdicts:
    """Compare every flow with the code that its checkpoint belongs to, and have Spark check the restored state."""
    found = dict(_unknown(pipeline, storage, record))
    known = {name: flow for name, flow in (record.flows if record else {}).items() if name not in found}
    new = tuple(name for name in pipeline.flows if name not in found and name not in known)
    saved = _saved(pipeline, storage, record, known).renamed(renames)
    plans = [
        pipeline.plan(flow, saved.queries[name].conf if saved.holds(name) else None)
        for name, flow in pipeline.flows.items()
        if name in known
    ]
    plan = AppPlan(app=pipeline.name, spark_version=pipeline.version, queries=tuple(plans))
    named = [entry for entry in agreed if str(entry).partition("=")[0].strip() not in found]
    report = saved.compare(plan, named)
    extra = [*_begun_anew(pipeline, new), *_first_batches(record, saved, plan)]
    items = (*report.items, *agree(found.values(), [e for e in agreed if e not in named]), *extra)
    report = attrs.evolve(report, items=items)
    if report.compatible:
        report = _restorable(pipeline, saved, report, plan)
    left = tuple(name for name, item in found.items() if item.verdict == LOSS)
    return Verdicts(report=report, plan=plan, saved=saved, new=new, left=left)


def alike(old: QueryPlan, new: QueryPlan) -> bool:
    """Whether a restart on the same checkpoint is the same query."""
    return attrs.evolve(old, written="") == attrs.evolve(new, written="")


def _begun_anew(pipeline: Pipeline, new: Iterable[str]) -> Iterator[ReportItem]:
    """Flows without a checkpoint, which begin with batch 0."""
    for name in new:
        flow = pipeline.flows[name]
        verdict, reason, last = EMPTY, "it is new", pipeline.sink_batch(flow)
        if last is not None:
            verdict = REFUSED
            reason = (
                f"it is new, and {flow.shown} has batches up to {last} of another flow, or of a checkpoint that is "
                "gone: a file sink skips what has a number that it has, so that rows would be lost. Give the flow the "
                "name that it had, or let it write to another table, or refresh the table in full"
            )
        yield ReportItem(thing="query", name=name, verdict=verdict, reason=reason)


def _first_batches(record: PipelineRecord | None, saved: SavedState, plan: AppPlan) -> Iterator[ReportItem]:
    """Flows with other code than that of their first batch, which did not commit: they begin anew."""
    for query in plan.queries:
        before = record.flows[query.name] if record else None
        if before is None or before.batch < 0 or saved.holds(query.name) or alike(before.plan, query):
            continue
        with spark_internals.classic():
            has = in_sink(query, 0)
        if has is not False:
            yield ReportItem(
                thing="query",
                name=query.name,
                verdict=REFUSED,
                reason="its first batch did not commit, but what it writes to has that batch, or may have it: run it "
                "once with the code of that batch, or refresh the flow in full",
            )


def _restorable(
    pipeline: Pipeline, saved: SavedState, report: CompatibilityReport, plan: AppPlan
) -> CompatibilityReport:
    for query in plan.queries:
        with (
            tempfile.TemporaryDirectory(prefix="streamupdate-check-") as scratch,
            pipeline.started(pipeline.flows[query.name]) as writer,
        ):
            one = attrs.evolve(plan, queries=(query,))
            report = check_restorable(saved, report, one, {query.name: writer}, Path(scratch))
    return report


def _saved(
    pipeline: Pipeline, storage: Folder, record: PipelineRecord | None, known: Mapping[str, object]
) -> SavedState:
    flows = {name: flow for name, flow in (record.flows if record else {}).items() if name in known}
    folders = {name: storage.sub(version_folder(flow.folder, flow.version)) for name, flow in flows.items()}
    queries = {
        name: Checkpoint(folders[name]).export(carry_in_flight=True, source_order=flow.plan.source_order)
        for name, flow in flows.items()
        if flow.batch >= 0 and Checkpoint(folders[name]).committed_batch() is not None
    }
    # A flow without a batch holds nothing that its code must be compared with.
    flows = {name: flow for name, flow in flows.items() if name in queries}
    version = record.spark_version if record else pipeline.version
    plan = AppPlan(app=pipeline.name, spark_version=version, queries=tuple(flow.plan for flow in flows.values()))
    plan = as_recorded(plan, {name: query.conf for name, query in queries.items()})
    return SavedState(source=f"the checkpoints in {storage.path()}", plan=plan, queries=queries, folders=folders)


def _unknown(pipeline: Pipeline, storage: Folder, record: PipelineRecord | None) -> Iterator[tuple[str, ReportItem]]:
    """The flows that cannot be compared, and why."""

    def refused(name: str, reason: str) -> tuple[str, ReportItem]:
        return name, ReportItem(thing="query", name=name, verdict=REFUSED, reason=reason)

    for name, flow in pipeline.flows.items():
        before = record.flows.get(name) if record else None
        version = newest_version(storage, flow.folder)
        batch = logged_batch(storage, flow.folder, version)
        if before is None and batch < 0:
            continue
        if flow.unknown:
            yield name, _of_unknown_kind(flow)
        elif before is None:
            yield refused(
                name, f"its checkpoint {flow.folder}/{version} is there, but not which code wrote it; {_ADOPT}"
            )
        elif before.folder != flow.folder:
            yield refused(
                name,
                f"it wrote to another table ({before.folder.rpartition('/')[0]}), where its checkpoint is; give the "
                "flow another name, so that it starts anew, or let it write to that table",
            )
        elif version < 0:
            yield refused(
                name,
                f"its checkpoint {before.folder}/{before.version} is gone: Spark would start the flow anew, beside the "
                f"rows that its table has. Bring the folder back; to start anew, {_ADOPT}",
            )
        elif before.version != version:
            yield refused(
                name,
                f"Spark will use version {version} of its checkpoint, but the known code is that of version "
                f"{before.version} (a full refresh makes a new version); {_ADOPT}",
            )
        elif not is_unchanged(storage, before):
            yield refused(
                name,
                f"it has run outside of `streamupdate pipeline run`, from batch {before.batch} to {batch}, with code "
                f"that is not known; {_ADOPT}",
            )
        elif problem := missing_table(pipeline, flow, batch):
            yield refused(name, problem)
        elif changed := pipeline.changed_inputs(flow):
            yield refused(
                name,
                f"it reads {', '.join(changed)}, which this version gives other columns: what Spark starts for the "
                "flow is not known before the table has them. Add the columns first (ALTER TABLE ... ADD COLUMNS), or "
                "refresh a materialized view alone (spark-pipelines run --refresh)",
            )


def missing_table(pipeline: Pipeline, flow: spark_internals.PipelineFlow, batch: int) -> str | None:
    """Why a flow that has run up to `batch` cannot go on, where its table is not in the catalog."""
    if pipeline.has_table(flow):
        return None
    return (
        f"it has run up to batch {batch}, but its table {flow.shown} is not in the catalog: Spark would make an empty "
        "one and go on after that batch. Use the catalog that has the table; in an in-memory catalog it is gone after "
        "each run (spark.sql.catalogImplementation=hive has it for good)"
    )


def _of_unknown_kind(flow: spark_internals.PipelineFlow) -> ReportItem:
    return ReportItem(
        thing="query",
        name=flow.name,
        verdict=LOSS,
        reason=f"a flow of kind {flow.unknown} is not understood: it goes on from its checkpoint, and whether its "
        "meaning has changed is not known",
        needs_agreement=True,
    )
