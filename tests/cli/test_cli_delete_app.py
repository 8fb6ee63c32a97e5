"""`delete-app`, with a stand-in for Spark. What two commands make of each other: test_cli_command_pairs.py."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.drivers.launcher import SparkSubmit
from airflow_provider_streamupdate.core import boundaries
from airflow_provider_streamupdate.core.boundaries import BOUNDARIES, KILL
from airflow_provider_streamupdate.core.errors import StreamUpdateError
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.core.builders import app_with_snapshots, set_status, status

from .conftest import Site, document
from .test_cli_each_boundary import Marks, ended, forked

EACH = ("deletion-noted", "records-removed", "deployments-removed", "snapshots-removed")


@pytest.fixture
def cancelled(site: Site) -> Site:
    """App alarm was cancelled; it has deployment v1 and snapshot s1."""
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    assert site.run("save-snapshot", "alarm", "s1").exit_code == 0
    assert site.run("cancel", "alarm").exit_code == 0
    return site


def folder(site: Site) -> Path:
    return site.folder / "root" / "alarm"


def test_a_cancelled_app_is_deleted_and_its_name_is_free(cancelled: Site) -> None:
    result = cancelled.run("delete-app", "alarm", "--yes", "--json")
    assert result.exit_code == 0, result.stderr
    found = document(result)
    assert found["app"] == "alarm" and found["bytes_freed"] > 0 and found["snapshots"] == []
    assert not folder(cancelled).exists() and cancelled.client.apps() == []
    assert cancelled.run("delete-app", "alarm", "--yes").exit_code == 1
    assert not folder(cancelled).exists()
    again = cancelled.run("submit", cancelled.application(), "--deployment", "v1", "--json")
    assert again.exit_code == 0 and document(again)["epoch"] == 1


@pytest.mark.parametrize(("typed", "code"), [("alarm\n", 0), ("alarms\n", 2), ("", 2)])
def test_the_name_is_to_be_typed(cancelled: Site, typed: str, code: int) -> None:
    result = CliRunner().invoke(main, ["delete-app", "alarm"], input=typed)
    assert result.exit_code == code and "Type the app's name (alarm)" in result.stderr
    assert folder(cancelled).exists() is (code != 0)


def test_what_is_not_cancelled_is_not_deleted(site: Site) -> None:
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    for state in ("running", "lost"):
        result = site.run("delete-app", "alarm", "--yes")
        assert result.exit_code == 1 and f"is {state}, and only a cancelled one is deleted" in result.stderr
        site.crash("v1")
    assert not (folder(site) / "deletion.json").exists()
    assert site.run("restart", "alarm").exit_code == 0


@pytest.mark.processes
def test_a_driver_beside_the_current_one_stands_in_the_way(cancelled: Site) -> None:
    launch = (folder(cancelled) / "deployments" / "v1" / "launch.json").read_text()
    other = folder(cancelled) / "deployments" / "v2"
    other.mkdir()
    spec = (folder(cancelled) / "deployments" / "v1" / "spec.json").read_text()
    (other / "spec.json").write_text(spec.replace('"deployment": "v1"', '"deployment": "v2"'))
    # Its machine cannot be inspected.
    (other / "launch.json").write_text(launch.replace('"handed_over": false', '"handed_over": true'))
    result = cancelled.run("delete-app", "alarm", "--yes")
    assert result.exit_code == 1 and "a driver of app alarm may be alive" in result.stderr, result.stderr
    assert "deployment v2" in result.stderr and folder(cancelled).joinpath("current.json").exists()
    shutil.rmtree(other)
    assert cancelled.run("delete-app", "alarm", "--yes").exit_code == 0


@pytest.mark.processes
@pytest.mark.parametrize("boundary", EACH)
def test_one_that_dies_half_way_leaves_nothing_to_start_and_is_completed(
    cancelled: Site, tmp_path: Path, boundary: str
) -> None:
    assert boundary in BOUNDARIES
    marks = Marks(tmp_path / "boundaries")
    marks.arm(boundary, KILL)

    def work() -> None:
        boundaries._folder = str(marks.folder)
        StreamUpdateClient(cancelled.client.root).delete_app("alarm")

    assert ended(forked(work)) == -signal.SIGKILL
    for command in (("restart", "alarm"), ("rollback", "alarm"), ("submit", cancelled.application())):
        result = cancelled.run(*command)
        assert result.exit_code == 1 and "run streamupdate delete-app alarm again" in result.stderr, result.stderr
    listed = document(cancelled.run("list", "--json"))
    if boundary == "records-removed":  # before, it is shown as cancelled; later, it has no deployment
        assert "run streamupdate delete-app alarm again" in listed[0]["error"]["message"]
    refused = cancelled.run("delete-app", "alarm", "--yes", "--keep-snapshots")
    assert refused.exit_code == 1 and "begun without keeping its snapshots" in refused.stderr
    assert cancelled.run("delete-app", "alarm", "--yes").exit_code == 0
    assert not folder(cancelled).exists()


@pytest.mark.processes
def test_who_takes_the_lease_of_a_dead_deletion_starts_nothing(
    cancelled: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion begins, and dies, after a restart has looked for one."""
    client = StreamUpdateClient(cancelled.client.root, SparkSubmit())
    marks = Marks(tmp_path / "boundaries")
    marks.arm("deletion-noted", KILL)

    looked = type(client.registry).existing

    def work() -> None:
        monkeypatch.setattr(type(client.registry), "existing", looked)
        boundaries._folder = str(marks.folder)
        client.delete_app("alarm")

    def existing(registry: object, name: str) -> object:
        found = looked(registry, name)
        if not marks.reached("deletion-noted"):
            ended(forked(work))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(type(client.registry), "existing", existing)
        with pytest.raises(StreamUpdateError, match="is not complete"):
            client.restart("alarm")
    assert cancelled.client.registry.app("alarm").cancellation() is not None
    client.delete_app("alarm")


