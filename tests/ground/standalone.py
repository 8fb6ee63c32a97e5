"""A cluster: Spark's standalone master and worker on this machine, two executors of one core for each driver. What
reads, rewrites and restores state does so on the executors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit, spark_environment
from tests.e2e.ground import SPARK_SUBMIT

from .daemon import daemon
from .migrated import Migrated

LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1"}
PATIENCE = 900.0  # seconds, for drivers whose executors are started first
CONF = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # nothing runs before both are there
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
    "spark.sql.shuffle.partitions": "4",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The address of a master with one worker, and the folder of what the worker runs."""
    folder = tmp_path_factory.mktemp("cluster")
    spark_class = str(Path(SPARK_SUBMIT).with_name("spark-class"))
    environment = spark_environment(SPARK_SUBMIT, LOOPBACK)

    def command(name: str, *options: str) -> list[str]:
        anywhere = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        return [spark_class, f"org.apache.spark.deploy.{name}", *anywhere, *options]

    started = r"Starting Spark master at (spark://\S+)"
    with daemon(command("master.Master"), folder / "master.log", started, environment) as found:
        room = ("--cores", "4", "--memory", "2g", "--work-dir", str(folder / "work"))  # for two drivers
        worker = command("worker.Worker", *room, found[1])
        with daemon(worker, folder / "worker.log", "Successfully registered with master", environment):
            yield found[1], folder / "work"


class OnCluster(Migrated):
    def __init__(self, folder: Path, cluster: tuple[str, Path]) -> None:
        super().__init__(folder, CONF)
        master, self.work = cluster
        self.client = StreamUpdateClient(str(self.root), SparkSubmit(SPARK_SUBMIT, master=master, env_vars=LOOPBACK))

    def executors(self, sign: str) -> list[str]:
        """The executors of the current driver whose own logs tell of something."""
        status = self.client.status(self.app).status
        logs = (self.work / str(status and status.spark_app_id)).glob("*/stderr")
        return sorted(log.parent.name for log in logs if sign in log.read_text())


@pytest.fixture
def ground(cluster: tuple[str, Path], tmp_path: Path) -> Iterator[OnCluster]:
    made = OnCluster(tmp_path, cluster)
    yield made
    made.end()


@pytest.mark.timeout(2400)
def test_an_update_on_executors_loses_and_doubles_nothing(ground: OnCluster) -> None:
    ground.write()
    ground.write()
    ground.client.submit(ground.of_version(1), "one", app=ground.app, timeout=PATIENCE)
    ground.wait_for_all()
    assert ground.executors("Running task") == ["0", "1"]
    ground.update(strategy="restart", agree=("totals/totals",), submit_timeout=PATIENCE)
    assert ground.executors("deployments/two/checkpoint/totals/migration/") == ["0", "1"]
    ground.run_version_2()
    ground.check("files", ground.file_sink())
    ground.check_totals()
