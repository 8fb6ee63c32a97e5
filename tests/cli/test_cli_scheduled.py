"""An app whose queries end by themselves, and that is started again for each run: drivers of the stand-in."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import Result

from airflow_provider_streamupdate.core.registry.deployment import Status

from .conftest import Site, document


def status(site: Site) -> Status:
    found = site.client.status("alarm")
    assert found.state == "finished" and found.status is not None
    return found.status


def update(site: Site, version: str, *options: str, **constants: Any) -> Result:
    file = site.application(version, **{"ENDS": True, **constants})
    return site.run("update", file, "--deployment", version, *options)


@pytest.fixture
def finished(site: Site) -> Site:
    """It has run once, over three batches."""
    site.ok("submit", site.application(ENDS=True, INPUT=3), "--deployment", "v1")
    run = site.ok("restart", "alarm", "--until-finished")
    assert run.stdout == f"alarm has finished its run as deployment v1 (epoch {status(site).epoch})\n"
    assert status(site).queries["events"].batch == 2
    return site


@pytest.mark.parametrize("strategy", ["standby", "restart", "follow"])
def test_an_app_that_has_finished_is_updated_between_its_runs(finished: Site, strategy: str) -> None:
    """It was refused: 'not running, so there is nothing to update'."""
    result = update(finished, "v2", "--strategy", strategy, "--verify-for", "60", INPUT=6)
    assert result.exit_code == 0, result.stderr
    record = finished.record("v2")
    assert (record.outcome, record.strategy, record.old) == ("promoted", "restart", "v1")
    assert "query events has committed 3 batches since its start, and has ended by itself" in record.verified
    events = status(finished).queries["events"]
    assert (events.first_batch, events.batch) == (3, 5), "it goes on where version 1 ended"
    assert document(finished.run("restart", "alarm", "--until-finished", "--json"))["deployment"] == "v2"
    assert update(finished, "v2", INPUT=6).exit_code == 1, "the id is used"


@pytest.mark.parametrize("refused", [{"FAIL": "plan"}, {"STAGES": {"rooms": ["floor"]}}])
def test_an_update_that_is_refused_starts_nothing(finished: Site, refused: dict[str, Any]) -> None:
    before = finished.current
    assert update(finished, "v2", INPUT=6, **refused).exit_code == 1
    assert finished.current == before and finished.app.rollbacks() == []
    assert [record.outcome for record in finished.app.updates()] in ([], ["refused"])


def test_one_that_has_finished_is_not_cancelled(finished: Site) -> None:
    before = finished.current
    assert finished.run("cancel", "alarm").stdout == "alarm is finished; no driver of it ran\n"
    assert finished.current == before


def test_a_run_fails_with_its_driver(finished: Site) -> None:
    assert update(finished, "v2", INPUT=4).exit_code == 0
    folder = finished.folder / "root" / "alarm" / "deployments" / "v2" / "application"
    (folder / "v2.py").write_text((folder / "v2.py").read_text() + "\nFAIL = 'run'\n")
    result = finished.run("restart", "alarm", "--until-finished")
    assert result.exit_code == 1 and "a row the new version cannot read" in result.stderr
