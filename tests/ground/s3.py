"""Object storage over HTTP: moto's S3 server, reached by s3fs and, in Spark, by s3a. There is no rename and no folder;
what must be made only once is made by a conditional put."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.storage import Folder
from tests import folders
from tests.cli.conftest import Site, no_fsync, run, site, spark  # noqa: F401 (fixtures)
from tests.e2e.ground import SPARK_SUBMIT
from tests.simulation.in_process import world  # noqa: F401 (a fixture)

from .daemon import daemon, free_port
from .migrated import Migrated
from .records import PARTS, jars
from .slow import SlowNetwork, slow_network
from .snapshots import go_through_snapshots

pytestmark = pytest.mark.processes  # what drivers ask of a real server, in real time
PATIENCE = 900.0  # seconds
CONF = {
    "spark.jars": jars("s3"),
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.access.key": "someone",
    "spark.hadoop.fs.s3a.secret.key": "something",
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    # The other way of uploading files is asynchronous, by a client on Netty, and waits a minute on moto.
    "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with the bucket ``bucket``."""
    port = free_port()
    address, log = f"http://127.0.0.1:{port}", tmp_path_factory.mktemp("moto") / "log"
    os.environ["MOTO_LOG"] = str(log)
    with daemon([sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], log, "Running on"):
        Folder.open("s3://bucket", options(address)).backend.fs.mkdir("bucket")
        yield address


def options(address: str) -> dict[str, Any]:
    return {"key": "someone", "secret": "something", "client_kwargs": {"endpoint_url": address}}


@pytest.fixture
def folder(server: str, tmp_path: Path) -> Folder:
    return Folder.open(f"s3://bucket/{tmp_path.name}", options(server))


@pytest.mark.parametrize(("pace", "a_second", "writes_a_day"), [("busy", 15.0, 90_000), ("idle", 0.55, 20_000)])
def test_requests_of_a_driver(
    server: str,
    tmp_path: Path,
    site: Site,  # noqa: F811 (a fixture)
    monkeypatch: pytest.MonkeyPatch,
    pace: str,
    a_second: float,
    writes_a_day: int,
) -> None:
    """What a driver asks of the storage by itself, without what its queries do: just after its start and while an
    update is under way (busy), and when it has run for two minutes without a command (idle). A command is seen within
    5 s."""
    monkeypatch.setenv("STANDIN_PACE", pace)
    monkeypatch.setenv("STREAMUPDATE_ROOT", root := f"s3://bucket/{tmp_path.name}")
    monkeypatch.setenv("STREAMUPDATE_STORAGE_OPTIONS", json.dumps(options(server)))
    stuck = site.application("v1", FAIL="stuck")  # its queries ask for nothing
    submitted = site.run("submit", stuck, "--deployment", "v1")
    assert submitted.exit_code == 0, submitted.stderr
    log = Path(str(os.environ["MOTO_LOG"]))
    begin, seconds = log.stat().st_size, 40.0
    time.sleep(seconds)  # it is what is measured
    with log.open() as file:
        file.seek(begin)
        asked = [line for line in file if '" ' in line and "checkpoint" not in line]
    writes = sum('"PUT ' in line for line in asked)
    lists = sum("list-type" in line for line in asked)
    print(
        f"{pace}: {len(asked) / seconds:.2f} requests a second ({lists / seconds:.2f} lists), "
        f"{writes / seconds * 86400:.0f} writes a day"
    )
    assert len(asked) / seconds <= a_second and writes / seconds * 86400 <= writes_a_day
    began = time.monotonic()
    assert site.run("suspend", "alarm").exit_code == 0
    assert time.monotonic() - began < 10
    client = StreamUpdateClient(root, storage_options=options(server))
    client.drivers("alarm").kill("v1")


@pytest.mark.parametrize("promise", folders.CONTRACT, ids=lambda promise: promise.__name__)
def test_the_contract(folder: Folder, tmp_path: Path, promise: Callable[[Folder, Folder], None]) -> None:
    promise(folder, Folder.open(str(tmp_path)))


def test_what_hadoop_leaves_is_not_listed(folder: Folder) -> None:
    for name in ("", "state/", "state/0/"):  # the empty objects s3a makes for folders
        folder.backend.fs.pipe_file(f"{folder.base}/{name}", b"")
    folder.write("state/0/1.zip", b"one")
    assert folder.names() == ["state"] and folder.names("state") == ["0"] and folder.names("state/0") == ["1.zip"]
    assert folder.files() == ["state/0/1.zip"]
    folder.remove("state")
    assert folder.names() == [] and not folder.exists("state/0")


