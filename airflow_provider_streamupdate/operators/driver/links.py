"""Notes of an update's steps in its record under the root, and links to their driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import DownstreamTasksSkipped, TaskDeferred
from airflow.sdk import BaseOperator

from ...control.update import record as records
from ...core import clock
from ...core.errors import StreamUpdateError
from ...core.registry.update import Attempt, Step
from ...hooks.errors import AirflowRescheduleException
from ...hooks.metrics import count_update
from ...links.streamupdate import DriverLogLink, SparkUiLink, file_link, push_link
from ..base import owner_of, traceparent_of

if TYPE_CHECKING:
    from ...control.client import StreamUpdateClient


def note_step(
    client: StreamUpdateClient, app: str, deployment: str | None, step: Step, verified: Iterable[str] = ()
) -> None:
    """Record that the update to `deployment` has completed `step`, and renew its lease.

    Does nothing when no such update is under way.

    verified: the conditions of health that were met
    """
    registry = client.registry.existing(app)
    record = registry.update(deployment) if deployment else None
    if record is not None and record.outcome is None:
        records.step(registry, record.new, step, verified=tuple(verified))


@contextmanager
def trying(
    client: StreamUpdateClient, app: str, deployment: str | None, step: Step, context: Any, begins: bool = True
) -> Iterator[None]:
    """Note the block as a try of an update's step. One that waits in the triggerer continues in a later block.

    Does nothing when no such update is under way.

    begins: the try may begin here
    """
    registry = client.registry.existing(app)
    record = registry.update(deployment) if deployment else None
    if record is None or record.outcome is not None:
        yield
        return
    if begins:
        ti = context["ti"]
        attempt = Attempt(step=step, began_at=clock.now(), by=owner_of(ti), traceparent=traceparent_of(ti))
        with suppress(StreamUpdateError):  # no step needs these notes
            records.begin_attempt(registry, record.new, attempt, again=True)
    failed: BaseException | None = None
    try:
        yield
    except BaseException as error:
        failed = error
        raise
    finally:
        if not isinstance(failed, TaskDeferred | AirflowRescheduleException):
            with suppress(StreamUpdateError):
                records.end_attempt(registry, record.new, step, failed)


@contextmanager
def counting(client: StreamUpdateClient, app: str, deployment: str | None) -> Iterator[None]:
    """Count the update that the block ends, unless it had ended before.

    deployment: the one that the update brings in; None: the update under way
    """
    registry = client.registry.existing(app)
    before = registry.update(deployment) if deployment else registry.update_under_way()
    yield
    if before is None or before.outcome is not None:
        return
    after = registry.update(before.new)
    if after is not None and after.outcome is not None:
        count_update(after)


def end_after_check(task: BaseOperator) -> None:
    """Skip the tasks after `task`, because only a check was asked for. The outcome task still reports the result."""
    task.log.info("only a check was asked for: nothing is updated")
    raise DownstreamTasksSkipped(tasks=sorted(task.downstream_task_ids))


def link_driver(context: Any, client: StreamUpdateClient, app: str, deployment: str) -> None:
    """Add links from the task to the driver's log and, once it has one, its Spark UI."""
    drivers = client.drivers(app)
    push_link(context, DriverLogLink, file_link(drivers.log(deployment)))
    status = drivers.status(deployment)
    push_link(context, SparkUiLink, status.spark_ui if status else None)


def stop_driver(client: StreamUpdateClient, app: str, deployment: str, log: Any) -> None:
    """End the driver of a killed task. An error is only logged, so that the task's failure shows the kill."""
    log.warning("stopping the driver of %s deployment %s", app, deployment)
    try:
        client.stop_deployment(app, deployment)
    except StreamUpdateError as error:
        log.error("could not stop the driver: %s", error)
