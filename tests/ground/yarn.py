"""Hadoop: the root with its checkpoints, input and output on HDFS, drivers and executors in YARN. A driver runs beside
whoever started it (client mode), or in the cluster, where it is reached through the root and through YARN only."""

from __future__ import annotations

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.clusters import yarn
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.drivers.process import end
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.errors import StorageError
from airflow_provider_streamupdate.core.registry.deployment import CANCELLED, LOST, RUNNING
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.storage import Folder
from tests import folders
from tests.e2e.ground import SPARK_SUBMIT

from .daemon import LOGGING, daemon, free_port
from .migrated import Migrated
from .records import PARTS
from .snapshots import go_through_snapshots

PATIENCE = 900.0  # seconds, for drivers that YARN starts, and their executors
AGREED: dict[str, Any] = {"agree": ("totals/totals",), "submit_timeout": PATIENCE}
CONF = {
    "spark.executor.instances": "1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
    "spark.yarn.am.waitTime": "600s",  # until the driver has its session, on a busy machine
}


@attrs.frozen
class Hadoop:
    """address: of HDFS; environment: by which spark-submit finds both"""

    address: str
    environment: dict[str, str]


def hadoop(folder: Path) -> Iterator[Hadoop]:
    """A cluster with its files in `folder`: HDFS and YARN in one JVM, which MiniCluster.java is run by."""
    logging, source = folder / "log4j.properties", Path(__file__).with_name("MiniCluster.java")
    logging.write_text(LOGGING)
    java = Path(shutil.which("java", path=f"{home}/bin" if (home := os.environ.get("JAVA_HOME")) else None) or "java")
    options = ["-Xmx1g", f"-Dlog4j.configuration={logging.as_uri()}", "-cp", f"{(PARTS / 'yarn').resolve()}/*"]
    # Containers inherit it: they are to find this package in what was submitted only.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SPARK"))}
    environment["JAVA_HOME"] = str(java.resolve().parents[1])
    command = [str(java), *options, str(source), str(folder)]
    with daemon(command, folder / "log", r"Cluster started: (\S+)", environment, 600, cwd=folder) as found:
        yield Hadoop(found[1], {"HADOOP_CONF_DIR": str(folder / "conf"), "SPARK_LOCAL_IP": "127.0.0.1"})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    yield from hadoop(tmp_path_factory.mktemp("hadoop"))


@pytest.fixture
def folder(cluster: Hadoop, tmp_path: Path) -> Folder:
    return Folder.open(f"{cluster.address}/{tmp_path.name}")


@pytest.mark.parametrize("promise", folders.CONTRACT, ids=lambda promise: promise.__name__)
def test_the_contract(folder: Folder, tmp_path: Path, promise: Callable[[Folder, Folder], None]) -> None:
    promise(folder, Folder.open(str(tmp_path)))


def test_spark_is_given_the_name_node_by_its_own_protocol(folder: Folder, cluster: Hadoop, tmp_path: Path) -> None:
    namenode = ET.parse(Path(cluster.environment["HADOOP_CONF_DIR"]) / "core-site.xml")
    found = {each.findtext("name"): each.findtext("value") for each in namenode.iter("property")}
    assert folder.uri == f"{found['fs.defaultFS']}/{tmp_path.name}"
    assert Folder.open(folder.address) == folder
    assert folder.names() == [], "nothing was written to find that out"


def test_a_server_that_does_not_answer_is_no_missing_file() -> None:
    folder = Folder.open(f"webhdfs://127.0.0.1:{free_port()}/root")
    for ask in (folder.exists, folder.read, folder.names, folder.files):
        with pytest.raises(StorageError, match="check that the root exists"):
            ask("a")


def test_who_may_not_write_is_told(cluster: Hadoop, tmp_path: Path) -> None:
    Folder.open(f"{cluster.address}/{tmp_path.name}").write("a", b"")
    other = Folder.open(f"{cluster.address}/{tmp_path.name}", {"user": "somebody"})
    with pytest.raises(StorageError, match=r"cannot write .*Permission denied: user=somebody"):
        other.check_writable()


def test_a_snapshot_on_hdfs_is_stored_shared_verified_restored_and_deleted(cluster: Hadoop, tmp_path: Path) -> None:
    go_through_snapshots(Registry(f"{cluster.address}/{tmp_path.name}"), tmp_path)


