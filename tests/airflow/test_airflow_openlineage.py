"""What OpenLineage is told: by its real provider, which writes events to a file during DAG runs in a real Airflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import attrs
import jsonschema
import pytest
from airflow_site import REPOSITORY, FakeTaskInstance, Site

import airflow_provider_streamupdate
from airflow_provider_streamupdate.operators.restart import StreamRestartOperator
from airflow_provider_streamupdate.operators.rollback import StreamRollbackOperator
from airflow_provider_streamupdate.operators.snapshot import StreamSnapshotOperator
from airflow_provider_streamupdate.operators.submit import StreamSubmitOperator

pytestmark = [pytest.mark.airflow, pytest.mark.usefixtures("airflow_db")]
HAS_OPENLINEAGE = find_spec("openlineage") is not None
needs_openlineage = pytest.mark.skipif(
    not HAS_OPENLINEAGE, reason="apache-airflow-providers-openlineage is not installed (make setup installs it)"
)
SOURCE = {
    "format": "kafka",
    "location": "rooms",
    "options": {"kafka.bootstrap.servers": "b1:9092", "subscribe": "rooms", "kafka.sasl.jaas.config": "(redacted)"},
    "columns": {"value": "binary"},
}
ROOMS = ("kafka://b1:9092", "rooms")
SINK = {"format": "json", "options": {"path": "/out"}, "location": "s3a://KEY:hunter2@bucket/out"}
OUT = ("s3://bucket", "out")
SCHEMA = Path(airflow_provider_streamupdate.__file__).with_name("openlineage") / "StreamUpdateRunFacet.json"
RUN = """
import json, sys
from airflow_site import DAG_BAG, part_of_airflow
file, dag, conf = sys.argv[1:]
part_of_airflow(*DAG_BAG)(file).dags[dag].test(run_conf=json.loads(conf))
"""


@attrs.frozen
class Event:
    """What is known of a task: of its last event of the kind."""

    facet: dict[str, Any]
    inputs: set[tuple[str, str]]
    outputs: set[tuple[str, str]]
    text: str


def events(site: Site, dag: str, **conf: Any) -> dict[tuple[str, str], Event]:
    """Run a DAG, with OpenLineage on; the events by task and kind (START, COMPLETE, FAIL)."""
    log = site.folder / "events.json"
    environment = {
        **os.environ,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps({"type": "file", "log_file_path": str(log), "append": True}),
        "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "60",
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(Path(__file__).parent)]),
    }
    file = Path(__file__).with_name("dags") / f"{dag}.py"
    command = [sys.executable, "-c", RUN, str(file), dag, json.dumps(conf)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert log.is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    found = {}
    for line in log.read_text().splitlines():
        event = json.loads(line)
        task = event["job"]["name"].split(".", 1)[1] if "." in event["job"]["name"] else ""
        facet = event["run"]["facets"].get("streamUpdate", {})
        inputs, outputs = ({(d["namespace"], d["name"]) for d in event[kind]} for kind in ("inputs", "outputs"))
        told = json.dumps([facet, event["inputs"], event["outputs"]])
        found[task.removeprefix("update."), event["eventType"]] = Event(facet, inputs, outputs, told)
    return found


@needs_openlineage
@pytest.mark.slow
def test_an_update_tells_what_the_app_reads_and_writes_and_what_became_of_it(site: Site) -> None:
    site.submit(SOURCE=SOURCE, SINK=SINK)
    application = site.application("v2", SOURCE=SOURCE, SINK=SINK)
    told = events(site, "update_alarm", application=application, deployment_id="v2")
    assert told["plan", "START"].facet["app"] == "alarm" and not told["plan", "START"].inputs
    snapshot = ("file", f"{site.root}/alarm/snapshots/before-v2")
    for step in ("plan", "check", "prepare"):  # the new version has written nothing
        event = told[step, "COMPLETE"]
        assert event.facet["deployment"] == "v2" and not event.inputs and not event.outputs
    submit = told["submit_from_snapshot", "COMPLETE"]
    assert (submit.inputs, submit.outputs) == ({ROOMS, snapshot}, {OUT})
    assert snapshot in told["snapshot_and_cancel", "COMPLETE"].outputs
    promoted = told["promote", "COMPLETE"]
    assert promoted.outputs == {OUT, ("streamupdate", "alarm")}
    facet = told["outcome", "COMPLETE"].facet
    jsonschema.validate(facet, json.loads(SCHEMA.read_text()))
    assert facet["_schemaURL"] == json.loads(SCHEMA.read_text())["$id"]
    expected = {
        "app": "alarm",
        "root": str(site.root),
        "deployment": "v2",
        "previous": "v1",
        "snapshot": "before-v2",
        "update": "v2",
        "strategy": "standby",
        "step": "promote",
        "outcome": "promoted",
        "sparkVersion": "4.3.0",
        "unnamed": [],
    }
    assert expected.items() <= facet.items() and facet["pauseSeconds"] > 0
    assert '"name": "value", "type": "binary"' in submit.text  # the columns that are read
    assert not [event for event in told.values() if "hunter2" in event.text or "jaas" in event.text]


def by_openlineage(operator: Any, how: str) -> Any:
    return getattr(operator, f"get_openlineage_facets_on_{how}")(FakeTaskInstance())


def done(operator: Any, context: dict[str, Any]) -> Any:
    """What OpenLineage gets of an operator that was executed."""
    operator.execute(context)
    return by_openlineage(operator, "complete")


@needs_openlineage
def test_operators_by_themselves(site: Site, context: dict[str, Any]) -> None:
    application = site.application("v1", SOURCE=SOURCE, SINK=SINK)
    submit = StreamSubmitOperator(task_id="submit", application=application, app="alarm", deployment_id="v1")
    submitted = done(submit, context)
    assert [(d.namespace, d.name) for d in submitted.inputs + submitted.outputs] == [ROOMS, OUT]
    assert submitted.run_facets["streamUpdate"].deployment == "v1"
    saved = done(StreamSnapshotOperator(task_id="snapshot", app="alarm", name="s1"), context)
    place = f"{site.root}/alarm/snapshots/s1"
    assert [(d.namespace, d.name) for d in saved.inputs + saved.outputs] == [ROOMS, ("file", place)]
    site.crash("v1")
    restarted = done(StreamRestartOperator(task_id="restart", app="alarm"), context)
    assert restarted.run_facets["streamUpdate"].deployment == "v1" and restarted.inputs
    rollback = StreamRollbackOperator(task_id="rollback", app="alarm")
    with pytest.raises(Exception, match="no deployment before"):
        rollback.execute(context)
    failed = by_openlineage(rollback, "failure")
    assert failed.run_facets["streamUpdate"].app == "alarm" and not failed.inputs and not failed.outputs


def test_without_openlineage_nothing_is_told_and_nothing_fails(
    site: Site, context: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "airflow.providers.openlineage.extractors", None)
    site.submit()
    restart = StreamRestartOperator(task_id="restart", app="alarm")
    restart.execute(context)
    for how in ("complete", "failure"):
        assert by_openlineage(restart, how) is None
    assert restart.get_openlineage_facets_on_start() is None
