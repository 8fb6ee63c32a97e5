"""A real Prometheus (Debian's) scrapes real apps: every metric, query of the dashboard and alert of docs/monitoring."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest

from airflow_provider_streamupdate.control.drivers import process
from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.conftest import ground  # noqa: F401 (a fixture)
from tests.e2e.ground import Ground

from .daemon import daemon, free_port

REPOSITORY = Path(__file__).resolve().parents[2]
MONITORING = REPOSITORY / "docs" / "monitoring"
SECONDS = 120.0  # for what Prometheus is to see

pytestmark = pytest.mark.timeout(600)


def program(name: str) -> str:
    """One of Prometheus' programs: the machine's own, or the one that scripts/ground.sh has fetched."""
    fetched = Path(os.environ["STREAMUPDATE_GROUND"]) / "prometheus" / "usr" / "bin" / name
    return str(fetched) if fetched.exists() else name


def test_the_alert_rules_are_valid_and_fire_when_they_should(tmp_path: Path) -> None:
    for file in (MONITORING / "alerts.yaml", Path(__file__).with_name("alerts_test.yaml")):
        shutil.copy(file, tmp_path)
    for arguments in (("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")):
        done = subprocess.run(
            [program("promtool"), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case() -> None:
    named = set(re.findall(r"alert: (\w+)", (MONITORING / "alerts.yaml").read_text()))
    cases = Path(__file__).with_name("alerts_test.yaml").read_text()
    assert len(named) == 9
    for name in named:
        assert len(re.findall(rf"alertname: {name}\b", cases)) >= 2, name


Ask = Callable[[str], Any]


@pytest.fixture
def prometheus(ground: Ground, tmp_path: Path) -> Iterator[Ask]:  # noqa: F811
    """Asks a Prometheus that scrapes the exporter of the ground's root. Its alerts do not wait."""
    ground.root.mkdir(exist_ok=True)
    rules = re.sub(r"(?m)^( +)for: .*$", r"\1for: 0s", (MONITORING / "alerts.yaml").read_text())
    (tmp_path / "alerts.yaml").write_text(rules)
    line = "from airflow_provider_streamupdate.cli import main; main()"
    exporter = [sys.executable, "-c", line, "metrics", "--serve", "--port", "0", "--root", str(ground.root)]
    port = free_port()
    with daemon(exporter, tmp_path / "exporter.log", r"http://127\.0\.0\.1:(\d+)/metrics", ground.environment) as told:
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(tmp_path / "alerts.yaml")],
            "scrape_configs": [{"job_name": "apps", "static_configs": [{"targets": [f"127.0.0.1:{told[1]}"]}]}],
        }
        (tmp_path / "prometheus.yaml").write_text(json.dumps(config))  # JSON is YAML
        command = [
            program("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yaml'}",
            f"--storage.tsdb.path={tmp_path / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with daemon(command, tmp_path / "prometheus.log", "Server is ready to receive web requests"):

            def ask(path: str, **parameters: str) -> Any:
                with urlopen(f"http://127.0.0.1:{port}/api/v1/{path}?{urlencode(parameters)}", timeout=30) as answer:
                    found = json.load(answer)
                assert found["status"] == "success", found
                return found["data"]

            yield ask


def value(ask: Ask, expression: str) -> float | None:
    """Of the one series that there is; None without one."""
    found = ask("query", query=expression)["result"]
    assert len(found) <= 1, found
    return float(found[0]["value"][1]) if found else None


def firing(ask: Ask) -> set[str]:
    return {a["labels"]["alertname"] for a in ask("alerts")["alerts"] if a["state"] == "firing"}


def queries_of_the_dashboard() -> list[str]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    found = [t["expr"] for panel in dashboard["panels"] for t in panel["targets"]]
    found += [a["expr"] for a in dashboard["annotations"]["list"]]
    return [expression.replace("$app", ".*") for expression in found]


# An app that reads files has no lag, and its stage no watermark that Spark reports.
WITHOUT = ("lag_records", "watermark_age", "last_over_time")  # the last: a new deployment is marked once


def test_a_life_of_an_app_is_seen_and_its_troubles_are_told(ground: Ground, prometheus: Ask) -> None:  # noqa: F811
    app = ground.app
    ground.feed()
    ground.client.submit(ground.application("v1"), "one", app=app)
    ground.wait_for_batches(3)
    running = f'streamupdate_app_state{{app="{app}",state="running"}}'
    wait_for(lambda: value(prometheus, running) == 1.0 or None, "the running app in Prometheus", SECONDS)
    wait_for(lambda: "StreamAppNoVerifiedSnapshot" in firing(prometheus) or None, "an alert", SECONDS)

    ground.client.save_snapshot(app, "s1")
    ground.client.verify_snapshot(app, "s1")
    wait_for(lambda: "StreamAppNoVerifiedSnapshot" not in firing(prometheus) or None, "the alert's end", SECONDS)

    ground.cli("update", str(ground.application("v2").file), "--deployment", "two", *ground.params, *ground.agreed)
    update = f'streamupdate_updates_total{{app="{app}",strategy="standby",outcome="promoted"}}'
    wait_for(lambda: value(prometheus, update) == 1.0 or None, "the update in Prometheus", SECONDS)
    record = ground.client.registry.app(app).last_update()
    assert record is not None
    assert value(prometheus, f'streamupdate_last_update_pause_seconds{{app="{app}"}}') == record.pause_seconds
    assert value(prometheus, f'streamupdate_update_pause_seconds_count{{app="{app}"}}') == 1.0
    steps = {r["metric"]["step"] for r in prometheus("query", query="streamupdate_update_step_seconds_count")["result"]}
    assert steps == set(record.step_times)
    now = f'streamupdate_app_info{{app="{app}",deployment="two"}}'
    wait_for(lambda: value(prometheus, now) == 1.0 or None, "the new deployment in Prometheus", SECONDS)

    for expression in queries_of_the_dashboard():
        prometheus("query", query=expression)  # no error
        if not any(word in expression for word in (*WITHOUT, "under_way")):
            wait_for(lambda e=expression: prometheus("query", query=e)["result"] or None, expression, SECONDS)

    rows = wait_for(lambda: value(prometheus, f'streamupdate_state_rows{{app="{app}"}}'), "the state", SECONDS)
    assert rows == 4.0  # rooms
    assert (value(prometheus, f'streamupdate_state_bytes{{app="{app}"}}') or 0) > 0
    requests = f'rate(streamupdate_requests_total{{app="{app}"}}[10s]) > 0'
    wait_for(lambda: value(prometheus, requests), "requests to the storage", SECONDS)

    assert not firing(prometheus) & {"StreamAppDriverLost", "StreamAppNoHeartbeat", "StreamUpdateStuck"}
    launch = ground.client.registry.app(app).launch("two")
    assert launch is not None and process.end(launch, at_once=True)
    wait_for(lambda: "StreamAppDriverLost" in firing(prometheus) or None, "the alert of a lost driver", SECONDS)
    assert value(prometheus, f'streamupdate_state_rows{{app="{app}"}}') is None  # figures of a dead driver
    ground.client.restart(app)
    wait_for(lambda: "StreamAppDriverLost" not in firing(prometheus) or None, "the alert's end", SECONDS)


def test_the_dashboard_uses_what_there_is() -> None:
    """Every metric in it, and in the alerts, is one that docs/guides/monitoring.md describes."""
    described = set(re.findall(r"`(streamupdate_\w+)", (REPOSITORY / "docs" / "guides" / "monitoring.md").read_text()))
    used = set(re.findall(r"streamupdate_\w+", " ".join(queries_of_the_dashboard())))
    used |= set(re.findall(r"streamupdate_\w+", re.sub("(?m)^ *#.*", "", (MONITORING / "alerts.yaml").read_text())))
    used = {re.sub("_(bucket|sum|count)$", "", name) for name in used}
    assert len(used) >= 15
    assert used <= described, used - described
