"""The update DAG of the tests: short waits, no retries. A file of its own, since a task runs what Airflow parsed."""

from __future__ import annotations

from airflow.sdk import Param

from airflow_provider_streamupdate.update_dag import build_update_dag

dag = build_update_dag(
    "update_alarm",
    app="{{ params.app }}",
    application="{{ params.application }}",
    deployment_id="{{ params.deployment_id }}",
    from_snapshot="{{ params.from_snapshot }}",
    agree="{{ params.agree | tojson }}",
    strategy="{{ params.strategy }}",
    drain_timeout="{{ params.drain_timeout }}",
    submit_timeout=20,
    verify_timeout=3,
    default_args={"retries": 0},
    dag_kwargs={
        "params": {
            "app": "alarm",
            "application": Param(type="string"),
            "deployment_id": Param(None, type=["null", "string"]),
            "from_snapshot": Param(None, type=["null", "string"]),
            "agree": Param([], type="array"),
            "strategy": "standby",
            "drain_timeout": 20,
        }
    },
)
