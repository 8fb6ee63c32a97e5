"""`adopt`, with a stand-in for Spark; what it finds in real checkpoints is tested in tests/spark/test_adopt.py."""

from __future__ import annotations

import pytest

from airflow_provider_streamupdate.cli.commands.adopt import by_query
from airflow_provider_streamupdate.core.storage import Folder
from tests.core.builders import CheckpointFiles

from .conftest import Site, document


@pytest.fixture
def legacy(site: Site) -> CheckpointFiles:
    """A checkpoint from elsewhere, after batch 1."""
    made = CheckpointFiles(Folder.open(str(site.folder / "legacy")))
    for number in range(2):
        made.batch(number)
        made.rocksdb(0, 0, number + 1, [f"00000{number}-x.sst"])
    return made


def adopt(site: Site, *options: str, checkpoint: str = "legacy", **constants: str):
    file = site.application("v1", **constants)
    where = f"events={site.folder / checkpoint}"
    return site.run("adopt", where, "--app", "alarm", "--plan-from", file, *options)


def test_an_adopted_checkpoint_is_a_snapshot_an_app_starts_from(site: Site, legacy: CheckpointFiles) -> None:
    result = adopt(site)
    assert result.exit_code == 0, result.stderr
    adopted, then, stop = result.stdout.splitlines()
    assert adopted.startswith("adopted snapshot adopted of alarm: events after batch 1; ")
    assert then == f"next: streamupdate submit {site.folder / 'v1.py'} --snapshot adopted (with the same options)"
    assert stop.startswith("if the query still runs, stop it before the app is started: both would write to the same")
    [listed] = document(site.run("list-snapshots", "alarm", "--json"))
    assert (listed["name"], listed["kind"]) == ("adopted", "adopted")
    assert site.client.verify_snapshot("alarm", "adopted") > 5
    assert site.client.status("alarm").state == "new" and site.alive() == []
    submitted = site.ok("submit", site.folder / "v1.py", "--snapshot", "adopted", "--deployment", "v1", "--json")
    assert document(submitted)["epoch"] == 1
    assert site.first_batch() == 2
    again = adopt(site, "--json")
    assert again.exit_code == 1 and document(again)["error"]["type"] == "AlreadyExistsError"


def test_a_query_that_went_on_since_is_not_continued(site: Site, legacy: CheckpointFiles) -> None:
    assert adopt(site).exit_code == 0
    legacy.batch(2, commit=False)
    submitted = site.run("submit", site.folder / "v1.py", "--snapshot", "adopted", "--json")
    error = document(submitted)["error"]
    assert submitted.exit_code == 1 and error["type"] == "AlreadyRunningError"
    assert (
        "has continued from batch 1 to batch 2" in error["message"] and "adopt its checkpoint again" in error["message"]
    )
    assert [s.deployment for s in site.client.deployments("alarm")] == ["adopted"]
    site.ok("submit", site.folder / "v1.py", "--deployment", "v1", "--fresh")
    update = site.run("update", site.application("v2"), "--deployment", "v2", "--snapshot", "adopted")
    assert update.exit_code == 1 and "has continued from batch 1 to batch 2" in update.stderr
    assert site.alive() == ["v1"] and site.current.epoch == 1 and site.run("cancel", "alarm").exit_code == 0
    legacy.rocksdb(0, 0, 3)
    legacy.batch(2)
    assert adopt(site, "--snapshot", "adopted-2").exit_code == 0
    site.ok("submit", site.folder / "v1.py", "--snapshot", "adopted-2")


def test_a_checkpoint_of_other_code_is_refused_with_the_report(site: Site, legacy: CheckpointFiles) -> None:
    result = adopt(site, "--json", FAIL="adopt")
    found = document(result)
    assert result.exit_code == 1 and found["error"]["type"] == "IncompatibleError"
    assert "nothing was adopted:\n  stage events/rooms: as the application says" in found["error"]["message"]
    assert [i["verdict"] for i in found["report"]["items"]] == ["refused"]
    assert site.client.apps() == []


def test_what_is_no_checkpoint_is_wrong_usage(site: Site, legacy: CheckpointFiles) -> None:
    result = adopt(site, checkpoint="nowhere")
    assert result.exit_code == 2 and "nowhere is not a checkpoint: it has no metadata and no offsets" in result.stderr
    result = site.run("adopt", "a=/x", "/y", "--app", "alarm", "--plan-from", site.application())
    assert result.exit_code == 2 and "'/y' does not name its query" in result.stderr
    result = site.run("adopt", site.folder / "legacy", "--app", "other", "--plan-from", site.application())
    assert result.exit_code == 1 and "defines app alarm, not other" in result.stderr
    assert site.client.apps() == []


def test_checkpoints_by_query() -> None:
    assert by_query(["/data/a=b/ck"]) == "/data/a=b/ck"
    assert by_query(["q=/data/ck", "r=s3://b/x=1"]) == {"q": "/data/ck", "r": "s3://b/x=1"}
