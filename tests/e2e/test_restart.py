"""Restarts and rollbacks with real drivers, where the sink is Spark's file sink, which skips batch ids that it has: a
driver with state is killed, or a newer version has written."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from tests.ground.records import Records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
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


GROUND = Files


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


def test_a_rollback_loses_nothing_that_the_newer_version_had_read(ground: Files) -> None:
    ground.run_version_1()
    ground.client.update(UpdateOptions(application=ground.of_version(2), deployment="two", strategy="restart"))
    ground.run_version_2()
    shared = [record for record in ground.records if record[0] >= 2 * ground.new_in_file]
    assert len(shared) == 2 * ground.new_in_file
    ground.client.rollback(ground.app)
    ground.write()

    def read_all() -> bool | None:
        status = ground.client.status(ground.app).status
        return (status is not None and status.queries["files"].batch == 6) or None  # 2 to 4 again, as 4 to 6

    wait_for(read_all, "the last file", ground.patience)
    found = ground.file_sink()
    told = Counter((row["id"], row["version"]) for row in found)
    expected = Counter((n, 1) for n, _, _ in ground.records) + Counter((n, 2) for n, _, _ in shared)
    assert told == expected  # version 1 has computed everything, and what version 2 wrote stays
    log = ground.client.driver_log(ground.app, "one", 1000).lines
    assert any("the sink of query files has batches up to 3 from another version" in line for line in log)
