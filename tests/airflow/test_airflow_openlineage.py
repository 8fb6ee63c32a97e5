"""What OpenLineage is told: by its real provider, which writes events to a file during DAG runs in a real Airflow; and
the names of what an app reads and writes."""

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
from airflow_provider_streamupdate.core.plan.plan import AppPlan, QueryPlan, SinkPlan, SourcePlan
from airflow_provider_streamupdate.openlineage.datasets import Flow, Named, at, flow_of
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
    "options": {"kafka.bootstrap.servers": "b1:9092", "subscribe": "rooms", "kafka.sasl.jaas.config": "(hidden)"},
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
        "app": "alarm", "root": str(site.root), "deployment": "v2", "previous": "v1", "snapshot": "before-v2",
        "update": "v2", "strategy": "standby", "step": "promote", "outcome": "promoted", "sparkVersion": "4.3.0",
        "unnamed": [],
    }  # fmt: skip
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


SERVERS = {"kafka.bootstrap.servers": "b1:9092,b2:9093"}


def plan(source: SourcePlan | None = None, sink: SinkPlan | None = None, **query: Any) -> AppPlan:
    made = QueryPlan(
        name="q",
        output_mode="append",
        sink=sink or SinkPlan(format="noop"),
        sources=(source,) if source else (),
        stages=(),
        **query,
    )
    return AppPlan(app="alarm", spark_version="4.3.0", queries=(made,))


def read(format: str, location: str | None = None, options: dict[str, str] | None = None, **query: Any) -> Flow:
    source = SourcePlan(name="s", named=True, format=format, location=location, options=options or {})
    return flow_of(plan(source, **query))


def written(format: str, location: str | None = None, **options: str) -> Flow:
    return flow_of(plan(sink=SinkPlan(format=format, location=location, options=options)))


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/data/in", "file", "/data/in"),
        ("file:///data//in/", "file", "/data/in"),
        ("file:/", "file", "/"),
        ("file://host/data", "file://host", "/data"),
        ("/data/a?c/*.json", "file", "/data/a?c/*.json"),
        ("s3a://bucket/a/b", "s3://bucket", "a/b"),
        ("abfss://c@acc.dfs.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net", "a"),
        ("wasb://c@acc.blob.core.windows.net/a", "wasbs://c@acc.blob.core.windows.net", "a"),
        ("dbfs:/a/b", "dbfs", "/a/b"),
        ("abfss://c:secret@acc/a", "abfss://acc", "/a"),
    ],
)
def test_a_place_has_its_name(uri: str, namespace: str, name: str) -> None:
    assert at(uri) == Named(namespace, name)


@pytest.mark.parametrize("uri", [None, "", "in", "(hidden)", "s3://", "db.table", "s3:a", "s3a://K:no address/a"])
def test_what_is_no_place_has_no_name(uri: str | None) -> None:
    assert at(uri) is None


@pytest.mark.parametrize(
    "uri",
    [
        "s3a://KEY:hunter2@bucket/a",
        "abfss://c:hunter2@acc.dfs.core.windows.net/a",
        "https://acc.blob.core.windows.net/a?sig=hunter2&x=1",
        "s3a://bucket/a?X-Amz-Signature=hunter2",
        "s3a://KEY:hun@ter/hunter2@bucket/a",
        "s3://bucket/a#sig=hunter2",
        "abfss://c@acc.dfs.core.windows.net/a;sig=hunter2",
        "s3a://bucket/a%3Fsig=hunter2",
    ],
)
def test_a_name_holds_no_secret(uri: str) -> None:
    found = at(uri)
    assert found is not None and "hunter2" not in f"{found.namespace}{found.name}" and found.name.endswith(("a", "in"))


def test_topics_are_of_the_first_server() -> None:
    first = "kafka://b1:9092"
    assert read("kafka", "a, b", {**SERVERS, "subscribe": "a, b"}).inputs == (Named(first, "a"), Named(first, "b"))
    assert read("kafka", None, {**SERVERS, "assign": '{"b": [0], "a": [1]}'}).inputs == (
        Named(first, "a"),
        Named(first, "b"),
    )
    spelled = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
    assert read(spelled, "a", {"kafka.bootstrap.servers": "SSL://b3:1", "subscribe": "a"}).inputs == (
        Named("kafka://b3:1", "a"),
    )
    assert written("kafka", topic="out", **SERVERS).outputs == (Named(first, "out"),)


