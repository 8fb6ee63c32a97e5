"""The SLO gate by whole updates: versions of five running apps that do worse are rolled back, and versions that do as
well are promoted. Real drivers and the command line; the versions are those of tests/spark/test_slo_gate.py, which
has the gate by itself."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.slo.rules import SLACK_SECONDS
from tests.e2e.ground import Ground
from tests.levels.versions import APPS, AS_GOOD, MODES, NO_CLAIM, OLD, WORSE, Version, row

LEVELS = Path(__file__).parents[1] / "levels"
ROWS, KEYS = 300, 300_000
BATCHES_BEFORE, BATCHES_BETWEEN = 75, 30

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(900)]


class Levels(Ground):
    """An app of one kind with its old version, which gets a file every `feed_seconds`."""

    app = "levels"
    feed_seconds = 0.6
    cli_seconds = 700.0  # a version that does worse is looked at for minutes

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self.kind, self.chance, self.rows, self.number = kind, random.Random(7), 1.0, 0
        self.feed()
        self.cli("submit", *self.version(OLD), "--deployment", "v0")
        self.wait_for_more(BATCHES_BEFORE)

    def version(self, version: Version, slower: float = 0.0) -> list[str]:
        params = {
            "input": str(self.input), "kind": self.kind, "mode": MODES.get(self.kind, "append"),
            "version": json.dumps(version.code), "slower": str(slower),
        }  # fmt: skip
        given = [part for name, value in params.items() for part in ("--set", f"{name}={value}")]
        driver = ["--master", "local[2]", "--conf", "spark.sql.shuffle.partitions=2"]
        return [str(LEVELS / "app.py"), "--py-files", str(LEVELS / "queries.py"), *driver, *given]

    def write(self) -> None:
        at = (datetime(2026, 1, 1) + timedelta(seconds=10 * self.written)).isoformat()
        self.put(row(self.chance, n, at, KEYS) for n in range(max(1, round(ROWS * self.rows))))

    def query(self) -> QueryStatus | None:
        return self.client.status(self.app).status.queries.get("q")

    def wait_for_more(self, batches: int) -> None:
        """Until its driver has committed so many."""

        def more() -> bool | None:
            found = self.query()
            if found is None or found.first_batch is None:
                return None
            return found.batch >= found.first_batch + batches or None

        wait_for(more, f"{batches} batches", 300)

    def update(self, version: Version, code: int) -> tuple[str, list[str]]:
        """What became of the update, and why."""
        self.wait_for_more(BATCHES_BETWEEN)
        found = self.query()
        assert found is not None
        slowest = sorted(f.seconds for f in found.figures)[-5]
        more = version.slower * slowest + (SLACK_SECONDS if version.slower > 1 else 0.0)
        self.number += 1
        name, self.rows = f"v{self.number}", version.rows
        try:
            self.cli("update", *self.version(version, more), "--deployment", name, "--strategy", "restart", code=code)
        finally:
            self.rows = 1.0
        record = self.client.registry.app(self.app).update(name)
        assert record is not None
        return str(record.outcome), [str(record.reason), *record.verified]

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "STREAMUPDATE_VERIFY_FOR": "5"}


@pytest.fixture(scope="module", params=APPS)
def levels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Levels]:
    made = Levels(tmp_path_factory.mktemp(request.param), request.param)
    yield made
    made.end()


@pytest.mark.parametrize("worse", WORSE)
def test_a_version_that_does_worse_is_rolled_back(levels: Levels, worse: str) -> None:
    if worse in NO_CLAIM.get(levels.kind, ()):
        pytest.skip("no claim of the gate")
    old = levels.current()
    outcome, why = levels.update(WORSE[worse], 1)
    assert outcome == "rolled-back" and "to allow it, give option slo" in why[0], why
    assert levels.current() == old


@pytest.mark.parametrize("good", AS_GOOD)
def test_a_version_that_does_as_well_is_promoted(levels: Levels, good: str) -> None:
    outcome, why = levels.update(AS_GOOD[good], 0)
    assert outcome == "promoted", why
    assert any("a batch takes" in text for text in why), why  # it was compared
