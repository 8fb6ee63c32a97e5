"""What an app did over time, as the page's charts show it, against the minutes it was made of."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.history import LONGEST_SECONDS
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.history.history import (
    MINUTES,
    MONTHS,
    Minutes,
    hour_of,
    minute_of,
    sum_up,
    write_minutes,
)
from airflow_provider_streamupdate.core.history.span import Span
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord

from .builders import deploy, write_spans

NOW = datetime.now(timezone.utc)
DAY, LENGTH = 86_400.0, 90


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "utc_now", lambda: NOW)


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    made = Registry(str(tmp_path)).app("a")
    deploy(made)
    return made


def span(at: datetime, **figures: Any) -> Span:
    return attrs.evolve(Span(at=at.isoformat(), batches=10, timed=10, rows_in=600, seconds=5.0, longest=1.0), **figures)


def ago(**time: float) -> datetime:
    return minute_of(NOW - timedelta(**time))


def test_rates_and_levels_of_each_minute(app: AppRegistry, client: StreamUpdateClient) -> None:
    first = span(ago(minutes=5), rows_out=60, lag=4.0, lag_most=9.0, state_rows={"s": 7}, state_bytes=70)
    second = span(ago(minutes=4), batches=0, timed=0, rows_in=0, seconds=0.0, longest=0.0, watermark_age=12.0)
    write_spans(app, first, second)
    found = client.history("a", 3600)
    assert (found["app"], found["seconds"], found["each"]) == ("a", 3600, 60.0)
    assert found["at"] == [ago(minutes=5).timestamp(), ago(minutes=4).timestamp()]
    assert (found["in"], found["out"]) == ([10.0, 0.0], [1.0, None])
    assert (found["batch"], found["longest_batch"]) == ([0.5, None], [1.0, None])
    assert (found["lag"], found["longest_lag"], found["bytes"]) == ([4.0, None], [9.0, None], [70, None])
    assert (found["watermark_age"], found["rows"]) == ([None, 12.0], {"q/s": [7, None]})
    lengths = {len(v) for k, v in found.items() if isinstance(v, list)}
    assert lengths == {2}


def test_queries_are_added_up(app: AppRegistry, client: StreamUpdateClient) -> None:
    at = ago(minutes=3)
    both = {"a": (span(at, lag=1.0, state_rows={"s": 1}),), "b": (span(at, lag=5.0, longest=3.0, state_rows={"s": 2}),)}
    write_minutes(app.folder, hour_of(at), Minutes(deployment="v1", epoch=1, spans=both))
    found = client.history("a", 3600)
    assert (found["in"], found["lag"], found["longest_batch"]) == ([20.0], [6.0], [3.0])
    assert found["rows"] == {"a/s": [1], "b/s": [2]}


def test_a_minute_of_two_drivers_is_one_point(app: AppRegistry, client: StreamUpdateClient) -> None:
    """A cut-over: rows are added, and levels are the later driver's."""
    at = ago(minutes=3)
    write_spans(app, span(at, rows_in=60, lag=1.0, state_rows={"s": 1}), deployment="v1", epoch=1)
    write_spans(app, span(at, rows_in=120, lag=9.0, state_rows={"s": 5}), deployment="v2", epoch=2)
    found = client.history("a", 3600)
    assert (found["deployment"], found["in"], found["lag"]) == (["v2"], [3.0], [9.0])
    assert found["rows"] == {"q/s": [5]}


