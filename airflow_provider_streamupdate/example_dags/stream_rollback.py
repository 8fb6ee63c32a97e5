"""Roll an app back on request: the current deployment ends, and the one before it runs again where it was stopped.

The page Streams triggers this DAG; you can also trigger it with its form.
"""

from __future__ import annotations

from airflow.sdk import DAG, Param

from airflow_provider_streamupdate.forms import refuse_unknown_conf, suggested_apps
from airflow_provider_streamupdate.hooks.settings import DEFAULT_CONN_ID
from airflow_provider_streamupdate.operators.rollback import StreamRollbackOperator

MORE = "Which deployment, and where"  # the form's second group

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
        "app": Param(
            type="string",
            minLength=1,
            **suggested_apps(),
            title="App",
            description="Name of the app to roll back. The page Streams and `streamupdate list` show the names.",
        ),
        "deployment_id": Param(
            None,
            type=["null", "string"],
            section=MORE,
            title="Deployment id",
            description="The deployment to roll back from. Empty: the current one. With an id, a second run changes "
            "nothing.",
        ),
        "to": Param(
            None,
            type=["null", "string"],
            section=MORE,
            title="Back to",
            description="The deployment to go back to. Empty: the one before, which is refused when it failed.",
        ),
        "later_ids": Param(
            [],
            type=["null", "array"],
            section=MORE,
            title="Later batch ids",
            description="Queries, one per line, for example totals, whose foreachBatch function skips batch ids it has "
            "seen, when the app does not declare that (`seen_batch`). Batches they compute again get ids after those "
            "of the newer deployment.",
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
    StreamRollbackOperator(
        task_id="rollback",
        app="{{ params.app }}",
        deployment_id="{{ params.deployment_id }}",
        to="{{ params.to }}",
        later_ids="{{ params.later_ids | tojson }}",
        streamupdate_conn_id="{{ params.conn_id }}",
    )
