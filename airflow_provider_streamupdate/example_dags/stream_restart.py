"""Restart an app's dead driver: the current deployment continues from its own checkpoint.

The page Streams triggers this DAG; you can also trigger it with its form. A run for an app whose driver is alive
changes nothing. For a run of an app whose queries end by themselves, see the DAG `stream_run`.
It continues with its own code and parameters; a new version is brought in by the DAG `stream_update`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_streamupdate.forms import app_param, connection_param, deployment_param, refuse_unknown_conf
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator

with DAG(
    "stream_restart",
    schedule=None,
    catchup=False,
    is_paused_upon_creation=False,  # it has no schedule, and a triggered run must not wait
    # a retry reattaches to what an earlier try started
    default_args={"retries": 2, "retry_delay": timedelta(seconds=10), "pre_execute": refuse_unknown_conf},
    tags=["streamupdate"],
    doc_md=__doc__,
    dag_display_name="Restart a streaming app",
    params={
        "app": app_param("the app whose driver is dead"),
        "deployment_id": deployment_param(
            "Restart only if this deployment is the current one. Empty: restart the current one."
        ),
        "conn_id": connection_param(),
    },
) as dag:
    StreamRestartOperator(
        task_id="restart",
        app="{{ params.app }}",
        deployment_id="{{ params.deployment_id }}",
        streamupdate_conn_id="{{ params.conn_id }}",
    )
