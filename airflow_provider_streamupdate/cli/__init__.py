"""The command line ``streamupdate``: the client without Airflow.

Its modules import little, so that it starts fast; a command imports what it needs when it runs.
"""

from __future__ import annotations

from .commands import (
    adopt,
    apps,
    dags,
    doctor,
    gc,
    history,
    metrics,
    output,
    pipeline,
    snapshots,
    standby,
    status,
    supervise,
    trace,
    trial,
    updates,
)
from .group import main

for _command in (
    trial.try_script,
    apps.submit,
    apps.restart,
    supervise.supervise,
    standby.standby,
    updates.update,
    updates.rollback,
    updates.plan,
    updates.names,
    updates.check,
    updates.rehearse,
    status.list_apps,
    status.status,
    status.log,
    history.history,
    output.output,
    metrics.metrics,
    trace.trace,
    snapshots.save,
    snapshots.list_all,
    snapshots.verify,
    snapshots.delete,
    gc.gc,
    adopt.adopt,
    pipeline.pipeline,
    apps.suspend,
    apps.resume,
    apps.cancel,
    apps.delete,
    doctor.doctor,
    dags.init_dags,
):
    main.add_command(_command)

__all__ = ["main"]