@pytest.mark.parametrize("over", [True, False])
def test_a_version_beside_the_app_counts_from_its_cut_over_on(
    app: AppRegistry, client: StreamUpdateClient, over: bool
) -> None:
    times = {"snapshot_and_cancel": (ago(minutes=3) + timedelta(seconds=20)).isoformat()} if over else {}
    record = UpdateRecord(app="a", old="v1", new="v2", started_at=clock.now(), strategy="parallel", step_times=times)
    app.set_update(record)
    at = [ago(minutes=n) for n in (5, 4, 3, 2)]
    write_spans(app, *(span(moment) for moment in at[:3]), deployment="v1", epoch=1)
    write_spans(app, *(span(moment) for moment in at), deployment="v2", epoch=2)
    found = client.history("a", 3600)
    assert found["deployment"] == (["v1", "v1", "v2", "v2"] if over else ["v1", "v1", "v1"])
    assert found["in"] == ([10.0, 10.0, 20.0, 10.0] if over else [10.0] * 3)


def test_ninety_days_are_hours_and_what_is_not_summed_up_yet(app: AppRegistry, client: StreamUpdateClient) -> None:
    """Every minute of three days counts once, whether its hour was summed up or not."""
    begin = hour_of(NOW) - timedelta(days=3)
    all_minutes = [span(begin + timedelta(minutes=n), rows_in=n % 7) for n in range(0, 3 * 1440, 5)]
    write_spans(app, *all_minutes)
    sum_up(app.folder, begin + timedelta(hours=50, minutes=10))
    found = client.history("a", LONGEST_SECONDS)
    expected: dict[float, int] = {}
    for one in all_minutes:
        hour = hour_of(clock.parse(one.at)).timestamp()
        expected[hour] = expected.get(hour, 0) + one.rows_in
    assert found["each"] == 3600.0
    assert found["at"] == sorted(expected)
    assert [round(rate * 3600) for rate in found["in"]] == [expected[at] for at in sorted(expected)]


def test_the_hour_that_is_not_over_has_its_rate_so_far(
    app: AppRegistry, client: StreamUpdateClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = hour_of(NOW) + timedelta(minutes=6)
    monkeypatch.setattr(clock, "utc_now", lambda: now)
    write_spans(app, *(span(now - timedelta(minutes=n), rows_in=60) for n in range(66, 0, -1)))
    assert client.history("a", LONGEST_SECONDS)["in"] == [pytest.approx(1.0), pytest.approx(1.0)]


@pytest.mark.parametrize("summed_up", [True, False])
def test_the_hour_of_a_cut_over_counts_in_part(app: AppRegistry, client: StreamUpdateClient, summed_up: bool) -> None:
    hour = hour_of(NOW) - timedelta(hours=30)
    times = {"snapshot_and_cancel": (hour + timedelta(minutes=15)).isoformat()}
    record = UpdateRecord(app="a", old="v1", new="v2", started_at=clock.now(), strategy="parallel", step_times=times)
    app.set_update(record)
    both = [span(hour + timedelta(minutes=n), rows_in=60) for n in range(60)]
    write_spans(app, *both[:15], deployment="v1", epoch=1)
    write_spans(app, *both, deployment="v2", epoch=2)
    if summed_up:
        sum_up(app.folder, NOW)
    assert client.history("a", LONGEST_SECONDS)["in"] == [pytest.approx(1.0)]


def test_what_cannot_be_read_is_left_out(app: AppRegistry, client: StreamUpdateClient) -> None:
    hour = hour_of(NOW - timedelta(hours=2))
    write_spans(app, span(hour))
    app.folder.write(f"{MINUTES}/{hour.strftime('%Y%m%dT%H')}-7-v9.json", b"{")
    newer = b'{"format": 99, "format_since": "9.9"}'
    app.folder.write(f"{MINUTES}/{hour.strftime('%Y%m%dT%H')}-8-v9.json", newer)
    app.folder.write(f"{MONTHS}/{hour.strftime('%Y%m')}.json", b"nothing")
    app.folder.write(f"{MONTHS}/999912.json", b"{}")
    app.folder.write(f"{MONTHS}/202701.json", b'{"spans": {"nonsense": {}}}')
    assert len(client.history("a", DAY)["at"]) == len(client.history("a", LONGEST_SECONDS)["at"]) == 1
