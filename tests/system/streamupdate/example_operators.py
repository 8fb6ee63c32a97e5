"""The operators by themselves: an app is planned, submitted, saved, checked, rehearsed, stopped and restarted."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, chain, task

from airflow_provider_streamupdate.operators.cancel import StreamCancelOperator
from airflow_provider_streamupdate.operators.check import StreamCompatibilityCheckOperator
from airflow_provider_streamupdate.operators.plan import StreamPlanOperator
from airflow_provider_streamupdate.operators.promote import StreamPromoteOperator
from airflow_provider_streamupdate.operators.rehearse import StreamRehearseOperator
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator
from airflow_provider_streamupdate.operators.snapshot import StreamSnapshotOperator
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator
from airflow_provider_streamupdate.sensors.health import StreamHealthSensor
from airflow_provider_streamupdate.sensors.snapshot import StreamSnapshotSensor
from tests.system.flights import flight, windows, write

FOLDER = Path(os.environ.get("SYSTEM_TESTS_FOLDER", "/data")) / "operators"
PARAMS = {"input": f"{FOLDER}/in", "output": f"{FOLDER}/out"}
APPS = Path(__file__).parents[3] / "spark_apps" / "flight_windows"
V1, V2 = f"{APPS}/v1.py", f"{APPS}/v2.py"
FIRST = ("2013-01-01T00:00:00Z", "JFK")

with DAG("example_streamupdate_operators", schedule=None, catchup=False, tags=["example", "streamupdate"]) as dag:

    @task
    def flights() -> None:
        """Two flights of one day."""
        write(PARAMS["input"], "1", [flight("2013-01-01T08:00:00Z"), flight("2013-01-01T09:00:00Z")])

    @task
    def later_flights() -> None:
        """For the restarted driver: one of the same day, and one that closes it."""
        write(PARAMS["input"], "2", [flight("2013-01-01T10:00:00Z"), flight("2013-01-04T08:00:00Z")])

    @task.sensor(poke_interval=0.5, timeout=300, mode="poke")
    def day_is_written() -> bool:
        """The day is closed, and in the output."""
        return FIRST in windows(PARAMS["output"])

    @task
    def all_is_as_it_was_told(ti: Any = None) -> None:
        """What the tasks returned, and what the app wrote."""
        told = {name: ti.xcom_pull(task_ids=name) for name in ("plan", "save", "check", "rehearse", "stop", "restart")}
        [query] = told["plan"]["queries"]
        assert [stage["name"] for stage in query["stages"]] == ["daily"], told["plan"]
        assert told["save"]["name"].startswith("nightly-2") and told["save"]["batches"]["windows"] >= 0, told["save"]
        verdicts = {item["name"]: item["verdict"] for item in told["check"]["items"]}
        assert told["check"]["compatible"] and verdicts["windows/hourly"] != verdicts["windows/daily"], verdicts
        assert told["rehearse"]["passed"] is True, told["rehearse"]
        assert told["stop"] == "cancelled", told["stop"]
        restarted = told["restart"]
        # the cancel has claimed epoch 2
        assert (restarted["deployment"], restarted["epoch"], restarted["reattached"]) == ("one", 3, False), restarted
        assert windows(PARAMS["output"]) == {FIRST: (3, 30.0)}, windows(PARAMS["output"])

    # [START howto_operator_stream_plan]
    plan = StreamPlanOperator(task_id="plan", application=V1, app_params=PARAMS)
    # [END howto_operator_stream_plan]

    submit = StreamSubmitOperator(
        task_id="submit", application=V1, app="flight-windows", app_params=PARAMS, deployment_id="one"
    )
    healthy = StreamHealthSensor(task_id="healthy", app="flight-windows", batches=1, poke_interval=1, timeout=300)

    # [START howto_operator_stream_snapshot]
    save = StreamSnapshotOperator(
        task_id="save",
        app="flight-windows",
        name="nightly-{{ dag_run.run_after | ts_nodash }}",
    )
    # [END howto_operator_stream_snapshot]

    # [START howto_sensor_stream_snapshot]
    saved = StreamSnapshotSensor(
        task_id="saved",
        app="flight-windows",
        name="nightly-{{ dag_run.run_after | ts_nodash }}",
        verify=True,
        timeout=60,
    )
    # [END howto_sensor_stream_snapshot]

    # [START howto_operator_stream_compatibility_check]
    check = StreamCompatibilityCheckOperator(task_id="check", application=V2, app="flight-windows", app_params=PARAMS)
    # [END howto_operator_stream_compatibility_check]

    # [START howto_operator_stream_rehearse]
    rehearse = StreamRehearseOperator(
        task_id="rehearse", app="flight-windows", application=V2, app_params=PARAMS, batches=3
    )
    # [END howto_operator_stream_rehearse]

    stop = StreamCancelOperator(task_id="stop", app="flight-windows")

    # [START howto_operator_stream_restart]
    restart = StreamRestartOperator(task_id="restart", app="flight-windows")
    # [END howto_operator_stream_restart]

    # [START howto_operator_stream_promote]
    promote = StreamPromoteOperator(task_id="promote", app="flight-windows", deployment_id="one")
    # [END howto_operator_stream_promote]

    cancel = StreamCancelOperator(task_id="cancel", app="flight-windows", trigger_rule="all_done")

    chain(
        # TEST SETUP
        flights(),
        # TEST BODY
        plan,
        submit,
        healthy,
        save,
        saved,
        check,
        rehearse,
        stop,
        restart,
        promote,
        later_flights(),
        day_is_written(),
        all_is_as_it_was_told(),
        # TEST TEARDOWN
        cancel,
    )

    from tests.system.utils import watcher

    # the teardown's trigger rule hides that another task failed
    list(dag.tasks) >> watcher()

from tests.system.utils import get_test_run  # noqa: E402

# runs the example by pytest: pytest tests/system/streamupdate/example_operators.py
test_run = get_test_run(dag)
