"""The examples without their drivers: each is a DAG that Airflow takes, and ends in a teardown that a watcher watches.

Their runs are slow tests: `test_run` in each of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

EXAMPLES = sorted(Path(__file__).with_name("streamupdate").glob("example_*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_is_a_dag(file: Path, airflow_db: str) -> None:
    try:
        from airflow.dag_processing.dagbag import DagBag
    except ImportError:  # Airflow 3.1
        from airflow.models.dagbag import DagBag

    bag: Any = DagBag(str(file))
    assert not bag.import_errors
    [dag] = bag.dags.values()
    assert dag.dag_id == file.stem.replace("example_", "example_streamupdate_") and "example" in dag.tags
    assert dag.get_task("cancel").trigger_rule == "all_done"
    watched = dag.get_task("watcher").upstream_task_ids
    assert watched == set(dag.task_ids) - {"watcher"}
    assert "test_run = get_test_run(dag)" in file.read_text()
