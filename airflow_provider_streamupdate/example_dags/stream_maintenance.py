"""Take periodic snapshots of every running app, verify them, delete old ones, and free unneeded disk space.

Only snapshots that this DAG took (their names begin with `periodic-`) and those of updates (`before-`) are ever
deleted; never an app's last one, and never one that a deployment depends on. Freed are bytes of failed snapshots,
checkpoints of deployments that no rollback goes back to, and leftovers of killed processes (`streamupdate gc`).
"""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param, get_current_context, task

from airflow_provider_streamupdate.forms import refuse_unknown_conf
from airflow_provider_streamupdate.operators.snapshot import StreamSnapshotOperator

log = logging.getLogger(__name__)
DEPLOYMENTS = "Superseded deployments"  # the form's second group

with DAG(
    "stream_maintenance",
    schedule=timedelta(hours=6),
    catchup=False,
    max_active_runs=1,
    tags=["streamupdate"],
    doc_md=__doc__,
    dag_display_name="Maintain streaming apps",
    default_args={"retries": 1, "retry_delay": timedelta(seconds=30), "pre_execute": refuse_unknown_conf},
    params={
        "keep_count": Param(10, type="integer", minimum=1, title="Keep", description="Snapshots kept per app."),
        "keep_days": Param(30, type="number", minimum=0, title="Keep for days", description="Older ones are deleted."),
        "keep_deployments": Param(
            2,
            type="integer",
            minimum=0,
            section=DEPLOYMENTS,
            title="Keep deployments",
            description="Superseded deployments per app that keep their checkpoint, in addition to those a rollback "
            "needs.",
        ),
        "keep_deployment_days": Param(
            7,
            type="number",
            minimum=0,
            section=DEPLOYMENTS,
            title="Keep deployments for days",
            description="Also keep the checkpoints of deployments superseded less than this many days ago.",
        ),
        "verify_all": Param(
            False,
            type="boolean",
            title="Verify all",
            description="Verify every snapshot by checksum, not only the ones just taken.",
        ),
    },
) as dag:

    @task
    def running_apps() -> list[str]:
        """Return the names of the apps that run."""
        from airflow_provider_streamupdate.core.errors import StreamUpdateError
        from airflow_provider_streamupdate.hooks.errors import airflow_errors
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook

        with airflow_errors():
            client = StreamUpdateHook().get_client(needs_root=True)
            running = []
            for app in client.apps():
                try:
                    if client.status(app).state == "running":
                        running.append(app)
                except StreamUpdateError as error:  # continue with the other apps; `verify` fails for this one
                    log.error("app %s: %s", app, error)
            return running

    @task
    def all_apps() -> list[str]:
        """Return the names of all apps: the snapshots of stopped apps age too."""
        from airflow_provider_streamupdate.hooks.errors import airflow_errors
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook

        with airflow_errors():
            return StreamUpdateHook().get_client(needs_root=True).apps()

    @task(map_index_template="{{ app }}", trigger_rule="all_done")
    def verify(app: str) -> dict[str, int]:
        """Verify the app's snapshots by checksum, and return each one's number of files. A damaged one fails it."""
        from airflow_provider_streamupdate.hooks.errors import airflow_errors
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook

        context = get_current_context()
        context["app"] = app
        with airflow_errors():
            client = StreamUpdateHook().get_client(needs_root=True)
            names = [snapshot.name for snapshot in client.snapshots(app)]
            if not context["params"]["verify_all"]:
                names = names[-1:]
            names += [snapshot.name for snapshot in client.damaged_snapshots(app)]  # to fail with what is wrong
            return {name: client.verify_snapshot(app, name, progress=log.info) for name in names}

    @task(map_index_template="{{ app }}")
    def retention(app: str) -> list[str]:
        """Delete snapshots that are too old or too many, and return their names."""
        from airflow_provider_streamupdate.hooks.errors import airflow_errors
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook
        from airflow_provider_streamupdate.retention import clean

        context = get_current_context()
        context["app"] = app
        params = context["params"]
        with airflow_errors():
            return clean(
                StreamUpdateHook().get_client(needs_root=True),
                app,
                keep_count=params["keep_count"],
                keep_seconds=params["keep_days"] * 86400,
                progress=log.info,
            )

    @task(map_index_template="{{ app }}")
    def collect(app: str) -> dict[str, Any]:
        """Free what the app does not need; return what was freed and what was kept, each with its reason.

        An app that is being updated is left as it is.
        """
        from airflow_provider_streamupdate.core.snapshots.superseded import Retention
        from airflow_provider_streamupdate.hooks.errors import airflow_errors
        from airflow_provider_streamupdate.hooks.streamupdate import StreamUpdateHook
        from airflow_provider_streamupdate.hooks.xcom import collected_dict

        context = get_current_context()
        context["app"] = app
        params = context["params"]
        retention = Retention(deployments=params["keep_deployments"], days=params["keep_deployment_days"])
        with airflow_errors():
            return collected_dict(
                StreamUpdateHook().get_client(needs_root=True).collect_or_leave(app, retention, progress=log.info)
            )

    snapshots = StreamSnapshotOperator.partial(
        task_id="snapshot",
        name="periodic-{{ dag_run.run_after.strftime('%Y%m%dT%H%M%SZ') }}",
        map_index_template="{{ task.app }}",
    ).expand(app=running_apps())
    apps = all_apps()
    snapshots >> (verified := verify.expand(app=apps))
    cleaned = retention.expand(app=apps)  # not while a snapshot is damaged: an older one may be needed then
    collected = collect.expand(app=apps)
    # The run fails when any task failed, although `verify` also runs after failed snapshots.
    verified >> cleaned >> collected
    [snapshots, verified, cleaned, collected] >> EmptyOperator(task_id="outcome", trigger_rule="none_failed")
