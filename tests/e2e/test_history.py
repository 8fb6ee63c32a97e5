"""What real drivers write down of their batches is what they ran."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_streamupdate.core.history.recorded import recorded

pytestmark = pytest.mark.timeout(300)


@pytest.mark.slow
def test_every_row_is_in_the_history_once_across_an_update(ground) -> None:
    """The old version's last batches and the new one's first ones included; bytes and rows of the state are Spark's."""
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=ground.app)
    ground.wait_for_batches(5)
    ground.cli("update", str(ground.application("v2").file), "--deployment", "two", *ground.params, *ground.agreed)
    ground.wait_for_batches(3)
    ground.settle()
    ground.client.cancel(ground.app, drain=True)
    rows = sum(len(file.read_text().splitlines()) for file in ground.input.glob("*.json"))
    registry = ground.client.registry.app(ground.app)
    minutes = recorded(registry.folder, datetime.now(timezone.utc) - timedelta(hours=1))
    assert rows and sum(minute.span.rows_in for minute in minutes) == rows
    found = ground.client.history(ground.app, 3600)
    assert sum(rate * found["each"] for rate in found["in"]) == pytest.approx(rows, abs=0.01)
    assert set(found["deployment"]) <= {"one", "two"} and found["deployment"][-1] == "two"
    assert found["bytes"][-1] > 0 and any(found["batch"])  # a minute in which no batch ran has no time of one
    status = ground.client.status(ground.app).status.queries
    [query] = status
    assert {f"{query}/{stage}": n for stage, n in status[query].state_rows.items()} == {
        stage: values[-1] for stage, values in found["rows"].items() if values[-1] is not None
    }
