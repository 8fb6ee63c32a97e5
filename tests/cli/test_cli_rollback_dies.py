"""A rollback whose process dies while the app is down, with a stand-in for Spark."""

from __future__ import annotations

import pytest

from .another import killed_at
from .conftest import Site, document


@pytest.fixture(params=["new-stopped", "epoch-claimed"])
def died(site: Site, request: pytest.FixtureRequest) -> Site:
    """App alarm was to go back from v2 to v1."""
    assert site.run("submit", site.application(), "--deployment", "v1").exit_code == 0
    assert site.run("update", site.application("v2"), "--deployment", "v2").exit_code == 0
    killed_at(site, request.param, lambda client: client.rollback("alarm"))
    return site


def needs(site: Site) -> list[str]:
    return [need["kind"] for need in document(site.run("list", "--json"))[0]["needs"]]


def test_it_is_named_everywhere_and_completed(died: Site) -> None:
    told = "streamupdate rollback alarm completes it"
    listed = document(died.run("list", "--json"))[0]
    assert listed["state"] == "cancelled" and told in listed["next_step"] and needs(died) == ["update-interrupted"]
    assert told in died.run("status", "alarm").stdout
    doctor = died.run("doctor")
    assert doctor.exit_code == 1 and told in doctor.stdout
    assert died.run("rollback", "alarm").exit_code == 0
    for command in ("cancel", "restart"):
        assert died.run(command, "alarm").exit_code == 0 and needs(died) == []


@pytest.mark.parametrize("command", ["restart", "cancel"])
def test_who_starts_the_app_otherwise_or_cancels_it_is_told_nothing(died: Site, command: str) -> None:
    assert died.run(command, "alarm").exit_code == 0 and needs(died) == []
    assert died.run("cancel", "alarm").exit_code == 0 and needs(died) == []
