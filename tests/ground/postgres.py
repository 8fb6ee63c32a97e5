"""An Airflow whose metadata database is PostgreSQL: an update under load through its DAG, a release that a Variable
describes, the periodic snapshots, and the page. Records go through the app all the while."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_streamupdate.control.waiting import wait_for
from tests.e2e.ground import SPARK_SUBMIT  # scripts/ is on the path from there on

from .postgres_server import postgres_server
from .records import Record, Records

from demolib.airflow_server import AirflowServer  # isort: skip

UPDATE, RELEASE, MAINTENANCE = "stream_update", "stream_release", "stream_maintenance"
PATIENCE = 1800.0  # seconds, for drivers that start beside an Airflow and a load
IN_DATABASE = "in_database"  # a connection that is not in the environment


class OnPostgres(Records):
    """An app whose root an Airflow knows. Each file brings new records and those of the file before: version 2 passes
    them on again unless it has the state of version 1, which is another operator's by then."""

    source_file = Path(__file__).with_name("standalone_app.py")
    feed_seconds = 2.0
    patience = PATIENCE

    def __init__(self, folder: Path, database: str) -> None:
        super().__init__(folder, ("files",), {})
        patience = {"submit_timeout": PATIENCE, "drain_timeout": PATIENCE}
        extra = {"root": str(self.root), "spark_submit": SPARK_SUBMIT, "defaults": json.dumps(patience)}
        self.connection = {"conn_type": "streamupdate", "extra": extra}
        self.airflow = AirflowServer(
            folder / "airflow",
            {
                "UP_DATABASE": f"postgresql+psycopg2://{database}",
                "UP_PYTHONPATH": os.environ["PYTHONPATH"],  # scripts/ground.sh set it
                "UP_TIMEOUT": f"{PATIENCE:.0f}",
                "AIRFLOW_CONN_STREAMUPDATE_DEFAULT": json.dumps(self.connection),
            },
        )

    def put_file(self, name: str, rows: list[Record]) -> None:
        super().put_file(name, [*rows, *self.records[-self.new_in_file :]])

    def start_airflow(self) -> None:
        self.airflow.start()
        wait_for(lambda: self.airflow.ready() or None, "Airflow", PATIENCE)
        for dag in (UPDATE, RELEASE, MAINTENANCE):
            wait_for(lambda dag=dag: self.airflow.has_dag(dag) or None, f"DAG {dag}", PATIENCE)

    def run(self, dag: str, conf: Mapping[str, Any], expected: str = "success") -> str:
        """Run it to its end; the run's id."""
        run = self.airflow.trigger(dag, conf)

        def ended() -> str | None:
            state = self.airflow.run_state(dag, run)
            return state if state in ("success", "failed") else None

        state = wait_for(ended, f"the run of {dag}", PATIENCE)
        tasks = self.airflow.task_states(dag, run)
        print(f"{dag}: {state}: {tasks}")
        logs = [self.airflow.task_log(dag, run, task) for task, state in tasks.items() if state == "failed"]
        assert state == expected, "\n".join(logs)
        return run

    def end(self) -> None:
        try:
            self.airflow.stop()
        finally:
            super().end()


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[OnPostgres]:
    with postgres_server() as database:
        made = OnPostgres(tmp_path, database)
        yield made
        made.end()


@pytest.mark.timeout(7200)
def test_an_airflow_on_postgresql_updates_an_app_under_load(ground: OnPostgres) -> None:
    ground.start_airflow()
    ground.write()
    ground.client.submit(ground.of_version(1), "one", app=ground.app, timeout=PATIENCE)
    ground.wait_for_all()
    assert list((ground.airflow.home).glob("*.db")) == []  # what it keeps is in PostgreSQL
    ground.feed()
    update_by_hand(ground)
    refuse_what_json_cannot_say(ground)
    release_what_a_variable_describes(ground)
    take_the_periodic_snapshots(ground)
    ground.settle()
    ground.check("files", ground.file_sink())
    assert [s.parent for s in ground.client.deployments(ground.app)] == [None, "one", "two"]
    assert len(ground.drivers()) == 1


