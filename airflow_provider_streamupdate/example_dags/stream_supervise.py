"""Watch all apps, and start their drivers again when they are lost, failed or stopped.

One run follows another; each takes one worker slot for as long as it watches. An app that is in a crash loop is left
alone: `report` fails for it, so that a callback or notifier of yours can tell somebody, and there is an event of the
asset alias `streamupdate:crash-loop`. Apps that were cancelled or suspended are never started.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.exceptions import AirflowFailException
from airflow.sdk import DAG, Param, task

from airflow_provider_streamupdate.forms import connection_param, refuse_unknown_conf
from airflow_provider_streamupdate.operators.supervise import StreamSuperviseOperator

MORE = "Which apps, and where"  # the form's second group

with DAG(
    "stream_supervise",
    schedule="@continuous",
    max_active_runs=1,
    catchup=False,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=10), "pre_execute": refuse_unknown_conf},
    tags=["streamupdate"],
    doc_md=__doc__,
    dag_display_name="Supervise streaming apps",
    params={
        "run_for": Param(3600, type="integer", minimum=1, title="Run for", description="Seconds that a run watches."),
        "attempts": Param(
            10,
            type="integer",
            minimum=1,
            title="Attempts",
            description="Starts in a row without a recovery, after which an app is left alone.",
        ),
        "apps": Param(
            [],
            type=["null", "array"],
            section=MORE,
            title="Apps",
            description="The apps to watch, one per line, for example flight-windows. Empty: all under the root.",
        ),
        "conn_id": connection_param(MORE, "apps"),
    },
) as dag:

    @task(retries=0)
    def report(apps: list[str]) -> None:
        """Fail when an app is in a crash loop."""
        if apps:
            raise AirflowFailException(
                f"in a crash loop, and left alone: {', '.join(apps)}. The log of task supervise has the causes; fix "
                "them, then restart the apps or update them to versions that work"
            )

    watched = StreamSuperviseOperator(
        task_id="supervise",
        apps="{{ params.apps | tojson }}",
        run_for="{{ params.run_for }}",
        attempts="{{ params.attempts }}",
        streamupdate_conn_id="{{ params.conn_id }}",
    )
    report(watched.output)
