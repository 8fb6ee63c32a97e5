"""The notifier: as the callback of DAGs and tasks in a real Airflow, through a notifier of another provider."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from airflow.sdk import BaseNotifier
from airflow_site import DagOutcome, Site

from airflow_provider_streamupdate.core import clock
from airflow_provider_streamupdate.core.registry.application import Application
from airflow_provider_streamupdate.core.registry.update import ROLLED_BACK, UpdateRecord
from airflow_provider_streamupdate.get_provider_info import get_provider_info
from airflow_provider_streamupdate.notifications.streamupdate import StreamUpdateNotifier
from airflow_provider_streamupdate.openlineage.lineage import Touched, lineage_of

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]


@pytest.fixture
def told_to(site: Site) -> Callable[[], list[list[str]]]:
    """The subjects and texts that the DAG's notifier was told."""
    file = site.folder / "notified"
    site.monkeypatch.setenv("NOTIFIED", str(file))
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


def notified(site: Site, version: str, **constants: Any) -> DagOutcome:
    application = site.application(version, **constants)
    return site.run_dag("update_alarm", "tests/airflow/dags", application=application, deployment_id=version)


def test_airflow_lists_the_notifier() -> None:
    from airflow.providers_manager import ProvidersManager

    [path] = get_provider_info()["notifications"]
    assert path == f"{StreamUpdateNotifier.__module__}.{StreamUpdateNotifier.__name__}"
    assert path in ProvidersManager().notification


def test_a_promoted_update_is_told(site: Site, told_to: Callable[[], list[list[str]]]) -> None:
    site.submit()
    run = notified(site, "v2")
    assert run.state == "success", run.states
    [(subject, body)] = told_to()
    assert subject == "alarm: the update to v2 was promoted"
    assert "Now: v2 is running" in body and "Pause: " in body and "Why" not in body
    assert "Driver log: file:///" in body and "Spark UI: http://localhost:4040" in body


def test_a_rolled_back_update_is_told_with_its_reason_and_no_later_run_tells_it_again(
    site: Site, told_to: Callable[[], list[list[str]]]
) -> None:
    site.submit()
    run = notified(site, "v2", FAIL="run")
    assert run.state == "failed"
    [(subject, body)] = told_to()
    assert subject == "alarm: the update to v2 was rolled back"
    assert "Why: " in body and "a row the new version cannot read" in body and "Now: v1 is running" in body
    assert "Next: correct the new version, and update again" in body
    notified(site, "v3", FAIL="plan")
    subject, body = told_to()[-1]
    assert len(told_to()) == 2 and subject == "alarm: no update began"
    assert "Now: v1 is running" in body and "v2" not in body


class Keeping(BaseNotifier):
    """Keeps what it is told, or fails."""

    template_fields = ("text",)

    def __init__(self, fails: bool = False) -> None:
        super().__init__()
        self.text, self.fails = "{{ stream_update.text }}", fails

    def notify(self, context: Any) -> None:
        if self.fails:
            raise ConnectionError("the channel is gone")


def told(**arguments: Any) -> str:
    keeping = Keeping()
    StreamUpdateNotifier(to=keeping, **arguments)({})
    return keeping.text


def test_one_that_fails_keeps_no_other_from_being_told(site: Site) -> None:
    site.submit()
    kept = Keeping()
    with pytest.raises(ConnectionError, match="the channel is gone"):
        StreamUpdateNotifier(to=[Keeping(fails=True), kept], app="alarm")({})
    assert "Now: v1 is running" in kept.text


def test_somebody_hears_of_it_though_the_app_cannot_be_read(site: Site) -> None:
    assert "Not known: no app 'alarm' under" in told(app="alarm")
    assert "Not known: the app name is empty" in told()
    assert "Not known: app name '../x' is not allowed" in told(app="../x")
    assert "Not known: connection nowhere is not defined" in told(app="alarm", streamupdate_conn_id="nowhere")
    site.submit()
    (site.root / "alarm" / "current.json").write_text("{")
    text = told(app="alarm")
    assert text.startswith("alarm: its state is not known") and "current.json" in text


def test_a_reason_is_told_without_secrets(site: Site) -> None:
    application = Application(file=site.application("v1"), params={"password": "hunter2"})
    site.client.submit(application, deployment="v1", app="alarm")
    record = UpdateRecord(app="alarm", old="v1", new="v2", started_at=clock.now(), outcome=ROLLED_BACK)
    record = attrs.evolve(record, reason="cannot log in with hunter2 at kafka://me:hunter3@b1:9092")
    site.client.registry.app("alarm").set_update(record)
    text = told(app="alarm", deployment_id="v2")
    assert "was rolled back\nWhy: cannot log in with" in text and "hunter" not in text
    pytest.importorskip("airflow.providers.openlineage")
    lineage = lineage_of(Touched(app="alarm", update="v2"), site.client)
    assert lineage is not None
    reason = lineage.run_facets["streamUpdate"].reason
    assert reason.startswith("cannot log in with") and "hunter" not in reason
