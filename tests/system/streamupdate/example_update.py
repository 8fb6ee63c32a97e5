"""An app is submitted, updated with its state, and rolled back; what it wrote is compared with what it read."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk import DAG, chain, task

from airflow_provider_streamupdate.notifications.streamupdate import StreamUpdateNotifier
from airflow_provider_streamupdate.operators.cancel import StreamCancelOperator
from airflow_provider_streamupdate.operators.rollback import StreamRollbackOperator
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator
from airflow_provider_streamupdate.sensors.health import StreamHealthSensor
from airflow_provider_streamupdate.update_dag import stream_update
from tests.system.flights import flight, windows, write

FOLDER = Path(os.environ.get("SYSTEM_TESTS_FOLDER", "/data")) / "update"
PARAMS = {"input": f"{FOLDER}/in", "output": f"{FOLDER}/out"}
APPS = Path(__file__).parents[3] / "spark_apps" / "flight_windows"
V1, V2 = f"{APPS}/v1.py", f"{APPS}/v2.py"
FIRST, SECOND = ("2013-01-01T00:00:00Z", "JFK"), ("2013-01-04T00:00:00Z", "JFK")

with DAG("example_streamupdate_update", schedule=None, catchup=False, tags=["example", "streamupdate"]) as dag:

    @task
    def flights_for_version_1() -> None:
        """Three flights of one day, one of them cancelled: version 1 counts it."""
        day = [flight("2013-01-01T08:00:00Z"), flight("2013-01-01T09:00:00Z"), flight("2013-01-01T09:30:00Z", None)]
        write(PARAMS["input"], "1", day)

    @task
    def flights_for_version_2() -> None:
        """Two more of the same day, of which version 2 does not count the cancelled one; and later ones, which close
        the day."""
        day = [flight("2013-01-01T10:00:00Z"), flight("2013-01-01T10:30:00Z", None)]
        write(PARAMS["input"], "2", [*day, flight("2013-01-04T08:00:00Z"), flight("2013-01-04T09:00:00Z", None)])

    @task
    def flights_after_the_rollback() -> None:
        """They close the second day, under version 1 again."""
        write(PARAMS["input"], "3", [flight("2013-01-08T08:00:00Z")])

    @task.sensor(poke_interval=0.5, timeout=300, mode="poke")
    def day_is_written(start: str, origin: str) -> bool:
        """The day is closed, and in the output."""
        return (start, origin) in windows(PARAMS["output"])

    @task
    def state_was_kept() -> None:
        """The day has the flights of both versions, each counted by the version that read it."""
        assert windows(PARAMS["output"])[FIRST] == (4, 30.0), windows(PARAMS["output"])

    @task
    def old_version_counts_again() -> None:
        """What version 2 had read, version 1 has read again: it counts the cancelled flight. And no day is lost."""
        assert windows(PARAMS["output"]) == {FIRST: (5, 30.0), SECOND: (2, 10.0)}, windows(PARAMS["output"])

    # [START howto_operator_stream_submit]
    submit = StreamSubmitOperator(
        task_id="submit", application=V1, app="flight-windows", app_params=PARAMS, deployment_id="one"
    )
    # [END howto_operator_stream_submit]

    # [START howto_sensor_stream_health]
    healthy = StreamHealthSensor(task_id="healthy", app="flight-windows", batches=1, poke_interval=1, timeout=300)
    # [END howto_sensor_stream_health]

    # [START howto_stream_update]
    update = stream_update(
        app="flight-windows",
        application=V2,
        app_params=PARAMS,
        deployment_id="two",
        drain_timeout="PT2M",
        on_failure_callback=StreamUpdateNotifier(),
    )
    # [END howto_stream_update]

    # [START howto_operator_stream_rollback]
    rollback = StreamRollbackOperator(task_id="roll_back", app="flight-windows")
    # [END howto_operator_stream_rollback]

    # [START howto_operator_stream_cancel]
    cancel = StreamCancelOperator(task_id="cancel", app="flight-windows", drain_timeout="PT2M", trigger_rule="all_done")
    # [END howto_operator_stream_cancel]

    chain(
        # TEST SETUP
        flights_for_version_1(),
        # TEST BODY
        submit,
        healthy,
        update,
        flights_for_version_2(),
        day_is_written.override(task_id="first_day")(*FIRST),
        state_was_kept(),
        rollback,
        flights_after_the_rollback(),
        day_is_written.override(task_id="second_day")(*SECOND),
        old_version_counts_again(),
        # TEST TEARDOWN
        cancel,
    )

    from tests.system.utils import watcher

    # the teardown's trigger rule hides that another task failed
    list(dag.tasks) >> watcher()

from tests.system.utils import get_test_run  # noqa: E402

# runs the example by pytest: pytest tests/system/streamupdate/example_update.py
test_run = get_test_run(dag)
