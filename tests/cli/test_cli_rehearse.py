"""The command `rehearse` and `update --rehearse`, with a stand-in for Spark (tests/airflow/standin_spark_submit.py);
what a rehearsal does with Spark is in tests/spark/test_rehearse.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.operations import rehearse
from airflow_provider_streamupdate.control.update.strategies import standby

from .conftest import Site, document, table


@pytest.fixture
def running(site: Site) -> Site:
    """App alarm runs as deployment v1, and has two snapshots."""
    site.submit()
    for name in ("s1", "s2"):
        site.ok("save-snapshot", "alarm", name)
    return site


def files(site: Site) -> set[Path]:
    """What lies under the root, but for the logs the running app goes on writing."""
    found = {path for path in (site.folder / "root").rglob("*") if path.is_file()}
    return {path for path in found if not path.is_relative_to(site.folder / "root" / "alarm" / "deployments")}


def test_a_rehearsal_is_shown_beside_the_old_versions(running: Site) -> None:
    before, current = files(running), running.client.status("alarm").current
    result = running.ok("rehearse", running.application("v2"), "--batches", "2")
    first = running.client.snapshot("alarm", "s2").queries["events"].batch + 1
    rows = table(result)
    assert ["snapshot", "s2", "(the", "newest)"] in rows and ["verdict", "went", "well"] in rows
    for number in (0, 1):
        kept = str(10 + number)
        assert ["events", str(first + number), "2", "2", "1", "2", kept, kept, "0.5", "0.5"] in rows
    assert ["events/rooms", "10", "11", "11"] in rows
    assert "query events ended after 2 batches" in result.stdout
    assert files(running) == before, "the scratch folders are removed, though the drivers left them"
    assert running.client.status("alarm").current == current and running.alive() == ["v1"]
    assert [s.deployment for s in running.client.deployments("alarm")] == ["v1"]


def test_what_fails_is_1(running: Site) -> None:
    died = running.ok("rehearse", running.application("v2", REHEARSAL="ValueError: no"), "--json", code=1)
    found = document(died)
    assert found["problems"] == ["query events: ValueError: no"] and found["old"] is None, "nothing to compare with"
    refused = running.ok("rehearse", running.application("v2", STAGES={"rooms": ["floor"]}), code=1)
    assert ["verdict", "not", "compatible"] in table(refused)
    assert "keys changed: room -> floor" in refused.stdout
    less = running.application("v2", STAGES={"other": ["room"]})
    running.ok("rehearse", less, code=1)
    running.ok("rehearse", less, "--agree", "events/rooms")
    running.ok("rehearse", less, "--rename", "rooms=other")


def test_what_cannot_be_rehearsed_is_2(running: Site) -> None:
    for args, kind in (
        (("--snapshot", "nosuch"), "NotFoundError"),
        (("--batches", "0"), "BadParameter"),
        (("--markdown",), "UsageError"),
    ):
        assert running.error("rehearse", running.application("v2"), *args, code=2)["type"] == kind
    running.submit("d1", APP="door")
    told = running.refused("rehearse", running.application("d2", APP="door"), code=2)
    assert "app door has no snapshot; take one first (save-snapshot)" in told


@pytest.mark.parametrize(
    ("line", "why"),
    [("REHEARSAL = 'OSError: its files are gone'", "OSError: its files are gone"), ("FAIL = 'plan'", "query events")],
)
def test_that_the_old_version_cannot_be_rehearsed_does_not_stand_in_the_way(running: Site, line: str, why: str) -> None:
    spec = running.app.spec("v1")
    code = running.folder / "root" / "alarm" / "deployments" / "v1" / spec.application.file
    code.write_text(f"{code.read_text()}{line}\n")
    result = running.ok("rehearse", running.application("v2"))
    assert f"no figures of the old version: deployment v1: {why}" in result.stdout


def test_an_update_rehearses_first(running: Site) -> None:
    result = document(running.update("v2", "--rehearse", "2", "--json", code=1, REHEARSAL="ValueError: no"))
    assert result["error"]["type"] == "RehearsalError" and result["report"]["passed"] is False
    assert running.record("v2").outcome == "refused" and running.alive() == ["v1"] and running.lease_is_free()
    running.update("v3", "--rehearse", "2")
    record = running.record("v3")
    steps = sorted(record.step_times, key=lambda s: record.step_times[s])
    assert record.outcome == "promoted" and steps.index("check") < steps.index("rehearse") < steps.index("prepare")
    assert running.app.folder.exists("updates/v3.rehearsal.report.json")
    assert [r.new for r in running.app.updates()] == ["v2", "v3"]


def test_an_update_that_is_continued_does_not_rehearse_again(running: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as crashing:
        crashing.setattr(standby.Standby, "get_ready", interrupt)
        running.update("v2", "--rehearse", "1", code=130)
    assert running.record("v2").step == "rehearse"
    monkeypatch.setattr(rehearse, "rehearse", interrupt)
    running.update("v2", "--rehearse", "1")
    assert running.alive() == ["v2"]


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
