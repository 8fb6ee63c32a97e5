"""Today's package drives a driver of the release before, with the stand-in for Spark: the one of that release, on that
release's state library (tests/golden/root.py keeps both). Its control side is today's."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.golden import FOLDER
from tests.golden.root import APP, application, unpack
from tests.standin import REPOSITORY, STANDIN

from .conftest import Site, document

DRIVERS = sorted(path.name.split(".tar")[0] for path in FOLDER.glob("driver-*"))


def ok(site: Site, *args: str) -> None:
    result = site.run(*args)
    assert result.exit_code == 0, (args, result.output)


class Skew:
    """A spark-submit that runs each deployment by the release it was started with, as its runtime.zip does."""

    def __init__(self, site: Site, spark: Path, older: Path) -> None:
        self.site = site
        self.deployments = site.folder / "older-deployments"
        self.deployments.mkdir()
        spark.write_text(f"""#!/bin/sh
top="{REPOSITORY}"
after=
for word in "$@"; do
    [ "$after" != --deployment ] || [ ! -e "{self.deployments}/$word" ] || top="{older}"
    after=$word
done
PYTHONPATH="$top" exec "{sys.executable}" "$top/{STANDIN}" "$@"
""")

    def older(self, deployment: str) -> None:
        """Its drivers are of the release before."""
        (self.deployments / deployment).touch()

    def format_of_status(self, deployment: str) -> int:
        """By what release its driver runs, as its heartbeat tells."""
        path = self.site.folder / "root" / APP / "deployments" / deployment / "status.json"
        return json.loads(path.read_text()).get("format", 0)


@pytest.fixture(params=DRIVERS)
def skew(request: pytest.FixtureRequest, site: Site, spark: Path) -> Skew:
    """v1 runs, by a driver of the release before."""
    made = Skew(site, spark, unpack(request.param, site.folder / "older"))
    made.older("v1")
    ok(site, "submit", application(site.folder, "v1"), "--deployment", "v1", "--set", "threshold=5")
    return made


def batch(site: Site) -> int:
    status = site.client.wait_healthy(APP).status
    assert status is not None
    return status.queries["events"].batch


@pytest.mark.processes
def test_a_driver_of_the_release_before_is_looked_at_saved_changed_and_ended(skew: Skew) -> None:
    site = skew.site
    assert skew.format_of_status("v1") == 0
    assert document(site.run("list", "--json"))[0]["state"] == "running"
    ok(site, "save-snapshot", APP, "s1")
    assert site.client.verify_snapshot(APP, "s1") > 0
    change = application(site.folder, "v1")
    ok(site, "update", change, "--strategy", "in_flight", "--set", "threshold=7")
    assert site.client.status(APP).spec.application.params == {"threshold": "7"}
    ok(site, "cancel", APP, "--drain")
    ok(site, "restart", APP)
    assert skew.format_of_status("v1") == 0 and site.alive() == ["v1"]


@pytest.mark.processes
def test_it_hands_over_to_today_s_driver_and_takes_back(skew: Skew) -> None:
    site = skew.site
    saved = batch(site)
    new = application(site.folder, "v2")
    ok(site, "update", new, "--deployment", "v2", "--set", "threshold=5")
    assert (skew.format_of_status("v1"), skew.format_of_status("v2")) == (0, 1)
    went = batch(site)
    assert went > saved
    ok(site, "rollback", APP)
    assert site.alive() == ["v1"] and skew.format_of_status("v1") == 0
    assert batch(site) >= saved


@pytest.mark.processes
def test_today_s_version_is_handed_over_to_the_one_before(skew: Skew) -> None:
    """A machine whose package is older brings in the next version: its driver reads what today's has written."""
    site = skew.site
    ok(site, "update", application(site.folder, "v2"), "--deployment", "v2", "--set", "threshold=5")
    skew.older("v3")
    ok(site, "update", application(site.folder, "v3"), "--deployment", "v3", "--set", "threshold=5")
    assert (skew.format_of_status("v2"), skew.format_of_status("v3")) == (1, 0)
    assert site.alive() == ["v3"]
