"""Restart an app's dead driver: the current deployment continues from its own checkpoint.

The page Streams triggers this DAG; you can also trigger it with its form. A run for an app whose driver is alive
changes nothing.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from airflow_provider_streamupdate.forms import refuse_unknown_conf, suggested_apps
from airflow_provider_streamupdate.hooks.settings import DEFAULT_CONN_ID
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator

MORE = "Which deployment, and where"  # the form's second group

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
        "app": Param(
            type="string",
            minLength=1,
            **suggested_apps(),
            title="App",
            description="Name of the app whose driver is dead. The page Streams and `streamupdate list` show "
            "the names.",
        ),
        "deployment_id": Param(
            None,
            type=["null", "string"],
            section=MORE,
            title="Deployment id",
            description="Restart only if this deployment is the current one. Empty: restart the current one.",
        ),
        "conn_id": Param(
            DEFAULT_CONN_ID,
            type="string",
            section=MORE,
            title="Connection",
            description="The Stream Update connection of the app.",
        ),
    },
) as dag:
    StreamRestartOperator(
        task_id="restart",
        app="{{ params.app }}",
        deployment_id="{{ params.deployment_id }}",
        streamupdate_conn_id="{{ params.conn_id }}",
    )
