"""Roll an app back on request: the current deployment ends, and the one before it runs again where it was stopped.

The page Streams triggers this DAG; you can also trigger it with its form.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_streamupdate.forms import (
    WHERE,
    app_param,
    connection_param,
    deployment_param,
    refuse_unknown_conf,
)
from airflow_provider_streamupdate.operators.rollback import StreamRollbackOperator

with DAG(
    "stream_rollback",
    schedule=None,
    is_paused_upon_creation=False,  # it has no schedule, and a triggered run must not wait
    catchup=False,
    max_active_runs=1,
    default_args={"pre_execute": refuse_unknown_conf},
    tags=["streamupdate"],
    doc_md=__doc__,
    dag_display_name="Roll back a streaming app",
    params={
        "app": app_param("the app to roll back"),
        "deployment_id": deployment_param(
            "The deployment to roll back from. Empty: the current one. With an id, a second run changes nothing."
        ),
        "to": Param(
            None,
            type=["null", "string"],
            section=WHERE,
            title="Back to",
            description="The deployment to go back to. Empty: the one before, which is refused when it failed.",
        ),
        "later_ids": Param(
            [],
            type=["null", "array"],
            section=WHERE,
            title="Later batch ids",
            description="Queries, one per line, for example totals, whose foreachBatch function skips batch ids it has "
            "seen, when the app does not declare that (`seen_batch`). Batches they compute again get ids after those "
            "of the newer deployment.",
        ),
        "conn_id": connection_param(),
    },
) as dag:
    StreamRollbackOperator(
        task_id="rollback",
        app="{{ params.app }}",
        deployment_id="{{ params.deployment_id }}",
        to="{{ params.to }}",
        later_ids="{{ params.later_ids | tojson }}",
        streamupdate_conn_id="{{ params.conn_id }}",
    )
