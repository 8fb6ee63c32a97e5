"""Updates that have begun, and of which no step was run."""

from __future__ import annotations

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.update import record
from airflow_provider_streamupdate.control.update.strategies import strategy_named
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.update import Step, UpdateRecord


def begin_update(
    client: StreamUpdateClient, app: str, deployment: str, digest: str = "", strategy: str = "restart"
) -> UpdateRecord:
    """Begin the update to `deployment`, or read its record."""
    now, how = clock.now(), strategy_named(strategy)
    wanted = UpdateRecord(
        app=app,
        old=client.registry.existing(app).current_id(),
        new=deployment,
        digest=digest,
        strategy=strategy,
        in_place=how.in_place,
        started_at=now,
        step_times={Step.PLAN: now},
    )
    return record.begin(client.context, wanted, how.replaces_dead)