def update_by_hand(ground: OnPostgres) -> None:
    """Version 2 takes over while records go on coming; the page tells of both, and of the run."""
    before = ground.written
    version = ground.of_version(2)
    asked = {"app": ground.app, "application": version.file, "deployment_id": "two"}
    run = ground.run(UPDATE, {**asked, "parameters": dict(version.params), "spark_conf": dict(version.conf)})
    record = ground.client.registry.app(ground.app).update("two")
    print(f"files written meanwhile: {ground.written - before}; pause {record.pause_seconds}")
    assert ground.written > before and record.outcome == "promoted"

    ground.airflow.request("POST", "connections", in_database(ground.connection))
    listed = ground.airflow.page("apps")
    assert [(c["conn_id"], c["error"]) for c in listed["connections"]] == [
        (IN_DATABASE, None),
        ("streamupdate_default", None),
    ]
    assert [(a["conn_id"], a["app"]) for a in listed["apps"]] == [
        (IN_DATABASE, ground.app),
        ("streamupdate_default", ground.app),
    ]
    for connection in (IN_DATABASE, "streamupdate_default"):
        (shown,) = ground.airflow.page(f"apps/{connection}/{ground.app}")["runs"]
        assert (shown["run_id"], shown["deployment"], shown["state"]) == (run, "two", "success")


def in_database(connection: Mapping[str, Any]) -> dict[str, Any]:
    return {**connection, "connection_id": IN_DATABASE, "extra": json.dumps(connection["extra"])}


def refuse_what_json_cannot_say(ground: OnPostgres) -> None:
    """A version whose error has a NUL in it, which PostgreSQL's JSON has not: it reaches the database all the same. And
    one whose new key has a NUL in its expression: the report spells it out."""
    version = Path(ground.version(2)).read_text()
    start = "return df.writeStream"
    key = """.dropDuplicates(["id", "k"])"""
    keyed = """.withColumn("key", F.concat("k", F.lit("\\0"))).dropDuplicates(["id", "key"])"""
    for deployment, old, new, told, task, keys in (
        ("dies", start, f'raise ValueError("no row \\0 here")\n    {start}', "no row \ufffd here", "plan", ("error",)),
        ("nul", key, keyed, r"'\x00'", "check", ("report", "report_markdown", "error")),
    ):
        assert old in version
        file = ground.folder / f"{deployment}.py"
        file.write_text(version.replace(old, new))
        given = {"parameters": dict(ground.given), "spark_conf": dict(ground.conf), "deployment_id": deployment}
        run = ground.run(UPDATE, {"app": ground.app, "application": str(file), **given}, "failed")
        left = f"dags/{UPDATE}/dagRuns/{run}/taskInstances/update.{task}/xcomEntries"
        for entry in keys:
            value = ground.airflow.request("GET", f"{left}/{entry}")["value"]
            assert told in str(value).replace("\\\\", "\\"), (entry, value)
            assert "\\u0000" not in json.dumps(value), (entry, value)
        record = ground.client.registry.app(ground.app).update(deployment)
        assert (record and record.outcome) == (None if task == "plan" else "refused")


def release_what_a_variable_describes(ground: OnPostgres) -> None:
    """The same code with another parameter; run again, there is nothing left to do. (The DAG's schedule begins with its
    first run, and may be the one that releases.)"""
    version = ground.of_version(2)
    params = {**version.params, "release": "second"}
    described = {"app": ground.app, "application": version.file, "app_params": params, "conf": dict(version.conf)}
    ground.airflow.request("POST", "variables", {"key": "streamupdate_release", "value": json.dumps(described)})
    for _ in range(2):
        ground.run(RELEASE, {})


def take_the_periodic_snapshots(ground: OnPostgres) -> None:
    before = {s.name for s in ground.client.snapshots(ground.app)}
    ground.run(MAINTENANCE, {})
    taken = {s.name for s in ground.client.snapshots(ground.app)} - before
    assert 1 <= len(taken) <= 2  # the schedule's first run may have taken one, too
    assert all(name.startswith("periodic-") for name in taken)
