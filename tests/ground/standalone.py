"""A cluster: Spark's standalone master and worker on this machine, two executors of one core for each driver. What
reads, rewrites and restores state does so on the executors."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.launcher import SparkSubmit, spark_environment
from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.conftest import SPARK_SUBMIT

from .records import Records

QUERIES = ("files", "totals")
CONF = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nothing runs before both are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "100s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a master with one worker, and the folder of what the worker runs."""
    folder = tmp_path_factory.mktemp("cluster")
    with ExitStack() as stack:
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        found = stack.enter_context(
            daemon("master.Master", folder, r"Starting Spark master at (spark://\S+)", *options)
        )
        options = (*options, "--cores", "4", "--memory", "2g", "--work-dir", str(folder / "work"), found)
        stack.enter_context(daemon("worker.Worker", folder, r"Successfully registered with master", *options))
        yield found, folder / "work"


@contextmanager
def daemon(name: str, folder: Path, ready: str, *options: str) -> Iterator[str]:
    """One of Spark's daemons, once its log has `ready`; what that tells."""
    spark_class = Path(SPARK_SUBMIT).with_name("spark-class")
    command = [str(spark_class), f"org.apache.spark.deploy.{name}", *options]
    log = folder / f"{name}.log"
    environment = {**spark_environment(SPARK_SUBMIT, {}), "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as process:

        def told() -> str | None:
            assert process.poll() is None, log.read_text()
            match = re.search(ready, log.read_text())
            return match[match.re.groups] if match else None

        try:
            yield wait_for(told, f"Spark's {name}", 120)
        finally:
            process.terminate()


class OnCluster(Records):
    """Two executors have four partitions of state between them."""

    def __init__(self, folder: Path, cluster: tuple[str, Path]) -> None:
        super().__init__(folder, QUERIES, {**CONF, "spark.sql.shuffle.partitions": "4"})
        master, self.work = cluster
        self.client = StreamUpdateClient(str(self.root), SparkSubmit(SPARK_SUBMIT, master=master))
        self.env = {"SPARK_LOCAL_IP": "127.0.0.1"}

    def executors(self) -> list[str]:
        """The executors of the current driver that have run tasks, by their own logs."""
        status = self.client.status(self.app).status
        logs = (self.work / str(status and status.spark_app_id)).glob("*/stderr")
        return sorted(log.parent.name for log in logs if "Running task" in log.read_text())


@pytest.fixture
def ground(cluster: tuple[str, Path], tmp_path: Path) -> Iterator[OnCluster]:
    made = OnCluster(tmp_path, cluster)
    yield made
    made.end()


@pytest.mark.timeout(900)
def test_an_update_on_executors_loses_and_doubles_nothing(ground: OnCluster) -> None:
    ground.run_version_1()
    assert ground.executors() == ["0", "1"]
    ground.cli(*ground.updating())
    ground.run_version_2()
    assert ground.executors() == ["0", "1"]
    ground.check("files", ground.file_sink())
    ground.check_totals()
