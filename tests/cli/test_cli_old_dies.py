"""The old version's driver dies while the new one gets ready: it is noticed at once, and the new version takes over
from what the old one has committed, or the old one is started again."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from click.testing import Result

from airflow_provider_streamupdate.control.update.strategies import standby
from airflow_provider_streamupdate.core import clock

from .conftest import Site, until

NOTICED_SECONDS = 60.0  # by far less than what is waited for, 300 s


def update(site: Site, *options: str, **constants: Any) -> Result:
    return site.run("update", site.application("v2", **constants), "--deployment", "v2", *options)


def planned(site: Site) -> bool:
    app = site.app
    return "v2" in app.deployment_ids() and app.deployment_folder("v2").exists("planned.json")


def crash_when(site: Site, reached: Callable[[], bool], *options: str, **constants: Any) -> Result:
    """The update, during which the old version's driver is killed."""
    with ThreadPoolExecutor(1) as pool:
        updating = pool.submit(update, site, *options, **constants)
        until(reached, "the moment")
        site.crash("v1")
        began = clock.monotonic()
        result = updating.result()
    assert clock.monotonic() - began < NOTICED_SECONDS, result.stderr
    return result


def continues(site: Site) -> None:
    """v2 runs, and has every batch after the last one that v1 committed, once."""
    assert site.alive() == ["v2"]
    old, new = site.commits("v1"), site.commits("v2")
    assert new == list(range(new[0], new[-1] + 1)) and new[0] <= old[-1] < new[-1]
    record = site.app.update("v2")
    assert record is not None and record.outcome == "promoted"
    assert site.client.snapshot("alarm", "before-v2").queries["events"].batch == old[-1]
    assert site.run("rollback", "alarm", "--to", "v1").exit_code == 0 and site.alive() == ["v1"]
    assert site.commits("v1")[-1] >= old[-1]


@pytest.mark.parametrize("strategy", ["standby", "follow"])
def test_one_that_gets_warm_takes_over_at_once(running: Site, strategy: str) -> None:
    """Found from outside: noticed at the hand-over, three minutes later, and the update failed."""
    result = crash_when(running, lambda: planned(running), "--strategy", strategy, FAIL="slow")
    assert result.exit_code == 0, result.stderr
    assert "v1 died; v2 takes over from its checkpoint" in result.stderr
    continues(running)


@pytest.mark.parametrize(("strategy", "moment"), [("standby", "standby-ready"), ("follow", "handover-asked")])
def test_one_that_stands_by_takes_over(
    running: Site, monkeypatch: pytest.MonkeyPatch, strategy: str, moment: str
) -> None:
    """Before the old one is told to hand over, and before it answers."""
    real = standby.boundary

    def crash_at(name: str) -> None:
        real(name)
        if name == moment:
            running.crash("v1")

    monkeypatch.setattr(standby, "boundary", crash_at)
    result = update(running, "--strategy", strategy)
    assert result.exit_code == 0, result.stderr
    continues(running)


def test_one_that_cannot_take_over_is_given_up(running: Site) -> None:
    """It dies in its first batch: the old version runs again where it stopped."""
    result = crash_when(running, lambda: planned(running), FAIL="run")
    assert result.exit_code != 0 and "was rolled back; v1 runs again" in result.stderr
    assert running.alive() == ["v1"]


def test_one_that_runs_beside_is_given_up(site: Site) -> None:
    """It has its own sinks: what the old version's last batch has written is not known there."""
    old, new = ({"format": "kafka", "options": {"topic": topic}} for topic in ("old", "new"))
    assert site.run("submit", site.application(SINK=old), "--deployment", "v1").exit_code == 0
    beside = ("--strategy", "parallel", "--run-beside", "600")
    result = crash_when(site, lambda: planned(site), *beside, SINK=new)
    assert result.exit_code != 0 and "is lost" in result.stderr, result.stderr
    assert site.alive() == ["v1"]
