"""An update whose new version does worse than the app did before, with drivers of the stand-in."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import Result

from airflow_provider_streamupdate.core.difference.figures import KEPT
from airflow_provider_streamupdate.core.slo import rules
from airflow_provider_streamupdate.core.slo.limits import NAMES

from .conftest import Site, until


@pytest.fixture
def running(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(rules, "PATIENCE_SECONDS", 2.0)
    site.ok("submit", site.application(), "--deployment", "v1")
    site.client.wait_healthy("alarm")
    until(lambda: len(site.commits("v1")) > KEPT // 2 or None, "batches to compare with")
    return site


def update(site: Site, *options: str, **constants: Any) -> Result:
    file = site.application("v2", **constants)
    return site.run("update", file, "--deployment", "v2", "--verify-for", "1", *options)


WORSE = [
    ("rows-out", {"ROWS_OUT": 40}, "rows out for"),
    (
        "batch-time",
        {"BATCH_TIME": 3.0},
        "a batch takes 3.00 s; before, 0.05 s when it was slow (at most 0.65 s are allowed)",
    ),
]


@pytest.mark.parametrize(("limit", "constants", "told"), WORSE)
def test_one_that_does_worse_is_rolled_back(running: Site, limit: str, constants: dict[str, Any], told: str) -> None:
    result = update(running, "--strategy", "restart", **constants)
    text = " ".join(result.stderr.split())
    assert result.exit_code == 1 and f"query events, {limit}: " in text and told in text, text
    assert f"to allow it, give option slo: {limit}=LIMIT, or {limit}=off" in text
    record = running.record("v2")
    assert record.outcome == "rolled-back" and limit in str(record.reason)
    assert running.alive() == ["v1"]


def test_one_that_does_as_well_is_promoted_and_says_so(running: Site) -> None:
    result = update(running)
    assert result.exit_code == 0, result.stderr
    record = running.record("v2")
    assert record.outcome == "promoted"
    found = {text.split(": ")[0]: text for text in record.verified if text.startswith("query events, ")}
    assert set(found) == {f"query events, {name}" for name in NAMES}
    assert "not compared" not in found["query events, batch-time"] + found["query events, rows-out"]