def test_what_another_client_writes_is_seen(folder: Folder, server: str) -> None:
    folder.write("a", b"one")
    assert folder.names() == ["a"] and folder.size("a") == 3
    other = type(folder.backend.fs)(skip_instance_cache=True, **options(server))
    other.pipe_file(folder.path("a"), b"longer")
    other.pipe_file(folder.path("b"), b"")
    assert folder.size("a") == 6 and folder.names() == ["a", "b"]


def test_hadoop_reaches_it_by_its_own_client(folder: Folder, tmp_path: Path) -> None:
    assert folder.uri == f"s3a://bucket/{tmp_path.name}"


def test_a_snapshot_in_a_bucket_is_stored_shared_verified_restored_and_deleted(server: str, tmp_path: Path) -> None:
    go_through_snapshots(Registry(f"s3://bucket/{tmp_path.name}", options(server)), tmp_path)


@pytest.fixture
def network(server: str) -> Iterator[SlowNetwork]:
    """Between this package and the server."""
    with slow_network(int(server.rsplit(":", 1)[1])) as made:
        yield made


@pytest.mark.timeout(900)
@pytest.mark.parametrize("strategy", ["restart", "standby"])
def test_an_update_over_a_slow_storage_loses_and_doubles_nothing(
    network: SlowNetwork,
    server: str,
    tmp_path: Path,
    site: Site,  # noqa: F811 (a fixture)
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
) -> None:
    """Each request takes 0.05 to 0.15 s; in the middle of the update the storage stands still for 20 s."""
    monkeypatch.setenv("STREAMUPDATE_ROOT", f"s3://bucket/{tmp_path.name}")
    monkeypatch.setenv("STREAMUPDATE_STORAGE_OPTIONS", json.dumps(options(f"http://127.0.0.1:{network.port}")))
    network.delay = (0.05, 0.15)
    assert site.run("submit", site.application("v1"), "--deployment", "v1").exit_code == 0
    app = Registry(f"s3://bucket/{tmp_path.name}", options(server)).app("alarm")

    def stand_still() -> None:
        wait_for(lambda: app.update("v2"), "the update's record", 300)
        network.passing.clear()
        time.sleep(20)  # it is what is tried
        network.passing.set()

    with ThreadPoolExecutor(1) as pool:
        stood = pool.submit(stand_still)
        began = time.monotonic()
        updated = site.run("update", site.application("v2"), "--deployment", "v2", "--strategy", strategy)
        print(f"{time.monotonic() - began:.1f} s")
        stood.result()
    assert updated.exit_code == 0, updated.stderr
    network.delay = (0.0, 0.0)
    assert site.alive() == ["v2"] == [app.current_id()]
    old, new = (
        sorted(int(name) for name in app.checkpoint(version, "events").names("commits")) for version in ("v1", "v2")
    )
    cut = site.client.snapshot("alarm", "before-v2").queries["events"].batch
    assert old == list(range(cut + 1)) and new == list(range(new[0], new[-1] + 1)) and new[0] <= cut < new[-1]


class InBucket(Migrated):
    """Everything but the driver's scratch is in the bucket: input, root with the checkpoints, output."""

    feed_seconds = 6.0
    patience = PATIENCE

    def __init__(self, folder: Path, address: str) -> None:
        where = Folder.open(f"s3://bucket/{folder.name}", options(address))
        conf = {**CONF, "spark.hadoop.fs.s3a.endpoint": address}
        super().__init__(folder, conf, where)
        self.root = f"s3://bucket/{folder.name}/root"
        python = {"PYTHONPATH": str((PARTS / "s3" / "python").resolve())}  # s3fs
        launcher = SparkSubmit(SPARK_SUBMIT, master="local[2]", env_vars=python)
        self.client = StreamUpdateClient(self.root, launcher, options(address))


@pytest.fixture
def ground(server: str, tmp_path: Path) -> Iterator[InBucket]:
    made = InBucket(tmp_path, server)
    yield made
    made.end()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("strategy", ["restart", "standby", "follow"])
def test_an_update_in_a_bucket_loses_and_doubles_nothing(ground: InBucket, strategy: str) -> None:
    ground.write()
    ground.write()
    ground.client.submit(ground.of_version(1), "one", app=ground.app, timeout=PATIENCE)
    ground.feed()
    ground.update(strategy=strategy, agree=("totals/totals",), submit_timeout=PATIENCE, drain_timeout=PATIENCE)
    ground.settle()
    ground.check("files", ground.file_sink())
    ground.check_totals(follows=strategy == "follow")
