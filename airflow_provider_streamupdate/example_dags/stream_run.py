"""Run an app whose queries end by themselves (trigger `availableNow`): its current version reads what has come in since
the last run, and the DAG run ends with it.

Copy this file for each such app, with a `dag_id`, a `schedule`, and the app's name as the default of `app`. Updates are
made between two runs, with the DAG `stream_update`: the next run starts the new version.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_streamupdate.forms import app_param, connection_param, deployment_param, refuse_unknown_conf
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator

with DAG(
    "stream_run",
    schedule=None,
    catchup=False,  # one run reads all that has come in
    max_active_runs=1,
    is_paused_upon_creation=False,  # it has no schedule, and a triggered run must not wait
    # A retry joins the run that an earlier try started. While an update is under way, a try fails.
    default_args={"retries": 4, "retry_delay": timedelta(minutes=1), "pre_execute": refuse_unknown_conf},
    tags=["streamupdate"],
    doc_md=__doc__,
    dag_display_name="Run a scheduled streaming app",
    params={
        "app": app_param("the app, which was submitted once"),
        "deployment_id": deployment_param(
            "Run only if this deployment is the current one. Empty: run the current one."
        ),
        "conn_id": connection_param(),
    },
) as dag:
    StreamRestartOperator(
        task_id="run",
        until_finished=True,
        app="{{ params.app }}",
        deployment_id="{{ params.deployment_id }}",
        streamupdate_conn_id="{{ params.conn_id }}",
    )
