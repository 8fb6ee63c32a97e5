"""A cluster: Spark's standalone master and worker on this machine, two executors of one core for each driver. What
reads, rewrites and restores state does so on the executors."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.launcher import SparkSubmit, spark_environment
from tests.e2e.conftest import SPARK_SUBMIT

from .daemon import daemon
from .records import Record, Records

QUERIES = ("files", "totals")
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


class OnCluster(Records):
    """Each file brings new records and some that were there before: of the file before, and the very first."""

    source_file = Path(__file__).with_name("standalone_app.py")

    def __init__(self, folder: Path, cluster: tuple[str, Path]) -> None:
        super().__init__(folder, QUERIES, CONF)
        master, self.work = cluster
        self.client = StreamUpdateClient(str(self.root), SparkSubmit(SPARK_SUBMIT, master=master, env_vars=LOOPBACK))
        self.files: list[list[Record]] = []  # as they came

    def put(self, name: str, rows: list[Record]) -> None:
        self.files.append([*rows, *self.records[-self.new_in_file :], *self.records[:2]])
        super().put(name, self.files[-1])

    def executors(self, sign: str) -> list[str]:
        """The executors of the current driver whose own logs tell of something."""
        status = self.client.status(self.app).status
        logs = (self.work / str(status and status.spark_app_id)).glob("*/stderr")
        return sorted(log.parent.name for log in logs if sign in log.read_text())

    def check_totals(self) -> None:
        """The sum is of everything; the count that version 2 adds knows the rows since the snapshot it started from."""
        files = sorted((self.output / "totals").glob("*.json"))
        last = {row["k"]: row for file in files for row in map(json.loads, file.read_text().splitlines())}
        since = self.client.snapshot(self.app, "before-two").queries["totals"].batch + 1  # a file a batch
        sums: Counter[str] = Counter()
        counts: Counter[str] = Counter()
        for number, rows in enumerate(self.files):
            for _, k, a in rows:
                sums[k] += a
                counts[k] += number >= since
        expected = {k: {"k": k, "s": sums[k], "n": counts[k]} for k in sums}
        print(f"\ntotals: {len(last)} keys, {sum(last[k] != expected[k] for k in last)} wrong")
        assert 0 < since < len(self.files) and last == expected


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
    ground.client.update(ground.of_version(2), "two", timeout=PATIENCE, strategy="restart", progress=print)
    assert ground.executors("deployments/two/checkpoint/totals/migration/") == ["0", "1"]
    ground.run_version_2()
    ground.check("files", ground.file_sink())
    ground.check_totals()
