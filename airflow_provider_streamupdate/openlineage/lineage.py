"""What a task did, as OpenLineage has it: datasets read and written, and this provider's facet."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs

from ..core.errors import StreamUpdateError
from ..core.snapshots.snapshots import SnapshotStore
from ..plugins.masking import masked, reason_of
from .datasets import Flow, Named, at, flow_of

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage

    from ..control.client import StreamUpdateClient
    from ..core.registry.registry import AppRegistry


@attrs.frozen(kw_only=True)
class Touched:
    """The objects that a task worked on."""

    app: str
    deployment: str | None = None  # None: none, or not yet
    snapshot: str | None = None  # the one that it took
    update: str | None = None  # the one that it is a step of
    promoted: bool = False  # it promoted the deployment, which is an event of the app's asset


def lineage_of(touched: Touched, client: StreamUpdateClient | None = None) -> OperatorLineage | None:
    """Return the lineage of a task; None without OpenLineage's provider.

    client: reads the records under the root; None: only the task's arguments are reported. Records that cannot be read
        are left out: lineage never fails a task.
    """
    try:
        from airflow.providers.openlineage.extractors import OperatorLineage

        from .facet import FACET, StreamUpdateRunFacet
    except ImportError:
        return None
    facts: dict[str, Any] = {"snapshot": touched.snapshot, "update": touched.update, "deployment": touched.deployment}
    flow = Flow(outputs=(Named("streamupdate", touched.app),) if touched.promoted else ())
    if client is not None:
        facts["root"] = client.root
        for lineage in (_at_snapshot, _at_deployment, _at_update):
            with suppress(StreamUpdateError):
                flow = _joined(flow, lineage(client.registry.app(touched.app), touched, facts))
    facet = StreamUpdateRunFacet(app=touched.app, **masked(facts), unnamed=list(flow.unnamed))
    return OperatorLineage(
        inputs=[_dataset(named) for named in flow.inputs],
        outputs=[_dataset(named) for named in flow.outputs],
        run_facets={FACET: facet},
    )


def _at_snapshot(registry: AppRegistry, touched: Touched, facts: dict[str, Any]) -> Flow:
    """Return the flow into a snapshot: its state is made of what the app has read."""
    if touched.snapshot is None:
        return Flow()
    snapshot = SnapshotStore(registry).get(touched.snapshot)
    facts |= {"deployment": touched.deployment or snapshot.deployment, "sparkVersion": snapshot.plan.spark_version}
    read = flow_of(snapshot.plan)
    adopted = [named for uri in snapshot.adopted_from.values() if (named := at(uri)) is not None]
    return Flow(inputs=(*read.inputs, *adopted), outputs=_snapshot(registry, touched.snapshot), unnamed=read.unnamed)


def _at_deployment(registry: AppRegistry, touched: Touched, facts: dict[str, Any]) -> Flow:
    """Return what a deployment reads and writes, and the snapshot that it starts from.

    A version that may not commit (yet) writes nothing, so its flow is empty.
    """
    deployment = touched.deployment
    if deployment is None or deployment not in registry.deployment_ids():
        return Flow()
    spec, plan = registry.spec(deployment), registry.plan(deployment)
    facts |= {"previous": spec.parent, "snapshot": touched.snapshot or spec.from_snapshot}
    if plan is None:
        return Flow()
    facts["sparkVersion"] = plan.spark_version
    if registry.current_id() != deployment:
        return Flow()
    flow = flow_of(plan)
    if spec.from_snapshot is None:
        return flow
    of = registry.sibling(spec.from_app) if spec.from_app else registry
    return attrs.evolve(flow, inputs=(*flow.inputs, *_snapshot(of, spec.from_snapshot)))


def _at_update(registry: AppRegistry, touched: Touched, facts: dict[str, Any]) -> Flow:
    record = registry.update(touched.update) if touched.update else None
    if record is not None:
        facts |= {
            "previous": facts.get("previous") if touched.deployment == record.old else record.old,
            "strategy": record.strategy,
            "step": record.step,
            "outcome": None if record.outcome is None else str(record.outcome),
            "reason": reason_of(registry, record),
            "pauseSeconds": record.pause_seconds,
        }
    return Flow()


def _snapshot(registry: AppRegistry, name: str) -> tuple[Named, ...]:
    named = at(f"{registry.folder.uri}/snapshots/{name}")
    return () if named is None else (named,)


def _joined(one: Flow, other: Flow) -> Flow:
    def union(field: str) -> Any:
        return tuple(dict.fromkeys((*getattr(one, field), *getattr(other, field))))

    return Flow(inputs=union("inputs"), outputs=union("outputs"), unnamed=union("unnamed"))


def _dataset(named: Named) -> Any:
    from airflow.providers.common.compat.openlineage import facet

    fields = [facet.SchemaDatasetFacetFields(name=name, type=kind) for name, kind in named.fields]
    facets = {"schema": facet.SchemaDatasetFacet(fields=fields)} if fields else {}
    return facet.Dataset(namespace=named.namespace, name=named.name, facets=facets)
