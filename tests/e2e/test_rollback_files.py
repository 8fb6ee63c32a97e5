"""A rollback with real drivers, where the sink is Spark's file sink: it skips batch ids that it has of the newer
version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.control.waiting import wait_for
from tests.ground.records import Records

STATEFUL = Path(__file__).parents[1] / "ground" / "standalone_app.py"


class Files(Records):
    source_file = STATEFUL

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, ("files",), {})


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Files]:
    made = Files(tmp_path)
    yield made
    made.end()


@pytest.mark.slow
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
