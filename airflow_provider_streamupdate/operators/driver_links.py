"""What the steps of an update leave: a note in its record under the root, links to the driver they started."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import DownstreamTasksSkipped
from airflow.sdk import BaseOperator

from ..control.update import record as records
from ..core.errors import StreamUpdateError
from ..links.streamupdate import DriverLogLink, SparkUiLink, file_link, push_link

if TYPE_CHECKING:
    from ..control.client import StreamUpdateClient


def note_step(
    client: StreamUpdateClient, app: str, deployment: str | None, step: str, verified: Iterable[str] = ()
) -> None:
    """Note that the update that brings `deployment` in has completed `step`, and renew its lease; nothing when there
    is no such update under way. verified: the conditions of health that were met."""
    registry = client.registry.existing(app)
    record = registry.update(deployment) if deployment else None
    if record is not None and record.outcome is None:
        records.step(registry, record.new, step, verified=tuple(verified))


def end_after_check(task: BaseOperator) -> None:
    """Ends the run's work behind `task`, because a check only was asked for. What follows is skipped, down to the
    outcome, which tells how the check went."""
    task.log.info("a check only was asked for: nothing is updated")
    raise DownstreamTasksSkipped(tasks=sorted(task.downstream_task_ids))


def link_driver(context: Any, client: StreamUpdateClient, app: str, deployment: str) -> None:
    """Links from the task to the driver's log and, once it has one, its Spark UI."""
    drivers = client.drivers(app)
    push_link(context, DriverLogLink, file_link(drivers.log(deployment)))
    status = drivers.status(deployment)
    push_link(context, SparkUiLink, status.spark_ui if status else None)


def stop_driver(client: StreamUpdateClient, app: str, deployment: str, log: Any) -> None:
    """End the driver of a killed task; what goes wrong is only logged, so that the kill is what is seen."""
    log.warning("stopping the driver of %s deployment %s", app, deployment)
    try:
        client.stop_deployment(app, deployment)
    except StreamUpdateError as error:
        log.error("could not stop the driver: %s", error)