def test_a_fork_of_a_deleted_app_is_compared_with_its_last_version(tmp_path: Path) -> None:
    """Its sinks must be others, also those that the snapshot's version did not have."""
    app = app_with_snapshots(tmp_path)
    last = app.plan("v1")
    set_status(app, "v1", status("cancelled"))
    StreamUpdateClient(str(tmp_path)).delete_app("flights", keep_snapshots=True)
    assert SavedState.find(app, "snapshot:s1").forked(app).beside == (last,)


def test_kept_snapshots_start_another_app_and_are_deleted_later(cancelled: Site) -> None:
    result = cancelled.run("delete-app", "alarm", "--yes", "--keep-snapshots", "--json")
    assert result.exit_code == 0 and document(result)["snapshots"] == ["s1"]
    assert cancelled.client.apps() == [] and document(cancelled.run("list", "--json")) == []
    assert {path.name for path in folder(cancelled).iterdir()} == {"deletion.json", "lease", "objects", "snapshots"}
    assert cancelled.run("verify-snapshot", "alarm", "s1").exit_code == 0
    for listed in (("list-snapshots", "alarm", "--json"), ("list-snapshots", "--json")):
        assert [s["name"] for s in document(cancelled.run(*listed))] == ["s1"]
    for command in (("restart", "alarm"), ("submit", cancelled.application()), ("delete-snapshot", "alarm", "s1")):
        refused = cancelled.run(*command)
        assert refused.exit_code == 1 and "its snapshots were kept" in refused.stderr
    trial = cancelled.application("trial", APP="trial")
    fork = ("--deployment", "f1", "--snapshot", "s1", "--fork", "--from-app", "alarm")
    forked_app = cancelled.run("submit", trial, *fork)
    assert forked_app.exit_code == 0, forked_app.stderr
    status = cancelled.client.wait_healthy("trial").status
    saved = cancelled.client.snapshot("alarm", "s1").queries["events"].batch
    assert status is not None and status.queries["events"].first_batch == saved + 1
    assert cancelled.run("delete-app", "alarm", "--yes", "--keep-snapshots").exit_code == 0  # changes nothing
    (cancelled.folder / "root" / "trial" / "deployments" / "f1" / "restored" / "events.json").rename(
        cancelled.folder / "mark"
    )
    refused = cancelled.run("delete-app", "alarm", "--yes")
    assert refused.exit_code == 1 and "deployment f1 of app trial has yet to build its state" in refused.stderr
    (cancelled.folder / "mark").rename(
        cancelled.folder / "root" / "trial" / "deployments" / "f1" / "restored" / "events.json"
    )
    assert cancelled.run("delete-app", "alarm", "--yes").exit_code == 0
    assert not folder(cancelled).exists() and cancelled.client.status("trial").state == "running"
