"""A hot standby: a second driver of the same code that takes over when the first one dies."""

from __future__ import annotations

import pytest

from .another import client_of
from .conftest import Site, document, until

HOT = "v1-standby-1"


@pytest.fixture
def running(site: Site) -> Site:
    assert site.run("submit", site.application(RELOADABLE=["mark"]), "--deployment", "v1").exit_code == 0
    site.client.wait_healthy("alarm")
    return site


@pytest.fixture
def hot(running: Site) -> Site:
    result = running.run("standby", "on", "alarm")
    assert result.exit_code == 0, result.stderr
    assert running.alive() == ["v1", HOT]
    return running


def reason(site: Site, deployment: str) -> str:
    status = site.app.status(deployment)
    return str(status.reason if status else None)


def test_it_takes_over_when_the_driver_is_killed(hot: Site) -> None:
    told = document(hot.run("status", "alarm", "--json"))["hot_standby"]
    assert told["deployment"] == HOT and told["state"] == "standby"
    assert f"{HOT} is standby" in hot.run("status", "alarm").stdout
    before = hot.current
    hot.crash("v1")
    until(lambda: hot.current.deployment == HOT, "it takes over")
    assert hot.current.epoch == before.epoch + 1 and hot.current.promoted is before.promoted
    last = hot.commits("v1")[-1]
    until(lambda: hot.commits(HOT)[-1] > last, "it goes on")
    hot.client.wait_healthy("alarm")
    found = hot.commits(HOT)
    assert last in found and found == list(range(found[0], found[-1] + 1)), "no batch is left out"
    assert hot.alive() == [HOT] and "took over from v1, which died" in reason(hot, HOT)
    assert hot.run("cancel", "alarm").exit_code == 0 and hot.alive() == []


def test_it_is_one_driver_and_is_switched_off(hot: Site) -> None:
    again = hot.run("standby", "on", "alarm", "--json")
    assert again.exit_code == 0 and document(again)["hot_standby"]["deployment"] == HOT
    assert hot.alive() == ["v1", HOT]
    assert hot.run("standby", "off", "alarm").exit_code == 0 and hot.alive() == ["v1"]
    assert document(hot.run("standby", "off", "alarm", "--json"))["ended"] is None
    assert document(hot.run("status", "alarm", "--json"))["hot_standby"] is None


def test_what_cannot_have_one_is_told_so(running: Site) -> None:
    def refused(*args: str) -> str:
        result = running.run("standby", *args)
        assert result.exit_code in (1, 2), result.stdout
        return str(result.stderr)

    assert "no app 'other'" in refused("on", "other")
    assert "'maybe' is not one of 'on', 'off'" in refused("maybe", "alarm")
    client_of(running).begin_update("alarm", "v2", strategy="standby")
    assert "is under way" in refused("on", "alarm")
    client_of(running).rollback("alarm")
    assert running.run("cancel", "alarm").exit_code == 0
    assert "app alarm is cancelled (deployment v1); only an app that runs can have" in refused("on", "alarm")
    assert running.alive() == []
