"""The apps under a root as metrics: what a scraper reads is what the files say."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import shutil
import signal
import subprocess
import sys
import tracemalloc
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import attrs
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as prometheus_families

from airflow_provider_streamupdate.control.client import StreamUpdateClient
from airflow_provider_streamupdate.control.metrics import (
    OPENMETRICS,
    PAUSES,
    PROMETHEUS,
    STATES,
    content_type_of,
    text_of,
)
from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.checkpoint.snapshot import Verified
from airflow_provider_streamupdate.core.registry.deployment import QueryStatus
from airflow_provider_streamupdate.core.registry.registry import AppRegistry, Registry
from airflow_provider_streamupdate.core.registry.update import UpdateRecord
from airflow_provider_streamupdate.core.serde import to_json
from airflow_provider_streamupdate.core.snapshots.snapshots import DELETED, SnapshotStore

from .builders import deploy, live_snapshot, status

REPOSITORY = Path(__file__).resolve().parents[2]
APP = "flights"


@pytest.fixture
def app(tmp_path: Path) -> AppRegistry:
    made = Registry(str(tmp_path)).app(APP)
    deploy(made)
    return made


def read_all(client: StreamUpdateClient, content_type: str = OPENMETRICS) -> bytes:
    return text_of(list(client.metrics()), content_type)


def samples(client: StreamUpdateClient, name: str, app: str | None = None) -> dict[tuple[tuple[str, str], ...], float]:
    """By labels, without that of the app. app: of this one"""
    found = {}
    for family in text_string_to_metric_families(read_all(client).decode()):
        for sample in family.samples:
            if sample.name == f"streamupdate_{name}" and app in (None, sample.labels.get("app")):
                labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "app"))
                assert labels not in found, "one series twice"
                found[labels] = sample.value
    return found


def ago(seconds: float) -> str:
    return (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat()


def set_status(app: AppRegistry, **changes: Any) -> None:
    app.folder.write("deployments/v1/status.json", to_json(attrs.evolve(status("running"), **changes)))


def test_the_figures_of_a_running_driver(app: AppRegistry, client: StreamUpdateClient) -> None:
    query = QueryStatus(
        batch=7,
        batch_seconds=0.5,
        input_rows_per_second=10.0,
        processed_rows_per_second=20.0,
        lag=5.0,
        source_lag={"a": 2.0, "b": 3.0},
        watermark=ago(40),
        state_rows={"one": 3, "two": 4},
        state_bytes=99,
    )
    set_status(app, queries={"q": query, "idle": QueryStatus(active=False)}, heartbeat_at=ago(1), requests=321)
    of_q, of_idle = (("query", "q"),), (("query", "idle"),)
    assert samples(client, "batch") == {of_q: 7, of_idle: -1}
    for name, value in {
        "batch_seconds": 0.5,
        "rows_in_per_second": 10.0,
        "rows_per_second": 20.0,
        "lag_records": 5.0,
        "state_bytes": 99.0,
    }.items():
        assert samples(client, name) == {of_q: value}, name  # what is not known is no zero
    assert samples(client, "query_active") == {of_q: 1.0, of_idle: 0.0}
    assert samples(client, "watermark_age_seconds")[of_q] == pytest.approx(40, abs=5)
    assert samples(client, "state_rows") == {(*of_q, ("stage", "one")): 3.0, (*of_q, ("stage", "two")): 4.0}
    assert samples(client, "source_lag_records") == {(*of_q, ("source", "a")): 2.0, (*of_q, ("source", "b")): 3.0}
    assert samples(client, "requests_total") == {(): 321.0}
    assert samples(client, "heartbeat_age_seconds")[()] == pytest.approx(1, abs=5)
    assert samples(client, "app_info") == {(("deployment", "v1"), ("epoch", "1")): 1.0}


@pytest.mark.parametrize("state", ["running", "suspended", "cancelled", "finished", "failed"])
def test_each_state_is_one_of_all(app: AppRegistry, client: StreamUpdateClient, state: str) -> None:
    set_status(app, state=state, heartbeat_at=ago(1), queries={"q": QueryStatus(batch=3, lag=5.0)})
    found = {dict(labels)["state"]: value for labels, value in samples(client, "app_state").items()}
    assert set(found) == set(STATES) and sum(found.values()) == 1.0
    dead = state in ("cancelled", "finished", "failed")
    assert (samples(client, "lag_records") == {}) is dead  # nobody is behind any more


@pytest.mark.parametrize(
    "bad",
    [
        *("current.json", "updates/v2.json", "deployments/v1/status.json", "deployments/v1/spec.json"),
        *({"requests": 10**400}, {"queries": {"q": QueryStatus(state_bytes=10**400)}}),
    ],
)
def test_an_app_that_cannot_be_told_of_is_unreadable_beside_the_others(
    app: AppRegistry, client: StreamUpdateClient, bad: str | dict[str, Any]
) -> None:
    app.set_update(UpdateRecord(app=APP, old="v1", new="v2", started_at=ago(5)))
    if isinstance(bad, str):
        app.folder.write(bad, b"nothing")
    else:
        set_status(app, heartbeat_at=ago(1), **bad)
    deploy(Registry(client.root).app("other"))
    found = {dict(labels)["state"]: value for labels, value in samples(client, "app_state", APP).items()}
    assert found["unreadable"] == 1.0 and sum(found.values()) == 1.0
    text = read_all(client).decode()
    assert 'streamupdate_app_state{app="other",state="unreadable"} 0.0' in text and "streamupdate_apps 2.0" in text


def update(app: AppRegistry, new: str, began: float, **more: Any) -> None:
    app.set_update(UpdateRecord(app=APP, old="v1", new=new, started_at=ago(began), **more))


def test_updates_are_counted_and_timed(app: AppRegistry, client: StreamUpdateClient) -> None:
    begin = ago(1000)

    def at(seconds: float) -> str:
        return (clock.parse(begin) + timedelta(seconds=seconds)).isoformat()

    times = {"plan": at(2), "check": at(10), "promote": at(10.5)}
    for number, pause in enumerate((0.3, 0.5, 400.0)):
        record = UpdateRecord(app=APP, old="v1", new=f"v{number}", started_at=begin, strategy="standby")
        app.set_update(attrs.evolve(record, outcome="promoted", pause_seconds=pause, step_times=times))
    update(app, "v8", 500, strategy="standby", outcome="refused")
    update(app, "v9", 90, strategy="follow", step="prepare")
    expected = {"promoted": 3.0, "rolled-back": 0.0, "refused": 1.0, "superseded": 0.0, "cancelled": 0.0}
    assert samples(client, "updates_total") == {(("outcome", name),): count for name, count in expected.items()}
    of_standby = (("strategy", "standby"),)
    assert samples(client, "update_pause_seconds_count") == {of_standby: 3.0}
    assert samples(client, "update_pause_seconds_sum") == {of_standby: 400.8}
    counts = {dict(k)["le"]: v for k, v in samples(client, "update_pause_seconds_bucket").items()}
    assert counts == {str(b): float(sum(p <= b for p in (0.3, 0.5, 400.0))) for b in PAUSES} | {"+Inf": 3.0}
    steps = {dict(k)["step"]: v for k, v in samples(client, "update_step_seconds_sum").items()}
    assert steps == {"plan": 6.0, "check": 24.0, "promote": 1.5}
    assert samples(client, "last_update_pause_seconds")[()] in (0.3, 0.5, 400.0)
    [(labels, seconds)] = samples(client, "update_under_way_seconds").items()
    assert dict(labels) == {"deployment": "v9", "step": "prepare"} and seconds == pytest.approx(90, abs=5)


def outcomes(client: StreamUpdateClient) -> dict[str, float]:
    return {dict(k)["outcome"]: v for k, v in samples(client, "updates_total").items() if v}


def test_a_counter_does_not_go_down(app: AppRegistry, client: StreamUpdateClient) -> None:
    """An update that was promoted and is rolled back later."""
    times = {"plan": ago(9), "promote": ago(8)}
    update(app, "v2", 10, strategy="standby", step_times={"plan": ago(9)})
    assert outcomes(client) == {}
    update(app, "v2", 10, strategy="standby", step_times=times, outcome="promoted")
    assert outcomes(client) == {"promoted": 1.0}
    update(app, "v2", 10, strategy="standby", step_times=times, outcome="rolled-back")
    for each in (client, StreamUpdateClient(client.root)):  # one that knows it, and one that begins now
        assert outcomes(each) == {"promoted": 1.0}


def test_an_update_that_has_ended_is_read_once(
    app: AppRegistry, client: StreamUpdateClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        update(app, f"v{number + 2}", 100 - number, strategy="standby", outcome="refused")
    update(app, "v99", 5, strategy="standby", step="prepare")
    read: list[str] = []
    real = AppRegistry.update
    monkeypatch.setattr(AppRegistry, "update", lambda self, name: (read.append(name), real(self, name))[1])
    read_all(client)
    assert len(set(read)) == 21
    read.clear()
    read_all(client)
    assert set(read) <= {"v99"}
    assert outcomes(client) == {"refused": 20.0}
    update(app, "v99", 5, strategy="standby", outcome="promoted", step_times={"promote": ago(1)})
    assert outcomes(client) == {"refused": 20.0, "promoted": 1.0}
    app.remove_update("v99")
    assert outcomes(client) == {"refused": 20.0}


def test_halves_of_characters_stay_two_names(app: AppRegistry, client: StreamUpdateClient) -> None:
    """One series twice is not valid, and half a character cannot be written."""
    names = [chr(0xD800), chr(0xDC00)]
    set_status(app, heartbeat_at=ago(1), queries={n: QueryStatus(batch=b) for b, n in enumerate(names, start=3)})
    assert samples(client, "batch") == {(("query", "\\ud800"),): 3.0, (("query", "\\udc00"),): 4.0}


def test_folders_whose_names_are_no_text_stay_two_apps(client: StreamUpdateClient) -> None:
    for name in (b"\xfe", b"\xff"):
        os.makedirs(os.fsencode(client.root) + b"/" + name + b"/deployments/v1")
    text = read_all(client).decode()
    found = [s.labels.get("app") for f in text_string_to_metric_families(text) for s in f.samples if s.value == 1.0]
    assert {"\\udcfe", "\\udcff"} <= set(found)


def test_what_is_below_zero_spoils_nothing(app: AppRegistry, client: StreamUpdateClient) -> None:
    """By the clocks of two machines; the format allows no counter and no sum below 0."""
    update(app, "v2", 10, outcome="promoted", pause_seconds=-0.4, step_times={"plan": ago(60)})
    set_status(app, heartbeat_at=ago(1), requests=-1)
    for name in ("update_pause_seconds_sum", "update_step_seconds_sum"):
        assert list(samples(client, name).values()) == [0.0]
    assert samples(client, "last_update_pause_seconds") == {(): 0.0} == samples(client, "requests_total")


def test_snapshots_and_their_ages(app: AppRegistry, client: StreamUpdateClient) -> None:
    assert samples(client, "snapshots") == {(): 0.0}
    assert samples(client, "snapshot_age_seconds") == samples(client, "verified_snapshot_age_seconds") == {}
    store = SnapshotStore(app)
    for name, age, problem in (("s1", 300, None), ("s2", 200, None), ("s3", 100, "a file is gone"), ("s4", 50, "-")):
        made = attrs.evolve(live_snapshot(), name=name, app=APP, created_at=ago(age))
        made = attrs.evolve(made, checksum=hashlib.sha256(to_json(made)).hexdigest())
        app.folder.write(f"snapshots/{name}/snapshot.json", to_json(made))
        if problem != "-":
            verified = Verified(at=ago(1), files=1, problem=problem)
            app.folder.write(f"snapshots/{name}/verified.json", to_json(verified))
    app.folder.write("snapshots/s5/snapshot.json", b"{")
    app.folder.write("snapshots/s6/snapshot.json", to_json(made))  # a copy of another's, not a byte altered
    app.folder.write("snapshots/s7/snapshot.json", DELETED)
    assert len(store.names()) == 6
    assert samples(client, "snapshots") == {(): 6.0} and samples(client, "damaged_snapshots") == {(): 3.0}
    assert samples(client, "snapshot_age_seconds")[()] == pytest.approx(50, abs=5)
    assert samples(client, "verified_snapshot_age_seconds")[()] == pytest.approx(200, abs=5)


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "new\nline", "ü", "a b"])
def test_names_are_escaped(app: AppRegistry, client: StreamUpdateClient, name: str) -> None:
    set_status(app, heartbeat_at=ago(1), queries={name: QueryStatus(batch=1, state_rows={name: 2})})
    assert samples(client, "state_rows") == {(("query", name), ("stage", name)): 2.0}


def test_both_formats(app: AppRegistry, client: StreamUpdateClient) -> None:
    update(app, "v2", 10, outcome="promoted", pause_seconds=1.0, step_times={"plan": ago(5)})
    accepted = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;q=0.5,*/*;q=0.1"
    assert content_type_of(accepted) == content_type_of("") == OPENMETRICS
    assert content_type_of("text/plain") == content_type_of("*/*") == PROMETHEUS
    text = read_all(client, OPENMETRICS)
    assert text.endswith(b"# EOF\n")
    open_metrics = {family.name: family.samples for family in text_string_to_metric_families(text.decode())}
    plain = {family.name: family.samples for family in prometheus_families(read_all(client, PROMETHEUS).decode())}
    assert plain.pop("streamupdate_heartbeat_age_seconds") != open_metrics.pop("streamupdate_heartbeat_age_seconds")
    assert open_metrics == plain and "streamupdate_updates" in plain


def test_a_large_root_takes_bounded_memory(app: AppRegistry, client: StreamUpdateClient) -> None:
    """300 apps with 30 updates each: neither samples nor records of all of them are held at a time."""
    times = {"plan": ago(5), "check": ago(4), "promote": ago(3)}
    for number in range(30):
        update(app, f"u{number}", 10, outcome="promoted", pause_seconds=1.0, step_times=times)
    for number in range(300):
        shutil.copytree(Path(client.root) / APP, Path(client.root) / f"app-{number}")
    read_all(client)
    tracemalloc.start()
    try:
        text = read_all(client)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert text.count(b"\n") > 300 * 30 and peak < 3 * len(text) + 1_000_000, (peak, len(text))


def test_all_metrics_are_described(app: AppRegistry, client: StreamUpdateClient) -> None:
    query = QueryStatus(lag=1.0, source_lag={"s": 1.0}, state_rows={"t": 1}, state_bytes=1, watermark=ago(1))
    set_status(app, heartbeat_at=ago(1), queries={"q": query}, requests=1)
    update(app, "v2", 10, outcome="promoted", pause_seconds=1.0, step_times={"plan": ago(5)})
    made = {family.name for family in text_string_to_metric_families(read_all(client).decode())}
    page = (REPOSITORY / "docs" / "guides" / "monitoring.md").read_text()
    described = {re.sub("_total$", "", name) for name in re.findall(r"`(streamupdate_\w+)`", page)}
    assert made == described


def test_the_command_serves_until_it_is_ended(app: AppRegistry, client: StreamUpdateClient) -> None:
    line = "from airflow_provider_streamupdate.cli import main; main()"
    command = [sys.executable, "-c", line, "metrics", "--serve", "--port", "0", "--root", client.root]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY) as server:
        told = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", server.stderr.readline())
        connection = http.client.HTTPConnection("127.0.0.1", int(told[1]), timeout=30)
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200 and b"streamupdate_apps 1.0" in answer.read()
        taken = subprocess.run(
            [*command[:-3], told[1], *command[-2:]], capture_output=True, text=True, check=False, cwd=REPOSITORY
        )
        assert taken.returncode == 1 and "give another --port" in taken.stderr
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
