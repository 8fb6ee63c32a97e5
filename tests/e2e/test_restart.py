"""A driver with state is killed: a plain submit is refused, and restart goes on with the state. Real drivers; the sink
is Spark's file sink, which skips batch ids that it has."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.compatibility.report import IncompatibleError
from tests.ground.records import Records

STATEFUL = Path(__file__).parents[1] / "ground" / "standalone_app.py"


class Files(Records):
    """Each record once in a file sink, by a deduplication that keeps all ids it has seen."""

    source_file = STATEFUL

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ("files",), {})

    def repeat(self) -> None:
        """One more file, of records that all were there: only its state knows."""
        self.put_file(f"{self.written:05d}.json", list(self.records))
        self.written += 1

    def kill(self, deployment: str) -> None:
        """SIGKILL to every process of the driver."""
        launch = self.client.registry.app(self.app).launch(deployment)
        assert launch is not None and launch.pid is not None
        os.killpg(launch.pid, signal.SIGKILL)
        drivers = self.client.drivers(self.app)
        wait_for(lambda: drivers.has_ended(deployment) or None, "the end of its processes", self.patience)
        assert drivers.state(deployment) == "lost"

    def refused(self) -> str:
        """What a plain submit of version 2 is told."""
        conf = [word for key, value in self.conf.items() for word in ("--conf", f"{key}={value}")]
        return self.cli("submit", self.version(2), "--deployment", "two", *self.params, *conf, code=1)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_driver_is_restarted_with_its_state_and_not_submitted_without(ground: Files) -> None:
    ground.run_version_1()
    ground.kill("one")
    ground.repeat()
    ground.write()
    before = set(ground.client.registry.folder.files(f"{ground.app}/deployments"))

    told = ground.refused()
    assert "deployment one (lost, files up to batch 1)" in told and "streamupdate restart records" in told
    assert set(ground.client.registry.folder.files(f"{ground.app}/deployments")) == before
    assert ground.client.status(ground.app).current.epoch == 1

    assert "streamupdate restart records" in ground.cli("status", ground.app)
    restarted = ground.json("restart", ground.app)
    assert (restarted["deployment"], restarted["epoch"]) == ("one", 2)
    assert "the driver of app records is alive" in ground.cli("restart", ground.app, code=1)
    ground.wait_for_all()
    ground.count_up("files", ground.file_sink())
    assert ground.client.status(ground.app).status.queries["files"].first_batch == 2


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_fresh_start_is_refused_where_the_file_sink_would_drop_its_rows(ground: Files) -> None:
    ground.run_version_1()
    ground.kill("one")
    ground.write()
    with pytest.raises(IncompatibleError, match="has batches up to 1, and the sink skips batches with these ids"):
        ground.client.submit(ground.of_version(2), "two", fresh=True)
    assert ground.client.status(ground.app).current.epoch == 1

    ground.given["output"] = str(ground.folder / "anew")
    ground.client.submit(ground.of_version(2), "two", fresh=True, timeout=ground.patience)
    ground.wait_for_all()
    ground.count_up("files anew", ground.file_sink())
    assert ground.client.status(ground.app).status.queries["files"].first_batch == 0