class OnYarn(Migrated):
    feed_seconds = 8.0
    patience = PATIENCE

    def __init__(self, folder: Path, cluster: Hadoop, mode: str) -> None:
        where = Folder.open(f"{cluster.address}/{folder.name}")
        jars = Path(SPARK_SUBMIT).resolve().parents[1].glob("lib/python3*/site-packages/pyspark/jars")
        conf = {**CONF, "spark.submit.deployMode": mode, "spark.yarn.jars": f"local:{next(jars)}/*"}
        super().__init__(folder, conf, where)
        self.hadoop = cluster
        self.root = f"{cluster.address}/{folder.name}/root"
        self.client = self.new_client()

    def new_client(self) -> StreamUpdateClient:
        return StreamUpdateClient(self.root, SparkSubmit(SPARK_SUBMIT, master="yarn", env_vars=self.hadoop.environment))

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **self.hadoop.environment}

    def application_state(self) -> str:
        """What YARN says of the application that the current driver is, or was."""
        status = self.client.status(self.app).status
        environment = SparkSubmit(SPARK_SUBMIT, env_vars=self.hadoop.environment).environment(self.of_version(1))
        told = yarn.ask(SPARK_SUBMIT, environment, "-status", str(status and status.spark_app_id))
        return next(line for line in told.splitlines() if "\tState :" in line).partition(":")[2].strip()


@pytest.fixture
def ground(request: pytest.FixtureRequest, cluster: Hadoop, tmp_path: Path) -> Iterator[OnYarn]:
    made = OnYarn(tmp_path, cluster, request.param)
    yield made
    made.end()


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("ground", ["client"], indirect=True)
def test_an_update_in_client_mode_loses_and_doubles_nothing(ground: OnYarn) -> None:
    ground.write()
    ground.write()
    ground.client.submit(ground.of_version(1), "one", app=ground.app, timeout=PATIENCE)
    ground.feed()
    ground.update("two", strategy="restart", **AGREED)
    ground.settle()
    ground.check("files", ground.file_sink())
    ground.check_totals()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("ground", ["cluster"], indirect=True)
def test_drivers_in_the_cluster_are_found_updated_and_killed(ground: OnYarn) -> None:
    ground.write()
    ground.write()
    submit_and_die(ground)
    ground.client = ground.new_client()
    wait_for(lambda: ground.client.status(ground.app).state == RUNNING or None, "the driver to run", PATIENCE)
    assert ground.application_state() == "RUNNING"
    ground.feed()
    ground.update("two", strategy="restart", **AGREED)
    ground.update("three", strategy="standby", **AGREED)
    kill(ground, "three")
    ground.client.submit(ground.of_version(2), "four", snapshot="before-four", app=ground.app, timeout=PATIENCE)
    ground.settle()
    assert ground.client.cancel(ground.app, timeout=PATIENCE) == CANCELLED
    wait_for(lambda: ground.application_state() == "FINISHED" or None, "YARN to know it", PATIENCE)
    ground.check("files", ground.file_sink())
    ground.check_totals()


def submit_and_die(ground: OnYarn) -> None:
    """Who submits is killed when YARN has the application, and spark-submit with it."""
    file = ground.version(1)
    given = [word for key, value in ground.given.items() for word in ("--set", f"{key}={value}")]
    given += [word for key, value in ground.conf.items() for word in ("--conf", f"{key}={value}")]
    command = ground.command("submit", file, "--deployment", "one", "--master", "yarn", *given)
    registry, log = ground.client.registry.app(ground.app), ground.folder / "submit.log"

    def submitted() -> bool | None:
        assert process.poll() is None, log.read_text()
        launch = registry.launch("one")
        return (launch is not None and "Submitted application" in Path(launch.log).read_text()) or None

    with log.open("wb") as output:
        with subprocess.Popen(command, env=ground.environment, stdout=output, stderr=output) as process:
            try:
                wait_for(submitted, "the submission", PATIENCE)
            finally:
                process.kill()
    launch = registry.launch("one")
    assert launch is not None
    end(launch)


def kill(ground: OnYarn, deployment: str) -> None:
    """The driver hangs, and is ended through YARN when it is to leave a snapshot."""
    client, app = ground.client, ground.app
    drivers = ground.drivers(deployment)
    assert drivers
    for process in drivers:
        process.suspend()
    client.begin_snapshot(app, "before-four", cancel=True)
    client.drivers(app).kill(deployment)
    assert client.status(app).state == LOST
    assert ground.application_state() == "KILLED"
    wait_for(lambda: not ground.drivers(deployment) or None, "its processes to go", PATIENCE)
    wait_for(lambda: client.poll_snapshot(app, "before-four", cancel=True), "the snapshot", PATIENCE)
