"""What Airflow's own system tests have in `tests_common`, which is in no package: the test of an example DAG, and the
watcher of one whose last task runs whatever became of the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowException
from airflow.sdk import task


def get_test_run(dag: Any, **arguments: Any) -> Callable[[], None]:
    """The test that runs the DAG to its end, with real drivers. Assign it to `test_run` in the example's file."""

    @pytest.mark.slow
    @pytest.mark.system
    @pytest.mark.timeout(1500)
    @pytest.mark.usefixtures("installation")
    def test_run() -> None:
        run = dag.test(**{"logical_date": None, **arguments})  # as a run has none that was asked for by REST
        ends = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
        assert str(run.state) == "success", ends

    return test_run


@task(trigger_rule="one_failed", retries=0)
def watcher() -> None:
    """Fail the run when any task failed: the teardown, the DAG's last task, ends well all the same."""
    raise AirflowException("a task failed")
