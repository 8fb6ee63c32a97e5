"""`delete-app`, with a stand-in for Spark. What two commands make of each other: test_cli_command_pairs.py."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from click.testing import CliRunner

from airflow_provider_streamupdate.cli import main
from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.streaming.restore.saved_state import SavedState
from tests.core.builders import app_with_snapshots, set_status, status

from .another import killed_at
from .conftest import Site, document

EACH = ("deletion-noted", "records-removed", "deployments-removed", "snapshots-removed")


@pytest.fixture
def cancelled(site: Site) -> Site:
    """App alarm was cancelled; it has deployment v1 and snapshot s1."""
    site.ok("submit", site.application(), "--deployment", "v1")
    site.ok("save-snapshot", "alarm", "s1")
    site.ok("cancel", "alarm")
    return site


def folder(site: Site) -> Path:
    return site.folder / "root" / "alarm"


def test_a_cancelled_app_is_deleted_and_its_name_is_free(cancelled: Site) -> None:
    result = cancelled.ok("delete-app", "alarm", "--yes", "--json")
    found = document(result)
    assert found["app"] == "alarm" and found["bytes_freed"] > 0 and found["snapshots"] == []
    assert not folder(cancelled).exists() and cancelled.client.apps() == []
    assert cancelled.run("delete-app", "alarm", "--yes").exit_code == 1
    assert not folder(cancelled).exists()
    again = cancelled.ok("submit", cancelled.application(), "--deployment", "v1", "--json")
    assert document(again)["epoch"] == 1


@pytest.mark.parametrize(("typed", "code"), [("alarm\n", 0), ("alarms\n", 2), ("", 2)])
def test_the_name_is_to_be_typed(cancelled: Site, typed: str, code: int) -> None:
    result = CliRunner().invoke(main, ["delete-app", "alarm"], input=typed)
    assert result.exit_code == code and "Type the app's name (alarm)" in result.stderr
    assert folder(cancelled).exists() is (code != 0)


def test_what_is_not_cancelled_is_not_deleted(site: Site) -> None:
    site.ok("submit", site.application(), "--deployment", "v1")
    for state in ("running", "lost"):
        result = site.run("delete-app", "alarm", "--yes")
        assert result.exit_code == 1 and f"is {state}, and only a cancelled one is deleted" in result.stderr
        site.crash("v1")
    assert not (folder(site) / "deletion.json").exists()
    site.ok("restart", "alarm")


def test_a_driver_beside_the_current_one_stands_in_the_way(cancelled: Site) -> None:
    registry = cancelled.app
    registry.create_deployment(attrs.evolve(registry.spec("v1"), deployment="v2"))
    launch = registry.launch("v1")
    assert launch is not None and launch.process is not None
    elsewhere = attrs.evolve(launch.process, boot="another machine's")
    registry.set_launch("v2", attrs.evolve(launch, process=elsewhere))
    result = cancelled.run("delete-app", "alarm", "--yes")
    assert result.exit_code == 1 and "a driver of app alarm may be alive" in result.stderr, result.stderr
    assert "deployment v2" in result.stderr and registry.current() is not None
    registry.folder.remove("deployments/v2")
    cancelled.ok("delete-app", "alarm", "--yes")


@pytest.mark.parametrize("boundary", EACH)
def test_one_that_dies_half_way_leaves_nothing_to_start_and_is_completed(cancelled: Site, boundary: str) -> None:
    killed_at(cancelled, boundary, lambda client: client.delete_app("alarm"))
    for command in (("restart", "alarm"), ("rollback", "alarm"), ("submit", cancelled.application())):
        result = cancelled.run(*command)
        assert result.exit_code == 1 and "run streamupdate delete-app alarm again" in result.stderr, result.stderr
    listed = document(cancelled.run("list", "--json"))
    if boundary == "records-removed":  # before, it is shown as cancelled; later, it has no deployment
        assert "run streamupdate delete-app alarm again" in listed[0]["error"]["message"]
    refused = cancelled.run("delete-app", "alarm", "--yes", "--keep-snapshots")
    assert refused.exit_code == 1 and "begun without keeping its snapshots" in refused.stderr
    cancelled.ok("delete-app", "alarm", "--yes")
    assert not folder(cancelled).exists()


def test_a_fork_of_a_deleted_app_is_compared_with_its_last_version(tmp_path: Path) -> None:
    """Its sinks must be others, also those that the snapshot's version did not have."""
    app = app_with_snapshots(tmp_path)
    last = app.plan("v1")
    set_status(app, "v1", status("cancelled"))
    StreamUpdateClient(str(tmp_path)).delete_app("flights", keep_snapshots=True)
    assert SavedState.find(app, "snapshot:s1").forked(app).beside == (last,)


def test_kept_snapshots_start_another_app_and_are_deleted_later(cancelled: Site) -> None:
    result = cancelled.ok("delete-app", "alarm", "--yes", "--keep-snapshots", "--json")
    assert document(result)["snapshots"] == ["s1"]
    assert cancelled.client.apps() == [] and document(cancelled.run("list", "--json")) == []
    assert {path.name for path in folder(cancelled).iterdir()} == {"deletion.json", "lease", "objects", "snapshots"}
    cancelled.ok("verify-snapshot", "alarm", "s1")
    for listed in (("list-snapshots", "alarm", "--json"), ("list-snapshots", "--json")):
        assert [s["name"] for s in document(cancelled.run(*listed))] == ["s1"]
    for command in (("restart", "alarm"), ("submit", cancelled.application()), ("delete-snapshot", "alarm", "s1")):
        refused = cancelled.run(*command)
        assert refused.exit_code == 1 and "its snapshots were kept" in refused.stderr
    trial = cancelled.application("trial", APP="trial")
    fork = ("--deployment", "f1", "--snapshot", "s1", "--fork", "--from-app", "alarm")
    cancelled.ok("submit", trial, *fork)
    saved = cancelled.client.snapshot("alarm", "s1").queries["events"].batch
    assert cancelled.first_batch("trial") == saved + 1
    assert cancelled.run("delete-app", "alarm", "--yes", "--keep-snapshots").exit_code == 0  # changes nothing
    restored = cancelled.folder / "root" / "trial" / "deployments" / "f1" / "restored" / "events.json"
    restored.rename(cancelled.folder / "mark")
    refused = cancelled.run("delete-app", "alarm", "--yes")
    assert refused.exit_code == 1 and "deployment f1 of app trial has yet to build its state" in refused.stderr
    (cancelled.folder / "mark").rename(restored)
    cancelled.ok("delete-app", "alarm", "--yes")
    assert not folder(cancelled).exists() and cancelled.client.status("trial").state == "running"