@pytest.mark.parametrize(
    "options",
    [
        {"subscribe": "a"},
        {**SERVERS, "subscribepattern": "a.*"},
        {**SERVERS, "assign": "{"},
        {**SERVERS, "subscribe": " , "},
        {"kafka.bootstrap.servers": "user:pw@b1", "subscribe": "a"},
        {"kafka.bootstrap.servers": "(hidden)", "subscribe": "a"},
    ],
)
def test_topics_that_are_not_known_are_told(options: dict[str, str]) -> None:
    found = read("kafka", None, options)
    assert (found.inputs, found.unnamed) == ((), ("q/s (kafka)", "q (noop)"))


def test_files_and_tables() -> None:
    assert read("json", "file:/in").inputs == (Named("file", "/in"),)
    assert read("org.apache.spark.sql.execution.datasources.v2.parquet.ParquetFileFormat", "/in").inputs
    assert read("delta", "s3a://b/t").inputs == (Named("s3://b", "t"),)
    assert written("delta", "file:/out", path="out").outputs == (Named("file", "/out"),)
    assert written("parquet", None, path="/out").outputs == (Named("file", "/out"),)  # a plan from before locations
    assert read("iceberg", "/warehouse/db/t").inputs == (Named("file", "/warehouse/db/t"),)
    hadoop = {"spark.sql.catalog.lake.type": "hadoop", "spark.sql.catalog.lake.warehouse": "s3a://b/wh/"}
    assert read("iceberg", "lake.db.t", given=hadoop).inputs == (Named("s3://b", "wh/db/t"),)


@pytest.mark.parametrize(
    "given", [{}, {"spark.sql.catalog.lake.type": "rest", "spark.sql.catalog.lake.warehouse": "/w"}]
)
def test_a_table_that_only_its_catalog_knows_is_told(given: dict[str, str]) -> None:
    found = read("iceberg", "lake.db.t", given=given)
    assert (found.inputs, found.unnamed) == ((), ("q/s (iceberg)", "q (noop)"))


@pytest.mark.parametrize("format", ["rate", "socket", "foreachBatch", "console", "memory", "x.y.Custom", ""])
def test_what_has_no_name_is_told(format: str) -> None:
    assert read(format, "h:1").unnamed == (f"q/s ({format})", "q (noop)")
    assert written(format).unnamed == (f"q ({format})",)


def test_a_source_of_two_queries_is_one_dataset_with_its_columns() -> None:
    source = SourcePlan(
        name="s",
        named=True,
        format="json",
        location="/in",
        columns={"n": "long", "k": "string", "at": {"type": "array", "elementType": "integer", "containsNull": True}},
        order=("k", "n", "at"),
    )
    one = plan(source).queries[0]
    found = flow_of(AppPlan(app="alarm", spark_version="4.3.0", queries=(one, one)))
    assert found.inputs == (Named("file", "/in"),)
    assert found.inputs[0].fields == (("k", "string"), ("n", "bigint"), ("at", "array<int>"))


def test_the_names_are_those_of_openlineages_own_library() -> None:
    naming = pytest.importorskip("openlineage.client.naming.dataset", reason="openlineage-python is not installed")
    for mine, its in (
        (at("/a/b"), naming.LocalFileSystem("/a/b")),
        (at("file://h/a"), naming.RemoteFileSystem("h", "/a")),
        (at("s3a://b/k/l"), naming.S3("b", "k/l")),
        (at("gs://b/k"), naming.GCS("b", "k")),
        (at("hdfs://nn:8020/a"), naming.HDFS("nn", "8020", "/a")),
        (at("abfss://c@acc.dfs.core.windows.net/a"), naming.ABFSS("c", "acc", "a")),
        (written("kafka", topic="t", **SERVERS).outputs[0], naming.Kafka("b1", "9092", "t")),
    ):
        assert mine is not None and (mine.namespace, mine.name) == (its.get_namespace(), its.get_name())
