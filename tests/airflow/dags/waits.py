"""Every deferrable wait in a row, in the triggerer."""

from __future__ import annotations

from airflow.sdk import DAG

from airflow_provider_streamupdate.operators.cancel import StreamCancelOperator
from airflow_provider_streamupdate.operators.snapshot import StreamSnapshotOperator
from airflow_provider_streamupdate.sensors.health import StreamHealthSensor
from airflow_provider_streamupdate.sensors.snapshot import StreamSnapshotSensor

with DAG("waits", schedule=None) as dag:
    health = StreamHealthSensor(
        task_id="health", app="alarm", batches=60, timeout=60, poke_interval=0.1, deferrable=True
    )
    snapshot = StreamSnapshotOperator(
        task_id="snapshot", app="alarm", name="s1", timeout=30, poll_interval=0.1, deferrable=True
    )
    exists = StreamSnapshotSensor(task_id="exists", app="alarm", name="s1", verify=True, timeout=60, deferrable=True)
    cancel = StreamCancelOperator(
        task_id="cancel", app="alarm", drain_timeout="PT30S", poll_interval=0.1, deferrable=True
    )
    health >> snapshot >> exists >> cancel
